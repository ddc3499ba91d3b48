/**
 * Types of the totals in the studio's interface: by day, model, tool, agent, skill and failure. This module contains
 * only types.
 */
import type { MissSum } from "../../base/domain/CacheMisses.ts"
import type { MiddlewareHealth } from "../../base/domain/RecordEvent.ts"
import type { Tokens, Totals } from "./StudioApi.ts"

/** Percentiles of durations, in milliseconds. */
export interface Percentiles {
  readonly p50: number
  readonly p90: number
  readonly p99: number
}

/** Totals of one day. */
export interface Day extends Totals {
  /** `2026-11-22` */
  readonly day: string
  /** Latency of model calls. */
  readonly latency?: Percentiles | undefined
}

/** Totals of the calls of a model, a tool or an agent, and the same totals by day, in order. */
export interface Share {
  readonly name: string
  readonly calls: number
  /** Number of conversations with such calls. Sub-agents count as part of their conversation. */
  readonly sessions: number
  /** Number of calls that failed or were blocked. */
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
  /** Name of the model or tool that failed. */
  readonly name: string
  readonly kind: "model" | "tool"
  /** Class or reason of the error: `rate_limit`, `approval_denied`, …, or `error` if it is unknown. */
  readonly reason: string
  readonly count: number
  /** Message of the latest error, as a single line. */
  readonly message?: string | undefined
  /** Session of the latest error. */
  readonly session: string
}

/**
 * Totals of the sessions that match a query and their sub-agents. With `since` or `until`, only events in that period
 * are counted.
 */
export interface Aggregates extends Totals {
  /** Number of conversations. A conversation that compaction split into several sessions counts once. */
  readonly sessions: number
  /** Total duration of the runs that began in the period, in milliseconds. Sub-agents are excluded. */
  readonly active: number
  /**
   * Number of messages. Copied messages and messages of sub-agents are excluded. `userMessages` is the number of
   * messages written by users.
   */
  readonly messages: number
  readonly userMessages: number
  /** Model calls by the status of their cost. */
  readonly costs: CostBuckets
  /** Model calls by the label of their session, most calls first. */
  readonly sources: ReadonlyArray<Share>
  /** Model calls by the tenant of their session, most calls first. Sessions without a tenant are excluded. */
  readonly tenants: ReadonlyArray<Share>
  /** Number of model calls by hour of the day, from 0 to 23. */
  readonly hours: ReadonlyArray<number>
  /**
   * Latency of model calls. The next two fields are the time to the first part of an answer and the latency of tool
   * calls.
   */
  readonly modelLatency?: Percentiles | undefined
  readonly firstPart?: Percentiles | undefined
  readonly toolLatency?: Percentiles | undefined
  /** Fraction of prompt tokens that were read from the cache, 0 to 1. Absent if there are no tokens. */
  readonly cacheHit?: number | undefined
  readonly days: ReadonlyArray<Day>
  /** Totals by model, most calls first. */
  readonly models: ReadonlyArray<Share>
  /** Totals by tool, most calls first. Their token counts are zero. */
  readonly tools: ReadonlyArray<Share>
  /** Uses of skills, most used first. */
  readonly skills: ReadonlyArray<SkillShare>
  /** Conversations with the longest duration, the most messages, the most tokens and the most tool calls. */
  readonly notable: ReadonlyArray<{ readonly name: string; readonly session: Conversation }>
  /** Model calls by agent: `main`, and the roles of sub-agents. */
  readonly agents: ReadonlyArray<Share>
  /** Errors, most frequent first. */
  readonly failures: ReadonlyArray<ErrorShare>
  /** Model calls that paid again for a cached prefix, by reason, most tokens first. */
  readonly misses: ReadonlyArray<MissSum>
  /** Calls, faults and own time of middleware, longest time first. */
  readonly middleware: ReadonlyArray<MiddlewareHealth>
}

/** Uses of a skill: loads by a model or a user, and edits. */
export interface SkillShare {
  readonly name: string
  readonly loads: number
  readonly edits: number
  readonly lastUsed: number
}

/**
 * A conversation: a session and the sessions that it continues after compactions. The id is the id of the newest
 * session.
 */
export interface Conversation {
  readonly id: string
  readonly title?: string | undefined
  readonly duration: number
  readonly messages: number
  readonly tokens: number
  readonly toolCalls: number
}

/** Model calls by the status of their cost. Amounts are in US dollars. */
export interface CostBuckets {
  /** Calls whose cost the provider reported. */
  readonly actual: CostBucket
  /** Calls whose cost was calculated from a price list. */
  readonly estimated: CostBucket
  /** Calls that are covered by a subscription. */
  readonly included: CostBucket
  /** Calls whose price is unknown. */
  readonly unknown: CostBucket
}

/** Number of calls of one kind and the sum of their costs. */
export interface CostBucket {
  readonly calls: number
  readonly cost: number
}
