/**
 * A plan for compacting a conversation, as requested by middleware: which part stays, and how the rest is treated.
 *
 * Source: `nexau.md` §4.
 */
import type * as Redacted from "effect/Redacted"
import type { Configurable } from "./ApiMode.ts"

/** Model that writes summaries, instead of the model of the task `compression`. */
export interface SummaryModel {
  readonly model: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string>
  readonly apiMode: Configurable
}

/** Describes what stays of a conversation, and the treatment of the rest. */
export interface CompactionPlan {
  /** Replaces old tool results by one line each, or all old messages by a summary. */
  readonly strategy: "tool_result_compaction" | "llm_summary"
  /**
   * Newest units that stay: an answer with its results and the user's messages before it, or a question with all until
   * its answer.
   */
  readonly keep: { readonly unit: "iteration" | "user_round"; readonly count: number }
  /** Tools whose results may become a line; all when absent. */
  readonly compactableTools?: ReadonlyArray<string> | undefined
  /** Instructions for the summary in place of the engine's. */
  readonly prompt?: string | undefined
  readonly summaryModel?: SummaryModel | undefined
  /** Times that a summary is asked for. */
  readonly attempts: number
  /** Tokens that the model holds; those that are known of it when absent. */
  readonly window?: number | undefined
}
