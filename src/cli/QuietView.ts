/**
 * `--quiet`: stdout carries the final text and a line break, and nothing before it.
 *
 * Source: `hermes-product.md` §1.3, `ARCHITECTURE.md` §7.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import type * as Output from "./Output.ts"
import type { View } from "./View.ts"

/** See the module. */
export const make = ({ out }: Output.Service): View => ({
  begin: () => Effect.void,
  prepare: () => undefined,
  events: () => Effect.void,
  end: ({ text }) => text === "" ? Effect.void : out(`${text}\n`)
})
