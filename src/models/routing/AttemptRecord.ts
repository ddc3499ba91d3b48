/**
 * Writes attempts to the run record: the request, with references to its messages and tools, and the complete answer or
 * the failure. Without a recorder nothing is done.
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Tracer from "effect/Tracer"
import * as AnswerText from "../../base/domain/AnswerText.ts"
import * as Assembler from "../../base/domain/Assembler.ts"
import * as Cost from "../../base/domain/Cost.ts"
import type { ContentPart, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import type { AnswerPart, RecordEvent } from "../../base/domain/RecordEvent.ts"
import { type Recorder, RunRecorder } from "../../base/domain/RunRecorder.ts"
import * as Usage from "../../base/domain/Usage.ts"
import { Correlation, type Ids, makeApiRequestId } from "../../hooks/Correlation.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { AttemptProgress } from "./AnswerProgress.ts"
import * as AttemptSpan from "./AttemptSpan.ts"
import { decideOnFailure, findProviderFailure, type RouteCallState } from "./RouteCallState.ts"

/** An attempt that has started. */
export interface StartedAttempt {
  readonly state: RouteCallState
  readonly provider: Provider
  /** Number of the attempt, from 0, counted across all routes of the call. */
  readonly number: number
  readonly progress: AttemptProgress
  /** Number of characters of an incomplete answer that this attempt continues; 0 if it starts a new answer. */
  readonly continues: number
}

/** An attempt whose request is ready to be sent. */
export interface RecordedAttempt extends StartedAttempt {
  readonly prepared: ModelRequest
  /** The request as rewritten by middleware. */
  readonly payload: ModelRequest
}

/**
 * Fields of a request that are excluded from its recorded parameters, in every protocol: messages and tools, which are
 * recorded by reference, and headers.
 */
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
    // Defining the property stores even a `__proto__` field as data.
    if (name === "__proto__")
      Object.defineProperty(parameters, name, { value, enumerable: true, configurable: true, writable: true })
    else parameters[name] = value
  }
  return parameters
}

/** Newest parameters by provider: records of requests with the same parameters share them. */
const newestParameters = new WeakMap<object, Readonly<Record<string, unknown>>>()

const shareParameters = (
  provider: object,
  parameters: Readonly<Record<string, unknown>>
): Readonly<Record<string, unknown>> => {
  const newest = newestParameters.get(provider)
  const names = Object.keys(parameters)
  const isSame =
    newest !== undefined &&
    Object.keys(newest).length === names.length &&
    names.every((name) => Object.hasOwn(newest, name) && newest[name] === parameters[name])
  if (isSame) return newest
  newestParameters.set(provider, parameters)
  return parameters
}

const sideTask = /^auxiliary:(.+)$/u

type RecordedRoute = Extract<RecordEvent, { readonly _tag: "AttemptStarted" }>["route"]

/** Recorded routes by their provider: the records of a route share one. */
const recordedRoutes = new WeakMap<object, RecordedRoute>()

const toRecordedRoute = (provider: RecordedAttempt["provider"]): RecordedRoute => {
  const known = recordedRoutes.get(provider)
  if (known !== undefined) return known
  const { baseUrl, model, provider: name } = provider.info
  const route = { provider: name, model, apiMode: provider.apiMode, ...(baseUrl === undefined ? {} : { baseUrl }) }
  recordedRoutes.set(provider, route)
  return route
}

const makeStartRecord = (
  recorder: Recorder,
  { continues, number, payload, prepared, provider, state }: RecordedAttempt,
  apiRequestId: string,
  { session_id, tool_call_id }: Ids
): RecordEvent => {
  const { call, context } = state.question
  const tools = recorder.offered(call.tools)
  const task = sideTask.exec(context.platform)?.[1]
  return {
    _tag: "AttemptStarted",
    apiRequestId,
    step: context.apiCallCount,
    attempt: number,
    ...(task === undefined ? {} : { task }),
    // A sub-agent's run executes in the fiber of its parent's tool call, but in another session.
    ...(task === undefined || tool_call_id === "" || session_id !== context.sessionId ? {} : { callId: tool_call_id }),
    route: toRecordedRoute(provider),
    messages: recorder.references(call.messages),
    ...(tools === undefined ? {} : { tools }),
    parameters: shareParameters(provider, selectParameters(prepared)),
    ...(payload === prepared ? {} : { rewritten: payload }),
    ...includeDefined("cacheTtl", call.cache?.ttl),
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
  // The cast is needed because TypeScript widens the type of an object with a computed key.
  (value === undefined ? {} : { [key]: value }) as { readonly [_ in K]?: V }

/** Assembles the parts of an incomplete answer that had arrived. */
const assembleStreamedParts = ({ parts, passed = parts }: AttemptProgress): ReadonlyArray<AnswerPart> => {
  const assembler = Assembler.make()
  for (const read of passed) assembler.add(read)
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
  const { finishReason, id, model, reportedCost, usage: reported } = exit.value
  const usage = Usage.fromResponse(reported)
  const cost = state.known.cost(usage, reportedCost)
  return {
    ...common,
    status: "answered",
    // The run goes on with as much of an endless answer.
    answer: AnswerText.boundAnswer(exit.value).response.parts.map(toAnswerPart),
    ...includeDefined("model", model),
    ...includeDefined("responseId", id),
    finishReason,
    usage,
    cost: Cost.toSpent(cost),
    ...includeDefined("costParts", cost.parts),
    ...includeDefined("promptRates", Cost.findPromptRates(state.known.cost))
  }
}

const interrupted = Exit.failCause(Cause.interrupt())

/** Runs an attempt whose request is ready, in its span, and writes its start and its end to the run record. */
export const recordAttempt = <E, R>(
  sent: RecordedAttempt,
  execution: Effect.Effect<ModelResponse, E, R>
): Effect.Effect<ModelResponse, E, R> =>
  Effect.withFiber((fiber) => {
    const recorder = fiber.getRef(RunRecorder)
    const { context: services } = fiber
    const span = AttemptSpan.beginSpan(services, sent)
    if (recorder === undefined && span === undefined) return execution
    const { context } = sent.state.question
    const apiRequestId = makeApiRequestId(context.turnId, context.apiCallCount, sent.number)
    recorder?.write(makeStartRecord(recorder, sent, apiRequestId, fiber.getRef(Correlation)), () =>
      makeEndRecord(sent, apiRequestId, interrupted)
    )
    const placed = span === undefined ? execution : Effect.provideService(execution, Tracer.ParentSpan, span)
    const recordEnd = (exit: Exit.Exit<ModelResponse, E>): void => {
      recorder?.write(makeEndRecord(sent, apiRequestId, exit))
      if (span !== undefined) AttemptSpan.endSpan(span, services, sent, exit)
    }
    if (recorder?.isHeard() !== true) return Effect.onExit(placed, (exit) => Effect.sync(() => recordEnd(exit)))
    return Effect.onExit(Effect.andThen(recorder.flush, placed), (exit) => {
      recordEnd(exit)
      // The end of an answer is written with its usage, so that the record never has one without the other.
      return Exit.isSuccess(exit) ? Effect.void : recorder.flush
    })
  })
