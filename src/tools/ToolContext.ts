/**
 * Context of a tool call, for the tool that serves it. The runtime provides it to every tool call; a tool asks for it
 * by listing it among the `dependencies` of its `Tool.make`, or reads it as an Effect.
 *
 * **Example** (A tool that knows whose call it serves)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { ToolContext, Toolset } from "hermes-effect"
 *
 * const Where = Tool.make("where", { success: Schema.String, dependencies: [ToolContext.ToolContext] })
 * const toolkit = Toolkit.make(Where)
 *
 * export const toolset = Toolset.make("place", toolkit, toolkit.toLayer({
 *   where: () => Effect.map(ToolContext.ToolContext, ({ cwd }) => cwd)
 * }))
 *
 * console.log(toolset.name)
 * // => place
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"

/** Context of a tool call, for the tool that serves it. */
export interface Service {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  readonly taskId: TaskId
  /** Absolute directory that relative paths of the model are resolved against. */
  readonly cwd: string
}

/** Context of a tool call, for the tool that serves it. */
export class ToolContext extends Context.Service<ToolContext, Service>()("hermes-effect/tool/ToolContext") {}

/**
 * Tests whether the conversation that the result of the call goes to holds a JSON text in one of its tool results.
 * Absent where the result goes elsewhere: to a script, a plugin or another program.
 */
export const ConversationHistory = Context.Reference<((json: string) => boolean) | undefined>(
  "hermes-effect/tool/ConversationHistory",
  { defaultValue: () => undefined }
)

/** Outcome of a call that a tool made. */
export interface NestedOutcome {
  readonly output: unknown
  readonly isFailure: boolean
}

/** Runs one call to its end. */
export type NestedRun = (call: Prompt.ToolCallPart) => Effect.Effect<NestedOutcome, never, ToolContext>

/**
 * The port to tool calls that are made by a tool. They take the way of every other call: middleware, hooks, guards,
 * approval. The batch that runs a tool provides it; absent outside of one.
 */
export const NestedCalls = Context.Reference<NestedRun | undefined>("hermes-effect/tool/NestedCalls", {
  defaultValue: () => undefined
})

/**
 * Completes when the user asks the run to stop. A running command then ends at once and returns its output so far with
 * exit code 130; the run waits briefly for it. The call is closed as `cancelled`, with that result. Each run provides
 * its own. Interruption of the fiber does not use it: the command is terminated and returns no result.
 */
export const StopRequested = Context.Reference<Effect.Effect<void>>("hermes-effect/tool/builtin/StopRequested", {
  defaultValue: () => Effect.never
})
