/**
 * One call that the library executes: the library calls back when the call may run, receives its outcome, and returns
 * the result. The call itself runs in the fiber that requested it, because the services and the asynchronous context of
 * that fiber are not available in the library's callbacks.
 *
 * **Details**
 *
 * | the library | result |
 * | --- | --- |
 * | executes the call, and returns the result that it received | the call's own exit, value or failure |
 * | returns another value | that value |
 * | answers without executing the call | its answer |
 * | rejects the call by a guardrail | `Refused`, an intended result |
 * | fails before the call | `Broken`: its own error |
 * | fails after the call succeeded | `Broken`; the value is not lost, because the code that runs the middleware has it |
 * | fails after the call failed, with the failure's message | the failure itself: the library replaces every error |
 * | fails after it received the call's failure as a result | the failure itself |
 * | fails after the call failed, with another message | `Translated` |
 *
 * The library cannot be interrupted. It is notified of an interrupted call, and then has the time {@link patience} to
 * record it.
 *
 * Source: `hermes-contract.md` §4.8, `relay-atof-atif.md` §3.5 and §3.7.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import type * as Schema from "effect/Schema"
import { describeError } from "../../middleware/Faults.ts"

/** Maximum time that the library may take to finish a call that has ended. */
const patience = Duration.seconds(5)

/** Outcome of a call. */
export type Outcome<A, E> =
  | { readonly _tag: "Own"; readonly exit: Exit.Exit<A, E> }
  | { readonly _tag: "Given"; readonly value: unknown; readonly own: A | undefined }
  | { readonly _tag: "Refused"; readonly reason: string }
  | { readonly _tag: "Broken"; readonly error: unknown }
  | { readonly _tag: "Translated"; readonly error: unknown; readonly cause: Cause.Cause<E> }

/** One call, with the conversions between its values and the library's values. */
interface Exchange<Told, A, E, R> {
  /** Makes the library execute a call. The library may call back once. */
  readonly start: (execute: (given: Schema.Json) => Promise<Told>) => Promise<unknown>
  readonly execute: (given: Schema.Json) => Effect.Effect<A, E, R>
  /**
   * Converts the exit of the call to a result for the library. If it is an `Error`, the promise passed to the library
   * is rejected.
   */
  readonly told: (exit: Exit.Exit<A, E>) => Told | Error
  /** Returns true if the library returned the result that it received. */
  readonly isSame: (told: Told, value: unknown) => boolean
}

/** First response of the library: it executes the call, or ends without executing it. */
type LeaveAnswer =
  | { readonly _tag: "Ask"; readonly given: Schema.Json }
  | { readonly _tag: "Done"; readonly value: unknown }
  | { readonly _tag: "Failed"; readonly error: unknown }

const rejected = "guardrail rejected: "

const classifyEarlyFailure = <A, E>(error: unknown): Outcome<A, E> => {
  const message = describeError(error)
  return message.startsWith(rejected)
    ? { _tag: "Refused", reason: message.slice(rejected.length) }
    : { _tag: "Broken", error }
}

/** Executes a call through the library. */
export const run = <Told, A, E, R>({
  execute,
  isSame,
  start,
  told
}: Exchange<Told, A, E, R>): Effect.Effect<Outcome<A, E>, never, R> =>
  Effect.suspend(() => {
    let answer: ((how: Told | Error) => void) | undefined
    let isGivenUp = false
    let ended: Promise<unknown> = Promise.resolve()

    const leave = Effect.callback<LeaveAnswer>((resume) => {
      const resumeWith = (what: LeaveAnswer): void => resume(Effect.succeed(what))
      try {
        ended = start((given) => {
          if (isGivenUp) return Promise.reject(new Error("interrupted"))
          if (answer !== undefined) return Promise.reject(new Error("a call is executed once"))
          return new Promise<Told>((resolve, reject) => {
            answer = (how) => (how instanceof Error ? reject(how) : resolve(how))
            resumeWith({ _tag: "Ask", given })
          })
        })
      } catch (error) {
        ended = Promise.reject(error)
      }
      ended.then(
        (value) => resumeWith({ _tag: "Done", value }),
        (error: unknown) => resumeWith({ _tag: "Failed", error })
      )
    })

    /** Waits until the library finishes the call. */
    const wait = Effect.tryPromise({ try: () => ended, catch: (error) => error }).pipe(
      Effect.timeoutOrElse({
        duration: patience,
        orElse: () => Effect.fail(new Error("NeMo Relay did not end a call"))
      })
    )

    const awaitLibraryEnd = (exit: Exit.Exit<A, E>, how: Told | Error) =>
      Effect.match(wait, {
        onSuccess: (value): Outcome<A, E> =>
          !(how instanceof Error) && isSame(how, value)
            ? { _tag: "Own", exit }
            : { _tag: "Given", value, own: Exit.isSuccess(exit) ? exit.value : undefined },
        onFailure: (error): Outcome<A, E> => {
          if (Exit.isSuccess(exit)) return { _tag: "Broken", error }
          return how instanceof Error && !describeError(error).startsWith(`internal error: ${how.message}`)
            ? { _tag: "Translated", error, cause: exit.cause }
            : { _tag: "Own", exit }
        }
      })

    return Effect.uninterruptibleMask((restore) =>
      Effect.gen(function* () {
        const asked = yield* Effect.onInterrupt(restore(leave), () =>
          Effect.sync(() => {
            isGivenUp = true
            answer?.(new Error("interrupted"))
          })
        )
        if (asked._tag === "Done") return { _tag: "Given", value: asked.value, own: undefined } as const
        if (asked._tag === "Failed") return classifyEarlyFailure<A, E>(asked.error)
        const exit = yield* Effect.exit(restore(Effect.suspend(() => execute(asked.given))))
        const how = told(exit)
        answer?.(how)
        return yield* awaitLibraryEnd(exit, how)
      })
    )
  })
