/** Ledger of tenants in memory, for one process and for tests. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { SessionStoreError } from "../../base/domain/AgentError.ts"
import { add, type Amounts, nothing, subtractAmounts } from "../../base/domain/Tenant.ts"
import type {
  Decision,
  LedgerRows,
  ModelUsage,
  ReserveRequest,
  Service,
  Settlement,
  UsageFilter,
  UsageRow
} from "./TenantLedgerPort.ts"
import * as TenantSums from "./TenantSums.ts"

interface Reservation {
  readonly tenant: string
  readonly held: Amounts
  readonly output: number
  expiresAt: number
  /** True if the reservation expired and its amounts were counted as spent. */
  isCounted: boolean
}

interface Place {
  readonly tenant: string
  expiresAt: number
}

/** Entries of the ledger by their keys. */
interface Entries {
  readonly sums: Map<string, TenantSums.Sums>
  readonly reservations: Map<string, Reservation>
  readonly places: Map<string, Place>
  readonly usage: Map<string, UsageRow>
}

const readSums = ({ sums }: Entries, tenant: string, at: number): TenantSums.Sums =>
  TenantSums.advance(sums.get(tenant) ?? TenantSums.makeSums(at), at)

const countExpired = (entries: Entries, tenant: string, at: number): void => {
  const { reservations, sums } = entries
  for (const [id, one] of reservations) {
    if (one.tenant !== tenant || one.expiresAt > at) continue
    if (one.isCounted) {
      if (one.expiresAt <= at - TenantSums.keptMillis) reservations.delete(id)
      continue
    }
    one.isCounted = true
    sums.set(tenant, TenantSums.addSpent(readSums(entries, tenant, at), one.held))
  }
}

const countUsage = ({ usage }: Entries, tenant: string, day: string, one: ModelUsage): void => {
  const key = JSON.stringify([tenant, day, one.model])
  const row = usage.get(key)
  usage.set(key, {
    tenant,
    day,
    model: one.model,
    calls: (row?.calls ?? 0) + one.calls,
    inputTokens: (row?.inputTokens ?? 0) + one.inputTokens,
    outputTokens: (row?.outputTokens ?? 0) + one.outputTokens,
    nanos: (row?.nanos ?? 0) + one.nanos
  })
}

const settleAll = (entries: Entries, tenant: string, settled: ReadonlyArray<Settlement>, at: number): void => {
  const { reservations, sums } = entries
  for (const one of settled) {
    const reservation = reservations.get(one.id)
    if (reservation?.tenant !== tenant) continue
    reservations.delete(one.id)
    const { expiresAt, held, isCounted } = reservation
    const counted = isCounted ? held : nothing
    const next = TenantSums.addSpent(readSums(entries, tenant, at), subtractAmounts(one.spent, counted))
    sums.set(tenant, next)
    for (const usage of one.usage) countUsage(entries, tenant, next.day, usage)
    if (one.rest !== undefined)
      reservations.set(one.rest.id, { tenant, held: one.rest.held, output: 0, expiresAt, isCounted: false })
  }
}

const sumReserved = ({ reservations }: Entries, tenant: string): Amounts => {
  let total: Amounts = nothing
  for (const one of reservations.values()) if (one.tenant === tenant && !one.isCounted) total = add(total, one.held)
  return total
}

const reserveCall = (entries: Entries, request: ReserveRequest, at: number): Decision => {
  const { expiresIn, id, settled, tenant } = request
  settleAll(entries, tenant, settled, at)
  countExpired(entries, tenant, at)
  const sums = readSums(entries, tenant, at)
  const decision = TenantSums.decide(sums, sumReserved(entries, tenant), request, at)
  entries.sums.set(tenant, decision._tag === "Reserved" ? TenantSums.countCall(sums) : sums)
  if (decision._tag === "Reserved") {
    const { held, output } = decision
    entries.reservations.set(id, { tenant, held, output, expiresAt: at + expiresIn, isCounted: false })
  }
  return decision
}

const takePlace = ({ places }: Entries, id: string, most: number, { expiresAt, tenant }: Place, at: number) => {
  let taken = 0
  for (const [other, place] of places) {
    if (place.expiresAt <= at) places.delete(other)
    else if (place.tenant === tenant && other !== id) taken++
  }
  if (taken >= most || (places.get(id)?.tenant ?? tenant) !== tenant) return false
  places.set(id, { tenant, expiresAt })
  return true
}

const listUsage = ({ usage }: Entries, { from, tenant, to }: UsageFilter): ReadonlyArray<UsageRow> =>
  Array.from(usage.values())
    .filter((row) => tenant === undefined || row.tenant === tenant)
    .filter(({ day }) => (from === undefined || day >= from) && (to === undefined || day <= to))
    .toSorted((a, b) => (`${a.day} ${a.tenant} ${a.model}` < `${b.day} ${b.tenant} ${b.model}` ? -1 : 1))

const removeTenant = ({ places, reservations, sums, usage }: Entries, tenant: string): void => {
  sums.delete(tenant)
  for (const map of [reservations, places, usage]) {
    for (const [key, one] of map) if (one.tenant === tenant) map.delete(key)
  }
}

const readRows = (entries: Entries): LedgerRows => ({
  sums: Array.from(entries.sums, ([tenant, sums]) => TenantSums.toRow(tenant, sums)),
  reservations: Array.from(entries.reservations, ([id, { expiresAt, held, isCounted, output, tenant }]) => ({
    id,
    tenant,
    ...held,
    output,
    expiresAt,
    isCounted: isCounted ? 1 : 0
  })),
  usage: listUsage(entries, {})
})

const addRows = (entries: Entries, { reservations, sums, usage }: LedgerRows): void => {
  for (const row of sums) entries.sums.set(row.tenant, TenantSums.addRow(entries.sums.get(row.tenant), row))
  for (const { expiresAt, id, isCounted, nanos, output, tenant, tokens } of reservations) {
    if (entries.reservations.has(id)) continue
    const held = { tokens, nanos }
    entries.reservations.set(id, { tenant, held, output, expiresAt, isCounted: isCounted === 1 })
  }
  for (const row of usage) {
    const key = JSON.stringify([row.tenant, row.day, row.model])
    const before = entries.usage.get(key) ?? row
    entries.usage.set(key, {
      ...row,
      calls: Math.max(before.calls, row.calls),
      inputTokens: Math.max(before.inputTokens, row.inputTokens),
      outputTokens: Math.max(before.outputTokens, row.outputTokens),
      nanos: Math.max(before.nanos, row.nanos)
    })
  }
}

const withNow = <A>(body: (at: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, body)

/** Creates an empty ledger. */
export const make = (): Service => {
  const entries: Entries = { sums: new Map(), reservations: new Map(), places: new Map(), usage: new Map() }
  const { places, reservations } = entries
  return {
    reserve: (request) =>
      (reservations.get(request.id)?.tenant ?? request.tenant) === request.tenant
        ? withNow((at) => reserveCall(entries, request, at))
        : Effect.fail(new SessionStoreError({ operation: "reserve", message: "the id of the reservation is taken" })),
    settle: (tenant, settled) => withNow((at) => settleAll(entries, tenant, settled, at)),
    renew: (ids, expiresIn) =>
      withNow((at) => {
        for (const id of ids) {
          const held = reservations.get(id)
          if (held !== undefined && !held.isCounted) held.expiresAt = at + expiresIn
          const place = places.get(id)
          if (place !== undefined) place.expiresAt = at + expiresIn
        }
      }),
    balance: (tenant) =>
      withNow((at) => {
        countExpired(entries, tenant, at)
        const { day, month, today } = readSums(entries, tenant, at)
        return { day, spentToday: today, spentThisMonth: month, reserved: sumReserved(entries, tenant) }
      }),
    usage: (filter = {}) => Effect.sync(() => listUsage(entries, filter)),
    enter: (tenant, id, most, expiresIn) =>
      withNow((at) => takePlace(entries, id, most, { tenant, expiresAt: at + expiresIn }, at)),
    leave: (id) => Effect.sync(() => void places.delete(id)),
    readRows: Effect.sync(() => readRows(entries)),
    addRows: (rows) => Effect.sync(() => addRows(entries, rows)),
    remove: (tenant) => Effect.sync(() => removeTenant(entries, tenant))
  }
}
