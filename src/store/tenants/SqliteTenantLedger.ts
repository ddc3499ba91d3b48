/** Ledger of tenants in a SQLite file, for the processes of one machine. A reservation is one transaction. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { type Amounts, nothing, subtractAmounts } from "../../base/domain/Tenant.ts"
import type { Database as Statements, Row } from "../../base/platform/SqliteClient.ts"
import * as Database from "../sqlite/Database.ts"
import type { Migration } from "../sqlite/Migrations.ts"
import type { Service, Settlement, UsageRow } from "./TenantLedgerPort.ts"
import * as TenantSums from "./TenantSums.ts"

const migrations: ReadonlyArray<Migration> = [
  {
    version: 1,
    name: "tenants: sums, reservations, places, usage",
    statements: [
      `CREATE TABLE tenant_sums (
        tenant TEXT PRIMARY KEY,
        day TEXT NOT NULL,
        day_tokens INTEGER NOT NULL,
        day_nanos INTEGER NOT NULL,
        month_tokens INTEGER NOT NULL,
        month_nanos INTEGER NOT NULL,
        minute INTEGER NOT NULL,
        calls INTEGER NOT NULL
      ) WITHOUT ROWID`,
      `CREATE TABLE tenant_reservations (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        tokens INTEGER NOT NULL,
        nanos INTEGER NOT NULL,
        output INTEGER NOT NULL,
        expires_at INTEGER NOT NULL,
        is_counted INTEGER NOT NULL DEFAULT 0
      ) WITHOUT ROWID`,
      "CREATE INDEX tenant_reservations_tenant ON tenant_reservations (tenant, is_counted)",
      `CREATE TABLE tenant_places (
        id TEXT PRIMARY KEY,
        tenant TEXT NOT NULL,
        expires_at INTEGER NOT NULL
      ) WITHOUT ROWID`,
      `CREATE TABLE tenant_usage (
        tenant TEXT NOT NULL,
        day TEXT NOT NULL,
        model TEXT NOT NULL,
        calls INTEGER NOT NULL,
        input_tokens INTEGER NOT NULL,
        output_tokens INTEGER NOT NULL,
        nanos INTEGER NOT NULL,
        PRIMARY KEY (tenant, day, model)
      ) WITHOUT ROWID`
    ]
  }
]

type All = Statements["all"]

const toAmounts = (row: Row | undefined): Amounts =>
  row === undefined ? nothing : { tokens: Number(row["tokens"] ?? 0), nanos: Number(row["nanos"] ?? 0) }

const readSums = (all: All, tenant: string, at: number): TenantSums.Sums => {
  const [row] = all("SELECT * FROM tenant_sums WHERE tenant = ?", [tenant])
  if (row === undefined) return TenantSums.advance(TenantSums.makeSums(at), at)
  return TenantSums.advance(
    {
      day: String(row["day"]),
      today: { tokens: Number(row["day_tokens"]), nanos: Number(row["day_nanos"]) },
      month: { tokens: Number(row["month_tokens"]), nanos: Number(row["month_nanos"]) },
      minute: Number(row["minute"]),
      calls: Number(row["calls"])
    },
    at
  )
}

const writeSums = (all: All, tenant: string, { calls, day, minute, month, today }: TenantSums.Sums): void => {
  all("INSERT OR REPLACE INTO tenant_sums VALUES (?, ?, ?, ?, ?, ?, ?, ?)", [
    tenant,
    day,
    today.tokens,
    today.nanos,
    month.tokens,
    month.nanos,
    minute,
    calls
  ])
}

/** Amounts that calls in flight hold, and the time at which the first of their reservations expires. */
interface Reserved {
  readonly amounts: Amounts
  readonly expiresAt: number
}

const readReserved = (all: All, tenant: string): Reserved => {
  const sql = `SELECT sum(tokens) AS tokens, sum(nanos) AS nanos, min(expires_at) AS expires_at
    FROM tenant_reservations WHERE tenant = ? AND is_counted = 0`
  const [row] = all(sql, [tenant])
  return { amounts: toAmounts(row), expiresAt: Number(row?.["expires_at"] ?? Infinity) }
}

/** Counts the reservations that have expired as spent. */
const countExpired = (all: All, tenant: string, sums: TenantSums.Sums, at: number): TenantSums.Sums => {
  all("DELETE FROM tenant_reservations WHERE tenant = ? AND is_counted = 1 AND expires_at <= ?", [
    tenant,
    at - TenantSums.keptMillis
  ])
  const sql = `UPDATE tenant_reservations SET is_counted = 1
    WHERE tenant = ? AND is_counted = 0 AND expires_at <= ? RETURNING tokens, nanos`
  return all(sql, [tenant, at]).reduce<TenantSums.Sums>((sums, row) => TenantSums.addSpent(sums, toAmounts(row)), sums)
}

const addUsage = (all: All, tenant: string, day: string, one: Settlement): void => {
  all(
    `INSERT INTO tenant_usage VALUES (?, ?, ?, 1, ?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + 1,
      input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
      nanos = nanos + excluded.nanos`,
    [tenant, day, one.model, one.inputTokens, one.outputTokens, one.nanos]
  )
}

const settleAll = (
  all: All,
  tenant: string,
  sums: TenantSums.Sums,
  settled: ReadonlyArray<Settlement>
): TenantSums.Sums =>
  settled.reduce<TenantSums.Sums>((sums, one) => {
    const sql = "DELETE FROM tenant_reservations WHERE id = ? AND tenant = ? RETURNING tokens, nanos, is_counted"
    const [row] = all(sql, [one.id, tenant])
    if (row === undefined) return sums
    const counted = row["is_counted"] === 1 ? toAmounts(row) : nothing
    addUsage(all, tenant, sums.day, one)
    return TenantSums.addSpent(sums, subtractAmounts(TenantSums.computeUsed(one), counted))
  }, sums)

const toUsageRow = (row: Row): UsageRow => ({
  tenant: String(row["tenant"]),
  day: String(row["day"]),
  model: String(row["model"]),
  calls: Number(row["calls"]),
  inputTokens: Number(row["input_tokens"]),
  outputTokens: Number(row["output_tokens"]),
  nanos: Number(row["nanos"])
})

/** Returns the sums and the held amounts after reservations have expired. */
const expireReservations = (
  all: All,
  tenant: string,
  sums: TenantSums.Sums,
  at: number
): { readonly sums: TenantSums.Sums; readonly reserved: Amounts } => {
  const { amounts, expiresAt } = readReserved(all, tenant)
  if (expiresAt > at) return { sums, reserved: amounts }
  const counted = countExpired(all, tenant, sums, at)
  return { sums: counted, reserved: readReserved(all, tenant).amounts }
}

/** Makes the reservations and settlements of a database. */
const makeSpending = (database: Database.Database): Pick<Service, "reserve" | "settle" | "balance"> => ({
  reserve: (request) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("reserve", (all) => {
        const { expiresIn, id, settled, tenant } = request
        const settledSums = settleAll(all, tenant, readSums(all, tenant, at), settled)
        const { reserved, sums } = expireReservations(all, tenant, settledSums, at)
        const decision = TenantSums.decide(sums, reserved, request, at)
        writeSums(all, tenant, decision._tag === "Reserved" ? TenantSums.countCall(sums) : sums)
        if (decision._tag === "Reserved") {
          const { nanos, tokens } = TenantSums.computeHeld(request, decision.output)
          all(
            `INSERT INTO tenant_reservations (id, tenant, tokens, nanos, output, expires_at) VALUES (?, ?, ?, ?, ?, ?)`,
            [id, tenant, tokens, nanos, decision.output, at + expiresIn]
          )
        }
        return decision
      })
    ),
  settle: (tenant, settled) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("settle", (all) =>
        writeSums(all, tenant, settleAll(all, tenant, readSums(all, tenant, at), settled))
      )
    ),
  balance: (tenant) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("balance", (all) => {
        const { reserved, sums } = expireReservations(all, tenant, readSums(all, tenant, at), at)
        if (sums.today.tokens !== 0 || sums.month.tokens !== 0) writeSums(all, tenant, sums)
        return { day: sums.day, spentToday: sums.today, spentThisMonth: sums.month, reserved }
      })
    )
})

/** Opens the ledger in a file, which is created if it is missing. It is closed with the scope. */
export const open = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<Service, SessionStoreError, Scope.Scope> {
  const database = yield* Database.open(path, migrations)
  const write = <A>(operation: string, body: (all: All, at: number) => A): Effect.Effect<A, SessionStoreError> =>
    Effect.flatMap(Clock.currentTimeMillis, (at) => database.writeDirectly(operation, (all) => body(all, at)))
  return {
    ...makeSpending(database),
    renew: (ids, expiresIn) =>
      write("renew", (all, at) => {
        for (const id of ids) {
          all("UPDATE tenant_reservations SET expires_at = ? WHERE id = ? AND is_counted = 0", [at + expiresIn, id])
          all("UPDATE tenant_places SET expires_at = ? WHERE id = ?", [at + expiresIn, id])
        }
      }),
    usage: ({ from = "0000", tenant, to = "9999" } = {}) =>
      database.writeDirectly("usage", (all) => {
        const sql = "SELECT * FROM tenant_usage WHERE day >= ? AND day <= ? AND (? IS NULL OR tenant = ?)"
        return all(`${sql} ORDER BY day, tenant, model`, [from, to, tenant, tenant]).map(toUsageRow)
      }),
    enter: (tenant, id, most, expiresIn) =>
      write("enter", (all, at) => {
        all("DELETE FROM tenant_places WHERE expires_at <= ?", [at])
        const [row] = all("SELECT count(*) AS taken FROM tenant_places WHERE tenant = ? AND id <> ?", [tenant, id])
        if (Number(row?.["taken"] ?? 0) >= most) return false
        const sql = `INSERT INTO tenant_places VALUES (?, ?, ?) ON CONFLICT (id)
          DO UPDATE SET expires_at = excluded.expires_at WHERE tenant = excluded.tenant RETURNING id`
        return all(sql, [id, tenant, at + expiresIn]).length > 0
      }),
    leave: (id) => write("leave", (all) => void all("DELETE FROM tenant_places WHERE id = ?", [id])),
    remove: (tenant) =>
      write("remove", (all) => {
        for (const table of ["sums", "reservations", "places", "usage"])
          all(`DELETE FROM tenant_${table} WHERE tenant = ?`, [tenant])
      })
  }
})
