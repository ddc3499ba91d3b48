/**
 * How a step ended: what the loop decides on. A step has no policy, and the loop has no flags.
 *
 * @since 0.1.0
 */
import type * as Prompt from "effect/ai/Prompt"

/** See the module. */
export type Outcome =
  /** The model answered and asks for nothing more. */
  | { readonly _tag: "Finished"; readonly text: string }
  /** Tools ran, their results are in the conversation. */
  | { readonly _tag: "Continue" }
  /** The answer was cut by the output limit; `calls` were asked for and not run. */
  | { readonly _tag: "Truncated"; readonly text: string; readonly calls: ReadonlyArray<Prompt.ToolCallPart> }
  /** The provider paused in the middle of an answer, which is kept; asked again, it goes on. */
  | { readonly _tag: "Paused"; readonly text: string }
  /** Neither text nor calls. */
  | { readonly _tag: "Empty" }
  /** The provider's content filter ended the answer. */
  | { readonly _tag: "Filtered"; readonly text: string }

/** Every call has its result; go on. */
export const continued: Outcome = { _tag: "Continue" }

/** Nothing came. */
export const empty: Outcome = { _tag: "Empty" }
