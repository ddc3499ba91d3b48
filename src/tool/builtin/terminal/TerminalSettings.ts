/**
 * What an operator may set of `terminal` and `process`, and the way in which a run asks a command to end early.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as ShellEnvironment from "./ShellEnvironment.ts"

/** See {@link TerminalSettings}. */
export interface Settings {
  /** Seconds that a foreground command may take when the model does not say (`terminal.timeout`). */
  readonly timeoutSeconds: number
  /** Characters of output in a result at most (`tool_output.max_bytes`). */
  readonly outputChars: number
  readonly environment: ShellEnvironment.Exceptions
}

/** The settings of a runtime; the defaults are those of `hermes-product.md` §6. */
export const TerminalSettings = Context.Reference<Settings>("hermes-effect/tool/builtin/TerminalSettings", {
  defaultValue: () => ({
    timeoutSeconds: 180,
    outputChars: 50_000,
    environment: { passThrough: [], reserved: [] }
  })
})

/**
 * Completes when the user asks the run to stop. Whoever runs a tool call may provide it: a command that runs then ends at
 * once and gives back what it has, with exit code 130. Interruption of the fiber needs none of this; it takes the command
 * down, and no result comes back.
 */
export const StopRequested = Context.Reference<Effect.Effect<void>>("hermes-effect/tool/builtin/StopRequested", {
  defaultValue: () => Effect.never
})
