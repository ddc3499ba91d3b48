/**
 * The plugins that come with this program: described here, loaded when the user enables them.
 *
 * Source: `hermes-contract.md` §3.1.
 *
 * @since 0.1.0
 */
import type { Bundled } from "../plugin/Discovery.ts"

/** See the module. */
export const bundled: ReadonlyArray<Bundled> = []
