/**
 * Outcome of a step: what the loop decides on. A step has no policy, and the loop has no flags.
 */

/** Outcome of one step. */
export type Outcome =
  /** The model answered and asks for nothing more. */
  | { readonly _tag: "Finished"; readonly text: string }
  /** Tools were asked for, and every call has its result. */
  | Continued
  /** The output limit cut the answer. Its text is in the conversation, unless calls were cut: then nothing of it is. */
  | { readonly _tag: "Truncated"; readonly text: string; readonly cut: "text" | "calls" | "thinking" }
  /** The answer went beyond a bound and was ended there; its text up to it is in the conversation. */
  | { readonly _tag: "Endless"; readonly text: string }
  /** The connection was lost in the middle of the answer, and the rest could not be had. Its text is in the conversation. */
  | { readonly _tag: "BrokenOff"; readonly text: string }
  /** The provider paused in the middle of an answer, which is kept; asked again, it goes on. */
  | { readonly _tag: "Paused"; readonly text: string }
  /** Neither text nor calls; `reasoned` when there was reasoning, which is in the conversation then. */
  | { readonly _tag: "Empty"; readonly reasoned: boolean }
  /** The provider's content filter ended the answer. */
  | { readonly _tag: "Filtered"; readonly text: string }
  /** A guardrail ended the run. */
  | { readonly _tag: "Halted"; readonly message: string }

/** See {@link Outcome}. */
export interface Continued {
  readonly _tag: "Continue"
  /** Text beside the calls. */
  readonly text: string
  readonly tools: ReadonlyArray<string>
  /** True when a call of the step could not even be tried: an unknown tool, arguments that are no object. */
  readonly invalid: boolean
}
