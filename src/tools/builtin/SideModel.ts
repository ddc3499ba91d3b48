/**
 * The port for the model that does side tasks for tools: it describes images and summarizes long pages.
 *
 * **Example** (Describing images with a model of the application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { SideModel, Vision } from "hermes-effect/tools/vision"
 *
 * const look: SideModel.Ask = (task) => Effect.succeed(`nothing to see (${task})`)
 *
 * const program = Agent.run({ prompt: "Reply exactly hello" }).pipe(Effect.provideService(SideModel.SideModel, look))
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [Vision.toolset] })))).text)
 * // => hello
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import type { Service as Auxiliary } from "../../models/routing/Auxiliary.ts"
import type { Service as Call } from "../ToolContext.ts"

/** Error raised when the side model returned no answer. */
export class SideModelError extends Schema.TaggedError<SideModelError>("hermes-effect/tool/SideModelError")(
  "SideModelError",
  { message: Schema.String, cause: Schema.optional(Schema.Defect()) }
) {}

/** A task whose model can be set separately. */
export type Task = "vision" | "web_extract" | "mcp" | "session_search"

/** Asks the model of a task on behalf of a tool call. */
export type Ask = (
  task: Task,
  messages: ReadonlyArray<Prompt.Message>,
  call: Pick<Call, "sessionId" | "taskId" | "turnId">
) => Effect.Effect<string, SideModelError>

/** Port for the model that does side tasks for tools; `undefined` if the runtime has no such model. */
export const SideModel = Context.Reference<Ask | undefined>("hermes-effect/tool/SideModel", {
  defaultValue: () => undefined
})

/** Implements the port with the runtime's auxiliary calls. */
export const fromAuxiliary =
  <E extends { readonly message: string }>(auxiliary: Auxiliary<E>): Ask =>
  (task, messages, { sessionId, taskId, turnId }) =>
    auxiliary.call(task, { messages, context: { sessionId, taskId, turnId } }).pipe(
      Effect.map(({ text }) => text),
      Effect.mapError((error) => new SideModelError({ message: error.message, cause: error }))
    )
