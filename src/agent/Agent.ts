/**
 * An agent sends a user's message to a model, runs the tools that the model calls, and repeats this until an answer.
 *
 * **Details**
 *
 * `run` returns the result, and `stream` returns the events of the same run as they happen. Failures are typed: a run
 * that ends with output is a `RunResult` with an exact `exit`, and any other failure is an `AgentError`. Interrupting
 * the fiber (or ending the stream early) interrupts the model call and every running tool, closes each open call
 * according to its known state (it did not start, or it may have happened), and leaves the session ready to be
 * continued; {@link Service.stop} does the same and returns a result. A session has one run at a time across all agents
 * and processes that use its store.
 *
 * **Example** (The smallest run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 *
 * const program = Agent.run({ prompt: "Summarise README.md" })
 *
 * program.pipe(Effect.provide(Runtime.layer()), Effect.runPromise)
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 and §5.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import {
  type AgentError,
  type ConfigError,
  InvalidInput,
  type SessionBusy,
  type SessionStoreError
} from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import { RunRecorder } from "../base/domain/RunRecorder.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import * as Hooks from "../hooks/Hooks.ts"
import * as Middleware from "../middleware/Middleware.ts"
import * as EntryServices from "../middleware/EntryServices.ts"
import * as Stack from "../middleware/Stack.ts"
import type { Output } from "../base/domain/AnswerFormat.ts"
import { MemoryProvider } from "../base/domain/MemoryProvider.ts"
import { type PromptLayer, PromptSources } from "../tools/prompt/SystemPrompt.ts"
import { CompactionPort } from "../models/routing/CompactionPort.ts"
import { ModelRouter } from "../models/routing/ModelRouter.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import { RunRecord } from "../store/RunRecord.ts"
import * as SessionChain from "../store/SessionChain.ts"
import { SessionMaintenance } from "../store/SessionMaintenance.ts"
import { SessionStore } from "../store/SessionStore.ts"
import * as Approvals from "../tools/Approvals.ts"
import { FileState } from "../tools/builtin/file/FileState.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import { UsageAccounts } from "./Budget.ts"
import * as AgentSpans from "./AgentSpans.ts"
import * as AnswerValue from "./AnswerValue.ts"
import * as CallTool from "./CallTool.ts"
import * as BackgroundReview from "./BackgroundReview.ts"
import * as EventHandoff from "./EventHandoff.ts"
import * as ContextFit from "./ContextFit.ts"
import * as Continuation from "./Continuation.ts"
import { Children, make as makeChildren } from "./Children.ts"
import * as RunEnd from "./RunEnd.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import { emit, type Lineage, noteEnd } from "./RunState.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import * as RunConduct from "./RunConduct.ts"
import * as RunStart from "./RunStart.ts"
import type { AgentSettings, EventOf, OutputInput, ResultOf, RunInput, RunOptions, StartOptions } from "./RunInput.ts"
import { type AgentServices, type MiddlewareFailure, Services } from "./Services.ts"
import * as Tenancy from "./Tenancy.ts"
import * as SessionOpening from "./SessionOpening.ts"
import * as StopTools from "./StopTools.ts"
export type { AgentSettings, RunInput } from "./RunInput.ts"

/** Number of events by which a slow reader of {@link Service.stream} may lag before the run waits for it. */
const streamBuffer = 256

/**
 * An agent. `E` is the failures that its middleware adds to a run, `R` is the data (`RunContext`) that its tools,
 * middleware and hooks read from each run, and `Value` is the value in which a run ends if the agent has an `output`
 * schema, whose JSON has the type `ValueJson`.
 */
export interface Service<out E = never, R = never, out Value = unknown, out ValueJson = unknown> {
  /** Runs the agent. With an `output` schema, the result carries the decoded `value`. */
  readonly run: <A = Value, I = ValueJson>(
    input: RunInput<R> & OutputInput<A, I>
  ) => Effect.Effect<ResultOf<A>, AgentError | E>
  /** Events of a run, ending with `RunFinished`. Ending the stream early interrupts the run. */
  readonly stream: <A = Value, I = ValueJson>(
    input: RunInput<R> & OutputInput<A, I>
  ) => Stream.Stream<EventOf<A, I>, AgentError | E>
  /** Runs a tool outside of any run, in the same way as a call by a model; see `CallTool`. */
  readonly callTool: (call: CallTool.Call<R>) => Effect.Effect<CallTool.Outcome>
  /**
   * Compacts the stored conversation of a session between its runs. The conversation continues in a new session, as
   * after a run that was compacted. The session is unchanged if the conversation is too short to compact or no summary
   * can be produced.
   */
  readonly compact: (
    input: RunStart.CompactInput & RunContext.ContextInput<R>
  ) => Effect.Effect<ContextFit.CompactionResult, AgentError>
  /** Returns the system prompt layers of a new session for this input. Nothing is run or stored. */
  readonly promptLayers: (input?: SessionOpening.PromptInput) => Effect.Effect<ReadonlyArray<PromptLayer>, AgentError>
  /** Asks the run of a session to stop with its results so far. Returns false if no run is active. */
  readonly stop: (sessionId: string) => Effect.Effect<boolean>
  /**
   * Notifies the listeners that a session is closed (`on_session_finalize`) because it ended or was left for another
   * session. Sessions that are still open when the agent's layer closes are closed at that time, each once. A session
   * that runs again is reopened.
   */
  readonly finalize: (sessionId: string, end: SessionEnd) => Effect.Effect<void>
  /**
   * Removes the conversation of a session from the store, with its sub-agents and its run record. Returns false if the
   * session is unknown, and fails while one of its runs is active.
   */
  readonly deleteSession: (sessionId: string) => Effect.Effect<boolean, SessionBusy | SessionStoreError>
}

/** The last run of a session. */
interface LastRun {
  readonly turnId: Ids.TurnId
  /** False if the session and its record were removed. */
  readonly isStored: boolean
}

/** Details of the end of a session. */
export interface SessionEnd {
  readonly reason: "shutdown" | "session_boundary" | "new_session" | "session_expired" | "compression"
  /** Session that replaces the ended one. */
  readonly next?: string | undefined
}

/** The agent of a runtime. Applications whose middleware adds failures define a separate key for their agent. */
export class Agent extends Context.Service<Agent, Service>()("hermes-effect/agent/Agent") {}

/** Maximum number of open sessions of an agent. One more closes the session that was idle longest. */
const maxOpenSessions = 1000

/** Parts of an agent that are not services in its context. */
export interface Options<Middlewares extends ReadonlyArray<Middleware.Any>> extends AgentSettings {
  /** Middleware of the agent. The first entry is outermost. */
  readonly middleware?: Middlewares | undefined
  /** Middleware contributed by plugins, which wraps `middleware`. */
  readonly outermost?: ReadonlyArray<Middleware.Contained> | undefined
}

/** A list of middleware that adds no failures other than `E` to a run and reads no data other than `R`. */
export type Bounded<E, R, Middlewares extends ReadonlyArray<Middleware.Any>> = Middlewares &
  Middleware.AtMost<E, Middlewares> &
  RunContext.AtMost<R, Middleware.Needs<Middlewares>>

/** {@link Options} whose middleware is {@link Bounded}. */
export interface BoundedOptions<
  E,
  R,
  Middlewares extends ReadonlyArray<Middleware.Any>,
  Value = unknown,
  ValueJson = unknown
> extends Omit<Options<Middlewares>, "middleware" | "output"> {
  readonly middleware?: Bounded<E, R, Middlewares> | undefined
  /** Schema of the value in which each run ends; see `OutputInput`. */
  readonly output?: Output<Value, ValueJson> | undefined
}

/** Requires the output schema of an agent whose key names the type of the value. */
export type RequiredOutput<Value, ValueJson> = unknown extends Value
  ? unknown
  : { readonly output: Output<Value, ValueJson> }

/**
 * Creates an agent over the router, tools and store in its context. Failures of its middleware appear in the type of
 * `run`, and requirements of its middleware in the requirements of this effect. Its sessions are closed with the scope.
 * Fails if two entries of the stack use one key for different run state.
 */
export const make = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>({
  middleware,
  outermost = [],
  ...settings
}: Options<Middlewares> = {}): Effect.Effect<
  Service<Middleware.Errors<Middlewares>, RunContext.Of<Middleware.Needs<Middlewares>>>,
  ConfigError,
  ModelRouter | ToolRegistry | SessionStore | Scope.Scope | Exclude<Middleware.Needs<Middlewares>, RunContext.PerRun>
> =>
  RunContext.deferKeys(
    Effect.gen(function* () {
      const hooks = Option.getOrUndefined(yield* Effect.serviceOption(Hooks.Hooks)) ?? (yield* Hooks.make())
      const registry = yield* ToolRegistry
      // All additions are known when the agent is built.
      yield* hooks.settle
      yield* registry.settle
      const subAgents = settings.delegation?.agents ?? []
      yield* StopTools.warnUnknown(
        [settings, ...subAgents.map((one) => one.settings)].flatMap((one) => one?.stopTools ?? []),
        registry
      )
      const stacked = [...outermost, ...(yield* Middleware.arrangeEntries(middleware ?? []))]
      const services: AgentServices = {
        router: yield* ModelRouter,
        registry,
        store: yield* SessionStore,
        record: Option.getOrUndefined(yield* Effect.serviceOption(RunRecord)),
        interceptors: { stack: yield* Stack.makeChecked(stacked), hooks },
        // Without an approver, calls that need approval do not run.
        approvals: Option.getOrElse(yield* Effect.serviceOption(Approvals.Approvals), () =>
          Approvals.makeUnattended(hooks)
        ),
        compaction: yield* CompactionPort,
        children: Option.getOrElse(yield* Effect.serviceOption(Children), () => makeChildren()),
        accounts: Option.getOrUndefined(yield* Effect.serviceOption(UsageAccounts)),
        files: Option.getOrUndefined(yield* Effect.serviceOption(FileState)),
        memory: yield* MemoryProvider,
        promptSources: yield* PromptSources,
        settings
      }
      /** Services for the runs of each sub-agent: its own settings, and its middleware inside the shared middleware. */
      const ofSubAgents = new Map<string, AgentServices>()
      for (const one of subAgents) {
        ofSubAgents.set(one.name, {
          ...services,
          settings: {
            ...settings,
            identity: undefined,
            instructions: undefined,
            temperature: undefined,
            stopTools: undefined,
            output: undefined,
            ...one.settings
          },
          interceptors: { stack: yield* Stack.makeChecked([...stacked, ...(one.middleware ?? [])]), hooks }
        })
      }
      const selectServices = (lineage: Lineage | undefined): AgentServices =>
        (lineage?.agent === undefined ? undefined : ofSubAgents.get(lineage.agent)) ?? services
      const built = yield* Effect.context<Middleware.Needs<Middlewares>>()
      const needs = Context.add(built, EntryServices.AgentContext, built)
      const active = new Map<string, Deferred.Deferred<void, SessionBusy>>()

      /**
       * Sessions of top-level runs with their last run, the most recent last.
       */
      const open = new Map<string, LastRun>()
      const noteRemoval = (sessionId: string): void => {
        const last = open.get(sessionId)
        if (last !== undefined) open.set(sessionId, { ...last, isStored: false })
      }
      yield* services.store.dropped?.((ids) => ids.forEach(noteRemoval)) ?? Effect.void

      /** Records the end of a session. The end of a session that is not stored any more is only told to listeners. */
      const recordEnd = (sessionId: Ids.SessionId, last: LastRun | undefined, reason: string): Effect.Effect<void> => {
        const { record } = services
        const write = last?.isStored === false ? record?.announce : record?.append
        return write === undefined || last === undefined
          ? Effect.void
          : Effect.flatMap(Clock.currentTimeMillis, (at) =>
              write([{ sessionId, turnId: last.turnId, at, event: { _tag: "SessionEnded", reason } }])
            )
      }

      const memories = yield* MemoryTurns.makeNotifier

      const finalize: Service["finalize"] = (sessionId, { next, reason }) =>
        Effect.suspend(() => {
          const last = open.get(sessionId)
          open.delete(sessionId)
          const old = Ids.SessionId.make(sessionId)
          const told = hooks.emit("on_session_finalize", () => ({
            session_id: old,
            platform: settings.platform ?? "library",
            reason,
            ...(next === undefined ? {} : { old_session_id: old, new_session_id: Ids.SessionId.make(next) })
          }))
          const remembered = Effect.provideService(memories.ended(old), Services, services)
          return Effect.andThen(Effect.andThen(told, remembered), recordEnd(old, last, reason))
        })
      const keepOpen = (sessionId: string, turnId: Ids.TurnId): Effect.Effect<void> =>
        Effect.suspend(() => {
          open.delete(sessionId)
          open.set(sessionId, { turnId, isStored: true })
          const idle = open.size > maxOpenSessions ? Array.from(open.keys()).find((id) => !active.has(id)) : undefined
          return idle === undefined ? Effect.void : finalize(idle, { reason: "session_expired" })
        })

      const stop: Service["stop"] = (sessionId) =>
        Effect.suspend(() => {
          const stopped = active.get(sessionId)
          return stopped === undefined ? Effect.succeed(false) : Effect.as(Deferred.succeed(stopped, undefined), true)
        })

      /** Continues a compacted session in a new one: notifies the listeners and replaces the old session. */
      const continueInNewSession = (
        opened: RunStart.OpenedRun,
        input: SessionOpening.PromptInput & Pick<RunOptions, "systemPrompt">,
        reason: string
      ) =>
        Effect.tap(Continuation.make(opened, input, reason), (next) => {
          const { platform, sessionId: old } = opened.run
          if (next === undefined) return Effect.void
          return Effect.gen(function* () {
            yield* finalize(old, { reason: "compression", next })
            yield* hooks.emit("on_session_reset", () => ({
              session_id: next,
              platform,
              reason: "compression",
              old_session_id: old,
              new_session_id: next
            }))
            yield* keepOpen(next, ContextCopy.makeCompressionTurnId(next))
          })
        })

      /** Makes the caller the owner of the session in which a run continues, until the scope closes. */
      const ownSession = Effect.fnUntraced(function* (asked: string | undefined) {
        if (asked === "")
          return yield* new InvalidInput({ message: "the session id is empty: leave it out, or name one" })
        const stopped = Deferred.makeUnsafe<void, SessionBusy>()
        const acquireOwnership = Effect.fnUntraced(function* (id: Ids.SessionId) {
          const { lost } = yield* services.store.acquire(id)
          yield* Effect.acquireRelease(
            Effect.sync(() => active.set(id, stopped)),
            () => Effect.sync(() => active.delete(id))
          )
          if (lost !== undefined) yield* Effect.forkScoped(Effect.catch(lost, (busy) => Deferred.fail(stopped, busy)))
        })
        let id = asked === undefined ? yield* Ids.makeSessionId : Ids.SessionId.make(asked)
        yield* acquireOwnership(id)
        // Only the owner knows the newest session: a run that ends may create a continuation.
        let next = asked === undefined ? id : yield* services.store.newest(id)
        while (next !== id) {
          id = next
          yield* acquireOwnership(id)
          next = yield* services.store.newest(id)
        }
        return { id, stopped }
      })

      const compact = ({
        focus,
        keepExchanges,
        ...input
      }: RunStart.CompactInput): Effect.Effect<ContextFit.CompactionResult, AgentError> =>
        Effect.scoped(
          Effect.gen(function* () {
            const { id } = yield* ownSession(input.sessionId)
            const session = Option.getOrUndefined(yield* services.store.get(id))
            if (session === undefined || session.messageCount === 0) {
              const nothing = { messages: 0, tokens: 0 }
              return { sessionId: id, before: nothing, after: nothing }
            }
            const opened = yield* RunStart.openWithoutPrompt(id, input)
            const before = ContextFit.measureSize(opened.run.conversation)
            const { recorder } = opened.run
            yield* ContextFit.compactOnDemand(opened.run, { focus, keepExchanges }).pipe(
              Effect.provideService(RunRecorder, recorder),
              Effect.ensuring(recorder?.flush ?? Effect.void)
            )
            const sessionId =
              (yield* Effect.uninterruptible(continueInNewSession(opened, input, session.endReason ?? "compacted"))) ??
              id
            return {
              sessionId,
              before,
              after: sessionId === id ? before : ContextFit.measureSize(opened.run.conversation)
            }
          })
        ).pipe(Effect.provideService(Services, services))

      const reviews = Option.getOrUndefined(yield* Effect.serviceOption(BackgroundReview.BackgroundReviews))
      const surroundings = yield* Effect.context<never>()
      const tenants = Option.getOrUndefined(yield* Effect.serviceOption(Tenancy.Tenants))

      /** Starts the due reviews of a run whose result was delivered. */
      const startDueReviews = (
        { cwd, run }: RunStart.OpenedRun,
        { source }: RunOptions,
        finished: RunResult
      ): Effect.Effect<void, never, Services> =>
        reviews === undefined || settings.reviews === undefined || source === "cron" || source === "batch"
          ? Effect.void
          : Effect.flatMap(
              Effect.promise(() => import("./ReviewRun.ts")),
              ({ reviewAfterRun }) =>
                reviewAfterRun(reviews, { run, cwd, sessionId: finished.sessionId }, finished, surroundings)
            )

      const startRun = (
        input: StartOptions,
        lineage: Lineage | undefined,
        name: AgentSpans.Name = "run"
      ): Effect.Effect<RunResult, AgentError | MiddlewareFailure> => {
        const own = selectServices(lineage)
        const conducted = Effect.scoped(
          Effect.gen(function* () {
            const { id, stopped } = yield* ownSession(input.sessionId)
            const prepared = yield* RunStart.prepare(id, input, lineage)
            const conductRun = (opened: RunStart.OpenedRun) =>
              // A child's session is closed when the child ends.
              Effect.andThen(
                lineage === undefined ? keepOpen(id, opened.run.turnId) : Effect.void,
                memories.listening(
                  opened.run,
                  input,
                  RunConduct.conduct(opened, input, stopped, { run: startRun, stop })
                )
              )
            const { run } = prepared.opened
            const { output } = run
            return yield* Effect.uninterruptibleMask((restore) =>
              // A run that fails before its message is stored also reports its end.
              Effect.flatMap(
                RunStart.begin(prepared, restore).pipe(
                  Effect.flatMap((opened) => restore(conductRun(opened))),
                  Effect.mapError(RunEnd.nameMissingPackage),
                  Effect.exit
                ),
                (exit) => {
                  const ended = RunLifecycle.end(run, exit)
                  return output === undefined
                    ? ended
                    : Effect.flatMap(ended, (result) => restore(AnswerValue.attachValue(run, output, result)))
                }
              ).pipe(
                Effect.onExit(RunEnd.announceEnd(run)),
                Effect.onExit(RunEnd.closeRecord(run)),
                Effect.ensuring(Effect.sync(() => noteEnd(run))),
                Effect.provideService(RunRecorder, run.recorder),
                Effect.exit,
                Effect.flatMap((exit) =>
                  Effect.flatMap(continueInNewSession(prepared.opened, input, RunEnd.getEndReason(exit)), (next) =>
                    Effect.map(exit, (end) => (next === undefined ? end : { ...end, sessionId: next }))
                  )
                ),
                Effect.tap((finished) => restore(emit(run, finished))),
                Effect.tap((finished) => memories.tell(run, input, finished)),
                Effect.tap((finished) =>
                  memories.listening(run, input, startDueReviews(prepared.opened, input, finished))
                )
              )
            )
          })
        )
        const bounded = Tenancy.boundRun(tenants, input, Effect.provideService(conducted, Services, own))
        return AgentSpans.traceRun(own, name, input, lineage, bounded)
      }

      /**
       * Provides an effect with the services that the middleware requires and that the application passes to this run
       * or call.
       */
      const provideSurroundings = <A, Failure>(
        effect: Effect.Effect<A, Failure>,
        own: Context.Context<never> | undefined
      ) =>
        Effect.updateContext(effect, (given: Context.Context<never>) => {
          const surroundings = Context.merge(needs, given)
          return own === undefined ? surroundings : Context.merge(surroundings, own)
        })

      const runAs =
        (name: AgentSpans.Name) =>
        ({ context, ...input }: StartOptions & RunContext.ContextInput<never>) =>
          provideSurroundings(startRun(input, undefined, name), context)
      const run = runAs("run")
      const runStreamed = runAs("stream")

      const stream = (input: StartOptions & RunContext.ContextInput<never>) =>
        Stream.unwrap(
          Effect.gen(function* () {
            const { close, end, offer, stream } = EventHandoff.make<RunEvent, AgentError | MiddlewareFailure>(
              streamBuffer
            )
            yield* runStreamed({ ...input, streaming: input.streaming ?? true, onEvent: offer }).pipe(
              Effect.exit,
              Effect.flatMap(end),
              Effect.forkScoped({ startImmediately: true })
            )
            // Runs before the fork is interrupted, so that a run that is being closed never waits for a reader that
            // left.
            yield* Effect.addFinalizer(() => close)
            return stream
          })
        )

      const callBounded = (tenant: string | undefined, call: Parameters<typeof CallTool.callTool>[0]) =>
        CallTool.refuseOnFailure(Tenancy.boundOperation(tenants, tenant, CallTool.callTool(call)))

      const callTool: Service["callTool"] = ({ context, tenant, ...call }) =>
        provideSurroundings(
          Effect.provideService(
            AgentSpans.traceOperation(services, "callTool", callBounded(tenant, call), {
              "gen_ai.conversation.id": call.sessionId,
              "gen_ai.tool.name": call.name
            }),
            Services,
            services
          ),
          context
        )

      const compactIn: Service["compact"] = ({ context, ...input }) =>
        provideSurroundings(
          AgentSpans.traceOperation(
            services,
            "compact",
            Tenancy.boundOperation(tenants, input.tenant, compact(input)),
            { "gen_ai.conversation.id": input.sessionId }
          ),
          context
        )

      const promptLayers: Service["promptLayers"] = (input = {}) =>
        AgentSpans.traceOperation(
          services,
          "promptLayers",
          Effect.provideService(SessionOpening.buildPromptLayers(input), Services, services)
        )

      const maintenance = Option.getOrUndefined(yield* Effect.serviceOption(SessionMaintenance))
      const deleteSession: Service["deleteSession"] = (sessionId) =>
        Effect.gen(function* () {
          const newest = yield* services.store.newest(Ids.SessionId.make(sessionId))
          const isRemoved = yield* SessionChain.removeConversation(services.store, newest, maintenance)
          if (!isRemoved || !open.has(newest)) return isRemoved
          noteRemoval(newest)
          yield* finalize(newest, { reason: "session_boundary" })
          return true
        })

      const finalizeAll = Effect.suspend(() =>
        Effect.forEach(Array.from(open.keys()), (id) => finalize(id, { reason: "shutdown" }), { discard: true })
      )
      yield* Effect.addFinalizer(() => finalizeAll)

      const service = { run, stream, stop, callTool, compact: compactIn, promptLayers, finalize, deleteSession }
      // Failures of middleware pass through unchanged, and the context of a run is merged regardless of its contents:
      // the types of the list define both. A run with a schema ends with a value that the schema decoded.
      return service as Service<unknown> as Service<
        Middleware.Errors<Middlewares>,
        RunContext.Of<Middleware.Needs<Middlewares>>
      >
    })
  )

/**
 * {@link make} for a service key whose type names the failures `E`, the services `R` read for each run, and the value.
 */
export const makeBounded = <
  E,
  R,
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  Value = unknown,
  ValueJson = unknown
>(
  options: BoundedOptions<E, R, Middlewares, Value, ValueJson>
) =>
  Effect.map(
    make<Middlewares>(options),
    // The type of `options` guarantees the bounds and the value, which TypeScript cannot infer in a generic function.
    (service) => service as Service<unknown, never> as Service<E, R, Value, ValueJson>
  )

/**
 * {@link make} as a Layer of an agent under the application's key. The type of the key names the failures that the
 * middleware adds, and the values that it reads of each run.
 */
export const layerFor = <
  Self,
  E,
  R,
  const Middlewares extends ReadonlyArray<Middleware.Any> = [],
  Value = unknown,
  ValueJson = unknown
>(
  key: Context.Key<Self, Service<E, R, Value, ValueJson>>,
  ...[options]: unknown extends Value
    ? [options?: BoundedOptions<E, R, Middlewares, Value, ValueJson>]
    : [options: BoundedOptions<E, R, Middlewares, Value, ValueJson> & RequiredOutput<Value, ValueJson>]
) => Layer.effect(key, makeBounded<E, R, Middlewares, Value, ValueJson>(options ?? {}))

/** {@link make} as a Layer of {@link Agent}, for middleware that adds no failures. */
export const layer = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>(
  options: BoundedOptions<never, never, Middlewares> = {}
) => layerFor<Agent, never, never, Middlewares>(Agent, options)

/** Runs the agent in the context. With an `output` schema, the result carries the decoded `value`. */
export const run = <A = unknown, I = unknown>(
  input: RunInput & OutputInput<A, I>
): Effect.Effect<ResultOf<A>, AgentError, Agent> => Effect.flatMap(Agent, (agent) => agent.run<A, I>(input))

/** Streams a run of the agent in the context. */
export const stream = <A = unknown, I = unknown>(
  input: RunInput & OutputInput<A, I>
): Stream.Stream<EventOf<A, I>, AgentError, Agent> =>
  Stream.unwrap(Effect.map(Agent, (agent) => agent.stream<A, I>(input)))
