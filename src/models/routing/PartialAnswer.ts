/**
 * Recovers an answer that ended prematurely after a part of it was streamed.
 *
 * **Details**
 *
 * If no text of an attempt was shown, the attempt is discarded and the call is repeated. Shown text is retained: the
 * next attempt requests the rest, with the text so far as an assistant message, and the answer consists of both parts.
 * Reasoning and incomplete tool calls are never retained.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §15.5.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import { type ContentPart, type ModelCall, type ModelResponse, withParts } from "../../base/domain/ModelCall.ts"

/** Default for the maximum number of requests for the rest of an answer on one route (`network.stream_retries`). */
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

/** Creates the call that requests the rest of an answer after `text`. */
export const makeContinuationCall = (call: ModelCall, text: string): ModelCall => ({
  ...call,
  messages: [...call.messages, Prompt.assistantMessage({ content: [Prompt.textPart({ text })] }), goOn]
})

/** Prepends `text` to the answer that contains the rest. */
export const prependText = (response: ModelResponse, text: string): ModelResponse => {
  const { parts } = response
  const at = parts.findIndex((part) => part.type !== "reasoning")
  const part = parts[at]
  if (part?.type === "text") return withParts(response, parts.with(at, { ...part, text: text + part.text }))
  const first: ContentPart = Response.makePart("text", { text })
  return withParts(response, parts.toSpliced(at === -1 ? parts.length : at, 0, first))
}
