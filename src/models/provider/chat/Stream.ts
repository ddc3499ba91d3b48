/**
 * Converts the events of a streamed chat completion to parts.
 *
 * **Details**
 *
 * Reasoning and text are separate parts. Each ends when another part begins. Tool calls end with the stream, because
 * the protocol does not signal that a call is complete. Usage is taken from the last chunk that contains it.
 *
 * - A fragment belongs to the call with the same index. If the server omits the index, it belongs to the call with the
 *   same id, otherwise to the last call. A new id with a name on a used index starts a new call. Names are assigned,
 *   arguments concatenated. A call is announced as soon as its id and name are known; if a call never gets an id, one
 *   is derived at the end of the stream.
 * - Pieces of `reasoning_details` are joined if their type and index are the same, or if they follow each other without
 *   an index. Text, summary and data are concatenated; of every other field the last value is used, so that a signature
 *   that arrives at the end is attached to its text. Blocks that arrive after their reasoning, such as signatures of
 *   tool calls, create a separate empty reasoning part.
 * - A stream is complete if it contained a finish reason or ended with `[DONE]`; otherwise the answer was cut off.
 *
 * Source: `hermes-llm.md` §4.1, §14.3, §15.5.
 */
import * as Option from "effect/Option"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type * as Schema from "effect/Schema"
import * as Assembler from "../../../base/domain/Assembler.ts"
import * as Json from "../../../base/domain/Json.ts"
import { makeReasoningDelta, type StreamPart, makeTextDelta } from "../../../base/domain/ModelCall.ts"
import * as AnswerSources from "../AnswerSources.ts"
import * as SdkError from "../SdkError.ts"
import type { SseEvent } from "../SseReader.ts"
import type * as StreamMachine from "../StreamMachine.ts"
import * as ThinkTags from "../ThinkTags.ts"
import * as Decode from "./Decode.ts"
import { type CallSlots, makeCallSlots } from "./CallSlots.ts"

// Reasoning details

const grows = new Set(["text", "summary", "data"])

const mergePiece = (block: Json.Fields, piece: Json.Fields): Json.Fields => {
  const out: Record<string, unknown> = { ...block }
  for (const [name, value] of Object.entries(piece)) {
    const before = out[name]
    if (value === null || value === undefined) continue
    out[name] = grows.has(name) && typeof value === "string" && typeof before === "string" ? before + value : value
  }
  return out
}

const isSameBlock = (block: Json.Fields, piece: Json.Fields): boolean =>
  block["type"] === piece["type"] &&
  block["index"] === piece["index"] &&
  (block["id"] === undefined ||
    block["id"] === null ||
    piece["id"] === undefined ||
    piece["id"] === null ||
    block["id"] === piece["id"])

/** Assembles the blocks of `reasoning_details` from their pieces. */
interface DetailBlocks {
  readonly add: (pieces: ReadonlyArray<unknown>) => void
  /**
   * Removes and returns the blocks added since the previous call, or returns `undefined` if there are no new blocks.
   */
  readonly take: () => Schema.Json | undefined
}

const makeDetailBlocks = (): DetailBlocks => {
  let blocks: Array<Json.Fields> = []
  return {
    add: (pieces) => {
      for (const piece of pieces) {
        if (!Json.isFields(piece)) continue
        const at =
          piece["index"] === undefined ? blocks.length - 1 : blocks.findLastIndex((block) => isSameBlock(block, piece))
        const block = blocks[at]
        if (block !== undefined && isSameBlock(block, piece)) blocks[at] = mergePiece(block, piece)
        else blocks.push(piece)
      }
    },
    take: () => {
      const taken = Decode.toBlockMetadata(blocks)
      blocks = []
      return taken
    }
  }
}

// Text and reasoning

/** Reasoning that has not ended yet, and the part of its text that the endpoint sent as `reasoning_content`. */
interface OpenReasoning {
  readonly id: string
  text: string
  content: string | undefined
}

/** The parts of the answer: the ones that were not taken yet, and the one that is open. */
interface OpenParts {
  readonly details: DetailBlocks
  out: Array<StreamPart>
  /** Number of texts and reasonings so far. */
  count: number
  /** Id of the open text. */
  text: string | undefined
  reasoning: OpenReasoning | undefined
}

const endText = (parts: OpenParts): void => {
  if (parts.text === undefined) return
  parts.out.push(Response.makePart("text-end", { id: parts.text }))
  parts.text = undefined
}

const endReasoning = (parts: OpenParts): void => {
  const { reasoning } = parts
  if (reasoning === undefined) return
  const metadata = Decode.makeReasoningMetadata(reasoning.text, reasoning.content, parts.details.take())
  parts.out.push(Response.makePart("reasoning-end", { id: reasoning.id, metadata }))
  parts.reasoning = undefined
}

const openReasoning = (parts: OpenParts): OpenReasoning => {
  if (parts.reasoning !== undefined) return parts.reasoning
  endText(parts)
  const opened: OpenReasoning = { id: `reasoning-${parts.count++}`, text: "", content: undefined }
  parts.reasoning = opened
  parts.out.push(Response.makePart("reasoning-start", { id: opened.id }))
  return opened
}

const addReasoning = (parts: OpenParts, piece: string): void => {
  const open = openReasoning(parts)
  open.text += piece
  parts.out.push(makeReasoningDelta(open.id, piece))
}

const addText = (parts: OpenParts, piece: string): void => {
  if (parts.text === undefined) {
    endReasoning(parts)
    parts.text = `text-${parts.count++}`
    parts.out.push(Response.makePart("text-start", { id: parts.text }))
  }
  parts.out.push(makeTextDelta(parts.text, piece))
}

/** Ends the open part, and adds details that arrived after their reasoning. */
const endParts = (parts: OpenParts): void => {
  endReasoning(parts)
  endText(parts)
  const late = parts.details.take()
  if (late === undefined) return
  const id = `reasoning-${parts.count++}`
  const metadata = Decode.makeReasoningMetadata("", undefined, late)
  parts.out.push(Response.makePart("reasoning-start", { id }), Response.makePart("reasoning-end", { id, metadata }))
}

// Machine

/** Facts about the response, from its first chunk. */
interface ResponseHead {
  readonly id: string | undefined
  readonly model: string | undefined
  readonly created: unknown
}

/** Facts about the end of the answer so far. */
interface AnswerEnding {
  isAnswered: boolean
  isRefused: boolean
  /** The reason for the end, in the word of the endpoint. */
  word: string | undefined
  usage: unknown
}

interface StreamState {
  readonly context: SdkError.Context
  readonly calls: CallSlots
  readonly parts: OpenParts
  readonly tags: ReturnType<typeof ThinkTags.make>
  readonly sources: ReturnType<typeof AnswerSources.makeList>
  readonly ending: AnswerEnding
  head: ResponseHead | undefined
  /** True if the endpoint sends reasoning in a separate field, so that reasoning in tags is a duplicate. */
  isStructured: boolean
  failure: AiError.AiError | undefined
}

const readReasoning = (stream: StreamState, delta: Json.Fields): void => {
  const { parts } = stream
  const named = Json.readString(delta["reasoning_content"]) ?? ""
  const plain = Json.readString(delta["reasoning"]) ?? ""
  const blocks = Json.readItems(delta["reasoning_details"])
  if (named === "" && plain === "" && blocks.length === 0) return
  stream.isStructured = true
  parts.details.add(blocks)
  const pieces =
    plain === "" && named === "" ? blocks.map(Decode.readDetailText) : plain === named ? [plain] : [plain, named]
  for (const piece of pieces) {
    if (piece !== "") addReasoning(parts, piece)
  }
  if (named !== "") {
    const open = openReasoning(parts)
    open.content = (open.content ?? "") + named
  }
}

/** Reads a thought of a content list: its text, or its list of texts. */
const readThought = (thought: unknown): string =>
  Json.readString(thought) ??
  Json.readItems(thought)
    .map((one) => Json.readWord(Json.readFields(one)["text"]))
    .join("")

const readContent = (stream: StreamState, content: unknown): void => {
  const { parts, tags } = stream
  if (typeof content === "string") {
    if (content !== "") tags.read(content)
    return
  }
  for (const item of Json.readItems(content)) {
    const part = Json.readFields(item)
    const thought = part["type"] === "thinking" ? part["thinking"] : undefined
    if (thought === undefined) tags.read(Json.readString(part["text"]) ?? "")
    else {
      stream.isStructured = true
      const piece = readThought(thought)
      if (piece !== "") addReasoning(parts, piece)
    }
  }
}

const readDelta = (stream: StreamState, delta: Json.Fields): void => {
  const { calls, ending, parts, sources, tags } = stream
  sources.add(delta["annotations"])
  readReasoning(stream, delta)
  readContent(stream, delta["content"])
  const refusal = Json.readString(delta["refusal"]) ?? ""
  if (refusal !== "") {
    ending.isRefused = true
    tags.end()
    addText(parts, refusal)
  }
  const legacy = delta["function_call"]
  const fragments = Json.isFields(legacy) ? [{ index: 0, function: legacy }] : Json.readItems(delta["tool_calls"])
  if (fragments.length === 0) return
  tags.end()
  endReasoning(parts)
  endText(parts)
  calls.read(fragments, parts.out)
}

const emitMetadata = (stream: StreamState, chunk: Json.Fields): void => {
  if (stream.head !== undefined) return
  const id = Json.readString(chunk["id"])
  const model = Json.readString(chunk["model"])
  stream.head = { id, model, created: chunk["created"] }
  stream.parts.out.push(
    Response.makePart("response-metadata", {
      ...(id === undefined ? {} : { id }),
      ...(model === undefined ? {} : { modelId: model })
    })
  )
}

const readChunk = (stream: StreamState, chunk: Json.Fields): AiError.AiError | undefined => {
  const { context, ending, sources } = stream
  sources.add(chunk["citations"])
  const choice = Json.readFields(Json.readItems(chunk["choices"])[0])
  const error = chunk["error"] ?? choice["error"]
  if (error !== undefined && error !== null) return SdkError.fromBody({ ...context, body: { error } })
  emitMetadata(stream, chunk)
  if (Json.isFields(chunk["usage"])) ending.usage = chunk["usage"]
  const delta = choice["delta"] ?? choice["message"]
  if (Json.isFields(delta)) {
    ending.isAnswered = true
    readDelta(stream, delta)
  }
  const reason = choice["finish_reason"]
  if (typeof reason === "string" && reason !== "") ending.word = reason
  return undefined
}

/** Reads an event of the stream. Returns an error if it is one, or if it cannot be read. */
const readEvent = (stream: StreamState, { data, event }: SseEvent): AiError.AiError | undefined => {
  const { context } = stream
  const chunk = Option.getOrUndefined(Json.parse(data))
  if (event === "error") return SdkError.fromBody({ ...context, body: chunk ?? data })
  if (Json.isFields(chunk)) return readChunk(stream, chunk)
  return SdkError.makeInvalidResponse({
    ...context,
    description: "an event of the stream is not a JSON object",
    body: data
  })
}

const chooseFinishReason = ({ calls, ending }: StreamState): Response.FinishReason =>
  ending.isRefused ? "content-filter" : Decode.toFinishReason(ending.word, calls.size() > 0)

const flushParts = ({ parts }: StreamState): ReadonlyArray<StreamPart> => {
  const { out } = parts
  parts.out = []
  return out
}

/** Returns the error of a stream that ended without a complete answer. */
const findMissing = ({ context, ending }: StreamState, isFinished: boolean): AiError.AiError | undefined => {
  if (ending.word !== undefined) return undefined
  if (!ending.isAnswered)
    return SdkError.makeInvalidResponse({ ...context, description: "the stream ended without an answer" })
  return isFinished ? undefined : SdkError.makeCutStreamError(context)
}

const endStream = (stream: StreamState): ReadonlyArray<StreamPart> => {
  const { calls, ending, parts, tags } = stream
  tags.end()
  endParts(parts)
  calls.end(parts.out)
  parts.out.push(
    Response.makePart("finish", {
      reason: chooseFinishReason(stream),
      usage: Decode.decodeUsage(ending.usage),
      response: undefined,
      metadata: Assembler.makeCostMetadata(Decode.readCost(ending.usage))
    })
  )
  return flushParts(stream)
}

/** Creates a state machine for a new stream. */
export const make = (context: SdkError.Context): StreamMachine.StreamMachine => {
  const parts: OpenParts = { details: makeDetailBlocks(), out: [], count: 0, text: undefined, reasoning: undefined }
  const ending: AnswerEnding = { isAnswered: false, isRefused: false, word: undefined, usage: undefined }
  const stream: StreamState = {
    context,
    calls: makeCallSlots(context),
    parts,
    tags: ThinkTags.make({
      text: (piece) => addText(parts, piece),
      reasoning: (piece) => {
        if (!stream.isStructured) addReasoning(parts, piece)
      }
    }),
    sources: AnswerSources.makeList(),
    ending,
    head: undefined,
    isStructured: false,
    failure: undefined
  }
  return {
    step: (events) => {
      for (const event of events) {
        stream.failure = readEvent(stream, event)
        if (stream.failure !== undefined) break
      }
      return flushParts(stream)
    },
    end: (isFinished) => {
      if (stream.failure !== undefined) return []
      stream.failure = findMissing(stream, isFinished)
      return stream.failure === undefined ? endStream(stream) : []
    },
    sources: stream.sources.list,
    failure: () => stream.failure,
    body: (parts) =>
      Decode.encode(parts, {
        id: stream.head?.id,
        model: stream.head?.model,
        created: stream.head?.created,
        finishReason: ending.word ?? Decode.toFinishWord(chooseFinishReason(stream)),
        usage: ending.usage
      })
  }
}
