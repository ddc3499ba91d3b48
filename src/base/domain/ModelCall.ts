/**
 * Requests to a model and its answers, in no provider's dialect: the vocabulary that providers, middleware,
 * routing and the loop share.
 *
 * **Example** (What a provider is asked)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Prompt from "effect/ai/Prompt"
 * import { type ModelCall, Offline } from "hermes-effect"
 *
 * const call: ModelCall.ModelCall = {
 *   messages: [Prompt.makeMessage("user", { content: [Prompt.makePart("text", { text: "Reply exactly hello" })] })],
 *   tools: [],
 *   toolChoice: "auto",
 *   responseFormat: { type: "text" },
 *   stream: false
 * }
 *
 * const program = Effect.gen(function*() {
 *   const provider = yield* Offline.make()
 *   const response = yield* provider.execute(yield* provider.prepare(call))
 *   return response.parts.flatMap((part) => part.type === "text" ? [part.text] : [])
 * })
 *
 * console.log(await Effect.runPromise(program))
 * // => [ 'hello' ]
 * ```
 *
 * Source: `ARCHITECTURE.md` §5 and §6, `hermes-llm.md` §4.
 */
import type { Anthropic } from "@anthropic-ai/sdk"
import type { ConverseStreamCommandInput } from "@aws-sdk/client-bedrock-runtime"
import type { OpenAI } from "openai"
import type * as Effect from "effect/Effect"
import type * as JsonSchema from "effect/JsonSchema"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type { ApiMode } from "./ApiMode.ts"

/** The description of a tool that a model receives. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema of the arguments, an object schema. */
  readonly parameters: JsonSchema.JsonSchema
}

/** Tools that the model may or must call. */
export type ToolChoice = "auto" | "none" | "required" | { readonly tool: string }

/** The form that the answer must have. `schema` is JSON Schema. */
export type ResponseFormat =
  | { readonly type: "text" }
  | { readonly type: "json"; readonly name: string; readonly schema: JsonSchema.JsonSchema }

/**
 * Effort of the model's thinking (`hermes-llm.md` §14.1). `none` turns thinking off; absent is the provider's default.
 */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh"

/**
 * Time for which a provider caches a marked prefix since its last use: five minutes, or an hour, which costs more to
 * write.
 */
export interface PromptCache {
  readonly ttl: "5m" | "1h"
}

/**
 * Results of tools that a provider leaves out of its prompt once that is long; the conversation itself stays as it is.
 */
export interface ContextEdits {
  /** Share of the context window from which on results are left out, 0 to 1. */
  readonly threshold: number
  /** Newest results that are never left out. */
  readonly keepResults: number
}

/**
 * One question to a model, in no provider's dialect.
 *
 * **Gotchas**
 *
 * `messages` may be the live array of a run that grows after the call: a provider reads it in `prepare` and may retain
 * message objects (which never change), but not the array. It converts each message once and caches the result by the
 * object.
 */
export interface ModelCall {
  /** System messages first, then the conversation. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /** The same array as long as the tools are the same, so that their wire form is made once. */
  readonly tools: ReadonlyArray<ToolDefinition>
  readonly toolChoice: ToolChoice
  readonly responseFormat: ResponseFormat
  /** Asks for the answer in pieces. */
  readonly stream: boolean
  readonly maxOutputTokens?: number | undefined
  /** Tokens that the model's window holds, where that is known; no answer is allowed to be longer. */
  readonly contextWindow?: number | undefined
  readonly temperature?: number | undefined
  /**
   * Seed of the provider's draws, on routes whose protocol has one (`ApiMode.canTakeSeed`). The same answer again is
   * not promised.
   */
  readonly seed?: number | undefined
  readonly reasoningEffort?: ReasoningEffort | undefined
  /**
   * Marks the prefix for the provider's prompt cache, on routes that take marks; for calls that others of the
   * conversation follow.
   */
  readonly cache?: PromptCache | undefined
  /** Has the provider leave out old results of tools, on routes with the ability (`Route.Abilities.compaction`). */
  readonly contextEdits?: ContextEdits | undefined
  /** Asks for an encrypted form of the conversation in place of an answer; for routes with the ability alone. */
  readonly compact?: boolean | undefined
  /** Id of the conversation, the same over its compactions, for providers that key their prompt cache by it. */
  readonly conversationId?: string | undefined
}

/**
 * The provider's own request, whole. `extra_body`, `extra_headers` and `extra_query` are merged into the wire request.
 */
export interface ModelRequest {
  readonly [key: string]: unknown
}

/** Requests in the types of the official SDKs, by protocol. */
export interface RequestBodies {
  readonly chat_completions: OpenAI.ChatCompletionCreateParams
  readonly anthropic_messages: Anthropic.MessageCreateParams
  readonly codex_responses: OpenAI.Responses.ResponseCreateParams
  readonly bedrock_converse: ConverseStreamCommandInput & { readonly stream?: boolean }
  /** For an `effect/ai` `LanguageModel`: `prompt` and `tools` are encoded. */
  readonly language_model: { readonly prompt: unknown; readonly tools?: unknown; readonly tool_choice?: unknown }
}

/** A request in one protocol; members that the SDK does not know are `unknown`. */
export type RequestBody<Mode extends ApiMode> = RequestBodies[Mode] & ModelRequest

/**
 * A request with its protocol: a comparison of `apiMode` narrows it to the SDK's type. `apiMode` is not listed among
 * its keys.
 */
export type TypedRequest = { readonly [Mode in ApiMode]: RequestBody<Mode> & { readonly apiMode: Mode } }[ApiMode]

/** A part of an answer. A tool call's `params` is the parsed JSON, or its raw text where that is not JSON. */
export type ContentPart =
  | Response.TextPart
  | Response.ReasoningPart
  | Response.ToolCallPart<string, unknown>
  | Response.FilePart

/** A piece of a streamed answer. Ids group the pieces of one part; `finish` comes last, once. */
export type StreamPart =
  | Response.TextStartPart
  | Response.TextDeltaPart
  | Response.TextEndPart
  | Response.ReasoningStartPart
  | Response.ReasoningDeltaPart
  | Response.ReasoningEndPart
  | Response.ToolParamsStartPart
  | Response.ToolParamsDeltaPart
  | Response.ToolParamsEndPart
  | Response.ToolCallPart<string, unknown>
  | Response.FilePart
  | Response.ResponseMetadataPart
  | Response.FinishPart

/** A whole answer. */
export interface ModelResponse {
  readonly parts: ReadonlyArray<ContentPart>
  readonly finishReason: Response.FinishReason
  readonly usage: Response.Usage
  /** US dollars that the API reports as the cost of the answer; absent if it reports no cost. */
  readonly reportedCost?: number | undefined
  /** The model that answered, as the API names it. */
  readonly model: string | undefined
  /** The API's id of the answer. */
  readonly id: string | undefined
  /** The body in the form of the provider's `apiMode`. Of a streamed answer it is put together on first use. */
  readonly raw: unknown
}

/** Receives the pieces of a streamed answer and returns the pieces to pass on; see `ARCHITECTURE.md` §6. */
export type OnPart = (parts: ReadonlyArray<StreamPart>) => Effect.Effect<ReadonlyArray<StreamPart>>

/**
 * Result of an `onPart` that holds the parts back: nothing is passed on, and the next call receives them again before
 * the new ones and decides on all of them. Parts held at the end wait for the wrapper's decision on the answer.
 */
export const hold: ReadonlyArray<StreamPart> = Object.freeze([])

/** Receives the headers of an answer when it begins; names are in lower case. */
export type OnHeaders = (get: (name: string) => string | null | undefined) => Effect.Effect<void>

/** Options of one execution. */
export interface ExecuteOptions {
  readonly onPart?: OnPart | undefined
  /**
   * Called by the router when it repeats the call after an answer broke off: with true if the text that was passed on
   * stays and the rest of it follows, with false if all of it is discarded.
   */
  readonly onRetry?: ((continues: boolean) => void) | undefined
  /** For providers over HTTP; others have no headers to report. */
  readonly onHeaders?: OnHeaders | undefined
}

/** The same answer with other parts; its `raw` stays what the provider sent. */
export const withParts = (
  response: ModelResponse,
  parts: ReadonlyArray<ContentPart>,
  finishReason: Response.FinishReason = response.finishReason
): ModelResponse => ({
  parts,
  finishReason,
  usage: response.usage,
  model: response.model,
  id: response.id,
  get raw() {
    return response.raw
  }
})

const partType = "~effect/ai/Response/Part"
const noMetadata: Response.ProviderMetadata = Object.freeze({})

// One of these is made for each piece of an answer: literals of one shape, without the copies of `makePart`.

/** A piece of text. */
export const makeTextDelta = (id: string, delta: string): Response.TextDeltaPart => ({
  [partType]: partType,
  type: "text-delta",
  id,
  delta,
  metadata: noMetadata
})

/** A piece of reasoning. */
export const makeReasoningDelta = (id: string, delta: string): Response.ReasoningDeltaPart => ({
  [partType]: partType,
  type: "reasoning-delta",
  id,
  delta,
  metadata: noMetadata
})

/** A piece of the JSON text of arguments. */
export const makeParamsDelta = (id: string, delta: string): Response.ToolParamsDeltaPart => ({
  [partType]: partType,
  type: "tool-params-delta",
  id,
  delta,
  metadata: noMetadata
})
