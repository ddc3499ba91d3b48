/**
 * A plan for compacting a conversation, requested by middleware. It states the part that is kept and the text for the
 * rest.
 *
 * Source: `nexau.md` §4.
 */
import type * as Redacted from "effect/Redacted"
import type { Configurable } from "./ApiMode.ts"

/** Model that writes the summary instead of the model of the side task `compression`. */
export interface SummaryModel {
  readonly model: string
  readonly baseUrl: string
  readonly apiKey: Redacted.Redacted<string>
  readonly apiMode: Configurable
}

/** States the part of a conversation that is kept, and the text for the rest. */
export interface CompactionPlan {
  /**
   * `tool_result_compaction` replaces each old tool result with one line; `llm_summary` replaces all old messages with
   * a summary.
   */
  readonly strategy: "tool_result_compaction" | "llm_summary"
  /**
   * Number of the newest units that are kept. An `iteration` is an answer with its tool results and the user's messages
   * before it; a `user_round` is a user's question with all messages up to its final answer.
   */
  readonly keep: { readonly unit: "iteration" | "user_round"; readonly count: number }
  /** Tools whose results may be replaced with one line; all tools if absent. */
  readonly compactableTools?: ReadonlyArray<string> | undefined
  /** Instructions for the summary instead of the default instructions. */
  readonly prompt?: string | undefined
  readonly summaryModel?: SummaryModel | undefined
  /** Maximum number of attempts to get a summary. */
  readonly attempts: number
  /** Context window of the model, in tokens; defaults to the known window of the model. */
  readonly window?: number | undefined
}
