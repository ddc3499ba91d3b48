/**
 * Executes one call on one route: makes attempts until one is answered, or until no further recovery is possible on
 * this route.
 *
 * **Details**
 *
 * After each failure the decision's recoveries are tried in order (`Recovery`); the first possible one is performed
 * (`RecoverySteps`), and the attempt is repeated. For the recovery `RetryAfter`, the `RetryPolicy` of the call decides
 * how long to wait and when to stop. A failure that is classified as permanent also reaches the policy before the route
 * is left. If an answer was cut off, the whole answer or only the rest of it is requested again (`PartialAnswer`).
 *
 * Everything that a user would notice is reported as an event: waits, another key, another connection, a call in
 * another form. An interruption ends a wait at once.
 *
 * Source: `hermes-llm.md` §15.5, §16.5, §17.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import * as AiError from "effect/ai/AiError"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { Change } from "./Adaptation.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as AnswerProgress from "./AnswerProgress.ts"
import * as Attempt from "./Attempt.ts"
import * as CallTokens from "./CallTokens.ts"
import type { Decision, Failure } from "./Classification.ts"
import * as Evidence from "./classification/Evidence.ts"
import * as CredentialPool from "./CredentialPool.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import type { Recovery } from "./Recovery.ts"
import * as RecoverySteps from "./RecoverySteps.ts"
import * as RetryPolicy from "./RetryPolicy.ts"
import * as RouteProfile from "./RouteProfile.ts"
import * as Spending from "./Spending.ts"
import {
  type Call,
  decideOnFailure,
  emitEvent,
  formatRouteName,
  makeCallState,
  type ManagedRoute,
  type Position,
  reportWait,
  returnLease,
  type RouteCallState,
  takeLease
} from "./RouteCallState.ts"

/** Counters for a call's retries on a route. */
export interface Retries {
  /** Number of failures that count as attempts. */
  failures: number
  /** True if the connection was rebuilt. */
  isRebuilt: boolean
  /** Number of attempts that requested the rest of an answer and were cut off again. */
  continuations: number
  /** Number of times that the call was sent again because of a mistake of the model. */
  repeats: number
}

/** Form in which a call is sent. */
export interface CallForm {
  outputCap: number | undefined
  /** Changes that apply only to this call. */
  readonly changes: Set<Change>
}

/** Result of a call on one route. A failure includes the decision about it. */
export type Outcome =
  | { readonly _tag: "Answered"; readonly answer: ModelAnswer; readonly decision?: undefined }
  /** The call continues on the next route. */
  | ({ readonly _tag: "NextRoute" } & RouteError)
  /** The call fails and is not continued on another route. */
  | ({ readonly _tag: "GivenUp" } & Failure)

/** A failure with its classification and its description for policies. */
interface RouteError extends Failure {
  readonly failure: RetryPolicy.RouteFailure
}

/** A failed attempt that may be repeated on the route, with or without a wait. */
class Unanswered {
  readonly failed: RouteError
  /** True if the retry policy decides about the wait; false if a recovery makes another attempt possible at once. */
  readonly waits: boolean
  /** Recoveries that are left when the policy is done. */
  readonly rest: ReadonlyArray<Recovery>

  constructor(failed: RouteError, waits: boolean, rest: ReadonlyArray<Recovery>) {
    this.failed = failed
    this.waits = waits
    this.rest = rest
  }
}

/** Classifies a failure and describes it for policies. A rate limit that is not counted keeps the attempt number. */
const describeFailure = (state: RouteCallState, error: AiError.AiError): Effect.Effect<RouteError> =>
  Effect.map(Clock.currentTimeMillis, (now) => {
    const decision = decideOnFailure(state, error)
    const { message, reason, recoveries } = decision
    const { retries, route, sent, startedAt } = state
    const retry = recoveries.find((recovery) => recovery._tag === "RetryAfter")
    const after = retry?.after
    const retryAfter = reason === "rate_limit" ? (after ?? CredentialPool.readResetAfter(error, now)) : after
    const isFree = reason === "rate_limit" && RateLimitGate.isFreeRefusal(state, retryAfter, now)
    const failure = {
      reason,
      message,
      attempt: isFree ? retries.failures : retries.failures + 1,
      elapsed: Duration.millis(now - startedAt),
      retryAfter,
      route: route.info,
      hasStreamed: AnswerProgress.readStreamedText(sent.progress?.parts ?? []).anything,
      isRetryable: retry !== undefined,
      isUnreachable: retry?.unreachable === true
    }
    return { error, decision, failure }
  })

const permanent: Recovery = { _tag: "RetryAfter", after: undefined }
const nextRoute: Recovery = { _tag: "NextRoute" }

/**
 * Lists the recoveries from a failure in order: the recoveries of its decision, and the next route at the time that the
 * fallback policy chooses. A failure that is classified as permanent is also passed to the retry policy. A conversation
 * that is too large is never sent again unchanged.
 */
const listRecoveries = (
  { shared }: RouteCallState,
  { decision: { recoveries }, failure }: RouteError
): ReadonlyArray<Recovery> => {
  if (recoveries.some(({ _tag }) => _tag === "Compact")) return recoveries
  const onRoute = recoveries.filter(({ _tag }) => _tag !== "NextRoute")
  const all = failure.isRetryable ? onRoute : [...onRoute, permanent]
  switch (shared.fallback.leave(failure)) {
    case "at once":
      return all.flatMap((recovery): ReadonlyArray<Recovery> =>
        recovery._tag === "RetryAfter" ? [nextRoute, recovery] : [recovery]
      )
    case "after retries":
      return [...all, nextRoute]
    case "never":
      return all
  }
}

/** Adds advice to the error if the address will never serve a model. */
const explainFailure = (state: RouteCallState, { decision, error, failure }: RouteError): RouteError => {
  const { status, wrongAddress } = decision
  const { log, route } = state
  if (wrongAddress === undefined || log.translations.has(error)) return { decision, error, failure }
  const { provider } = route.info
  return { decision, error: Evidence.explainWrongAddress(error, wrongAddress, { provider, status }), failure }
}

/** Recovers from a failure by the first of these recoveries that is possible. */
const attemptRecoveries = Effect.fnUntraced(function* (
  state: RouteCallState,
  failed: RouteError,
  recoveries: ReadonlyArray<Recovery>
): Effect.fn.Return<Outcome | Unanswered> {
  for (const [index, recovery] of recoveries.entries()) {
    const rest = recoveries.slice(index + 1)
    switch (recovery._tag) {
      case "RetryAfter":
        if (state.admission.spent) continue
        state.retries.failures = failed.failure.attempt
        return new Unanswered(failed, true, rest)
      case "NextRoute":
        if (!state.hasNext) continue
        yield* RecoverySteps.leaveRoute(state, failed)
        return { _tag: "NextRoute", ...explainFailure(state, failed) }
      case "Compact":
        return { _tag: "GivenUp", ...explainFailure(state, failed) }
      default:
        if (yield* RecoverySteps.tryRecovery(state, recovery, failed)) return new Unanswered(failed, false, rest)
    }
  }
  return { _tag: "GivenUp", ...explainFailure(state, failed) }
})

/**
 * Returns the failure if it comes from a provider. Any other failure comes from the attempt itself and ends the call.
 */
const selectProviderFailure = <E>(error: AiError.AiError | E): Effect.Effect<AiError.AiError, E> =>
  AiError.isAiError(error) ? Effect.succeed(error) : Effect.fail(error)

/** Discards the parts that failed attempts have streamed. */
const discardStreamed = ({ log, question }: RouteCallState): Effect.Effect<void> => {
  log.isDirty = false
  const { discard = Effect.void, options } = question
  const onRetry = options?.onRetry
  return onRetry === undefined
    ? discard
    : Effect.andThen(
        Effect.sync(() => onRetry(false)),
        discard
      )
}

/**
 * Preserves the text of an incomplete answer that was read, or marks the streamed parts to be discarded. Returns false
 * if the rest has already been requested the maximum number of times on this route.
 */
const handleBrokenAnswer = Effect.fnUntraced(function* (
  state: RouteCallState,
  { reason }: Decision
): Effect.fn.Return<boolean> {
  const { anything, text } = AnswerProgress.readStreamedText(state.sent.progress?.parts ?? [])
  if (!anything) return true
  const { options, progress } = state.question
  const isRead = text !== "" && progress?.isRead === true
  if (isRead) {
    options?.onRetry?.(true)
    AnswerProgress.keepBroken(progress)
  } else state.log.isDirty = true
  const mayGoOn = !isRead || ++state.retries.continuations <= state.shared.streamRetries
  const next = isRead ? "asking for the rest" : "asking again"
  yield* emitEvent(state, {
    _tag: "Notice",
    level: "warning",
    message: `${formatRouteName(state.route)}: the answer broke off (${reason})${mayGoOn ? `: ${next}` : ""}`
  })
  return mayGoOn
})

const isOllama = ({ info, route: { extraBody } }: ManagedRoute): boolean =>
  info.provider.includes("ollama") || extraBody?.["options"] !== undefined || /:11434\b/.test(info.baseUrl ?? "")

/** Reports that the endpoint has read only the end of the prompt, and the setting that prevents this. */
const reportShortenedPrompt = (state: RouteCallState, counted: number, estimated: number): Effect.Effect<void> => {
  const remedy = isOllama(state.route)
    ? "start Ollama with a larger OLLAMA_CONTEXT_LENGTH, or set num_ctx in the Modelfile of the model"
    : "raise the context length of the server"
  return emitEvent(state, {
    _tag: "Notice",
    level: "warning",
    message:
      `${formatRouteName(state.route)} has read ${counted} of about ${estimated} tokens and left out the rest:` +
      ` ${remedy}. model.context_length limits what is sent.`
  })
}

/** Compares the size of an answered prompt with its estimate, unless the provider may have left out old results. */
const notePromptSize = ({ question: { call }, route }: RouteCallState, counted: number): number | undefined =>
  call.contextEdits === undefined
    ? RouteProfile.notePromptSize(route, counted, () => CallTokens.estimateRequest(call), CallTokens.countFiles(call))
    : undefined

/** A call that was not made, because its key must not be used for too long. */
class NotAdmitted {
  readonly error: AiError.AiError

  constructor(error: AiError.AiError) {
    this.error = error
  }
}

/** Asks the provider, as soon as the limits of the tenant and of the key permit it. */
const askProvider = <E>(state: RouteCallState): Effect.Effect<ModelAnswer | NotAdmitted, AiError.AiError | E> => {
  const { log, route, shared } = state
  const askAdmitted = (granted: number) =>
    Effect.gen(function* () {
      const limited = yield* RateLimitGate.waitForAdmission(state)
      if (limited !== undefined) return new NotAdmitted(limited)
      if (log.isDirty === true) yield* discardStreamed(state)
      const attemptWith = (provider: Provider) => Attempt.runAttempt<E>(state, provider, granted)
      return yield* route.provider === undefined
        ? shared.providers.use(route.routeWith(state.key.lease), attemptWith)
        : attemptWith(route.provider)
    })
  return Effect.suspend(() => {
    Attempt.forgetAttempt(state)
    return Spending.reserveAttempt(state, askAdmitted, (result) =>
      result instanceof NotAdmitted ? undefined : result.response
    )
  })
}

/** Makes one attempt. `repeat` takes over if it fails and the call can be repeated on this route. */
const attemptOnce = Effect.fnUntraced(function* <E>(
  state: RouteCallState,
  repeat: (unanswered: Unanswered) => Effect.Effect<Outcome, E>
): Effect.fn.Return<Outcome, E> {
  const { hasNext, question, route, shared } = state
  const result = yield* Effect.catch(askProvider<E>(state), selectProviderFailure)
  if (result instanceof NotAdmitted) return { _tag: "NextRoute", ...(yield* describeFailure(state, result.error)) }
  if (!AiError.isAiError(result)) {
    yield* shared.catalogue.probing.succeeded(route.route)
    yield* RateLimitGate.recordSuccess(state)
    const counted = Usage.countPromptTokens(Usage.fromResponse(result.response.usage))
    const noted = RouteProfile.noteUsage(shared.profiles, route, counted)
    if (noted !== undefined) yield* noted
    const estimated = notePromptSize(state, counted)
    if (estimated !== undefined) yield* reportShortenedPrompt(state, counted, estimated)
    return { _tag: "Answered", answer: result }
  }
  const failed = yield* describeFailure(state, result)
  if (question.canRepeat?.() === false) return { _tag: "GivenUp", ...failed }
  if (!(yield* handleBrokenAnswer(state, failed.decision)))
    return { _tag: hasNext ? "NextRoute" : "GivenUp", ...failed }
  if (failed.decision.reason === "rate_limit") yield* RateLimitGate.learnFromRefusal(state, result)
  const recovered = yield* attemptRecoveries(state, failed, listRecoveries(state, failed))
  return recovered instanceof Unanswered ? yield* repeat(recovered) : recovered
})

/**
 * Returns the reason for a wait. Connection failures have a message written for this runtime, which includes advice; a
 * provider's message is shown only when the call fails.
 */
const describeWaitReason = ({ decision: { message, reason }, error }: Failure): string =>
  error.reason._tag === "NetworkError" && message !== "" ? message : reason

/**
 * Reports the wait that the policy decided on, and returns it. After a rate limit the call waits in a queue instead.
 */
const beginWait = (
  state: RouteCallState,
  { failed }: Unanswered,
  wait: Duration.Duration
): Effect.Effect<Duration.Duration> => {
  if (failed.decision.reason === "rate_limit") {
    RateLimitGate.recordRefusal(state, wait)
    return Effect.succeed(Duration.zero)
  }
  const reason = `${state.route.info.provider}: ${describeWaitReason(failed)}`
  return Effect.as(reportWait(state, { reason, duration: wait, attempt: state.retries.failures + 1 }), wait)
}

/**
 * Creates the schedule of a call's attempts from its policy. After a recovery the next attempt follows without a wait.
 * Rate limits step their own instances of the policy, one if the provider names a time and one if not, so that the
 * waits of one kind do not lengthen the waits of another.
 */
const scheduleAttempts = (state: RouteCallState): Schedule.Schedule<unknown, Unanswered> => {
  const step = Schedule.toStep(state.policy)
  return Schedule.fromStep(
    Effect.map(Effect.all([step, step, step]), ([failed, refused, paced]) => (now: number, unanswered: Unanswered) => {
      if (!unanswered.waits) return Effect.succeed([undefined, Duration.zero])
      const { failure } = unanswered.failed
      const { reason, retryAfter } = failure
      const decide = reason !== "rate_limit" ? failed : retryAfter === undefined ? refused : paced
      return decide(now, failure).pipe(
        Effect.flatMap(([, wait]) => beginWait(state, unanswered, wait)),
        Effect.map((wait) => [undefined, wait])
      )
    })
  )
}

/** Switches to another key, if one is ready by now. */
const changeKey = (state: RouteCallState): Effect.Effect<void> => {
  const { pool } = state.route
  if (pool === undefined || pool.size < 2) return Effect.void
  returnLease(state)
  return takeLease(state)
}

const attemptUntilDone = <E>(state: RouteCallState): Effect.Effect<Outcome, E> =>
  attemptOnce<E>(state, (unanswered) => repeatAttempts<E>(state, unanswered))

/** Continues with the recoveries that are left when the policy is done. */
const recoverWithoutWait = <E>(state: RouteCallState, { failed, rest }: Unanswered): Effect.Effect<Outcome, E> =>
  Effect.flatMap(attemptRecoveries(state, failed, rest), (recovered) => {
    RateLimitGate.releaseAdmission(state)
    return recovered instanceof Unanswered ? attemptUntilDone<E>(state) : Effect.succeed(recovered)
  })

/**
 * Repeats a call whose first attempt failed: `Effect.retry` with the policy of the call. The first run of the repeated
 * effect is the attempt that has already failed, so a call that succeeds immediately has no extra cost.
 */
const repeatAttempts = <E>(state: RouteCallState, first: Unanswered): Effect.Effect<Outcome, E> =>
  Effect.suspend(() => {
    let last: Unanswered | undefined
    const remember = (unanswered: Unanswered) => {
      last = unanswered
      return Effect.fail(unanswered)
    }
    const attempt = Effect.suspend((): Effect.Effect<Result.Result<Outcome, E>, Unanswered> => {
      if (last === undefined) return remember(first)
      RateLimitGate.releaseAdmission(state)
      const again = attemptOnce<E | Unanswered>(state, remember)
      return Effect.matchEffect(last.waits ? Effect.andThen(changeKey(state), again) : again, {
        onSuccess: (outcome) => Effect.succeed(Result.succeed(outcome)),
        onFailure: (error) => (error instanceof Unanswered ? Effect.fail(error) : Effect.succeed(Result.fail(error)))
      })
    })
    const answered = Effect.retryOrElse(attempt, scheduleAttempts(state), (unanswered) =>
      Effect.result(recoverWithoutWait<E>(state, unanswered))
    )
    return Effect.flatMap(answered, Effect.fromResult)
  })

/** Executes a call on a route, including its retries and recoveries. */
export const callRoute = <E>(asked: Call, route: ManagedRoute, position: Position): Effect.Effect<Outcome, E> =>
  Effect.withFiber((fiber) => {
    const call = route.shared === undefined ? asked : { ...asked, shared: route.shared }
    const clock = fiber.getRef(Clock.Clock)
    const policy = fiber.getRef(RetryPolicy.CallPolicy) ?? route.retry ?? call.shared.retry
    const startedAt = clock.currentTimeMillisUnsafe()
    const begun = Effect.flatMap(call.shared.catalogue.known(route.route), (known) => {
      const state = makeCallState(call, position, { route, known, clock, policy, startedAt })
      const answered =
        route.pool === undefined
          ? attemptUntilDone<E>(state)
          : Effect.andThen(takeLease(state), attemptUntilDone<E>(state))
      return Effect.onExit(answered, () => closeState(state))
    })
    const recalled = RouteProfile.recallFacts(call.shared.profiles, route)
    return recalled === undefined ? begun : Effect.andThen(recalled, begun)
  })

const closeState = (state: RouteCallState): Effect.Effect<void> => {
  RateLimitGate.releaseAdmission(state)
  returnLease(state)
  return Effect.void
}
