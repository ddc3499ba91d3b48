/** The services behind a runtime of {@link Hermes}, for the modules in this directory that need more than its runs. */
import type * as Effect from "effect/Effect"
import type { Hermes } from "./CreateHermes.ts"

/** Work with the services of a runtime. */
export type Perform = <A>(work: Effect.Effect<A, unknown>) => Promise<A>

const performers = new WeakMap<Hermes, Perform>()

/** Keeps the way to work with the services of a runtime. */
export const keepPerformer = (hermes: Hermes, perform: Perform): void => void performers.set(hermes, perform)

/** Returns the way to work with the services of a runtime; undefined for a value that only looks like one. */
export const findPerformer = (hermes: Hermes): Perform | undefined => performers.get(hermes)
