/**
 * Builds the layers of a cluster with `effect/cluster` and `effect/workflow` over SQLite or Postgres. This module is
 * loaded when one of these layers is built.
 */
import * as Digest from "effect/crypto/Digest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as References from "effect/References"
import * as RunnerAddress from "effect/cluster/RunnerAddress"
import * as ClusterWorkflowEngine from "effect/cluster/ClusterWorkflowEngine"
import * as RunnerHealth from "effect/cluster/RunnerHealth"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Runners from "effect/cluster/Runners"
import { layer as shardingLayer, Sharding } from "effect/cluster/Sharding"
import * as ShardingConfig from "effect/cluster/ShardingConfig"
import * as SqlMessageStorage from "effect/cluster/SqlMessageStorage"
import * as Cluster from "./Cluster.ts"
import { ClusterDatabase, layer as databaseLayer } from "./ClusterDatabase.ts"
import * as ClusterService from "./ClusterService.ts"
import * as ClusterStorage from "./ClusterStorage.ts"
import * as ClusterRetention from "./ClusterRetention.ts"
import * as Members from "./Members.ts"
import * as Inbox from "./Inbox.ts"
import * as DurableRun from "./DurableRun.ts"
import * as RemoteMessages from "./RemoteMessages.ts"
import * as Runs from "./Runs.ts"
import * as RunResumption from "./RunResumption.ts"
import * as RunWorkflow from "./RunWorkflow.ts"

const defaultConcurrency = 8

/** Takeover time of a single process, in seconds. No other process takes its shards. */
const singleProcess = { takeoverSeconds: 20 }

/**
 * Builds the sharding settings. Their intervals are so short that a dead runner is noticed within seconds. Shards move
 * after the same time as leases.
 */
const buildShardingConfig = (
  address: Option.Option<RunnerAddress.RunnerAddress>,
  { takeoverSeconds }: { readonly takeoverSeconds: number }
): Partial<ShardingConfig.ShardingConfig["Service"]> => ({
  runnerAddress: address,
  shardLockRefreshInterval: Duration.seconds(takeoverSeconds / 4),
  shardLockExpiration: Duration.seconds(takeoverSeconds),
  refreshAssignmentsInterval: Duration.seconds(1),
  // A notification wakes the reader of messages. The poll finds messages whose notification was lost.
  entityMessagePollInterval: Duration.seconds(5),
  entityReplyPollInterval: Duration.millis(500),
  entityTerminationTimeout: Duration.seconds(10),
  entityMaxIdleTime: Duration.seconds(10),
  simulateRemoteSerialization: false
})

const engine = ClusterWorkflowEngine.layer.pipe(
  Layer.provideMerge(shardingLayer),
  Layer.provideMerge(Runners.layerNoop)
)
// The database client reports a lost connection; other logs are suppressed.
const quiet = Layer.mergeAll(
  RunnerHealth.layerNoop,
  Digest.layerWebCrypto,
  Layer.succeed(References.MinimumLogLevel, "Fatal")
)
const sqliteEngine = engine.pipe(Layer.provideMerge(SqlMessageStorage.layer), Layer.provide(quiet))
const postgresEngine = engine.pipe(Layer.provideMerge(ClusterStorage.layerMessages), Layer.provide(quiet))

const makeWorkerLayer = (
  runner: string,
  { admit, concurrency = defaultConcurrency, handlers = {} }: Cluster.RunnerOptions,
  report: (running: number) => void
) =>
  Layer.unwrap(
    Effect.map(
      Effect.all([DurableRun.turns, RemoteMessages.makeClaims, RemoteMessages.Taker]),
      ([turns, claim, remote]) =>
        Layer.merge(RunWorkflow.layer, RunResumption.layer).pipe(
          Layer.provideMerge(
            RunWorkflow.layerWorker({
              runner,
              concurrency,
              report,
              admit,
              messages: turns.messages,
              hasAnswers: turns.hasAnswers,
              claim,
              remote,
              handlers: { [Cluster.turnKind]: turns.handler, ...handlers }
            })
          )
        )
    )
  )

/** Wakes the reader of messages when another process submits a run. */
const woken = Layer.effectDiscard(
  Effect.gen(function* () {
    const runs = yield* Runs.Runs
    const sharding = yield* Sharding
    yield* Effect.forkScoped(runs.listen(sharding.pollStorage))
  })
)

/** Takes messages of other processes. */
const taker = RemoteMessages.layerTaker.pipe(Layer.provide(ClusterService.layer))

/** Makes the layer for durable runs in one process over a SQLite file. */
export const makeSqliteLayer = (options: Cluster.FileOptions) => {
  const address = RunnerAddress.make("embedded", 1)
  const runner = Layer.effect(
    Cluster.Runner,
    Effect.map(RunWorkflow.Worker, ({ close, running }): Cluster.RunnerService => ({
      name: address.host,
      drained: Effect.never,
      close,
      running
    }))
  )
  return Layer.mergeAll(
    ClusterService.layer,
    RemoteMessages.layer,
    runner,
    ClusterRetention.layerSqlite(options.retentionDays ?? ClusterRetention.defaultDays, options.path)
  ).pipe(
    Layer.provide(makeWorkerLayer(address.host, options, () => {})),
    Layer.provide(taker),
    Layer.provide(sqliteEngine),
    Layer.provide([
      RunnerStorage.layerMemory,
      ShardingConfig.layer(buildShardingConfig(Option.some(address), singleProcess))
    ]),
    Layer.provide(Inbox.layerSqlite(options.path)),
    Layer.provide(Runs.layerSqlite(options.path))
  )
}

/** Makes the layer of a runner that uses a database that is already open, for the lifetime of the scope. */
export const makeRunnerLayerOnDatabase = (options: Cluster.RunnerOptions) => {
  const runner = Layer.effect(
    Cluster.Runner,
    Effect.gen(function* () {
      const { address, drain, drained } = yield* Members.Membership
      const { close, running } = yield* RunWorkflow.Worker
      return { name: address.host, drained, close: Effect.andThen(drain, close), running }
    })
  )
  const sharded = Layer.unwrap(
    Effect.gen(function* () {
      const { address, report } = yield* Members.Membership
      const { sql } = yield* ClusterDatabase
      return Layer.mergeAll(
        ClusterService.layer,
        RemoteMessages.layer,
        runner,
        woken,
        ClusterRetention.layerPostgres(options.retentionDays ?? ClusterRetention.defaultDays)
      ).pipe(
        Layer.provide(makeWorkerLayer(address.host, options, report)),
        Layer.provide(taker),
        Layer.provide(postgresEngine),
        Layer.provide(ClusterStorage.layerRunners),
        Layer.provide(ShardingConfig.layer(buildShardingConfig(Option.some(address), sql)))
      )
    })
  )
  return sharded.pipe(
    Layer.provide(Members.layer(options.concurrency ?? defaultConcurrency)),
    Layer.provide([Runs.layerPostgres, Inbox.layerPostgres])
  )
}

/** Makes the layer of a cluster runner over Postgres, for the lifetime of the scope. */
export const makeRunnerLayer = (options: Cluster.ServerOptions & Cluster.RunnerOptions) =>
  makeRunnerLayerOnDatabase(options).pipe(Layer.provide(databaseLayer(options.url)))

/** Provides a client that submits runs through a database that is already open. */
export const clientOver = ClusterService.layer.pipe(
  Layer.provide(postgresEngine),
  // A client owns no shards, and its messages reach their runner through the database.
  Layer.provide(RunnerStorage.layerMemory),
  Layer.provide(
    Layer.unwrap(
      Effect.map(ClusterDatabase, ({ sql }) => ShardingConfig.layer(buildShardingConfig(Option.none(), sql)))
    )
  ),
  Layer.provide([Runs.layerPostgres, Inbox.layerPostgres]),
  Layer.provide(Members.sameProtocol)
)

/** Makes the layer of a client that submits runs to a cluster over Postgres. */
export const makeClientLayer = (options: Cluster.ServerOptions) =>
  clientOver.pipe(Layer.provide(databaseLayer(options.url)))
