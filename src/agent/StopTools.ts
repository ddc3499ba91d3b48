/**
 * Stop tools: the successful call of a stop tool ends the run, and its result is the text of the run.
 *
 * **Details**
 *
 * A result that is an object or a list is rendered as indented JSON. The text of `complete_task` is its argument
 * `result`. The calls of the same answer end first; of several stop tools, the first in the order of the answer counts.
 *
 * Source: `nexau.md` §1.4 (13).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import * as Json from "../base/domain/Json.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import type { Service as ToolRegistry } from "../tools/ToolRegistry.ts"
import type { RunEnding } from "./RunEnding.ts"

/** Stop tool whose text is its argument `result` instead of its result. */
const completion = "complete_task"

/** Returns the names of stop tools as a set, or `undefined` for an empty list. */
export const toNames = (names: ReadonlyArray<string> | undefined): ReadonlySet<string> | undefined =>
  names === undefined || names.length === 0 ? undefined : new Set(names)

/**
 * Renders a result for the user: objects and lists as indented JSON, any other text unchanged. A JSON text that would
 * not stay the same, such as one with large numbers, is unchanged as well.
 */
export const renderResult = (result: unknown): string => {
  if (typeof result !== "string") return JSON.stringify(result, undefined, 2) ?? ""
  const value = /^\s*[[{]/.test(result) ? Option.getOrUndefined(Json.parse(result)) : undefined
  return typeof value === "object" && value !== null && JSON.stringify(value) === result
    ? JSON.stringify(value, undefined, 2)
    : result
}

/** Returns the ending of a run by a successful call of a stop tool. */
export const makeEnding = (name: string, args: unknown, result: unknown): RunEnding => ({
  exit: "stop_tool_triggered",
  by: name,
  text: renderResult(name === completion && Json.isFields(args) && "result" in args ? args["result"] : result),
  isNew: false
})

/**
 * Returns the ending of a conversation that ends with the results of an answer's calls, if one of them is the
 * successful call of a stop tool. A run that was killed after such a call ends in this way when it continues.
 */
export const findStoredEnding = (
  stopTools: ReadonlySet<string>,
  messages: ReadonlyArray<Prompt.Message>
): RunEnding | undefined => {
  if (messages.at(-1)?.role !== "tool") return undefined
  const last = messages.findLastIndex(({ role }) => role === "assistant")
  const answer = messages[last]
  if (answer?.role !== "assistant") return undefined
  const results = messages
    .slice(last + 1)
    .flatMap((message) => (message.role === "tool" ? message.content : []))
    .filter((part) => part.type === "tool-result")
  for (const call of answer.content) {
    if (call.type !== "tool-call" || !stopTools.has(call.name)) continue
    const found = results.find(({ id }) => id === call.id)
    if (found !== undefined && !found.isFailure) return makeEnding(call.name, call.params, found.result)
  }
  return undefined
}

/** Warns once about stop tools that the agent and its sub-agents name and that do not exist. */
export const warnUnknown = (names: ReadonlyArray<string>, { list }: Pick<ToolRegistry, "list">): Effect.Effect<void> =>
  names.length === 0
    ? Effect.void
    : Effect.flatMap(list, (toolsets) => {
        const known = toolsets.flatMap(({ tools }) => tools.map(({ definition }) => definition.name))
        const unknown = Array.from(new Set(names)).filter((name) => !known.includes(name))
        const described = unknown.map((name) => {
          const meant = findNearest(name, known)
          return meant === undefined ? `"${name}"` : `"${name}" (did you mean ${meant}?)`
        })
        return unknown.length === 0
          ? Effect.void
          : Effect.logWarning(`stop_tools: there is no tool ${described.join(", ")}, so no run ends with it`)
      })
