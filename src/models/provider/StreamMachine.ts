/**
 * Parts that the readers of streamed answers share: the shape of a state machine from events to parts, and the parts
 * that are made for each piece of an answer.
 */
import type * as AiError from "effect/ai/AiError"
import type { ContentPart, StreamPart } from "../../base/domain/ModelCall.ts"
import type { SseEvent } from "./SseReader.ts"

/** Takes the events of a stream in. */
export interface StreamMachine {
  /** The parts that the events of one read of the network make. */
  readonly step: (events: ReadonlyArray<SseEvent>) => ReadonlyArray<StreamPart>
  /** The stream is over, by its own last event if `finished`: the parts that were still open, and `finish`. */
  readonly end: (finished: boolean) => ReadonlyArray<StreamPart>
  /**
   * True once the protocol's own last event was read, so that nothing more need be waited for. Absent where only the
   * end of the body is the end.
   */
  readonly over?: () => boolean
  /** The failure of the stream; the parts before it have been given out. */
  readonly failure: () => AiError.AiError | undefined
  /** The equivalent body without streaming, built from the parts and from data that the parts do not contain. */
  readonly body: (parts: ReadonlyArray<ContentPart>) => unknown
}
