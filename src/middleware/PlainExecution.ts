/**
 * Runs a plain execution function concurrently with an Effect `next`, and interprets its return value or exception.
 *
 * **Details**
 *
 * A function that ends while its `next_call` is still running (because of a forgotten `await` or an exception) has
 * failed: the inner call is awaited, and its outcome is used. Only a veto (`ExecutionBlocked`) still takes effect in
 * that case. A `next_call` is refused immediately while another one is running.
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import { ExecutionBlocked, TranslatedFailure } from "../base/domain/AgentError.ts"
import * as Faults from "./Faults.ts"
import type { Kind } from "./Kind.ts"
import { makeRefusal } from "./WrapperFailures.ts"
import type * as PlainParts from "./PlainParts.ts"
import * as PlainReturn from "./PlainReturn.ts"
import * as Requesters from "./Requesters.ts"

/**
 * `next_call` for plugins. Without an argument, or with `undefined`, the payload is unchanged. Only model calls accept
 * options.
 */
export type NextCall = (payload?: unknown, options?: PlainParts.NextOptions) => Promise<unknown>

/** A call of a plain execution function, with the functions that convert its values. */
interface Call<Req, Options, A> {
  readonly kind: Kind
  readonly name: string
  readonly next: (request?: Req, options?: Options) => Effect.Effect<A, unknown, unknown>
  /** Request that the plugin passed to `next_call`, or `undefined` to retain the current request. */
  readonly request: (payload: unknown) => Req | undefined
  /** Reads the options that the plugin passed to `next_call`. */
  readonly options: (given: unknown) => Options | undefined
  /** Converts the inner result to the value that `next_call` resolves to. */
  readonly show: (value: A) => unknown
  /** Decodes the return value of the plugin. `undefined` if it returned nothing. */
  readonly read: (value: unknown) => Effect.Effect<A | undefined, unknown, unknown>
  readonly invoke: (next: NextCall) => unknown
}

/** Adds the name of the middleware to a veto that does not name its author. */
const signVeto = (error: ExecutionBlocked, name: string): ExecutionBlocked =>
  Object.hasOwn(error.metadata, "checked_by")
    ? error
    : new ExecutionBlocked({ reason: error.reason, metadata: { ...error.metadata, checked_by: name } })

/** Runs a plain execution function concurrently with an Effect `next`. */
export const run = Effect.fnUntraced(function* <Req, Options, A>({
  invoke,
  kind,
  name,
  next,
  options,
  read,
  request,
  show
}: Call<Req, Options, A>): Effect.fn.Return<A | undefined, unknown, unknown> {
  const fork = Effect.runForkWith(yield* Effect.context<unknown>())
  const running = new Set<Fiber.Fiber<A, unknown>>()
  let ended = false
  const interrupted = Deferred.makeUnsafe<never>()
  let failure: Cause.Cause<unknown> | undefined

  const nextCall: NextCall = (payload, given) => {
    if (ended) return Promise.reject(new Error("next_call() was called after the function had returned"))
    if (running.size > 0) return Promise.reject(makeRefusal(kind, name))
    const fiber = Requesters.leavePlain(() => fork(next(request(payload), options(given))))
    running.add(fiber)
    const settled = Effect.runPromise(Fiber.await(fiber)).then((exit) => {
      running.delete(fiber)
      if (Exit.isSuccess(exit)) {
        failure = undefined
        return show(exit.value)
      }
      if (Cause.hasInterrupts(exit.cause)) {
        // Plugin code cannot catch an interruption: its promise stays pending, and the whole call ends like the inner
        // call.
        Deferred.doneUnsafe(
          interrupted,
          Effect.failCause(Cause.fromReasons(exit.cause.reasons.filter(Cause.isInterruptReason)))
        )
        return new Promise<never>(() => {})
      }
      if (Cause.hasFails(exit.cause)) failure = exit.cause
      throw Cause.squash(exit.cause)
    })
    // A plugin that ignores the promise must not crash the process with an unhandled rejection.
    settled.catch(() => undefined)
    return settled
  }

  const translateThrown = ({ error }: PlainReturn.Thrown): Effect.Effect<never, unknown> => {
    if (error instanceof ExecutionBlocked) return Effect.fail(signVeto(error, name))
    if (failure === undefined) return Effect.die(error)
    const downstream = Cause.squash(failure)
    return error === downstream
      ? Effect.failCause(failure)
      : Effect.fail(new TranslatedFailure({ kind, middleware: name, thrown: error, downstream }))
  }

  /**
   * Waits for the inner calls that are still running. If an inner call is interrupted, the whole call is interrupted.
   */
  const quiet: Effect.Effect<void> = Effect.suspend(() =>
    Effect.flatMap(Fiber.awaitAll(running), (exits) => {
      const cut = exits.flatMap((exit) =>
        Exit.isFailure(exit) ? exit.cause.reasons.filter(Cause.isInterruptReason) : []
      )
      return cut.length === 0 ? Effect.void : Effect.failCause(Cause.fromReasons(cut))
    })
  )

  const ensureNothingRuns = (how: string): Effect.Effect<void, unknown> =>
    Effect.suspend(() => {
      ended = true
      return running.size === 0
        ? Effect.void
        : Effect.andThen(
            quiet,
            Effect.die(
              new Error(`it ${how} while its next_call() was still running: use \`await\` or \`return\` with it`)
            )
          )
    })

  const invoked = PlainReturn.callMiddleware(() => invoke(nextCall)).pipe(
    Effect.matchEffect({
      onFailure: (failed): Effect.Effect<never, unknown> =>
        failed.error instanceof ExecutionBlocked
          ? Effect.andThen(quiet, translateThrown(failed))
          : Effect.andThen(
              ensureNothingRuns(`failed (${Faults.describeError(failed.error)})`),
              Effect.suspend(() => translateThrown(failed))
            ),
      onSuccess: (value) =>
        Effect.as(ensureNothingRuns(value === undefined || value === null ? "returned nothing" : "answered"), value)
    })
  )
  const value = yield* invoked.pipe(
    Effect.raceFirst(Deferred.await(interrupted)),
    Effect.ensuring(Effect.suspend(() => Fiber.interruptAll(running)))
  )
  return yield* read(value)
})
