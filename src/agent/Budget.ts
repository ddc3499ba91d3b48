/**
 * Limits of one run: model calls, tokens, money, time and tool calls. The run records its usage in a ledger, which is
 * checked before each step.
 *
 * **Details**
 *
 * The usage of a child is also charged to its parent, and a limit of the parent applies to its children. Only model
 * calls are counted for each run alone. A limit ends a run before its next step, except that the time limit also cuts a
 * running step. The limit of tool calls is reached when a call had to be refused, not when the last one was allowed, so
 * that the model can still answer with the results that it has.
 *
 * A step whose only tool was `execute_code` is refunded. The number of refunds is limited to the number of model calls,
 * so that a model that only runs scripts ends too.
 *
 * Spending outside a run's own model calls (titles, summaries, image descriptions, judged commands, requests of MCP
 * servers) is charged to the account of its session ({@link UsageAccounts}), so that it is included in the totals of
 * the run and charged to the run's budget. A run opens the account of its session and closes it when it ends. While no
 * run is active, only the stored totals of the session increase.
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

/** Limits of a run besides the number of model calls. An absent limit does not apply. */
export interface Limits {
  /** Maximum number of tokens that the run's model calls read and write. */
  readonly tokens?: number | undefined
  /** Maximum cost in US dollars, as far as prices are known. */
  readonly dollars?: number | undefined
  /** Maximum duration in seconds, from the start of the run. */
  readonly seconds?: number | undefined
  /** Maximum number of tool calls that are run. */
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

/** Creates the ledger of a run that starts now. */
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

/** Merges the limits of a run with the limits of its agent. A limit of the run takes precedence. */
export const merge = (agent: Limits | undefined, run: Limits | undefined): Limits => ({
  tokens: run?.tokens ?? agent?.tokens,
  dollars: run?.dollars ?? agent?.dollars,
  seconds: run?.seconds ?? agent?.seconds,
  toolCalls: run?.toolCalls ?? agent?.toolCalls
})

/** Returns a ledger and the ledgers of the runs that contain its run. */
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

/**
 * Returns the milliseconds until the time limit ends the run, or `undefined` without a limit. Negative after the limit.
 */
export const computeMillisLeft = (budget: Budget, now: number): number | undefined => {
  const ends = collectLedgers(budget).flatMap(({ limits: { seconds }, startedAt }) =>
    seconds === undefined ? [] : [startedAt + seconds * 1000]
  )
  return ends.length === 0 ? undefined : Math.min(...ends) - now
}

/** Returns the exhausted limit, if any. The run then takes no more steps. */
export const findExhaustedLimit = (budget: Budget, now: number): Limit | undefined => {
  if (budget.usedIterations >= budget.iterations) return "iterations"
  return budget.refusedCall ? "tool_calls" : findSpentLimit(budget, now)
}

/** Returns the exhausted limit of tokens, money or time, if any. No more model calls are then made for the run. */
export const findSpentLimit = (budget: Budget, now: number): Limit | undefined => {
  for (const one of collectLedgers(budget)) {
    const limit = findOverspentLimit(one)
    if (limit !== undefined) return limit
  }
  const left = computeMillisLeft(budget, now)
  return left !== undefined && left <= 0 ? "time" : undefined
}

/** Counts the beginning of a step. */
export const takeIteration = (budget: Budget): void => {
  budget.usedIterations++
}

/** Removes the step that just ended from the count. */
export const refundIteration = (budget: Budget): void => {
  if (budget.refunds >= budget.iterations) return
  budget.refunds++
  budget.usedIterations--
}

/** Counts a tool call that is about to run. Returns false if the run may make no more tool calls. */
export const takeToolCall = (budget: Budget): boolean => {
  const line = collectLedgers(budget)
  const spent = line.some(({ limits, toolCalls }) => limits.toolCalls !== undefined && toolCalls >= limits.toolCalls)
  if (spent) budget.refusedCall = true
  else for (const one of line) one.toolCalls++
  return !spent
}

/** Adds the usage and cost of a model call to the ledger. */
export const charge = (budget: Budget, usage: Usage.Usage, cost: Cost.Cost): void => {
  for (const one of collectLedgers(budget)) {
    one.usage = Usage.add(one.usage, usage)
    one.cost = one === budget ? Cost.addCall(one.cost, cost) : Cost.withChild(one.cost, cost)
  }
}

/** Returns true, once for each run, if a money limit cannot be enforced because a price is missing. */
export const isUnpriced = (budget: Budget, { amount }: Pick<Cost.Cost, "amount">): boolean => {
  if (amount !== undefined || budget.toldOfPrice) return false
  budget.toldOfPrice = collectLedgers(budget).some(({ limits }) => limits.dollars !== undefined)
  return budget.toldOfPrice
}

/** Share of the time limit after which the model is asked to finish. */
const wrapUpShare = 0.8

/**
 * Returns the remaining seconds if the model has to be notified of the time limit, which happens once. Otherwise
 * returns `undefined`.
 */
export const takeWrapUpSeconds = (budget: Budget, now: number): number | undefined => {
  const left = computeMillisLeft(budget, now)
  if (left === undefined || budget.toldOfTime) return undefined
  const total = left + now - budget.startedAt
  if (left > total * (1 - wrapUpShare)) return undefined
  budget.toldOfTime = true
  return Math.max(1, Math.round(left / 1000))
}

/** Words that describe a limit and a remedy for it. */
export interface Wording {
  /** Noun phrase that fits into "… is used up". */
  readonly what: string
  readonly remedy: string
}

const wordings: Readonly<Record<Limit, Wording>> = {
  iterations: { what: "the number of model calls", remedy: "raise agent.max_turns (--max-turns)" },
  tokens: { what: "the number of tokens", remedy: "raise agent.run_budget_tokens" },
  cost: { what: "the money", remedy: "raise agent.run_budget_dollars" },
  time: { what: "the time", remedy: "raise agent.run_budget_seconds (--run-budget)" },
  tool_calls: { what: "the number of tool calls", remedy: "raise agent.run_budget_tool_calls" },
  allowance: { what: "the allowance of the tenant", remedy: "raise the tenant's limits" }
}

/** Returns the {@link Wording} of a limit. */
export const getWording = (limit: Limit): Wording => wordings[limit]

/** Adds an entry to the usage totals of a run. */
export type Charge = (entry: Entry) => Effect.Effect<void>

/**
 * Account to which side tasks of a fiber are charged instead of the account of the session. It is used by work for a
 * run that has ended.
 */
export const OwnAccount = Context.Reference<Charge | undefined>("hermes-effect/agent/OwnAccount", {
  defaultValue: () => undefined
})

/** Accounts of runs, by session. */
export interface Accounts {
  /** Runs an effect with an account open for its session. */
  readonly during: <A, E, R>(
    sessionId: string,
    charge: Charge,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E, R>
  /** Returns the account of a session, or `undefined` if the session has no active run. */
  readonly of: (sessionId: string) => Charge | undefined
}

/** Service of the usage accounts of a runtime. */
export class UsageAccounts extends Context.Service<UsageAccounts, Accounts>()("hermes-effect/agent/UsageAccounts") {
  /** Layer of separate accounts for one runtime. */
  static readonly layer: Layer.Layer<UsageAccounts> = Layer.fresh(Layer.sync(UsageAccounts, () => makeAccounts()))
}

/** Creates an empty set of accounts. */
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
