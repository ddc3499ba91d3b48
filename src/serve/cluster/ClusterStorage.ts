/**
 * The storage of `effect/cluster` in the Postgres database of a cluster, with fewer statements than the general one.
 *
 * **Details**
 *
 * A reply is stored by one statement, and a trigger notifies the runners of messages for workflows. The runners come
 * from the statement with which each runner checks the others (`Members`). The time of a runner's last sign of life is
 * not written again with each reply: other runners use the lock of its process instead.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { PersistenceError } from "effect/cluster/ClusterError"
import * as MessageStorage from "effect/cluster/MessageStorage"
import * as RunnerStorage from "effect/cluster/RunnerStorage"
import * as Snowflake from "effect/cluster/Snowflake"
import * as SqlMessageStorage from "effect/cluster/SqlMessageStorage"
import * as SqlRunnerStorage from "effect/cluster/SqlRunnerStorage"
import * as SqlClient from "effect/sql/SqlClient"
import type { Connection } from "effect/sql/SqlConnection"
import { ClusterDatabase } from "./ClusterDatabase.ts"
import { Membership } from "./Members.ts"
import { RunWorkflow } from "./RunWorkflow.ts"

/** Held while the trigger is created, so that two processes do not create it at the same time. */
const creating = 0x4865456b

/** Creates the trigger that notifies the runners of messages for workflows. Activities are local to their runner. */
const createTrigger = Effect.gen(function* () {
  const { news, sql } = yield* ClusterDatabase
  const exists = sql`
    SELECT 1 FROM pg_trigger WHERE tgname = 'hermes_message_arrived' AND tgrelid = CAST('cluster_messages' AS regclass)`
  if ((yield* exists).length > 0) return
  yield* sql.transaction(
    Effect.gen(function* () {
      yield* sql`SELECT pg_advisory_xact_lock(${creating})`
      if ((yield* exists).length > 0) return
      yield* sql.unsafe(
        "CREATE OR REPLACE FUNCTION hermes_notify_work() RETURNS trigger LANGUAGE plpgsql AS " +
          "$$ BEGIN PERFORM pg_notify(TG_ARGV[0], 'work '); RETURN NULL; END $$"
      ).unprepared
      yield* sql.unsafe(
        "CREATE TRIGGER hermes_message_arrived AFTER INSERT ON cluster_messages FOR EACH ROW " +
          `WHEN (NEW.tag IS DISTINCT FROM 'activity') EXECUTE FUNCTION hermes_notify_work('${news.channel}')`
      ).unprepared
    })
  )
})

/**
 * Tests whether a request is the interruption of a run. The engine looks for it at the start of each workflow. No part
 * of the program interrupts the workflow of a run: cancellations are messages in the inbox.
 */
const isInterruption = (primaryKey: string): boolean =>
  primaryKey.startsWith(`Workflow/${RunWorkflow._tag}/`) && primaryKey.endsWith("/deferred/Workflow/InterruptSignal")

/** Stores the messages of workflows and their replies. */
export const layerMessages = Layer.effect(
  MessageStorage.MessageStorage,
  Effect.gen(function* () {
    const { sql } = yield* ClusterDatabase
    const encoded = yield* SqlMessageStorage.makeEncoded()
    yield* Effect.orDie(createTrigger)
    return yield* MessageStorage.makeEncoded({
      ...encoded,
      requestIdForPrimaryKey: (primaryKey) =>
        isInterruption(primaryKey) ? Effect.succeedNone : encoded.requestIdForPrimaryKey(primaryKey),
      saveReply: (reply) =>
        reply._tag === "Chunk"
          ? encoded.saveReply(reply)
          : sql`
            WITH answered AS (
              UPDATE cluster_messages SET processed = TRUE, last_reply_id = ${reply.id}
              WHERE request_id = ${reply.requestId}
            )
            INSERT INTO cluster_replies (id, kind, request_id, payload, sequence)
            VALUES (${reply.id}, 0, ${reply.requestId}, ${JSON.stringify(reply.exit)}, NULL)
            ON CONFLICT (id) DO NOTHING`.pipe(Effect.asVoid, PersistenceError.refail, Effect.withTracerEnabled(false))
    })
  })
).pipe(Layer.provide(Snowflake.layerGenerator))

/** Statement of the engine that writes the time of a runner's last sign of life. */
const isSignOfLife = (query: string): boolean => query.includes("SET last_heartbeat")

/**
 * Makes the client that the engine's locks of shards use. Their connection sends a sign of life at most once in
 * `millis`.
 */
const limitSigns = (sql: SqlClient.SqlClient, millis: number): SqlClient.SqlClient => {
  const limitConnection = (connection: Connection): Connection => {
    let last = Number.NEGATIVE_INFINITY
    const executeRaw: Connection["executeRaw"] = (query, params) => {
      const executed = connection.executeRaw(query, params)
      if (!isSignOfLife(query)) return executed
      return Effect.flatMap(Clock.currentTimeMillis, (now) =>
        now - last < millis ? Effect.succeed([]) : Effect.tap(executed, () => Effect.sync(() => void (last = now)))
      )
    }
    return {
      execute: (...given) => connection.execute(...given),
      executeRaw,
      executeStream: (...given) => connection.executeStream(...given),
      executeValues: (...given) => connection.executeValues(...given),
      executeValuesUnprepared: (...given) => connection.executeValuesUnprepared(...given),
      executeUnprepared: (...given) => connection.executeUnprepared(...given)
    }
  }
  // The client is a function with members. All of its uses remain.
  const limited: SqlClient.SqlClient = Object.assign(sql.bind(undefined), sql, {
    reserve: Effect.map(sql.reserve, limitConnection),
    withoutTransforms: (): SqlClient.SqlClient => limited
  })
  return limited
}

/** Stores the runners and the locks of their shards. */
export const layerRunners = Layer.effect(
  RunnerStorage.RunnerStorage,
  Effect.gen(function* () {
    const { runnerPrefix, sql } = yield* ClusterDatabase
    const { check, runners } = yield* Membership
    const storage = Context.get(
      yield* Layer.build(SqlRunnerStorage.layerStorage({ prefix: runnerPrefix })).pipe(
        Effect.provideService(SqlClient.SqlClient, limitSigns(sql, (sql.takeoverSeconds * 1000) / 8))
      ),
      RunnerStorage.RunnerStorage
    )
    return RunnerStorage.RunnerStorage.of({
      ...storage,
      getRunners: runners,
      // The engine looks for itself among the runners at once.
      register: (runner, isHealthy) => Effect.tap(storage.register(runner, isHealthy), () => check),
      setRunnerHealth: (address, isHealthy) => Effect.tap(storage.setRunnerHealth(address, isHealthy), () => check)
    })
  })
)
