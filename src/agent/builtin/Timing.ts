/**
 * Measures how long the model calls and tool calls of a run take, and logs the totals in one line when the run ends.
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `slowMillis` | none | a call that takes longer is logged immediately as a warning |
 *
 * The time of a model call includes its retries and fallbacks. Each run has its own figures.
 *
 * **Example** (Warn about calls over ten seconds)
 *
 * ```ts
 * import { Timing } from "hermes-effect/middleware"
 *
 * export const timing = Timing.make({ slowMillis: 10_000 })
 * ```
 *
 * Source: `nexau.md` §5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as References from "effect/References"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Parameters from "./Parameters.ts"

const Options = Schema.Struct({ slowMillis: Schema.optional(Parameters.Positive) })

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

interface Sum {
  count: number
  millis: number
}

const buildMiddleware = ({ slowMillis }: Options): Middleware.LifecycleMiddleware =>
  Middleware.lifecyclePerRun({
    name: "Timing",
    make: (run) =>
      Effect.map(Clock.currentTimeMillis, (started) => {
        const model: Sum = { count: 0, millis: 0 }
        const tools = new Map<string, Sum>()
        const measureCall = <A, E, R>(what: string, sum: Sum, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
          Effect.flatMap(Clock.currentTimeMillis, (from) =>
            Effect.ensuring(
              effect,
              Effect.flatMap(Clock.currentTimeMillis, (to) => {
                sum.count++
                sum.millis += to - from
                return slowMillis !== undefined && to - from > slowMillis
                  ? Effect.logWarning(`${what} took ${to - from} ms`)
                  : Effect.void
              })
            )
          )
        const methods: Middleware.Methods = {
          wrapModelCall: (next) => (params) => measureCall("a model call", model, next(params)),
          wrapToolCall:
            (next, { toolName }) =>
            (args) => {
              const sum = tools.get(toolName) ?? { count: 0, millis: 0 }
              tools.set(toolName, sum)
              return measureCall(`the tool ${toolName}`, sum, next(args))
            },
          afterAgent: ({ stopReason }) =>
            Effect.flatMap(Clock.currentTimeMillis, (now) => {
              const each = Array.from(tools, ([name, { count, millis }]) => `${name} ${count}× ${millis} ms`)
              const line = Effect.logInfo(
                `run ${run.turnId} ended (${stopReason}) after ${now - started} ms: ` +
                  `model ${model.count}× ${model.millis} ms` +
                  (each.length === 0 ? "" : `, ${each.join(", ")}`)
              )
              // Adding this middleware requests its log line, so the log level of the program does not hide it.
              return Effect.provideService(line, References.MinimumLogLevel, "Info")
            })
        }
        return methods
      })
  })

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.map(Parameters.read("timing", Options, parameters), buildMiddleware)

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options = {}): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
