/**
 * A plan for compacting a conversation, as requested by middleware: the part that is kept, and the treatment of the
 * rest.
 *
 * Source: `nexau.md` §4.
 */
import type * as Redacted from "effect/Redacted"
import type { Configurable } from "./ApiMode.ts"

/** Model that writes the summary instead of the model of the task `compression`. */
export interface SummaryModel {
  readonly model: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string>
  readonly apiMode: Configurable
}

/** The part of a conversation that is kept, and the treatment of the rest. */
export interface CompactionPlan {
  /** Strategy that replaces each old tool result by one line, or all old messages by a summary. */
  readonly strategy: "tool_result_compaction" | "llm_summary"
  /**
   * Newest units that are kept. An `iteration` is an answer with its tool results and the user's messages before it; a
   * `user_round` is a user's question with all messages up to its final answer.
   */
  readonly keep: { readonly unit: "iteration" | "user_round"; readonly count: number }
  /** Tools whose results may be replaced by one line; all tools if absent. */
  readonly compactableTools?: ReadonlyArray<string> | undefined
  /** Instructions for the summary instead of the default instructions. */
  readonly prompt?: string | undefined
  readonly summaryModel?: SummaryModel | undefined
  /** Maximum number of attempts to get a summary. */
  readonly attempts: number
  /** Context window of the model, in tokens; defaults to the known window of the model. */
  readonly window?: number | undefined
}
