/**
 * A summary of a conversation: its last exchanges, each shortened to a few lines, with tool calls counted.
 *
 * Source: `hermes-product.md` §1.7.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../base/domain/Conversation.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import { renderUserText } from "../../../serve/host/SessionMoves.ts"
import * as SafeText from "../render/SafeText.ts"
import type { Paint } from "../render/Paint.ts"
import { formatQuantity } from "../render/UsageText.ts"
import * as Wrap from "../render/Wrap.ts"

/** Limits of the recap. */
interface Bounds {
  readonly exchanges: number
  readonly userChars: number
  readonly answerChars: number
  readonly answerLines: number
}

/** Limits for a resumed session. */
export const resumed: Bounds = { exchanges: 10, userChars: 300, answerChars: 200, answerLines: 3 }

/** Limits of `/history`. */
export const full: Bounds = { exchanges: 100, userChars: 2000, answerChars: 2000, answerLines: 40 }

/** User message with its answer and tool calls. */
interface Exchange {
  readonly user: string
  readonly answer: string
  readonly tools: ReadonlyArray<string>
}

/** Splits a conversation into exchanges. Messages before the first user message are not part of any exchange. */
export const toExchanges = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Exchange> => {
  const found: Array<{ user: string; answer: string; tools: Array<string> }> = []
  for (const message of messages) {
    if (message.role === "user") {
      found.push({ user: renderUserText(message), answer: "", tools: [] })
      continue
    }
    const current = found.at(-1)
    if (current === undefined || message.role !== "assistant") continue
    const said = Conversation.readText(message).trim()
    // Only the last text of an exchange is the answer.
    if (said !== "") current.answer = said
    current.tools.push(...Conversation.listToolCalls(message).map(({ name }) => name))
  }
  return found
}

/** Returns the beginning of the text with secrets masked, because user messages are stored as typed. */
const cutText = (text: string, chars: number): string => {
  const all = Array.from(Redaction.redactText(text))
  return all.length > chars ? `${all.slice(0, chars).join("").trimEnd()}…` : all.join("")
}

/** Wraps text to the given width, up to a maximum number of lines. */
const wrapLines = (text: string, columns: number, most: number, paint: Paint): ReadonlyArray<string> => {
  const all = text
    .split("\n")
    .map((line) => line.trimEnd())
    .filter((line) => line !== "")
    .flatMap((line) => Wrap.wrapLines([{ text: line, style: { attributes: ["dim"] } }], columns, paint))
  return all.length > most ? [...all.slice(0, most - 1), `${all[most - 1] ?? ""}${paint.text(" …", "dim")}`] : all
}

/** Formats the tool calls of an exchange: `3 tool calls: read_file ×2, terminal`. */
const formatTools = (tools: ReadonlyArray<string>): string => {
  const counts = new Map<string, number>()
  for (const tool of tools) counts.set(tool, (counts.get(tool) ?? 0) + 1)
  const names = Array.from(counts, ([name, count]) => (count === 1 ? name : `${name} ×${count}`))
  return `${formatQuantity(tools.length, "tool call")}: ${SafeText.toLine(names.join(", "))}`
}

/** Renders the last exchanges as lines for a terminal. */
export const render = (
  messages: ReadonlyArray<Prompt.Message>,
  bounds: Bounds,
  columns: number,
  paint: Paint
): ReadonlyArray<string> => {
  const all = toExchanges(messages)
  const shown = all.slice(-bounds.exchanges)
  const room = Math.max(20, columns - 3)
  const indentLines = (found: ReadonlyArray<string>): ReadonlyArray<string> => found.map((line) => `  ${line}`)
  const omitted = all.length - shown.length
  return [
    ...(omitted === 0 ? [] : [paint.text(`… ${formatQuantity(omitted, "earlier exchange")} not shown`, "dim"), ""]),
    ...shown.flatMap(({ answer, tools, user }, index) => {
      const [first = "", ...rest] = wrapLines(
        SafeText.sanitise(cutText(user, bounds.userChars)),
        room,
        bounds.answerLines * 2,
        paint
      )
      return [
        ...(index === 0 ? [] : [""]),
        `${paint.text("›", "cyan")} ${first}`,
        ...indentLines(rest),
        ...(tools.length === 0
          ? []
          : indentLines(
              Wrap.wrapLines([{ text: `┊ ${formatTools(tools)}`, style: { attributes: ["dim"] } }], room, paint)
            )),
        ...indentLines(
          wrapLines(SafeText.sanitise(cutText(answer, bounds.answerChars)), room, bounds.answerLines, paint)
        )
      ]
    })
  ]
}
