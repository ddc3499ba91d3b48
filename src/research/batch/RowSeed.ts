/**
 * Seeds of rows: from the seed of a run to a number for the model calls of each row, and to the draws that are made for
 * it.
 *
 * **Example** (The same again for the same row)
 *
 * ```ts
 * import { RowSeed } from "hermes-effect/batch"
 *
 * console.log(RowSeed.computeSeed("7", "row-1") === RowSeed.computeSeed("7", "row-1"))
 * // => true
 * console.log(RowSeed.describeIgnoredSeed({ provider: "anthropic", model: "claude-sonnet-4-6", apiMode: "anthropic_messages" }, "only draws follow it"))
 * // => The seed is not told to anthropic/claude-sonnet-4-6, whose protocol (anthropic_messages) has none: only draws follow it.
 * ```
 *
 * Source: `hermes-product.md` §5.1.
 */
import * as ApiMode from "../../base/domain/ApiMode.ts"
import * as Digest from "../../base/platform/Digest.ts"

/** A number from 0 to 1 that depends on the texts alone. */
export const drawUniform = (...texts: ReadonlyArray<string>): number =>
  Number.parseInt(Digest.toHex(texts.join("\u0000"), 12), 16) / 16 ** 12

/** Seed of a row for models: a whole number that the seed of the run and the row's id make. */
export const computeSeed = (seed: string, rowId: string): number => Math.floor(drawUniform(seed, rowId) * 2 ** 31)

/** A route that a row asks, or asked. */
export interface AskedRoute {
  readonly provider: string
  readonly model: string
  readonly apiMode: string
}

/**
 * The notice for users that a model ignores the seed, or undefined if it takes one. `otherwise` describes the seed's
 * remaining effect.
 */
export const describeIgnoredSeed = ({ apiMode, model, provider }: AskedRoute, otherwise: string): string | undefined =>
  ApiMode.canTakeSeed(apiMode)
    ? undefined
    : `The seed is not told to ${provider}/${model}, whose protocol (${apiMode}) has none: ${otherwise}.`
