// Several processes of one tenant over one ledger: together they never spend more than the allowance, and use it; the
// calls of a killed process are counted when their reservations expire.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import { join } from "node:path"
import * as Postgres from "../../../src/store/tenants/PostgresTenantLedger.ts"
import * as Sqlite from "../../../src/store/tenants/SqliteTenantLedger.ts"
import { missing, startServer } from "../../support/postgresServer.ts"
import { runScript } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const allowance = 120_000

/** Runs two processes with 100 runs each, and returns the tokens that their models counted. */
const spendTogether = (kind: "sqlite" | "postgres", place: string) =>
  Effect.map(
    Effect.all(
      [0, 1].map(() => runScript("tenantWorker.ts", [kind, place, "100", String(allowance)])),
      { concurrency: "unbounded" }
    ),
    (ended) => {
      for (const { code, errors } of ended) assert.strictEqual(code, 0, errors)
      return ended.reduce((sum, { lines }) => sum + Number(lines.at(-1)), 0)
    }
  )

const checkSpent = (spent: number): void => {
  assert.isAtMost(spent, allowance)
  assert.isAtLeast(spent, allowance * 0.95)
}

describe("two processes of one tenant", () => {
  it.live("over a SQLite file never spend more than the allowance, and use at least 95 % of it", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "ledger.db")
      const spent = yield* spendTogether("sqlite", path)
      checkSpent(spent)
      const { balance } = yield* Sqlite.open(path)
      const { reserved, spentToday } = yield* balance("acme")
      assert.deepStrictEqual([spentToday.tokens, reserved.tokens], [spent, 0])
    })
  )

  it.live.skipIf(missing !== undefined)(
    "over a Postgres database never spend more than the allowance, and use at least 95 % of it",
    () =>
      Effect.gen(function* () {
        const server = yield* Effect.acquireRelease(
          Effect.promise(() => startServer()),
          (server) => Effect.promise(async () => void (await server.remove()))
        )
        const spent = yield* spendTogether("postgres", server.url("tenants"))
        checkSpent(spent)
        const { balance } = yield* Postgres.open({ url: Redacted.make(server.url("tenants")) })
        const { reserved, spentToday } = yield* balance("acme")
        assert.deepStrictEqual([spentToday.tokens, reserved.tokens], [spent, 0])
      })
  )

  it.live("of which one is killed: the call it made is counted when its reservation expires", () =>
    Effect.gen(function* () {
      const path = join(yield* temporaryDirectory, "ledger.db")
      const killed = yield* runScript("tenantWorker.ts", ["sqlite", path, "0", String(allowance)], (line, child) => {
        if (line === "begun") child.kill("SIGKILL")
      })
      assert.strictEqual(killed.signal, "SIGKILL")
      const { balance } = yield* Sqlite.open(path)
      const before = yield* balance("acme")
      assert.strictEqual(before.spentToday.tokens, 0)
      assert.isAbove(before.reserved.tokens, 500)
      const now = yield* Clock.currentTimeMillis
      const later = yield* balance("acme").pipe(
        Effect.provideService(Clock.Clock, {
          ...(yield* Clock.Clock),
          currentTimeMillis: Effect.succeed(now + 121_000)
        })
      )
      // The day may have ended meanwhile, but not the month twice.
      assert.strictEqual(later.reserved.tokens, 0)
      assert.strictEqual(later.spentThisMonth.tokens, before.reserved.tokens)
    })
  )
})
