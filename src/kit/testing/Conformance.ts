/**
 * Suites of rules for custom implementations: an environment, a session store, a provider, a toolset, middleware, a
 * consumer of hooks. A rule is an Effect that fails if the implementation breaks it. Any test runner can register the
 * rules, and a program can run them without a runner.
 *
 * **Details**
 *
 * A suite is a list of {@link Rule}s over the service of its subject. {@link register} registers one test for each rule
 * in a runner with `test(name, run)`: Vitest, `node:test`, Jest. {@link runRules} runs them without a runner.
 *
 * With `sharing: "each"` every rule has its own subject. With `"all"` the rules share one subject, which is created
 * with the first rule and released by `after`.
 *
 * A rule fails when its time limit has passed, even if the subject cannot be interrupted and continues to run. A
 * subject that blocks its thread cannot be ended.
 *
 * **Example** (The rules of a session store, without a test runner)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SessionStore } from "hermes-effect"
 * import { Conformance, SessionStoreRules } from "hermes-effect/testing"
 *
 * const results = await Effect.runPromise(Conformance.runRules(SessionStoreRules.rules, SessionStore.layerMemory))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 */
import * as Cause from "effect/Cause"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { RuleBroken } from "./Check.ts"

/** One rule of a suite. */
export interface Rule<R> {
  /** The part of the subject that the rule is about. */
  readonly about: string
  readonly name: string
  /** Fails if the subject breaks the rule. */
  readonly check: Effect.Effect<void, RuleBroken, R>
}

const failAsBroken = (name: string, cause: Cause.Cause<unknown>): Effect.Effect<never, RuleBroken> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  const error = Cause.squash(cause)
  return Effect.fail(
    error instanceof RuleBroken
      ? error
      : new RuleBroken({
          message: `${name}: ${error instanceof Error ? error.message : Cause.pretty(cause)}`,
          actual: error,
          expected: undefined
        })
  )
}

/** Creates a rule of a suite. Any error or defect of its body breaks the rule. */
export const makeRule = <E, R>(
  about: string,
  name: string,
  body: Effect.Effect<void, E, R>
): Rule<Exclude<R, Scope.Scope>> => ({
  about,
  name,
  check: Effect.catchCause(Effect.scoped(body), (cause) => failAsBroken(name, cause))
})

/** Creates a rule in which time does not advance until the rule adjusts `TestClock`. */
export const makeTimedRule = <E, R>(
  about: string,
  name: string,
  body: Effect.Effect<void, E, R>
): Rule<Exclude<R, Scope.Scope>> => {
  const timed = makeRule(about, name, body)
  return { ...timed, check: Effect.provide(timed.check, TestClock.layer()) }
}

/** Result of an effect that had a time limit. */
export interface Ending<A, E> {
  /** Exit of the effect; `undefined` if it did not end and was abandoned. */
  readonly exit: Exit.Exit<A, E> | undefined
  /** True if the effect did not end in time and was interrupted. */
  readonly isOverdue: boolean
}

/**
 * Runs an effect, interrupts it if it exceeds its time limit, and abandons it if it does not end within a second time
 * limit.
 */
export const interruptAfter = <A, E, R>(
  effect: Effect.Effect<A, E, R>,
  by: Duration.Input,
  within: Duration.Input
): Effect.Effect<Ending<A, E>, never, R> =>
  Effect.uninterruptibleMask((restore) =>
    Effect.flatMap(Effect.forkDetach(effect, { uninterruptible: false }), (fiber) => {
      const awaitWithin = (time: Duration.Input) =>
        Effect.raceFirst(Fiber.await(fiber), Effect.as(Effect.sleep(time), undefined))
      const overdue = Effect.suspend(() => {
        fiber.interruptUnsafe()
        return Effect.map(awaitWithin(within), (exit): Ending<A, E> => ({ exit, isOverdue: true }))
      })
      return restore(
        Effect.flatMap(awaitWithin(by), (exit) =>
          exit === undefined ? overdue : Effect.succeed<Ending<A, E>>({ exit, isOverdue: false })
        )
      ).pipe(Effect.onInterrupt(() => Effect.sync(() => fiber.interruptUnsafe())))
    })
  )

/** Fails unless an effect ends within ten seconds of its interruption. */
export const checkInterruptedEnd = <A, E, R>(
  what: string,
  effect: Effect.Effect<A, E, R>,
  after: Duration.Input
): Effect.Effect<Exit.Exit<A, E>, RuleBroken, R> =>
  Effect.flatMap(interruptAfter(effect, after, "10 seconds"), ({ exit }) =>
    exit === undefined
      ? Effect.fail(
          new RuleBroken({
            message: `${what} should end within ten seconds of its interruption`,
            actual: "it goes on",
            expected: "its end"
          })
        )
      : Effect.succeed(exit)
  )

/** Applies a time limit in real time, regardless of the rule's clock. */
const limitCheck = <R>(
  name: string,
  limit: Duration.Input,
  check: Effect.Effect<void, RuleBroken, R>
): Effect.Effect<void, RuleBroken, R> =>
  Effect.clockWith((clock) =>
    Effect.flatMap(
      Effect.provideService(
        interruptAfter(Effect.provideService(check, Clock.Clock, clock), limit, limit),
        Clock.Clock,
        Clock.Clock.defaultValue()
      ),
      ({ exit, isOverdue }) =>
        exit !== undefined && !isOverdue
          ? exit
          : Effect.fail(
              new RuleBroken({
                message: `${name}: did not end within ${Duration.format(Duration.fromInputUnsafe(limit))}`,
                actual: "it goes on",
                expected: "its end"
              })
            )
    )
  )

/** Result of one rule. */
export interface Result {
  readonly about: string
  readonly name: string
  /** Failure of the rule; `undefined` if the rule holds. */
  readonly broken: RuleBroken | undefined
}

const onSubject = <R, E>({ check, name }: Rule<R>, subject: Layer.Layer<R, E>): Effect.Effect<void, RuleBroken> =>
  Effect.catchCause(Effect.provide(check, subject, { local: true }), (cause) => failAsBroken(name, cause))

/** Time limits of rules. */
export interface Limits {
  /**
   * Real time allowed for a rule with its subject, and again for its end after an interruption. Default: two minutes.
   */
  readonly limit?: Duration.Input | undefined
}

const defaultLimit = "2 minutes"

/** Runs every rule, each on a separate subject. */
export const runRules = <R, E>(
  rules: ReadonlyArray<Rule<R>>,
  subject: Layer.Layer<R, E>,
  { limit = defaultLimit }: Limits = {}
): Effect.Effect<ReadonlyArray<Result>> =>
  Effect.forEach(rules, (one) =>
    Effect.match(limitCheck(one.name, limit, onSubject(one, subject)), {
      onFailure: (broken): Result => ({ about: one.about, name: one.name, broken }),
      onSuccess: (): Result => ({ about: one.about, name: one.name, broken: undefined })
    })
  )

/** Functions of a test runner. */
export interface Runner {
  readonly test: (name: string, run: () => Promise<void>) => unknown
  /** Registers a function that runs after all tests. Required for a shared subject. */
  readonly after?: ((run: () => Promise<void>) => unknown) | undefined
}

/** Options of {@link register}. */
export interface Options extends Limits {
  readonly sharing?: "each" | "all" | undefined
  /** Names of rules that the subject breaks on purpose, with the reasons. These rules are not run. */
  readonly exceptions?: Readonly<Record<string, string>> | undefined
}

const throwFailure = async (exit: Promise<Exit.Exit<void, unknown>>): Promise<void> => {
  const ended = await exit
  if (Exit.isFailure(ended)) throw Cause.squash(ended.cause)
}

/** Registers a test for each rule, and returns their names. A broken rule rejects with its {@link RuleBroken}. */
export const register = <R, E>(
  runner: Runner,
  rules: ReadonlyArray<Rule<R>>,
  subject: Layer.Layer<R, E>,
  { exceptions = {}, limit = defaultLimit, sharing = "each" }: Options = {}
): ReadonlyArray<string> => {
  const kept = rules.filter(({ name }) => !Object.hasOwn(exceptions, name))
  const shared = ManagedRuntime.make(subject)
  const onShared = ({ check, name }: Rule<R>) =>
    Effect.catchCause(
      Effect.flatMap(shared.contextEffect, (context) => Effect.provideContext(check, context)),
      (cause) => failAsBroken(name, cause)
    )
  if (sharing === "all") runner.after?.(() => shared.dispose())
  return kept.map((one) => {
    const title = `${one.about}: ${one.name}`
    runner.test(title, () =>
      throwFailure(
        Effect.runPromiseExit(limitCheck(one.name, limit, sharing === "all" ? onShared(one) : onSubject(one, subject)))
      )
    )
    return title
  })
}
