/**
 * Prepares the tool calls of an answer for storage and execution: names and arguments are repaired, repeated calls are
 * dropped, and delegations are limited. The stored calls equal the executed calls.
 *
 * **Details**
 *
 * Each step is a function from calls to calls, in this order: names ({@link NameRepair}), arguments that are not JSON
 * ({@link ArgumentRepair}), values whose type differs from the schema ({@link Coercion}), the limit on `delegate_task`,
 * calls that repeat an earlier call of the same message (in any order of keys), and ids shared by two calls. If the
 * arguments of a call were cut, the whole answer counts as truncated and none of its calls is executed. Only the last
 * call of an answer can be cut. A call that cannot be repaired is unchanged and later gets an error result.
 *
 * Source: `hermes-llm.md` §13.2–13.5, `hermes-product.md` §2.1, `ARCHITECTURE.md` §4 and §7.
 */
import type { ContentPart } from "../../base/domain/ModelCall.ts"
import type { Snapshot } from "../ToolRegistry.ts"
import * as ArgumentRepair from "./ArgumentRepair.ts"
import { makeCallSignature } from "./LoopGuard.ts"
import * as NameRepair from "./NameRepair.ts"

/** Result of a valid call beside a call of an unknown tool, none of which run (`hermes-llm.md` §13.3). */
export const skippedText = "Skipped: another tool call in this turn used an invalid name. Please retry this tool call."

type Call = Extract<ContentPart, { readonly type: "tool-call" }>

/** Description of a change or an omission, for the log. */
type Change = string

/** The tool calls of an answer in the form that is stored and executed. */
export interface NormalisedCalls {
  readonly parts: ReadonlyArray<ContentPart>
  readonly truncated: boolean
  readonly changes: ReadonlyArray<Change>
  /** Note for the model by call, added to the result: the name that the model sent, and the tool that was used. */
  readonly notes: ReadonlyMap<ContentPart, string>
}

/** Limits of one message. */
interface Limits {
  /** Maximum number of `delegate_task` calls in one message. */
  readonly delegations: number
}

/** Outcome of a step for one call. */
type StepOutcome =
  | { readonly _tag: "Same" }
  | { readonly _tag: "Changed"; readonly call: Call; readonly change: Change; readonly note?: string }
  | { readonly _tag: "Dropped"; readonly change: Change }
  /** The arguments end early: the output limit cut the call, if it is the last one. */
  | { readonly _tag: "Cut" }

type Step = (call: Call) => StepOutcome

const same: StepOutcome = { _tag: "Same" }

const listCandidates = (tools: Snapshot): ReadonlyArray<NameRepair.Candidate> =>
  tools.names.map((name) => ({ name, destructive: tools.get(name)?.facts.destructive === true }))

const repairName =
  (tools: Snapshot): Step =>
  (call) => {
    // The exact name of a tool that the run may not use refers to that tool and is not a mistake for another tool.
    if (tools.get(call.name) !== undefined || tools.withheld(call.name) !== undefined) return same
    const name = NameRepair.makeNameFinder(listCandidates(tools))(call.name)
    if (name === undefined) return same
    const sent = JSON.stringify(call.name.slice(0, 80))
    const note = `There is no tool ${sent}: ${name} was called instead.`
    return { _tag: "Changed", call: { ...call, name }, change: `tool name ${sent} interpreted as ${name}`, note }
  }

const repairArguments: Step = (call) => {
  if (typeof call.params !== "string") return same
  const repaired = ArgumentRepair.repair(call.params)
  switch (repaired._tag) {
    case "Truncated":
      return { _tag: "Cut" }
    case "Malformed":
      return same
    case "Repaired":
      return {
        _tag: "Changed",
        call: { ...call, params: repaired.args },
        change: `arguments of ${call.name} repaired: ${repaired.how}`
      }
  }
}

const coerceValues =
  (tools: Snapshot): Step =>
  (call) => {
    const bound = tools.get(call.name)
    const params = bound === undefined ? call.params : ArgumentRepair.coerce(call.params, bound.definition.parameters)
    return params === call.params
      ? same
      : {
          _tag: "Changed",
          call: { ...call, params },
          change: `values of ${call.name} turned into the types of its schema`
        }
  }

/** Creates a step that limits the delegations of one message. Each step counts the calls of its message. */
const capDelegations = (most: number): Step => {
  let delegations = 0
  return ({ name }) =>
    name === "delegate_task" && ++delegations > most
      ? { _tag: "Dropped", change: `delegate_task left out: at most ${most} in one message` }
      : same
}

/** Creates a step that drops repeated calls of one message. Each step remembers the calls of its message. */
const dropRepeated = (): Step => {
  const seen = new Set<string>()
  return ({ name, params }) => {
    const key = makeCallSignature(name, params)
    if (seen.has(key)) return { _tag: "Dropped", change: `repeated call of ${name} left out` }
    seen.add(key)
    return same
  }
}

/**
 * Renames a call that shares its id with another call in the message: ids distinguish results, and providers refuse
 * duplicates.
 */
const renameDuplicateIds = (): Step => {
  const taken = new Set<string>()
  return (call) => {
    const { id } = call
    // An empty id is replaced when the answer becomes a message.
    if (id === "") return same
    let own = id
    for (let n = 2; taken.has(own); n++) own = `${id}_${n}`
    taken.add(own)
    return own === id
      ? same
      : { _tag: "Changed", call: { ...call, id: own }, change: `a second call with the id ${id} is now ${own}` }
  }
}

const isCall = (part: ContentPart): part is Call => part.type === "tool-call" && !part.providerExecuted

const none: NormalisedCalls["notes"] = new Map()

/**
 * Reads and coerces the arguments of a call that does not come from a model in the same way as a model's arguments.
 * Unreadable arguments are unchanged.
 */
export const readArguments = (name: string, params: unknown, tools: Snapshot): unknown => {
  const repaired = typeof params === "string" ? ArgumentRepair.repair(params) : undefined
  const args = repaired?._tag === "Repaired" ? repaired.args : params
  const bound = tools.get(name)
  return bound === undefined ? args : ArgumentRepair.coerce(args, bound.definition.parameters)
}

/** Returns true if no call of the answer needs a change. This is the common case, and the check is cheap. */
const isFine = (parts: ReadonlyArray<ContentPart>, tools: Snapshot): boolean => {
  let calls = 0
  for (const part of parts) {
    if (!isCall(part)) continue
    const bound = tools.get(part.name)
    if (++calls > 1 || bound === undefined || typeof part.params === "string") return false
    if (ArgumentRepair.coerce(part.params, bound.definition.parameters) !== part.params) return false
  }
  return true
}

/** Prepares the tool calls of an answer for storage and execution. */
export const normalise = (parts: ReadonlyArray<ContentPart>, tools: Snapshot, limits: Limits): NormalisedCalls => {
  if (isFine(parts, tools)) return { parts, truncated: false, changes: [], notes: none }
  const steps = [
    repairName(tools),
    repairArguments,
    coerceValues(tools),
    capDelegations(limits.delegations),
    dropRepeated(),
    renameDuplicateIds()
  ]
  const changes: Array<Change> = []
  const notes = new Map<ContentPart, string>()
  let truncated = false
  const last = parts.findLast(isCall)
  const applySteps = (given: Call): ReadonlyArray<ContentPart> => {
    let call = given
    let note: string | undefined
    for (const step of steps) {
      const outcome = step(call)
      switch (outcome._tag) {
        case "Same":
          break
        case "Changed":
          call = outcome.call
          note ??= outcome.note
          changes.push(outcome.change)
          break
        case "Dropped":
          changes.push(outcome.change)
          return []
        case "Cut":
          // The model went on after this call, so that no limit cut it.
          if (given !== last) break
          truncated = true
          return []
      }
    }
    if (note !== undefined) notes.set(call, note)
    return [call]
  }
  const kept = parts.flatMap((part) => (isCall(part) ? applySteps(part) : [part]))
  return { parts: kept, truncated, changes, notes }
}
