/**
 * Rules for middleware that removes a text from the answers of a model: a redactor, a filter, a policy. Each rule plays
 * one mode in which an agent asks its model, and searches everything that the mode leaves behind. Middleware of other
 * kinds is checked for calls that run twice.
 *
 * **Details**
 *
 * The modes are a chat (streamed and not), a row of a batch and of an evaluation, a client of `serve` (streamed and
 * not), an editor (ACP), a tool call, a child agent, a retry, continuations of a broken stream and of an answer at the
 * output limit, a fallback to another route, the summary at a limit, a side task, and the `LanguageModel` of the
 * runtime. A mode has two rules:
 *
 * - The removed text is in none of the {@link Sink}s: `output` (results, events, bytes for a client), `store` (messages
 *   of sessions), `record` (the run record), `exports` (ATIF and ATOF) and `hooks` (payloads of all hooks).
 * - Each answer of the model was requested once, and each tool call ran once.
 *
 * The prompts of the modes do not contain the text. Programs (`hermes chat`, `hermes batch run`) are not started: the
 * modes with their names make the same runs.
 *
 * **Gotchas**
 *
 * `wrap_model_call` and `stream_part` surround the attempts, whose hooks and record have the answers of the provider.
 * Middleware that must also guard these uses `llm_execution`; for other middleware set `sinks` to `output` and `store`.
 * Pass all parts to the runtime, and no other middleware.
 *
 * **Example** (A redactor)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Middleware, Runtime } from "hermes-effect"
 * import { Conformance, ModeRules } from "hermes-effect/testing"
 *
 * const mask = Middleware.llmExecution({
 *   name: "mask",
 *   onFailure: "closed",
 *   wrap: (next) => (request) =>
 *     next(request, {
 *       onPart: (parts) => Effect.succeed(parts.map((part) =>
 *         part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part))
 *     })
 * })
 *
 * const subject = Layer.succeed(ModeRules.Subject, {
 *   runtime: (parts) => Runtime.layer({ ...parts, middleware: [mask] })
 * })
 * const results = await Effect.runPromise(Conformance.runRules(ModeRules.rules, subject))
 *
 * console.log(results.filter(({ broken }) => broken !== undefined))
 * // => []
 * ```
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Schedule from "effect/Schedule"
import * as Stream from "effect/Stream"
import * as Path from "effect/Path"
import * as PluginManager from "../../agent/plugin/PluginManager.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as ToolRegistry from "../../tools/ToolRegistry.ts"
import { makeHookRecorder } from "../../hooks/HookRecorder.ts"
import * as Atif from "../../observe/atif/FromRuns.ts"
import * as Atof from "../../observe/atof/FromRuns.ts"
import * as RunTree from "../../observe/RunTree.ts"
import { RunRecord } from "../../store/RunRecord.ts"
import { SessionStore } from "../../store/SessionStore.ts"
import * as Check from "./Check.ts"
import * as Conformance from "./Conformance.ts"
import { makeParts, type MakeModeRuntime, type Mode, type ModeCounts, modes, type Shown } from "./PlayedModes.ts"

export type { MakeModeRuntime, ModeParts, ModeServices } from "./PlayedModes.ts"

/** A place that a removed text must not reach. */
export type Sink = "output" | "store" | "record" | "exports" | "hooks"

const allSinks: ReadonlyArray<Sink> = ["output", "store", "record", "exports", "hooks"]

/** Middleware under test. */
export interface TestedModes {
  /** Creates a runtime from the parts of a mode, with the middleware in it. */
  readonly runtime: MakeModeRuntime
  /**
   * Text in the model's answers that the middleware removes, or the pieces in which it streams. Defaults to `SECRET`.
   */
  readonly secret?: string | ReadonlyArray<string> | undefined
  /** Tests whether a text still contains the removed content. Defaults to a search for the text. */
  readonly isRevealed?: ((text: string) => boolean) | undefined
  /** Places that the middleware guards. Defaults to all; an empty list is for middleware that removes no text. */
  readonly sinks?: ReadonlyArray<Sink> | undefined
}

/** The subject of the rules. */
export class Subject extends Context.Service<Subject, TestedModes>()("hermes-effect/testing/ModeSubject") {}

/** Everything that a mode left behind. */
interface PlayedMode {
  readonly texts: Readonly<Record<Sink, Shown>>
  readonly requests: number
  readonly notes: number
}

const toText = (value: unknown): string => JSON.stringify(value) ?? ""

/** Reads the stored sessions and the record, and exports them. */
const readStored = Effect.gen(function* () {
  const store = yield* SessionStore
  const sessions = yield* store.list({ limit: 100 })
  const messages = yield* Effect.forEach(sessions, ({ id }) => store.messages(id))
  const entries = yield* Stream.runCollect((yield* RunRecord).read())
  const tree = RunTree.fromEntries(entries)
  const trajectories = sessions.map(({ id }) => Atif.buildTrajectory(tree, id))
  const events = Atof.toEvents(entries, { name: "hermes" })
  return {
    store: [...sessions, ...messages].map(toText),
    record: entries.map(toText),
    exports: [...trajectories, ...events].map(toText)
  }
})

const toPieces = (secret: TestedModes["secret"] = "SECRET"): ReadonlyArray<string> =>
  typeof secret === "string" ? [secret] : secret

/** Waits for the requests that a mode makes in the background, such as the title of a session. */
const awaitRequests = (expected: number, { requests }: ModeCounts) =>
  Effect.void.pipe(
    Effect.repeat({ until: () => requests() >= expected, times: 200, schedule: Schedule.spaced("5 millis") }),
    // The answer of the last request is stored.
    Effect.andThen(Effect.sleep("20 millis")),
    Effect.when(Effect.sync(() => requests() < expected))
  )

const playMode = (mode: Mode, { runtime, secret }: TestedModes) =>
  Effect.gen(function* () {
    const recorder = makeHookRecorder()
    const { counts, parts } = yield* makeParts(mode, toPieces(secret), recorder.hooks)
    const services = yield* Layer.build(runtime(parts))
    const ended = yield* Effect.gen(function* () {
      // A failure of the run is a result, too: it must not contain the text.
      const output = yield* Effect.catchCause(mode.play, (cause) => Effect.succeed([String(cause), toText(cause)]))
      yield* awaitRequests(mode.turns(toPieces(secret)).length, counts)
      return { output, ...(yield* readStored) }
    }).pipe(Effect.provideContext(services))
    const played: PlayedMode = {
      texts: { ...ended, hooks: recorder.told().map(toText) },
      requests: counts.requests(),
      notes: counts.notes()
    }
    return played
  }).pipe(Effect.scoped, Effect.provide(Logger.layer([])))

/** Fails if the text is in one of the places. */
const checkRemoved = (mode: Mode, tested: TestedModes) =>
  Effect.gen(function* () {
    const { isRevealed = (text: string) => text.includes(toPieces(tested.secret).join("")), sinks = allSinks } = tested
    if (sinks.length === 0) return
    const { requests, texts } = yield* playMode(mode, tested)
    Check.holds(requests > 0, `${mode.name}: the model was not asked`)
    for (const sink of sinks) {
      const revealed = texts[sink].find(isRevealed)
      if (revealed !== undefined)
        Check.equals(revealed.slice(0, 2_000), "without the text", `${mode.name}: the text is in ${sink}`)
    }
  })

/** Fails if a request or a tool call ran twice, or did not run. */
const checkOnce = (mode: Mode, tested: TestedModes) =>
  Effect.gen(function* () {
    const { notes, requests } = yield* playMode(mode, tested)
    Check.equals(
      { requests, notes },
      { requests: mode.turns(toPieces(tested.secret)).length, notes: mode.notes ?? 0 },
      `${mode.name}: each request and each tool call should run once`
    )
  })

const makeModeRule = (
  about: string,
  mode: Mode,
  check: (mode: Mode, tested: TestedModes) => Effect.Effect<void, unknown>
) =>
  Conformance.makeRule(
    about,
    mode.name,
    Subject.use((tested) => check(mode, tested))
  )

/** The rules: two for each mode. */
export const rules: ReadonlyArray<Conformance.Rule<Subject>> = [
  ...modes.map((mode) => makeModeRule("removes the text", mode, checkRemoved)),
  ...modes.map((mode) => makeModeRule("runs nothing twice", mode, checkOnce))
]

/**
 * Loads the plugin in a folder until the scope closes, and returns its middleware. Its hooks and tools are not part of
 * the result. Fails if the plugin cannot be loaded.
 */
export const readPluginMiddleware = (folder: string) =>
  Effect.gen(function* () {
    const paths = yield* Path.Path
    const directory = paths.resolve(folder)
    const key = paths.basename(directory)
    const manager = yield* PluginManager.make({
      places: {
        bundled: [],
        user: paths.dirname(directory),
        cwd: directory,
        // The test names the folder, and no other folder is searched.
        trust: { isTrusted: () => Effect.succeed(false), findOwnProject: (path) => Effect.succeed(path) },
        packages: [],
        variable: () => undefined
      },
      settings: { enabled: [key], disabled: [], entries: {} }
    })
    const { middleware, plugins } = yield* manager.loaded
    if (!plugins.some((plugin) => plugin.key === key))
      return yield* Effect.fail(
        new Check.RuleBroken({
          message: `no plugin was loaded from ${directory}: run \`hermes plugins list\` to see the reason`,
          actual: plugins.map((plugin) => plugin.key),
          expected: [key]
        })
      )
    const entries: ReadonlyArray<Middleware.Contained> = middleware
    return entries
  }).pipe(
    Effect.provide(Layer.mergeAll(Layer.fresh(Hooks.layer([])), ToolRegistry.layerNone, ChildProcesses.layerDefault()))
  )
