/**
 * Gives modules in this directory access to the services of a {@link HermesView}, which itself only offers runs.
 */
import type * as Effect from "effect/Effect"
import type { HermesView } from "./CreateHermes.ts"

/** Runs an effect with the services of a runtime. */
export type Perform = <A>(work: Effect.Effect<A, unknown>) => Promise<A>

const performers = new WeakMap<HermesView, Perform>()

/** Stores the function that runs effects with the services of a runtime. */
export const keepPerformer = (hermes: HermesView, perform: Perform): void => void performers.set(hermes, perform)

/**
 * Returns the function that runs effects with the services of a runtime, or `undefined` if the value is not a runtime.
 */
export const findPerformer = (hermes: HermesView): Perform | undefined => performers.get(hermes)
