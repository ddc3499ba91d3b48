/**
 * Context of a tool call, for the tool that handles it. The runtime provides it to every tool call. A tool requests it
 * by listing it among the `dependencies` of its `Tool.make`, or reads it as an Effect.
 *
 * **Example** (Reading the context of a call)
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

/** Context of a tool call, for the tool that handles it. */
export interface Service {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  readonly taskId: TaskId
  /** Absolute directory against which relative paths from the model are resolved. */
  readonly cwd: string
}

/** Context of a tool call, for the tool that handles it. */
export class ToolContext extends Context.Service<ToolContext, Service>()("hermes-effect/tool/ToolContext") {}

/**
 * Tests whether a tool result of the conversation that receives the result of this call contains a JSON text.
 * `undefined` if the result goes to a script, a plugin or another program.
 */
export const ConversationHistory = Context.Reference<((json: string) => boolean) | undefined>(
  "hermes-effect/tool/ConversationHistory",
  { defaultValue: () => undefined }
)

/** Outcome of a call made by a tool. */
export interface NestedOutcome {
  readonly output: unknown
  readonly isFailure: boolean
  /** Images or files that belong to the result. */
  readonly modelOutput?: Prompt.ToolResultPart["modelOutput"]
}

/** Runs one call to completion. */
export type NestedRun = (call: Prompt.ToolCallPart) => Effect.Effect<NestedOutcome, never, ToolContext>

/**
 * Port for tool calls made by a tool. They pass through middleware, hooks, guards and approval like every other call.
 * The batch that runs a tool provides the port; `undefined` outside a batch.
 */
export const NestedCalls = Context.Reference<NestedRun | undefined>("hermes-effect/tool/NestedCalls", {
  defaultValue: () => undefined
})

/**
 * Completes when the user asks the run to stop. A running command then ends at once and returns its output so far with
 * exit code 130; the run waits briefly for it. The call is closed as `cancelled`, with that result. Each run provides
 * its own effect. Interruption of the fiber does not complete it: the command is terminated and returns no result.
 */
export const StopRequested = Context.Reference<Effect.Effect<void>>("hermes-effect/tool/builtin/StopRequested", {
  defaultValue: () => Effect.never
})
