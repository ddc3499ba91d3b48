/**
 * The port to tool calls that are made by a tool. They take the way of every other call: middleware, hooks, guards, approval.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { ToolContext } from "../../ToolContext.ts"

/** What a call gave. */
export interface Outcome {
  readonly output: unknown
  readonly isFailure: boolean
}

/** Runs one call to its end. */
export type Run = (call: Prompt.ToolCallPart) => Effect.Effect<Outcome, never, ToolContext>

/** See the module. The batch that runs a tool provides it; absent outside of one. */
export const NestedCalls = Context.Reference<Run | undefined>("hermes-effect/tool/NestedCalls", { defaultValue: () => undefined })
