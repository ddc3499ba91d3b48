/**
 * Suites of rules for what others write: an environment, a session store, a provider, a toolset, middleware, a consumer of hooks. A rule
 * is an Effect that fails where it is broken, so that any test runner registers it, and a program can run all of them without one.
 *
 * **Details**
 *
 * A suite is a list of {@link Rule}s over the service of its subject. {@link register} makes one test of each for a runner with
 * `test(name, run)`: Vitest, `node:test`, Jest. {@link report} runs them without a runner.
 *
 * With `sharing: "each"` every rule gets a subject of its own; with `"all"` they share one, which is made with the first and given up by
 * `after`.
 *
 * **Example** (The rules of a session store, without a test runner)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SessionStore } from "hermes-effect"
 * import { Conformance, SessionStoreRules } from "hermes-effect/testing"
 *
 * const results = await Effect.runPromise(Conformance.report(SessionStoreRules.rules, SessionStore.layerMemory))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 */
import * as Cause from "effect/Cause"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as ManagedRuntime from "effect/ManagedRuntime"
import type * as Scope from "effect/Scope"
import * as TestClock from "effect/testing/TestClock"
import { RuleBroken } from "./Check.ts"

/** One rule of a suite. */
export interface Rule<R> {
  /** The part of the subject that it is about. */
  readonly about: string
  readonly name: string
  /** Fails where the subject breaks the rule. */
  readonly check: Effect.Effect<void, RuleBroken, R>
}

const asBroken = (name: string, cause: Cause.Cause<unknown>): Effect.Effect<never, RuleBroken> => {
  if (Cause.hasInterruptsOnly(cause)) return Effect.interrupt
  const error = Cause.squash(cause)
  return Effect.fail(error instanceof RuleBroken
    ? error
    : new RuleBroken({ message: `${name}: ${error instanceof Error ? error.message : Cause.pretty(cause)}`, actual: error, expected: undefined }))
}

/** A rule of a suite. Whatever its body throws or fails with breaks it. */
export const rule = <E, R>(about: string, name: string, body: Effect.Effect<void, E, R>): Rule<Exclude<R, Scope.Scope>> => ({
  about,
  name,
  check: Effect.catchCause(Effect.scoped(body), (cause) => asBroken(name, cause))
})

/** A rule in which time stands still until `TestClock` moves it. */
export const timedRule = <E, R>(about: string, name: string, body: Effect.Effect<void, E, R>): Rule<Exclude<R, Scope.Scope>> => {
  const timed = rule(about, name, body)
  return { ...timed, check: Effect.provide(timed.check, TestClock.layer()) }
}

/** The end of one rule. */
export interface Result {
  readonly about: string
  readonly name: string
  /** Undefined where the rule holds. */
  readonly broken: RuleBroken | undefined
}

const onSubject = <R, E>({ check, name }: Rule<R>, subject: Layer.Layer<R, E>): Effect.Effect<void, RuleBroken> =>
  Effect.catchCause(Effect.provide(check, subject, { local: true }), (cause) => asBroken(name, cause))

/** Runs every rule, each on a subject of its own. */
export const report = <R, E>(rules: ReadonlyArray<Rule<R>>, subject: Layer.Layer<R, E>): Effect.Effect<ReadonlyArray<Result>> =>
  Effect.forEach(rules, (one) =>
    Effect.match(onSubject(one, subject), {
      onFailure: (broken): Result => ({ about: one.about, name: one.name, broken }),
      onSuccess: (): Result => ({ about: one.about, name: one.name, broken: undefined })
    }))

/** Members of a test runner. */
export interface Runner {
  readonly test: (name: string, run: () => Promise<void>) => unknown
  /** Runs when all tests have ended; needed for a subject that is shared. */
  readonly after?: ((run: () => Promise<void>) => unknown) | undefined
}

/** Settings of {@link register}. */
export interface Options {
  readonly sharing?: "each" | "all" | undefined
  /** Names of rules that the subject breaks on purpose, each with its reason; they are not run. */
  readonly exceptions?: Readonly<Record<string, string>> | undefined
}

const promised = async (exit: Promise<Exit.Exit<void, unknown>>): Promise<void> => {
  const ended = await exit
  if (Exit.isFailure(ended)) throw Cause.squash(ended.cause)
}

/** Makes a test of each rule, and gives their names. A broken rule rejects with its {@link RuleBroken}. */
export const register = <R, E>(
  runner: Runner,
  rules: ReadonlyArray<Rule<R>>,
  subject: Layer.Layer<R, E>,
  { exceptions = {}, sharing = "each" }: Options = {}
): ReadonlyArray<string> => {
  const kept = rules.filter(({ name }) => !Object.hasOwn(exceptions, name))
  const shared = ManagedRuntime.make(subject)
  if (sharing === "all") runner.after?.(() => shared.dispose())
  return kept.map((one) => {
    const title = `${one.about}: ${one.name}`
    runner.test(title, () =>
      promised(sharing === "all" ? shared.runPromiseExit(one.check) : Effect.runPromiseExit(onSubject(one, subject))))
    return title
  })
}
