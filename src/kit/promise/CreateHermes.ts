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
import * as ManagedRuntime from "effect/ManagedRuntime"
import * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Agent from "../../agent/Agent.ts"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Question } from "../../base/domain/Question.ts"
import type { RunCall } from "../../base/domain/RunDetails.ts"
import type { RunEvent } from "../../base/domain/RunEvent.ts"
import { layerFetch } from "../../base/platform/ModelTransport.ts"
import type * as Runtime from "../../program/Runtime.ts"
import * as SessionStore from "../../store/SessionStore.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import * as Approvals from "../../tools/Approvals.ts"
import type { Selection, ToolRegistry } from "../../tools/ToolRegistry.ts"
import type * as Toolset from "../../tools/Toolset.ts"
import { keepPerformer } from "./HermesServices.ts"
import { makeAbortedError, fromCause, HermesError } from "./HermesError.ts"
import {
  type BuiltinNeeds,
  type CallsOf,
  checkOptions,
  type HermesEvent,
  type HermesInput,
  type HermesOptions,
  type HermesResult,
  type HermesResumeInput,
  type HermesTools,
  isServer,
  type OptionalOutput,
  type OutputArgument,
  type PlainArgument,
  type RunArgument
} from "./HermesOptions.ts"
import { listToolsets, selectOwnTools, toDelegation } from "./PlainAgents.ts"
import { type ContextOption, readRunValue, toRunContext } from "./PlainContext.ts"
import { toHooks, toHookSettings } from "./PlainListeners.ts"
import { toMiddleware } from "./PlainMiddleware.ts"
import { isProvider, nameModelOptions, toRoutes } from "./PlainModels.ts"
import * as Options from "./PlainOptions.ts"
import { type PlainOutput, toOutput } from "./PlainOutput.ts"
import { toFallbackPolicy, toRetryPolicy } from "./PlainPolicies.ts"
import type { HermesMcp } from "./PlainServers.ts"
import { type PlainMessage, toHistory } from "./PlainPrompt.ts"
import * as PlainRun from "./PlainRun.ts"
import { type HermesSession, listQuestions, listSessions, readSession } from "./PlainSessions.ts"
import * as PlainStreams from "./PlainStreams.ts"
import { toTenants } from "./PlainTenants.ts"
import type { EventStream } from "./StreamCursor.ts"
import type { HermesTool } from "./StandardTool.ts"

/**
 * A runtime with all its sessions, or with the sessions of a tenant ({@link Hermes.forTenant}). `Context` is the value
 * that each run has to bring, `Output` the schema of the runs that name none, and `Call` the type of the tool calls in
 * results.
 */
export interface HermesView<
  Context = unknown,
  Output extends PlainOutput = PlainOutput,
  Call extends RunCall = RunCall
> {
  readonly run: {
    <Schema extends PlainOutput>(input: OutputArgument<Schema, Context>): Promise<HermesResult<Schema, Call>>
    (input: PlainArgument<Context>): Promise<HermesResult<Output, Call>>
    <Schema extends PlainOutput>(
      input: RunArgument<Schema, Context>
    ): Promise<HermesResult<OptionalOutput<Schema, Output>, Call>>
  }
  /**
   * Events of a run, in order, for one reader. The run begins when the first event is requested, and ends when the
   * reader leaves the loop, unless `whenLeft` is `continue`.
   */
  readonly stream: {
    <Schema extends PlainOutput>(input: OutputArgument<Schema, Context>): EventStream<HermesEvent<Schema, Call>>
    (input: PlainArgument<Context>): EventStream<HermesEvent<Output, Call>>
    <Schema extends PlainOutput>(
      input: RunArgument<Schema, Context>
    ): EventStream<HermesEvent<OptionalOutput<Schema, Output>, Call>>
  }
  /**
   * Events of a run for a reader that returns, in order: those behind its cursor, or all of the active run. The run may
   * be active here, in another process with the same store, or over. Without a cursor and an active run there are no
   * events. Leaving the loop does not end the run. From other processes and of runs that are over, a text arrives as a
   * whole, and events that describe only a moment are left out. Rejects with `RunLost` if the run ended without a
   * result.
   */
  readonly watch: (input: PlainStreams.WatchInput) => EventStream<RunEvent>
  /**
   * Returns the cursor before the first event of the active run of a session, in any process. Resolves with `undefined`
   * if no run is active.
   */
  readonly activeRun: (sessionId: string) => Promise<string | undefined>
  /**
   * Runs many inputs, `concurrency` of them at a time (default: 4). Resolves with the result or the error of each, in
   * the form of `Promise.allSettled`. After `dispose` all remaining inputs have the error `Disposed`.
   */
  readonly runAll: {
    <Schema extends PlainOutput>(
      inputs: Iterable<OutputArgument<Schema, Context>>,
      options?: BatchOptions
    ): Promise<ReadonlyArray<PromiseSettledResult<HermesResult<Schema, Call>>>>
    (
      inputs: Iterable<PlainArgument<Context>>,
      options?: BatchOptions
    ): Promise<ReadonlyArray<PromiseSettledResult<HermesResult<Output, Call>>>>
    <Schema extends PlainOutput>(
      inputs: Iterable<RunArgument<Schema, Context>>,
      options?: BatchOptions
    ): Promise<ReadonlyArray<PromiseSettledResult<HermesResult<OptionalOutput<Schema, Output>, Call>>>>
  }
  /**
   * Continues a suspended session with answers to its questions, in any process that has its store. Rejects with
   * `AnswerInvalid`, `QuestionAnswered`, `QuestionClosed`, `QuestionExpired` or `QuestionUnknown`, and stores nothing
   * then.
   */
  readonly resume: <Schema extends PlainOutput = Output>(
    input: HermesResumeInput<Schema> & ContextOption<Context>
  ) => Promise<HermesResult<Schema, Call>>
  /** Events of {@link resume}, in order, for one reader. */
  readonly resumeStream: <Schema extends PlainOutput = Output>(
    input: HermesResumeInput<Schema> & ContextOption<Context>
  ) => EventStream<HermesEvent<Schema, Call>>
  /** Lists the open questions of suspended sessions, oldest first: of one session, or of all. */
  readonly questions: (filter?: QuestionFilter) => Promise<ReadonlyArray<Question>>
  /**
   * Calls a tool outside of a run, with the hooks, middleware and approvals of a call by a model. A call that cannot be
   * made resolves with a failed output.
   */
  readonly callTool: (name: string, args: unknown, options?: CallOptions<Context>) => Promise<ToolOutcome>
  /** Summarizes the conversation of a session between its runs. Later runs continue from the summary. */
  readonly compactSession: (sessionId: string, options?: CompactOptions) => Promise<CompactionResult>
  /** Notifies the listeners that a session is closed. Its messages remain stored. */
  readonly endSession: (sessionId: string, end: Agent.SessionEnd) => Promise<void>
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
}

/** A runtime for code without Effect. Its own members reach the sessions of all tenants. */
export interface Hermes<
  Context = unknown,
  Output extends PlainOutput = PlainOutput,
  Call extends RunCall = RunCall
> extends HermesView<Context, Output, Call> {
  /**
   * Limits the runtime to a tenant: its runs work for the tenant, and only the tenant's sessions exist, whose ids a
   * client may name therefore. A run of another tenant rejects with `TenantRefused`, as for an unknown tenant.
   */
  readonly forTenant: (tenant: string) => HermesView<Context, Output, Call>
  /**
   * Ends all runs, which then reject with `Aborted`, and closes all resources of the runtime. Any later run rejects
   * with `Disposed`.
   */
  readonly dispose: () => Promise<void>
  readonly [Symbol.asyncDispose]: () => Promise<void>
}

interface BatchOptions {
  readonly concurrency?: number | undefined
}

/** Options of a tool call outside of a run. */
type CallOptions<Context> = Partial<ContextOption<Context>> &
  Omit<Parameters<Agent.Service["callTool"]>[0], "args" | "context" | "name">

type CompactOptions = Pick<Parameters<Agent.Service["compact"]>[0], "focus" | "keepExchanges">

/** Output of a tool call outside of a run. */
type ToolOutcome = Effect.Success<ReturnType<Agent.Service["callTool"]>>

/** Session in which a compacted conversation continues, and the sizes of the conversation. */
type CompactionResult = Effect.Success<ReturnType<Agent.Service["compact"]>>

/** Returns the toolset of a tool. */
export const toToolset = (
  one: HermesTool<never> | Toolset.Toolset<never, BuiltinNeeds>
): Toolset.Toolset<never, BuiltinNeeds> => ("toolset" in one ? one.toolset : one)

const makeStore = (store: HermesOptions["store"]) => {
  if (store === undefined) return SessionStore.layerMemoryWith({ unnamed: 0 })
  if (store === "memory") return SessionStore.layerMemory
  if (store === "none") return SessionStore.layerNone
  return "postgres" in store
    ? SessionStore.layerPostgres({ url: Redacted.make(store.postgres) })
    : SessionStore.layerSqlite({ path: store.sqlite })
}

const makeDisposedError = (): HermesError =>
  new HermesError("Disposed", "this runtime was disposed: create another one for more runs")

/** Sends the log to standard error, because standard output belongs to the application. */
export const quiet = Layer.succeed(References.LogToStderr, true)

/** Creates a runtime from a layer that was composed with Effect. */
export const fromLayer = <E>(layer: Layer.Layer<Agent.Agent, E>): Hermes => makeHermes(layer, undefined)

const checkBatch = Options.makeMembersCheck("option of a batch", { concurrency: Options.count })

/** Applies a function to each item, some at a time, and collects the results in the order of the items. */
const settleAll = async <Item, A>(
  items: Iterable<Item>,
  concurrency: number,
  apply: (item: Item) => Promise<A>
): Promise<ReadonlyArray<PromiseSettledResult<A>>> => {
  // A text is a list of its characters.
  if (typeof items === "string")
    throw new HermesError("InvalidInput", "the inputs of the batch are a text: give a list, such as [text]")
  const results: Array<PromiseSettledResult<A>> = []
  const all = Options.readPlainly("InvalidInput", "the inputs of the batch", () => Array.from(items))
  const queue = all.entries()
  const workThrough = async (): Promise<void> => {
    for (const [index, item] of queue) {
      const [result] = await Promise.allSettled([apply(item)])
      results[index] = result
    }
  }
  await Promise.all(Array.from({ length: Math.min(concurrency, all.length) }, workThrough))
  return results
}

const callOptions: Options.Checks<CallOptions<unknown>> = {
  context: Options.skipCheck,
  cwd: Options.text,
  sessionId: Options.name,
  tenant: Options.name
}
const checkCall = Options.makeMembersCheck("option of a call", callOptions)

const compactOptions: Options.Checks<CompactOptions> = { focus: Options.text, keepExchanges: Options.count }
const checkCompaction = Options.makeMembersCheck("option of a compaction", compactOptions)

const endOptions: Options.Checks<Agent.SessionEnd> = {
  reason: Options.makeChoiceCheck(["shutdown", "session_boundary", "new_session", "session_expired", "compression"]),
  next: Options.text
}
const checkEnd = Options.makeMembersCheck("option of an end", endOptions, ["reason"])

const checkListing = Options.makeMembersCheck("option of a list", { limit: Options.count })

/** Selection of open questions. */
interface QuestionFilter {
  readonly sessionId?: string | undefined
  readonly audience?: string | undefined
  readonly kind?: Question["kind"] | undefined
  readonly limit?: number | undefined
}

const questionFilter: Options.Checks<QuestionFilter> = {
  sessionId: Options.name,
  audience: Options.text,
  kind: Options.makeChoiceCheck(["approval", "form", "text", "event", "time"]),
  limit: Options.count
}
const checkQuestionFilter = Options.makeMembersCheck("option of a list of questions", questionFilter)

/** Runs an effect with the services of a runtime, and rejects with its failure. */
type RunToEnd = <A>(effect: Effect.Effect<A, unknown, Agent.Agent>) => Promise<A>

/** Creates the methods that are not runs. */
const makeMethods = (runToEnd: RunToEnd) => ({
  callTool: async (name: string, args: unknown, options: CallOptions<unknown> = {}) => {
    Options.requireArgument(name, Options.text, "name")
    Options.requireArgument(options, checkCall, "options")
    const { context, ...rest } = options
    const run = context === undefined ? {} : { context: toRunContext(context) }
    return await runToEnd(Agent.Agent.use((agent) => agent.callTool({ ...rest, name, args, ...run })))
  },
  compactSession: async (sessionId: string, options: CompactOptions = {}) => {
    Options.requireArgument(sessionId, Options.name, "sessionId")
    Options.requireArgument(options, checkCompaction, "options")
    return await runToEnd(Agent.Agent.use((agent) => agent.compact({ ...options, sessionId })))
  },
  endSession: async (sessionId: string, end: Agent.SessionEnd) => {
    Options.requireArgument(sessionId, Options.name, "sessionId")
    Options.requireArgument(end, checkEnd, "end")
    return await runToEnd(Agent.Agent.use((agent) => agent.finalize(sessionId, end)))
  },
  questions: async (filter: QuestionFilter = {}) => {
    Options.requireArgument(filter, checkQuestionFilter, "filter")
    return await runToEnd(listQuestions(filter))
  },
  listSessions: async (options: { readonly limit?: number | undefined } = {}) => {
    Options.requireArgument(options, checkListing, "options")
    return await runToEnd(listSessions(options.limit))
  },
  readSession: async (sessionId: string) => {
    Options.requireArgument(sessionId, Options.name, "sessionId")
    return await runToEnd(readSession(sessionId))
  },
  deleteSession: async (sessionId: string) => {
    Options.requireArgument(sessionId, Options.name, "sessionId")
    return await runToEnd(Agent.Agent.use((agent) => agent.deleteSession(sessionId)))
  }
})

/** A runtime whose runs and readers are started. */
interface StartedRuntime {
  readonly runtime: ManagedRuntime.ManagedRuntime<Agent.Agent, unknown>
  /** Streams of the runtime for a tenant. */
  readonly makeStreams: PlainStreams.StreamsMaker
  /** Selection of tools for runs that make none. */
  readonly own: Selection | undefined
  readonly isDisposed: () => boolean
}

/** Creates the view of a tenant, or of all sessions without one. */
const makeView = ({ isDisposed, makeStreams, own, runtime }: StartedRuntime, tenant: string | undefined) => {
  const limitToTenant = <A, E, R>(work: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
    tenant === undefined ? work : Effect.provideService(work, CurrentTenant, tenant)
  const runToEnd = async <A>(effect: Effect.Effect<A, unknown, Agent.Agent>, signal?: AbortSignal): Promise<A> => {
    // A fiber starts before it checks its signal, and may already be finished then.
    if (signal?.aborted === true) throw makeAbortedError(signal.reason)
    if (isDisposed()) throw makeDisposedError()
    const exit = await runtime.runPromiseExit(limitToTenant(effect), signal === undefined ? {} : { signal })
    if (Exit.isSuccess(exit)) return exit.value
    throw fromCause(exit.cause, signal?.reason)
  }
  const runInput = async (input: string | HermesInput) => {
    const run = PlainRun.planRun(input)
    return await runToEnd(PlainRun.startRun(run, own), run.signal)
  }
  const fork = <A, E>(work: Effect.Effect<A, E, Agent.Agent>) => {
    if (isDisposed()) throw makeDisposedError()
    return runtime.runFork(limitToTenant(work))
  }
  const streams = makeStreams(fork, tenant)
  const view = {
    run: runInput,
    runAll: async (inputs: Iterable<string | HermesInput>, options: BatchOptions = {}) => {
      Options.requireArgument(options, checkBatch, "options")
      return await settleAll(inputs, options.concurrency ?? 4, runInput)
    },
    stream: (input: string | HermesInput) => streams.stream(PlainRun.planRun(input)),
    resume: async (input: HermesResumeInput) => {
      const run = PlainRun.planResumption(input)
      return await runToEnd(PlainRun.startRun(run, own), run.signal)
    },
    resumeStream: (input: HermesResumeInput) => streams.stream(PlainRun.planResumption(input)),
    watch: streams.watch,
    activeRun: async (sessionId: string) => {
      Options.requireArgument(sessionId, Options.name, "sessionId")
      return await runToEnd(streams.findActive(sessionId))
    },
    ...makeMethods(runToEnd),
    stop: async (sessionId: string) => {
      Options.requireArgument(sessionId, Options.name, "sessionId")
      return !isDisposed() && (await runToEnd(Agent.Agent.use((agent) => agent.stop(sessionId))))
    }
  }
  return { view, runToEnd }
}

/** Maximum number of tenants whose views are kept. */
const mostViews = 1_000

/** Creates a runtime. `own` is the selection of tools for runs that make none. */
const makeHermes = <E>(layer: Layer.Layer<Agent.Agent, E>, own: Selection | undefined): Hermes => {
  const runtime = ManagedRuntime.make(Layer.provideMerge(layer, quiet))
  /**
   * Functions that release runs whose readers lag behind. Otherwise these runs would wait for their readers during
   * shutdown.
   */
  const open = new Set<() => void>()
  let isDisposed = false
  const dispose = (): Promise<void> => {
    isDisposed = true
    for (const letGo of open) letGo()
    return runtime.dispose()
  }
  const started: StartedRuntime = {
    runtime,
    makeStreams: PlainStreams.makeStreams({ open, own }),
    own,
    isDisposed: () => isDisposed
  }
  const views = new Map<string, HermesView>()
  const makeTenantView = (tenant: string): HermesView => {
    const made = makeView(started, tenant)
    // A run with a schema ends in a value that the schema checked.
    const view = made.view as HermesView
    keepPerformer(view, (work) => made.runToEnd(work))
    const [oldest] = views.keys()
    if (oldest !== undefined && views.size >= mostViews) views.delete(oldest)
    views.set(tenant, view)
    return view
  }
  const { runToEnd, view } = makeView(started, undefined)
  const hermes = {
    ...view,
    forTenant: (tenant: string) => {
      Options.requireArgument(tenant, Options.name, "tenant")
      return views.get(tenant) ?? makeTenantView(tenant)
    },
    dispose,
    [Symbol.asyncDispose]: dispose
  }
  // A run with a schema ends in a value that the schema checked.
  const typed = hermes as Hermes
  keepPerformer(typed, (work) => runToEnd(work))
  return typed
}

/** Creates a runtime from the module of runtimes, which is loaded for the first run: most of the package is behind it. */
export const whenLoaded = <A, E, R>(make: (runtime: typeof Runtime) => Layer.Layer<A, E, R>): Layer.Layer<A, E, R> =>
  Layer.unwrap(
    Effect.map(
      Effect.promise(() => import("../../program/Runtime.ts")),
      make
    )
  )

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

/** Creates the layer that asks the application about dangerous calls. */
const makeApprovals = (approve: NonNullable<HermesOptions<never>["approve"]>) =>
  Approvals.layerCallback((question) =>
    Effect.flatMap(readRunValue, (context) =>
      Effect.map(
        // The types of the runtime's options state which context its functions read.
        Effect.tryPromise(async () => await approve(question, { context: context as never })),
        (answer) => (answer === true ? "once" : answer === false ? "deny" : answer)
      )
    )
  )

/** Converts the options that do not concern the model. */
const toParts = ({
  agents = [],
  approve,
  delegation = {},
  fallback,
  fetch: _fetch,
  hookLimits,
  middleware = {},
  model: _,
  on = {},
  output,
  prefill,
  retry,
  store,
  tenants,
  tools = [],
  ...settings
}: HermesOptions<never>) => {
  const toolsets = tools.flatMap((one) => (isServer(one) ? [] : [toToolset(one)]))
  return {
    ...settings,
    delegation: toDelegation(agents, delegation),
    tools: [...toolsets, ...listToolsets(agents, toolsets)],
    hooks: toHooks(on),
    middleware: toMiddleware(middleware),
    store: makeStore(store),
    approvals: approve && makeApprovals(approve),
    ...(hookLimits === undefined ? {} : { hookSettings: toHookSettings(hookLimits) }),
    ...(tenants === undefined ? {} : { tenants: toTenants(tenants, store) }),
    ...(output === undefined ? {} : { output: toOutput(output) }),
    ...(prefill === undefined ? {} : { prefill: toHistory(prefill, "prefill") }),
    ...(retry === undefined ? {} : { retry: toRetryPolicy(retry) }),
    ...(fallback === undefined ? {} : { fallback: toFallbackPolicy(fallback) })
  }
}

/** Options of a runtime that calls only its `tools`. Sub-agents and plugins add tools of unknown types. */
interface OnlyOwnTools {
  readonly agents?: undefined
  readonly plugins?: undefined
}

/** Creates a runtime from plain values. Throws a `ConfigError` that names each option that is unknown or invalid. */
export const createHermes: {
  <
    Context = unknown,
    Output extends PlainOutput = PlainOutput,
    const Tools extends ReadonlyArray<unknown> = HermesTools<Context>
  >(
    options: HermesOptions<Context, Output, Tools> & OnlyOwnTools
  ): Hermes<Context, Output, CallsOf<Tools>>
  <Context = unknown, Output extends PlainOutput = PlainOutput>(
    options: HermesOptions<Context, Output>
  ): Hermes<Context, Output>
} = <Context>(options: HermesOptions<Context>): Hermes<Context, never, never> =>
  // By its type, a runtime whose functions read a context is only run with one. A run with a schema ends in a value
  // that the schema checked, and all its calls are calls of its tools.
  Options.readPlainly("ConfigError", "the options", () => makeFromOptions(options)) as Hermes<Context, never, never>

const makeFromOptions = <Context>(options: HermesOptions<Context>): Hermes => {
  if (!Json.isFields(options))
    throw new HermesError("ConfigError", "createHermes takes an object of options, at least { model }")
  checkOptions(options)
  const { agents = [], fetch, model, tools = [] } = options
  const parts = toParts(options)
  const servers = Object.fromEntries(tools.flatMap((one) => (isServer(one) ? Object.entries(one.mcp) : [])))
  const own = selectOwnTools(
    agents,
    tools.flatMap((one) => (isServer(one) ? [] : [toToolset(one)]))
  )
  const makeRuntime = (): Layer.Layer<Agent.Agent, unknown> => {
    if (model === "offline")
      return withServers(
        servers,
        whenLoaded(({ layer }) => layer(parts))
      )
    if (isProvider(model))
      return withServers(
        servers,
        whenLoaded(({ layer }) => layer({ ...parts, provider: model }))
      )
    const routes = toRoutes(model)
    const routed = withServers(
      servers,
      whenLoaded(({ layer }) => layer({ ...parts, routes }))
    )
    return Layer.catchTag(routed, "ConfigError", (error) =>
      Layer.effect(Agent.Agent, Effect.fail(nameModelOptions(error, model)))
    )
  }
  const runtime = makeRuntime()
  return makeHermes(fetch === undefined ? runtime : Layer.provideMerge(runtime, layerFetch(fetch)), own)
}
