// What a row and an idle runner cost the database: statements by the log of the server, bytes by table, WAL, connections.
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { readFileSync } from "node:fs"
import { Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { Cluster } from "../../src/kit/entry/cluster.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Fake from "./fakeModel.ts"
import { type Server, startServer } from "./postgresServer.ts"

/** Starts a server that logs all statements. */
export const startCountedServer = (): Promise<Server> =>
  startServer({
    log_statement: "all",
    logging_collector: "on",
    log_filename: "statements.log",
    log_min_messages: "log",
    log_line_prefix: "@@",
    log_parameter_max_length: "0"
  })

const toolkit = Toolkit.make(
  Tool.make("look", { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
)

/** A model of two calls: a call of a tool, and an answer of 300 characters. */
const provider = Layer.succeed(Provider, {
  ...Fake.make().provider,
  prepare: ({ messages, stream }) =>
    Effect.sync(() => {
      const asked = messages.findLastIndex(({ role }) => role === "user")
      return {
        model: "fake-1",
        messages: [],
        stream,
        results: messages.slice(asked).filter(({ role }) => role === "tool").length
      }
    }),
  execute: ({ results }) =>
    Effect.succeed(
      results === 0
        ? Fake.callsAnswer(Fake.call("call_8f2a61c09b", "look", { path: "src/index.ts" }))
        : Fake.textAnswer("The file has three exports, and each is used once. ".repeat(6))
    )
})

/** A runner with that model, in this process. */
export const layerCostRunner = (url: string) => {
  const address = Redacted.make(url)
  const store = SessionStore.layerPostgres({ url: address })
  const agent = Runtime.layer({
    provider,
    store,
    tools: [
      Toolset.make(
        "terminal",
        toolkit,
        toolkit.toLayer({ look: ({ path }) => Effect.succeed(`${path}: ${"export const one = 1\n".repeat(20)}`) })
      )
    ]
  }).pipe(Layer.provideMerge(store))
  return Cluster.layerRunner({ url: address, concurrency: 4 }).pipe(Layer.provide(agent))
}

/** Returns the statements of runners and clients so far, `BEGIN` and `COMMIT` too, without their values. */
export const readStatements = (server: Server): ReadonlyArray<string> =>
  readFileSync(`${server.folder}/data/log/statements.log`, "utf8")
    .split("@@")
    .flatMap((entry) => /^LOG:\s+execute [^:]+:\s*(.*)/su.exec(entry)?.[1]?.replaceAll(/\s+/gu, " ").trim() ?? [])

/** Statements that a process sends by its timers, or as often as its timers allow: not for each row. */
const polls: ReadonlyArray<readonly [name: string, pattern: RegExp]> = [
  ["check of the members", /^WITH held AS MATERIALIZED/],
  ["poll of the messages", /^WITH messages AS \( UPDATE "cluster_messages"/],
  // Every five seconds, and when a process sends one.
  ["messages of other processes", /^SELECT DISTINCT session_id AS id FROM session_inbox WHERE \(taken_at IS NULL OR /],
  ["runs that stand still", /^SELECT id FROM runs WHERE state <> 'done' AND NOT EXISTS/],
  ["sign of life of the process", /^SELECT 1$/],
  ["sign of life of the runner", /SET last_heartbeat = NOW\(\)/],
  ["locks of the shards", /^SELECT objid FROM pg_locks/],
  ["outcomes", /^SELECT id, outcome FROM runs/],
  // Once an hour.
  ["retention", /retention|ended_at < |^DELETE FROM (agents|shared|leases WHERE expires_at)|FROM pg_tables/],
  ["state of a run that stands still", /FROM "cluster_(messages|replies)" WHERE (message_id|request_id)/]
]

/** Returns the name of the timer that sends a statement, or `undefined` for a statement of a row. */
export const findPoll = (statement: string): string | undefined =>
  polls.find(([, pattern]) => pattern.test(statement))?.[0]

/** Counts equal values. */
export const countEach = (values: ReadonlyArray<string>): ReadonlyMap<string, number> => {
  const counts = new Map<string, number>()
  for (const value of values) counts.set(value, (counts.get(value) ?? 0) + 1)
  return counts
}

/** Number of connections of this program. */
export const countConnections = (server: Server): number =>
  Number(server.query("SELECT count(*) FROM pg_stat_activity WHERE application_name = 'hermes'"))

/** Runs an effect, and returns the bytes of the log of changes that the server wrote meanwhile. */
export const measureWal = <A, E, R>(server: Server, work: Effect.Effect<A, E, R>): Effect.Effect<number, E, R> =>
  Effect.gen(function* () {
    const before = server.query("SELECT pg_current_wal_lsn()")
    yield* work
    return Number(server.query(`SELECT pg_wal_lsn_diff(pg_current_wal_lsn(), '${before}')`))
  })

/** Bytes of the tables of a schema, with their indexes. */
export const readTableSizes = (server: Server, schema: string): Readonly<Record<string, number>> =>
  JSON.parse(
    server.query(`SELECT json_object_agg(relname, pg_total_relation_size(c.oid))
      FROM pg_class c JOIN pg_namespace n ON n.oid = relnamespace WHERE nspname = '${schema}' AND relkind = 'r'`)
  )

/** Runs rows of two calls of the model, one after another. */
export const runRows = (prefix: string, count: number) =>
  Effect.gen(function* () {
    const ids = Array.from({ length: count }, (_, index) => `${prefix}-${index}`)
    yield* Effect.forEach(
      ids,
      (id) => Cluster.submit(Cluster.makeTurnRequest({ id, sessionId: id, prompt: "How many exports does it have?" })),
      { concurrency: 4, discard: true }
    )
    yield* Cluster.waitForOutcomes(ids)
  })

/** Costs of a row, and of a runner without work. */
export interface Costs {
  /** Statements for each row, in the order of their first use, and statements of timers. */
  readonly statements: ReadonlyMap<string, number>
  readonly polls: ReadonlyMap<string, number>
  /** Bytes of a row by table, with their indexes, and in the log of changes. */
  readonly tables: Readonly<Record<string, number>>
  readonly wal: number
  readonly idle: { readonly connections: number; readonly statements: ReadonlyArray<string>; readonly seconds: number }
}

/** Waits for the workflows of the last rows, which end after their outcomes are there. */
const waitForWorkflows = (server: Server) =>
  Effect.repeat(
    Effect.andThen(
      Effect.sleep("50 millis"),
      Effect.sync(() => server.query("SELECT count(*) FROM cost.cluster_messages WHERE NOT processed"))
    ),
    { until: (open) => open === "0" }
  )

/** Measures the costs of rows of two calls of the model, on one runner in this process. */
export const measureCosts = (server: Server, rows: number, idleSeconds: number) =>
  Effect.gen(function* () {
    // The statements of the start are not counted.
    yield* Effect.sleep("3 seconds")
    const began = yield* Clock.currentTimeMillis
    const start = readStatements(server).length
    yield* Effect.sleep(`${idleSeconds} seconds`)
    const idle = {
      connections: countConnections(server),
      statements: readStatements(server).slice(start),
      seconds: ((yield* Clock.currentTimeMillis) - began) / 1000
    }
    yield* runRows("warm", 20)
    yield* waitForWorkflows(server)
    const sizes = readTableSizes(server, "cost")
    const before = readStatements(server).length
    const wal = yield* measureWal(server, runRows("row", rows))
    yield* waitForWorkflows(server)
    const statements = readStatements(server).slice(before)
    const grown = readTableSizes(server, "cost")
    const costs: Costs = {
      statements: countEach(statements.filter((statement) => findPoll(statement) === undefined)),
      polls: countEach(statements.flatMap((statement) => findPoll(statement) ?? [])),
      tables: Object.fromEntries(
        Object.entries(grown).flatMap(([name, size]) => {
          const bytes = (size - (sizes[name] ?? 0)) / rows
          return bytes > 0 ? [[name, bytes]] : []
        })
      ),
      wal: wal / rows,
      idle
    }
    return costs
  }).pipe(Effect.provide(layerCostRunner(server.url("cost")), { local: true }))
