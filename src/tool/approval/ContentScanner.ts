/**
 * The port to a scanner of command lines: somebody outside who knows more ways to hide something in a command than rules do.
 *
 * Source: `hermes-llm.md` §19.7 (flow) and §19.8.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { Concern } from "./Question.ts"

/** See the module. */
export interface Scanner {
  /** What is wrong with a command; nothing when it is clean. */
  readonly scan: (command: string) => Effect.Effect<ReadonlyArray<Concern>>
}

/** The scanner of a runtime; one that finds nothing where nobody provides another. */
export const ContentScanner = Context.Reference<Scanner>("hermes-effect/tool/approval/ContentScanner", {
  defaultValue: () => ({ scan: () => Effect.succeed([]) })
})
