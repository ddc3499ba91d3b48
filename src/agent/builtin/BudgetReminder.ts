/**
 * Reminds the model before each call how many iterations and tokens are left. The wording becomes more urgent towards
 * the end.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `desiredMaxTokens` | 16384 | tokens of one answer; the wording becomes urgent below three times this number |
 * | `maxContextTokens` | none | window of the model; its unused part is also a limit |
 *
 * The reminders begin with the second call of a conversation. A reminder is sent as a message with one call and is
 * never stored.
 *
 * **Example** (A window of 128,000 tokens)
 *
 * ```ts
 * import { BudgetReminder } from "hermes-effect/middleware"
 *
 * export const reminder = BudgetReminder.make({ maxContextTokens: 128_000 })
 * ```
 *
 * Source: `nexau.md` §5.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as CallTokens from "../../models/routing/CallTokens.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({
  desiredMaxTokens: Schema.optional(Parameters.Positive),
  maxContextTokens: Schema.optional(Parameters.Positive)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

const renderIterationHint = (left: number): string =>
  left <= 1
    ? "This is your last iteration: give your final answer now, without calling tools."
    : left <= 3
      ? `Only ${left} iterations are left: stop exploring, finish what is half done and give your answer.`
      : `${left} iterations are left.`

const renderTokenHint = (left: number, desired: number): string =>
  left < desired * 3 ? `Only ${left} tokens are left: finish now.` : `${left} tokens are left.`

const buildMiddleware = ({ desiredMaxTokens = 16_384, maxContextTokens }: Options): Middleware.LifecycleMiddleware =>
  Middleware.lifecycle({
    name: "BudgetReminder",
    beforeModel: ({ currentIteration, maxIterations, messages, promptMessages, tokensLeft }) => {
      if (!messages.some(({ role }) => role === "assistant")) return Middleware.noChanges
      const inWindow =
        maxContextTokens === undefined ? [] : [Math.max(0, maxContextTokens - CallTokens.estimateTokens({ messages }))]
      const tokens = [...inWindow, ...(tokensLeft === undefined ? [] : [tokensLeft])]
      const text = [
        renderIterationHint(maxIterations - currentIteration),
        ...(tokens.length === 0 ? [] : [renderTokenHint(Math.min(...tokens), desiredMaxTokens)])
      ].join(" ")
      const hint = Prompt.userMessage({ content: [Prompt.textPart({ text: `<budget>${text}</budget>` })] })
      return Middleware.withModifications({ promptMessages: [...promptMessages, hint] })
    }
  })

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("budget-reminder", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
