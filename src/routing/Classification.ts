/**
 * Classification of a provider's failure: its reason, and the recoveries from it. Pure: the same failure under the same facts is
 * always decided alike.
 *
 * Source: `hermes-llm.md` §16.
 */
import type * as AiError from "effect/ai/AiError"
import * as Evidence from "./classification/Evidence.ts"
import type { WrongAddress } from "./classification/Evidence.ts"
import * as Rules from "./classification/Rules.ts"
import type { Reason } from "./Recovery.ts"
import * as Recovery from "./Recovery.ts"

export type { CallSituation } from "./classification/Evidence.ts"
export { Reason } from "./Recovery.ts"

/** Reason of a failure and the recoveries from it. */
export interface Decision {
  readonly reason: Reason
  /** Recoveries in the order in which they are tried. None: the call fails. */
  readonly recoveries: ReadonlyArray<Recovery.Recovery>
  /** The same route may still answer. */
  readonly retryable: boolean
  /** The rule that decided. */
  readonly rule: string
  readonly status: number | undefined
  /** The address will never serve a model. */
  readonly wrongAddress: WrongAddress | undefined
  /** Message of the provider, at most 500 characters. */
  readonly message: string
}

/** A failure and what was decided on it. */
export interface Failure {
  readonly error: AiError.AiError
  readonly decision: Decision
}

const maxMessage = 500

/** Decides on a failure. `facts` says how large the call was; absent facts count as small. */
export const classify = (error: AiError.AiError, facts: Evidence.CallSituation = {}): Decision => {
  const evidence = Evidence.of(error)
  let reason: Reason = Rules.otherwise.reason
  let rule = Rules.otherwise.name
  for (const { judge, name } of Rules.rules) {
    const found = judge(evidence, facts)
    if (found === undefined) continue
    reason = found
    rule = name
    break
  }
  const outputCap = reason === "output_cap" ? Rules.parseOutputCap(evidence.text) : undefined
  const { parameters, retryAfter, unreachable } = evidence
  const wrongAddress = Recovery.mayBeAddress.has(reason) ? evidence.wrongAddress : undefined
  const recoveries = Recovery.of(reason, { retryAfter, outputCap, unreachable, parameters, wrongAddress: wrongAddress !== undefined })
  return {
    reason,
    recoveries,
    retryable: Recovery.isRetryable(recoveries),
    rule,
    status: evidence.status,
    wrongAddress,
    message: evidence.message.slice(0, maxMessage)
  }
}

/** A decision as one line for people: what it was taken for, by which rule, and what is done about it. */
export const explain = (error: AiError.AiError, facts: Evidence.CallSituation = {}): string => {
  const { message, reason, recoveries, rule, status } = classify(error, facts)
  const said = message === "" ? error.reason._tag : `"${message}"`
  const from = status === undefined ? said : `HTTP ${status}, ${said}`
  const plan = recoveries.length === 0 ? "give up" : `${recoveries.map(Recovery.describe).join(", else ")}, else give up`
  return `${reason}: ${from}. Rule: ${rule}. Then: ${plan}.`
}
