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
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentError, ConfigError, SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import { RunRecorder } from "../base/domain/RunRecorder.ts"
import * as RunSurroundings from "../base/domain/RunSurroundings.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { Question, QuestionError } from "../base/domain/Question.ts"
import type { RunEvent, RunResult } from "../base/domain/RunEvent.ts"
import * as Middleware from "../middleware/Middleware.ts"
import * as EntryServices from "../middleware/EntryServices.ts"
import type { Output } from "../base/domain/AnswerFormat.ts"
import type { PromptLayer } from "../tools/prompt/SystemPrompt.ts"
import { ModelRouter } from "../models/routing/ModelRouter.ts"
import { SessionStore } from "../store/SessionStore.ts"
import { ToolRegistry } from "../tools/ToolRegistry.ts"
import * as AgentParts from "./AgentParts.ts"
import * as OwnedSessions from "./OwnedSessions.ts"
import type { SessionEnd } from "./OwnedSessions.ts"
import * as AgentSpans from "./AgentSpans.ts"
import * as CallTool from "./CallTool.ts"
import * as BackgroundReview from "./BackgroundReview.ts"
import * as EventHandoff from "./EventHandoff.ts"
import * as Continuation from "./Continuation.ts"
import * as ContextFit from "./ContextFit.ts"
import * as RunEnd from "./RunEnd.ts"
import * as MemoryTurns from "./MemoryTurns.ts"
import { addRunDetails, emit, type Lineage, noteEnd } from "./RunState.ts"
import * as RunLifecycle from "./RunLifecycle.ts"
import * as Resumption from "./Resumption.ts"
import * as RunConditions from "./RunConditions.ts"
import * as RunConduct from "./RunConduct.ts"
import * as RunStart from "./RunStart.ts"
import type {
  AgentSettings,
  EventOf,
  NoOutputInput,
  OptionalValue,
  OutputInput,
  RequiredOutputInput,
  ResultOf,
  ResumeInput,
  ResumeOptions,
  RunInput,
  RunOptions,
  StartOptions
} from "./RunInput.ts"
import { type MiddlewareFailure, Services } from "./Services.ts"
import * as Tenancy from "./Tenancy.ts"
import * as SessionOpening from "./SessionOpening.ts"
export type { SessionEnd } from "./OwnedSessions.ts"
export type { AgentSettings, ResumeInput, RunInput } from "./RunInput.ts"

/** Number of events by which a slow reader of {@link Service.stream} may lag before the run waits for it. */
const streamBuffer = 256

/**
 * An agent. `E` is the failures that its middleware adds to a run, `R` is the data (`RunContext`) that its tools,
 * middleware and hooks read from each run, and `Value` is the value in which a run ends if the agent has an `output`
 * schema, whose JSON has the type `ValueJson`.
 */
export interface Service<out E = never, R = never, Value = unknown, ValueJson = unknown> {
  /** Runs the agent. With an `output` schema, the result carries the decoded `value`. */
  readonly run: {
    (input: RunInput<R> & NoOutputInput): Effect.Effect<ResultOf<Value>, AgentError | E>
    <A, I>(input: RunInput<R> & RequiredOutputInput<A, I>): Effect.Effect<ResultOf<A>, AgentError | E>
    <A, I>(input: RunInput<R> & OutputInput<A, I>): Effect.Effect<ResultOf<OptionalValue<A, Value>>, AgentError | E>
  }
  /** Events of a run, ending with `RunFinished`. Ending the stream early interrupts the run. */
  readonly stream: {
    (input: RunInput<R> & NoOutputInput): Stream.Stream<EventOf<Value, ValueJson>, AgentError | E>
    <A, I>(input: RunInput<R> & RequiredOutputInput<A, I>): Stream.Stream<EventOf<A, I>, AgentError | E>
    <A, I>(
      input: RunInput<R> & OutputInput<A, I>
    ): Stream.Stream<EventOf<OptionalValue<A, Value>, OptionalValue<I, ValueJson>>, AgentError | E>
  }
  /**
   * Continues a suspended session in a new run: stores the answers to its questions, each exactly once, and runs
   * the calls that waited. Fails before anything is stored if an answer is invalid, late or repeated. Nothing that ran
   * before runs again, and nothing that was answered is asked again.
   */
  readonly resume: {
    (input: ResumeInput<R> & NoOutputInput): Effect.Effect<ResultOf<Value>, AgentError | QuestionError | E>
    <A, I>(
      input: ResumeInput<R> & RequiredOutputInput<A, I>
    ): Effect.Effect<ResultOf<A>, AgentError | QuestionError | E>
    <A, I>(
      input: ResumeInput<R> & OutputInput<A, I>
    ): Effect.Effect<ResultOf<OptionalValue<A, Value>>, AgentError | QuestionError | E>
  }
  /** Events of {@link resume}, ending with `RunFinished`. Ending the stream early interrupts the run. */
  readonly resumeStream: {
    (input: ResumeInput<R> & NoOutputInput): Stream.Stream<EventOf<Value, ValueJson>, AgentError | QuestionError | E>
    <A, I>(
      input: ResumeInput<R> & RequiredOutputInput<A, I>
    ): Stream.Stream<EventOf<A, I>, AgentError | QuestionError | E>
    <A, I>(
      input: ResumeInput<R> & OutputInput<A, I>
    ): Stream.Stream<EventOf<OptionalValue<A, Value>, OptionalValue<I, ValueJson>>, AgentError | QuestionError | E>
  }
  /** Lists the open questions of a session. `SessionStore.listQuestions` lists the questions of all sessions. */
  readonly questions: (sessionId: string) => Effect.Effect<ReadonlyArray<Question>, SessionStoreError>
  /** Runs a tool outside of any run, in the same way as a call by a model; see `CallTool`. */
  readonly callTool: (call: CallTool.Call<R>) => Effect.Effect<CallTool.Outcome>
  /**
   * Compacts the stored conversation of a session between its runs. The conversation continues in a new session, as
   * after a run that was compacted. The session is unchanged if it waits for answers, if the conversation is too short
   * to compact, or if no summary can be produced.
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

/** The agent of a runtime. Applications whose middleware adds failures define a separate key for their agent. */
export class Agent extends Context.Service<Agent, Service>()("hermes-effect/agent/Agent") {}

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
      const { selectServices, services } = yield* AgentParts.collectServices(settings, outermost, middleware ?? [])
      const built = yield* Effect.context<Middleware.Needs<Middlewares>>()
      const joinServices = RunSurroundings.makeJoin(Context.add(built, EntryServices.AgentContext, built))
      const memories = yield* MemoryTurns.makeNotifier

      const sessions = yield* OwnedSessions.makeSessions(services, memories)
      const compact = ({
        focus,
        keepExchanges,
        ...input
      }: RunStart.CompactInput): Effect.Effect<ContextFit.CompactionResult, AgentError, Services> =>
        Effect.scoped(
          Effect.gen(function* () {
            const isOwn = yield* sessions.requireOwn(input.sessionId).pipe(
              Effect.as(true),
              Effect.catchTag("SessionNotFound", () => Effect.succeed(false))
            )
            const { id } = isOwn
              ? yield* sessions.acquireSession(input.sessionId)
              : { id: Ids.SessionId.make(input.sessionId) }
            const session = isOwn ? Option.getOrUndefined(yield* services.store.get(id)) : undefined
            if (session === undefined || session.messageCount === 0) {
              const nothing = { messages: 0, tokens: 0 }
              return { sessionId: id, before: nothing, after: nothing }
            }
            const opened = yield* RunStart.openWithoutPrompt(id, input)
            const before = ContextFit.measureSize(opened.run.conversation)
            const { recorder } = opened.run
            const states = ["open", "answered"] as const
            const waiting = yield* services.store.listQuestions({ sessionId: id, states, limit: 1 })
            // A summary would close the calls that wait.
            if (waiting.length > 0) return { sessionId: id, before, after: before }
            yield* ContextFit.compactOnDemand(opened.run, { focus, keepExchanges }).pipe(
              Effect.provideService(RunRecorder, recorder),
              Effect.ensuring(recorder?.flush ?? Effect.void)
            )
            const sessionId =
              (yield* Effect.uninterruptible(
                sessions.continueInNewSession(opened, input, session.endReason ?? "compacted")
              )) ?? id
            return {
              sessionId,
              before,
              after: sessionId === id ? before : ContextFit.measureSize(opened.run.conversation)
            }
          })
        )

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
        given: StartOptions,
        lineage: Lineage | undefined,
        name: AgentSpans.Name = "run",
        resumed?: Resumption.Answers
      ): Effect.Effect<RunResult, AgentError | QuestionError | MiddlewareFailure> => {
        const own = selectServices(lineage)
        const conducted = Effect.scoped(
          Effect.gen(function* () {
            if (resumed !== undefined && given.sessionId !== undefined) yield* sessions.requireOwn(given.sessionId)
            const { id, stopped } = yield* sessions.acquireSession(given.sessionId)
            const asked =
              resumed === undefined
                ? given
                : { ...given, prompt: yield* Resumption.takeAnswers(services.store, id, resumed) }
            const isContinued = lineage === undefined && asked.goesOn === true && asked.openCalls === "run"
            const conditions = isContinued ? yield* RunConditions.readConditions(services.store, id) : []
            const input = conditions.reduceRight(
              (options, one) => RunConditions.narrowOptions(options, services.settings, one),
              asked
            )
            const prepared = yield* RunStart.prepare(id, input, lineage)
            const conductRun = (opened: RunStart.OpenedRun) =>
              // A child's session is closed when the child ends.
              Effect.andThen(
                lineage === undefined ? sessions.keepOpen(id, opened.run.turnId) : Effect.void,
                memories.listening(
                  opened.run,
                  input,
                  RunConditions.limitMode(
                    RunConduct.conduct(opened, input, stopped, { run: startRun, stop: sessions.stop }),
                    conditions
                  )
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
                    : Effect.flatMap(ended, (result) => restore(output.attachValue(run, result)))
                }
              ).pipe(
                Effect.onExit(RunEnd.announceEnd(run)),
                Effect.onExit(RunEnd.closeRecord(run)),
                Effect.provideService(RunRecorder, run.recorder),
                Effect.exit,
                Effect.flatMap((exit) => {
                  noteEnd(run)
                  return Effect.flatMapEager(
                    sessions.continueInNewSession(prepared.opened, input, RunEnd.getEndReason(exit)),
                    (next) =>
                      Effect.mapEager(exit, (end) =>
                        addRunDetails(run, next === undefined ? end : Continuation.moveResult(end, next))
                      )
                  )
                }),
                Effect.tap((finished) =>
                  Effect.andThen(
                    Effect.flatMapEager(run.emit === undefined ? Effect.void : restore(emit(run, finished)), () =>
                      memories.tell(run, input, finished)
                    ),
                    reviews === undefined
                      ? Effect.void
                      : memories.listening(run, input, startDueReviews(prepared.opened, input, finished))
                  )
                )
              )
            )
          })
        )
        const bounded = Tenancy.boundRun(tenants, given, own, conducted)
        return AgentSpans.traceRun(own, name, given, lineage, bounded)
      }

      /**
       * Provides an effect with the services that the middleware requires and that the application passes to this run
       * or call.
       */
      const provideSurroundings = <A, Failure>(
        effect: Effect.Effect<A, Failure>,
        own: Context.Context<never> | undefined
      ) => Effect.updateContext(effect, (given: Context.Context<never>) => joinServices(given, own))

      const runAs =
        (name: AgentSpans.Name) =>
        ({ context, ...input }: StartOptions & RunContext.ContextInput<never>) =>
          provideSurroundings(startRun(input, undefined, name), context)
      const run = runAs("run")
      const runStreamed = runAs("stream")

      const resumeAs =
        (name: AgentSpans.Name) =>
        ({ answers, audience, context, ...input }: ResumeOptions & RunContext.ContextInput<never>) =>
          provideSurroundings(
            // The stored prompt replaces this one.
            startRun({ ...input, prompt: "", goesOn: true, openCalls: "run" }, undefined, name, { answers, audience }),
            context
          )
      const resume = resumeAs("resume")
      const resumeStreamed = resumeAs("resumeStream")

      /** Returns the events of a run, which starts with the reader. */
      const streamEvents = <Input extends Pick<RunOptions, "onEvent" | "streaming">, E>(
        start: (input: Input) => Effect.Effect<RunResult, E>,
        input: Input
      ) =>
        Stream.unwrap(
          Effect.gen(function* () {
            const { close, end, offer, stream } = EventHandoff.make<RunEvent, E>(streamBuffer)
            yield* start({ ...input, streaming: input.streaming ?? true, onEvent: offer }).pipe(
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

      const stream = (input: StartOptions & RunContext.ContextInput<never>) => streamEvents(runStreamed, input)
      const resumeStream = (input: ResumeOptions & RunContext.ContextInput<never>) =>
        streamEvents(resumeStreamed, input)
      const listOpenQuestions: Service["questions"] = (sessionId) =>
        Resumption.listQuestions(services.store, Ids.SessionId.make(sessionId))

      const callBounded = (tenant: string | undefined, call: Parameters<typeof CallTool.callTool>[0]) =>
        CallTool.refuseOnFailure(
          Tenancy.boundSessionOperation(
            tenants,
            { tenant, sessionId: call.sessionId },
            services,
            CallTool.callTool(call)
          )
        )

      const callTool: Service["callTool"] = ({ context, tenant, ...call }) =>
        provideSurroundings(
          AgentSpans.traceOperation(services, "callTool", callBounded(tenant, call), {
            "gen_ai.conversation.id": call.sessionId,
            "gen_ai.tool.name": call.name
          }),
          context
        )

      const compactIn: Service["compact"] = ({ context, ...input }) =>
        provideSurroundings(
          AgentSpans.traceOperation(
            services,
            "compact",
            Tenancy.boundSessionOperation(tenants, input, services, compact(input)),
            { "gen_ai.conversation.id": input.sessionId }
          ),
          context
        )

      const promptLayers: Service["promptLayers"] = (input = {}) =>
        AgentSpans.traceOperation(
          services,
          "promptLayers",
          Tenancy.boundOperation(
            tenants,
            undefined,
            Tenancy.provideServices(services, SessionOpening.buildPromptLayers(input))
          )
        )

      const { deleteSession, finalize, stop } = sessions
      const service = {
        run,
        stream,
        resume,
        resumeStream,
        questions: listOpenQuestions,
        stop,
        callTool,
        compact: compactIn,
        promptLayers,
        finalize,
        deleteSession
      }
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
export const run: {
  (input: RunInput & NoOutputInput): Effect.Effect<ResultOf<unknown>, AgentError, Agent>
  <A, I>(input: RunInput & RequiredOutputInput<A, I>): Effect.Effect<ResultOf<A>, AgentError, Agent>
  <A, I>(input: RunInput & OutputInput<A, I>): Effect.Effect<ResultOf<A | undefined>, AgentError, Agent>
} = (input: RunInput & OutputInput<unknown, unknown>): Effect.Effect<ResultOf<never>, AgentError, Agent> =>
  // The overloads name the value, which the schema of the input decodes.
  Effect.flatMap(Agent, (agent) => agent.run(input)) as Effect.Effect<ResultOf<never>, AgentError, Agent>

/** Streams a run of the agent in the context. */
export const stream: {
  (input: RunInput & NoOutputInput): Stream.Stream<EventOf<unknown, unknown>, AgentError, Agent>
  <A, I>(input: RunInput & RequiredOutputInput<A, I>): Stream.Stream<EventOf<A, I>, AgentError, Agent>
  <A, I>(input: RunInput & OutputInput<A, I>): Stream.Stream<EventOf<A | undefined, I | undefined>, AgentError, Agent>
} = (input: RunInput & OutputInput<unknown, unknown>): Stream.Stream<EventOf<never, never>, AgentError, Agent> =>
  // The overloads name the value, as for `run`.
  Stream.unwrap(Effect.map(Agent, (agent) => agent.stream(input))) as Stream.Stream<
    EventOf<never, never>,
    AgentError,
    Agent
  >

/** Continues a suspended session with the agent in the context. With an `output` schema, the result has a `value`. */
export const resume = <A = unknown, I = unknown>(
  input: ResumeInput & OutputInput<A, I>
): Effect.Effect<ResultOf<A>, AgentError | QuestionError, Agent> =>
  // The schema of the input names the value, as for `run`.
  Effect.flatMap(Agent, (agent) => agent.resume(input)) as Effect.Effect<ResultOf<A>, AgentError | QuestionError, Agent>

/** Streams the continuation of a suspended session by the agent in the context. */
export const resumeStream = <A = unknown, I = unknown>(
  input: ResumeInput & OutputInput<A, I>
): Stream.Stream<EventOf<A, I>, AgentError | QuestionError, Agent> =>
  // The schema of the input names the value, as for `stream`.
  Stream.unwrap(Effect.map(Agent, (agent) => agent.resumeStream(input))) as Stream.Stream<
    EventOf<A, I>,
    AgentError | QuestionError,
    Agent
  >

/** Lists the open questions of a session of the agent in the context. */
export const questions = (sessionId: string): Effect.Effect<ReadonlyArray<Question>, SessionStoreError, Agent> =>
  Effect.flatMap(Agent, (agent) => agent.questions(sessionId))
