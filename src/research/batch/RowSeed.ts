/**
 * Derives seeds of rows from the seed of a run: a number for the model calls of each row, and the random draws for the
 * row.
 *
 * **Example** (The same draw for the same row)
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

/** Returns a number from 0 (inclusive) to 1 (exclusive) that depends only on the given strings. */
export const drawUniform = (...texts: ReadonlyArray<string>): number =>
  Number.parseInt(Digest.toHex(texts.join("\u0000"), 12), 16) / 16 ** 12

/** Returns the seed of a row for models: a whole number derived from the run's seed and the row's id. */
export const computeSeed = (seed: string, rowId: string): number => Math.floor(drawUniform(seed, rowId) * 2 ** 31)

/** A route that a row's model calls use. */
export interface AskedRoute {
  readonly provider: string
  readonly model: string
  readonly apiMode: string
}

/**
 * Returns a notice that a model ignores the seed, or `undefined` if the model accepts it. `otherwise` describes the
 * effect that the seed still has.
 */
export const describeIgnoredSeed = ({ apiMode, model, provider }: AskedRoute, otherwise: string): string | undefined =>
  ApiMode.canTakeSeed(apiMode)
    ? undefined
    : `The seed is not told to ${provider}/${model}, whose protocol (${apiMode}) has none: ${otherwise}.`
