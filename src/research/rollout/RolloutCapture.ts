/**
 * Records the model calls of agent runs as episodes. Middleware wraps every provider request of a session that is a
 * rollout.
 *
 * **Details**
 *
 * {@link Capture.track} makes a session a rollout with the same id. Each request is sent without streaming, with the
 * rollout's sampling parameters and the fields that request tokens. Its answer is stored before the run continues.
 * Calls from other sessions (sub-agents, side tasks) are passed through unchanged. If an answer cannot be stored, the
 * call fails, because a rollout with a gap is useless.
 *
 * **Example** (An agent whose runs can be rollouts)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Runtime } from "hermes-effect"
 * import { EpisodeStore, Episodes, RolloutCapture } from "hermes-effect/rollouts"
 *
 * const program = Effect.gen(function*() {
 *   const episodes = yield* Episodes.Episodes
 *   const capture = yield* RolloutCapture.make()
 *   yield* episodes.open({ rollout_id: "first", on_divergence: "branch" }, "offline")
 *   yield* capture.track("first", Agent.run({ prompt: "Reply exactly hello", sessionId: "first" })).pipe(
 *     Effect.provide(Runtime.layer({ middleware: [capture.middleware] }))
 *   )
 *   return (yield* episodes.get("first")).nodes[0]?.messages.at(-1)?.["content"]
 * })
 *
 * const kept = Episodes.layer.pipe(Layer.provide(EpisodeStore.layerMemory))
 * console.log(await Effect.runPromise(Effect.provide(program, kept)))
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Effect from "effect/Effect"
import { ExecutionBlocked } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import { RolloutRefused } from "../../base/domain/RolloutPort.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import { Episodes } from "./Episodes.ts"
import { readSampling } from "./RolloutModel.ts"
import * as TokenCapture from "./TokenCapture.ts"

/** Middleware for an agent, and the function that selects the runs to record. */
export interface Capture {
  readonly middleware: Middleware.LlmExecution
  /** Runs an Effect and meanwhile records the model calls of the session `id`. */
  readonly track: <A, E, R>(id: string, run: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
}

/** Settings of a capture. */
export interface Options {
  /** Kind of request fields that request tokens. By default it depends on the address of the route. */
  readonly dialect?: TokenCapture.Dialect | undefined
}

const protocol = "chat_completions"

/** Returns a request without streaming, with the rollout's sampling parameters and the fields that request tokens. */
const toCapturedRequest = (
  request: ModelRequest,
  sampling: Json.Fields,
  dialect: TokenCapture.Dialect
): ModelRequest => {
  const { stream: _, stream_options: __, ...rest } = request
  const { extra, own } = TokenCapture.listRequestFields(dialect)
  const extraBody = { ...Json.readFields(request["extra_body"]), ...extra }
  return {
    ...rest,
    ...sampling,
    ...own,
    stream: false,
    ...(Object.keys(extraBody).length === 0 ? {} : { extra_body: extraBody })
  }
}

const makeBlockedError = (reason: string): ExecutionBlocked =>
  new ExecutionBlocked({ reason, metadata: { checked_by: "rollout-capture" } })

/** Makes a capture that records to the episodes in the context. */
export const make = (options: Options = {}): Effect.Effect<Capture, never, Episodes> =>
  Effect.map(Episodes, (episodes) => {
    const tracked = new Set<string>()
    const middleware = Middleware.llmExecution({
      name: "rollout-capture",
      onFailure: "closed",
      wrap:
        (next, { apiMode, baseUrl, decode, sessionId }) =>
        (request) => {
          if (!tracked.has(sessionId)) return next(request)
          if (apiMode !== protocol)
            return Effect.fail(
              makeBlockedError(
                `rollouts need a model behind chat completions, and this one speaks ${apiMode}: ` +
                  "set model.api_mode or another model"
              )
            )
          return Effect.gen(function* () {
            const { sampling } = yield* episodes.get(sessionId)
            const sent = toCapturedRequest(request, sampling, options.dialect ?? TokenCapture.chooseDialect(baseUrl))
            let response: ModelResponse | undefined
            const body = yield* episodes.call(
              sessionId,
              {
                messages: Json.readItems(sent["messages"]).map(Json.readFields),
                tools: Array.isArray(sent["tools"]) ? sent["tools"] : undefined,
                sampling: readSampling(sent)
              },
              (messages) =>
                Effect.map(next({ ...sent, messages }), (answer) => {
                  response = answer
                  return answer.raw
                })
            )
            // Tool calls that were parsed from the text are contained only in the body.
            return response === undefined || body !== response.raw ? yield* decode(body) : response
          }).pipe(
            Effect.catchIf(
              (error): error is RolloutRefused => error instanceof RolloutRefused,
              ({ message }) => Effect.fail(makeBlockedError(message))
            )
          )
        }
    })
    return {
      middleware,
      track: (id, run) =>
        Effect.acquireUseRelease(
          Effect.sync(() => void tracked.add(id)),
          () => run,
          () => Effect.sync(() => tracked.delete(id))
        )
    }
  })
