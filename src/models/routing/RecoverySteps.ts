/**
 * Performs the recoveries that do not change a call's route: another key, another form of the request, a shorter
 * answer, a new connection. Each is tried once in its turn. The `RetryPolicy` determines the waits between attempts.
 *
 * Source: `hermes-llm.md` §16.5, §17.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Adaptation from "./Adaptation.ts"
import type { Change } from "./Adaptation.ts"
import type { Failure } from "./Classification.ts"
import * as CredentialPool from "./CredentialPool.ts"
import * as RateLimitGate from "./RateLimitGate.ts"
import type { NewFact } from "./profile/ProfileStore.ts"
import * as Recovery from "./Recovery.ts"
import * as RouteProfile from "./RouteProfile.ts"
import {
  emitNotice,
  formatRouteName,
  renewLease,
  type RouteCallState,
  takeNextLease,
  waitAndNotify
} from "./RouteCallState.ts"

/** Pause for a key after a rate limit, if the provider did not state a time. */
const unnamedPause = Duration.seconds(5)

/**
 * Recovery that returns `true` if the call can be repeated immediately, and `false` if the recovery is not possible.
 */
type Step = Effect.Effect<boolean>

const possible = Effect.succeed(true)
const impossible = Effect.succeed(false)

/** Blocks the key of the call for all callers for as long as the provider requested. */
const pauseKey = Effect.fnUntraced(function* (state: RouteCallState, { decision: { reason }, error }: Failure) {
  const resetAfter = CredentialPool.readResetAfter(error, yield* Clock.currentTimeMillis)
  if (reason === "rate_limit") RateLimitGate.recordRefusal(state, resetAfter ?? unnamedPause)
  return resetAfter
})

const renewKey = (state: RouteCallState): Step => Effect.map(renewLease(state), (fresh) => fresh !== undefined)

const changeToNextKey = Effect.fnUntraced(function* (state: RouteCallState, failed: Failure) {
  const {
    key: { lease },
    route: { info, pool }
  } = state
  if (pool === undefined || lease === undefined) return false
  const { reason } = failed.decision
  const next = yield* takeNextLease(state, { reason, resetAfter: yield* pauseKey(state, failed) })
  if (next === undefined) return false
  yield* emitNotice(
    state,
    `${info.provider}: key ${lease.number} of ${pool.size} was refused (${reason}); continuing with key ${next.number}`
  )
  return true
})

/**
 * Tests whether other programs should use a change, too. Images that are too large even after scaling are no reason to
 * omit all images.
 */
const isLasting = (change: Change, { decision: { reason } }: Failure): boolean =>
  change !== "without_images" || reason === "image_unsupported"

/** Tests whether a refusal was taken for one of the length of the answer although it states no limit. */
const isGuess = ({ reason, recoveries }: Failure["decision"]): boolean =>
  reason === "output_cap" && !recoveries.some(({ _tag }) => _tag === "LowerOutputCap")

/**
 * Stores a fact that a refusal taught. A refusal because of the length of the answer that states no limit is not
 * certain to mean this, so its fact is lost when the process ends.
 */
const learnFact = (state: RouteCallState, name: string, value: NewFact["value"], { decision }: Failure): Step =>
  RouteProfile.learnFacts(isGuess(decision) ? undefined : state.shared.profiles, state.route, {
    [name]: { value, source: "refusal", message: decision.message }
  }).pipe(Effect.andThen(possible))

/**
 * Changes the form of the call. A feature that the endpoint rejects is remembered for the route. A change to the
 * reasoning applies only to this call.
 */
const adaptCall = (state: RouteCallState, change: Change, failed: Failure): Step => {
  const { form, route } = state
  if (form.changes.has(change) || route.profile.changes.has(change)) return impossible
  const what = Recovery.describeRecovery({ _tag: "Adapt", change })
  const told = emitNotice(state, `${formatRouteName(route)} cannot take the request as it is: ${what}`)
  if (change === "without_reasoning") form.changes.add(change)
  else if (isLasting(change, failed))
    return Effect.andThen(told, learnFact(state, `${RouteProfile.formPrefix}${change}`, true, failed))
  else RouteProfile.noteChange(route, change)
  return Effect.andThen(told, possible)
}

const adaptParameters = (state: RouteCallState, names: ReadonlyArray<string>, failed: Failure): Step => {
  const {
    route,
    sent: { request }
  } = state
  if (request === undefined) return impossible
  const {
    info: { apiMode },
    profile: { parameters: changes }
  } = route
  for (const name of names) {
    const to = Adaptation.findParameterRemedy(name, { apiMode, changes, request })
    if (to === null) continue
    const what = to === undefined ? `it is sent without it` : `${to} is sent instead`
    return Effect.andThen(
      emitNotice(state, `${formatRouteName(route)} does not take ${name}: ${what}`),
      learnFact(state, `${RouteProfile.parameterPrefix}${name}`, to ?? RouteProfile.omitted, failed)
    )
  }
  return impossible
}

const lowerOutputCap = (state: RouteCallState, { lasting, to }: LowerOutputCap, failed: Failure): Step => {
  const { form, log, route } = state
  if (Math.min(form.outputCap ?? Infinity, log.outputTokens ?? Infinity) <= to) return impossible
  form.outputCap = to
  const told = emitNotice(state, `${formatRouteName(route)} allows an answer of ${to} tokens`)
  return Effect.andThen(told, lasting === true ? learnFact(state, "output_maximum", to, failed) : possible)
}

/** Maximum number of times that a call is repeated on a route because the model wrote a call that cannot be read. */
const maxRepeats = 2

const askAgain = (state: RouteCallState): Step => {
  const { retries, route } = state
  if (retries.repeats >= maxRepeats) return impossible
  retries.repeats++
  return emitNotice(state, `${formatRouteName(route)} could not read the model's tool call: asking again`).pipe(
    Effect.andThen(possible)
  )
}

/**
 * Computes the wait before the first use of a rebuilt connection, after this many failed attempts (`hermes-llm.md`
 * §17.4).
 */
const computeRebuildDelay = (attempts: number): Duration.Duration => Duration.seconds(Math.min(3 + attempts, 8))

const rebuildConnection = Effect.fnUntraced(function* (state: RouteCallState, { error }: Failure) {
  const { isPrimary, retries, route, shared } = state
  if (retries.isRebuilt || !isPrimary || !route.isDirect || error.reason._tag !== "NetworkError") return false
  retries.isRebuilt = true
  yield* shared.providers.retire(route.routeWith(state.key.lease))
  const duration = computeRebuildDelay(retries.failures)
  yield* waitAndNotify(state, { reason: `${route.info.provider}: a new connection`, duration, attempt: 1 })
  retries.failures = 0
  return true
})

type LowerOutputCap = Extract<Recovery.Recovery, { readonly _tag: "LowerOutputCap" }>

/** A recovery that `tryRecovery` can perform. */
export type RecoveryStep = Exclude<Recovery.Recovery, { readonly _tag: "Compact" | "NextRoute" | "RetryAfter" }>

/** Performs a recovery on the route. Returns `false` if the recovery is not possible or has already been performed. */
export const tryRecovery = (state: RouteCallState, recovery: RecoveryStep, failed: Failure): Step => {
  switch (recovery._tag) {
    case "RenewKey":
      return renewKey(state)
    case "NextKey":
      return changeToNextKey(state, failed)
    case "Adapt":
      return adaptCall(state, recovery.change, failed)
    case "AdaptParameters":
      return adaptParameters(state, recovery.names, failed)
    case "LowerOutputCap":
      return lowerOutputCap(state, recovery, failed)
    case "AskAgain":
      return askAgain(state)
    case "Rebuild":
      return rebuildConnection(state, failed)
  }
}

/** Pauses the key of a call that continues on the next route because of a rate limit. */
export const leaveRoute = (state: RouteCallState, failed: Failure): Effect.Effect<void> =>
  failed.decision.reason === "rate_limit" ? Effect.asVoid(pauseKey(state, failed)) : Effect.void
