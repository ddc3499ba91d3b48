/**
 * Bounds of a step's tool results for the model of a run: what the agent is set up with, else what fits its window.
 *
 * Source: `hermes-llm.md` §19.9.
 */
import * as Effect from "effect/Effect"
import * as Bounds from "../tool/Bounds.ts"
import * as ContextOverflow from "./ContextOverflow.ts"
import type { RunState } from "./RunState.ts"
import type { Services } from "./Services.ts"

/** Computes the bounds of tool results, in characters, for one run. */
export const of = <E>(services: Services<E>, run: RunState): Effect.Effect<Bounds.Limits> => {
  const { router: { catalogue }, settings } = services
  if (settings.resultLimits !== undefined) return Effect.succeed(settings.resultLimits)
  return catalogue === undefined
    ? Effect.succeed(Bounds.defaultLimits)
    : ContextOverflow.asking(services, run, run.routeWanted).pipe(
      Effect.flatMap(catalogue.known),
      // A window that nobody knows is no reason to give less.
      Effect.map(({ window: { source, tokens } }) => Bounds.limitsFor(source === "default" ? undefined : tokens))
    )
}
