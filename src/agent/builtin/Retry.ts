/**
 * Repeats model calls and tool calls that failed: the documented way to retry in middleware. `llmExecution` and
 * `toolExecution` may call `next` once, `wrapModelCall` and `wrapToolCall` more often.
 *
 * **Details**
 *
 * | option | default | |
 * | --- | --- | --- |
 * | `times` | 2 | maximum number of repetitions after the first call |
 * | `schedule` | from 500 ms, doubled each time, up to 30 s, with jitter | waits between calls |
 * | `while` | retryable model errors; every failed tool | decides whether a failed call is repeated |
 * | `tools` | – | names of the tools whose calls may be repeated; required for tools |
 *
 * In settings files its name is `retry`: `calls` is `model` (default) or `tool`, and `times` and `tools` are as above.
 * The other options can only be set in code.
 *
 * Only calls that fail with a provider's failure (`AiError`) or a tool's failure (`ToolFailed`) are repeated. A veto, a
 * translated failure and a failure of a policy propagate unchanged.
 *
 * **Gotchas**
 *
 * A route repeats its own attempts, with keys and `Retry-After`, before a model call fails: this middleware repeats the
 * whole call, including those attempts. A tool that failed may have changed something: only name tools that can be
 * called twice. The waits count as the middleware's own time, so that a schedule that exceeds the deadline of the call
 * ends the call.
 *
 * **Example** (A tool that succeeds at the second call)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schedule from "effect/Schedule"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, Runtime, Scripted, Toolset } from "hermes-effect"
 * import { Retry } from "hermes-effect/middleware"
 *
 * const toolkit = Toolkit.make(Tool.make("weather", { success: Schema.String }).annotate(Tool.Readonly, true))
 * let calls = 0
 * const weather = Toolset.make("weather", toolkit, toolkit.toLayer({
 *   weather: () => ++calls === 1 ? Effect.die("busy") : Effect.succeed("4 degrees")
 * }))
 *
 * const call = Scripted.complete({ toolCalls: [{ name: "weather" }] })
 * const provider = Scripted.layer([call, Scripted.complete("Cold.")])
 * const middleware = [Retry.toolCalls({ tools: ["weather"], schedule: Schedule.forever })]
 *
 * const runtime = Runtime.layer({ provider, tools: [weather], middleware })
 * await Effect.runPromise(Effect.provide(Agent.run({ prompt: "Weather?" }), runtime))
 * console.log(calls)
 * // => 2
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import { ToolFailed } from "../../base/domain/ToolOutput.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

/** Options for retrying failures `E`; see the table above. */
export interface Options<E> {
  readonly times?: number | undefined
  readonly schedule?: Schedule.Schedule<unknown> | undefined
  readonly while?: ((failure: E) => boolean) | undefined
}

const backoff = Schedule.exponential("500 millis").pipe(
  Schedule.modifyDelay(({ duration }) => Effect.succeed(Duration.min(duration, Duration.seconds(30)))),
  Schedule.jittered
)

/** Repeats whole model calls that failed with an `AiError`. */
export const modelCalls = ({
  schedule = backoff,
  times = 2,
  while: worth = ({ isRetryable }) => isRetryable
}: Options<AiError.AiError> = {}): Middleware.WrapModelCall =>
  Middleware.wrapModelCall({
    name: "Retry",
    wrap: (next) => (params) =>
      Effect.retry(next(params), { schedule, times, while: (failure) => AiError.isAiError(failure) && worth(failure) })
  })

/** Repeats calls of the named tools that failed with a `ToolFailed`. */
export const toolCalls = ({
  schedule = backoff,
  times = 2,
  tools,
  while: worth = () => true
}: Options<ToolFailed> & { readonly tools: ReadonlyArray<string> }): Middleware.WrapToolCall =>
  Middleware.wrapToolCall({
    name: "Retry",
    wrap:
      (next, { toolName }) =>
      (args) =>
        tools.includes(toolName)
          ? Effect.retry(next(args), {
              schedule,
              times,
              while: (failure) => failure instanceof ToolFailed && worth(failure)
            })
          : next(args)
  })

const Params = Schema.Struct({ ...Parameters.calls, times: Schema.optional(Parameters.NotNegative) })

/** Creates the middleware from unvalidated parameters: `calls`, `tools` and `times`. */
export const fromUnknown = (
  parameters: unknown
): Result.Result<Middleware.WrapModelCall | Middleware.WrapToolCall, ConfigError> =>
  Result.flatMap(
    Parameters.readCalls("retry", Params, parameters),
    ({ calls, times, tools }): ReturnType<typeof fromUnknown> => {
      if (calls !== "tool") return Result.succeed(modelCalls({ times }))
      return tools === undefined
        ? Result.fail(
            Parameters.makeParameterError("retry", "tools", "missing: name the tools whose calls may be repeated")
          )
        : Result.succeed(toolCalls({ times, tools }))
    }
  )
