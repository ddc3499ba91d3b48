/**
 * Limits the number of model calls and tool calls per time window, with the `RateLimiter` of `effect/persistence`: in
 * memory for one process, in Redis for several.
 *
 * **Details**
 *
 * | option | default | |
 * | --- | --- | --- |
 * | `limit` | – | calls in a window |
 * | `window` | – | length of the window |
 * | `key` | one for all calls | key of a separate count: by session, platform or tool |
 * | `exceeded` | `delay` | `delay` waits for the next window, `refuse` vetoes the call with `ExecutionBlocked` |
 * | `tools` | all | names of the tools whose calls are counted |
 * | `onFailure` | `open` | `closed` fails a call that could not be counted |
 *
 * In settings files its name is `rate-limit`: `calls` is `model` (default) or `tool`, the window is `window_seconds`,
 * and `limit`, `exceeded`, `tools` and `on_failure` are as above. All its calls share one count, in the memory of the
 * process.
 *
 * **Gotchas**
 *
 * Side tasks (titles, images, judgements) are model calls and count too; `key` can count them apart by `task` of the
 * context. Waits count as the middleware's own time: a wait that exceeds the deadline of a call ends the call. This
 * middleware is not needed for the rate limits of providers: routes respect the limits that a provider states.
 *
 * **Example** (One call an hour)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as RateLimiter from "effect/persistence/RateLimiter"
 * import { Agent, Runtime } from "hermes-effect"
 * import { RateLimit } from "hermes-effect/middleware"
 *
 * const limit = RateLimit.modelCalls({ limit: 1, window: "1 hour", exceeded: "refuse" })
 * const runtime = Runtime.layer({ middleware: [limit] }).pipe(
 *   Layer.provide(RateLimiter.layer),
 *   Layer.provide(RateLimiter.layerStoreMemory)
 * )
 * const ask = Effect.match(Agent.run({ prompt: "Reply exactly hello" }), {
 *   onSuccess: ({ text }) => text,
 *   onFailure: ({ message }) => message
 * })
 *
 * for (const text of await Effect.runPromise(Effect.provide(Effect.all([ask, ask]), runtime))) console.log(text)
 * // => hello
 * // => blocked by middleware: more than 1 model calls in 1h
 * ```
 *
 * Source: `ARCHITECTURE.md` §2 and §6.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type * as RateLimiter from "effect/persistence/RateLimiter"
import { type ConfigError, ExecutionBlocked } from "../../base/domain/AgentError.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

/** Service key of the limiter. The application that provides the limiter loads the `effect` module. */
const Limiter: Context.Service<RateLimiter.RateLimiter, RateLimiter.RateLimiter> =
  Context.Service<RateLimiter.RateLimiter>("~effect/persistence/RateLimiter")

/** Options of a rate limit; see the table above. `Context` is the information about a call that middleware receives. */
export interface Options<Context> extends Pick<Middleware.Registration, "onFailure"> {
  readonly limit: number
  readonly window: Duration.Input
  readonly key?: ((context: Context) => string) | undefined
  readonly exceeded?: "delay" | "refuse" | undefined
}

/** Counts a call. The call continues at once, continues after a delay, or is rejected. */
const countCall = <Context, R>(
  what: string,
  { exceeded = "delay", key = () => "all", limit, window }: Options<Context>,
  context: Context,
  counter: Effect.Effect<RateLimiter.RateLimiter, never, R>
): Effect.Effect<void, ExecutionBlocked, R> =>
  Effect.gen(function* () {
    const limiter = yield* counter
    const { delay } = yield* limiter.consume({
      key: `${what}:${key(context)}`,
      limit,
      window,
      onExceeded: exceeded === "delay" ? "delay" : "fail"
    })
    if (Duration.isGreaterThan(delay, Duration.zero)) yield* Effect.sleep(delay)
  }).pipe(
    Effect.catchTag("RateLimiterError", (error) =>
      error.reason._tag === "RateLimitExceeded"
        ? Effect.fail(
            new ExecutionBlocked({
              reason: `more than ${limit} ${what} in ${Duration.format(Duration.fromInputUnsafe(window))}`,
              metadata: { checked_by: "RateLimit", retry_after_ms: Duration.toMillis(error.reason.retryAfter) }
            })
          )
        : // A store that cannot count is the wrapper's own failure.
          Effect.die(error)
    )
  )

interface ToolOptions extends Options<Middleware.ToolCallContext> {
  readonly tools?: ReadonlyArray<string> | undefined
}

const limitModelCalls = <R>(
  options: Options<Middleware.CallContext>,
  counter: Effect.Effect<RateLimiter.RateLimiter, never, R>
): Middleware.WrapModelCall<never, never, R> =>
  Middleware.wrapModelCall<never, never, R>({
    name: "RateLimit",
    onFailure: options.onFailure,
    wrap: (next, context) => (params) =>
      Effect.andThen(countCall("model calls", options, context, counter), next(params))
  })

const limitToolCalls = <R>(
  options: ToolOptions,
  counter: Effect.Effect<RateLimiter.RateLimiter, never, R>
): Middleware.WrapToolCall<never, never, R> =>
  Middleware.wrapToolCall<never, never, R>({
    name: "RateLimit",
    onFailure: options.onFailure,
    wrap: (next, context) => (args) =>
      options.tools !== undefined && !options.tools.includes(context.toolName)
        ? next(args)
        : Effect.andThen(countCall("tool calls", options, context, counter), next(args))
  })

/** Limits model calls. */
export const modelCalls = (
  options: Options<Middleware.CallContext>
): Middleware.WrapModelCall<never, never, RateLimiter.RateLimiter> => limitModelCalls(options, Limiter)

/** Limits tool calls. */
export const toolCalls = (options: ToolOptions): Middleware.WrapToolCall<never, never, RateLimiter.RateLimiter> =>
  limitToolCalls(options, Limiter)

const Params = Schema.Struct({
  ...Parameters.calls,
  limit: Parameters.Positive,
  windowSeconds: Parameters.Seconds,
  exceeded: Schema.optional(Schema.Literals(["delay", "refuse"])),
  onFailure: Schema.optional(Schema.Literals(["open", "closed"]))
})

/** Creates an in-memory limiter at its first use. */
const makeMemoryCounter = (): Effect.Effect<RateLimiter.RateLimiter> => {
  let made: RateLimiter.RateLimiter | undefined
  const make = Effect.flatMap(
    Effect.promise(() => import("effect/persistence/RateLimiter")),
    ({ layerStoreMemory, make }) => Effect.provide(make, layerStoreMemory)
  )
  return Effect.suspend(() =>
    made === undefined ? Effect.map(make, (limiter) => (made ??= limiter)) : Effect.succeed(made)
  )
}

/**
 * Creates the middleware from unvalidated parameters: `calls`, `limit`, `window_seconds`, `exceeded`, `tools` and
 * `on_failure`.
 */
export const fromUnknown = (
  parameters: unknown
): Result.Result<Middleware.WrapModelCall | Middleware.WrapToolCall, ConfigError> =>
  Result.map(Parameters.readCalls("rate-limit", Params, parameters), ({ calls, tools, windowSeconds, ...common }) => {
    const options = { ...common, window: Duration.seconds(windowSeconds) }
    return calls === "tool"
      ? limitToolCalls({ ...options, tools }, makeMemoryCounter())
      : limitModelCalls(options, makeMemoryCounter())
  })
