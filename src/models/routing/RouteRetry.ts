/**
 * Executes one call on one route: makes attempts until one is answered, or until no further recovery is possible on
 * this route.
 *
 * **Details**
 *
 * After each failure the decision's recoveries are tried in order (`Recovery`); the first possible one is applied, and
 * the attempt is repeated. Recoveries without a wait do not count as attempts. For an incomplete answer, either the
 * whole answer or only its rest is requested again (`PartialAnswer`).
 *
 * Every change that a user may notice is emitted as an event: waits, another key, another connection, another form of
 * the call. An interruption ends a wait immediately.
 *
 * Source: `hermes-llm.md` §15.5, §16.5, §17.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import type { ModelAnswer } from "../../middleware/Middleware.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import type { Change } from "./Adaptation.ts"
import * as AnswerProgress from "./AnswerProgress.ts"
import * as Attempt from "./Attempt.ts"
import * as Backoff from "./Backoff.ts"
import type { Decision, Failure } from "./Classification.ts"
import * as Adaptation from "./Adaptation.ts"
import * as Evidence from "./classification/Evidence.ts"
import * as CredentialPool from "./CredentialPool.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import * as Recovery from "./Recovery.ts"
import {
  type Call,
  decideOnFailure,
  renewLease,
  returnLease,
  makeCallState,
  type ManagedRoute,
  emitNotice,
  type Position,
  type RouteCallState,
  formatRouteName,
  type Shared,
  takeLease,
  takeNextLease,
  emitEvent,
  waitAndNotify
} from "./RouteCallState.ts"

/** Counts of a call's retries on a route. */
export interface Retries {
  /** Number of rate limit refusals that specified no time. Each one leads to a longer wait than the previous one. */
  refusals: number
  /** Number of failures that count as attempts. */
  failures: number
  rebuilt: boolean
  /** Number of attempts that requested the rest of an answer and were incomplete again. */
  continuations: number
}

/** Form in which a call is sent. */
export interface CallForm {
  outputCap: number | undefined
  /** Changes that apply only to this call. */
  readonly changes: Set<Change>
}

/** Continuation of a call after a failure: another attempt on this route, the next route, or no further attempt. */
type Onward = "again" | "next route" | "give up"

type RecoveryAttempt = Effect.Effect<Onward | undefined>

const again = Effect.succeed("again" as const)
const impossible = Effect.succeed(undefined)

const tryRenewKey = (state: RouteCallState): RecoveryAttempt => {
  return Effect.map(renewLease(state), (fresh) => (fresh === undefined ? undefined : "again"))
}

const tryNextKey = Effect.fnUntraced(function* (state: RouteCallState, { decision: { reason }, error }: Failure) {
  const {
    key: { lease },
    route: { info, pool },
    shared
  } = state
  if (pool === undefined || lease === undefined) return undefined
  const resetAfter = CredentialPool.readResetAfter(error, yield* Clock.currentTimeMillis)
  if (reason === "rate_limit")
    RateLimitGate.recordRefusal(state, resetAfter ?? Duration.fromInputUnsafe(shared.backoff.base))
  const next = yield* takeNextLease(state, { reason, resetAfter })
  if (next === undefined) return undefined
  yield* emitNotice(
    state,
    `${info.provider}: key ${lease.number} of ${pool.size} was refused (${reason}); continuing with key ${next.number}`
  )
  return "again" as const
})

/**
 * Changes the form of the call. Features rejected by an endpoint are stored with the route, except reasoning, whose
 * rejection depends on the conversation.
 */
const adaptCall = (state: RouteCallState, change: Change): RecoveryAttempt => {
  const { route } = state
  const known = change === "without_reasoning" ? state.form.changes : route.changes
  if (known.has(change)) return impossible
  known.add(change)
  const what = Recovery.describeRecovery({ _tag: "Adapt", change })
  return Effect.andThen(emitNotice(state, `${formatRouteName(route)} cannot take the request as it is: ${what}`), again)
}

const adaptParameters = (state: RouteCallState, names: ReadonlyArray<string>): RecoveryAttempt => {
  const { route, sent, shared } = state
  const { request } = sent
  if (request === undefined) return impossible
  const {
    info: { apiMode },
    parameters: changes
  } = route
  for (const name of names) {
    const to = Adaptation.findParameterRemedy(name, { apiMode, changes, request })
    if (to === null) continue
    changes.set(name, to)
    const what = to === undefined ? `it is sent without it` : `${to} is sent instead`
    return emitNotice(state, `${formatRouteName(route)} does not take ${name}: ${what}`).pipe(
      Effect.andThen(shared.endpoints?.setParameters(route.id, changes) ?? Effect.void),
      Effect.andThen(again)
    )
  }
  return impossible
}

const lowerOutputCap = (state: RouteCallState, to: number): RecoveryAttempt => {
  const { form, route } = state
  if (form.outputCap !== undefined && form.outputCap <= to) return impossible
  form.outputCap = to
  return Effect.andThen(emitNotice(state, `${formatRouteName(route)} allows an answer of ${to} tokens`), again)
}

/**
 * Returns the reason for a wait. For connection failures this is the runtime's own message, which includes advice; a
 * provider's message is shown only if the call fails.
 */
const describeWaitReason = ({ decision: { message, reason }, error }: Failure): string =>
  error.reason._tag === "NetworkError" && message !== "" ? message : reason

/** Switches to another key if one has become available. */
const changeKey = (state: RouteCallState): Effect.Effect<void> => {
  const { pool } = state.route
  if (pool === undefined || pool.size < 2) return Effect.void
  returnLease(state)
  return takeLease(state)
}

/** Returns the call to the queue of its key. */
const returnToQueue = Effect.fnUntraced(function* (
  state: RouteCallState,
  { error }: Failure,
  asked: Duration.Duration | undefined
) {
  const { shared } = state
  const now = yield* Clock.currentTimeMillis
  const after = asked ?? CredentialPool.readResetAfter(error, now)
  const free = RateLimitGate.isFreeRefusal(state, after, now)
  if (!free) state.retries.failures++
  if (state.retries.failures >= shared.maxAttempts) return undefined
  if (after === undefined) state.retries.refusals++
  RateLimitGate.recordRefusal(state, yield* Backoff.computeWait(shared.backoff, state.retries.refusals, after))
  yield* changeKey(state)
  return "again" as const
})

type Retry = Extract<Recovery.Recovery, { readonly _tag: "RetryAfter" }>

const retryLater = Effect.fnUntraced(function* (state: RouteCallState, failed: Failure, { after, exact }: Retry) {
  const {
    route: { info },
    shared
  } = state
  if (state.admission.spent) return undefined
  if (failed.decision.reason === "rate_limit") return yield* returnToQueue(state, failed, after)
  state.retries.failures++
  if (state.retries.failures >= shared.maxAttempts) return undefined
  const duration =
    exact === true && after !== undefined
      ? after
      : yield* Backoff.computeWait(shared.backoff, state.retries.failures, after)
  yield* waitAndNotify(state, {
    reason: `${info.provider}: ${describeWaitReason(failed)}`,
    duration,
    attempt: state.retries.failures + 1
  })
  yield* changeKey(state)
  return "again" as const
})

const rebuildConnection = Effect.fnUntraced(function* (state: RouteCallState, { error }: Failure) {
  const { isPrimary, route, shared } = state
  if (state.retries.rebuilt || !isPrimary || !route.isDirect || error.reason._tag !== "NetworkError") return undefined
  state.retries.rebuilt = true
  yield* shared.providers.retire(route.routeWith(state.key.lease))
  const duration = Backoff.computeRebuildDelay(state.retries.failures)
  yield* waitAndNotify(state, { reason: `${route.info.provider}: a new connection`, duration, attempt: 1 })
  state.retries.failures = 0
  return "again" as const
})

const tryNextRoute = Effect.fnUntraced(function* (state: RouteCallState, { decision: { reason }, error }: Failure) {
  if (!state.hasNext) return undefined
  if (reason === "rate_limit") {
    const resetAfter = CredentialPool.readResetAfter(error, yield* Clock.currentTimeMillis)
    RateLimitGate.recordRefusal(state, resetAfter ?? Duration.fromInputUnsafe(state.shared.backoff.base))
  }
  return "next route" as const
})

const attemptRecovery = (state: RouteCallState, recovery: Recovery.Recovery, failed: Failure): RecoveryAttempt => {
  switch (recovery._tag) {
    case "RenewKey":
      return tryRenewKey(state)
    case "NextKey":
      return tryNextKey(state, failed)
    case "Adapt":
      return adaptCall(state, recovery.change)
    case "AdaptParameters":
      return adaptParameters(state, recovery.names)
    case "LowerOutputCap":
      return lowerOutputCap(state, recovery.to)
    case "Compact":
      return Effect.succeed("give up")
    case "RetryAfter":
      return retryLater(state, failed, recovery)
    case "Rebuild":
      return rebuildConnection(state, failed)
    case "NextRoute":
      return tryNextRoute(state, failed)
  }
}

/** Applies the first possible recovery from a failure, in the order of its decision. */
const recoverFromFailure = Effect.fnUntraced(function* (
  state: RouteCallState,
  failed: Failure
): Effect.fn.Return<Onward> {
  if (failed.decision.reason === "rate_limit") yield* RateLimitGate.learnFromRefusal(state, failed.error)
  for (const recovery of failed.decision.recoveries) {
    const onward = yield* attemptRecovery(state, recovery, failed)
    if (onward !== undefined) return onward
  }
  return "give up"
})

/** Result of a call on one route. A failure includes its decision, for the caller. */
export type Outcome =
  | { readonly _tag: "Answered"; readonly answer: ModelAnswer; readonly decision?: undefined }
  /** The route failed, but another route may succeed. */
  | ({ readonly _tag: "NextRoute" } & Failure)
  /** The call failed, and no other route should be tried. */
  | ({ readonly _tag: "GivenUp" } & Failure)

/** Returns the failure of a provider. Any other failure ends the call. */
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

/** Adds the parameters that earlier runs found to be rejected by the endpoint, once for each route. */
const recallParameters = ({ endpoints }: Shared, route: ManagedRoute): Effect.Effect<void> | undefined => {
  if (route.recalled || endpoints === undefined) return undefined
  route.recalled = true
  return Effect.map(endpoints.parameters(route.id), (changes) => {
    for (const [name, to] of changes) route.parameters.set(name, to)
  })
}

const attemptUntilDone = Effect.fnUntraced(function* <E>(state: RouteCallState): Effect.fn.Return<Outcome, E> {
  const { hasNext, log, route, shared } = state
  const attemptWith = (provider: Provider) => Attempt.runAttempt<E>(state, provider)
  if (route.pool !== undefined) yield* takeLease(state)
  for (;;) {
    const limited = yield* RateLimitGate.waitForAdmission(state)
    if (limited !== undefined) {
      return { _tag: "NextRoute", error: limited, decision: decideOnFailure(state, limited) }
    }
    if (log.isDirty === true) yield* discardStreamed(state)
    Attempt.forgetAttempt(state)
    const asked =
      route.provider === undefined
        ? shared.providers.use(route.routeWith(state.key.lease), attemptWith)
        : attemptWith(route.provider)
    const result = yield* Effect.catch(asked, selectProviderFailure)
    if (!AiError.isAiError(result)) {
      yield* shared.catalogue.probing.succeeded(route.route)
      yield* RateLimitGate.recordSuccess(state)
      return { _tag: "Answered", answer: result }
    }
    const decision = decideOnFailure(state, result)
    if (!(yield* handleBrokenAnswer(state, decision))) {
      return { _tag: hasNext ? "NextRoute" : "GivenUp", error: result, decision }
    }
    const onward = yield* recoverFromFailure(state, { error: result, decision })
    RateLimitGate.releaseAdmission(state)
    if (onward === "again") continue
    const { status, wrongAddress } = decision
    const { provider } = route.info
    const error =
      wrongAddress === undefined || log.translations.has(result)
        ? result
        : Evidence.explainWrongAddress(result, wrongAddress, { provider, status })
    return { _tag: onward === "next route" ? "NextRoute" : "GivenUp", error, decision }
  }
})

/** Executes a call on a route. */
export const callRoute = <E>(call: Call, route: ManagedRoute, position: Position): Effect.Effect<Outcome, E> =>
  Effect.clockWith((clock) => {
    const startedAt = clock.currentTimeMillisUnsafe()
    const begun = Effect.flatMap(call.shared.catalogue.known(route.route), (known) => {
      const state = makeCallState(call, position, { route, known, clock, startedAt })
      return Effect.onExit(attemptUntilDone<E>(state), () => closeState(state))
    })
    const recalled = recallParameters(call.shared, route)
    return recalled === undefined ? begun : Effect.andThen(recalled, begun)
  })

const closeState = (state: RouteCallState): Effect.Effect<void> => {
  RateLimitGate.releaseAdmission(state)
  returnLease(state)
  return Effect.void
}
