/**
 * Property tests that find the same thing on every machine: the values follow from a seed, which is fixed unless
 * `HERMES_TEST_SEED` names another. `effort.ts` says how many of them are tried.
 */
import * as Vitest from "@effect/vitest"
import { scaleRuns } from "./effort.ts"

const seed = process.env["HERMES_TEST_SEED"] ?? "hermes"

type Options = Parameters<Vitest.Vitest.Methods["prop"]>[3]

/** Options of a property test in a layer, with the seed. */
export const seeded = (options: Options): Options => {
  const given = typeof options === "number" ? { timeout: options } : options
  return { ...given, arbitrary: { seed, ...given?.arbitrary, runs: scaleRuns(given?.arbitrary?.runs ?? 100) } }
}

/** `it.prop`, with the seed. */
export const prop: Vitest.Vitest.Methods["prop"] = (name, arbitraries, self, options) =>
  Vitest.it.prop(name, arbitraries, self, seeded(options))

/** `it.effect.prop`, with the seed. */
export const effectProp: Vitest.Vitest.Methods["effect"]["prop"] = (name, arbitraries, self, options) =>
  Vitest.it.effect.prop(name, arbitraries, self, seeded(options))
