/**
 * The runtime for code without Effect: promises, async iterators, `AbortSignal`, and one error.
 *
 * **Details**
 *
 * {@link createHermes} takes plain values: models with their keys, tools created from functions, and listeners. Nothing
 * is opened before the first run, and `dispose` closes stores, connections and processes. Keys are passed here and
 * never read from the environment.
 *
 * A run rejects with a {@link HermesError}, which has the tag of its failure. A run that ends with text or at a limit
 * resolves with a result and its `exit`, and does not reject. Nothing is written to standard output; warnings are
 * written to standard error. {@link fromLayer} wraps a runtime that was composed with
 * Effect in the same way.
 *
 * **Example** (A run, and a run that is watched)
 *
 * ```ts
 * import { createHermes } from "hermes-effect/promise"
 *
 * const hermes = createHermes({ model: "offline", instructions: "Answer in one word." })
 *
 * const { text } = await hermes.run("Reply exactly hello")
 *
 * let streamed = ""
 * for await (const event of hermes.stream("Reply exactly hello")) {
 *   if (event._tag === "TextDelta") streamed += event.text
 * }
 * await hermes.dispose()
 *
 * console.log(text, streamed)
 * // => hello hello
 * ```
 *
 * Source: `ARCHITECTURE.md` §4.
 */
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as Agent from "../../agent/Agent.ts"
import type { ResumeInput, RunInput, StartOptions } from "../../agent/RunInput.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Question } from "../../base/domain/Question.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import type { ModelRoute } from "../../models/routing/EmbeddedRoutes.ts"
import * as Runtime from "../../program/Runtime.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import * as Approvals from "../../tools/Approvals.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import * as EventIterator from "./EventIterator.ts"
import { keepPerformer } from "./HermesServices.ts"
import { makeAbortedError, fromCause, HermesError } from "./HermesError.ts"
import {
  type BuiltinNeeds,
  checkInput,
  checkOptions,
  checkResumeInput,
  type HermesEvent,
  type HermesInput,
  type HermesModel,
  type HermesModelName,
  type HermesOptions,
  type HermesResult,
  type HermesResumeInput,
  isServer,
  type Listeners
} from "./HermesOptions.ts"
import { type PlainOutput, toOutput } from "./PlainOutput.ts"
import type { HermesMcp } from "./PlainServers.ts"
import { toMiddleware } from "./PlainMiddleware.ts"
import { type PlainMessage, toHistory, toPrompt } from "./PlainPrompt.ts"
import { type HermesSession, listQuestions, listSessions, readSession } from "./PlainSessions.ts"
import type { HermesTool } from "./StandardTool.ts"

/** A runtime for code without Effect. */
export interface Hermes {
  readonly run: <Schema extends PlainOutput = PlainOutput>(
    input: string | HermesInput<Schema>
  ) => Promise<HermesResult<Schema>>
  /**
   * Events of a run, in order, for one reader. The run begins when the first event is requested, and ends when the
   * reader leaves the loop.
   */
  readonly stream: <Schema extends PlainOutput = PlainOutput>(
    input: string | HermesInput<Schema>
  ) => AsyncIterableIterator<HermesEvent<Schema>>
  /**
   * Continues a suspended session with answers to its questions, in any process that has its store. Rejects with
   * `AnswerInvalid`, `QuestionAnswered`, `QuestionClosed`, `QuestionExpired` or `QuestionUnknown`, and stores nothing
   * then.
   */
  readonly resume: <Schema extends PlainOutput = PlainOutput>(
    input: HermesResumeInput<Schema>
  ) => Promise<HermesResult<Schema>>
  /** Events of {@link resume}, in order, for one reader. */
  readonly resumeStream: <Schema extends PlainOutput = PlainOutput>(
    input: HermesResumeInput<Schema>
  ) => AsyncIterableIterator<HermesEvent<Schema>>
  /** Lists the open questions of suspended sessions, oldest first: of one session, or of all. */
  readonly questions: (filter?: {
    readonly sessionId?: string | undefined
    readonly audience?: string | undefined
    readonly kind?: Question["kind"] | undefined
    readonly limit?: number | undefined
  }) => Promise<ReadonlyArray<Question>>
  /**
   * Asks the run of a session to stop; it ends with its results so far. Returns false if the session has no active run.
   */
  readonly stop: (sessionId: string) => Promise<boolean>
  /**
   * Removes the conversation of a session, with its sub-agents and its run record. Resolves with false if the session
   * is unknown, and rejects with `SessionBusy` while one of its runs is active.
   */
  readonly deleteSession: (sessionId: string) => Promise<boolean>
  /** Lists stored sessions, the newest first: 20 of them, or `limit`. */
  readonly listSessions: (options?: { readonly limit?: number | undefined }) => Promise<ReadonlyArray<HermesSession>>
  /**
   * Reads the messages of a session in the form of `history`, without reasoning. A compacted conversation begins with
   * its summary. Resolves with `undefined` if the session is unknown.
   */
  readonly readSession: (sessionId: string) => Promise<ReadonlyArray<PlainMessage> | undefined>
  /**
   * Ends all runs, which then reject with `Aborted`, and closes all resources of the runtime. Any later run rejects
   * with `Disposed`.
   */
  readonly dispose: () => Promise<void>
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

const toRedactedKeys = (
  key: string | ReadonlyArray<string>
): Redacted.Redacted<string> | ReadonlyArray<Redacted.Redacted<string>> =>
  typeof key === "string" ? Redacted.make(key) : key.map((one) => Redacted.make(one))

/** Names the options of `createHermes` in an error about the routes of its models. */
const nameModelOptions = (
  { message, path }: ConfigError,
  model: HermesModelName | HermesModel | ReadonlyArray<HermesModel>
): ConfigError => {
  const isInList = typeof model !== "string" && isList(model)
  const nameOption = (text: string): string =>
    text.replaceAll(/\broutes(\[\d+\])/gu, (_, index: string) => (isInList ? `model${index}` : "model"))
  return new ConfigError({ path: nameOption(path), message: nameOption(message) })
}

/** Returns a model whose provider is named on its own: `anthropic/claude-…` names both in one text. */
const nameProvider = ({ model, ...route }: Omit<HermesModel, "apiKey">): Omit<HermesModel, "apiKey"> => {
  const at = model.indexOf("/")
  return route.provider === undefined && route.baseUrl === undefined && at > 0
    ? { ...route, provider: model.slice(0, at), model: model.slice(at + 1) }
    : { ...route, model }
}

const toRoutes = (model: HermesModelName | HermesModel | ReadonlyArray<HermesModel>): ReadonlyArray<ModelRoute> =>
  (typeof model === "string" ? [{ model }] : isList(model) ? model : [model]).map(({ apiKey, ...route }) =>
    apiKey === undefined ? nameProvider(route) : { ...nameProvider(route), apiKey: toRedactedKeys(apiKey) }
  )

const toToolset = (one: HermesTool | Toolset.Toolset<never, BuiltinNeeds>): Toolset.Toolset<never, BuiltinNeeds> =>
  "toolset" in one ? one.toolset : one

const makeStore = (store: HermesOptions["store"]) => {
  if (store === undefined) return SessionStore.layerMemoryWith({ unnamed: 0 })
  if (store === "memory") return SessionStore.layerMemory
  if (store === "none") return SessionStore.layerNone
  return "postgres" in store
    ? SessionStore.layerPostgres({ url: Redacted.make(store.postgres) })
    : SessionStore.layerSqlite({ path: store.sqlite })
}

const isProvider = (model: HermesOptions["model"]): model is Layer.Layer<Provider> => Layer.isLayer(model)

const isList = (model: HermesModel | ReadonlyArray<HermesModel>): model is ReadonlyArray<HermesModel> =>
  Array.isArray(model)

const toHooks = (on: Listeners) =>
  Object.entries(on).flatMap(([name, listener]) =>
    // The record's type pairs each name with its event, but its entries do not preserve the pairing.
    listener === undefined
      ? []
      : [Hooks.fromPlain(name, listener as (event: Readonly<Record<string, unknown>>) => unknown)]
  )

const toRunInput = (
  input: string | HermesInput
): { readonly run: StartOptions; readonly signal: AbortSignal | undefined } => {
  if (typeof input === "string") return { run: { prompt: input }, signal: undefined }
  // A program without type checks may omit the prompt.
  if (!Json.isFields(input) || !(typeof input.prompt === "string" || Array.isArray(input.prompt)))
    throw new HermesError("InvalidInput", "the prompt is missing: give a text, or { prompt }")
  checkInput(input)
  const { history, onEvent, output, prompt, signal, ...rest } = input
  const told =
    onEvent === undefined
      ? {}
      : {
          onEvent: (events: ReadonlyArray<RunEvent>) =>
            Effect.promise(async () => {
              for (const event of events) await onEvent(event)
            })
        }
  const run = {
    ...rest,
    ...told,
    prompt: toPrompt(prompt),
    ...(history === undefined ? {} : { history: toHistory(history) }),
    ...(output === undefined ? {} : { output: toOutput(output) })
  }
  return { run, signal }
}

/** Splits the input of a resumption like the input of a run. */
const toResumeInput = (
  input: HermesResumeInput
): { readonly run: ResumeInput & { readonly output?: never }; readonly signal: AbortSignal | undefined } => {
  if (!Json.isFields(input) || typeof input.sessionId !== "string")
    throw new HermesError("InvalidInput", "the session is missing: give { sessionId, answers }")
  checkResumeInput(input)
  const { answers, audience, sessionId, ...options } = input
  const { run, signal } = toRunInput({ ...options, prompt: "resumed" })
  const { prompt: _, ...rest } = run
  // The output schema of `rest` was converted by `toRunInput`.
  return { run: { ...rest, sessionId, answers, audience } as ResumeInput & { readonly output?: never }, signal }
}

const makeDisposedError = (): HermesError =>
  new HermesError("Disposed", "this runtime was disposed: create another one for more runs")

type OnEvent = NonNullable<RunInput["onEvent"]>

const combineListeners =
  (first: OnEvent, second: OnEvent): OnEvent =>
  (events) =>
    Effect.andThen(first(events), second(events))

/** Writes warnings to standard error, because standard output belongs to the application. */
const quiet = Layer.succeed(Logger.LogToStderr, true)

/** Creates a runtime from a layer that was composed with Effect. */
export const fromLayer = <E>(layer: Layer.Layer<Agent.Agent, E>): Hermes => {
  const runtime = ManagedRuntime.make(Layer.provideMerge(layer, quiet))
  /**
   * Functions that release runs whose readers lag behind. Otherwise these runs would wait for their readers during
   * shutdown.
   */
  const open = new Set<() => void>()
  let isDisposed = false
  const runToEnd = async <A>(effect: Effect.Effect<A, unknown, Agent.Agent>, signal?: AbortSignal): Promise<A> => {
    // A fiber starts before it checks its signal, and may already be finished then.
    if (signal?.aborted === true) throw makeAbortedError(signal.reason)
    if (isDisposed) throw makeDisposedError()
    const exit = await runtime.runPromiseExit(effect, signal === undefined ? {} : { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw fromCause(exit.cause, signal?.reason)
  }
  const dispose = (): Promise<void> => {
    isDisposed = true
    for (const letGo of open) letGo()
    return runtime.dispose()
  }
  const hermes = {
    run: async (input: string | HermesInput) => {
      const { run, signal } = toRunInput(input)
      return await runToEnd(Agent.run(run), signal)
    },
    stream: (input: string | HermesInput) => {
      const { run, signal } = toRunInput(input)
      return EventIterator.make({
        fork: (offer) => {
          if (isDisposed) throw makeDisposedError()
          const onEvent = run.onEvent === undefined ? offer : combineListeners(run.onEvent, offer)
          return runtime.runFork(Agent.run({ ...run, streaming: run.streaming ?? true, onEvent }))
        },
        open,
        signal
      })
    },
    resume: async (input: HermesResumeInput) => {
      const { run, signal } = toResumeInput(input)
      return await runToEnd(Agent.resume(run), signal)
    },
    resumeStream: (input: HermesResumeInput) => {
      const { run, signal } = toResumeInput(input)
      return EventIterator.make({
        fork: (offer) => {
          if (isDisposed) throw makeDisposedError()
          const onEvent = run.onEvent === undefined ? offer : combineListeners(run.onEvent, offer)
          return runtime.runFork(Agent.resume({ ...run, streaming: run.streaming ?? true, onEvent }))
        },
        open,
        signal
      })
    },
    questions: (filter: Parameters<Hermes["questions"]>[0] = {}) => runToEnd(listQuestions(filter)),
    stop: async (sessionId: string) =>
      !isDisposed && (await runToEnd(Agent.Agent.use((agent) => agent.stop(sessionId)))),
    listSessions: (options: { readonly limit?: number | undefined } = {}) => runToEnd(listSessions(options.limit)),
    readSession: (sessionId: string) => runToEnd(readSession(sessionId)),
    deleteSession: (sessionId: string) => runToEnd(Agent.Agent.use((agent) => agent.deleteSession(sessionId))),
    dispose,
    [Symbol.asyncDispose]: dispose
  }
  // A run with a schema ends in a value that the schema checked.
  const typed = hermes as Hermes
  keepPerformer(typed, (work) => runToEnd(work))
  return typed
}

/** Connects the MCP servers of a runtime. Their code is not loaded without servers. */
const withServers = <E>(
  servers: HermesMcp["mcp"],
  runtime: Layer.Layer<Agent.Agent | ToolRegistry, E>
): Layer.Layer<Agent.Agent, E | ConfigError> =>
  Object.keys(servers).length === 0
    ? runtime
    : Layer.provideMerge(
        Layer.unwrap(
          Effect.map(
            Effect.promise(() => import("../../tools/mcp/Mcp.ts")),
            ({ layer }) => layer(servers)
          )
        ),
        runtime
      )

/** Creates a runtime from plain values. Throws a `ConfigError` that names each option that is unknown or invalid. */
export const createHermes = (options: HermesOptions): Hermes => {
  if (!Json.isFields(options))
    throw new HermesError("ConfigError", "createHermes takes an object of options, at least { model }")
  checkOptions(options)
  const { approve, middleware = {}, model, on = {}, store, tools = [], ...settings } = options
  const parts = {
    ...settings,
    tools: tools.flatMap((one) => (isServer(one) ? [] : [toToolset(one)])),
    hooks: toHooks(on),
    middleware: toMiddleware(middleware),
    store: makeStore(store),
    approvals:
      approve &&
      Approvals.layerCallback((question) =>
        Effect.map(
          Effect.tryPromise(async () => await approve(question)),
          (answer) => (answer === true ? "once" : answer === false ? "deny" : answer)
        )
      )
  }
  const servers = Object.fromEntries(tools.flatMap((one) => (isServer(one) ? Object.entries(one.mcp) : [])))
  if (model === "offline") return fromLayer(withServers(servers, Runtime.layer(parts)))
  if (isProvider(model)) return fromLayer(withServers(servers, Runtime.layer({ ...parts, provider: model })))
  const runtime = withServers(servers, Runtime.layer({ ...parts, routes: toRoutes(model) }))
  return fromLayer(
    Layer.catchTag(runtime, "ConfigError", (error) =>
      Layer.effect(Agent.Agent, Effect.fail(nameModelOptions(error, model)))
    )
  )
}
