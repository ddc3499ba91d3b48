/**
 * Decodes answers made of content blocks, as the Messages API and Converse return them, streamed or whole. Each block
 * becomes one part.
 *
 * **Details**
 *
 * A stream identifies a block by its index. The arguments of a tool call are passed on as they arrive and are parsed
 * when the block stops. Protocol-specific data about thinking (signatures, opaque data) becomes metadata when the block
 * stops.
 *
 * Source: `hermes-llm.md` §4.2, §4.4.
 */
import * as Result from "effect/Result"
import type * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Json from "../../base/domain/Json.ts"
import {
  type ModelResponse,
  makeParamsDelta,
  makeReasoningDelta,
  type StreamPart,
  makeTextDelta
} from "../../base/domain/ModelCall.ts"
import * as SdkError from "./SdkError.ts"
import * as ToolCallWire from "./ToolCallWire.ts"

const finishReasons: Readonly<Record<string, Response.FinishReason>> = {
  end_turn: "stop",
  stop_sequence: "stop",
  tool_use: "tool-calls",
  max_tokens: "length",
  model_context_window_exceeded: "length",
  refusal: "content-filter",
  guardrail_intervened: "content-filter",
  content_filtered: "content-filter"
}

/** Converts a stop reason from the API to a finish reason. An unknown stop reason becomes `stop`. */
const toFinishReason = (stopReason: unknown): Response.FinishReason => {
  const name = Json.readWord(stopReason)
  return Object.hasOwn(finishReasons, name) ? (finishReasons[name] ?? "stop") : "stop"
}

/** Returns a reasoning part, or an empty array if there is neither text nor metadata. */
export const makeReasoning = (
  text: string,
  metadata: Response.ProviderMetadata
): ReadonlyArray<Response.ReasoningPart> =>
  text === "" && Object.keys(metadata).length === 0 ? [] : [Response.makePart("reasoning", { text, metadata })]

/** Returns a text part, or an empty array if the text is empty. */
export const makeText = (text: string): ReadonlyArray<Response.TextPart> =>
  text === "" ? [] : [Response.makePart("text", { text })]

const makeCall = (id: string, name: string, params: unknown) =>
  Response.makePart("tool-call", { id, name, params, providerExecuted: false })

/** Creates a tool call; `input` has the form that the API sends. */
export const makeToolCall = (id: string, name: string, input: unknown) =>
  makeCall(id, name, ToolCallWire.fromWire(input))

/**
 * Creates the response from the content of a body. Fails if the body has neither content nor a stop reason, or if its
 * stop reason is a tool call but it contains no tool call.
 */
export const makeResponse = (
  {
    content,
    stopReason,
    ...rest
  }: Omit<ModelResponse, "parts" | "finishReason"> & {
    readonly content: ReadonlyArray<unknown>
    readonly stopReason: unknown
  },
  context: SdkError.Context,
  toPart: (block: Json.Fields, index: number) => ModelResponse["parts"]
): Result.Result<ModelResponse, AiError.AiError> => {
  const stopped = Json.readWord(stopReason)
  if (content.length === 0 && (stopped === "" || stopped === "tool_use"))
    return SdkError.failInvalidBody(rest.raw, context)("the answer has no content")
  return Result.succeed({
    parts: content.flatMap((block, index) => toPart(Json.readFields(block), index)),
    finishReason: toFinishReason(stopReason),
    ...rest
  })
}

type Block<Thought> =
  | { readonly kind: "text" }
  | { readonly kind: "thought"; readonly thought: Thought }
  /** `input` is the complete input if it arrived with the start of the block, as some gateways send it. */
  | { readonly kind: "call"; readonly id: string; readonly name: string; readonly input: unknown; json: string }

/** Holds the open blocks of a stream, and the parts created since the last {@link BlockStream.take}. */
export interface BlockStream<Thought> {
  /** Opens a text, thought or call block. The new block replaces an open block with the same index. */
  readonly openText: (index: number) => void
  readonly openThought: (index: number, thought: Thought, metadata?: Response.ProviderMetadata) => void
  readonly openCall: (index: number, id: string, name: string, input: unknown) => void
  /** Adds a piece to the open block at the index; ignored if that block has another kind. */
  readonly addText: (index: number, piece: string) => void
  readonly addThought: (index: number, piece: string) => void
  readonly addInput: (index: number, piece: string) => void
  /** Returns the state of the open thought at the index. The state holds the thought's data other than its text. */
  readonly thought: (index: number) => Thought | undefined
  readonly stop: (index: number) => void
  readonly push: (part: StreamPart) => void
  /** Ends the answer. Later calls have no effect. */
  readonly finish: (stopReason: unknown, usage: Response.Usage) => void
  readonly isFinished: () => boolean
  /** Tests whether the block at the index is open, or any block if no index is given. */
  readonly isOpen: (index?: number) => boolean
  readonly take: () => ReadonlyArray<StreamPart>
}

/** Returns the parts that end a block. */
const endBlock = <Thought>(
  id: string,
  block: Block<Thought>,
  readMetadata: (thought: Thought) => Response.ProviderMetadata
): ReadonlyArray<StreamPart> => {
  switch (block.kind) {
    case "text":
      return [Response.makePart("text-end", { id })]
    case "thought":
      return [Response.makePart("reasoning-end", { id, metadata: readMetadata(block.thought) })]
    case "call": {
      const input = block.json === "" ? ToolCallWire.fromWire(block.input) : Assembler.parseParams(block.json)
      return [Response.makePart("tool-params-end", { id: block.id }), makeCall(block.id, block.name, input)]
    }
  }
}

/**
 * Creates the state of a stream that has no blocks yet. `readMetadata` returns the metadata of a thought when its block
 * stops.
 */
export const makeBlockStream = <Thought>(
  readMetadata: (thought: Thought) => Response.ProviderMetadata
): BlockStream<Thought> => {
  const open = new Map<number, Block<Thought>>()
  let out: Array<StreamPart> = []
  let finished = false

  const openBlock = (index: number, block: Block<Thought>, part: StreamPart): void => {
    open.set(index, block)
    out.push(part)
  }

  return {
    openText: (index) => openBlock(index, { kind: "text" }, Response.makePart("text-start", { id: String(index) })),
    openThought: (index, thought, metadata) =>
      openBlock(
        index,
        { kind: "thought", thought },
        Response.makePart("reasoning-start", { id: String(index), ...(metadata === undefined ? {} : { metadata }) })
      ),
    openCall: (index, id, name, input) =>
      openBlock(
        index,
        { kind: "call", id, name, input, json: "" },
        Response.makePart("tool-params-start", { id, name, providerExecuted: false })
      ),
    addText: (index, piece) => {
      if (piece !== "" && open.get(index)?.kind === "text") out.push(makeTextDelta(String(index), piece))
    },
    addThought: (index, piece) => {
      if (piece !== "" && open.get(index)?.kind === "thought") out.push(makeReasoningDelta(String(index), piece))
    },
    addInput: (index, piece) => {
      const block = open.get(index)
      if (block?.kind !== "call" || piece === "") return
      block.json += piece
      out.push(makeParamsDelta(block.id, piece))
    },
    thought: (index) => {
      const block = open.get(index)
      return block?.kind === "thought" ? block.thought : undefined
    },
    stop: (index) => {
      const block = open.get(index)
      if (block === undefined) return
      open.delete(index)
      out.push(...endBlock(String(index), block, readMetadata))
    },
    push: (part) => void out.push(part),
    finish: (stopReason, usage) => {
      if (finished) return
      finished = true
      out.push(Response.makePart("finish", { reason: toFinishReason(stopReason), usage, response: undefined }))
    },
    isFinished: () => finished,
    isOpen: (index) => (index === undefined ? open.size > 0 : open.has(index)),
    take: () => {
      const parts = out
      out = []
      return parts
    }
  }
}
