/**
 * Adds text to the requests of model calls. The text is never stored.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `text` | required | text for the model |
 * | `every` | 1 | number of calls from one reminder to the next |
 * | `from` | 0 | index, from 0, of the first call of a run that gets the reminder |
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

/** Options of the middleware; see the table above. */
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

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("reminder", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
