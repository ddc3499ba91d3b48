/**
 * Checks before the first turn that the summarising model can read what it has to make smaller. Pure.
 *
 * Source: `hermes-llm.md` §5.4.
 */
import { minimum } from "../ContextWindow.ts"

/** Result of the check. */
export type Feasibility =
  | { readonly _tag: "Fine" }
  /** Nobody makes summaries: old messages are dropped without one. */
  | { readonly _tag: "Without"; readonly warning: string }
  /** The trigger is lowered to what the summarising model holds. */
  | { readonly _tag: "Lowered"; readonly trigger: number; readonly threshold: number; readonly warning: string }
  /** The agent must not start. */
  | { readonly _tag: "Refused"; readonly message: string }

/** Numbers to compare: windows in tokens, and the number of tokens at which a conversation is compacted. */
export interface Input {
  readonly summary: { readonly model: string; readonly window: number } | undefined
  readonly mainWindow: number
  readonly trigger: number
}

/** Compares the windows. */
export const judge = ({ mainWindow, summary, trigger }: Input): Feasibility => {
  if (summary === undefined) {
    return {
      _tag: "Without",
      warning: "no provider makes summaries: long conversations lose their middle without one; set auxiliary.compression.provider"
    }
  }
  const { model, window } = summary
  if (window < minimum) {
    return {
      _tag: "Refused",
      message: `${model}, which makes summaries, holds ${window} tokens and needs ${minimum}:`
        + " set auxiliary.compression.model, or auxiliary.compression.context_length if it holds more"
    }
  }
  if (window >= trigger) return { _tag: "Fine" }
  const threshold = window / mainWindow
  return {
    _tag: "Lowered",
    trigger: window,
    threshold,
    warning: `${model}, which makes summaries, holds ${window} tokens: conversations are compacted there instead of at ${trigger};`
      + ` set auxiliary.compression.model to one that holds more, or compression.threshold to ${threshold.toFixed(2)}`
  }
}
