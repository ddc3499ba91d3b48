/**
 * A router as the `LanguageModel` of `effect/ai`: `generateText`, `streamText`, `generateObject` and toolkits work over
 * its routes, with retries, key pools, failover and the pace of each key.
 *
 * **Details**
 *
 * Each call begins at the primary route, like a turn of a run. Hooks of the context see its attempts. A call within
 * a run (in the handler of a tool) is an attempt of that run in the run record, as a side task is. `Runtime.layer`
 * provides this model over the routes of its agent, with the middleware of model requests, and charges what a call used
 * to the session of its run.
 *
 * A streamed answer is repeated while none of its content was passed on. After that, a failure of its attempt is the
 * failure of the stream, so that the parts of two answers are never mixed.
 *
 * **Gotchas**
 *
 * Tools that only a vendor's own API can run (`Tool.providerDefined`) are refused. Waits between attempts can take
 * minutes: limit them with a `RetryPolicy`, or the call with `Effect.timeout`.
 *
 * **Example** (The next route answers)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import * as Redacted from "effect/Redacted"
 * import * as LanguageModel from "effect/ai/LanguageModel"
 * import { ModelRouter, RetryPolicy } from "hermes-effect"
 * import { RoutedLanguageModel } from "hermes-effect/effect-ai"
 *
 * // Nothing listens at the first address.
 * const routes = [
 *   { provider: "custom", model: "large", baseUrl: "http://127.0.0.1:9/v1", apiKey: Redacted.make("key") },
 *   { provider: "offline", model: "offline" }
 * ]
 *
 * const model = RoutedLanguageModel.layer.pipe(
 *   Layer.provide(ModelRouter.layerFromRoutes(routes, { retry: RetryPolicy.none }))
 * )
 *
 * const program = LanguageModel.generateText({ prompt: "Reply exactly hello" }).pipe(Effect.provide(model))
 *
 * console.log((await Effect.runPromise(program)).text)
 * // => hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import type * as LanguageModel from "effect/ai/LanguageModel"
import * as Cost from "../../base/domain/Cost.ts"
import * as Ids from "../../base/domain/Ids.ts"
import type { ModelCall } from "../../base/domain/ModelCall.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { Correlation } from "../../hooks/Correlation.ts"
import type { CallContext, ModelAnswer } from "../../middleware/Middleware.ts"
import { Model } from "../provider/DeferredLanguageModel.ts"
import * as LanguageModelBridge from "../provider/LanguageModelBridge.ts"
import type { Entry } from "./Auxiliary.ts"
import * as Interceptors from "./Interceptors.ts"
import { CallingRun, callModel, makeLog, ModelRouter, type Question, type Service } from "./ModelRouter.ts"
import { CurrentSpending } from "./SpendingPort.ts"

/** Name of the calls in the run record and in the sums of a run. */
const taskName = "language_model"

/** Settings of all calls of a model; each defaults to the provider's. */
export interface Settings extends Pick<
  ModelCall,
  "maxOutputTokens" | "temperature" | "seed" | "reasoningEffort" | "cache"
> {}

/** Parts of a model. */
export interface Options {
  readonly router: Service
  /** Middleware of model requests, and hooks. Their failures become an `AiError`. */
  readonly interceptors: Interceptors.Interceptors
  readonly settings?: Settings | undefined
  /** Provides each call with the services that its middleware needs. */
  readonly provideServices?: (<A, E, R>(call: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>) | undefined
  /** Charges what a call used to the session of its run. Not called outside of a run. */
  readonly account?: ((sessionId: Ids.SessionId, entry: Entry) => Effect.Effect<void>) | undefined
}

const toAiError = (error: unknown): AiError.AiError =>
  AiError.isAiError(error)
    ? error
    : AiError.make({
        module: "RoutedLanguageModel",
        method: "call",
        reason: new AiError.UnknownError({ description: error instanceof Error ? error.message : String(error) })
      })

/** Logs the changes of keys and routes, for debugging. */
const logNotices = (events: ReadonlyArray<RunEvent>): Effect.Effect<void> =>
  Effect.forEach(events, (event) => (event._tag === "Notice" ? Effect.logDebug(event.message) : Effect.void), {
    discard: true
  })

/** Passes parts on to a reader, which starts anew with each attempt. */
const readAttempts = (
  { hasContent, onPart, restart }: LanguageModelBridge.Reader,
  log: NonNullable<Question["log"]>
): Pick<Question, "canRepeat" | "options"> => {
  let attempt = 0
  return {
    canRepeat: () => !hasContent(),
    options: {
      onPart: (parts) => {
        if (log.count !== attempt) restart()
        attempt = log.count
        return onPart(parts)
      }
    }
  }
}

/** Makes a `LanguageModel` over a router. */
export const make = Effect.fnUntraced(function* ({
  account,
  interceptors,
  provideServices = (call) => call,
  router,
  settings
}: Options): Effect.fn.Return<LanguageModel.LanguageModel> {
  // The position in the chain of routes is remembered for a session: calls outside of a run share one.
  const ownSession = yield* Ids.makeSessionId
  let count = 0

  /** The ids of a call: the ids of the run that the fiber is in, made unique by a number. */
  const makeContext = Effect.map(Correlation, ({ session_id, task_id, turn_id }): CallContext => {
    const sessionId = session_id === "" ? ownSession : session_id
    const turnId = turn_id === "" ? ownSession : turn_id
    return {
      sessionId,
      taskId: task_id === "" ? Ids.TaskId.make(sessionId) : task_id,
      turnId: Ids.TurnId.make(`${turnId}:${taskName}:${++count}`),
      runTurnId: turnId === ownSession ? undefined : Ids.TurnId.make(turnId),
      task: taskName,
      platform: `auxiliary:${taskName}`,
      apiCallCount: 1
    }
  })

  const chargeAnswer = ({ cost = Cost.makeUnknown("no price for this model"), response, route }: ModelAnswer) =>
    Effect.flatMap(Correlation, ({ session_id }) =>
      account === undefined || session_id === ""
        ? Effect.void
        : account(session_id, { task: taskName, route, usage: Usage.fromResponse(response.usage), cost })
    )

  return yield* LanguageModelBridge.make((call, reader) =>
    // A received answer is always charged, even if the caller is interrupted.
    Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const context = yield* makeContext
        const log = makeLog()
        const run = yield* CallingRun
        const asked = callModel<unknown>(router, run?.interceptors ?? interceptors, {
          call: { ...call, ...settings },
          context,
          log,
          turn: { session: ownSession, turn: context.turnId },
          userMessage: "",
          getSpending: run?.getSpending,
          spending: yield* CurrentSpending,
          notify: logNotices,
          options: undefined,
          ...(reader === undefined ? {} : readAttempts(reader, log))
        })
        const answer = yield* restore(Effect.mapError(provideServices(asked), toAiError))
        yield* chargeAnswer(answer)
        return answer.response
      })
    )
  )
})

/** {@link layer} with settings of its calls. */
export const layerWith = (settings: Settings): Layer.Layer<LanguageModel.LanguageModel, never, ModelRouter> =>
  Layer.effect(
    Model,
    Effect.gen(function* () {
      const router = yield* ModelRouter
      return yield* make({ router, interceptors: yield* Interceptors.make([]), settings })
    })
  )

/** The router of the context as a `LanguageModel`. */
export const layer: Layer.Layer<LanguageModel.LanguageModel, never, ModelRouter> = layerWith({})
