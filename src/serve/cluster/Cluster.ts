/**
 * Runs the agent durably, in one process or in several.
 *
 * **Details**
 *
 * A submission is a run with a unique id. It is executed once. If its process is killed, the next process continues the
 * run. Answers and tool results that are already in the session store are not produced again.
 *
 * {@link layerSqlite} runs in one process with a SQLite file next to `state.db`. {@link layerRunner} is one of several
 * runner processes that share a Postgres database. If a runner dies, the other runners take over its runs within a few
 * seconds. Runners communicate only through the database, so no network port is opened. {@link layerClient} submits
 * runs and waits for their outcomes. Runs use the same agent as any other program. The agent is provided as handlers
 * for the kinds of requests.
 *
 * **Gotchas**
 *
 * All runners of a cluster need the same tools, models and settings, because any of them may continue a run. Tools use
 * the files on the machine that runs the call.
 *
 * **Example** (Submitting a run that survives its process)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Runtime, SessionStore } from "hermes-effect"
 * import { Cluster } from "hermes-effect/cluster"
 *
 * const store = SessionStore.layerSqlite({ path: "durable.db" })
 * const agent = Runtime.layer({ store }).pipe(Layer.provideMerge(store))
 * const cluster = Cluster.layerSqlite({ path: "cluster.db", concurrency: 4 }).pipe(Layer.provide(agent))
 *
 * const program = Effect.gen(function*() {
 *   const turn = { id: "greeting", sessionId: "greeting", prompt: "Reply exactly hello" }
 *   yield* Cluster.submit(Cluster.makeTurnRequest(turn))
 *   const outcomes = yield* Cluster.waitForOutcomes(["greeting"])
 *   return outcomes.get("greeting")?.status
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, cluster)))
 * // => finished
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 (room `cluster`), §4 (`store.begin`), `hermes-llm.md` §20.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import type { Agent } from "../../agent/Agent.ts"
import type { Limits } from "../../agent/Budget.ts"
import * as Resumption from "../../agent/Resumption.ts"
import type { InvalidInput, SessionNotFound, SessionStoreError } from "../../base/domain/AgentError.ts"
import type { Answer, Question, QuestionError } from "../../base/domain/Question.ts"
import { SessionId } from "../../base/domain/Ids.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import { type NumberedEntry, SessionActivity } from "../../store/SessionActivity.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import { SessionStore } from "../../store/SessionStorePort.ts"
import type { QuestionPolicy } from "../../tools/CallQuestions.ts"
import type { Counts, Failure, Outcome, Request, StoredRun, SuspendedRun } from "./RunForms.ts"
import type { Handler } from "./RunWorkflow.ts"

export type { Counts, Failure, Outcome, Request, StoredRun, Suspended, SuspendedRun } from "./RunForms.ts"
export type { Handler, Work } from "./RunWorkflow.ts"

/**
 * Error raised when the cluster's database cannot be used, or a runner is not allowed to join. `message` states the
 * cause and the remedy.
 */
export class ClusterError extends Schema.TaggedError<ClusterError>("hermes-effect/ClusterError")("ClusterError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/**
 * Service that submits durable runs and reads their outcomes. In the work for a tenant (`CurrentTenant`), submitted
 * runs are the tenant's, and the runs of other tenants do not exist.
 */
export interface Service {
  /**
   * Submits a run. An already submitted run is not started again. Returns the outcome of the run, or `undefined` if it
   * is not over.
   */
  readonly submit: (request: Request) => Effect.Effect<Outcome | undefined, ClusterError>
  /** Returns the outcomes of the given runs that are over. */
  readonly outcomes: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Outcome>, ClusterError>
  /** Returns the given runs that wait for answers, each with its session and its number of starts. */
  readonly suspended: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, SuspendedRun>, ClusterError>
  /**
   * Cancels a run, on whichever runner it is. A run that has not begun is over at once; a running one is stopped by its
   * runner, and the next turn of its session starts. Returns false if the run is over.
   */
  readonly cancel: (id: string) => Effect.Effect<boolean, ClusterError>
  /**
   * Sends a message to the running turn of a session: the model gets it with the next result of a tool. If the turn
   * ends before, the message is a turn after it. Returns the id of the turn. Fails if no turn of the session is
   * running.
   */
  readonly steer: (sessionId: string, text: string) => Effect.Effect<string, ClusterError>
  /** Continues a run that waits for answers, with the answers that its session has. */
  readonly resume: (id: string) => Effect.Effect<void, ClusterError>
  /**
   * Starts a failed run again under a new id, which is returned. The new run continues in the session of the failed
   * one, and the messages of it that are stored are not repeated. Each run is started again once.
   */
  readonly retry: (id: string) => Effect.Effect<string, ClusterError>
  /** Returns the run with this id, if it is stored. */
  readonly find: (id: string) => Effect.Effect<StoredRun | undefined, ClusterError>
  /** Number of runs in each batch, by state. */
  readonly counts: Effect.Effect<ReadonlyArray<Counts>, ClusterError>
  /** Returns at most `most` failed runs, the most recent first. */
  readonly failures: (most: number) => Effect.Effect<ReadonlyArray<Failure>, ClusterError>
  /**
   * Removes the runs of a tenant with their messages, and returns their number. Fails while one of them is running,
   * after it was asked to stop: call it again. `sessions` are the ids of its sessions: runs on them that were submitted
   * without a tenant are removed, too.
   */
  readonly removeTenant: (tenant: string, sessions?: ReadonlyArray<string>) => Effect.Effect<number, ClusterError>
}

/** Service for durable runs, in one process or in a cluster. */
export class Cluster extends Context.Service<Cluster, Service>()("hermes-effect/cluster/Cluster") {}

/** A process that executes runs. */
export interface RunnerService {
  /** Name of this runner for other processes. */
  readonly name: string
  /** Completes when the runner is asked to leave. */
  readonly drained: Effect.Effect<void>
  /** Starts no more runs, and waits until the active ones have ended. */
  readonly close: Effect.Effect<void>
  /** Returns the number of active runs. */
  readonly running: () => number
}

/** Service that represents this process as a runner, that is, as a process that executes runs. */
export class Runner extends Context.Service<Runner, RunnerService>()("hermes-effect/cluster/Runner") {}

/** Settings of a process that executes runs. */
export interface RunnerOptions {
  /** Maximum number of concurrent runs. Defaults to 8. */
  readonly concurrency?: number | undefined
  /** Handlers by kind of request, in addition to the handler for turns. */
  readonly handlers?: Readonly<Record<string, Handler>> | undefined
  /** Days for which a run is retained after its end. Defaults to 30. */
  readonly retentionDays?: number | undefined
  /** Check made before a run begins. If it returns a string, the run fails with this reason. */
  readonly admit?: ((request: Request) => Effect.Effect<string | undefined>) | undefined
}

/** Settings for durable runs in one process over a SQLite file. */
export interface FileOptions extends RunnerOptions {
  readonly path: string
}

/** Settings for a Postgres database that several processes share. */
export interface ServerOptions {
  /**
   * URL of the form `postgres://user:password@host:port/database`. Its parameter `schema` names the schema of the
   * tables (default: `hermes`).
   */
  readonly url: Redacted.Redacted
}

const layers = Effect.promise(() => import("./ClusterLayers.ts"))

/**
 * Provides durable runs in one process over the SQLite file at `path`. Continues the runs of an earlier process that
 * was killed.
 */
export const layerSqlite = (
  options: FileOptions
): Layer.Layer<Cluster | Runner, ClusterError, Agent | SessionStore | RunRecord> =>
  Layer.unwrap(Effect.map(layers, ({ makeSqliteLayer }) => makeSqliteLayer(options)))

/** Provides a runner of a cluster over Postgres, for the lifetime of the scope. */
export const layerRunner = (
  options: ServerOptions & RunnerOptions
): Layer.Layer<Cluster | Runner, ClusterError, Agent | SessionStore | RunRecord> =>
  Layer.unwrap(Effect.map(layers, ({ makeRunnerLayer }) => makeRunnerLayer(options)))

/** Provides a client of a cluster over Postgres. It submits runs but does not execute them. */
export const layerClient = (options: ServerOptions): Layer.Layer<Cluster, ClusterError> =>
  Layer.unwrap(Effect.map(layers, ({ makeClientLayer }) => makeClientLayer(options)))

/** A turn to submit: a prompt for the agent, in an existing or a new session. */
export interface Turn {
  readonly id: string
  readonly sessionId: string
  readonly prompt: string
  /**
   * Name of the batch that the turn belongs to. If it is absent, the turn belongs to a batch that contains only the
   * turns of its session.
   */
  readonly batch?: string | undefined
  /** Tenant for which the turn works, on whichever runner. The runner's agent needs `Tenants`. */
  readonly tenant?: string | undefined
  /** Source tag of a new session. Defaults to `cluster`. */
  readonly source?: string | undefined
  /** Digest of the submitted agent that executes the turn (`SubmittedAgent`). Defaults to the runner's own agent. */
  readonly agent?: string | undefined
  readonly systemPrompt?: string | undefined
  readonly cwd?: string | undefined
  readonly maxIterations?: number | undefined
  /** Limits of the turn, in addition to the limits of its agent. */
  readonly budget?: Limits | undefined
  /** Seed for the model calls, if their protocol has one. */
  readonly seed?: number | undefined
  /**
   * Treatment of questions: approvals, and questions of tools (`Ask`). A turn that is suspended waits for
   * {@link answer} without a place in a runner. Defaults to the agent's policy. `expiresAfter` is in milliseconds.
   */
  readonly questions?:
    | (Pick<QuestionPolicy, "audience" | "unanswered"> & { readonly expiresAfter?: number | undefined })
    | undefined
  /** Number of attempts after a failure of the model. Defaults to 3. */
  readonly retries?: number | undefined
}

/** Request kind for turns. */
export const turnKind = "turn"

/** Makes the request for a turn. */
export const makeTurnRequest = ({
  agent,
  batch,
  budget,
  cwd,
  id,
  maxIterations,
  prompt,
  questions,
  retries = 3,
  seed,
  sessionId,
  source = "cluster",
  systemPrompt,
  tenant
}: Turn): Request => ({
  id,
  batch: batch ?? `session ${sessionId}`,
  kind: turnKind,
  sessionId,
  retries,
  input: JSON.stringify({ agent, prompt, source, systemPrompt, cwd, maxIterations, budget, seed, questions, tenant }),
  ...(tenant === undefined ? {} : { tenant })
})

/**
 * Submits a run. An already submitted run is not started again. Returns the outcome of the run, or `undefined` if it is
 * not over.
 */
export const submit = (request: Request): Effect.Effect<Outcome | undefined, ClusterError, Cluster> =>
  Cluster.use((cluster) => cluster.submit(request))

const cancelRun = (id: string): Effect.Effect<boolean, ClusterError, Cluster> =>
  Cluster.use((cluster) => cluster.cancel(id))

const steerRun = (sessionId: string, text: string): Effect.Effect<string, ClusterError, Cluster> =>
  Cluster.use((cluster) => cluster.steer(sessionId, text))

const retryRun = (id: string): Effect.Effect<string, ClusterError, Cluster> =>
  Cluster.use((cluster) => cluster.retry(id))

/** Schedule for reading the outcomes of runs, without a time limit: at growing intervals of up to a second. */
const looks = Schedule.min([Schedule.exponential("100 millis", 1.2), Schedule.spaced("1 second")])

/** Pauses between two looks for new entries of a run, in milliseconds: the longest while a run waits. */
const pauses = { shortest: 100, growth: 1.5, longest: 2_000 }

/** Waits until the given runs are over, and returns their outcomes. `told` is called with each set of new outcomes. */
export const waitForOutcomes = Effect.fnUntraced(function* (
  ids: ReadonlyArray<string>,
  told: (outcomes: ReadonlyMap<string, Outcome>) => Effect.Effect<void> = () => Effect.void
): Effect.fn.Return<ReadonlyMap<string, Outcome>, ClusterError, Cluster> {
  const { outcomes } = yield* Cluster
  const found = new Map<string, Outcome>()
  const count = new Set(ids).size
  const look = Effect.gen(function* () {
    const added = yield* outcomes(ids.filter((id) => !found.has(id)))
    for (const [id, outcome] of added) found.set(id, outcome)
    if (added.size > 0) yield* told(added)
    return found.size >= count
  })
  yield* Effect.repeat(look, { until: (isComplete) => isComplete, schedule: looks })
  return found
})

/** Returns the session of a run and the sessions that continue it after compactions, the oldest first. */
const readRunSessions = Effect.fnUntraced(function* (sessionId: SessionId) {
  const store = yield* SessionStore
  const newest = yield* store.newest(sessionId)
  const session = newest === sessionId ? undefined : Option.getOrUndefined(yield* store.get(newest))
  if (session === undefined) return [sessionId]
  const ids = (yield* SessionChain.readChain(session)).map(({ id }) => id)
  return ids.slice(Math.max(0, ids.indexOf(sessionId)))
})

const watchRun = (
  id: string,
  { after = 0 }: { readonly after?: number | undefined } = {}
): Stream.Stream<NumberedEntry, ClusterError | SessionStoreError, Cluster | SessionActivity | SessionStore> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { find } = yield* Cluster
      const { since } = yield* SessionActivity
      /** Number of the last entry that was read of each session. */
      const cursors = new Map<string, number>()
      let isOver = false
      let pause = 0
      /** Reads the entries that were written since the last look. */
      const look = Effect.gen(function* () {
        const run = yield* find(id)
        if (run === undefined) return yield* new ClusterError({ message: `there is no run ${id}: check its id` })
        const { endedAt = Number.MAX_SAFE_INTEGER, sessionId, startedAt, state } = run
        // The record of a run is complete when its end is stored.
        isOver = state === "done"
        pause = Math.min(Math.max(pause * pauses.growth, pauses.shortest), pauses.longest)
        if (startedAt === undefined) return Stream.empty
        // A session is complete when its continuation is stored, so the entries are in order.
        const sessions = yield* readRunSessions(SessionId.make(sessionId))
        return Stream.fromIterable(sessions).pipe(
          Stream.flatMap((session) =>
            Stream.tap(since(cursors.get(session) ?? after, { sessionId: session }), ({ sequence }) =>
              Effect.sync(() => {
                cursors.set(session, sequence)
                pause = pauses.shortest
              })
            )
          ),
          Stream.filter(({ entry }) => entry.at >= startedAt && entry.at <= endedAt)
        )
      })
      const nextLook = Effect.suspend((): Effect.Effect<void, Cause.Done> =>
        isOver ? Cause.done() : Effect.sleep(pause)
      )
      return Stream.flatten(Stream.fromEffectRepeat(Effect.andThen(nextLook, look)))
    })
  )

const findRun = (id: string): Effect.Effect<StoredRun, ClusterError, Cluster> =>
  Effect.flatMap(
    Cluster.use(({ find }) => find(id)),
    (run) =>
      run === undefined
        ? Effect.fail(new ClusterError({ message: `there is no run ${id}: check its id` }))
        : Effect.succeed(run)
  )

const listQuestions = (
  id: string
): Effect.Effect<ReadonlyArray<Question>, ClusterError | SessionStoreError, Cluster | SessionStore> =>
  Effect.gen(function* () {
    const { sessionId, state } = yield* findRun(id)
    return state === "done" ? [] : yield* Resumption.listQuestions(yield* SessionStore, SessionId.make(sessionId))
  })

/** Answers to questions of a run. */
export interface RunAnswers {
  /** Id of the run. */
  readonly run: string
  readonly answers: ReadonlyArray<Answer>
  /** Audience that answers, if it is not the owner of the session. */
  readonly audience?: string | undefined
}

const answerRun = Effect.fnUntraced(function* ({
  answers,
  audience,
  run: id
}: RunAnswers): Effect.fn.Return<
  void,
  ClusterError | InvalidInput | QuestionError | SessionNotFound | SessionStoreError,
  Cluster | SessionStore
> {
  const { sessionId, state } = yield* findRun(id)
  if (state === "done") return yield* new ClusterError({ message: `run ${id} is over: it takes no answers` })
  const store = yield* SessionStore
  const newest = yield* store.newest(SessionId.make(sessionId))
  yield* Resumption.takeAnswers(store, newest, { answers, audience })
  yield* Cluster.use((cluster) => cluster.resume(id))
})

/**
 * Answers questions of a run from any process, each once: all of the answers are stored, or none. The run continues on
 * any runner.
 */
export const answer = answerRun

/** Lists the open questions of a run, the oldest first. */
export const questions = listQuestions

/** Cancels a run. Returns false if the run is over. See {@link Service.cancel}. */
export const cancel = cancelRun

/** Sends a message to the running turn of a session, once. See {@link Service.steer}. */
export const steer = steerRun

/** Starts a failed run again, and returns the id of the new run. See {@link Service.retry}. */
export const retry = retryRun

/**
 * Follows a run that any runner executes, from the run record: returns its entries as they are written, each with its
 * sequence number, and ends with the run. `after` is the last number that the caller has read.
 */
export const watch = watchRun
