/** Sub-agents, and background work that continues during a run. */
export * as BackgroundReview from "../../agent/BackgroundReview.ts"
export * as BackgroundWork from "../../agent/BackgroundWork.ts"
export * as Children from "../../agent/Children.ts"
export * as Delegate from "../../tools/builtin/Delegate.ts"
