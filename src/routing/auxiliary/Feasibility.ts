/**
 * Whether the model that makes summaries can read what it has to make smaller, found out before the first turn. Pure.
 *
 * Source: `hermes-llm.md` §5.4.
 *
 * @since 0.1.0
 */
import { minimum } from "../ContextWindow.ts"

/** See the module. */
export type Feasibility =
  | { readonly _tag: "Fine" }
  /** Nobody makes summaries: old messages are dropped without one. */
  | { readonly _tag: "Without"; readonly warning: string }
  /** The trigger is lowered to what the summarising model holds. */
  | { readonly _tag: "Lowered"; readonly trigger: number; readonly threshold: number; readonly warning: string }
  /** The agent must not start. */
  | { readonly _tag: "Refused"; readonly message: string }

/** What is compared: windows in tokens, and the number of tokens at which a conversation is compacted. */
export interface Input {
  readonly summary: { readonly model: string; readonly window: number } | undefined
  readonly mainWindow: number
  readonly trigger: number
}

/** See the module. */
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
