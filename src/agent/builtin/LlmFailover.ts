/**
 * Falls back to other providers when the primary provider fails in a way that the user specified.
 *
 * **Details**
 *
 * The call goes to the primary. A failure that matches the trigger (default: 500, 502, 503) is retried with the
 * fallbacks in order, each with its own settings merged over the primary's configuration and in its own protocol; if a
 * fallback fails for any reason, the next one is tried, and the call fails with the last failure. A failure that does
 * not match propagates unchanged, as does every interruption. With a circuit breaker, a primary that has failed too
 * often in a row is skipped for a while; then one call tries it again, while the others still skip it.
 *
 * The options are defined by the failover document, in camelCase or snake_case. Only the route and the parameters of
 * the call change: the router sends it, so that hooks, retries and other middleware see every provider's attempts. The
 * breaker belongs to this middleware value: agents and children that share the value share the breaker's state.
 *
 * **Gotchas**
 *
 * - A side task with a configured route (`auxiliary.vision.provider`) is left alone: the route was chosen for the task. A
 *   side task on the route of the run falls back like a step.
 * - A fallback on another server does not receive the primary's key, see `failover/FallbackRoute`.
 * - Only matching failures count for the breaker. The reference implementation counts all failures.
 * - Text streamed before the failure was already shown. The answer consists only of the fallback's parts, and a notice
 *   names both providers if a run listens.
 * - Invalid options throw a `ConfigError` when the middleware is created; {@link fromUnknown} returns it as a value.
 *
 * **Example** (A backup gateway)
 *
 * ```ts
 * import { LlmFailover } from "hermes-effect/middleware"
 *
 * export const failover = LlmFailover.make({
 *   trigger: { statusCodes: [500, 502, 503, 529], exceptionTypes: ["RateLimitError"] },
 *   fallbackProviders: [{ name: "backup", llmConfig: { base_url: "https://backup.example.com/v1", api_key: "sk-…" } }],
 *   circuitBreaker: { failureThreshold: 3, recoveryTimeoutSeconds: 60 }
 * })
 * ```
 *
 * Source: the lifecycle document (LLM failover), `nexau.md` §2, `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as AiError from "effect/ai/AiError"
import * as Result from "effect/Result"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as Breakers from "../../models/routing/Breakers.ts"
import * as FallbackRoute from "./failover/FallbackRoute.ts"
import * as Options from "./failover/Options.ts"
import * as Trigger from "./failover/Trigger.ts"

/** Options of {@link make}. */
export type { BreakerOptions, FallbackProvider, Options, TriggerOptions } from "./failover/Options.ts"

const makeSkippedError = (): AiError.AiError =>
  AiError.make({
    module: "LlmFailover",
    method: "wrapModelCall",
    reason: new AiError.InternalProviderError({
      description:
        "the primary provider is skipped after repeated failures, and there is no fallback:" +
        " add one to fallback_providers, or wait"
    })
  })

/** Returns the typed failure in a cause, or `undefined` if the cause is an interruption or a defect. */
const findFailure = <E>(cause: Cause.Cause<E>): Cause.Fail<E> | undefined =>
  Cause.hasInterrupts(cause) ? undefined : cause.reasons.find(Cause.isFailReason)

const describeRoute = (route: Route | undefined): string =>
  route === undefined ? "the primary provider" : `${route.provider} (${route.model})`

/** Failures that this middleware adds to the failures of the wrapped call. */
type OwnFailure = AiError.AiError | Breakers.Rejected

/** The wrapped call, reduced to the parameters that are used here. */
type Ask<E, R> = (params: Middleware.ModelCallParams) => Effect.Effect<Middleware.ModelAnswer, E, R>

const notifyFallback = (
  context: Middleware.CallContext,
  from: string,
  to: string,
  error: unknown
): Effect.Effect<void> => {
  const reason = error instanceof Breakers.Rejected ? "it failed too often" : Faults.describeError(error)
  const message = Redaction.redactText(`${from} does not answer (${reason}): the answer comes from ${to}`)
  return context.notify === undefined
    ? Effect.logDebug(message)
    : context.notify([{ _tag: "Notice", level: "warning", message }])
}

/** Reports the change from one route to another, if both are known. */
const notifyRouteChange = (
  context: Middleware.CallContext,
  from: Pick<Route, "provider" | "model"> | undefined,
  to: Pick<Route, "provider" | "model"> | undefined
): Effect.Effect<void> => {
  if (context.notify === undefined || from === undefined || to === undefined) return Effect.void
  const toPlace = ({ model, provider }: Pick<Route, "provider" | "model">) => ({ provider, model })
  return context.notify([{ _tag: "RouteChanged", from: toPlace(from), to: toPlace(to), reason: "llm_failover" }])
}

/** Tests whether a route was chosen for a side task. The breaker counts the failures of the primary alone. */
const isChosenForTask = ({ task }: Middleware.CallContext, { route }: Middleware.ModelCallParams): boolean =>
  task !== undefined && route !== undefined

const hideRejection = <E, R>(
  called: Effect.Effect<Middleware.ModelAnswer, E | OwnFailure, R>
): Effect.Effect<Middleware.ModelAnswer, E, R> =>
  Effect.mapError(called, (error) => (error instanceof Breakers.Rejected ? makeSkippedError() : error)).pipe(
    // Every model call can fail with an AiError, in addition to the other members of `E`.
    (answer) => answer as Effect.Effect<Middleware.ModelAnswer, E, R>
  )

const buildMiddleware = ({ breaker: limits, fallbacks, trigger }: Options.Settings): Middleware.WrapModelCall => {
  const isMatch = (error: unknown): boolean => Trigger.matches(trigger, error)
  const breaker =
    limits === undefined
      ? undefined
      : Breakers.make({ failures: limits.failureThreshold, openFor: `${limits.recoverySeconds} seconds` })

  const judgeExit = <E>(exit: Exit.Exit<unknown, E>): Breakers.Verdict => {
    if (Exit.isSuccess(exit)) return "success"
    const failure = findFailure(exit.cause)
    return failure !== undefined && isMatch(failure.error) ? "failure" : "ignored"
  }

  /** Asks the fallbacks starting at `index`, after `from` failed with `cause`. */
  const fallBack = <E, R>(
    ask: Ask<E, R>,
    context: Middleware.CallContext,
    params: Middleware.ModelCallParams,
    failed: {
      readonly from: string
      readonly route: Route | undefined
      readonly index: number
      readonly primary: Route | undefined
      readonly cause: Cause.Cause<E | OwnFailure>
    }
  ): Effect.Effect<Middleware.ModelAnswer, E | OwnFailure, R> => {
    const { cause, from, index, primary, route } = failed
    const failure = findFailure(cause)
    const fallback = fallbacks[index]
    if (failure === undefined || fallback === undefined) return Effect.failCause(cause)
    const next = FallbackRoute.makeParams(fallback, primary, params)
    const nextRoute = Result.isSuccess(next) ? next.success.route : route
    return notifyFallback(context, from, fallback.name, failure.error).pipe(
      Effect.andThen(Effect.fromResult(next)),
      Effect.tap(() => notifyRouteChange(context, route, nextRoute)),
      Effect.flatMap(ask),
      Effect.catchCause((cause) =>
        fallBack(ask, context, params, { from: fallback.name, route: nextRoute, index: index + 1, primary, cause })
      )
    )
  }

  const callWithFallbacks = <E, R>(
    ask: Ask<E, R>,
    context: Middleware.CallContext,
    params: Middleware.ModelCallParams
  ) => {
    const primary: Effect.Effect<Middleware.ModelAnswer, E | Breakers.Rejected, R> =
      breaker === undefined ? ask(params) : breaker.guard("primary", ask(params), judgeExit)
    return Effect.catchCause(primary, (cause) =>
      Effect.gen(function* () {
        const failure = findFailure(cause)
        if (failure === undefined) return yield* Effect.failCause(cause)
        const isSkipped = failure.error instanceof Breakers.Rejected
        if (!isSkipped && !isMatch(failure.error)) return yield* Effect.failCause(cause)
        const route = params.route ?? (context.primary === undefined ? undefined : yield* context.primary)
        return yield* fallBack(ask, context, params, {
          from: describeRoute(route),
          route,
          index: 0,
          primary: route,
          cause
        })
      })
    )
  }

  return Middleware.wrapModelCall({
    name: "LlmFailover",
    wrap: (next, context) => (params) =>
      isChosenForTask(context, params) ? next(params) : hideRejection(callWithFallbacks(next, context, params))
  })
}

/** Creates the middleware from options in a file. The error for invalid options names the invalid field in one line. */
export const fromUnknown = (options: unknown): Result.Result<Middleware.WrapModelCall, ConfigError> =>
  Result.map(Options.read(options), buildMiddleware)

/** Creates the failover middleware. Throws a `ConfigError` if the options are invalid. */
export const make = (options: Options.Options): Middleware.WrapModelCall => Result.getOrThrow(fromUnknown(options))
