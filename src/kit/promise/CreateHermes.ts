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
import type * as Prompt from "effect/ai/Prompt"
import * as Agent from "../../agent/Agent.ts"
import type { AgentSettings, RunInput, StartOptions } from "../../agent/RunInput.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { RunEvent, RunResult, ValueDelta } from "../../base/domain/RunEvent.ts"
import * as Hooks from "../../hooks/Hooks.ts"
import { type HookEvents, type HookName, names as hookNames } from "../../hooks/Payloads.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import type { ModelRoute } from "../../models/routing/EmbeddedRoutes.ts"
import * as Runtime from "../../program/Runtime.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import type { Question } from "../../tools/approval/Question.ts"
import * as Approvals from "../../tools/Approvals.ts"
import type * as FileTools from "../../tools/builtin/FileTools.ts"
import type * as TerminalTools from "../../tools/builtin/TerminalTools.ts"
import type * as Todo from "../../tools/builtin/Todo.ts"
import type { NeedsOf } from "../../tools/ToolRegistry.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import * as EventIterator from "./EventIterator.ts"
import { keepPerformer } from "./HermesServices.ts"
import { makeAbortedError, fromCause, HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"
import { type PartialValueOf, type PlainOutput, toOutput, type ValueOf } from "./PlainOutput.ts"
import type { HermesMcp } from "./PlainServers.ts"
import { type PlainMessage, type PlainPrompt, toHistory, toPrompt } from "./PlainPrompt.ts"
import type { HermesTool } from "./StandardTool.ts"

/** A provider and a model in one text, such as `ollama/qwen3`. */
export type HermesModelName = `${string}/${string}`

/**
 * A model, its provider, and one API key or several keys used in turn. Without a provider and an address, a model
 * `provider/model` names both.
 */
export interface HermesModel extends Omit<ModelRoute, "apiKey" | "retry"> {
  readonly apiKey?: string | ReadonlyArray<string> | undefined
}

/** Listeners, by the name of their hook. A listener may return a promise, and an answer if the hook accepts one. */
export type Listeners = { readonly [Name in HookName]?: ((event: HookEvents[Name]) => unknown) | undefined }

/** Services that the built-in toolsets need, which every runtime provides. */
type BuiltinNeeds = NeedsOf<typeof FileTools.toolset | typeof TerminalTools.toolset | typeof Todo.toolset>

/** Options of a runtime. */
export interface HermesOptions extends Pick<
  AgentSettings,
  | "budget"
  | "cwd"
  | "identity"
  | "instructions"
  | "maxIterations"
  | "maxOutputTokens"
  | "reasoningEffort"
  | "stopTools"
  | "temperature"
> {
  /**
   * Models in order of preference: the first is called first, and the others are fallbacks if it cannot answer.
   * `offline` is the built-in stand-in, which uses no network. `provider/model` is a model that needs no key. A
   * layer is a custom provider, such as a model of the AI SDK (`FromAiSdk.layer` of `hermes-effect/ai-sdk`).
   */
  readonly model: "offline" | HermesModelName | HermesModel | ReadonlyArray<HermesModel> | Layer.Layer<Provider>
  /**
   * Tools created from functions (`tool`), MCP servers (`mcp`), and toolsets of the package: `FileTools.toolset`, …
   */
  readonly tools?: ReadonlyArray<HermesTool | HermesMcp | Toolset.Toolset<never, BuiltinNeeds>> | undefined
  readonly on?: Listeners | undefined
  /**
   * Decides whether a dangerous call may run: `true` or `"once"`, `"session"`, …; any other value denies the call.
   * Without this option, dangerous calls are denied.
   */
  readonly approve?: ((question: Question) => unknown) | undefined
  /**
   * Hosts that tools may access without an approval: `example.com`, `*.example.com`, `localhost:8080`. `approve` is
   * asked about all other hosts.
   */
  readonly hosts?: ReadonlyArray<string> | undefined
  /**
   * Store of sessions. By default, sessions with a `sessionId` are stored in memory, and other sessions end with their
   * run. `"memory"` also stores sessions without a name, `"none"` stores none after its run, and a SQLite file stores
   * all of them. Memory holds 5,000 sessions, each for 24 hours after its last run.
   */
  readonly store?: "memory" | "none" | { readonly sqlite: string } | undefined
}

/** Input of one run. */
export interface HermesInput<Schema extends PlainOutput = PlainOutput> extends Omit<
  RunInput,
  "context" | "hasUnreadMessage" | "history" | "onEvent" | "onUsageAfter" | "prompt"
> {
  /** The user's message: a text, or texts, images and files as the AI SDK writes them. */
  readonly prompt: PlainPrompt
  /** Conversation that a new session begins with: `{ role, content }`, with calls and results of tools. */
  readonly history?: ReadonlyArray<PlainMessage | Prompt.Message> | undefined
  /**
   * Schema of the value in which the run ends: of Zod, ArkType, Valibot or Effect, or a JSON Schema. The result has the
   * checked `value`; a run without a value rejects with `InvalidOutput`.
   */
  readonly output?: Schema | undefined
  /** Signal that ends the run, which then rejects with `Aborted`. */
  readonly signal?: AbortSignal | undefined
  /** Called with each event. If it returns a promise, the run waits for it. */
  readonly onEvent?: ((event: RunEvent) => unknown) | undefined
}

/** Result of a run. With an `output` schema, `value` is the value of the answer. */
export type HermesResult<Schema> =
  unknown extends ValueOf<Schema> ? RunResult : RunResult & { readonly value: ValueOf<Schema> }

/** Events of a run. With an `output` schema, `ValueDelta` and the result carry its types. */
export type HermesEvent<Schema> =
  unknown extends ValueOf<Schema>
    ? RunEvent
    : | Exclude<RunEvent, RunResult | typeof ValueDelta.Type>
      | (typeof ValueDelta.Type & { readonly value: PartialValueOf<Schema> })
      | HermesResult<Schema>

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
   * Asks the run of a session to stop; it ends with its results so far. Returns false if the session has no active run.
   */
  readonly stop: (sessionId: string) => Promise<boolean>
  /**
   * Removes the conversation of a session, with its sub-agents and its run record. Resolves with false if the session
   * is unknown, and rejects with `SessionBusy` while one of its runs is active.
   */
  readonly deleteSession: (sessionId: string) => Promise<boolean>
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

const modelOptions: Options.Checks<HermesModel> = {
  provider: Options.text,
  model: Options.text,
  apiKey: Options.makeKindCheck(
    "a key, or a list of keys",
    (key) => typeof key === "string" || (Array.isArray(key) && key.every((one) => typeof one === "string"))
  ),
  baseUrl: Options.text,
  apiMode: Options.text,
  headers: Options.fields,
  abilities: Options.fields
}

const isModelName = (value: unknown): value is HermesModelName => typeof value === "string" && /^[\w-]+\/./u.test(value)

const oneModel = Options.makeMembersCheck("option of a model", modelOptions, ["model"])

const expectedModel =
  '{ provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'

const checkModelChoice: Options.Check = (value, at) => {
  if (value === "offline" || isModelName(value) || Layer.isLayer(value)) return []
  const models: ReadonlyArray<unknown> = Array.isArray(value) ? value : [value]
  if (models.length === 0 || !models.every(Json.isFields)) return [`${at}: expected ${expectedModel}`]
  return models.flatMap((one, index) => oneModel(one, Array.isArray(value) ? `${at}[${index}]` : at))
}

const checkToolList: Options.Check = (value, at) => {
  if (!Array.isArray(value)) return Options.list(value, at)
  const names = new Set<unknown>()
  return value.flatMap((one: unknown, index) => {
    if (isServer(one)) return []
    const toolset = Json.isFields(one) && "toolset" in one ? one["toolset"] : one
    if (!Json.isFields(toolset) || !("bind" in toolset))
      return [`${at}[${index}] is not a tool: make it by tool({ … }), or give a toolset of the package`]
    if (names.has(toolset["name"]))
      return [`${at}[${index}]: another tool has the name ${JSON.stringify(toolset["name"])}: give each its own`]
    names.add(toolset["name"])
    return []
  })
}

const limits: Options.Checks<NonNullable<HermesOptions["budget"]>> = {
  tokens: Options.amount,
  dollars: Options.amount,
  seconds: Options.amount,
  toolCalls: Options.amount
}
const budget = Options.makeMembersCheck("limit", limits)

const runtimeOptions: Options.Checks<HermesOptions> = {
  model: checkModelChoice,
  tools: checkToolList,
  on: Options.makeMembersCheck("hook", Object.fromEntries(hookNames.map((name) => [name, Options.callback]))),
  approve: Options.callback,
  hosts: Options.list,
  store: Options.makeKindCheck(
    '"memory", "none" or { sqlite: path }',
    (store) => store === "memory" || store === "none" || (Json.isFields(store) && typeof store["sqlite"] === "string")
  ),
  budget,
  cwd: Options.text,
  identity: Options.text,
  instructions: Options.text,
  maxIterations: Options.count,
  maxOutputTokens: Options.count,
  reasoningEffort: Options.effort,
  stopTools: Options.list,
  temperature: Options.number
}

const runOptions: Options.Checks<HermesInput> = {
  prompt: Options.makeKindCheck(
    "a text, or a list of parts",
    (prompt) => typeof prompt === "string" || Array.isArray(prompt)
  ),
  sessionId: Options.text,
  goesOn: Options.flag,
  expectedSession: Options.fields,
  openCalls: Options.makeChoiceCheck(["close", "run"]),
  onInterrupt: Options.makeChoiceCheck(["close", "leave"]),
  source: Options.text,
  platform: Options.text,
  history: Options.list,
  output: Options.makeKindCheck(
    "a schema",
    (output) => (typeof output === "object" && output !== null) || typeof output === "function"
  ),
  systemPrompt: Options.text,
  ephemeralSystemPrompt: Options.text,
  cwd: Options.text,
  tools: Options.fields,
  seed: Options.number,
  stopTools: Options.list,
  maxIterations: Options.count,
  budget,
  route: Options.fields,
  reasoningEffort: Options.effort,
  streaming: Options.flag,
  readsText: Options.flag,
  signal: Options.makeKindCheck("an AbortSignal", (signal) => signal instanceof AbortSignal),
  onEvent: Options.callback
}

const optionsProblems = Options.makeMembersCheck("option of createHermes", runtimeOptions, ["model"])
const inputProblems = Options.makeMembersCheck("option of a run", runOptions)

/** Throws an error that lists all problems. */
const throwProblems = (tag: "ConfigError" | "InvalidInput", problems: ReadonlyArray<string>): void => {
  if (problems.length > 0) throw new HermesError(tag, problems.join("; "))
}

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

const isServer = (one: unknown): one is HermesMcp => Json.isFields(one) && Json.isFields(one["mcp"])

const makeStore = (store: HermesOptions["store"]) => {
  if (store === undefined) return SessionStore.layerMemoryWith({ unnamed: 0 })
  if (store === "memory") return SessionStore.layerMemory
  return store === "none" ? SessionStore.layerNone : SessionStore.layerSqlite({ path: store.sqlite })
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
  throwProblems("InvalidInput", inputProblems(input, ""))
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
    stop: async (sessionId: string) =>
      !isDisposed && (await runToEnd(Agent.Agent.use((agent) => agent.stop(sessionId)))),
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
  throwProblems("ConfigError", optionsProblems(options, ""))
  const { approve, model, on = {}, store, tools = [], ...settings } = options
  const parts = {
    ...settings,
    tools: tools.flatMap((one) => (isServer(one) ? [] : [toToolset(one)])),
    hooks: toHooks(on),
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
  const servers = Object.assign({}, ...tools.flatMap((one) => (isServer(one) ? [one.mcp] : [])))
  if (model === "offline") return fromLayer(withServers(servers, Runtime.layer(parts)))
  if (isProvider(model)) return fromLayer(withServers(servers, Runtime.layer({ ...parts, provider: model })))
  const runtime = withServers(servers, Runtime.layer({ ...parts, routes: toRoutes(model) }))
  return fromLayer(
    Layer.catchTag(runtime, "ConfigError", (error) =>
      Layer.effect(Agent.Agent, Effect.fail(nameModelOptions(error, model)))
    )
  )
}
