// The removal of a tenant from Postgres by processes that are killed at different messages to the database: a repetition
// removes the rest, and the other tenant loses nothing.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Tenants from "../../../src/agent/Tenants.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as TenantLedger from "../../../src/store/tenants/TenantLedger.ts"
import { missing, type Server, startServer } from "../../support/postgresServer.ts"
import { runScript } from "../../support/runScript.ts"

const schema = "tenants"

/** Messages to the database with which a process is killed. */
const kills = [1, 4, 7, 10]

/** Makes two runs of each tenant, whose sessions have the name of the tenant. */
const prepare = (server: Server) => {
  const url = Redacted.make(server.url(schema))
  const runtime = Runtime.layer({
    provider: Scripted.layer(Array.from({ length: 4 }, () => Scripted.complete("done"))),
    store: SessionStore.layerPostgres({ url }),
    tenants: Tenants.layerFrom([{ id: "acme" }, { id: "zeta" }], TenantLedger.layerPostgres({ url }))
  }).pipe(Layer.provide(NodeServices.layer))
  const run = (tenant: string) => Agent.run({ prompt: `the harbour of ${tenant}`, tenant })
  return Effect.provide(Effect.forEach(["acme", "zeta", "acme", "zeta"], run), runtime)
}

/** Returns the rows of all tables that name a tenant, by table. */
const readRows = (server: Server, tenant: string): Readonly<Record<string, ReadonlyArray<string>>> => {
  const tables = server.query(`SELECT tablename FROM pg_tables WHERE schemaname = '${schema}' ORDER BY 1`)
  return Object.fromEntries(
    tables
      .split("\n")
      .map((table): [string, ReadonlyArray<string>] => {
        const rows = server.query(
          `SELECT t::text FROM ${schema}."${table}" t WHERE t::text LIKE '%${tenant}%' ORDER BY 1`
        )
        return [table, rows === "" ? [] : rows.split("\n")]
      })
      .filter(([, rows]) => rows.length > 0)
  )
}

describe.skipIf(missing !== undefined)("the removal of a tenant from Postgres", () => {
  it.live(
    "is repeated after kills until nothing is left, and leaves the other tenant",
    () =>
      Effect.gen(function* () {
        const server = yield* Effect.acquireRelease(
          Effect.promise(() => startServer()),
          (server) => Effect.promise(async () => void (await server.remove()))
        )
        yield* prepare(server)
        const [acme, zeta] = [readRows(server, "acme"), readRows(server, "zeta")]
        assert.includeMembers(Object.keys(acme), ["sessions", "tenant_usage"])
        assert.deepStrictEqual(Object.keys(acme), Object.keys(zeta))
        const address = server.url(schema)
        let killed = 0
        for (const last of kills) {
          const { code, errors, signal } = yield* runScript("removalWorker.ts", [address, String(last)])
          assert.isTrue(signal === "SIGKILL" || code === 0, errors)
          if (signal === "SIGKILL") killed++
        }
        assert.isAtLeast(killed, 2)
        const { errors, lines } = yield* runScript("removalWorker.ts", [address, "0"])
        assert.deepStrictEqual(lines, ["removed"], errors)
        assert.deepStrictEqual(readRows(server, "acme"), {})
        assert.deepStrictEqual(readRows(server, "zeta"), zeta)
      }).pipe(Effect.scoped),
    60_000
  )
})
