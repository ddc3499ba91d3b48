/**
 * Settings of scripts, and the port for the calls that they make.
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { ToolContext } from "../../ToolContext.ts"
import type { Exceptions } from "../terminal/ShellEnvironment.ts"

/** Outcome of a call. */
export interface Outcome {
  readonly output: unknown
  readonly isFailure: boolean
}

/** Runs one call to its end. */
export type Run = (call: Prompt.ToolCallPart) => Effect.Effect<Outcome, never, ToolContext>

/** The port to tool calls that are made by a tool. They take the way of every other call: middleware, hooks, guards, approval.
 * The batch that runs a tool provides it; absent outside of one. */
export const NestedCalls = Context.Reference<Run | undefined>("hermes-effect/tool/NestedCalls", { defaultValue: () => undefined })

/** Settings of scripts, and the port for the calls that they make. */
export interface Values {
  /** `project`: in the working directory; `strict`: in an empty one. */
  readonly mode: "project" | "strict"
  readonly timeoutSeconds: number
  readonly maxToolCalls: number
  readonly environment: Exceptions
}

/** Settings of scripts, and the port for the calls that they make. */
export const CodeSettings = Context.Reference<Values>("hermes-effect/tool/CodeSettings", {
  defaultValue: () => ({ mode: "project", timeoutSeconds: 300, maxToolCalls: 50, environment: { passThrough: [], reserved: [] } })
})
