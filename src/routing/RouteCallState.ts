/**
 * What a call on one lane works with: the lane, what all calls share, whom to tell, and the state that changes from attempt
 * to attempt.
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type { ModelRequest } from "../domain/Model.ts"
import type { RunEvent } from "../domain/RunEvent.ts"
import type { Change } from "./Adaptation.ts"
import type { EndpointMemory } from "./catalogue/EndpointMemory.ts"
import type { Service as Catalogue } from "./Catalogue.ts"
import type * as Backoff from "./Backoff.ts"
import type { CredentialPool, Lease } from "./CredentialPool.ts"
import type { About } from "./ModelRouter.ts"
import type { OpenProviders } from "./OpenProviders.ts"
import type { RateGuard } from "./RateGuard.ts"
import type * as RateLimits from "./RateLimits.ts"
import type { ManagedRoute } from "./ManagedRoute.ts"

/** What all calls of a router share. */
export interface Shared {
  readonly catalogue: Catalogue
  readonly providers: OpenProviders
  readonly endpoints: Pick<EndpointMemory, "parameters" | "setParameters"> | undefined
  readonly limits: RateLimits.RateLimits
  readonly guard: RateGuard
  readonly backoff: Backoff.Limits
  /** Attempts on one lane that failures may cost. */
  readonly maxAttempts: number
  /** How often the rest of an answer that broke off is asked for on one lane. */
  readonly streamRetries: number
}

/** How a lane is asked. */
export interface Manner {
  /** Whether there is another lane to go to. */
  readonly hasNext: boolean
  /** Whether it is the one that the user chose; only its connection is rebuilt. */
  readonly isPrimary: boolean
}

/** What changes from attempt to attempt. */
export interface State {
  lease: Lease | undefined
  /** The admission of the attempt under way. */
  slot: RateLimits.Slot | undefined
  /** In the queues of keys; taken with the first attempt. */
  place: number | undefined
  /** Whether the attempt before was refused for its rate. */
  refused: boolean
  /** Refusals for the rate that named no time: each is waited out longer than the one before. */
  refusals: number
  /** In milliseconds since 1970. */
  readonly startedAt: number
  /** Failures that cost an attempt. */
  failures: number
  rebuilt: boolean
  /** Whether the account of the key is known to have used up its limit: waiting here is no use. */
  spent: boolean
  outputCap: number | undefined
  /** Attempts that were asked for the rest of an answer, and broke off again. */
  continuations: number
  /** The request of the last attempt, as it was prepared. */
  request: ModelRequest | undefined
  /** Keys whose renewal was tried. */
  readonly renewed: Set<number>
  /** Changes of this call alone. */
  readonly changes: Set<Change>
}

/** See the module. */
export interface RouteCallState {
  readonly shared: Shared
  readonly lane: ManagedRoute
  readonly about: About
  readonly manner: Manner
  readonly state: State
}

/** The state before the first attempt, which begins at `startedAt`. */
export const fresh = (startedAt: number): State => ({
  lease: undefined,
  slot: undefined,
  place: undefined,
  refused: false,
  refusals: 0,
  startedAt,
  failures: 0,
  rebuilt: false,
  spent: false,
  outputCap: undefined,
  continuations: 0,
  request: undefined,
  renewed: new Set(),
  changes: new Set()
})

/** Tells whoever listens. */
export const tell = ({ about }: RouteCallState, event: RunEvent): Effect.Effect<void> =>
  about.notify === undefined ? Effect.void : about.notify([event])

/** Tells what changes nothing for the user. */
export const notice = (here: RouteCallState, message: string): Effect.Effect<void> =>
  tell(here, { _tag: "Notice", level: "info", message })

/** A wait, and the attempt that follows it. */
export interface Wait {
  readonly reason: string
  readonly duration: Duration.Duration
  readonly attempt: number
}

/** Says that the call waits. */
export const waiting = (here: RouteCallState, { attempt, duration, reason }: Wait): Effect.Effect<void> =>
  tell(here, {
    _tag: "Waiting",
    reason,
    millis: Duration.toMillis(duration),
    attempt,
    maxAttempts: here.shared.maxAttempts
  })

/** Says that the call waits, then does. */
export const wait = (here: RouteCallState, options: Wait): Effect.Effect<void> =>
  Effect.andThen(waiting(here, options), Effect.sleep(options.duration))

/** Takes a key of the lane's pool, if it has one. */
export const takeLease = ({ lane, state }: RouteCallState): Effect.Effect<void> =>
  lane.pool === undefined
    ? Effect.void
    : Effect.uninterruptible(Effect.map(lane.pool.lease, (lease) => {
      state.lease = lease
    }))

/** Sets the key aside and takes the next one of the pool; undefined when there is none to go on with. */
export const takeNext = (
  { lane: { pool }, state }: RouteCallState,
  why: Parameters<CredentialPool["rotate"]>[1]
): Effect.Effect<Lease | undefined> => {
  const { lease } = state
  return pool === undefined || lease === undefined
    ? Effect.succeed(undefined)
    : Effect.uninterruptible(Effect.map(pool.rotate(lease, why), (next) => {
      if (next !== undefined) state.lease = next
      return next
    }))
}

/** Gives the key back. */
export const giveBack = ({ lane, state }: RouteCallState): void => {
  if (state.lease !== undefined) lane.pool?.release(state.lease)
  state.lease = undefined
}
