/** Texts of messages in a Postgres database. */
import * as Result from "effect/Result"
import * as MessageText from "../MessageText.ts"
import * as StoredForm from "../StoredForm.ts"

/** Text for search columns. Postgres stores neither zero characters nor half surrogate pairs. */
export const toSearchText = (text: string): string => text.replaceAll("\0", " ").toWellFormed()

/**
 * Columns of a message with its texts. The columns of texts are empty, because the stored form has the texts. Messages
 * of earlier versions have them in both.
 */
export interface TextColumns {
  readonly content: string
  readonly tool_name: string
  readonly tool_calls: string
  readonly envelope: string
}

/** Returns the texts of a stored message for search. */
export const readTexts = ({ content, envelope, tool_calls, tool_name }: TextColumns): MessageText.SearchText => {
  const isStored = content !== "" || tool_name !== "" || tool_calls !== ""
  const message = isStored ? undefined : Result.getSuccess(StoredForm.decode(envelope))
  if (message === undefined || message._tag === "None") return { content, toolNames: tool_name, toolCalls: tool_calls }
  const texts = MessageText.extractSearchText(message.value)
  return {
    content: toSearchText(texts.content),
    toolNames: toSearchText(texts.toolNames),
    toolCalls: toSearchText(texts.toolCalls)
  }
}

/** Returns the first characters of a text, as `substr` of SQL does. */
export const takeChars = (text: string, count: number): string =>
  Array.from(text.slice(0, 2 * count))
    .slice(0, count)
    .join("")

/** Adds the usage of an inserted row to the stored row of the same session and model; `u` is the table. */
export const addToModelUsage = `ON CONFLICT (session_id, provider, model) DO UPDATE
  SET input_tokens = u.input_tokens + excluded.input_tokens,
    output_tokens = u.output_tokens + excluded.output_tokens,
    cache_read_tokens = u.cache_read_tokens + excluded.cache_read_tokens,
    cache_write_tokens = u.cache_write_tokens + excluded.cache_write_tokens,
    reasoning_tokens = u.reasoning_tokens + excluded.reasoning_tokens,
    api_call_count = u.api_call_count + excluded.api_call_count,
    estimated_cost_usd = u.estimated_cost_usd + excluded.estimated_cost_usd,
    cost_status = excluded.cost_status, cost_source = excluded.cost_source`
