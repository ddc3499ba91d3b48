/**
 * Compacts by a plan: the newest units of the conversation are preserved verbatim. In the older units, either each tool
 * result becomes one line, or one summary replaces all of them.
 *
 * **Details**
 *
 * An iteration is an answer with the user's messages before it and the results after it; a user round extends from a
 * user message to the next answer without calls. Old results keep their calls, so that every call has its result. The
 * newest user message is preserved verbatim after a summary. If the old part exceeds the context window of the
 * summarizing model, it is passed in parts that end between two units, each with the summary so far.
 *
 * Source: `nexau.md` §4.
 */
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { CompactionPlan } from "../../../base/domain/CompactionPlan.ts"
import * as Prune from "./Prune.ts"
import * as Split from "./Split.ts"
import * as SummaryText from "./SummaryText.ts"

/** Text that replaces an old result. */
export const placeholder = "[Old tool result, compacted to save room]"

/** Tokens reserved in a request for a summary. */
const reserved = 4_096

type Messages = ReadonlyArray<Prompt.Message>

const hasCalls = (message: Prompt.Message): boolean =>
  message.role === "assistant" && message.content.some(({ type }) => type === "tool-call")

/** Splits the conversation after the system prompt into units. */
const splitIntoUnits = (messages: Messages, unit: CompactionPlan["keep"]["unit"]): ReadonlyArray<Messages> => {
  const found: Array<Array<Prompt.Message>> = []
  let isOpen = false
  for (const message of messages) {
    const before = found.at(-1)
    const starts =
      unit === "iteration"
        ? message.role === "assistant"
          ? !isOpen
          : message.role === "user" && !isOpen
        : message.role === "user" && !isOpen
    if (before === undefined || starts) found.push([message])
    else before.push(message)
    // A unit is open until it contains its answer.
    if (unit === "iteration") isOpen = message.role === "user"
    else
      isOpen =
        message.role === "user" ||
        message.role === "tool" ||
        hasCalls(message) ||
        (message.role !== "assistant" && isOpen)
  }
  return found
}

const replaceOldResults = (messages: Messages, end: number, tools: ReadonlyArray<string> | undefined): Messages =>
  messages.map((message, at) => {
    if (at >= end || message.role !== "tool") return message
    const content = message.content.map((part) =>
      part.type !== "tool-result" || tools?.includes(part.name) === false || Prune.readResultText(part) === placeholder
        ? part
        : Prune.replaceResultText(part, placeholder)
    )
    return content.every((part, index) => part === message.content[index])
      ? message
      : Prompt.toolMessage({ content, options: message.options })
  })

/** Groups old units into parts of at most `most` tokens; a larger unit is a part by itself. */
const groupUnits = (old: ReadonlyArray<Messages>, most: number): ReadonlyArray<Messages> => {
  const found: Array<Array<Prompt.Message>> = []
  let tokens = 0
  for (const unit of old) {
    const size = Split.estimateTotalTokens(unit)
    const last = found.at(-1)
    if (last === undefined || tokens + size > most) {
      found.push([...unit])
      tokens = size
    } else {
      last.push(...unit)
      tokens += size
    }
  }
  return found
}

/** Asks for the summary of a part, which updates an earlier summary. */
export type Summarise<E> = (middle: Messages, previous: string | undefined) => Effect.Effect<string, E>

/** Returns the compacted conversation; the same messages if it cannot be reduced. */
export const compact = <E>(
  messages: Messages,
  { compactableTools, keep, strategy }: CompactionPlan,
  window: number,
  summarise: Summarise<E>
): Effect.Effect<Messages, E> =>
  Effect.gen(function* () {
    const first = messages[0]?.role === "system" ? 1 : 0
    const all = splitIntoUnits(messages.slice(first), keep.unit)
    if (all.length <= keep.count) return messages
    const old = all.slice(0, all.length - keep.count)
    const end = first + old.flat().length
    if (strategy === "tool_result_compaction") {
      const pruned = replaceOldResults(messages, end, compactableTools)
      return pruned.every((message, at) => message === messages[at]) ? messages : pruned
    }
    const user = messages.findLastIndex(({ role }) => role === "user")
    const pinned = user >= first && user < end ? messages[user] : undefined
    let summary = old
      .flat()
      .map(SummaryText.findSummary)
      .findLast((found) => found !== undefined)
    const middle = old
      .map((unit) => unit.filter((message) => message !== pinned && SummaryText.findSummary(message) === undefined))
      .filter(({ length }) => length > 0)
    if (middle.length === 0) return messages
    for (const part of groupUnits(middle, Math.max(reserved, window - reserved)))
      summary = yield* summarise(part, summary)
    return [
      ...messages.slice(0, first),
      Prompt.userMessage({ content: [Prompt.textPart({ text: SummaryText.frameSummary(summary ?? "") })] }),
      ...(pinned === undefined ? [] : [pinned]),
      ...messages.slice(end)
    ]
  })
