/** Ledger of tenants in a SQLite file, for the processes of one machine. A reservation is one transaction. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { add, type Amounts, nothing, subtractAmounts } from "../../base/domain/Tenant.ts"
import type { Database as Statements, Row } from "../../base/platform/SqliteClient.ts"
import * as Database from "../sqlite/Database.ts"
import type { Migration } from "../sqlite/Migrations.ts"
import type { LedgerRows, ModelUsage, Service, Settlement, UsageRow } from "./TenantLedgerPort.ts"
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

const toSums = (row: Row): TenantSums.Sums => ({
  day: String(row["day"]),
  today: { tokens: Number(row["day_tokens"]), nanos: Number(row["day_nanos"]) },
  month: { tokens: Number(row["month_tokens"]), nanos: Number(row["month_nanos"]) },
  minute: Number(row["minute"]),
  calls: Number(row["calls"])
})

/** Sums of a tenant with the amounts of its reservations. */
interface Account {
  readonly sums: TenantSums.Sums
  readonly reserved: Amounts
  /** Time at which the first reservation expires. */
  readonly expiresAt: number
}

const readAccount = (all: All, tenant: string, at: number): Account => {
  const sql = `SELECT s.*, sum(r.tokens) AS tokens, sum(r.nanos) AS nanos, min(r.expires_at) AS expires_at
    FROM tenant_sums s LEFT JOIN tenant_reservations r ON r.tenant = s.tenant AND r.is_counted = 0
    WHERE s.tenant = ? GROUP BY s.tenant`
  const [row] = all(sql, [tenant])
  if (row === undefined)
    return { sums: TenantSums.advance(TenantSums.makeSums(at), at), reserved: nothing, expiresAt: Infinity }
  const expiresAt = Number(row["expires_at"] ?? Infinity)
  return { sums: TenantSums.advance(toSums(row), at), reserved: toAmounts(row), expiresAt }
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

/** A new reservation. */
interface Reservation {
  readonly tenant: string
  readonly id: string
  readonly held: Amounts
  readonly output: number
  readonly expiresAt: number
}

const addReservation = (all: All, { expiresAt, held, id, output, tenant }: Reservation): void => {
  all("INSERT INTO tenant_reservations (id, tenant, tokens, nanos, output, expires_at) VALUES (?, ?, ?, ?, ?, ?)", [
    id,
    tenant,
    held.tokens,
    held.nanos,
    output,
    expiresAt
  ])
}

/** Counts the reservations that have expired as spent. */
const countExpired = (all: All, tenant: string, account: Account, at: number): Account => {
  if (account.expiresAt > at) return account
  all("DELETE FROM tenant_reservations WHERE tenant = ? AND is_counted = 1 AND expires_at <= ?", [
    tenant,
    at - TenantSums.keptMillis
  ])
  const sql = `UPDATE tenant_reservations SET is_counted = 1
    WHERE tenant = ? AND is_counted = 0 AND expires_at <= ? RETURNING tokens, nanos`
  return all(sql, [tenant, at])
    .map(toAmounts)
    .reduce<Account>(
      ({ reserved, sums }, held) => ({
        sums: TenantSums.addSpent(sums, held),
        reserved: subtractAmounts(reserved, held),
        expiresAt: Infinity
      }),
      account
    )
}

const addUsage = (all: All, tenant: string, day: string, one: ModelUsage): void => {
  all(
    `INSERT INTO tenant_usage VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET calls = calls + excluded.calls,
      input_tokens = input_tokens + excluded.input_tokens, output_tokens = output_tokens + excluded.output_tokens,
      nanos = nanos + excluded.nanos`,
    [tenant, day, one.model, one.calls, one.inputTokens, one.outputTokens, one.nanos]
  )
}

const settleOne = (all: All, tenant: string, account: Account, { id, rest, spent, usage }: Settlement): Account => {
  const sql = `DELETE FROM tenant_reservations WHERE id = ? AND tenant = ?
    RETURNING tokens, nanos, is_counted, expires_at`
  const [row] = all(sql, [id, tenant])
  if (row === undefined) return account
  const [held, isCounted, expiresAt] = [toAmounts(row), row["is_counted"] === 1, Number(row["expires_at"])]
  for (const one of usage) addUsage(all, tenant, account.sums.day, one)
  if (rest !== undefined) addReservation(all, { ...rest, tenant, output: 0, expiresAt })
  const left = isCounted ? account.reserved : subtractAmounts(account.reserved, held)
  return {
    sums: TenantSums.addSpent(account.sums, isCounted ? subtractAmounts(spent, held) : spent),
    reserved: rest === undefined ? left : add(left, rest.held),
    expiresAt: rest === undefined ? account.expiresAt : Math.min(account.expiresAt, expiresAt)
  }
}

const settleAll = (all: All, tenant: string, account: Account, settled: ReadonlyArray<Settlement>): Account =>
  settled.reduce<Account>((account, one) => settleOne(all, tenant, account, one), account)

const toUsageRow = (row: Row): UsageRow => ({
  tenant: String(row["tenant"]),
  day: String(row["day"]),
  model: String(row["model"]),
  calls: Number(row["calls"]),
  inputTokens: Number(row["input_tokens"]),
  outputTokens: Number(row["output_tokens"]),
  nanos: Number(row["nanos"])
})

const readRows = (all: All): LedgerRows => ({
  sums: all("SELECT * FROM tenant_sums ORDER BY tenant", []).map((row) =>
    TenantSums.toRow(String(row["tenant"]), toSums(row))
  ),
  reservations: all("SELECT * FROM tenant_reservations ORDER BY id", []).map((row) => ({
    id: String(row["id"]),
    tenant: String(row["tenant"]),
    ...toAmounts(row),
    output: Number(row["output"]),
    expiresAt: Number(row["expires_at"]),
    isCounted: Number(row["is_counted"])
  })),
  usage: all("SELECT * FROM tenant_usage ORDER BY day, tenant, model", []).map(toUsageRow)
})

const addRows = (all: All, { reservations, sums, usage }: LedgerRows): void => {
  for (const row of sums) {
    const [before] = all("SELECT * FROM tenant_sums WHERE tenant = ?", [row.tenant])
    writeSums(all, row.tenant, TenantSums.addRow(before === undefined ? undefined : toSums(before), row))
  }
  for (const { expiresAt, id, isCounted, nanos, output, tenant, tokens } of reservations)
    all("INSERT INTO tenant_reservations VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO NOTHING", [
      id,
      tenant,
      tokens,
      nanos,
      output,
      expiresAt,
      isCounted
    ])
  for (const { calls, day, inputTokens, model, nanos, outputTokens, tenant } of usage)
    all(
      `INSERT INTO tenant_usage VALUES (?, ?, ?, ?, ?, ?, ?) ON CONFLICT DO UPDATE SET
        calls = max(calls, excluded.calls), input_tokens = max(input_tokens, excluded.input_tokens),
        output_tokens = max(output_tokens, excluded.output_tokens), nanos = max(nanos, excluded.nanos)`,
      [tenant, day, model, calls, inputTokens, outputTokens, nanos]
    )
}

/** Makes the reservations and settlements of a database. */
const makeSpending = (database: Database.Database): Pick<Service, "reserve" | "settle" | "balance"> => ({
  reserve: (request) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("reserve", (all) => {
        const { expiresIn, id, settled, tenant } = request
        const account = settleAll(all, tenant, readAccount(all, tenant, at), settled)
        const { reserved, sums } = countExpired(all, tenant, account, at)
        const decision = TenantSums.decide(sums, reserved, request, at)
        writeSums(all, tenant, decision._tag === "Reserved" ? TenantSums.countCall(sums) : sums)
        if (decision._tag === "Reserved")
          addReservation(all, { tenant, id, held: decision.held, output: decision.output, expiresAt: at + expiresIn })
        return decision
      })
    ),
  settle: (tenant, settled) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("settle", (all) => {
        const account = readAccount(all, tenant, at)
        const next = settleAll(all, tenant, account, settled)
        // The reservations of a removed tenant are gone, and its late ends add nothing.
        if (next !== account) writeSums(all, tenant, next.sums)
      })
    ),
  balance: (tenant) =>
    Effect.flatMap(Clock.currentTimeMillis, (at) =>
      database.writeDirectly("balance", (all) => {
        const { reserved, sums } = countExpired(all, tenant, readAccount(all, tenant, at), at)
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
    readRows: write("backup", readRows),
    addRows: (rows) => write("restore", (all) => addRows(all, rows)),
    remove: (tenant) =>
      write("remove", (all) => {
        for (const table of ["sums", "reservations", "places", "usage"])
          all(`DELETE FROM tenant_${table} WHERE tenant = ?`, [tenant])
      })
  }
})
