/**
 * One attempt to get an answer: the request is prepared for the route that is really called, rewritten by `llm_request`
 * middleware, announced by `pre_api_request`, executed through `llm_execution`, and closed by `post_api_request` or
 * `api_request_error`. Auxiliary calls go through the same attempt.
 *
 * Source: `ARCHITECTURE.md` §4, `hermes-contract.md` §1.10.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Interruption from "../domain/Interruption.ts"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../domain/Model.ts"
import type { Route } from "../domain/Route.ts"
import { makeApiRequestId } from "../hooks/Correlation.ts"
import type { Service as Hooks } from "../hooks/Hooks.ts"
import * as Spans from "../hooks/Spans.ts"
import * as Chain from "../middleware/Chain.ts"
import type { Interceptors } from "../middleware/Interceptors.ts"
import type { LlmContext, TraceEntry } from "../middleware/Kind.ts"
import type { CallContext } from "../middleware/Middleware.ts"
import * as Pipeline from "../middleware/Pipeline.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as AttemptEvents from "./AttemptEvents.ts"
import type { About, Try } from "./ModelRouter.ts"

/** What is noted of the attempts of a whole call. */
export interface Attempts {
  /** How many there were, so that each has its own id even when a wrapper asks several routes. */
  count: number
  /** The route that was named last; undefined where that was the router's choice. */
  route: Route | undefined
  /** Output limit in tokens that the newest prepared request asks for; undefined where it asks for none. */
  outputTokens?: number | undefined
}

/** A model call and where it belongs. */
export interface Question {
  readonly call: ModelCall
  /** The route to take instead of the router's own choice. */
  readonly route?: Route | undefined
  readonly context: CallContext
  /** What the user asked, for hooks: text or parts. */
  readonly userMessage: unknown
  readonly options: ExecuteOptions | undefined
  /** Who asks the same question again brings it along. */
  readonly attempts?: Attempts | undefined
  readonly notify?: About["notify"]
  readonly deadline?: About["deadline"]
  readonly discard?: About["discard"]
  readonly delivered?: About["delivered"]
}

const join = Chain.joinOnPart<ModelRequest, ModelResponse>({
  get: (response) => response,
  set: (_, response) => response
})

const isHeard = (hooks: Hooks): boolean =>
  hooks.has("pre_api_request") || hooks.has("post_api_request") || hooks.has("api_request_error")

const bounded = <A, E, R>({ within }: Try, execution: Effect.Effect<A, E, R>): Effect.Effect<A, E | AiError.AiError, R> =>
  within === undefined ? execution : within(execution)

/** The provider's call. A provider that interrupts itself has failed; only the run is interrupted. */
const executeOf = ({ provider }: Try): Provider["execute"] => (request, options) =>
  Interruption.contain(() => selfInterrupted("execute"))(provider.execute(request, options))

const selfInterrupted = (method: string): AiError.AiError =>
  AiError.make({
    module: "Provider",
    method,
    reason: new AiError.UnknownError({ description: new Interruption.SelfInterrupted("the provider").message })
  })

const contextOf = (
  { provider, retryCount }: Try,
  { context }: Question,
  originalRequest: ModelRequest
): (trace: ReadonlyArray<TraceEntry>) => LlmContext => {
  const base = {
    sessionId: context.sessionId,
    taskId: context.taskId,
    turnId: context.turnId,
    apiRequestId: makeApiRequestId(context.turnId, context.apiCallCount, retryCount),
    platform: context.platform,
    provider: provider.info.provider,
    model: provider.info.model,
    baseUrl: provider.info.baseUrl,
    apiMode: provider.apiMode,
    apiCallCount: context.apiCallCount,
    retryCount,
    originalRequest,
    decode: provider.decode
  }
  return (trace) => ({ ...base, trace })
}

const intercepted = Effect.fnUntraced(function*(
  { hooks, stack }: Interceptors,
  at: Try,
  question: Question,
  prepared: ModelRequest
) {
  const execute = executeOf(at)
  const contextWith = contextOf(at, question, prepared)
  const { payload, trace } = yield* Pipeline.run(stack.llmRequest, stack.faults, prepared, contextWith)
  const context = contextWith(trace)
  const execution = (base: Provider["execute"]) =>
    bounded(at, Chain.run(stack.llmExecution, join, stack.faults, context, base)(payload, question.options))
  if (!isHeard(hooks)) return yield* execution(execute)
  const clock = yield* Clock.Clock
  const sent: AttemptEvents.Sent = {
    context,
    request: payload,
    userMessage: question.userMessage,
    messages: question.call.messages,
    maxRetries: at.maxRetries,
    facts: at.facts,
    cost: at.cost,
    startedAt: clock.currentTimeMillisUnsafe(),
    firstPartAt: undefined,
    clock
  }
  const base: Provider["execute"] = question.call.stream
    ? (request, options) => execute(request, AttemptEvents.noting(sent, options))
    : execute
  return yield* execution(base).pipe(
    Spans.bracket(hooks, {
      open: AttemptEvents.opening(sent),
      close: (exit) => AttemptEvents.closing(sent, exit)
    })
  )
})

/**
 * See the module. `E` is what the stack's wrappers add (`Middleware.Errors`); it is known where the stack was made, and
 * their requirements are provided there.
 */
export const run = <E>(
  interceptors: Interceptors,
  at: Try,
  question: Question
): Effect.Effect<ModelResponse, AiError.AiError | E> => {
  const { hooks, stack } = interceptors
  const prepare = Interruption.contain(() => selfInterrupted("prepare"))(at.provider.prepare(question.call))
  return Effect.flatMap(prepare, (prepared) => {
    if (question.attempts !== undefined) question.attempts.outputTokens = AttemptEvents.maxTokens(prepared) ?? undefined
    return stack.llmRequest.length === 0 && stack.llmExecution.length === 0 && !isHeard(hooks)
      ? bounded(at, executeOf(at)(prepared, question.options))
      // The chain erases the types of its wrappers; the stack's maker states them as `E`.
      : intercepted(interceptors, at, question, prepared) as Effect.Effect<ModelResponse, AiError.AiError | E>
  })
}
