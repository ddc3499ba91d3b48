/**
 * What a model call was asked, for people: the last messages of the request. Pure.
 *
 * Source: `hermes-contract.md` §5 ("Message source preference").
 *
 * @since 0.1.0
 */
import type * as Schema from "effect/Schema"
import { type Fields, object } from "../atof/Facts.ts"
import * as Values from "./Values.ts"

/** Messages of a request that are shown. */
export const shown = 12

const sources = ["request_messages", "messages", "conversation_history"] as const

/** The messages of a payload: the first of the fields that has any, else the user's message alone. */
export const of = (payload: Fields): ReadonlyArray<Schema.Json> => {
  for (const name of sources) {
    const value = payload[name]
    if (Array.isArray(value) && value.length > 0) return value
  }
  const message = payload["user_message"]
  return message === undefined || message === null || message === "" ? [] : [{ role: "user", content: message }]
}

/** A message with limits; what a tool said in JSON is shown as what it says. */
export const serialised = (message: Schema.Json, maxChars: number): Schema.Json => {
  const fields = object({ message }, "message")
  if (fields === undefined) return Values.bounded(message, maxChars)
  const { content } = fields
  return Values.bounded(
    fields["role"] === "tool" && typeof content === "string" ? { ...fields, content: Values.parsed(content) } : fields,
    maxChars
  )
}

/** See the module. */
export const input = (payload: Fields, maxChars: number): ReadonlyArray<Schema.Json> =>
  of(payload).slice(-shown).map((message) => serialised(message, maxChars))
