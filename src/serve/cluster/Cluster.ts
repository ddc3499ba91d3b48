/**
 * Durable runs in one process or in several.
 *
 * **Details**
 *
 * A submission is a run with a unique id. It is executed once: if its process is killed, the next one continues the
 * run, and an answer or tool result that is already in the session store is neither requested nor produced again.
 *
 * {@link layerSqlite} is one process with a SQLite file next to `state.db`. {@link layerRunner} is one of several
 * runner processes that share a Postgres database: the runs of a runner that dies move to the others, within a few
 * seconds after a kill. Runners communicate through the database alone, so no network port is opened.
 * {@link layerClient} submits and watches. The agent is the same as in any other program, and is provided as handlers.
 *
 * **Gotchas**
 *
 * All runners of a cluster need the same tools, models and settings: any of them may continue a run. Tools use the
 * files of the machine that runs the call.
 *
 * **Example** (A run that survives its process)
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
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type { Agent } from "../../agent/Agent.ts"
import type { RunRecord } from "../../store/RunRecord.ts"
import type { SessionStore } from "../../store/SessionStorePort.ts"
import type { Counts, Failure, Outcome, Request } from "./Runs.ts"
import type { Handler } from "./RunWorkflow.ts"

export type { Counts, Failure, Outcome, Request } from "./Runs.ts"
export type { Handler, Work } from "./RunWorkflow.ts"

/** The database of the cluster cannot be used, or a runner may not join. `message` states the cause and the remedy. */
export class ClusterError extends Schema.TaggedError<ClusterError>("hermes-effect/ClusterError")("ClusterError", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** Durable runs. */
export interface Service {
  /** Submits a run. A run that was submitted before is not run again. Returns its outcome, if any. */
  readonly submit: (request: Request) => Effect.Effect<Outcome | undefined, ClusterError>
  /** Outcomes of those runs that are over. */
  readonly outcomes: (ids: ReadonlyArray<string>) => Effect.Effect<ReadonlyMap<string, Outcome>, ClusterError>
  /** Counts of all runs, by batch. */
  readonly counts: Effect.Effect<ReadonlyArray<Counts>, ClusterError>
  /** Runs that failed, the last one first and so many at most. */
  readonly failures: (most: number) => Effect.Effect<ReadonlyArray<Failure>, ClusterError>
}

/** The durable runs of one process, or of a cluster. */
export class Cluster extends Context.Service<Cluster, Service>()("hermes-effect/cluster/Cluster") {}

/** A process that does runs. */
export interface RunnerService {
  /** Name by which others see it. */
  readonly name: string
  /** Returns when the runner is asked to leave. */
  readonly drained: Effect.Effect<void>
  /** Begins nothing any more, and waits until what is under way has ended. */
  readonly close: Effect.Effect<void>
  /** Runs under way. */
  readonly running: () => number
}

/** This process as one that does runs. */
export class Runner extends Context.Service<Runner, RunnerService>()("hermes-effect/cluster/Runner") {}

/** Settings of a process that does runs. */
export interface RunnerOptions {
  /** Runs at a time; 8 when absent. */
  readonly concurrency?: number | undefined
  /** Handlers by kind of request, in addition to the handler of turns. */
  readonly handlers?: Readonly<Record<string, Handler>> | undefined
  /** Days for which a run is retained after its end. Defaults to 30. */
  readonly retentionDays?: number | undefined
  /** Asked before a run begins; a text is the reason why it fails instead. */
  readonly admit?: ((request: Request) => Effect.Effect<string | undefined>) | undefined
}

/** A file for the durable runs of one process. */
export interface FileOptions extends RunnerOptions {
  readonly path: string
}

/** A database that several processes share. */
export interface ServerOptions {
  /**
   * `postgres://user:password@host:port/database`; its parameter `schema` names the schema of the tables (`hermes`).
   */
  readonly url: Redacted.Redacted
}

const layers = Effect.promise(() => import("./ClusterLayers.ts"))

/**
 * Durable runs of one process over the SQLite file at `path`. Continues the runs of an earlier process that was killed.
 */
export const layerSqlite = (
  options: FileOptions
): Layer.Layer<Cluster | Runner, ClusterError, Agent | SessionStore | RunRecord> =>
  Layer.unwrap(Effect.map(layers, ({ makeSqliteLayer }) => makeSqliteLayer(options)))

/** A runner of a cluster over Postgres, as long as the scope lives. */
export const layerRunner = (
  options: ServerOptions & RunnerOptions
): Layer.Layer<Cluster | Runner, ClusterError, Agent | SessionStore | RunRecord> =>
  Layer.unwrap(Effect.map(layers, ({ makeRunnerLayer }) => makeRunnerLayer(options)))

/** A process that submits runs to a cluster over Postgres and does none of them. */
export const layerClient = (options: ServerOptions): Layer.Layer<Cluster, ClusterError> =>
  Layer.unwrap(Effect.map(layers, ({ makeClientLayer }) => makeClientLayer(options)))

/** A turn to be submitted: a prompt for the agent, in an existing or a new session. */
export interface Turn {
  readonly id: string
  readonly sessionId: string
  readonly prompt: string
  /** Absent: the session alone. */
  readonly batch?: string | undefined
  /** Tag of a new session; `cluster` when absent. */
  readonly source?: string | undefined
  /** Digest of the agent that does it (`SubmittedAgent`); the runner's own when absent. */
  readonly agent?: string | undefined
  readonly systemPrompt?: string | undefined
  readonly cwd?: string | undefined
  readonly maxIterations?: number | undefined
  /** Attempts after a failure of the model; 3 when absent. */
  readonly retries?: number | undefined
}

/** Kind of the requests that are turns. */
export const turnKind = "turn"

/** The request of a turn. */
export const makeTurnRequest = ({
  agent,
  batch,
  cwd,
  id,
  maxIterations,
  prompt,
  retries = 3,
  sessionId,
  source = "cluster",
  systemPrompt
}: Turn): Request => ({
  id,
  batch: batch ?? `session ${sessionId}`,
  kind: turnKind,
  sessionId,
  retries,
  input: JSON.stringify({ agent, prompt, source, systemPrompt, cwd, maxIterations })
})

/** Submits a run. A run that was submitted before is not run again. Returns its outcome, if any. */
export const submit = (request: Request): Effect.Effect<Outcome | undefined, ClusterError, Cluster> =>
  Cluster.use((cluster) => cluster.submit(request))

/** Waits until these runs are over, and returns their outcomes. `told` gets each set of new ones. */
export const waitForOutcomes = Effect.fnUntraced(function* (
  ids: ReadonlyArray<string>,
  told: (outcomes: ReadonlyMap<string, Outcome>) => Effect.Effect<void> = () => Effect.void
): Effect.fn.Return<ReadonlyMap<string, Outcome>, ClusterError, Cluster> {
  const { outcomes } = yield* Cluster
  const found = new Map<string, Outcome>()
  const count = new Set(ids).size
  while (true) {
    const added = yield* outcomes(ids.filter((id) => !found.has(id)))
    for (const [id, outcome] of added) found.set(id, outcome)
    if (added.size > 0) yield* told(added)
    if (found.size >= count) return found
    yield* Effect.sleep("200 millis")
  }
})
