/**
 * The tool calls of an answer as they will be stored and executed: names and arguments repaired, repeated calls left out,
 * delegations capped. What is stored equals what is executed.
 *
 * **Details**
 *
 * In this order: names (`NameRepair`), arguments that are no JSON (`ArgumentRepair`), the cap on `delegate_task`, then
 * calls that repeat an earlier one of the same message. A call whose arguments were cut makes the whole answer truncated:
 * nothing of it is executed. What can not be repaired stays as it is, and gets an error result later.
 *
 * Source: `hermes-llm.md` §13.2–13.5, `ARCHITECTURE.md` §4 and §7.
 *
 * @since 0.1.0
 */
import type { ContentPart } from "../../domain/Model.ts"
import type { Snapshot } from "../ToolRegistry.ts"
import * as ArgumentRepair from "./ArgumentRepair.ts"
import * as NameRepair from "./NameRepair.ts"

type Call = Extract<ContentPart, { readonly type: "tool-call" }>

/** What was changed or left out, in words for the log. */
export type Change = string

/** See the module. */
export interface Normalised {
  readonly parts: ReadonlyArray<ContentPart>
  readonly truncated: boolean
  readonly changes: ReadonlyArray<Change>
}

/** Limits of one message. */
export interface Limits {
  /** `delegate_task` calls of one message that are kept. */
  readonly delegations: number
}

const candidates = (tools: Snapshot): ReadonlyArray<NameRepair.Candidate> =>
  tools.names.map((name) => ({ name, destructive: tools.get(name)?.facts.destructive === true }))

/** The same call with other arguments or another name. */
const changed = (call: Call, name: string, params: unknown): Call => ({ ...call, name, params })

const repaired = (call: Call, tools: Snapshot, changes: Array<Change>): Call | undefined => {
  const known = tools.get(call.name) !== undefined
  const name = known ? call.name : NameRepair.repair(call.name, candidates(tools)) ?? call.name
  if (name !== call.name) changes.push(`tool name ${JSON.stringify(call.name.slice(0, 80))} taken for ${name}`)
  if (typeof call.params !== "string") return name === call.name ? call : changed(call, name, call.params)
  const outcome = ArgumentRepair.repair(call.params)
  switch (outcome._tag) {
    case "Truncated":
      return undefined
    case "Malformed":
      return name === call.name ? call : changed(call, name, call.params)
    case "Repaired":
      changes.push(`arguments of ${name} repaired: ${outcome.how}`)
      return changed(call, name, outcome.args)
  }
}

const isCall = (part: ContentPart): part is Call => part.type === "tool-call" && !part.providerExecuted

/** Whether nothing of this answer needs a second look: the common case, and a cheap question. */
const isFine = (parts: ReadonlyArray<ContentPart>, tools: Snapshot): boolean => {
  let calls = 0
  for (const part of parts) {
    if (!isCall(part)) continue
    if (++calls > 1 || tools.get(part.name) === undefined || typeof part.params === "string") return false
  }
  return true
}

/** See the module. */
export const normalise = (
  parts: ReadonlyArray<ContentPart>,
  tools: Snapshot,
  limits: Limits
): Normalised => {
  if (isFine(parts, tools)) return { parts, truncated: false, changes: [] }
  const changes: Array<Change> = []
  const kept: Array<ContentPart> = []
  const seen = new Set<string>()
  let truncated = false
  let delegations = 0
  for (const part of parts) {
    if (!isCall(part)) {
      kept.push(part)
      continue
    }
    const call = repaired(part, tools, changes)
    if (call === undefined) {
      truncated = true
      continue
    }
    if (call.name === "delegate_task" && ++delegations > limits.delegations) {
      changes.push(`delegate_task left out: at most ${limits.delegations} in one message`)
      continue
    }
    const key = `${call.name}\n${JSON.stringify(call.params)}`
    if (seen.has(key)) {
      changes.push(`repeated call of ${call.name} left out`)
      continue
    }
    seen.add(key)
    kept.push(call)
  }
  return { parts: kept, truncated, changes }
}
