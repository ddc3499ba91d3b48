// What a row and an idle runner cost the database: statements and transactions by pg_stat_statements, bytes by table,
// WAL, connections. Over a server with that module (`startCountedServer`).
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { Cluster } from "../../src/kit/entry/cluster.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Fake from "./fakeModel.ts"
import { type Server, startServer } from "./postgresServer.ts"

/** Starts a server that counts statements. */
export const startCountedServer = async (settings: Readonly<Record<string, string>> = {}): Promise<Server> => {
  const server = await startServer({
    shared_preload_libraries: "pg_stat_statements",
    "pg_stat_statements.max": "1000",
    ...settings
  })
  server.query("CREATE EXTENSION pg_stat_statements")
  return server
}

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

/** A statement, without its values. */
export interface Statement {
  readonly calls: number
  readonly text: string
  readonly wal: number
}

/** Statements since the last reset, the most frequent first. Queries of the measurement are left out. */
export const readStatements = (server: Server): ReadonlyArray<Statement> =>
  server
    .query(
      `SELECT json_build_object('calls', sum(calls), 'wal', sum(wal_bytes), 'text',
        regexp_replace(query, '\\s+', ' ', 'g'))
      FROM pg_stat_statements WHERE query NOT LIKE '%pg_stat_%' GROUP BY 1, query ORDER BY sum(calls) DESC`.replace(
        "GROUP BY 1, query",
        "GROUP BY query"
      )
    )
    .split("\n")
    .flatMap((line) => (line === "" ? [] : [JSON.parse(line) as Statement]))

/** Forgets the statements so far. */
export const resetStatements = (server: Server): void => void server.query("SELECT pg_stat_statements_reset()")

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
