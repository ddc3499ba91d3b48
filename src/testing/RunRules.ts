/**
 * Rules of what stands around runs: middleware, and consumers of hooks. Each plays runs that go well, fail, are cut off and run side by
 * side, over a scripted model.
 *
 * **Details**
 *
 * The subject makes a runtime of the parts that a rule gives it, with what is tested in it. {@link middleware} has the rules that hold for any
 * middleware, also one that changes or refuses; {@link hooks} those of a consumer, which changes nothing and gives no warning.
 *
 * **Example** (The rules of a middleware)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Middleware, Runtime } from "hermes-effect"
 * import { Conformance, RunRules } from "hermes-effect/testing"
 *
 * const mine = Middleware.wrapModelCall({ name: "mine", wrap: (next) => (params) => Effect.withSpan(next(params), "mine") })
 *
 * const subject = Layer.succeed(RunRules.Subject, { runtime: (parts) => Runtime.layer({ ...parts, middleware: [mine] }) })
 * const results = await Effect.runPromise(Conformance.report(RunRules.middleware, subject))
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
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../agent/Agent.ts"
import * as Offline from "../provider/Offline.ts"
import type { Provider } from "../provider/Provider.ts"
import * as Scripted from "../provider/Scripted.ts"
import * as Runtime from "../Runtime.ts"
import * as Toolset from "../tool/Toolset.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { eventRecorder } from "./TestRun.ts"

/** Parts of a runtime that a rule brings. */
export interface Parts {
  readonly provider: Layer.Layer<Provider>
  readonly tools: ReadonlyArray<Toolset.Toolset>
  readonly retry: { readonly maxAttempts: number }
}

/** A runtime of these parts, with what is tested in it. */
export interface Tested {
  readonly runtime: (parts: Parts) => Layer.Layer<Agent.Agent, unknown>
}

/** The subject of the rules of middleware and of consumers of hooks. */
export class Subject extends Context.Service<Subject, Tested>()("hermes-effect/testing/RunSubject") {}

const Note = Tool.make("note", { description: "Takes a note", parameters: Schema.Struct({ text: Schema.String }), success: Schema.String })
const Refuse = Tool.make("refuse", { description: "Always fails", success: Schema.String, failure: Schema.String, failureMode: "return" })
const Break = Tool.make("break", { description: "Has a fault", success: Schema.String })
const toolkit = Toolkit.make(Note, Refuse, Break)

const overloaded = () => new AiError.InternalProviderError({ description: "overloaded" })

/** Turns of a model, with the end of each run. */
const scripts = {
  answer: [Scripted.complete({ pieces: ["It ", "is ", "done."] })],
  tool: [Scripted.complete({ toolCalls: [{ name: "note", params: { text: "a" } }] }), Scripted.complete("Noted.")],
  "failed tool": [Scripted.complete({ toolCalls: [{ name: "refuse", params: {} }] }), Scripted.complete("It failed.")],
  "tool with a fault": [Scripted.complete({ toolCalls: [{ name: "break", params: {} }] }), Scripted.complete("It broke.")],
  "unknown tool": [Scripted.complete({ toolCalls: [{ name: "nothing_like_it", params: {} }] }), Scripted.complete("I see.")],
  "broken arguments": [Scripted.complete({ toolCalls: [{ name: "note", params: "{\"text\": " }] }), Scripted.complete("I see."), Scripted.complete("I see.")],
  "failed model": [Scripted.fail(overloaded())],
  "failed model in its text": [Scripted.fail(overloaded(), { pieces: ["It ", "is "] })]
} as const
type Script = keyof typeof scripts
const played: ReadonlyArray<Script> = ["answer", "tool", "failed tool", "tool with a fault", "unknown tool", "broken arguments", "failed model", "failed model in its text"]

/** The visible end of a run: how it ended, what was shown, and how often the tool ran. */
interface End {
  readonly exit: string
  readonly text: string
  readonly notes: number
  readonly isDefect: boolean
  readonly warnings: ReadonlyArray<string>
}

const collecting = (warnings: Array<string>) =>
  Logger.layer([Logger.make(({ logLevel, message }) => {
    if (logLevel === "Warn" || logLevel === "Error" || logLevel === "Fatal") warnings.push(Array.isArray(message) ? message.map(String).join(" ") : String(message))
  })])

const play = (runtime: Tested["runtime"], script: Script): Effect.Effect<End> =>
  Effect.suspend(() => {
    let notes = 0
    const warnings: Array<string> = []
    const { onEvent } = eventRecorder()
    const handlers = toolkit.toLayer({ note: () => Effect.sync(() => `noted ${++notes}`), refuse: () => Effect.fail("refused"), break: () => Effect.die(new Error("a fault")) })
    const layer = runtime({ provider: Scripted.layer(scripts[script]), tools: [Toolset.make("notes", toolkit, handlers)], retry: { maxAttempts: 1 } })
    return Agent.run({ prompt: "Do it.", onEvent, streaming: true }).pipe(
      Effect.provide(layer),
      Effect.exit,
      Effect.map((exit): End => ({
        exit: Exit.isSuccess(exit) ? exit.value.exit : exit.cause.reasons.map((reason) => reason._tag === "Fail" ? tagOf(reason.error) : reason._tag).join(),
        text: Exit.isSuccess(exit) ? exit.value.text : "",
        notes,
        isDefect: Exit.isFailure(exit) && Cause.hasDies(exit.cause),
        warnings
      })),
      Effect.provide(collecting(warnings))
    )
  })

const tagOf = (error: unknown): string => typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : String(error)

const interrupted = (runtime: Tested["runtime"]) =>
  Effect.gen(function*() {
    const fiber = yield* Agent.run({ prompt: "Wait.", streaming: true }).pipe(
      Effect.provide(runtime({ provider: Scripted.layer([Scripted.hang({ pieces: ["It "] })]), tools: [], retry: { maxAttempts: 1 } })),
      Effect.forkChild
    )
    yield* Effect.sleep("50 millis")
    const ended = yield* Effect.timeoutOption(Fiber.interrupt(fiber), "10 seconds")
    Check.same(ended._tag, "Some", "a run should end within ten seconds of its interruption")
    const exit = yield* Fiber.await(fiber)
    Check.holds(Exit.isFailure(exit) && Cause.hasInterrupts(exit.cause), "an interruption should stay one")
  })

/** A run that fails, and the next one of its session: what it left behind is a conversation that can be gone on with. */
const afterFailure = (runtime: Tested["runtime"]) =>
  Effect.gen(function*() {
    const ask = (prompt: string) => Effect.exit(Agent.run({ prompt, sessionId: "failed-once" }))
    return [yield* ask("Fail."), yield* ask("Answer.")] as const
  }).pipe(
    Effect.provide(runtime({ provider: Scripted.layer([Scripted.fail(overloaded()), Scripted.complete("Answered.")]), tools: [], retry: { maxAttempts: 1 } })),
    Effect.map((exits) => exits.map((exit) => Exit.isSuccess(exit) ? exit.value.text : Cause.hasDies(exit.cause) ? "defect" : "failed"))
  )

const echo = (runtime: Tested["runtime"], words: ReadonlyArray<string>) =>
  Effect.map(
    Effect.forEach(words, (word) => Effect.exit(Agent.run({ prompt: `Reply exactly ${word}` })), { concurrency: "unbounded" }).pipe(
      Effect.provide(runtime({ provider: Offline.layer(), tools: [], retry: { maxAttempts: 1 } }))
    ),
    (exits) => exits.map((exit) => Exit.isSuccess(exit) ? exit.value.text : "failed")
  )

const about = (part: string) => (name: string, body: (tested: Tested) => Effect.Effect<void, unknown>): Conformance.Rule<Subject> =>
  Conformance.rule(part, name, Subject.use(body))

const ofMiddleware = about("middleware")

/** The rules of middleware. */
export const middleware: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...played.map((script) =>
    ofMiddleware(`lets a run end in what an agent may end in: ${script}`, ({ runtime }) =>
      Effect.map(play(runtime, script), ({ exit, isDefect }) => Check.holds(!isDefect, `a run ended in a defect: ${exit}`)))
  ),
  ofMiddleware("lets a tool run once at most", ({ runtime }) =>
    Effect.map(play(runtime, "tool"), ({ notes }) => Check.holds(notes <= 1, `one call ran ${notes} times`))),
  ofMiddleware("does the same for the same run", ({ runtime }) =>
    Effect.map(Effect.all([play(runtime, "tool"), play(runtime, "tool")]), ([first, second]) => Check.same([second.exit, second.notes], [first.exit, first.notes]))),
  ofMiddleware("goes on with a session whose last run failed", ({ runtime }) =>
    Effect.map(afterFailure(runtime), (ends) => Check.holds(!ends.includes("defect"), "a run of a session ended in a defect after one that failed"))),
  ofMiddleware("ends with the run that is interrupted", ({ runtime }) => interrupted(runtime)),
  ofMiddleware("keeps runs that are made side by side apart", ({ runtime }) =>
    Effect.gen(function*() {
      const words = ["one", "two", "three", "four"]
      const alone = yield* Effect.forEach(words, (word) => Effect.map(echo(runtime, [word]), ([text]) => text))
      Check.same(yield* echo(runtime, words), alone)
    }))
]

const bare: Tested["runtime"] = (parts) => Runtime.layer(parts)
const ofHooks = about("hooks")

/** The rules of consumers of hooks. */
export const hooks: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...played.map((script) =>
    ofHooks(`change nothing in a run, and give no warning: ${script}`, ({ runtime }) =>
      Effect.map(Effect.all([play(runtime, script), play(bare, script)]), ([observed, expected]) => Check.same(observed, expected)))
  ),
  ofHooks("let a session go on whose last run failed", ({ runtime }) =>
    Effect.map(afterFailure(runtime), (ends) => Check.same(ends, ["failed", "Answered."]))),
  ofHooks("let a run that is interrupted end", ({ runtime }) => interrupted(runtime)),
  ofHooks("keep runs that are made side by side apart", ({ runtime }) =>
    Effect.map(echo(runtime, ["one", "two", "three"]), (texts) => Check.same(texts, ["one", "two", "three"])))
]
