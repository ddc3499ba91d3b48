/**
 * One attempt to get an answer: the request is prepared for the route that is really called, rewritten by `llm_request`
 * middleware, announced by `pre_api_request`, executed through `llm_execution`, and closed by `post_api_request` or
 * `api_request_error`. Auxiliary calls go through the same attempt. The run record has an entry for each attempt: the
 * request by reference to its messages and tools, and the whole answer or the failure. Without a recorder this costs
 * nothing.
 *
 * Source: `ARCHITECTURE.md` §4 (run record too), `hermes-contract.md` §1.10.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Cost from "../../base/domain/Cost.ts"
import * as History from "../../base/domain/History.ts"
import * as Interruption from "../../base/domain/Interruption.ts"
import * as Json from "../../base/domain/Json.ts"
import type { ContentPart, ModelCall, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import type { AnswerPart, RecordEvent } from "../../base/domain/RecordEvent.ts"
import * as Route from "../../base/domain/Route.ts"
import { type Recorder, RunRecorder } from "../../base/domain/RunRecorder.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import { Correlation, type Ids, makeApiRequestId } from "../../hooks/Correlation.ts"
import type { Service as Hooks } from "../../hooks/Hooks.ts"
import type { Fields } from "../../hooks/Payloads.ts"
import * as PairedEvents from "../../hooks/PairedEvents.ts"
import * as Chain from "../../middleware/Chain.ts"
import type { LlmContext, TraceEntry } from "../../middleware/Kind.ts"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import * as MiddlewareBoundary from "../../middleware/MiddlewareBoundary.ts"
import * as Pipeline from "../../middleware/Pipeline.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Adaptation from "./Adaptation.ts"
import * as CallTokens from "./CallTokens.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import {
  decideOnFailure,
  findProviderFailure,
  emitNotice,
  readClock,
  type Progress,
  type RouteCallState
} from "./RouteCallState.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** An attempt whose request is ready to be sent. */
interface RecordedAttempt {
  readonly state: RouteCallState
  readonly provider: Provider
  /** From 0, over all routes of the call. */
  readonly number: number
  readonly progress: Progress
  readonly prepared: ModelRequest
  /** The request as middleware left it. */
  readonly payload: ModelRequest
  /** Characters of an answer that broke off, whose rest is asked for. */
  readonly continues: number
}

/** Members of a request that are messages or tools, in every protocol: the record names them by reference. */
const named: ReadonlySet<string> = new Set([
  "messages",
  "input",
  "system",
  "instructions",
  "tools",
  "toolConfig",
  "prompt",
  "extra_headers"
])

const selectParameters = (request: ModelRequest): Record<string, unknown> => {
  const parameters: Record<string, unknown> = {}
  for (const name of Object.keys(request)) {
    const value = request[name]
    if (value === undefined || named.has(name)) continue
    // A member of any name stays data.
    if (name === "__proto__")
      Object.defineProperty(parameters, name, { value, enumerable: true, configurable: true, writable: true })
    else parameters[name] = value
  }
  return parameters
}

const sideTask = /^auxiliary:(.+)$/u

const makeStartRecord = (
  recorder: Recorder,
  { continues, number, payload, prepared, provider, state }: RecordedAttempt,
  apiRequestId: string,
  { session_id, tool_call_id }: Ids
): RecordEvent => {
  const { call, context } = state.question
  const {
    info: { baseUrl, model, provider: name }
  } = provider
  const tools = recorder.offered(call.tools)
  const task = sideTask.exec(context.platform)?.[1]
  return {
    _tag: "AttemptStarted",
    apiRequestId,
    step: context.apiCallCount,
    attempt: number,
    ...(task === undefined ? {} : { task }),
    // A child's run executes in the fiber of its parent's call, under another session.
    ...(task === undefined || tool_call_id === "" || session_id !== context.sessionId ? {} : { callId: tool_call_id }),
    route: { provider: name, model, apiMode: provider.apiMode, ...(baseUrl === undefined ? {} : { baseUrl }) },
    messages: recorder.references(call.messages),
    ...(tools === undefined ? {} : { tools }),
    parameters: selectParameters(prepared),
    ...(payload === prepared ? {} : { rewritten: payload }),
    ...(continues === 0 ? {} : { continues })
  }
}

const toAnswerPart = (part: ContentPart): AnswerPart => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return { type: part.type, text: part.text }
    case "tool-call":
      return { type: "tool-call", id: part.id, name: part.name, params: part.params }
    case "file":
      return { type: "file", mediaType: part.mediaType }
  }
}

const describeFailure = (state: RouteCallState, cause: Cause.Cause<unknown>) => {
  const thrown = Cause.squash(cause)
  const own = {
    type: thrown instanceof Error ? thrown.name : "Error",
    message: thrown instanceof Error ? thrown.message : String(thrown)
  }
  const error = findProviderFailure(cause)
  if (error === undefined) return own
  const { reason, retryable } = decideOnFailure(state, error)
  const status = "http" in error.reason ? error.reason.http?.response?.status : undefined
  return {
    ...(error === thrown ? { type: error.reason._tag, message: error.reason.message } : own),
    ...(status === undefined ? {} : { status }),
    reason,
    retryable
  }
}

const includeDefined = <K extends string, V>(key: K, value: V | undefined): { readonly [_ in K]?: V } =>
  // A record of one key is what the type says; TypeScript widens a computed key.
  (value === undefined ? {} : { [key]: value }) as { readonly [_ in K]?: V }

/** The parts of an answer that came before it broke off. */
const assembleStreamedParts = ({ parts }: Progress): ReadonlyArray<AnswerPart> => {
  const assembler = Assembler.make()
  for (const read of parts) assembler.add(read)
  return assembler.result().parts.map(toAnswerPart)
}

const makeEndRecord = (
  { progress, state }: RecordedAttempt,
  apiRequestId: string,
  exit: Exit.Exit<ModelResponse, unknown>
): RecordEvent => {
  const common = { _tag: "AttemptEnded", apiRequestId, ...includeDefined("firstPartAt", progress.firstPartAt) } as const
  if (Exit.isFailure(exit)) {
    const interrupted = Cause.hasInterrupts(exit.cause)
    return {
      ...common,
      status: interrupted ? "interrupted" : "failed",
      answer: progress.parts.length === 0 ? [] : assembleStreamedParts(progress),
      ...(interrupted ? {} : { failure: describeFailure(state, exit.cause) })
    }
  }
  const { finishReason, id, model, parts, reportedCost, usage: reported } = exit.value
  const usage = Usage.fromResponse(reported)
  const cost = state.known.cost(usage, reportedCost)
  return {
    ...common,
    status: "answered",
    answer: parts.map(toAnswerPart),
    ...includeDefined("model", model),
    ...includeDefined("responseId", id),
    finishReason,
    usage,
    cost: Cost.toSpent(cost),
    ...includeDefined("costParts", cost.parts)
  }
}

/** Runs an attempt whose request is ready, and writes both ends of it to the record of its run. */
const recordAttempt = <E, R>(
  sent: RecordedAttempt,
  execution: Effect.Effect<ModelResponse, E, R>
): Effect.Effect<ModelResponse, E, R> =>
  Effect.withFiber((fiber) => {
    const recorder = fiber.getRef(RunRecorder)
    if (recorder === undefined) return execution
    const { context } = sent.state.question
    const apiRequestId = makeApiRequestId(context.turnId, context.apiCallCount, sent.number)
    recorder.write(makeStartRecord(recorder, sent, apiRequestId, fiber.getRef(Correlation)))
    return Effect.onExit(execution, (exit) =>
      Effect.sync(() => recorder.write(makeEndRecord(sent, apiRequestId, exit)))
    )
  })

/** An attempt as its events describe it. */
interface SentAttempt {
  readonly state: RouteCallState
  readonly context: LlmContext
  readonly request: ModelRequest
  readonly progress: Progress
  readonly startedAt: number
  readonly clock: Clock.Clock
}

const isList = (value: unknown): value is ReadonlyArray<unknown> => Array.isArray(value)

const readRequestMessages = ({ request }: SentAttempt): ReadonlyArray<unknown> => {
  const { input, messages } = request
  return isList(messages) ? messages : isList(input) ? input : []
}

const buildCommonFields = ({ context, startedAt }: SentAttempt) => ({
  session_id: context.sessionId,
  task_id: context.taskId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId,
  api_call_count: context.apiCallCount,
  retry_count: context.retryCount,
  platform: context.platform,
  model: context.model,
  provider: context.provider,
  base_url: context.baseUrl ?? "",
  api_mode: context.apiMode,
  started_at: startedAt / 1000,
  middleware_trace: context.trace
})

const measureTiming = ({ clock, progress: { firstPartAt }, startedAt }: SentAttempt) => {
  const ended = clock.currentTimeMillisUnsafe()
  return {
    api_duration: (ended - startedAt) / 1000,
    ended_at: ended / 1000,
    ...(firstPartAt === undefined ? {} : { time_to_first_token: (firstPartAt - startedAt) / 1000 })
  }
}

const isTokens = (value: unknown): value is number => typeof value === "number" && Number.isInteger(value)

/**
 * Output limit of a prepared request in tokens, under the names of all protocols; null if the request sets no limit.
 */
const readMaxTokens = (request: ModelRequest): number | null => {
  for (const name of ["max_tokens", "max_completion_tokens", "max_output_tokens"]) {
    const value = request[name]
    if (isTokens(value)) return value
  }
  const inference = request["inferenceConfig"]
  const converse =
    typeof inference === "object" && inference !== null && "maxTokens" in inference ? inference.maxTokens : undefined
  return isTokens(converse) ? converse : null
}

/** The opening event. */
const makeOpeningEvent = (sent: SentAttempt): PairedEvents.Event<"pre_api_request"> => [
  "pre_api_request",
  () => {
    const messages = readRequestMessages(sent)
    const { tools } = sent.request
    // Written for those who ask for it: it grows with the history.
    let characters: number | undefined
    const countCharacters = (): number => (characters ??= Json.toText(sent.request).length)
    return {
      ...buildCommonFields(sent),
      user_message: sent.state.question.userMessage,
      conversation_history: sent.state.question.call.messages,
      request_messages: messages,
      message_count: messages.length,
      tool_count: isList(tools) ? tools.length : 0,
      approx_input_tokens: () => Math.ceil(countCharacters() / 4),
      request_char_count: countCharacters,
      max_tokens: readMaxTokens(sent.request),
      request: () => ApiPayload.toRequestFields(sent.request)
    }
  }
]

const readStatus = (error: unknown): number | null => {
  if (!AiError.isAiError(error) || !("http" in error.reason)) return null
  return error.reason.http?.response?.status ?? null
}

/** Reason of a failure, and whether the same route may still answer. */
const classifyFailure = (
  { state }: SentAttempt,
  cause: Cause.Cause<unknown>
): { readonly reason: string; readonly retryable: boolean } => {
  if (Cause.hasInterrupts(cause)) return { reason: "interrupted", retryable: false }
  const error = findProviderFailure(cause)
  if (error === undefined) return { reason: "middleware", retryable: false }
  const { reason, retryable } = decideOnFailure(state, error)
  return { reason, retryable }
}

const buildErrorFields = (sent: SentAttempt, cause: Cause.Cause<unknown>): Fields<"api_request_error"> => {
  const error = Cause.hasInterrupts(cause) ? new Error("the request was interrupted") : Cause.squash(cause)
  return {
    ...buildCommonFields(sent),
    ...measureTiming(sent),
    status_code: readStatus(findProviderFailure(cause)),
    max_retries: sent.state.shared.maxAttempts,
    ...classifyFailure(sent, cause),
    error: ApiPayload.toErrorFields(error),
    request: () => ApiPayload.toRequestFields(sent.request)
  }
}

/** The closing event. */
const makeClosingEvent = (
  sent: SentAttempt,
  exit: Exit.Exit<ModelResponse, unknown>
): PairedEvents.Event<"post_api_request" | "api_request_error"> =>
  Exit.isSuccess(exit)
    ? [
        "post_api_request",
        () => ({
          ...buildCommonFields(sent),
          ...measureTiming(sent),
          ...ApiPayload.makeLazyAnswerFields(exit.value),
          ...Cost.toWire(
            Cost.toSpent(sent.state.known.cost(Usage.fromResponse(exit.value.usage), exit.value.reportedCost))
          ),
          message_count: readRequestMessages(sent).length,
          request: () => ApiPayload.toRequestFields(sent.request)
        })
      ]
    : ["api_request_error", () => buildErrorFields(sent, exit.cause)]

const join = Chain.joinOnPart<ModelRequest, ModelResponse>({
  get: (response) => response,
  set: (_, response) => response
})

const isHeard = (hooks: Hooks): boolean =>
  hooks.has("pre_api_request") || hooks.has("post_api_request") || hooks.has("api_request_error")

const makeSelfInterruption = (method: string): AiError.AiError =>
  AiError.make({
    module: "Provider",
    method,
    reason: new AiError.UnknownError({ description: new Interruption.SelfInterrupted("the provider").message })
  })

/**
 * Prepares the request in the form that the route is known to take; `delivered` is the part of the answer that was
 * read.
 */
const prepareRequest = (
  state: RouteCallState,
  provider: Provider,
  delivered: string
): Effect.Effect<ModelRequest, AiError.AiError> => {
  const {
    known: { window },
    log,
    outputCap,
    question,
    route
  } = state
  const changes = state.changes.size === 0 ? route.changes : new Set([...route.changes, ...state.changes])
  const prepareAdapted = (asked: ModelCall) => {
    const call = changes.size === 0 ? asked : Adaptation.applyChanges(asked, changes)
    return provider.prepare({
      ...call,
      ...(outputCap === undefined || (call.maxOutputTokens ?? Infinity) <= outputCap
        ? {}
        : { maxOutputTokens: outputCap }),
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
    const request = route.parameters.size === 0 ? prepared : Adaptation.changeParameters(prepared, route.parameters)
    state.request = request
    log.outputTokens = readMaxTokens(request) ?? undefined
    return request
  })
}

const makeContextBuilder = (
  { question: { context } }: RouteCallState,
  provider: Provider,
  retryCount: number,
  originalRequest: ModelRequest
): ((trace: ReadonlyArray<TraceEntry>) => LlmContext) => {
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

const runIntercepted = Effect.fnUntraced(function* (
  state: RouteCallState,
  provider: Provider,
  number: number,
  progress: Progress,
  prepared: ModelRequest,
  execute: Provider["execute"]
) {
  const {
    interceptors: { hooks, stack },
    question
  } = state
  const contextWith = makeContextBuilder(state, provider, number, prepared)
  // A veto or a closed failure is told as the end of the attempt.
  const rewritten = yield* Effect.result(Pipeline.run(stack.llmRequest, stack.faults, prepared, contextWith))
  const { payload, trace } = Result.getOrElse(rewritten, () => ({ payload: prepared, trace: [] }))
  const context = contextWith(trace)
  const continues = question.delivered?.text().length ?? 0
  const execution = recordAttempt(
    { state, provider, number, progress, prepared, payload, continues },
    Result.isFailure(rewritten)
      ? Effect.fail(rewritten.failure)
      : Chain.provideServices(
          stack.llmServices,
          stack.faults,
          () => context,
          Chain.run(stack.llmExecution, join, stack.faults, context, execute, () =>
            state.route.patience.wrapper(() => CallTokens.estimateTokens(question.call))
          )(payload, question.options)
        )
  )
  if (!isHeard(hooks)) return yield* execution
  const { clock } = state
  const sent: SentAttempt = { state, context, request: payload, progress, startedAt: readClock(state), clock }
  return yield* execution.pipe(
    PairedEvents.bracket(hooks, { open: makeOpeningEvent(sent), close: (exit) => makeClosingEvent(sent, exit) })
  )
})

/**
 * Retries and fallbacks are decided on the failure of the provider itself; a translation waits until nothing is left to
 * be tried.
 */
const restoreProviderFailure = <E>(
  { log }: RouteCallState,
  execution: Effect.Effect<ModelResponse, AiError.AiError | E>
): Effect.Effect<ModelResponse, AiError.AiError | E> =>
  Effect.catchCause(execution, (cause) => {
    const error = MiddlewareBoundary.findDownstreamFailure(cause) === undefined ? undefined : findProviderFailure(cause)
    if (error === undefined) return Effect.failCause(cause)
    log.translations.set(error, cause)
    return Effect.fail(error)
  })

/**
 * Makes one attempt with an open provider. `E` is what the stack's wrappers add (`Middleware.Errors`); it is known
 * where the stack was made, and their requirements are provided there.
 */
export const runAttempt = <E>(
  state: RouteCallState,
  provider: Provider
): Effect.Effect<ModelAnswer, AiError.AiError | E> => {
  const {
    interceptors: { hooks, stack },
    known,
    log,
    question
  } = state
  const number = log.count++
  const delivered = question.delivered?.text() ?? ""
  const progress = StreamTimeout.beginProgress()
  state.progress = progress
  const watched = StreamTimeout.executeWatched(provider, progress, (get) =>
    Effect.sync(() => RateLimitGate.readHeaders(state, get))
  )
  // A provider that interrupts itself has failed; only the run is interrupted.
  const execute: Provider["execute"] = (request, options) =>
    StreamTimeout.limitSilence(
      state,
      provider,
      progress,
      Interruption.contain(() => makeSelfInterruption("execute"))(watched(request, options))
    )
  const response = Effect.flatMap(prepareRequest(state, provider, delivered), (request) =>
    stack.llmRequest.length === 0 && stack.llmExecution.length === 0 && !isHeard(hooks)
      ? recordAttempt(
          { state, provider, number, progress, prepared: request, payload: request, continues: delivered.length },
          Chain.provideServices(
            stack.llmServices,
            stack.faults,
            () => makeContextBuilder(state, provider, number, request)([]),
            execute(request, question.options)
          )
        )
      : // The chain erases the types of its wrappers; the stack's maker states them as `E`.
        restoreProviderFailure(
          state,
          runIntercepted(state, provider, number, progress, request, execute) as Effect.Effect<
            ModelResponse,
            AiError.AiError | E
          >
        )
  )
  return Effect.map(response, (response) => ({
    response: delivered === "" ? response : PartialAnswer.prependText(response, delivered),
    route: provider.info,
    attempt: number,
    cost: known.cost(Usage.fromResponse(response.usage), response.reportedCost)
  }))
}
