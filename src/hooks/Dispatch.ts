/**
 * Notifies the listeners of an event, and waits for them as `Hooks` describes. A listener that finishes synchronously
 * needs no fiber. An observer that misses its deadline continues, and later events wait for it in a queue.
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import * as EventPayload from "./EventPayload.ts"
import * as DeliveryPace from "./DeliveryPace.ts"
import type { BoundListener, QueuedEvent } from "./DeliveryPace.ts"
import { defaultCapacity } from "./Hook.ts"
import {
  attempt,
  describeFailure,
  type FaultReporter,
  forkIsolated,
  type Restore,
  awaitExit,
  awaitExitOrFiber
} from "../base/domain/IsolatedCall.ts"
import * as ObserverQueue from "./ObserverQueue.ts"

/** Validates a listener's answer. Returns `undefined` if it is invalid. */
export type AnswerReader<A> = (answer: unknown) => A | undefined

/** Accepts every answer of a listener without changing it. */
export const acceptAnswer: AnswerReader<unknown> = (answer) => answer ?? undefined

/** A running listener, or the exit of a finished one. */
type ListenerHandling<A> = Exit.Exit<A | undefined, unknown> | Effect.Effect<A | undefined, unknown>

/** An event that is being delivered to its listeners. */
interface EventDelivery<A> {
  readonly told: ReadonlyArray<BoundListener>
  readonly payload: Exit.Exit<object>
  readonly read: AnswerReader<A>
  readonly restore: Restore
  readonly context: Context.Context<never>
  /** Answers, each at the index of its listener. */
  readonly answers: Array<A | undefined>
}

/** Exit of a listener that finished without an answer. */
const silent = Exit.succeed(undefined)

/** Functions that notify listeners of events. */
interface Dispatcher {
  /**
   * Notifies the listeners and returns all answers that `read` accepted, in order. Only the wait for a listener can be
   * interrupted: once the payload is created, at least the first listener is notified.
   */
  readonly dispatch: <A>(
    name: string,
    told: ReadonlyArray<BoundListener>,
    fields: () => object,
    read: AnswerReader<A>
  ) => Effect.Effect<ReadonlyArray<A>>
  /** Switches a hook to delivery by queue, starting with `first`. */
  readonly startQueue: (
    pace: DeliveryPace.DeliveryPace,
    capacity: number,
    first?: Effect.Effect<void>
  ) => Effect.Effect<void>
}

/**
 * Creates a dispatcher. Payloads have at most `maxChars` characters in a request or response, and faults are reported
 * to `warn`.
 */
export const make = (maxChars: number, warn: FaultReporter): Dispatcher => {
  const reportFailure = <A>(
    listener: BoundListener,
    what: string,
    read: AnswerReader<A>
  ): Effect.Effect<A | undefined> =>
    Effect.map(warn(`hook ${listener.event}: ${listener.label} ${what}`), () =>
      listener.onFailure === "closed"
        ? read({ action: "block", message: `Blocked: the guard ${listener.label} ${what}` })
        : undefined
    )

  /** Calls a listener. If it finishes synchronously, no fiber is needed and its exit is returned. */
  const callListener = <A>(listener: BoundListener, payload: object, read: AnswerReader<A>): ListenerHandling<A> => {
    try {
      const handling = listener.handle(payload)
      if (handling === Effect.void) return silent
      return Exit.isExit(handling) ? Exit.map(handling, read) : Effect.map(handling, read)
    } catch (error) {
      return Exit.die(error)
    }
  }

  const handleListenerExit = <A>(
    listener: BoundListener,
    exit: Exit.Exit<A | undefined, unknown> | undefined,
    read: AnswerReader<A>
  ): Effect.Effect<A | undefined> => {
    const { pace } = listener
    if (listener.isObserver) {
      if (exit === undefined) pace.slow++
      else DeliveryPace.noteInTime(pace)
    }
    if (exit === undefined)
      return reportFailure(listener, `took longer than ${Duration.format(listener.deadline)}`, read)
    return Exit.isSuccess(exit)
      ? Effect.succeed(exit.value)
      : reportFailure(listener, `failed: ${describeFailure(exit.cause)}`, read)
  }

  /** Waits for a running listener until its deadline. */
  const awaitListener = <A>(
    listener: BoundListener,
    handling: ListenerHandling<A>,
    read: AnswerReader<A>,
    restore: Restore
  ): Effect.Effect<A | undefined> =>
    Exit.isExit(handling)
      ? handleListenerExit(listener, handling, read)
      : Effect.flatMap(attempt(handling, listener.deadline, restore), (exit) =>
          handleListenerExit(listener, exit, read)
        )

  /**
   * Waits for an observer of a read-only event. After its deadline the observer continues in the background and the run
   * proceeds.
   */
  const awaitObserver = <A>(
    listener: BoundListener,
    fiber: Fiber.Fiber<A | undefined, unknown>,
    read: AnswerReader<A>,
    restore: Restore
  ): Effect.Effect<A | undefined> =>
    Effect.flatMap(awaitExitOrFiber(fiber, listener.deadline, restore), (ended) =>
      Fiber.isFiber(ended)
        ? Effect.as(moveToQueue(listener, ended), undefined)
        : handleListenerExit(listener, ended, read)
    )

  /** Waits for an overdue event to end, for at most one more deadline. */
  const finishOverdueEvent = (listener: BoundListener, fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> =>
    Effect.timeoutOption(Fiber.await(fiber), listener.deadline).pipe(
      Effect.ensuring(Effect.sync(() => fiber.interruptUnsafe())),
      Effect.flatMap((exit) =>
        Option.isSome(exit) ? handleListenerExit(listener, exit.value, acceptAnswer) : Effect.void
      ),
      Effect.asVoid
    )

  const startQueue = (
    pace: DeliveryPace.DeliveryPace,
    capacity: number,
    first?: Effect.Effect<void>
  ): Effect.Effect<void> =>
    ObserverQueue.make<QueuedEvent>({
      capacity,
      first,
      flush: () => DeliveryPace.getFlushTime(pace),
      handle: ({ context, fiber, listener, payload }) =>
        Effect.uninterruptibleMask((restore) =>
          Effect.asVoid(
            fiber === undefined
              ? awaitListener(listener, callListener(listener, payload, acceptAnswer), acceptAnswer, restore)
              : Effect.flatMap(awaitExit(fiber, listener.deadline, restore, false), (exit) =>
                  handleListenerExit(listener, exit, acceptAnswer)
                )
          )
        ).pipe(Effect.updateContext((own: Context.Context<never>) => Context.merge(own, context))),
      onLost: (count) => Effect.logWarning(`hook ${pace.label}: ${count} events were lost at the end`)
    }).pipe(
      Scope.provide(pace.scope),
      Effect.map((queue) => {
        pace.queue = queue
      })
    )

  const moveToQueue = (listener: BoundListener, fiber: Fiber.Fiber<unknown, unknown>): Effect.Effect<void> => {
    const { pace } = listener
    // Until the observer has caught up, the run does not wait for it, not even at its own end.
    DeliveryPace.noteOverdue(pace)
    const first = finishOverdueEvent(listener, fiber)
    if (pace.queue !== undefined) return Effect.asVoid(Effect.forkIn(first, pace.scope))
    // The queue may not reach this event before the hook is removed.
    const interrupted = Scope.addFinalizer(
      pace.scope,
      Effect.sync(() => fiber.interruptUnsafe())
    )
    return Effect.andThen(
      Effect.andThen(interrupted, startQueue(pace, defaultCapacity, first)),
      warn(
        `hook ${listener.event}: ${listener.label} took longer than ${Duration.format(listener.deadline)}; ` +
          `from now on the events of ${pace.label} are queued and the run no longer waits. ` +
          'Register it with delivery "queued" to have that from the start.'
      )
    )
  }

  const offerEvent = (queue: ObserverQueue.Sender<QueuedEvent>, event: QueuedEvent): Effect.Effect<void> | undefined =>
    queue.offer(event) === 0
      ? undefined
      : warn(`hook ${event.listener.label}: its queue is full, the oldest events are dropped`)

  /**
   * Queues an event for an observer that the run does not wait for. Returns an Effect if the observer was started and
   * has not succeeded, or if the queue was full.
   */
  const enqueueEvent = (
    listener: BoundListener,
    queue: ObserverQueue.Sender<QueuedEvent>,
    payload: object,
    context: Context.Context<never>
  ): Effect.Effect<void> | undefined => {
    const { pace } = listener
    if (!pace.startsAtOnce || !queue.isIdle()) return offerEvent(queue, { listener, payload, context })
    const handling = callListener(listener, payload, acceptAnswer)
    if (Exit.isExit(handling) && Exit.isSuccess(handling)) {
      DeliveryPace.noteInTime(pace)
      return undefined
    }
    if (Exit.isExit(handling)) return Effect.asVoid(handleListenerExit(listener, handling, acceptAnswer))
    return forkIsolated(handling, (fiber) => {
      const exit = fiber.pollUnsafe()
      return exit === undefined
        ? (offerEvent(queue, { listener, payload, context, fiber }) ?? Effect.void)
        : Effect.asVoid(handleListenerExit(listener, exit, acceptAnswer))
    })
  }

  const makePayloadExit = (name: string, fields: () => object): Exit.Exit<object> => {
    try {
      return Exit.succeed(EventPayload.make(name, fields(), maxChars))
    } catch (error) {
      return Exit.die(new Error(`the payload of ${name} could not be made`, { cause: error }))
    }
  }

  /**
   * Passes a payload to the listeners, starting at index `first`. If the first listener has already started, `begun` is
   * its running call.
   */
  const notifyRemaining = <A>(
    { answers, context, payload, read, restore, told }: EventDelivery<A>,
    first: number,
    begun: ListenerHandling<A> | undefined
  ): Effect.Effect<void> => {
    const notifyListener = (listener: BoundListener): Effect.Effect<A | undefined> => {
      if (!Exit.isSuccess(payload))
        return reportFailure(listener, `was not called: ${describeFailure(payload.cause)}`, read)
      const { queue } = listener.pace
      if (listener.isObserver && queue !== undefined)
        return Effect.as(enqueueEvent(listener, queue, payload.value, context) ?? Effect.void, undefined)
      const handling = callListener(listener, payload.value, read)
      return Exit.isExit(handling) || !listener.isObserver
        ? awaitListener(listener, handling, read, restore)
        : forkIsolated(handling, (fiber) => awaitObserver(listener, fiber, read, restore))
    }
    /** Effects that wait for observers, each followed by the later observers of its hook. */
    const waiting = new Map<DeliveryPace.DeliveryPace, Effect.Effect<void>>()
    const running = new Set<Fiber.Fiber<unknown, unknown>>()
    /** Notifies one listener. Returns `undefined` if the listener has finished. */
    const notifyConcurrently = (listener: BoundListener, index: number): Effect.Effect<void> | undefined => {
      const keep = Effect.map((answer: A | undefined) => void (answers[index] = answer))
      const before = waiting.get(listener.pace)
      if (before !== undefined) {
        waiting.set(
          listener.pace,
          Effect.andThen(
            before,
            Effect.suspend(() => keep(notifyListener(listener)))
          )
        )
        return undefined
      }
      const isBegun = index === first && begun !== undefined
      if (!isBegun && DeliveryPace.isBehind(listener))
        return Effect.andThen(
          restore(DeliveryPace.awaitQueue(listener.before)),
          Effect.suspend(() => keep(notifyListener(listener)))
        )
      if ((listener.isObserver && listener.pace.queue !== undefined && !isBegun) || !Exit.isSuccess(payload))
        return keep(notifyListener(listener))
      const handling = isBegun ? begun : callListener(listener, payload.value, read)
      if (Exit.isExit(handling) && Exit.isSuccess(handling)) {
        if (listener.isObserver) DeliveryPace.noteInTime(listener.pace)
        answers[index] = handling.value
        return undefined
      }
      if (Exit.isExit(handling) || !listener.isObserver) return keep(awaitListener(listener, handling, read, restore))
      return forkIsolated(handling, (fiber) => {
        const ended = keep(awaitObserver(listener, fiber, read, restore))
        if (fiber.pollUnsafe() !== undefined) return ended
        running.add(fiber)
        waiting.set(
          listener.pace,
          Effect.andThen(
            ended,
            Effect.sync(() => void running.delete(fiber))
          )
        )
        return Effect.void
      })
    }
    const notifyFrom = (index: number): Effect.Effect<void> => {
      for (let next = index; next < told.length; next++) {
        const listener = told[next]
        const telling = listener === undefined ? undefined : notifyConcurrently(listener, next)
        if (telling !== undefined) return Effect.flatMap(telling, () => notifyFrom(next + 1))
      }
      return waiting.size === 0 ? Effect.void : awaited
    }
    const awaited = Effect.suspend(() => {
      const [only, ...others] = waiting.values()
      const all =
        only === undefined || others.length > 0
          ? Effect.all(waiting.values(), { concurrency: "unbounded", discard: true })
          : only
      return Effect.onInterrupt(restore(all), () =>
        Effect.sync(() => running.forEach((fiber) => fiber.interruptUnsafe()))
      )
    })
    return notifyFrom(first)
  }

  /**
   * Like {@link Dispatcher.dispatch}, but in an uninterruptible fiber. A listener that finishes synchronously costs
   * only a function call.
   */
  const notifyListeners = <A>(delivery: EventDelivery<A>): Effect.Effect<ReadonlyArray<A>> => {
    const { answers, context, payload, read, told } = delivery
    const collectAnswers = (): ReadonlyArray<A> =>
      answers.length === 0 ? [] : answers.filter((answer) => answer !== undefined)
    const notifyAndCollect = (first: number, begun?: ListenerHandling<A>): Effect.Effect<ReadonlyArray<A>> =>
      Effect.map(notifyRemaining(delivery, first, begun), collectAnswers)
    if (!Exit.isSuccess(payload)) return notifyAndCollect(0)
    for (let index = 0; index < told.length; index++) {
      const listener = told[index]
      if (listener === undefined) continue
      const { isObserver, pace } = listener
      if (DeliveryPace.isBehind(listener)) return notifyAndCollect(index)
      if (isObserver && pace.queue !== undefined) {
        const warned = enqueueEvent(listener, pace.queue, payload.value, context)
        if (warned !== undefined) return Effect.flatMap(warned, () => notifyAndCollect(index + 1))
        continue
      }
      const handling = callListener(listener, payload.value, read)
      if (!Exit.isExit(handling) || !Exit.isSuccess(handling)) return notifyAndCollect(index, handling)
      if (isObserver) DeliveryPace.noteInTime(pace)
      if (handling.value !== undefined) answers[index] = handling.value
    }
    return Effect.succeed(collectAnswers())
  }

  const dispatch: Dispatcher["dispatch"] = (name, told, fields, read) =>
    Effect.uninterruptibleMask((restore) =>
      Effect.withFiber(({ context }) =>
        notifyListeners({ told, payload: makePayloadExit(name, fields), read, restore, context, answers: [] })
      )
    )

  return { dispatch, startQueue }
}
