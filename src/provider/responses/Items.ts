/**
 * Output items of the Responses API as parts, and what a part keeps of its item so that it can be sent back.
 *
 * **Details**
 *
 * `metadata.codex_responses` (in a prompt `options.codex_responses`) holds
 *
 * - of a reasoning item `encrypted_content`, and `summary` where it has more than one piece;
 * - of a message item `id`, `status` and `phase`: sent back exactly, they keep the prompt cache;
 * - of a function call `id`, its `fc_…` name beside the call id.
 *
 * Source: `hermes-llm.md` §4.3, §14.5.
 *
 * @since 0.1.0
 */
import type * as Response from "effect/ai/Response"
import * as Arguments from "../Arguments.ts"
import * as CallIds from "../CallIds.ts"
import * as Raw from "../Raw.ts"

/** A part that is text. */
export interface TextItem {
  readonly text: string
  readonly metadata: Response.ProviderMetadata
}

/** A part that is a tool call. */
export interface CallItem {
  readonly id: string
  readonly name: string
  readonly params: unknown
  readonly metadata: Response.ProviderMetadata
}

type Own = Record<string, string | ReadonlyArray<string>>

const metadata = (own: Own): Response.ProviderMetadata =>
  Object.keys(own).length === 0 ? {} : { codex_responses: own }

const texts = (list: unknown): ReadonlyArray<string> =>
  Raw.items(list).flatMap((item) => {
    const text = Raw.string(Raw.fields(item)["text"])
    return text === undefined || text === "" ? [] : [text]
  })

const named = (item: Raw.Fields, ...names: ReadonlyArray<string>): Own =>
  Object.fromEntries(names.flatMap((name) => {
    const value = Raw.string(item[name])
    return value === undefined || value === "" ? [] : [[name, value]]
  }))

/** A `reasoning` item: its summary, or what open models show of the reasoning itself. */
export const reasoning = (item: Raw.Fields): TextItem => {
  const summary = texts(item["summary"])
  const own = named(item, "id", "encrypted_content")
  return {
    text: (summary.length > 0 ? summary : texts(item["content"])).join("\n\n"),
    metadata: own["encrypted_content"] === undefined
      ? {}
      : metadata({ ...own, ...(summary.length > 1 ? { summary } : {}) })
  }
}

/** Whether a `message` item holds a refusal. */
export const isRefusal = (item: Raw.Fields): boolean =>
  Raw.items(item["content"]).some((part) => Raw.fields(part)["type"] === "refusal")

/** A `message` item. */
export const message = (item: Raw.Fields): TextItem => ({
  text: Raw.items(item["content"]).map((part) => {
    const { text, refusal } = Raw.fields(part)
    return Raw.string(text) ?? Raw.string(refusal) ?? ""
  }).join(""),
  metadata: item["id"] === undefined ? {} : metadata(named(item, "id", "status", "phase"))
})

/** What a `function_call` item keeps besides its call id. */
export const callMetadata = (item: Raw.Fields): Response.ProviderMetadata => {
  const id = Raw.word(item["id"])
  return id.startsWith("fc_") ? metadata({ id }) : {}
}

/** A `function_call` item. */
export const call = (item: Raw.Fields, index: number): CallItem => {
  const name = Raw.word(item["name"])
  return {
    id: Raw.word(item["call_id"]) || CallIds.derive(name, Arguments.pieceOf(item["arguments"]), index),
    name,
    params: Arguments.fromWire(item["arguments"]),
    metadata: callMetadata(item)
  }
}

/** An item of the type for which the API has an `id` but the call has none of its own (`hermes-llm.md` §4.3). */
export const splitId = (id: string): { readonly callId: string; readonly itemId: string | undefined } => {
  const at = id.indexOf("|")
  return at === -1 ? { callId: id, itemId: undefined } : { callId: id.slice(0, at), itemId: id.slice(at + 1) }
}
