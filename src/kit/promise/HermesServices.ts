/**
 * Gives modules in this directory access to the services of a {@link Hermes} runtime. A `Hermes` itself only offers
 * runs.
 */
import type * as Effect from "effect/Effect"
import type { Hermes } from "./CreateHermes.ts"

/** Runs an effect with the services of a runtime. */
export type Perform = <A>(work: Effect.Effect<A, unknown>) => Promise<A>

const performers = new WeakMap<Hermes, Perform>()

/** Stores the function that runs effects with the services of a runtime. */
export const keepPerformer = (hermes: Hermes, perform: Perform): void => void performers.set(hermes, perform)

/**
 * Returns the function that runs effects with the services of a runtime, or `undefined` if the value is not a runtime.
 */
export const findPerformer = (hermes: Hermes): Perform | undefined => performers.get(hermes)
