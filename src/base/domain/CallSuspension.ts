/**
 * Suspension of a running tool call that waits for an answer. The code of the call, which is the handler and its
 * wrappers, is interrupted and does not continue: it runs again after the answer.
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"

/** State of one run of a tool call. */
export interface CallSuspension {
  /** True after the call asked. Whatever its code returns from then on is ignored. */
  isSuspended: boolean
  /** Fibers that run the code of the call, the outermost first. */
  readonly fibers: Array<Fiber.Fiber<unknown, unknown>>
  /** Number of running steps, which are not interrupted. */
  runningSteps: number
  /** Completes when the last running step ends. */
  idle: Deferred.Deferred<void> | undefined
}

/** Creates the state of a call that starts. */
export const makeSuspension = (): CallSuspension => ({
  isSuspended: false,
  fibers: [],
  runningSteps: 0,
  idle: undefined
})

/** The tool call whose code the fiber runs; `undefined` outside a call, and in a call that cannot be suspended. */
export const CurrentSuspension = Context.Reference<CallSuspension | undefined>("hermes-effect/domain/CallSuspension", {
  defaultValue: () => undefined
})

/** Failure of the code of a call that was suspended. It passes through wrappers like a failure that they intend. */
export class CallSuspended extends Error {
  override readonly name = "CallSuspended"
  constructor() {
    super("the call waits for an answer")
  }
}

/** Runs a step that the suspension of the call waits for. A step of a suspended call does not start. */
export const runStep = <A, E, R>(suspension: CallSuspension, step: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  Effect.suspend(() => {
    if (suspension.isSuspended) return Effect.interruptible(Effect.never)
    suspension.runningSteps++
    return Effect.ensuring(
      step,
      Effect.suspend(() => {
        suspension.runningSteps--
        const { idle } = suspension
        return idle === undefined || suspension.runningSteps > 0 ? Effect.void : Deferred.succeed(idle, undefined)
      })
    )
  })

/** Marks the call as suspended and ends its code. Never returns. */
export const suspendCall = (suspension: CallSuspension): Effect.Effect<never> =>
  Effect.suspend(() => {
    suspension.isSuspended = true
    const waitForSteps = Effect.suspend(() =>
      suspension.runningSteps === 0 ? Effect.void : Deferred.await((suspension.idle ??= Deferred.makeUnsafe<void>()))
    )
    const interruptCode = Effect.sync(() => {
      for (const fiber of suspension.fibers.toReversed()) fiber.interruptUnsafe()
    })
    // Questions that the call asks at the same time are registered first.
    return Effect.andThen(
      Effect.forkDetach(Effect.andThen(Effect.andThen(Effect.yieldNow, waitForSteps), interruptCode)),
      Effect.interruptible(Effect.never)
    )
  })
