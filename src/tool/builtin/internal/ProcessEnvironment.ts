/**
 * The environment of this program, as the one place that reads it for commands.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"

/** Reads the environment at the time of the call: it may change while the program runs. */
export const ProcessEnvironment = Context.Reference<() => Readonly<Record<string, string | undefined>>>(
  "hermes-effect/tool/builtin/ProcessEnvironment",
  { defaultValue: () => () => process.env }
)
