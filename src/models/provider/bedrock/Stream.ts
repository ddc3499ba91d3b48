/**
 * Converts the events of a ConverseStream answer to parts.
 *
 * **Details**
 *
 * Each content block is one part, grouped by the block's index; a text part begins with its first piece, because
 * Converse announces only tool calls. `messageStop` contains the stop reason and `metadata` the usage. The `metadata`
 * event finishes the answer. If that event is missing, the end of the stream finishes it.
 *
 * The AWS SDK decodes one event after the other without leaving the microtask queue while it has bytes.
 * {@link batchEvents} returns all events that are available without waiting for the network as one array, so that they
 * are processed once for each read of the socket. An array ends at the next turn of the event loop. At most one event
 * is read ahead.
 *
 * Source: `hermes-llm.md` §4.4.
 */
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Json from "../../../base/domain/Json.ts"
import type { StreamPart } from "../../../base/domain/ModelCall.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as BlockAnswers from "../BlockAnswers.ts"
import * as SdkError from "../SdkError.ts"
import type * as StreamMachine from "../StreamMachine.ts"
import * as Decode from "./Decode.ts"

// Batches

/** Reader that returns events in non-empty arrays. */
interface Batches<A> {
  readonly next: () => Promise<ReadonlyArray<A> | undefined>
}

const waitForTurn = (): Promise<"turn"> => new Promise((resolve) => setImmediate(() => resolve("turn")))

/**
 * Returns a reader of a stream's events. `next` returns `undefined` after the last array; the failure of a stream is
 * reported after its last array.
 */
export const batchEvents = <A>(stream: AsyncIterable<A>): Batches<A> => {
  const iterator = stream[Symbol.asyncIterator]()
  let pending: Promise<IteratorResult<A>> | undefined
  return {
    next: async () => {
      const first = await (pending ?? iterator.next())
      pending = undefined
      if (first.done === true) return undefined
      const batch = [first.value]
      const over = waitForTurn()
      while (pending === undefined) {
        const coming = iterator.next()
        const settled = await Promise.race([
          coming.then(
            (item) => (item.done === true ? "done" : item),
            () => "failed"
          ),
          over
        ])
        if (typeof settled === "string") pending = coming
        else batch.push(settled.value)
      }
      return batch
    }
  }
}

// Machine

/** A {@link StreamMachine.StreamMachine} for events that the SDK has already decoded. */
interface Machine extends Omit<StreamMachine.StreamMachine, "step" | "end"> {
  readonly step: (events: ReadonlyArray<unknown>) => ReadonlyArray<StreamPart>
  readonly end: () => ReadonlyArray<StreamPart>
}

interface Thought {
  signature: string
  redacted: Uint8Array | undefined
}

/**
 * Creates a state machine for a new stream. A stream contains neither the model nor an id: the model is taken from the
 * request, the id from the response headers.
 */
export const make = (context: SdkError.Context, requestId: string | undefined): Machine => {
  const blocks = BlockAnswers.makeBlockStream<Thought>(Decode.makeReasoningMetadata)
  let stopReason = ""
  let usage: Json.Fields = {}
  let failure: AiError.AiError | undefined

  const finishAnswer = (): void => blocks.finish(stopReason, Decode.decodeUsage(usage))

  const addReasoning = (index: number, change: Json.Fields): void => {
    if (!blocks.isOpen(index)) blocks.openThought(index, { signature: "", redacted: undefined })
    const thought = blocks.thought(index)
    if (thought === undefined) return
    thought.signature += Json.readWord(change["signature"])
    const redacted = Decode.toBytes(change["redactedContent"])
    if (redacted !== undefined) {
      thought.redacted = thought.redacted === undefined ? redacted : Uint8Array.of(...thought.redacted, ...redacted)
    }
    blocks.addThought(index, Json.readWord(change["text"]))
  }

  const startBlock = (index: number, block: Json.Fields): void => {
    if (!Json.isFields(block["toolUse"])) return
    const { name, toolUseId } = block["toolUse"]
    blocks.openCall(index, Decode.chooseCallId(toolUseId, index), Json.readWord(name), undefined)
  }

  const sources = AnswerSources.makeList()

  const applyDelta = (index: number, change: Json.Fields): void => {
    if (typeof change["text"] === "string") {
      if (!blocks.isOpen(index)) blocks.openText(index)
      blocks.addText(index, change["text"])
    } else if (Json.isFields(change["citation"])) sources.add([change["citation"]])
    else if (Json.isFields(change["reasoningContent"])) addReasoning(index, change["reasoningContent"])
    else if (Json.isFields(change["toolUse"])) blocks.addInput(index, Json.readWord(change["toolUse"]["input"]))
  }

  const handleEvent = (fields: Json.Fields): void => {
    const { contentBlockDelta, contentBlockStart, contentBlockStop, messageStart, messageStop, metadata } = fields
    const readBlockIndex = (block: Json.Fields): number => Number(block["contentBlockIndex"] ?? 0)
    if (Json.isFields(contentBlockDelta))
      applyDelta(readBlockIndex(contentBlockDelta), Json.readFields(contentBlockDelta["delta"]))
    else if (Json.isFields(contentBlockStart))
      startBlock(readBlockIndex(contentBlockStart), Json.readFields(contentBlockStart["start"]))
    else if (Json.isFields(contentBlockStop)) blocks.stop(readBlockIndex(contentBlockStop))
    else if (messageStart !== undefined) {
      blocks.push(
        Response.makePart("response-metadata", { id: requestId, modelId: context.model, timestamp: undefined })
      )
    } else if (Json.isFields(messageStop)) stopReason = Json.readWord(messageStop["stopReason"])
    else if (Json.isFields(metadata)) {
      usage = Json.readFields(metadata["usage"])
      if (stopReason !== "") finishAnswer()
    }
  }

  return {
    step: (events) => {
      for (const one of events) handleEvent(Json.readFields(one))
      return blocks.take()
    },
    end: () => {
      if (stopReason === "") failure = SdkError.makeCutStreamError(context)
      else finishAnswer()
      return blocks.take()
    },
    sources: sources.list,
    failure: () => failure,
    body: (parts) => Decode.encode({ parts, stopReason, usage, requestId })
  }
}
