/** Loads the settings for the actions of commands, overridden by the flags of the command line. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import * as Flags from "./Flags.ts"
import { hermes } from "./Hermes.ts"

/** Layer with the home directory and the environment, for an action that needs no settings or loads them itself. */
export const surroundings = Layer.provideMerge(Environment.layer, Home.layer)

/** Returns the strings in a list of the configuration file. */
export const selectTexts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : []

/** Loads the settings, overridden by the shared flags. */
export const load = Effect.flatMap(hermes, (flags) => Config.load(Flags.toConfigOptions(flags)))

/** Provides an action with the settings, overridden by the shared flags. Warnings are logged. */
export const provide = <A, E, R>(work: Effect.Effect<A, E, R>) =>
  Effect.flatMap(hermes, (flags) => Effect.provide(work, Config.layerAll(Flags.toConfigOptions(flags))))
