/**
 * Routing as applications see it: what a failure of a provider means and what is done about it, and the router that does it.
 *
 * **Example** (Why a call was given up)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Routing } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Hello" }).pipe(
 *   Effect.tapErrorTag("AiError", (error) => Effect.logError(Routing.explain(error)))
 * )
 * ```
 */
export { classify, type Decision, explain, type CallSituation, Reason } from "./Classification.ts"
export type { Recovery } from "./Recovery.ts"
export * as RateGuard from "./RateGuard.ts"
export { type ChainEntry, layer, type Options } from "./RoutedModelRouter.ts"
export { RouterStatus, type RouteStatus } from "./ModelRouter.ts"
