/**
 * From the effort that a user asks for to the fields that a model understands.
 *
 * **Details**
 *
 * `minimal` thinks as little as `none` (the seed's rule, `ARCHITECTURE.md` §7, D5). No effort asked for, and models that
 * never think, leave the fields out: the API's default holds. A request that forces a tool call leaves them out too,
 * because the API refuses the two together.
 *
 * Source: `hermes-llm.md` §14.2.
 *
 * @since 0.1.0
 */
import type { ReasoningEffort } from "../../domain/Model.ts"
import type { Abilities } from "./Claude.ts"
import * as OutputLimits from "./OutputLimits.ts"

/** Thinking by effort. */
export interface Adaptive {
  readonly style: "adaptive"
  readonly effort: string
}
/** Thinking by a number of tokens. */
export interface Budget {
  readonly style: "budget"
  readonly tokens: number
}
/** See the module; undefined leaves thinking to the API. */
export type Thinking = Adaptive | Budget | undefined

type Asked = Exclude<ReasoningEffort, "none" | "minimal">

/** Tokens to think with, where a model counts them. */
export const budgets: Readonly<Record<Asked, number>> = { xhigh: 32_000, high: 16_000, medium: 8_000, low: 4_000 }

/** What the answer itself gets at least, above the budget. */
export const answerTokens = 4_096

/** See the module. */
export const of = (effort: ReasoningEffort | undefined, abilities: Abilities): Thinking => {
  if (effort === undefined || effort === "none" || effort === "minimal") return undefined
  switch (abilities.thinking) {
    case "never":
      return undefined
    case "adaptive":
      return { style: "adaptive", effort: effort === "xhigh" && !abilities.xhigh ? "max" : effort }
    case "budget":
      return { style: "budget", tokens: budgets[effort] }
  }
}

/**
 * `max_tokens` and the thinking that fits into it. A budget raises the cap so that an answer fits above it; where the window
 * leaves no room for both, there is no thinking.
 */
export const fit = (
  cap: number,
  contextWindow: number | undefined,
  thinking: Thinking
): { readonly maxTokens: number; readonly thinking: Thinking } => {
  const plain = OutputLimits.fit(cap, contextWindow)
  if (thinking?.style !== "budget") return { maxTokens: plain, thinking }
  const raised = OutputLimits.fit(Math.max(cap, thinking.tokens + answerTokens), contextWindow)
  return raised > thinking.tokens ? { maxTokens: raised, thinking } : { maxTokens: plain, thinking: undefined }
}
