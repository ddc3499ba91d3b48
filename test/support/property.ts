/**
 * Property tests that find the same thing on every machine: the values follow from a seed, which is fixed unless
 * `HERMES_TEST_SEED` names another. `HERMES_TEST_RUNS` multiplies how many are tried, to look for more.
 */
import * as Vitest from "@effect/vitest"

const seed = process.env["HERMES_TEST_SEED"] ?? "hermes"
const factor = Number(process.env["HERMES_TEST_RUNS"] ?? 1)

type Options = Parameters<Vitest.Vitest.Methods["prop"]>[3]

/** Options of a property test in a layer, with the seed. */
export const seeded = (options: Options): Options => {
  const given = typeof options === "number" ? { timeout: options } : options
  return {
    ...given,
    arbitrary: { seed, ...given?.arbitrary, runs: Math.ceil((given?.arbitrary?.runs ?? 100) * factor) }
  }
}

/** `it.prop`, with the seed. */
export const prop: Vitest.Vitest.Methods["prop"] = (name, arbitraries, self, options) =>
  Vitest.it.prop(name, arbitraries, self, seeded(options))

/** `it.effect.prop`, with the seed. */
export const effectProp: Vitest.Vitest.Methods["effect"]["prop"] = (name, arbitraries, self, options) =>
  Vitest.it.effect.prop(name, arbitraries, self, seeded(options))
