/**
 * Detects loops in a run: the same call fails repeatedly, one tool keeps failing, or a read-only call keeps returning
 * the same answer. The model first receives a warning with the result; if hard stops are enabled, the run then stops.
 *
 * **Details**
 *
 * A guard belongs to one run, so that its counts start at zero in each run. A success clears the counts of its call and
 * its tool.
 *
 * Source: `hermes-llm.md` §13.10.
 */
import * as Predicate from "effect/Predicate"
import * as Digest from "../../base/platform/Digest.ts"

/** Counts of one kind of repetition at which to warn or to stop. */
interface Thresholds {
  readonly exactFailure: number
  readonly sameToolFailure: number
  readonly noProgress: number
}

/** Settings of the loop guard. */
export interface Settings {
  readonly warnings: boolean
  readonly hardStop: boolean
  readonly warnAfter: Thresholds
  readonly hardStopAfter: Thresholds
}

/** Default settings: warnings, but no hard stop. */
export const defaults: Settings = {
  warnings: true,
  hardStop: false,
  warnAfter: { exactFailure: 2, sameToolFailure: 3, noProgress: 2 },
  hardStopAfter: { exactFailure: 5, sameToolFailure: 8, noProgress: 5 }
}

/** A call that has ended. */
interface FinishedCall {
  readonly name: string
  readonly args: unknown
  readonly output: string
  readonly isFailure: boolean
  /** True if repeating the call cannot change anything; the same answer then counts as no progress. */
  readonly idempotent: boolean
}

/** Verdict on a call that has ended. */
type Verdict =
  | { readonly _tag: "Fine" }
  | { readonly _tag: "Warn"; readonly message: string }
  | { readonly _tag: "Halt"; readonly message: string }

/** Reason to refuse a call before it runs; `undefined` if it may run. */
type Refusal = string | undefined

/** Detects loops in a run. */
export interface LoopGuard {
  readonly before: (call: Pick<FinishedCall, "name" | "args" | "idempotent">) => Refusal
  readonly after: (call: FinishedCall) => Verdict
}

const fine: Verdict = { _tag: "Fine" }

const toCanonical = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(toCanonical)
  if (!Predicate.isObject(value)) return value
  const entries = Object.entries(value)
  if (entries.length < 2 && entries.every(([, member]) => typeof member !== "object")) return value
  return Object.fromEntries(
    entries.toSorted(([a], [b]) => (a < b ? -1 : 1)).map(([key, member]) => [key, toCanonical(member)])
  )
}

/** Returns a text that is the same for calls of a tool with equal arguments, in any order of keys. */
export const makeCallSignature = (name: string, args: unknown): string =>
  `${name}\n${JSON.stringify(toCanonical(args))}`

/** True when a result reports a failure, even if the tool returned it as a success. */
const isFailedResult = ({ isFailure, name, output }: FinishedCall): boolean => {
  if (isFailure) return true
  if (name === "terminal") return /"exit_code":\s*(?!0\b)-?\d+/.test(output.slice(-4_000))
  const start = output.slice(0, 500)
  return start.startsWith("Error") || /"(?:error|failed)"\s*:\s*(?!null|false|""|0\b)/.test(start)
}

/**
 * An answer that was returned before. A long answer is stored as its digest, so that a run does not retain its tools'
 * results.
 */
interface RepeatedAnswer {
  readonly output: string
  readonly times: number
}

const remembered = 256
const makeFingerprint = (output: string): string =>
  output.length <= remembered ? output : `${output.length} ${Digest.toHex(output, 32)}`

const renderStopMessage = (name: string, what: string): string =>
  `Stopped: ${what}. Calling ${name} like this again will not help; the run ends here.`

/** Creates a guard for one run. */
export const make = (settings: Settings): LoopGuard => {
  const exact = new Map<string, number>()
  const tools = new Map<string, number>()
  const answers = new Map<string, RepeatedAnswer>()

  const before: LoopGuard["before"] = ({ args, idempotent, name }) => {
    if (!settings.hardStop) return undefined
    const key = makeCallSignature(name, args)
    const failures = exact.get(key) ?? 0
    if (failures >= settings.hardStopAfter.exactFailure) {
      return renderStopMessage(name, `the same call of ${name} failed ${failures} times`)
    }
    const same = answers.get(key)?.times ?? 0
    return idempotent && same >= settings.hardStopAfter.noProgress
      ? renderStopMessage(name, `the same call of ${name} gave the same answer ${same} times`)
      : undefined
  }

  const recordFailure = (name: string, key: string): Verdict => {
    const calls = (exact.get(key) ?? 0) + 1
    const ofTool = (tools.get(name) ?? 0) + 1
    exact.set(key, calls)
    tools.set(name, ofTool)
    if (settings.hardStop && ofTool >= settings.hardStopAfter.sameToolFailure) {
      return { _tag: "Halt", message: renderStopMessage(name, `${name} failed ${ofTool} times in a row`) }
    }
    if (!settings.warnings) return fine
    if (calls >= settings.warnAfter.exactFailure) {
      return {
        _tag: "Warn",
        message:
          `This exact call of ${name} has failed ${calls} times. Do not repeat it: read the error, and change the ` +
          "arguments or the approach."
      }
    }
    return ofTool >= settings.warnAfter.sameToolFailure
      ? {
          _tag: "Warn",
          message:
            `${name} has failed ${ofTool} times in a row. Think about why before you call it again, or use ` +
            "another tool."
        }
      : fine
  }

  const recordSuccess = (ended: FinishedCall): Verdict => {
    const { idempotent, name, output } = ended
    if (tools.size > 0) tools.delete(name)
    if (!idempotent) {
      // The call may have changed something, so earlier answers may be outdated.
      if (answers.size > 0) answers.clear()
      if (exact.size > 0) exact.delete(makeCallSignature(name, ended.args))
      return fine
    }
    const key = makeCallSignature(name, ended.args)
    exact.delete(key)
    const print = makeFingerprint(output)
    const last = answers.get(key)
    const times = last?.output === print ? last.times + 1 : 1
    answers.set(key, { output: print, times })
    return settings.warnings && times >= settings.warnAfter.noProgress
      ? {
          _tag: "Warn",
          message:
            `This exact call of ${name} has now returned the same result ${times} times. You have it already: use ` +
            "it, or ask for something else."
        }
      : fine
  }

  return {
    before,
    after: (ended) =>
      isFailedResult(ended)
        ? recordFailure(ended.name, makeCallSignature(ended.name, ended.args))
        : recordSuccess(ended)
  }
}
