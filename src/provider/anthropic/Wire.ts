/**
 * The parts of a Messages request that this provider writes, and what it keeps of an answer in the options of a
 * prompt's parts.
 *
 * **Details**
 *
 * Everything of this provider stands under `anthropic_messages` in `options` (prompts) and `metadata` (answers):
 *
 * - on a reasoning part: `signature` of its text, or `redacted`, the opaque data that stands for it;
 * - on a message or part: `cache_control`, a breakpoint of the prompt cache after it.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import type * as Schema from "effect/Schema"

/** Key of this provider's data in `options` and `metadata`. */
export const namespace = "anthropic_messages"

/** `{ type: "ephemeral" }`, perhaps with a `ttl`; passed on as it is. */
export type CacheControl = Readonly<Record<string, Schema.Json>>

interface Cacheable {
  readonly cache_control?: CacheControl
}

/** Text of any role. */
export interface TextBlock extends Cacheable {
  readonly type: "text"
  readonly text: string
}
/** Where a picture or document is. */
export type Source =
  | { readonly type: "base64"; readonly media_type: string; readonly data: string }
  | { readonly type: "url"; readonly url: string }
  | { readonly type: "text"; readonly media_type: "text/plain"; readonly data: string }
/** A picture. */
export interface ImageBlock extends Cacheable {
  readonly type: "image"
  readonly source: Source
}
/** A PDF or a text file. */
export interface DocumentBlock extends Cacheable {
  readonly type: "document"
  readonly source: Source
  readonly title?: string
}
/** Thinking that the API signed. */
export interface ThinkingBlock {
  readonly type: "thinking"
  readonly thinking: string
  readonly signature: string
}
/** Thinking that nobody may read. */
export interface RedactedBlock {
  readonly type: "redacted_thinking"
  readonly data: string
}
/** A call of a tool. */
export interface ToolUseBlock extends Cacheable {
  readonly type: "tool_use"
  readonly id: string
  readonly name: string
  readonly input: Readonly<Record<string, unknown>>
}
/** What a tool gave back. */
export interface ToolResultBlock extends Cacheable {
  readonly type: "tool_result"
  readonly tool_use_id: string
  readonly content: string | ReadonlyArray<TextBlock | ImageBlock | DocumentBlock>
  readonly is_error?: true
}
/** What a message is made of. */
export type Block =
  | TextBlock
  | ImageBlock
  | DocumentBlock
  | ThinkingBlock
  | RedactedBlock
  | ToolUseBlock
  | ToolResultBlock

/** This provider's data of a message or part. */
const own = (options: Prompt.ProviderOptions): Readonly<Record<string, Schema.Json>> => {
  const data = options[namespace]
  // A JSON value that is an object and no array is a record of JSON values.
  return Predicate.isObject(data) ? data as Readonly<Record<string, Schema.Json>> : {}
}

const text = (value: unknown): string | undefined => typeof value === "string" && value !== "" ? value : undefined

/** The signature of a reasoning part's text. */
export const signature = (options: Prompt.ProviderOptions): string | undefined => text(own(options)["signature"])

/** The opaque data that a reasoning part stands for. */
export const redacted = (options: Prompt.ProviderOptions): string | undefined => text(own(options)["redacted"])

/** The cache breakpoint of a message or part. */
export const cacheControl = (options: Prompt.ProviderOptions): CacheControl | undefined => {
  const marker = own(options)["cache_control"]
  // See `own`.
  return Predicate.isObject(marker) ? marker as CacheControl : undefined
}

/** Metadata of an answer's part that carries `data` of this provider. */
export const metadata = (data: Readonly<Record<string, string>>): Response.ProviderMetadata => ({ [namespace]: data })
