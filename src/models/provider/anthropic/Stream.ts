/**
 * Converts the events of a streamed answer to parts. All events of one network read are converted together.
 *
 * **Details**
 *
 * Each content block is one part, grouped by the block's index. The arguments of a tool call are passed on as they
 * arrive and are parsed when its block stops. `message_stop` calls `finishAnswer`. If a gateway never sends it, the
 * answer is accepted at the end of the stream, provided that every block has ended and a stop reason was sent. An
 * `error` event or an event that is not JSON ends the stream; the parts of earlier events have already been returned.
 *
 * Source: `hermes-llm.md` §4.2.
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Json from "../../../base/domain/Json.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as BlockAnswers from "../BlockAnswers.ts"
import * as SdkError from "../SdkError.ts"
import type * as StreamMachine from "../StreamMachine.ts"
import * as Decode from "./Decode.ts"
import * as Endpoint from "./Endpoint.ts"

interface Thought {
  signature: string
  /** False if the thinking is encrypted, so that only the API can read it. */
  readonly isReadable: boolean
}

/** Facts about the answer so far. */
interface AnswerFacts {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly stopReason: string | null
  readonly stopSequence: string | null
  readonly usage: Json.Fields
}

interface StreamState {
  readonly context: SdkError.Context
  readonly names: Endpoint.ToolNames
  readonly blocks: BlockAnswers.BlockStream<Thought>
  readonly sources: ReturnType<typeof AnswerSources.makeList>
  answer: AnswerFacts
  failure: AiError.AiError | undefined
}

const finishAnswer = (stream: StreamState): void =>
  stream.blocks.finish(stream.answer.stopReason, Decode.decodeUsage(stream.answer.usage))

const startBlock = ({ blocks, names }: StreamState, index: number, block: Json.Fields): void => {
  switch (block["type"]) {
    case "text":
      blocks.openText(index)
      blocks.addText(index, Json.readWord(block["text"]))
      break
    case "thinking":
      blocks.openThought(index, { signature: Json.readWord(block["signature"]), isReadable: true })
      blocks.addThought(index, Json.readWord(block["thinking"]))
      break
    case "redacted_thinking":
      blocks.openThought(
        index,
        { signature: "", isReadable: false },
        Decode.makeMetadata({ redacted: Json.readWord(block["data"]) })
      )
      break
    case "tool_use":
      blocks.openCall(
        index,
        Decode.chooseCallId(block["id"], index),
        names.fromWire(Json.readWord(block["name"])),
        block["input"]
      )
      break
    default:
      break
  }
}

const applyDelta = ({ blocks, sources }: StreamState, index: number, change: Json.Fields): void => {
  switch (change["type"]) {
    case "text_delta":
      blocks.addText(index, Json.readWord(change["text"]))
      break
    case "thinking_delta":
    case "signature_delta": {
      const thought = blocks.thought(index)
      if (thought?.isReadable !== true) break
      thought.signature += Json.readWord(change["signature"])
      blocks.addThought(index, Json.readWord(change["thinking"]))
      break
    }
    case "citations_delta":
      sources.add([change["citation"]])
      break
    case "input_json_delta":
      blocks.addInput(index, Json.readWord(change["partial_json"]))
      break
    default:
      break
  }
}

const handleEvent = (stream: StreamState, fields: Json.Fields): void => {
  const { blocks } = stream
  const index = typeof fields["index"] === "number" ? fields["index"] : 0
  switch (fields["type"]) {
    case "message_start": {
      const message = Json.readFields(fields["message"])
      const id = Json.readWord(message["id"]) || undefined
      const model = Json.readWord(message["model"]) || undefined
      stream.answer = { ...stream.answer, id, model, usage: Json.readFields(message["usage"]) }
      blocks.push(Response.makePart("response-metadata", { id, modelId: model, timestamp: undefined }))
      break
    }
    case "content_block_start":
      startBlock(stream, index, Json.readFields(fields["content_block"]))
      break
    case "content_block_delta":
      applyDelta(stream, index, Json.readFields(fields["delta"]))
      break
    case "content_block_stop":
      blocks.stop(index)
      break
    case "message_delta": {
      const change = Json.readFields(fields["delta"])
      const { answer } = stream
      stream.answer = {
        ...answer,
        stopReason: Json.readWord(change["stop_reason"]) || answer.stopReason,
        stopSequence: Json.readWord(change["stop_sequence"]) || answer.stopSequence,
        usage: Decode.mergeUsage(answer.usage, Json.readFields(fields["usage"]))
      }
      break
    }
    case "message_stop":
      finishAnswer(stream)
      break
    case "error":
      stream.failure = SdkError.fromBody({ ...stream.context, body: fields })
      break
    default:
      break
  }
}

/** Creates a state machine for a new stream. */
export const make = (context: SdkError.Context, names = Endpoint.sameNames): StreamMachine.StreamMachine => {
  const blocks = BlockAnswers.makeBlockStream<Thought>(({ signature }) => Decode.makeThinkingMetadata(signature))
  const sources = AnswerSources.makeList()
  const stream: StreamState = {
    context,
    names,
    blocks,
    sources,
    answer: { id: undefined, model: undefined, stopReason: null, stopSequence: null, usage: {} },
    failure: undefined
  }
  return {
    step: (events) => {
      for (const { data } of events) {
        if (stream.failure !== undefined || blocks.isFinished()) break
        const parsed = Json.parse(data)
        if (Option.isSome(parsed)) handleEvent(stream, Json.readFields(parsed.value))
        else
          stream.failure = SdkError.makeInvalidResponse({
            ...context,
            description: "an event of the stream is not JSON",
            body: data
          })
      }
      return blocks.take()
    },
    end: () => {
      if (stream.failure !== undefined) return []
      if (!blocks.isFinished() && (stream.answer.stopReason === null || blocks.isOpen()))
        stream.failure = SdkError.makeCutStreamError(context)
      else finishAnswer(stream)
      return blocks.take()
    },
    sources: sources.list,
    failure: () => stream.failure,
    body: (parts) => Decode.encode({ parts, ...stream.answer }, names)
  }
}
