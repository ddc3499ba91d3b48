/**
 * The parts of a Converse request that this provider writes, in the form of the AWS SDK (bytes as `Uint8Array`), and what
 * it keeps of an answer in the options of a prompt's parts.
 *
 * **Details**
 *
 * Under `bedrock_converse`, a reasoning part carries the `signature` of its text, or `redacted`, the opaque data that
 * stands for it, in base64.
 *
 * @since 0.1.0
 */
import * as Base64 from "effect/encoding/Base64"
import * as Result from "effect/Result"
import type * as Prompt from "effect/ai/Prompt"
import type * as Response from "effect/ai/Response"
import * as Raw from "../Raw.ts"

/** Key of this provider's data in `options` and `metadata`. */
export const namespace = "bedrock_converse"

/** Text. */
export interface TextBlock {
  readonly text: string
}
/** A picture. */
export interface ImageBlock {
  readonly image: { readonly format: string; readonly source: { readonly bytes: Uint8Array } }
}
/** A file that is read as text. */
export interface DocumentBlock {
  readonly document: {
    readonly format: string
    readonly name: string
    readonly source: { readonly bytes: Uint8Array }
  }
}
/** Thinking, readable or not. */
export interface ReasoningBlock {
  readonly reasoningContent:
    | { readonly reasoningText: { readonly text: string; readonly signature?: string } }
    | { readonly redactedContent: Uint8Array }
}
/** A call of a tool. */
export interface ToolUseBlock {
  readonly toolUse: { readonly toolUseId: string; readonly name: string; readonly input: unknown }
}
/** What a tool gave back. */
export interface ToolResultBlock {
  readonly toolResult: {
    readonly toolUseId: string
    readonly content: ReadonlyArray<ContentBlock>
    readonly status?: "error"
  }
}
/** A text, picture or document. */
export type ContentBlock = TextBlock | ImageBlock | DocumentBlock
/** What a message is made of. */
export type Block = ContentBlock | ReasoningBlock | ToolUseBlock | ToolResultBlock

const text = (options: Prompt.ProviderOptions, name: string): string | undefined =>
  Raw.word(Raw.fields(options[namespace])[name]) || undefined

/** The signature of a reasoning part's text. */
export const signature = (options: Prompt.ProviderOptions): string | undefined => text(options, "signature")

/** The opaque data that a reasoning part stands for. */
export const redacted = (options: Prompt.ProviderOptions): Uint8Array | undefined => {
  const data = text(options, "redacted")
  return data === undefined ? undefined : Result.getOrUndefined(Base64.decode(data))
}

/** Metadata of a reasoning part of an answer. */
export const metadata = (thought: {
  readonly signature: string
  readonly redacted: Uint8Array | undefined
}): Response.ProviderMetadata => {
  const data = {
    ...(thought.signature === "" ? {} : { signature: thought.signature }),
    ...(thought.redacted === undefined ? {} : { redacted: Base64.encode(thought.redacted) })
  }
  return Object.keys(data).length === 0 ? {} : { [namespace]: data }
}

/** Bytes of an answer: as the SDK gives them, or in base64, as JSON has them. */
export const bytes = (value: unknown): Uint8Array | undefined =>
  value instanceof Uint8Array
    ? value
    : typeof value === "string" && value !== ""
    ? Result.getOrUndefined(Base64.decode(value))
    : undefined
