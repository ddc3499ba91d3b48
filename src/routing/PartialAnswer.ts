/**
 * What becomes of an answer that broke off after a part of it had streamed by.
 *
 * **Details**
 *
 * Text that a user has read is never followed by another try, which would say it again in other words: it is the answer,
 * and a notice says that it was cut. Only where a tool call was being written, the call is asked for anew, twice at most
 * (`network.stream_retries`), with a visible mark, since without it nothing would be done. Reasoning that was seen is no answer; it is asked again.
 *
 * Source: `hermes-llm.md` §15.5.
 *
 * @since 0.1.0
 */
import * as Assembler from "../domain/Assembler.ts"
import type { ModelResponse, StreamPart } from "../domain/Model.ts"
import type { Decision } from "./Classification.ts"

/** How often a call that broke off while a tool call was written is asked for anew, where the user sets nothing. */
export const mostReconnects = 2

/** What streamed by before the end. */
export type Partial =
  /** Nothing that anybody would miss. */
  | { readonly _tag: "Nothing" }
  /** Reasoning, or the beginning of a tool call: seen, and no answer. */
  | { readonly _tag: "Seen" }
  /** Text, and the beginning of a tool call. */
  | { readonly _tag: "TextAndCall"; readonly text: string }
  /** Text. */
  | { readonly _tag: "Text"; readonly text: string }

/** Judges what streamed by. */
export const of = (shown: ReadonlyArray<ReadonlyArray<StreamPart>>): Partial => {
  let text = ""
  let calls = false
  let anything = false
  for (const parts of shown) {
    for (const part of parts) {
      switch (part.type) {
        case "text-delta":
          text += part.delta
          break
        case "tool-params-start":
        case "tool-call":
          calls = true
          break
        case "reasoning-delta":
          anything = true
          break
        default:
          break
      }
    }
  }
  if (text.trim() !== "") return calls ? { _tag: "TextAndCall", text } : { _tag: "Text", text }
  return calls || anything ? { _tag: "Seen" } : { _tag: "Nothing" }
}

const notExecuted = (names: ReadonlyArray<string>): string =>
  `\n\n[The connection was lost while ${names.join(", ")} was being called: nothing of it was executed.]`

/** The answer that is left: the text that was read, and what was not done. */
export const response = (shown: ReadonlyArray<ReadonlyArray<StreamPart>>): ModelResponse => {
  const assembler = Assembler.make()
  const names: Array<string> = []
  for (const parts of shown) {
    assembler.add(parts)
    for (const part of parts) { if (part.type === "tool-params-start") names.push(part.name) }
  }
  const { id, model, parts, usage } = assembler.result()
  const kept = parts.filter((part) => part.type !== "tool-call")
  const last = kept.findLast((part) => part.type === "text")
  const answer = names.length === 0 || last === undefined
    ? kept
    : kept.map((part) => part === last ? { ...last, text: last.text + notExecuted(names) } : part)
  return { parts: answer, finishReason: "stop", usage, model, id, raw: undefined }
}

/** Whether asking anew can help. */
export const isTransient = ({ reason }: Decision): boolean =>
  reason === "timeout" || reason === "overloaded" || reason === "server_error" || reason === "unknown"
