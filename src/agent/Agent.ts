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
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import type { AgentError, ConfigError, SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"
import * as RunContext from "../base/domain/RunContext.ts"
import type { Question, QuestionError } from "../base/domain/Question.ts"
import type * as Middleware from "../middleware/Middleware.ts"
import type { Output } from "../base/domain/AnswerFormat.ts"
import type { PromptLayer } from "../tools/prompt/SystemPrompt.ts"
import type { ModelRouter } from "../models/routing/ModelRouter.ts"
import type { SessionStore } from "../store/SessionStore.ts"
import type { ToolRegistry } from "../tools/ToolRegistry.ts"
import type { SessionEnd } from "./OwnedSessions.ts"
import type * as CallTool from "./CallTool.ts"
import type * as ContextFit from "./ContextFit.ts"
import type * as RunStart from "./RunStart.ts"
import type {
  AgentSettings,
  EventOf,
  NoOutputInput,
  OptionalValue,
  OutputInput,
  RequiredOutputInput,
  ResultOf,
  ResumeInput,
  RunInput
} from "./RunInput.ts"
import type * as SessionOpening from "./SessionOpening.ts"
export type { SessionEnd } from "./OwnedSessions.ts"
export type { AgentSettings, ResumeInput, RunInput } from "./RunInput.ts"

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
export const make = <const Middlewares extends ReadonlyArray<Middleware.Any> = []>(
  options: Options<Middlewares> = {}
): Effect.Effect<
  Service<Middleware.Errors<Middlewares>, RunContext.Of<Middleware.Needs<Middlewares>>>,
  ConfigError,
  ModelRouter | ToolRegistry | SessionStore | Scope.Scope | Exclude<Middleware.Needs<Middlewares>, RunContext.PerRun>
> =>
  // The loop is loaded with the first agent: a program that only defines tools, or lists sessions, runs without it.
  Effect.flatMap(
    Effect.promise(() => import("./AgentService.ts")),
    ({ makeService }) =>
      // Failures of middleware pass through unchanged, and the context of a run is merged regardless of its contents:
      // the types of the list define both. A run with a schema ends with a value that the schema decoded.
      RunContext.deferKeys(makeService<Middleware.Needs<Middlewares>>(options)) as Effect.Effect<
        Service<Middleware.Errors<Middlewares>, RunContext.Of<Middleware.Needs<Middlewares>>>,
        ConfigError,
        | ModelRouter
        | ToolRegistry
        | SessionStore
        | Scope.Scope
        | Exclude<Middleware.Needs<Middlewares>, RunContext.PerRun>
      >
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
