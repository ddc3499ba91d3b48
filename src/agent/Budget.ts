/**
 * Limits of one run: model calls, tokens, money, time and tool calls. A ledger that the run writes as it goes, and that
 * is asked before each step whether there is anything left.
 *
 * **Details**
 *
 * Use by a child counts for its parent too, and a limit of the parent applies to its children. Only model calls are
 * counted for each run alone. A limit ends a run before its next step, except that the time limit also cuts a step that
 * is under way. The limit of tool calls is reached when a call had to be refused, not when the last one was allowed, so
 * that the model can still answer with the results that it has.
 *
 * A step whose only tool was `execute_code` is refunded, as often as there are model calls, so that a script that is
 * run for ever ends too.
 *
 * Spending outside a run's own model calls (titles, summaries, image descriptions, judged commands, requests of MCP
 * servers) is charged to the account of its session ({@link UsageAccounts}), so that it is included in the sums of the
 * run and counts for its budget. A run opens the account of its session and closes it when it ends. While no run is
 * active, only the session's stored sums grow.
 *
 * Source: `hermes-llm.md` §12, §13.8 and §18, `hermes-product.md` §1.2 (`--run-budget`) and §3.4, `ARCHITECTURE.md` §7.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Cost from "../base/domain/Cost.ts"
import type { Limit } from "../base/domain/RunEvent.ts"
import * as Usage from "../base/domain/Usage.ts"
import type { Entry } from "../models/routing/Auxiliary.ts"

/** Limits of a run besides model calls; without a limit where absent. */
export interface Limits {
  /** Tokens that its model calls read and write. */
  readonly tokens?: number | undefined
  /** US dollars, as far as prices are known. */
  readonly dollars?: number | undefined
  /** From its start. */
  readonly seconds?: number | undefined
  /** Tool calls that are run. */
  readonly toolCalls?: number | undefined
}

/** Ledger of one run. The run and its children write to it, including children that continue in the background. */
export interface Budget {
  readonly parent: Budget | undefined
  readonly iterations: number
  readonly limits: Limits
  readonly startedAt: number
  usedIterations: number
  refunds: number
  usage: Usage.Usage
  cost: Cost.Total
  toolCalls: number
  refusedCall: boolean
  toldOfTime: boolean
  toldOfPrice: boolean
}

/** The ledger of a run that starts now. */
export const make = ({
  iterations,
  limits,
  parent,
  startedAt
}: Pick<Budget, "iterations" | "limits" | "parent" | "startedAt">): Budget => ({
  parent,
  iterations,
  limits,
  startedAt,
  usedIterations: 0,
  refunds: 0,
  usage: Usage.zero,
  cost: Cost.nothing,
  toolCalls: 0,
  refusedCall: false,
  toldOfTime: false,
  toldOfPrice: false
})

/** The run's own limits over the agent's, one by one. */
export const merge = (agent: Limits | undefined, run: Limits | undefined): Limits => ({
  tokens: run?.tokens ?? agent?.tokens,
  dollars: run?.dollars ?? agent?.dollars,
  seconds: run?.seconds ?? agent?.seconds,
  toolCalls: run?.toolCalls ?? agent?.toolCalls
})

/** Returns a ledger and the ledgers of the runs that it is a part of. */
const collectLedgers = (budget: Budget): ReadonlyArray<Budget> => {
  const line = [budget]
  for (let above = budget.parent; above !== undefined; above = above.parent) line.push(above)
  return line
}

const findOverspentLimit = ({ cost, limits, usage }: Budget): Limit | undefined => {
  if (limits.tokens !== undefined && Usage.countTotalTokens(usage) >= limits.tokens) return "tokens"
  const isPaid =
    limits.dollars === undefined || BigDecimal.isLessThan(cost.amount, BigDecimal.fromNumberUnsafe(limits.dollars))
  return isPaid ? undefined : "cost"
}

/** Milliseconds until time cuts the run; undefined without a limit. Negative when it is over. */
export const computeMillisLeft = (budget: Budget, now: number): number | undefined => {
  const ends = collectLedgers(budget).flatMap(({ limits: { seconds }, startedAt }) =>
    seconds === undefined ? [] : [startedAt + seconds * 1000]
  )
  return ends.length === 0 ? undefined : Math.min(...ends) - now
}

/** Limit that is used up, if any: the run takes no further step then. */
export const findExhaustedLimit = (budget: Budget, now: number): Limit | undefined => {
  if (budget.usedIterations >= budget.iterations) return "iterations"
  return budget.refusedCall ? "tool_calls" : findSpentLimit(budget, now)
}

/** Limit of tokens, money or time that is used up, if any: nothing more is asked of a model for the run then. */
export const findSpentLimit = (budget: Budget, now: number): Limit | undefined => {
  for (const one of collectLedgers(budget)) {
    const limit = findOverspentLimit(one)
    if (limit !== undefined) return limit
  }
  const left = computeMillisLeft(budget, now)
  return left !== undefined && left <= 0 ? "time" : undefined
}

/** A step begins. */
export const takeIteration = (budget: Budget): void => {
  budget.usedIterations++
}

/** The step that just ended is not counted. */
export const refundIteration = (budget: Budget): void => {
  if (budget.refunds >= budget.iterations) return
  budget.refunds++
  budget.usedIterations--
}

/** A tool call is about to run; false when the run may make no more of them. */
export const takeToolCall = (budget: Budget): boolean => {
  const line = collectLedgers(budget)
  const spent = line.some(({ limits, toolCalls }) => limits.toolCalls !== undefined && toolCalls >= limits.toolCalls)
  if (spent) budget.refusedCall = true
  else for (const one of line) one.toolCalls++
  return !spent
}

/** A model call was paid for. */
export const charge = (budget: Budget, usage: Usage.Usage, cost: Cost.Cost): void => {
  for (const one of collectLedgers(budget)) {
    one.usage = Usage.add(one.usage, usage)
    one.cost = one === budget ? Cost.addCall(one.cost, cost) : Cost.withChild(one.cost, cost)
  }
}

/** True if a money limit cannot be enforced because a price is missing. Returns true once for each run. */
export const isUnpriced = (budget: Budget, { amount }: Pick<Cost.Cost, "amount">): boolean => {
  if (amount !== undefined || budget.toldOfPrice) return false
  budget.toldOfPrice = collectLedgers(budget).some(({ limits }) => limits.dollars !== undefined)
  return budget.toldOfPrice
}

/** Share of the time after which the model is asked to come to an end. */
const wrapUpShare = 0.8

/** Returns the seconds left if the model has to be notified, which happens once; otherwise `undefined`. */
export const takeWrapUpSeconds = (budget: Budget, now: number): number | undefined => {
  const left = computeMillisLeft(budget, now)
  if (left === undefined || budget.toldOfTime) return undefined
  const total = left + now - budget.startedAt
  if (left > total * (1 - wrapUpShare)) return undefined
  budget.toldOfTime = true
  return Math.max(1, Math.round(left / 1000))
}

/** Describes a limit in words and suggests a remedy. */
export interface Wording {
  /** Fits into "… is used up". */
  readonly what: string
  readonly remedy: string
}

const wordings: Readonly<Record<Limit, Wording>> = {
  iterations: { what: "the number of model calls", remedy: "raise agent.max_turns (--max-turns)" },
  tokens: { what: "the number of tokens", remedy: "raise agent.run_budget_tokens" },
  cost: { what: "the money", remedy: "raise agent.run_budget_dollars" },
  time: { what: "the time", remedy: "raise agent.run_budget_seconds (--run-budget)" },
  tool_calls: { what: "the number of tool calls", remedy: "raise agent.run_budget_tool_calls" }
}

/** See {@link Wording}. */
export const getWording = (limit: Limit): Wording => wordings[limit]

/** Takes an entry into the sums of a run. */
export type Charge = (entry: Entry) => Effect.Effect<void>

/** Account of the side tasks of a fiber, used instead of the session's account by work for a run that is over. */
export const OwnAccount = Context.Reference<Charge | undefined>("hermes-effect/agent/OwnAccount", {
  defaultValue: () => undefined
})

/** Accounts of runs, by session. */
export interface Accounts {
  /** Runs an effect while its session has an account. */
  readonly during: <A, E, R>(
    sessionId: string,
    charge: Charge,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Returns the account of a session, or undefined if it has no active run. */
  readonly of: (sessionId: string) => Charge | undefined
}

/** The accounts of a runtime. */
export class UsageAccounts extends Context.Service<UsageAccounts, Accounts>()("hermes-effect/agent/UsageAccounts") {
  /** Accounts of a runtime's own. */
  static readonly layer: Layer.Layer<UsageAccounts> = Layer.fresh(Layer.sync(UsageAccounts, () => makeAccounts()))
}

/** No accounts yet. */
const makeAccounts = (): Accounts => {
  const accounts = new Map<string, Charge>()
  return {
    during: (sessionId, charge, effect) =>
      Effect.suspend(() => {
        accounts.set(sessionId, charge)
        return Effect.ensuring(
          effect,
          Effect.sync(() => {
            if (accounts.get(sessionId) === charge) accounts.delete(sessionId)
          })
        )
      }),
    of: (sessionId) => accounts.get(sessionId)
  }
}
