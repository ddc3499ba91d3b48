/**
 * The application's value of one run, such as its user or its tenant: given to `run` as `context`, and passed to tools,
 * listeners, middleware and approvals in their second argument.
 *
 * **Details**
 *
 * The type follows from the functions that read it. A runtime with a tool that reads a user has runs that require one;
 * `createHermes<{ user: User }>({ … })` names the type where several functions read different parts. The value is
 * passed by reference, is never stored, and is the same in sub-agents.
 *
 * **Example** (A tool that knows its user)
 *
 * ```ts
 * import { createHermes, tool, type ToolCall } from "hermes-effect/promise"
 * import * as z from "zod"
 *
 * const whoami = tool({
 *   name: "whoami",
 *   description: "Name of the user",
 *   input: z.object({}),
 *   execute: (_, { context }: ToolCall<{ readonly user: string }>) => context.user
 * })
 *
 * const hermes = createHermes({ model: "offline", tools: [whoami] })
 * const { output } = await hermes.callTool("whoami", {}, { context: { user: "Ann" } })
 * await hermes.dispose()
 *
 * console.log(output)
 * // => Ann
 * ```
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as RunContext from "../../base/domain/RunContext.ts"

/** The value of the run under whose services plain functions are called. */
class RunValue extends RunContext.Key<RunValue, { readonly value: unknown }>()("hermes-effect/promise/RunValue") {}

/** Second argument of listeners, middleware and approvals. */
export interface RunScope<Context = unknown> {
  /** The `context` of the run; `undefined` outside of a run and for a run without one. */
  readonly context: Context
}

/** The option `context` of a run. It is required if a part of the runtime reads it. */
export type ContextOption<Context> = unknown extends Context
  ? { readonly context?: unknown }
  : { readonly context: Context }

/** Converts the `context` of a run to services. */
export const toRunContext = (value: unknown): Context.Context<never> => RunValue.context({ value })

const readValue = (context: Context.Context<never> | undefined): unknown =>
  context === undefined ? undefined : Option.getOrUndefined(Context.getOption(context, RunValue))?.value

/** Reads the `context` of the current run. */
export const readRunValue: Effect.Effect<unknown> = Effect.map(Effect.context(), readValue)

/** Returns a function that also receives the context of the run in whose fiber it is called. */
export const withRunScope =
  <Event>(callback: (event: Event, scope: RunScope<never>) => unknown): ((event: Event) => unknown) =>
  (event) =>
    // The types of the runtime's options state which context its functions read.
    callback(event, { context: readValue(Fiber.getCurrent()?.context) as never })
