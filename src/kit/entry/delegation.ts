/** Child agents, and work that continues beside a run. */
export * as BackgroundReview from "../../agent/BackgroundReview.ts"
export * as BackgroundWork from "../../agent/BackgroundWork.ts"
export * as Children from "../../agent/Children.ts"
export * as Delegate from "../../tools/builtin/Delegate.ts"
