/**
 * What the settings say about scripts.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { Exceptions } from "../terminal/ShellEnvironment.ts"

/** See the module. */
export interface Values {
  /** `project`: in the working directory; `strict`: in an empty one. */
  readonly mode: "project" | "strict"
  readonly timeoutSeconds: number
  readonly maxToolCalls: number
  readonly environment: Exceptions
}

/** See the module. */
export const CodeSettings = Context.Reference<Values>("hermes-effect/tool/CodeSettings", {
  defaultValue: () => ({ mode: "project", timeoutSeconds: 300, maxToolCalls: 50, environment: { passThrough: [], reserved: [] } })
})
