/**
 * The boundary around foreign code (a wrapper, a listener, a handler of a tool, a function of a plugin): the code runs
 * in a separate fiber, so that its failure, defect, interruption or slowness does not affect the caller. Also describes
 * failures, and logs a warning once for each of them.
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import type * as Clock from "effect/Clock"
import type * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Interruption from "./Interruption.ts"
import * as Json from "./Json.ts"
import * as Redaction from "./Redaction.ts"

/** The function that `Effect.uninterruptibleMask` passes to its callback. */
export type Restore = <A, E, R>(effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>

/** Error of foreign code that did not complete within its deadline. */
export class DeadlineExceeded extends Error {
  override readonly name = "DeadlineExceeded"
  constructor(millis: number) {
    super(`no answer within ${millis / 1000} s`)
  }
}

/**
 * Measures how much of its deadline foreign code has used, in milliseconds. Time spent in the call that the code wraps
 * does not count, because that call has its own deadline.
 */
export interface OwnTime {
  readonly deadline: () => number
  readonly pause: () => void
  readonly resume: () => void
  /** Succeeds when the deadline has passed; time counts from the first use. */
  readonly expired: Effect.Effect<undefined>
}

/** Creates an {@link OwnTime} that starts on first use, so that code that completes at once never reads the clock. */
export const makeOwnTime = (deadline: () => number): OwnTime => {
  let clock: Clock.Clock | undefined
  let since = 0
  let spent = 0
  let paused = 0
  let resumed: Deferred.Deferred<void> | undefined
  const awaitExpiry = (now: Clock.Clock): Effect.Effect<undefined> =>
    Effect.suspend(() => {
      if (paused > 0) return Effect.andThen(Deferred.await((resumed ??= Deferred.makeUnsafe<void>())), awaitExpiry(now))
      const millis = deadline() - spent - (now.currentTimeMillisUnsafe() - since)
      if (millis <= 0) return Effect.succeed(undefined)
      return Number.isFinite(millis) ? Effect.andThen(Effect.sleep(millis), awaitExpiry(now)) : Effect.never
    })
  return {
    deadline,
    pause: () => {
      if (paused++ === 0 && clock !== undefined) spent += clock.currentTimeMillisUnsafe() - since
    },
    resume: () => {
      if (--paused > 0 || clock === undefined) return
      since = clock.currentTimeMillisUnsafe()
      if (resumed !== undefined) Deferred.doneUnsafe(resumed, Exit.void)
      resumed = undefined
    },
    expired: Effect.clockWith((now) => {
      clock = now
      since = now.currentTimeMillisUnsafe()
      return awaitExpiry(now)
    })
  }
}

/** Time that an interrupted run waits for the code that it interrupts. */
const grace = Duration.seconds(5)

/** Interrupts a fiber and waits only briefly for its end, because the fiber may be uninterruptible. */
const stopFiber = <A, E>(fiber: Fiber.Fiber<A, E>): Effect.Effect<void> =>
  Effect.suspend(() => {
    fiber.interruptUnsafe()
    return fiber.pollUnsafe() === undefined
      ? Effect.asVoid(Effect.timeoutOption(Fiber.await(fiber), grace))
      : Effect.void
  })

/**
 * Runs an effect in a separate fiber, without a parent; `then` receives the fiber as soon as the fiber ends or suspends
 * for the first time.
 */
export const forkIsolated = <A, E, R, B, E2, R2>(
  effect: Effect.Effect<A, E, R>,
  then: (fiber: Fiber.Fiber<A, E>) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R | R2> =>
  // The context of a fiber contains the services that its effects require.
  Effect.withFiber((fiber) => then(Effect.runForkWith(fiber.context as Context.Context<R>)(effect)))

/**
 * Runs an effect and returns its exit, or `undefined` if the deadline passes first. Must run inside an uninterruptible
 * mask; `restore` determines whether the wait for the effect is interruptible.
 *
 * **Details**
 *
 * The effect runs in a separate fiber. The fiber is interrupted at the deadline or when the run is interrupted. The
 * interruption is not awaited, because the fiber may be uninterruptible. For the same reason the deadline also applies
 * inside an uninterruptible region. An effect that completes at once costs no timer. An interrupted run waits briefly
 * for code that is `awaited`, so that its resources are released first.
 */
export const attempt = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deadline: Duration.Duration | OwnTime,
  restore: Restore,
  awaited = false
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  forkIsolated(effect, (fiber) => awaitExit(fiber, deadline, restore, awaited))

/** Like {@link attempt}, for an effect that is already running. */
export const awaitExit = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  deadline: Duration.Duration | OwnTime,
  restore: Restore,
  awaited: boolean
): Effect.Effect<Exit.Exit<A, E> | undefined> => {
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) return Effect.succeed(exit)
  const ended: Effect.Effect<Exit.Exit<A, E> | undefined> = !Duration.isDuration(deadline)
    ? Effect.raceFirst(Fiber.await(fiber), deadline.expired)
    : Duration.isFinite(deadline)
      ? Effect.map(Effect.timeoutOption(Fiber.await(fiber), deadline), Option.getOrUndefined)
      : Fiber.await(fiber)
  return restore(ended).pipe(
    Effect.onExit((exit) =>
      awaited && Exit.hasInterrupts(exit) ? stopFiber(fiber) : Effect.sync(() => fiber.interruptUnsafe())
    )
  )
}

/**
 * Like {@link awaitExit}, but an effect that misses its deadline continues: its fiber is returned, and the caller has
 * to end it. If the run is interrupted before the deadline, the fiber is interrupted.
 */
export const awaitExitOrFiber = <A, E>(
  fiber: Fiber.Fiber<A, E>,
  deadline: Duration.Duration,
  restore: Restore
): Effect.Effect<Exit.Exit<A, E> | Fiber.Fiber<A, E>> => {
  const exit = fiber.pollUnsafe()
  if (exit !== undefined) return Effect.succeed(exit)
  const ended: Effect.Effect<Exit.Exit<A, E> | Fiber.Fiber<A, E>> = Duration.isFinite(deadline)
    ? Effect.map(
        Effect.timeoutOption(Fiber.await(fiber), deadline),
        Option.getOrElse(() => fiber)
      )
    : Fiber.await(fiber)
  return Effect.onInterrupt(restore(ended), () => Effect.sync(() => fiber.interruptUnsafe()))
}

/** Like {@link attempt}, for code that may be interrupted even in an uninterruptible region. */
export const attemptInterruptibly = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  deadline: Duration.Duration
): Effect.Effect<Exit.Exit<A, E> | undefined, never, R> =>
  Effect.uninterruptibleMask((restore) => attempt(Effect.interruptible(effect), deadline, restore))

/** Name of foreign code for errors, and its deadline. */
export interface CallBorder {
  /** Name of the code, as the subject of a sentence. */
  readonly what: string
  readonly deadline: Duration.Duration
}

/** Turns an interruption that foreign code raised itself, and a missed deadline, into defects. */
const toContainedExit = <A, E>(exit: Exit.Exit<A, E> | undefined, { deadline, what }: CallBorder): Exit.Exit<A, E> => {
  if (exit === undefined) return Exit.die(new DeadlineExceeded(Duration.toMillis(deadline)))
  if (Exit.isSuccess(exit) || !Cause.hasInterrupts(exit.cause)) return exit
  const own = exit.cause.reasons.filter((reason) => !Cause.isInterruptReason(reason))
  return own.length === 0 ? Exit.die(new Interruption.SelfInterrupted(what)) : Exit.failCause(Cause.fromReasons(own))
}

/**
 * Runs foreign code as if it were part of this fiber. An interruption that the code raises itself, and a missed
 * deadline, become defects. Its success, failures and defects are unchanged.
 */
export const contain = <A, E, R>(effect: Effect.Effect<A, E, R>, border: CallBorder): Effect.Effect<A, E, R> =>
  Effect.uninterruptibleMask((restore) =>
    forkIsolated(effect, (fiber) =>
      Effect.flatMapEager(awaitExit(fiber, border.deadline, restore, true), (exit) => toContainedExit(exit, border))
    )
  )

/**
 * Like {@link contain}, but the code runs in a context, and `then` receives its exit. If the code ends at once, `then`
 * is called in the same step. The effect of `then` is uninterruptible, except for its parts in `restore`.
 */
export const containIn = <A, E, R, B, E2, R2>(
  context: Context.Context<R>,
  effect: Effect.Effect<A, E, R>,
  border: CallBorder,
  then: (exit: Exit.Exit<A, E>, restore: Restore) => Effect.Effect<B, E2, R2>
): Effect.Effect<B, E2, R2> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMapEager(awaitExit(Effect.runForkWith(context)(effect), border.deadline, restore, true), (exit) =>
      then(toContainedExit(exit, border), restore)
    )
  )

/**
 * Maximum number of distinct faults that are remembered. If there are more, the oldest faults may be reported again.
 */
const remembered = 256
const shown = 200

/** Describes a failure, in one line of no more than 200 characters and without secrets. */
export const describeFailure = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it interrupted itself"
  const error = Cause.squash(cause)
  let text: string
  try {
    text = error instanceof Error ? `${error.name}: ${error.message}` : Json.toText(error)
  } catch {
    text = "something that cannot be shown"
  }
  return Redaction.redactStart(text, shown).replaceAll(/\s+/g, " ")
}

/** Function that logs a fault as a warning the first time, and at debug level after that. */
export type FaultReporter = (what: string) => Effect.Effect<void>

/** Creates a reporter that remembers the faults it has reported. */
export const makeFaultReporter = (): FaultReporter => {
  const seen = new Set<string>()
  return (what) =>
    Effect.suspend(() => {
      if (seen.has(what)) return Effect.logDebug(what)
      if (seen.size >= remembered) {
        for (const oldest of seen) {
          seen.delete(oldest)
          break
        }
      }
      seen.add(what)
      return Effect.logWarning(what)
    })
}
