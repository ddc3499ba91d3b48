/**
 * The pace at which the events of a hook, or of several hooks of one owner, are delivered: with or without a queue, and
 * the number of deadlines that were missed.
 */
import type * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type { Listener } from "./Hook.ts"
import type * as ObserverQueue from "./ObserverQueue.ts"

/**
 * Time for which a removed hook may still handle its queued events. A hook that missed its last deadlines gets no such
 * time.
 */
export const flushDeadline = Duration.seconds(5)

/** Number of consecutive missed deadlines after which queued events are discarded at the end. */
const strikes = 3

/** {@link strikes} of a queue that several hooks share. The run does not wait for such a queue either. */
const ownerStrikes = 1

/** A callable listener, bound to its services or to its hook's queue. */
export interface BoundListener {
  readonly label: string
  readonly event: string
  readonly deadline: Duration.Duration
  readonly onFailure: Listener["onFailure"]
  readonly handle: (payload: object) => Effect.Effect<unknown, unknown>
  readonly pace: DeliveryPace
  /** True if the listener cannot change the run: its event takes no answers, or the run never waits for it. */
  readonly isObserver: boolean
  /** Pace of the owner's queue: a listener that may answer is called after the owner's earlier events. */
  readonly before?: DeliveryPace | undefined
}

/** Current delivery mode of a hook, or of several hooks whose delays are counted together. */
export interface DeliveryPace {
  readonly label: string
  /** Scope of the hook that registered first. */
  readonly scope: Scope.Scope
  /**
   * Number of consecutive missed deadlines. It equals {@link strikes} while an overdue event is still being handled.
   */
  slow: number
  /** True if the run has waited for the queue in vain, until an event is handled in time. */
  isOverdue: boolean
  /** Queue of the hook, `undefined` while the run waits for the hook. */
  queue: ObserverQueue.Sender<QueuedEvent> | undefined
  /** True if an event starts at once while the queue is idle, so that only a listener that waits needs the queue. */
  readonly startsAtOnce: boolean
}

/** Creates a pace without a queue and without missed deadlines. */
export const makePace = (label: string, scope: Scope.Scope, startsAtOnce: boolean): DeliveryPace => ({
  label,
  scope,
  slow: 0,
  isOverdue: false,
  queue: undefined,
  startsAtOnce
})

/** Notes that an event was handled in time. */
export const noteInTime = (pace: DeliveryPace): void => {
  pace.slow = 0
  pace.isOverdue = false
}

/** Notes that an overdue event is still being handled: the run does not wait for it, not even at its own end. */
export const noteOverdue = (pace: DeliveryPace): void => {
  pace.slow = strikes
}

/** Returns the time for which waiting events may still be handled when the hook is removed. */
export const getFlushTime = ({ slow, startsAtOnce }: DeliveryPace): Duration.Duration =>
  slow >= (startsAtOnce ? ownerStrikes : strikes) ? Duration.zero : flushDeadline

/** An event that waits in a queue. */
export interface QueuedEvent {
  readonly listener: BoundListener
  readonly payload: object
  /** Context of the run that emitted the event. */
  readonly context: Context.Context<never>
  /** The running listener, if the event has already started. */
  readonly fiber?: Fiber.Fiber<unknown, unknown> | undefined
}

/** Returns true if a queue has events that the run may wait for: it missed no deadline recently. */
export const isAwaitable = ({ isOverdue, queue, slow }: DeliveryPace): boolean =>
  queue !== undefined && slow < ownerStrikes && !isOverdue && !queue.isIdle()

/**
 * Waits until a queue has handled its events, for at most {@link flushDeadline}. A queue that takes longer is not
 * awaited again until it handles an event in time.
 */
export const awaitQueue = (pace: DeliveryPace): Effect.Effect<void> =>
  Effect.suspend(() =>
    pace.queue === undefined
      ? Effect.void
      : Effect.map(Effect.timeoutOption(pace.queue.idle, flushDeadline), (idle) => {
          if (Option.isNone(idle)) pace.isOverdue = true
        })
  )

/** Returns true if a listener has to wait for earlier events of its owner. */
export const isBehind = (listener: BoundListener): listener is BoundListener & { readonly before: DeliveryPace } =>
  listener.before !== undefined && isAwaitable(listener.before)
