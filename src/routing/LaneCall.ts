/**
 * One call on one lane: attempts until one is answered, or until nothing that could be done on this lane is left.
 *
 * **Details**
 *
 * After each failure the decision's recoveries are tried in their order (`Recovery`); the first one that is possible is
 * done and the attempt repeated. What does not wait costs no attempt. What becomes of an answer that broke off is the
 * matter of `PartialAnswer`.
 *
 * Everything that a user would notice is told as an event: waits, another key, another connection, a call in another form.
 * Waits are sleeps: an interruption ends them at once.
 *
 * Source: `hermes-llm.md` §16.5, §17.
 *
 * @since 0.1.0
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Pull from "effect/Pull"
import * as Schedule from "effect/Schedule"
import * as AiError from "effect/ai/AiError"
import type { ModelResponse } from "../domain/Model.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { ModelAnswer } from "../middleware/Middleware.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Adaptation from "./Adaptation.ts"
import * as Backoff from "./Backoff.ts"
import * as CallSize from "./CallSize.ts"
import * as Classification from "./Classification.ts"
import type { Lease } from "./CredentialPool.ts"
import * as Lane from "./Lane.ts"
import type { About, Try } from "./ModelRouter.ts"
import type { OpenProviders } from "./OpenProviders.ts"
import * as PartialAnswer from "./PartialAnswer.ts"
import * as ResetTime from "./pool/ResetTime.ts"
import type * as RateLimits from "./RateLimits.ts"
import * as Recovery from "./Recovery.ts"
import * as Watch from "./Watch.ts"

/** What a call came to. `decision` is why it failed or broke off. */
export type Outcome =
  | { readonly _tag: "Answered"; readonly answer: ModelAnswer; readonly decision: Classification.Decision | undefined }
  /** This lane can not; another one may. */
  | { readonly _tag: "Elsewhere"; readonly error: AiError.AiError; readonly decision: Classification.Decision }
  /** No lane is to be asked. */
  | { readonly _tag: "GivenUp"; readonly error: AiError.AiError; readonly decision: Classification.Decision }

/** What all calls of a router share. */
export interface Shared {
  readonly providers: OpenProviders
  readonly limits: RateLimits.RateLimits
  readonly backoff: Backoff.Limits
  /** Attempts on one lane that failures may cost. */
  readonly maxAttempts: number
}

/** The call, over all its lanes. */
export interface Call<E, R> {
  readonly attempt: (at: Try) => Effect.Effect<ModelResponse, AiError.AiError | E, R>
  readonly about: About
  /** Attempts so far, over all lanes. */
  count: number
  /** Whether something had streamed by in the last attempt. */
  dirty: boolean
  reconnects: number
}

/** How a lane is asked. */
export interface Manner {
  /** Whether there is another lane to go to. */
  readonly hasNext: boolean
  /** Whether it is the one that the user chose; only its connection is rebuilt. */
  readonly isPrimary: boolean
}

/** A rate limit that is over sooner is waited for, even where there is another lane. */
const shortWait = Duration.seconds(5)

/** The schedule of one lane, begun with its first failure and again after a rebuilt connection. */
type Waits = (input: Backoff.Input) => Effect.Effect<Duration.Duration | undefined>

const waitsOf = ({ backoff, maxAttempts }: Shared): Effect.Effect<Waits> =>
  Effect.map(Schedule.toStep(Backoff.schedule(backoff, maxAttempts)), (step): Waits => (input) =>
    Effect.flatMap(Clock.currentTimeMillis, (now) =>
      Pull.catchDone(Effect.map(step(now, input), ([, wait]): Duration.Duration | undefined => wait), () =>
        Effect.succeed(undefined))))

const limited = ({ info }: Lane.Lane, delay: Duration.Duration): AiError.AiError =>
  AiError.make({
    module: "ModelRouter",
    method: "call",
    reason: new AiError.RateLimitError({
      retryAfter: delay,
      http: { body: `${info.provider} asked others to wait, and they still do` }
    })
  })

const adapted = (provider: Provider, wanted: Adaptation.Adaptations): Provider =>
  wanted.changes.size === 0 && wanted.outputCap === undefined
    ? provider
    : { ...provider, prepare: (call) => provider.prepare(Adaptation.apply(call, wanted)) }

const onlyAi = <E>(error: AiError.AiError | E): Effect.Effect<AiError.AiError, E> =>
  AiError.isAiError(error) ? Effect.succeed(error) : Effect.fail(error)

/** See the module. */
export const run = <E, R>(
  shared: Shared,
  lane: Lane.Lane,
  call: Call<E, R>,
  { hasNext, isPrimary }: Manner
): Effect.Effect<Outcome, E, R> => {
  const { limits, maxAttempts, providers } = shared
  const { about, attempt } = call
  const { info, pool } = lane
  let lease: Lease | undefined
  let slot: RateLimits.Slot | undefined
  let waits: Waits | undefined
  /** Failures that cost an attempt. */
  let failures = 0
  let rebuilt = false
  let outputCap: number | undefined
  let ownChanges: Set<Adaptation.Change> | undefined
  const refreshed = new Set<number>()

  const tell = (event: RunEvent): Effect.Effect<void> => about.notify === undefined ? Effect.void : about.notify([event])
  const notice = (message: string): Effect.Effect<void> => tell({ _tag: "Notice", level: "info", message })
  const facts = (): Classification.Facts => CallSize.facts(about.call)

  const wait = (reason: string, duration: Duration.Duration, attempt: number): Effect.Effect<void> =>
    Effect.andThen(
      tell({ _tag: "Waiting", reason, millis: Duration.toMillis(duration), attempt, maxAttempts }),
      Effect.sleep(duration)
    )

  const takeLease = pool === undefined
    ? Effect.void
    : Effect.uninterruptible(Effect.map(pool.lease, (taken) => {
      lease = taken
    }))
  const giveBack = (): void => {
    if (lease !== undefined) pool?.release(lease)
    lease = undefined
  }

  const asked = (provider: Provider) =>
    Effect.suspend(() => {
      const watched = Watch.attempt(provider, { patience: lane.patience, notify: about.notify, call: about.call })
      const changes = ownChanges === undefined ? lane.changes : new Set([...lane.changes, ...ownChanges])
      const at: Try = {
        provider: adapted(watched.provider, { changes, outputCap }),
        retryCount: call.count,
        maxRetries: maxAttempts,
        within: watched.within,
        facts
      }
      call.count++
      const number = call.count - 1
      return Effect.matchEffect(attempt(at), {
        onSuccess: (response) => Effect.succeed({ response, route: provider.info, attempt: number }),
        onFailure: (error) => Effect.map(onlyAi(error), (error) => ({ error, shown: watched.shown, number }))
      })
    })

  /** What had streamed by before, in an attempt that came to nothing, belongs to no answer. */
  const discard = Effect.suspend(() => {
    if (!call.dirty) return Effect.void
    call.dirty = false
    return about.discard ?? Effect.void
  })

  /** Waits until the key may be used; a failure when that would take too long, given that there is another lane. */
  const waitForRate = (key: string): Effect.Effect<AiError.AiError | undefined> =>
    Effect.flatMap(limits.slot(key), (found) => {
      slot = found
      if (Duration.isZero(found.delay)) return Effect.succeed(undefined)
      if (hasNext && Duration.isGreaterThan(found.delay, shortWait)) return Effect.succeed(limited(lane, found.delay))
      return Effect.andThen(
        wait(`the rate limit of ${info.provider}`, found.delay, failures + 1),
        Effect.suspend(() => waitForRate(key))
      )
    })

  const refusedRate = (wait: Duration.Input): Effect.Effect<void> =>
    slot === undefined
      ? Effect.void
      : limits.refused(lane.limitKey(lease), slot, Duration.min(Duration.fromInputUnsafe(wait), Backoff.longestRetryAfter))

  const change = (wanted: Adaptation.Change): boolean => {
    // Reasoning that one conversation carries says nothing about the endpoint.
    const changes = wanted === "without_reasoning" ? ownChanges ??= new Set() : lane.changes
    if (changes.has(wanted)) return false
    changes.add(wanted)
    return true
  }

  /** Does a recovery: goes on with another attempt, ends the call on this lane, or is not possible. */
  const recover = (
    recovery: Recovery.Recovery,
    error: AiError.AiError,
    decision: Classification.Decision
  ): Effect.Effect<"again" | "elsewhere" | "given-up" | undefined> =>
    Effect.gen(function*() {
      switch (recovery._tag) {
        case "Refresh": {
          if (pool === undefined || lease === undefined || refreshed.has(lease.number)) return undefined
          refreshed.add(lease.number)
          const renewed = yield* pool.refresh(lease)
          if (renewed === undefined) return undefined
          lease = renewed
          return "again"
        }
        case "Rotate": {
          if (pool === undefined || lease === undefined) return undefined
          const now = yield* Clock.currentTimeMillis
          const resetAfter = ResetTime.read(error, now)
          if (decision.reason === "rate_limit") yield* refusedRate(resetAfter ?? shared.backoff.base)
          const before = lease.number
          const next = yield* Effect.uninterruptible(
            Effect.tap(pool.rotate(lease, { reason: decision.reason, resetAfter }), (next) =>
              Effect.sync(() => {
                if (next !== undefined) lease = next
              }))
          )
          if (next === undefined) return undefined
          slot = undefined
          yield* notice(
            `${info.provider}: key ${before} of ${pool.size} was refused (${decision.reason}), going on with key ${next.number}`
          )
          return "again"
        }
        case "Adapt": {
          if (!change(recovery.change)) return undefined
          yield* notice(`${Lane.name(lane)} can not take the request as it is: ${Recovery.describe(recovery)}`)
          return "again"
        }
        case "LowerOutputCap": {
          if (outputCap !== undefined && outputCap <= recovery.to) return undefined
          outputCap = recovery.to
          yield* notice(`${Lane.name(lane)} allows an answer of ${recovery.to} tokens`)
          return "again"
        }
        case "Compress":
          return "given-up"
        case "Retry": {
          failures++
          waits ??= yield* waitsOf(shared)
          const now = yield* Clock.currentTimeMillis
          const after = recovery.after ?? (decision.reason === "rate_limit" ? ResetTime.read(error, now) : undefined)
          const duration = yield* waits(after)
          if (duration === undefined) return undefined
          if (decision.reason === "rate_limit") yield* refusedRate(duration)
          yield* wait(`${info.provider}: ${decision.reason}`, duration, failures + 1)
          if (pool !== undefined && pool.size > 1) {
            giveBack()
            yield* takeLease
          }
          return "again"
        }
        case "Rebuild": {
          if (rebuilt || !isPrimary || !lane.isDirect || error.reason._tag !== "NetworkError") return undefined
          rebuilt = true
          yield* providers.retire(lane.routeWith(lease))
          yield* wait(`${info.provider}: a new connection`, Backoff.beforeRebuilt(failures), 1)
          failures = 0
          waits = undefined
          return "again"
        }
        case "Fallback": {
          if (!hasNext) return undefined
          if (decision.reason === "rate_limit") {
            yield* refusedRate(ResetTime.read(error, yield* Clock.currentTimeMillis) ?? shared.backoff.base)
          }
          return "elsewhere"
        }
      }
    })

  const next = Effect.fnUntraced(function*(error: AiError.AiError, decision: Classification.Decision) {
    for (const recovery of decision.recoveries) {
      const done = yield* recover(recovery, error, decision)
      if (done !== undefined) return done
    }
    return "given-up"
  })

  const broken = (
    { error, number, shown }: { readonly error: AiError.AiError; readonly number: number; readonly shown: Watch.Watched["shown"] },
    decision: Classification.Decision
  ): Effect.Effect<Outcome | undefined> =>
    Effect.gen(function*() {
      const partial = PartialAnswer.of(shown)
      if (partial._tag === "Nothing") return undefined
      const reconnects = partial._tag === "TextAndCall" && PartialAnswer.isTransient(decision)
        && call.reconnects < PartialAnswer.mostReconnects
      if (partial._tag === "Seen" || reconnects) {
        call.dirty = true
        if (partial._tag === "TextAndCall") call.reconnects++
        yield* notice(`${Lane.name(lane)}: the answer broke off (${decision.reason}) and is asked for anew`)
        return undefined
      }
      yield* tell({
        _tag: "Notice",
        level: "warning",
        message: `${Lane.name(lane)}: the answer broke off (${decision.reason}); what you see is what came. ${error.message}`
      })
      const answer: ModelAnswer = { response: PartialAnswer.response(shown), route: info, attempt: number }
      return { _tag: "Answered", answer, decision }
    })

  const loop: Effect.Effect<Outcome, E, R> = Effect.gen(function*() {
    yield* takeLease
    for (;;) {
      const tooLong = yield* waitForRate(lane.limitKey(lease))
      if (tooLong !== undefined) {
        return { _tag: "Elsewhere", error: tooLong, decision: Classification.classify(tooLong) }
      }
      yield* discard
      const result = yield* Effect.catch(providers.use(lane.routeWith(lease), asked), (error) =>
        Effect.map(onlyAi(error), (error) => ({ error, shown: [], number: call.count })))
      if ("response" in result) return { _tag: "Answered", answer: result, decision: undefined }
      const { error } = result
      const decision = Classification.classify(error, facts())
      const cut = yield* broken(result, decision)
      if (cut !== undefined) return cut
      switch (yield* next(error, decision)) {
        case "again":
          break
        case "elsewhere":
          return { _tag: "Elsewhere", error, decision }
        case "given-up":
          return { _tag: "GivenUp", error, decision }
      }
    }
  })
  return pool === undefined ? loop : Effect.ensuring(loop, Effect.sync(giveBack))
}
