/**
 * Prevents a model from calling some tools. Their calls are removed from its answers, and rejected if they come from
 * any other source.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `deny` | none | tools that are never called |
 * | `allow` | all | if set, the only tools that can be called |
 * | `feedback` | none | text for the model after a call was removed; the run then continues |
 *
 * A removed call gets an error as its result. A run ends if all calls of its answer were removed, unless `feedback` is
 * set. The filter fails closed: if it fails, the call is refused.
 *
 * **Example** (Without shell commands)
 *
 * ```ts
 * import { ToolFilter } from "hermes-effect/middleware"
 *
 * export const filter = ToolFilter.make({ deny: ["system_command"] })
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §1.5.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({
  deny: Schema.optional(Schema.Array(Schema.String)),
  allow: Schema.optional(Schema.Array(Schema.String)),
  feedback: Schema.optional(Schema.String)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

const buildMiddleware = ({ allow, deny = [], feedback }: Options): Middleware.LifecycleMiddleware => {
  const denied = new Set(deny)
  const allowed = allow === undefined ? undefined : new Set(allow)
  const isAllowed = (name: string): boolean => !denied.has(name) && (allowed === undefined || allowed.has(name))
  return Middleware.lifecycle({
    name: "ToolFilter",
    onFailure: "closed",
    afterModel: ({ messages, parsedResponse }) => {
      const toolCalls = parsedResponse.toolCalls.filter(({ name }) => isAllowed(name))
      if (toolCalls.length === parsedResponse.toolCalls.length) return Middleware.noChanges
      const told =
        feedback === undefined
          ? {}
          : {
              forceContinue: true,
              messages: [...messages, Prompt.userMessage({ content: [Prompt.textPart({ text: feedback })] })]
            }
      return Middleware.withModifications({ parsedResponse: { ...parsedResponse, toolCalls }, ...told })
    },
    // Rejects calls whose tool name was repaired after the answer, and calls from scripts and plugins.
    beforeTool: ({ toolName }) =>
      isAllowed(toolName) ? Middleware.noChanges : Middleware.deny(`The tool ${toolName} may not be called here.`)
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("tool-filter", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
