/**
 * Lets plugins call the tools of the runtime that they are loaded in, and ask the runtime's model questions as side
 * tasks.
 *
 * **Details**
 *
 * Plugins are loaded before the agent exists; a call by a plugin returns an error result until then. Hooks, middleware,
 * guards and approvals apply as they do to a model's call. If a call needs an approval and no user can be asked, it is
 * denied.
 *
 * The model of the side task `plugin` (`auxiliary.plugin` of the settings) answers a plugin's questions; the plugin
 * cannot choose another model.
 *
 * Source: `hermes-contract.md` §3.5 (`dispatch_tool`, `llm`).
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Scope from "effect/Scope"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../../base/domain/Json.ts"
import * as Requesters from "../../middleware/Requesters.ts"

/** A tool call by a plugin. */
interface ToolCallRequest {
  readonly name: string
  readonly args: unknown
  readonly sessionId?: string | undefined
  readonly cwd?: string | undefined
}

/** Runs tool calls. */
type Dispatcher = (call: ToolCallRequest) => Effect.Effect<{ readonly output: unknown; readonly isFailure: boolean }>

/** A question to a model. If `maxOutputTokens` is `undefined`, the model's own limit applies. */
export interface Question {
  readonly messages: ReadonlyArray<Prompt.Message>
  readonly maxOutputTokens: number | undefined
}

/** The services that make the calls and answer the questions of plugins. */
export interface PluginServices {
  readonly dispatch: Dispatcher
  readonly complete: (question: Question) => Effect.Effect<string, { readonly message: string }>
}

/** Tool calls and model questions of plugins, as plain functions. */
export interface PluginToolAccess {
  /** Sets the services that run the calls and answer the questions, until the scope closes. */
  readonly attach: (services: PluginServices) => Effect.Effect<void, never, Scope.Scope>
  /**
   * Returns the model's answer to a prompt. `options` may contain `system` and `max_tokens`. Rejects if there is no
   * answer.
   */
  readonly complete: (prompt: unknown, options?: unknown) => Promise<string>
  /** Calls a tool and returns the text of its result or failure. `extra` may contain `session_id` and `cwd`. */
  readonly call: (name: string, args: unknown, extra?: unknown) => Promise<string>
}

const readTextOption = (extra: unknown, ...names: ReadonlyArray<string>): string | undefined => {
  if (!Predicate.isObject(extra)) return undefined
  const name = names.find((name) => typeof extra[name] === "string")
  return name === undefined ? undefined : String(extra[name])
}

const refuseCall: Dispatcher = () =>
  Effect.succeed({
    output: JSON.stringify({
      error: "there is no agent yet: call tools from hooks, commands and tools, not while you register"
    }),
    isFailure: true
  })

const buildQuestion = (prompt: unknown, options: unknown): Question => {
  if (typeof prompt !== "string" || prompt.trim() === "")
    throw new Error("llm.complete takes a text: complete(prompt, { system, max_tokens })")
  const system = readTextOption(options, "system")
  const limit: unknown = Predicate.isObject(options) ? (options["max_tokens"] ?? options["maxTokens"]) : undefined
  return {
    messages: [
      ...(system === undefined ? [] : [Prompt.systemMessage({ content: system })]),
      Prompt.userMessage({ content: [Prompt.textPart({ text: prompt })] })
    ],
    maxOutputTokens: typeof limit === "number" && Number.isInteger(limit) && limit > 0 ? limit : undefined
  }
}

/** Creates the access without services: calls return errors until {@link PluginToolAccess.attach}. */
export const make = (): PluginToolAccess => {
  let services:
    | {
        readonly dispatch: (call: ToolCallRequest) => Promise<{ readonly output: unknown }>
        readonly complete: (question: Question) => Promise<string>
      }
    | undefined
  return {
    attach: Effect.fnUntraced(function* ({ complete, dispatch }) {
      const run = Effect.runPromiseWith(yield* Effect.context<never>())
      const own = {
        dispatch: (call: ToolCallRequest) => run(dispatch(call)),
        // Middleware of the plugin that asks is not asked about its own question.
        complete: (question: Question) =>
          run(
            Effect.provideService(
              Effect.mapError(complete(question), ({ message }) => new Error(message)),
              Requesters.Requesters,
              Requesters.getRequesters()
            )
          )
      }
      yield* Effect.acquireRelease(
        Effect.sync(() => {
          services = own
        }),
        () =>
          Effect.sync(() => {
            if (services === own) services = undefined
          })
      )
    }),
    complete: async (prompt, options) => {
      const question = buildQuestion(prompt, options)
      if (services === undefined)
        throw new Error("there is no model yet: ask it from hooks, commands and tools, not while you register")
      return await services.complete(question)
    },
    call: async (name, args, extra) => {
      const call: ToolCallRequest = {
        name,
        args: args ?? {},
        sessionId: readTextOption(extra, "session_id", "sessionId"),
        cwd: readTextOption(extra, "cwd")
      }
      const { output } =
        services === undefined ? await Effect.runPromise(refuseCall(call)) : await services.dispatch(call)
      return Json.toText(output)
    }
  }
}
