/**
 * Rules for code around runs: middleware, and consumers of hooks. The rules use a scripted model to play runs that
 * complete, fail, are interrupted or run concurrently.
 *
 * **Details**
 *
 * The subject creates a runtime from the parts of a rule (model, tools, retries and, for some rules, a store that
 * fails), with the tested code in it. {@link middleware} contains the rules for any middleware, including middleware
 * that changes or refuses calls. {@link hooks} contains the rules for a consumer of hooks, which changes nothing and
 * emits no warnings.
 *
 * **Example** (The rules of a middleware)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Middleware, Runtime } from "hermes-effect"
 * import { Conformance, RunRules } from "hermes-effect/testing"
 *
 * const mine = Middleware.wrapModelCall({
 *   name: "mine",
 *   wrap: (next) => (params) => Effect.withSpan(next(params), "mine")
 * })
 *
 * const subject = Layer.succeed(RunRules.Subject, {
 *   runtime: (parts) => Runtime.layer({ ...parts, middleware: [mine] })
 * })
 * const results = await Effect.runPromise(Conformance.runRules(RunRules.middleware, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Agent from "../../agent/Agent.ts"
import * as Offline from "../../models/provider/Offline.ts"
import * as Scripted from "../../models/provider/Scripted.ts"
import * as Runtime from "../../program/Runtime.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import {
  type PlayedEnd,
  makeFailingStore,
  type MakeRuntime,
  makeOverloadedError,
  play,
  type Script
} from "./PlayedRuns.ts"
import * as RetryPolicy from "../../models/routing/RetryPolicy.ts"

export type { MakeRuntime, Parts } from "./PlayedRuns.ts"

/** A function that creates a runtime from the parts of a rule, with the tested code in it. */
export interface TestedRuntime {
  readonly runtime: MakeRuntime
}

/** The subject of the rules for middleware and consumers of hooks. */
export class Subject extends Context.Service<Subject, TestedRuntime>()("hermes-effect/testing/RunSubject") {}

const played: ReadonlyArray<Script> = [
  "answer",
  "tool",
  "failed tool",
  "tool with a fault",
  "unknown tool",
  "broken arguments",
  "failed model",
  "failed model in its text"
]

/** Store operations that fail during a run. */
const storeFaults = ["create", "append", "begin"] as const

const endingWell: ReadonlyArray<Script> = ["answer", "tool"]

const checkInterruption = (runtime: TestedRuntime["runtime"]) =>
  Effect.scoped(
    Effect.gen(function* () {
      const context = yield* Layer.build(
        runtime({ provider: Scripted.layer([Scripted.hang({ pieces: ["It "] })]), tools: [], retry: RetryPolicy.none })
      )
      const run = Effect.provideContext(Agent.run({ prompt: "Wait.", streaming: true }), context)
      const exit = yield* Conformance.checkInterruptedEnd("a run", run, "50 millis")
      Check.holds(Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause), "an interruption should stay one")
    })
  )

/** Plays a run that fails, and the next run of its session, which must be able to continue the conversation. */
const runAfterFailure = (runtime: TestedRuntime["runtime"]) =>
  Effect.gen(function* () {
    const runPrompt = (prompt: string) => Effect.exit(Agent.run({ prompt, sessionId: "failed-once" }))
    return [yield* runPrompt("Fail."), yield* runPrompt("Answer.")] as const
  }).pipe(
    Effect.provide(
      runtime({
        provider: Scripted.layer([Scripted.fail(makeOverloadedError()), Scripted.complete("Answered.")]),
        tools: [],
        retry: RetryPolicy.none
      })
    ),
    Effect.map((exits) =>
      exits.map((exit) => (Exit.isSuccess(exit) ? exit.value.text : Cause.hasDies(exit.cause) ? "defect" : "failed"))
    )
  )

const runEcho = (runtime: TestedRuntime["runtime"], words: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(words, (word) => Effect.exit(Agent.run({ prompt: `Reply exactly ${word}` })), {
      concurrency: "unbounded"
    }).pipe(Effect.provide(runtime({ provider: Offline.layer(), tools: [], retry: RetryPolicy.none }))),
    (exits) => exits.map((exit) => (Exit.isSuccess(exit) ? exit.value.text : "failed"))
  )

const makeRuleFactory =
  (part: string) =>
  (name: string, body: (tested: TestedRuntime) => Effect.Effect<void, unknown>): Conformance.Rule<Subject> =>
    Conformance.makeRule(part, name, Subject.use(body))

const ofMiddleware = makeRuleFactory("middleware")

/** The rules for middleware. */
export const middleware: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...played.map((script) =>
    ofMiddleware(`lets a run end in what an agent may end in: ${script}`, ({ runtime }) =>
      Effect.map(play(runtime, script), ({ exit, isDefect }) =>
        Check.holds(!isDefect, `a run ended in a defect: ${exit}`)
      )
    )
  ),
  ...storeFaults.map((operation) =>
    ofMiddleware(`lets a run fail as its store does: ${operation}`, ({ runtime }) =>
      Effect.map(play(runtime, "tool", { store: makeFailingStore(operation) }), ({ exit, isDefect, notes }) => {
        Check.holds(!isDefect, `a run ended in a defect: ${exit}`)
        Check.equals(notes, 0, "a tool should not run whose call could not be stored")
      })
    )
  ),
  ...endingWell.flatMap((script) => [
    ofMiddleware(`is not reported to have failed in a run that goes well: ${script}`, ({ runtime }) =>
      Effect.map(play(runtime, script), ({ warnings }) =>
        Check.equals(
          warnings.filter((line) => /middleware "[^"]*" failed/u.test(line)),
          []
        )
      )
    ),
    ofMiddleware(`shows the text that the run gives: ${script}`, ({ runtime }) =>
      Effect.map(play(runtime, script), ({ failure, shown, text }) =>
        Check.holds(
          failure !== undefined || shown === text,
          `${JSON.stringify(shown)} was shown, and ${JSON.stringify(text)} given`
        )
      )
    )
  ]),
  ofMiddleware("lets a tool run once at most", ({ runtime }) =>
    Effect.map(play(runtime, "tool"), ({ notes }) => Check.holds(notes <= 1, `one call ran ${notes} times`))
  ),
  ofMiddleware("does the same for the same run", ({ runtime }) =>
    Effect.map(Effect.all([play(runtime, "tool"), play(runtime, "tool")]), ([first, second]) =>
      Check.equals([second.exit, second.notes], [first.exit, first.notes])
    )
  ),
  ofMiddleware("goes on with a session whose last run failed", ({ runtime }) =>
    Effect.map(runAfterFailure(runtime), (ends) =>
      Check.holds(!ends.includes("defect"), "a run of a session ended in a defect after one that failed")
    )
  ),
  ofMiddleware("ends with the run that is interrupted", ({ runtime }) => checkInterruption(runtime)),
  ofMiddleware("keeps runs that are made side by side apart", ({ runtime }) =>
    Effect.gen(function* () {
      const words = ["one", "two", "three", "four"]
      const alone = yield* Effect.forEach(words, (word) => Effect.map(runEcho(runtime, [word]), ([text]) => text))
      Check.equals(yield* runEcho(runtime, words), alone)
    })
  )
]

const makeBareRuntime: MakeRuntime = (parts) => Runtime.layer(parts)

/** Returns the visible part of a run's end. */
const selectVisible = ({ exit, isDefect, notes, requests, results, shown, text, warnings }: PlayedEnd) => ({
  exit,
  isDefect,
  notes,
  requests,
  results,
  shown,
  text,
  warnings
})

const checkUnchanged = (runtime: MakeRuntime, script: Script, played: Parameters<typeof play>[2] = {}) =>
  Effect.map(
    Effect.all([play(runtime, script, played), play(makeBareRuntime, script, played)]),
    ([observed, expected]) => Check.equals(selectVisible(observed), selectVisible(expected))
  )

const ofHooks = makeRuleFactory("hooks")

/** The rules for consumers of hooks. */
export const hooks: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...played.map((script) =>
    ofHooks(`change nothing in a run, and give no warning: ${script}`, ({ runtime }) => checkUnchanged(runtime, script))
  ),
  ...storeFaults.map((operation) =>
    ofHooks(`change nothing in a run whose store fails: ${operation}`, ({ runtime }) =>
      checkUnchanged(runtime, "tool", { store: makeFailingStore(operation) })
    )
  ),
  ofHooks("let a session go on whose last run failed", ({ runtime }) =>
    Effect.map(runAfterFailure(runtime), (ends) => Check.equals(ends, ["failed", "Answered."]))
  ),
  ofHooks("let a run that is interrupted end", ({ runtime }) => checkInterruption(runtime)),
  ofHooks("keep runs that are made side by side apart", ({ runtime }) =>
    Effect.map(runEcho(runtime, ["one", "two", "three"]), (texts) => Check.equals(texts, ["one", "two", "three"]))
  )
]
