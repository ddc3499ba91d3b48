/**
 * Builds the engine and the store of workflows over SQLite and Postgres. This module is loaded when one of these layers
 * is built.
 */
import * as Digest from "effect/crypto/Digest"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import type * as Redacted from "effect/Redacted"
import * as References from "effect/References"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as EntityId from "effect/cluster/EntityId"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Runners from "effect/cluster/Runners"
import { layer as shardingLayer, Sharding } from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as SqlMessageStorage from "effect/cluster/SqlMessageStorage"
import * as SqlRunnerStorage from "effect/cluster/SqlRunnerStorage"
import * as SqlClient from "effect/sql/SqlClient"
import { WorkflowEngine } from "effect/workflow/WorkflowEngine"
import { getCurrentProcess } from "../../../base/platform/ProcessIdentity.ts"
import * as PostgresLeases from "../../../base/platform/PostgresLeases.ts"
import * as SqliteClient from "../../../base/platform/SqliteClient.ts"
import type { ClusterError } from "../Cluster.ts"
import { ClusterDatabase, layer as databaseLayer } from "../ClusterDatabase.ts"
import { listenOn } from "../ClusterDatabase.ts"
import { runSqlite, toClusterErrorAt } from "../Runs.ts"
import { makeEngineWorkflow } from "./EngineWorkflow.ts"
import * as WorkflowExecution from "./WorkflowExecution.ts"
import { createTables, type Execution, makeInDatabase, WorkflowStore } from "./WorkflowStore.ts"

/** Prefix of the engine's tables, which are separate from the tables of submitted runs. */
const prefix = "workflow"

/** Makes the settings of the shards. Their intervals are so short that a dead process is noticed within seconds. */
const makeShardingConfig = (address: Option.Option<RunnerAddress.RunnerAddress>) =>
  ShardingConfig.layer({
    runnerAddress: address,
    shardsPerGroup: 64,
    shardLockRefreshInterval: Duration.seconds(5),
    shardLockExpiration: Duration.seconds(20),
    refreshAssignmentsInterval: Duration.seconds(1),
    entityMessagePollInterval: Duration.seconds(2),
    entityReplyPollInterval: Duration.millis(500),
    entityTerminationTimeout: Duration.seconds(10),
    entityMaxIdleTime: Duration.seconds(10),
    simulateRemoteSerialization: false
  })

const engineLayer = ClusterWorkflowEngine.layer.pipe(
  Layer.provideMerge(shardingLayer),
  Layer.provide(Runners.layerNoop),
  Layer.provide(SqlMessageStorage.layerWith({ prefix })),
  // The database client reports a lost connection; other logs are suppressed.
  Layer.provide([RunnerHealth.layerNoop, Digest.layerWebCrypto, Layer.succeed(References.MinimumLogLevel, "Fatal")])
)

/** Schedule of the checks for executions that stand still, and for dead processes. */
const looks = Schedule.spaced("3 seconds")

const encodeBroken = Schema.encodeUnknownEffect(
  Schema.fromJsonString(Schema.toCodecJson(Schema.Exit(Schema.Unknown, Schema.Unknown, Schema.Defect())))
)

/**
 * Continues executions in this process's shards whose workflow was suspended too early, for the reason that
 * `RunWorkflow.resumption` describes. An execution that waits for an answer is looked at ever more rarely. If the
 * workflow is complete, its outcome could not be written, and the execution fails.
 */
const resumption: Layer.Layer<never, never, Sharding | WorkflowEngine | WorkflowStore> = Layer.effectDiscard(
  Effect.gen(function* () {
    const sharding = yield* Sharding
    const engine = yield* WorkflowEngine
    const store = yield* WorkflowStore
    let idle: ReadonlyMap<string, number> = new Map()
    const resumeExecution = Effect.fnUntraced(function* (execution: Execution, executionId: string) {
      const workflow = makeEngineWorkflow(execution)
      const reply = Option.getOrUndefined(yield* engine.poll(workflow, executionId))
      if (reply === undefined) return
      if (reply._tag === "Suspended") return yield* engine.resume(workflow, executionId)
      const broken = yield* encodeBroken(Exit.die(new Error("the execution ended, but its outcome was lost")))
      yield* store.finish(execution.id, "failed", broken)
    })
    const look = Effect.gen(function* () {
      const found = new Map<string, number>()
      const due: Array<readonly [Execution, string]> = []
      for (const execution of yield* store.list({ state: "running" })) {
        if (WorkflowExecution.isActive(store, execution.id)) continue
        const executionId = yield* makeEngineWorkflow(execution).executionId({ id: execution.id, input: null })
        if (!sharding.hasShardId(sharding.getShardId(EntityId.make(executionId), "default"))) continue
        const count = (idle.get(execution.id) ?? 0) + 1
        found.set(execution.id, count)
        if (count >= 2 && (count & (count - 1)) === 0) due.push([execution, executionId])
      }
      idle = found
      for (const [execution, executionId] of due) yield* resumeExecution(execution, executionId)
    })
    yield* look.pipe(
      Effect.catchCause((cause) => Effect.logDebug("executions that stand still could not be looked for", cause)),
      Effect.repeat(looks),
      Effect.forkScoped
    )
  })
)

/** Makes the engine and the store of one process over a SQLite file. */
export const makeSqliteEngine = (path: string): Layer.Layer<WorkflowEngine | WorkflowStore, ClusterError> => {
  const database = Layer.effectContext(
    Effect.gen(function* () {
      const sql = yield* Effect.mapError(SqliteClient.open(path), toClusterErrorAt(path))
      const run = runSqlite(path)
      yield* run(Effect.andThen(SqliteClient.configure(sql), createTables(sql)))
      return Context.make(SqlClient.SqlClient, sql).pipe(
        Context.add(WorkflowStore, makeInDatabase({ run, sql }, Effect.void))
      )
    })
  )
  return resumption.pipe(
    Layer.provideMerge(engineLayer),
    Layer.provide([RunnerStorage.layerMemory, makeShardingConfig(Option.some(RunnerAddress.make("embedded", 1)))]),
    Layer.provideMerge(database)
  )
}

const formatChannelName = (schema: string): string => `hermes_workflow_${schema}`.slice(0, 60)

/** Held while the tables are created, so that two processes do not create them at the same time. */
const creating = 0x4865456a

/** Provides the store in the database. */
const postgresStore: Layer.Layer<WorkflowStore, ClusterError, ClusterDatabase> = Layer.effect(
  WorkflowStore,
  Effect.gen(function* () {
    const { run, schema, sql } = yield* ClusterDatabase
    yield* run(sql.transaction(Effect.andThen(sql`SELECT pg_advisory_xact_lock(${creating})`, createTables(sql))))
    return makeInDatabase({ run, sql }, Effect.ignore(sql.notify(formatChannelName(schema), ""), { log: "Debug" }))
  })
)

/** Wakes the reader of messages when another process starts, answers or cancels an execution. */
const woken = Layer.effectDiscard(
  Effect.gen(function* () {
    const { schema, sql } = yield* ClusterDatabase
    const sharding = yield* Sharding
    yield* Effect.forkScoped(listenOn(sql, formatChannelName(schema), sharding.pollStorage))
  })
)

/** Removes dead processes from the owners of shards, so that the others take their executions at once. */
const removeDead = Layer.effectDiscard(
  Effect.gen(function* () {
    const { run, sql } = yield* ClusterDatabase
    const runners = yield* RunnerStorage.RunnerStorage
    const look = Effect.gen(function* () {
      for (const [{ address }] of yield* runners.getRunners) {
        const number = Number.parseInt(address.host.slice(address.host.lastIndexOf("-") + 1), 36)
        const seen = sql`clock_timestamp() - make_interval(secs => 5)`
        const isAlive = PostgresLeases.isProcessAlive(sql, sql.literal(String(number)), seen)
        const [row] = yield* run(sql<{ readonly isAlive: boolean }>`SELECT ${isAlive} AS "isAlive"`)
        if (row?.isAlive === false) yield* runners.unregister(address)
      }
    })
    yield* look.pipe(
      Effect.catchCause((cause) => Effect.logDebug("the other processes could not be checked", cause)),
      Effect.repeat(Schedule.spaced("1 second")),
      Effect.forkScoped
    )
  })
)

const runnerStorage = Layer.orDie(SqlRunnerStorage.layerWith({ prefix }))

/** Makes the engine and the store of one of several processes over a Postgres database. */
export const makePostgresEngine = (url: Redacted.Redacted): Layer.Layer<WorkflowEngine | WorkflowStore, ClusterError> =>
  Layer.unwrap(
    Effect.map(ClusterDatabase, ({ lock }) => {
      // This is not a network address, because processes communicate only through the database.
      const address = RunnerAddress.make(
        `${PostgresLeases.hostOfProcess()}-${getCurrentProcess().pid}-${lock.number.toString(36)}`,
        1
      )
      return Layer.mergeAll(resumption, woken, removeDead).pipe(
        Layer.provideMerge(engineLayer),
        Layer.provide(runnerStorage),
        Layer.provide(makeShardingConfig(Option.some(address)))
      )
    })
  ).pipe(Layer.provideMerge(postgresStore), Layer.provide(databaseLayer(url)))

/** Makes the engine and the store of a process that executes no workflows. */
export const makePostgresClient = (url: Redacted.Redacted): Layer.Layer<WorkflowEngine | WorkflowStore, ClusterError> =>
  engineLayer.pipe(
    Layer.provide(runnerStorage),
    Layer.provide(makeShardingConfig(Option.none())),
    Layer.provideMerge(postgresStore),
    Layer.provide(databaseLayer(url, 3))
  )
