/**
 * Adds a text to the conversation of model calls, which is never stored.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `text` | required | said to the model |
 * | `every` | 1 | calls from one reminder to the next |
 * | `from` | 0 | the first call of a run that gets it, from 0 |
 *
 * **Example** (As in the lifecycle document)
 *
 * ```ts
 * import { Reminder } from "hermes-effect/middleware"
 *
 * export const reminder = Reminder.make({ text: "Reminder: stay within budget." })
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
  text: Schema.NonEmptyString,
  every: Schema.optional(Parameters.Positive),
  from: Schema.optional(Parameters.NotNegative)
})

/** See the table above. */
export type Options = typeof Options.Type

const buildMiddleware = ({ every = 1, from = 0, text }: Options): Middleware.LifecycleMiddleware => {
  const message = Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  return Middleware.lifecycle({
    name: "Reminder",
    beforeModel: ({ currentIteration, promptMessages }) =>
      currentIteration < from || (currentIteration - from) % every !== 0
        ? Middleware.noChanges
        : Middleware.withModifications({ promptMessages: [...promptMessages, message] })
  })
}

/** The middleware of parameters of any shape. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("reminder", Options, parameters), buildMiddleware)

/** Makes the middleware; throws a `ConfigError` where a parameter is wrong. */
export const make = (options: Options): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
