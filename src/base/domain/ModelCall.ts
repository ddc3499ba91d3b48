/**
 * Requests to a model and its answers in a provider-independent form, which providers, middleware, routing and the loop
 * share.
 *
 * **Example** (A request to a provider)
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

/** The description of a tool for a model. */
export interface ToolDefinition {
  readonly name: string
  readonly description: string
  /** JSON Schema of the arguments, which is an object schema. */
  readonly parameters: JsonSchema.JsonSchema
}

/** Choice of the tools that the model may or must call. */
export type ToolChoice = "auto" | "none" | "required" | { readonly tool: string }

/** The format that the answer must have. `schema` is a JSON Schema. */
export type ResponseFormat =
  | { readonly type: "text" }
  | { readonly type: "json"; readonly name: string; readonly schema: JsonSchema.JsonSchema }

/**
 * Effort of the model's thinking (`hermes-llm.md` §14.1). `none` turns thinking off; if absent, the provider's default
 * applies.
 */
export type ReasoningEffort = "none" | "minimal" | "low" | "medium" | "high" | "xhigh"

/**
 * Options of the prompt cache. The provider caches a marked prefix for five minutes or one hour after its last use.
 * Writing to the one-hour cache costs more. OpenAI, which needs no marks, keeps the prefix for a day instead of an
 * hour.
 */
export interface PromptCache {
  readonly ttl: "5m" | "1h"
  /** `always` marks the prefix also on routes that are not known to support marks. The default is `known`. */
  readonly routes?: "known" | "always" | undefined
}

/** Rules by which a provider omits old tool results from a long prompt. The conversation itself is unchanged. */
export interface ContextEdits {
  /** Share of the context window, 0 to 1, above which results are omitted. */
  readonly threshold: number
  /** Number of the newest tool results that are never omitted. */
  readonly keepResults: number
}

/**
 * One request to a model, in a provider-independent form.
 *
 * **Gotchas**
 *
 * `messages` may be the live array of a run that grows after the call: a provider reads the array in `prepare`. It may
 * retain message objects, which never change, but not the array. The provider converts each message once and caches the
 * result by message object.
 */
export interface ModelCall {
  /** Messages of the request: system messages first, then the conversation. */
  readonly messages: ReadonlyArray<Prompt.Message>
  /**
   * Tools of the request. The array remains the same object while the tools are unchanged, so that their wire form is
   * built once.
   */
  readonly tools: ReadonlyArray<ToolDefinition>
  readonly toolChoice: ToolChoice
  readonly responseFormat: ResponseFormat
  /** Requests a streamed answer. */
  readonly stream: boolean
  readonly maxOutputTokens?: number | undefined
  /** Context window of the model, in tokens, if known; the requested answer is never longer. */
  readonly contextWindow?: number | undefined
  readonly temperature?: number | undefined
  /**
   * Sampling seed, for routes whose protocol supports it (`ApiMode.canTakeSeed`). Even with a seed, providers do not
   * guarantee identical answers.
   */
  readonly seed?: number | undefined
  readonly reasoningEffort?: ReasoningEffort | undefined
  /**
   * Marks the prefix for the provider's prompt cache, on routes that support marks. Set if more calls of the
   * conversation follow.
   */
  readonly cache?: PromptCache | undefined
  /** Makes the provider omit old tool results, on routes with the ability (`Route.Abilities.compaction`). */
  readonly contextEdits?: ContextEdits | undefined
  /**
   * Requests an encrypted form of the conversation instead of an answer; only for routes with this ability
   * (`Route.Abilities.compaction`).
   */
  readonly compact?: boolean | undefined
  /**
   * Id of the conversation, which does not change with compactions, for providers that use it as the key of their
   * prompt cache.
   */
  readonly conversationId?: string | undefined
  /** Id that conversations with the same beginning share, as the key in place of `conversationId`. */
  readonly sharedCacheId?: string | undefined
  /** Tenant of the call. The keys of its prompt caches are separate for each tenant, and do not show its name. */
  readonly cacheTenant?: string | undefined
}

/**
 * The complete request in the form of the provider. `extra_body`, `extra_headers` and `extra_query` are merged into the
 * wire request.
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
  /** Request for an `effect/ai` `LanguageModel`; `prompt` and `tools` are encoded. */
  readonly language_model: { readonly prompt: unknown; readonly tools?: unknown; readonly tool_choice?: unknown }
}

/** A request in one protocol; members that the SDK does not know are `unknown`. */
export type RequestBody<Mode extends ApiMode> = RequestBodies[Mode] & ModelRequest

/**
 * A request with its protocol. A comparison of `apiMode` narrows the request to the type of the corresponding SDK.
 * `apiMode` is not enumerable.
 */
export type TypedRequest = { readonly [Mode in ApiMode]: RequestBody<Mode> & { readonly apiMode: Mode } }[ApiMode]

/** A part of an answer. A tool call's `params` is the parsed JSON, or the raw text if it is not JSON. */
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

/** A source that an answer cites: a page, or a document by its title, its id, or its place in the request. */
export type AnswerSource =
  | { readonly type: "url"; readonly url: string; readonly title: string | undefined }
  | {
      readonly type: "document"
      readonly title: string | undefined
      readonly id: string | undefined
      /** Place among the documents of the request, from 0. */
      readonly index: number | undefined
    }

/** A whole answer. */
export interface ModelResponse {
  readonly parts: ReadonlyArray<ContentPart>
  readonly finishReason: Response.FinishReason
  readonly usage: Response.Usage
  /** Sources that the answer cites; absent if it cites none. */
  readonly sources?: ReadonlyArray<AnswerSource> | undefined
  /** Cost of the answer in US dollars, as reported by the API; absent if the API reports no cost. */
  readonly reportedCost?: number | undefined
  /** The model that answered, as the API names it. */
  readonly model: string | undefined
  /** The API's id of the answer. */
  readonly id: string | undefined
  /** The response body in the form of the provider's `apiMode`. For a streamed answer it is assembled on first use. */
  readonly raw: unknown
}

/**
 * Function that receives the pieces of a streamed answer and returns the pieces to pass on; see `ARCHITECTURE.md` §6.
 */
export type OnPart = (parts: ReadonlyArray<StreamPart>) => Effect.Effect<ReadonlyArray<StreamPart>>

/**
 * Returned by an `onPart` function to hold its parts back. Nothing is passed on, and the next call receives the held
 * parts again, followed by the new ones. Parts that are still held at the end of the stream wait until the wrapper
 * decides on the answer.
 */
export const hold: ReadonlyArray<StreamPart> = Object.freeze([])

/** Function that is called with the headers of an answer when it begins; header names are in lower case. */
export type OnHeaders = (get: (name: string) => string | null | undefined) => Effect.Effect<void>

/** Options of one execution of a request. */
export interface ExecuteOptions {
  readonly onPart?: OnPart | undefined
  /**
   * Called by the router when it repeats the call after an answer broke off. If `continues` is true, the text that was
   * already passed on is kept and the rest follows; if false, that text is discarded.
   */
  readonly onRetry?: ((continues: boolean) => void) | undefined
  /** Called only for providers that use HTTP. */
  readonly onHeaders?: OnHeaders | undefined
}

/** Returns the answer with other parts; `raw` remains the body that the provider sent. */
export const withParts = (
  response: ModelResponse,
  parts: ReadonlyArray<ContentPart>,
  finishReason: Response.FinishReason = response.finishReason
): ModelResponse => ({
  parts,
  finishReason,
  usage: response.usage,
  ...(response.sources === undefined ? {} : { sources: response.sources }),
  model: response.model,
  id: response.id,
  get raw() {
    return response.raw
  }
})

const partType = "~effect/ai/Response/Part"
const noMetadata: Response.ProviderMetadata = Object.freeze({})

// These functions are called for each piece of an answer, so they return object literals of one shape instead of the
// copies that `makePart` creates.

/** Creates a piece of text. */
export const makeTextDelta = (id: string, delta: string): Response.TextDeltaPart => ({
  [partType]: partType,
  type: "text-delta",
  id,
  delta,
  metadata: noMetadata
})

/** Creates a piece of reasoning. */
export const makeReasoningDelta = (id: string, delta: string): Response.ReasoningDeltaPart => ({
  [partType]: partType,
  type: "reasoning-delta",
  id,
  delta,
  metadata: noMetadata
})

/** Creates a piece of the JSON text of arguments. */
export const makeParamsDelta = (id: string, delta: string): Response.ToolParamsDeltaPart => ({
  [partType]: partType,
  type: "tool-params-delta",
  id,
  delta,
  metadata: noMetadata
})
