/**
 * Recovery of an answer that broke off after a part of it had streamed.
 *
 * **Details**
 *
 * An attempt of which no text was shown is discarded, and the call is made again. Text that was shown stays: the next
 * attempt is asked for the rest, with the text so far as the model's own words before it, and the answer is both,
 * joined. Reasoning, and calls that were still being written, are never retained.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §15.5.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import { type ContentPart, type ModelCall, type ModelResponse, withParts } from "../../base/domain/ModelCall.ts"

/** Number of times that the rest of an answer is asked for on one route by default (`network.stream_retries`). */
export const mostContinuations = 2

const goOn = Prompt.userMessage({
  content: [
    Prompt.textPart({
      text:
        "The connection was lost in the middle of your answer, which stands above as far as it was received. Go on exactly " +
        "where it stops, within the word if need be; do not repeat anything and do not comment on it."
    })
  ]
})

/** The call for the rest of an answer of which `text` was read. */
export const makeContinuationCall = (call: ModelCall, text: string): ModelCall => ({
  ...call,
  messages: [...call.messages, Prompt.assistantMessage({ content: [Prompt.textPart({ text })] }), goOn]
})

/** Prepends `text` to the answer that was received for the rest. */
export const prependText = (response: ModelResponse, text: string): ModelResponse => {
  const { parts } = response
  const at = parts.findIndex((part) => part.type !== "reasoning")
  const part = parts[at]
  if (part?.type === "text") return withParts(response, parts.with(at, { ...part, text: text + part.text }))
  const first: ContentPart = Response.makePart("text", { text })
  return withParts(response, parts.toSpliced(at === -1 ? parts.length : at, 0, first))
}
