/**
 * Ends attempts, model calls and tool calls that take too long.
 *
 * **Details**
 *
 * - {@link attempts}: one request to a provider. It fails like a broken connection, so that the route retries it or the
 *   next route is used.
 * - {@link modelCalls}: the whole model call with retries and fallbacks.
 * - {@link toolCalls}: the tool's result is an error for the model.
 *
 * In settings files its name is `timeout`, with `seconds`, `calls` (`attempt`, `model`, which is the default, or
 * `tool`) and, for tools, `tools`.
 *
 * The wrapped call is interrupted. A model call fails with an `AiError` whose reason is `NetworkError`, and a tool call
 * with `ToolFailed`.
 *
 * **Gotchas**
 *
 * An interrupted tool may have changed something. `timeout` of a registered tool and `stale_timeout_seconds` of a route
 * still apply: the shortest time limit ends the call.
 *
 * **Example** (No tool takes longer than ten seconds)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { Timeout } from "hermes-effect/middleware"
 *
 * const runtime = Runtime.layer({
 *   middleware: [Timeout.modelCalls({ duration: "2 minutes" }), Timeout.toolCalls({ duration: "10 seconds" })]
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), runtime))).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { ToolFailed } from "../../base/domain/ToolOutput.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

/** Options of a timeout. */
export interface Options {
  readonly duration: Duration.Input
}

const makeTimeoutError = (what: string, duration: Duration.Input, url: string | undefined): AiError.AiError =>
  AiError.make({
    module: "Timeout",
    method: "call",
    reason: new AiError.NetworkError({
      reason: "TransportError",
      method: "POST",
      url: url ?? "",
      description: `${what} had no answer after ${Duration.format(Duration.fromInputUnsafe(duration))}`
    })
  })

/** Limits the time of each request to a provider. */
export const attempts = ({ duration }: Options): Middleware.LlmExecution =>
  Middleware.llmExecution({
    name: "Timeout",
    wrap:
      (next, { baseUrl, provider }) =>
      (request) =>
        Effect.timeoutOrElse(next(request), {
          duration,
          orElse: () => Effect.fail(makeTimeoutError(`the request to ${provider}`, duration, baseUrl))
        })
  })

/** Limits the time of each whole model call. */
export const modelCalls = ({ duration }: Options): Middleware.WrapModelCall =>
  Middleware.wrapModelCall({
    name: "Timeout",
    wrap: (next) => (params) =>
      Effect.timeoutOrElse(next(params), {
        duration,
        orElse: () => Effect.fail(makeTimeoutError("the model call", duration, params.route?.baseUrl))
      })
  })

/** Limits the time of each tool call: of all tools, or of the named tools. */
export const toolCalls = ({
  duration,
  tools
}: Options & { readonly tools?: ReadonlyArray<string> | undefined }): Middleware.WrapToolCall =>
  Middleware.wrapToolCall({
    name: "Timeout",
    wrap:
      (next, { toolName }) =>
      (args) =>
        tools !== undefined && !tools.includes(toolName)
          ? next(args)
          : Effect.timeoutOrElse(next(args), {
              duration,
              orElse: () =>
                Effect.fail(
                  new ToolFailed({
                    tool: toolName,
                    phase: "handler",
                    message: `timed out after ${Duration.format(Duration.fromInputUnsafe(duration))}`
                  })
                )
            })
  })

const Params = Schema.Struct({
  ...Parameters.calls,
  calls: Schema.optional(Schema.Literals(["attempt", "model", "tool"])),
  seconds: Parameters.Seconds
})

/** Creates the middleware from unvalidated parameters: `seconds`, `calls` and `tools`. */
export const fromUnknown = (
  parameters: unknown
): Result.Result<Middleware.LlmExecution | Middleware.WrapModelCall | Middleware.WrapToolCall, ConfigError> =>
  Result.map(Parameters.readCalls("timeout", Params, parameters), ({ calls, seconds, tools }) => {
    const duration = Duration.seconds(seconds)
    return calls === "attempt"
      ? attempts({ duration })
      : calls === "tool"
        ? toolCalls({ duration, tools })
        : modelCalls({ duration })
  })
