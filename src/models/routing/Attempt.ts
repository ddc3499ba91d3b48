/**
 * Makes one attempt to get an answer. The request is prepared for the route that is actually called, rewritten by
 * `llm_request` middleware, announced by `pre_api_request`, executed through `llm_execution`, and closed by
 * `post_api_request` or `api_request_error` (`AttemptEvents`). Auxiliary calls go through the same attempt. The run
 * record has an entry for each attempt (`AttemptRecord`).
 *
 * Source: `ARCHITECTURE.md` §4 (also for the run record), `hermes-contract.md` §1.10.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as History from "../../base/domain/History.ts"
import * as Interruption from "../../base/domain/Interruption.ts"
import type { ModelCall, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import * as Route from "../../base/domain/Route.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { makeApiRequestId } from "../../hooks/Correlation.ts"
import * as PairedEvents from "../../hooks/PairedEvents.ts"
import * as Chain from "../../middleware/Chain.ts"
import * as ResultContract from "../../middleware/ResultContract.ts"
import type { LlmContext, TraceEntry } from "../../middleware/Kind.ts"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import * as WrapperFailures from "../../middleware/WrapperFailures.ts"
import type { Stack } from "../../middleware/Stack.ts"
import * as Requesters from "../../middleware/Requesters.ts"
import * as Pipeline from "../../middleware/Pipeline.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Adaptation from "./Adaptation.ts"
import * as AnswerProgress from "./AnswerProgress.ts"
import * as AttemptEvents from "./AttemptEvents.ts"
import { recordAttempt, type StartedAttempt } from "./AttemptRecord.ts"
import * as CallTokens from "./CallTokens.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import { emitNotice, findProviderFailure, readClock, type RouteCallState } from "./RouteCallState.ts"
import * as RouteProfile from "./RouteProfile.ts"
import * as Spending from "./Spending.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** The latest attempt of a call on a route. */
export interface SentState {
  /** The prepared request, before middleware. */
  request: ModelRequest | undefined
  /** Progress of the attempt; `undefined` if its provider could not be opened. */
  progress: AnswerProgress.AttemptProgress | undefined
  /** True if the provider was asked to send the request. */
  isExecuted: boolean
}

/** Discards the progress of the previous attempt. */
export const forgetAttempt = ({ sent }: RouteCallState): void => {
  sent.progress = undefined
  sent.isExecuted = false
}

const executions = {
  join: Chain.joinOnPart<ModelRequest, ModelResponse>({ get: (response) => response, set: (_, response) => response }),
  contract: ResultContract.response
}

const makeSelfInterruption = (method: string): AiError.AiError =>
  AiError.make({
    module: "Provider",
    method,
    reason: new AiError.UnknownError({ description: new Interruption.SelfInterrupted("the provider").message })
  })

/** Least room for an answer for which the output limit of a request is lowered, in tokens. */
const leastRoom = 1_024

/**
 * Computes the largest output limit of a call: the longest answer of the endpoint, and the room that the prompt leaves
 * in a known window. If the room is too small for an answer, or the provider may leave out old results, the endpoint
 * decides.
 */
const computeOutputCap = (
  { form, known: { window }, question: { call }, route: { profile } }: RouteCallState,
  granted: number
): number => {
  const cap = Math.min(form.outputCap ?? Infinity, profile.outputMaximum ?? Infinity, granted)
  const limit = Math.min(cap, call.maxOutputTokens ?? profile.defaultLimit ?? 0)
  if (window.source === "default" || limit === 0 || call.contextEdits !== undefined) return cap
  const room = Math.floor(window.tokens - CallTokens.estimateRequest(call) * profile.ratio)
  return room < limit && room >= leastRoom ? room : cap
}

/**
 * Prepares the request in the form that the route is known to accept. `delivered` is the part of the answer that was
 * already received, `granted` the largest output limit that the ledger of the run permits.
 */
const prepareRequest = (
  state: RouteCallState,
  provider: Provider,
  delivered: string,
  granted: number
): Effect.Effect<ModelRequest, AiError.AiError> => {
  const {
    form: { changes: own },
    known: { window },
    log,
    question,
    route
  } = state
  const { profile } = route
  const changes = own.size === 0 ? profile.changes : new Set([...profile.changes, ...own])
  const outputCap = computeOutputCap(state, granted)
  const prepareAdapted = (asked: ModelCall) => {
    const adapted = changes.size === 0 ? asked : Adaptation.applyChanges(asked, changes)
    const call = profile.parameters.has(Adaptation.cacheMarks) ? { ...adapted, cache: undefined } : adapted
    return provider.prepare({
      ...call,
      ...((call.maxOutputTokens ?? Infinity) <= outputCap ? {} : { maxOutputTokens: outputCap }),
      contextWindow: window.tokens,
      messages: History.toSendableMessages(call.messages, Route.abilities(provider.info))
    })
  }
  const asked = delivered === "" ? question.call : PartialAnswer.makeContinuationCall(question.call, delivered)
  const prepared =
    changes.has("with_smaller_images") && !changes.has("without_images")
      ? Effect.flatMap(
          Adaptation.scaleImages(asked, ({ message }) => emitNotice(state, message)),
          prepareAdapted
        )
      : prepareAdapted(asked)
  return Effect.map(Interruption.contain(() => makeSelfInterruption("prepare"))(prepared), (prepared) => {
    const request = profile.parameters.size === 0 ? prepared : Adaptation.changeParameters(prepared, profile.parameters)
    state.sent.request = request
    log.outputTokens = AttemptEvents.readMaxTokens(request) ?? undefined
    if (outputCap === Infinity && question.call.maxOutputTokens === undefined)
      RouteProfile.noteDefaultLimit(route, log.outputTokens)
    return request
  })
}

const makeContextBuilder = (
  { number: retryCount, provider, state: { question } }: StartedAttempt,
  originalRequest: ModelRequest
): ((trace: ReadonlyArray<TraceEntry>) => LlmContext) => {
  const { context, getSpending } = question
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
    task: context.task,
    runTurnId: context.runTurnId,
    ...getSpending?.(),
    decode: provider.decode
  }
  return (trace) => ({ ...base, trace })
}

/** Returns the middleware of a side task: all that does not request it. */
const selectEntries = ({ llmExecution, llmRequest }: Stack) =>
  Effect.map(Requesters.Requesters, (requesters) => ({
    llmExecution: Requesters.removeRequesters(llmExecution, requesters),
    llmRequest: Requesters.removeRequesters(llmRequest, requesters)
  }))

const runIntercepted = Effect.fnUntraced(function* (
  started: StartedAttempt,
  prepared: ModelRequest,
  execute: Provider["execute"]
) {
  const { progress, state } = started
  const {
    clock,
    interceptors: { hooks, stack },
    question
  } = state
  const contextWith = makeContextBuilder(started, prepared)
  const { llmExecution, llmRequest } = question.context.task === undefined ? stack : yield* selectEntries(stack)
  // A veto, or a middleware failure that blocks the request, is reported as the result of the attempt.
  const rewritten = yield* Effect.result(Pipeline.run(llmRequest, stack.faults, prepared, contextWith))
  const { payload, trace } = Result.getOrElse(rewritten, () => ({ payload: prepared, trace: [] }))
  const context = contextWith(trace)
  const execution = recordAttempt(
    { ...started, prepared, payload },
    Result.isFailure(rewritten)
      ? Effect.fail(rewritten.failure)
      : Chain.provideServices(
          stack.llmServices,
          stack.faults,
          () => context,
          Chain.run(llmExecution, executions, stack.faults, context, execute, () =>
            state.route.patience.wrapper(() => CallTokens.estimateTokens(question.call))
          )(
            payload,
            llmExecution.length === 0 ? question.options : AnswerProgress.recordPassedParts(progress, question.options)
          )
        )
  )
  if (!AttemptEvents.isHeard(hooks)) return yield* execution
  const sent = { state, context, request: payload, progress, startedAt: readClock(state), clock }
  return yield* execution.pipe(
    PairedEvents.bracket(hooks, {
      open: AttemptEvents.makeOpeningEvent(sent),
      close: (exit) => AttemptEvents.makeClosingEvent(sent, exit)
    })
  )
})

/**
 * Restores the provider's original failure, which determines retries and fallbacks. A failure translated by middleware
 * is reported only after all recoveries have been tried.
 */
const restoreProviderFailure = <E>(
  { log }: RouteCallState,
  execution: Effect.Effect<ModelResponse, AiError.AiError | E>
): Effect.Effect<ModelResponse, AiError.AiError | E> =>
  Effect.catchCause(execution, (cause) => {
    const error = WrapperFailures.findDownstreamFailure(cause) === undefined ? undefined : findProviderFailure(cause)
    if (error === undefined) return Effect.failCause(cause)
    log.translations.set(error, cause)
    return Effect.fail(error)
  })

/**
 * Makes one attempt with an open provider. `E` contains the errors that the stack's wrappers add (`Middleware.Errors`);
 * the wrappers' requirements are provided where the stack is created. `granted` is the largest output limit that the
 * ledger of the run permits; fails with `OutputRaised` if the protocol needs a larger one.
 */
export const runAttempt = <E>(
  state: RouteCallState,
  provider: Provider,
  granted: number
): Effect.Effect<ModelAnswer, AiError.AiError | Spending.OutputRaised | E> => {
  const {
    interceptors: { hooks, stack },
    known,
    log,
    question
  } = state
  const number = log.count++
  const delivered = question.progress?.broken.received ?? ""
  const progress = AnswerProgress.beginAttempt()
  state.sent.progress = progress
  const started: StartedAttempt = { state, provider, number, progress, continues: delivered.length }
  const watched = StreamTimeout.executeWatched(provider, progress, (get) =>
    Effect.sync(() => RateLimitGate.readHeaders(state, get))
  )
  // A provider that interrupts itself counts as failed; only an interruption of the run interrupts the attempt.
  const execute: Provider["execute"] = (request, options) =>
    Effect.suspend(() => {
      state.sent.isExecuted = true
      return StreamTimeout.limitSilence(
        state,
        provider,
        progress,
        Interruption.contain(() => makeSelfInterruption("execute"))(watched(request, options))
      )
    })
  const askProvider = Effect.flatMap(
    prepareRequest(state, provider, delivered, granted),
    (request): Effect.Effect<ModelResponse, AiError.AiError | Spending.OutputRaised | E> =>
      (log.outputTokens ?? 0) > granted
        ? Effect.fail(new Spending.OutputRaised(log.outputTokens ?? 0))
        : stack.llmRequest.length === 0 && stack.llmExecution.length === 0 && !AttemptEvents.isHeard(hooks)
          ? recordAttempt(
              { ...started, prepared: request, payload: request },
              Chain.provideServices(
                stack.llmServices,
                stack.faults,
                () => makeContextBuilder(started, request)([]),
                execute(request, question.options)
              )
            )
          : // The chain erases the types of its wrappers; the stack's maker states them as `E`.
            restoreProviderFailure(
              state,
              runIntercepted(started, request, execute) as Effect.Effect<ModelResponse, AiError.AiError | E>
            )
  )
  return Effect.map(askProvider, (response) => ({
    response: delivered === "" ? response : PartialAnswer.prependText(response, delivered),
    route: provider.info,
    attempt: number,
    cost: known.cost(Usage.fromResponse(response.usage), response.reportedCost)
  }))
}
