/** Interface shared by the readers of streamed answers: a state machine that converts events to parts. */
import type * as AiError from "effect/ai/AiError"
import type { AnswerSource, ContentPart, StreamPart } from "../../base/domain/ModelCall.ts"
import type { SseEvent } from "./SseReader.ts"

/** Converts the events of a stream to parts. */
export interface StreamMachine {
  /** Returns the parts created from the events of one network read. */
  readonly step: (events: ReadonlyArray<SseEvent>) => ReadonlyArray<StreamPart>
  /**
   * Ends the stream. Returns the parts that end the open parts, followed by the `finish` part. `finished` is true if
   * the stream ended with its own final event.
   */
  readonly end: (finished: boolean) => ReadonlyArray<StreamPart>
  /**
   * Returns true after the protocol's final event, so that no further read is needed. Omitted by protocols in which
   * only the end of the body ends the stream.
   */
  readonly over?: () => boolean
  /** Returns the sources that the answer has cited so far. Omitted by protocols without sources. */
  readonly sources?: () => ReadonlyArray<AnswerSource>
  /** Returns the failure of the stream, or `undefined`. The parts before the failure have already been returned. */
  readonly failure: () => AiError.AiError | undefined
  /**
   * Builds the body that the API would have sent without streaming. It uses the parts and data that the parts do not
   * contain.
   */
  readonly body: (parts: ReadonlyArray<ContentPart>) => unknown
}
