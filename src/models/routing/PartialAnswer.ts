/**
 * Recovery of an answer that broke off after a part of it had streamed.
 *
 * **Details**
 *
 * An attempt of which no text was shown is discarded, and the call is made again. Text that was shown stays: the next
 * attempt is asked for the rest, with the text so far as the model's own words before it, and the answer is both,
 * joined. Reasoning, and calls that were still being written, are never kept.
 *
 * Source: `ARCHITECTURE.md` §7, `hermes-llm.md` §15.5.
 */
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import {
  type ContentPart,
  type ModelCall,
  type ModelResponse,
  type StreamPart,
  withParts
} from "../../base/domain/ModelCall.ts"

/** Number of times that the rest of an answer is asked for on one route by default (`network.stream_retries`). */
export const mostContinuations = 2

/**
 * Text of one answer that has reached a reader, over all attempts. The component that displays the text creates this
 * object; the router records the text when an attempt breaks off.
 */
export interface DeliveredText {
  /** Text of the attempts that broke off, joined; empty before the first one. */
  readonly text: () => string
  /** Returns whether text of the attempt under way has reached a reader. */
  readonly isRead: () => boolean
  /**
   * Keeps the text of the attempt that broke off; `text` is what its provider sent, which middleware may have changed
   * on the way.
   */
  readonly keep: (text: string) => void
}

/** The text that streamed by, and whether anything did. */
interface StreamedText {
  readonly text: string
  readonly anything: boolean
}

/** Reads what streamed by in an attempt. */
export const readStreamedText = (shown: ReadonlyArray<ReadonlyArray<StreamPart>>): StreamedText => {
  let text = ""
  let anything = false
  for (const parts of shown) {
    for (const part of parts) {
      switch (part.type) {
        case "text-delta":
          text += part.delta
          anything = true
          break
        case "reasoning-delta":
        case "tool-params-start":
        case "tool-call":
          anything = true
          break
        default:
          break
      }
    }
  }
  return { text, anything }
}

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
