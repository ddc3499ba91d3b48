/**
 * Sums over sessions in the studio's interface: by day, model, tool, agent, skill and failure. Types alone.
 */
import type { Tokens, Totals } from "./StudioApi.ts"

/** Percentiles of durations; absent without durations. */
export interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p99: number
}

/** Sums of a day. */
export interface Day extends Totals {
  /** `2026-11-22` */
  readonly day: string
  /** Latency of model calls. */
  readonly latency?: Percentiles | undefined
}

/** Sums of the calls of a model, a tool or an agent, and their days in order. */
export interface Share {
  readonly name: string
  readonly calls: number
  /** Conversations with such calls, sub-agents counted with theirs. */
  readonly sessions: number
  /** Calls that failed or were blocked. */
  readonly errors: number
  readonly tokens: Tokens
  readonly cost?: number | undefined
  readonly latency?: Percentiles | undefined
  readonly days: ReadonlyArray<{
    readonly day: string
    readonly calls: number
    readonly errors: number
    readonly tokens: number
    readonly cost?: number | undefined
  }>
}

/** An error message and its frequency. */
export interface ErrorShare {
  /** Name of the model or tool. */
  readonly name: string
  readonly kind: "model" | "tool"
  /** Class or reason: `rate_limit`, `approval_denied`, …; `error` if it is unknown. */
  readonly reason: string
  readonly count: number
  /** Text of the latest one, in one line. */
  readonly message?: string | undefined
  /** Session of the latest one. */
  readonly session: string
}

/**
 * Sums over the sessions that a query finds and their sub-agents; with `since` or `until` over what happened between
 * them.
 */
export interface Aggregates extends Totals {
  /** Conversations: one that compaction carried over several sessions counts once. */
  readonly sessions: number
  /** Milliseconds of the runs that began in the period, sub-agents aside. */
  readonly active: number
  /** Messages without copies, and those that users wrote, sub-agents aside. */
  readonly messages: number
  readonly userMessages: number
  /** Model calls that were paid for, by the state of the amount. */
  readonly costs: CostBuckets
  /** By label of the session, most calls first. Calls are model calls. */
  readonly sources: ReadonlyArray<Share>
  /** Model calls by hour of the day, from 0 to 23. */
  readonly hours: ReadonlyArray<number>
  /** Latency of model calls, of the first piece of an answer, and of tools. */
  readonly modelLatency?: Percentiles | undefined
  readonly firstPart?: Percentiles | undefined
  readonly toolLatency?: Percentiles | undefined
  /** Share of prompt tokens that came from the cache, 0 to 1; absent without tokens. */
  readonly cacheHit?: number | undefined
  readonly days: ReadonlyArray<Day>
  /** By model, most calls first. */
  readonly models: ReadonlyArray<Share>
  /** By tool, most calls first. Tools have no tokens. */
  readonly tools: ReadonlyArray<Share>
  /** Most used first. */
  readonly skills: ReadonlyArray<SkillShare>
  /** Conversations with the longest time, the most messages, tokens and tool calls. */
  readonly notable: ReadonlyArray<{ readonly name: string; readonly session: Conversation }>
  /** By agent: `main`, and the roles of sub-agents. Calls are model calls. */
  readonly agents: ReadonlyArray<Share>
  /** Most frequent first. */
  readonly failures: ReadonlyArray<ErrorShare>
}

/** Uses of a skill: loads by a model or a user, and changes that were made to it. */
export interface SkillShare {
  readonly name: string
  readonly loads: number
  readonly edits: number
  readonly lastUsed: number
}

/** A session with the sessions that it continues after compactions; the id is the newest one's. */
export interface Conversation {
  readonly id: string
  readonly title?: string | undefined
  readonly duration: number
  readonly messages: number
  readonly tokens: number
  readonly toolCalls: number
}

/** Model calls by the state of their cost; amounts are US dollars. */
export interface CostBuckets {
  /** The provider reported the amount. */
  readonly actual: CostBucket
  /** The amount is from a list of prices. */
  readonly estimated: CostBucket
  /** Part of a subscription. */
  readonly included: CostBucket
  /** No price is known. */
  readonly unknown: CostBucket
}

/** Calls of one kind and the sum of their amounts. */
export interface CostBucket {
  readonly calls: number
  readonly cost: number
}
