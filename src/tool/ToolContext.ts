/**
 * What a tool may know of the call that it serves. The runtime provides it to every tool call; a tool asks for it by
 * listing it among the `dependencies` of its `Tool.make`, or reads it as an Effect.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type { SessionId, TaskId, TurnId } from "../domain/Ids.ts"

/** See the module. */
export interface Service {
  readonly sessionId: SessionId
  readonly turnId: TurnId
  readonly taskId: TaskId
  /** Absolute directory that relative paths of the model are resolved against. */
  readonly cwd: string
}

/** See the module. */
export class ToolContext extends Context.Service<ToolContext, Service>()("hermes-effect/tool/ToolContext") {}
