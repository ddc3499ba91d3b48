/** Ledger of tenants in memory, for one process and for tests. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import { add, type Amounts, nothing } from "../../base/domain/Tenant.ts"
import type { Service, Settlement, UsageRow } from "./TenantLedgerPort.ts"
import * as TenantSums from "./TenantSums.ts"

interface Reservation {
  readonly tenant: string
  readonly held: Amounts
  expiresAt: number
  /** True if the reservation expired and its amounts were counted as spent. */
  isCounted: boolean
}

interface Place {
  readonly tenant: string
  expiresAt: number
}

/** Creates an empty ledger. */
export const make = (): Service => {
  const sums = new Map<string, TenantSums.Sums>()
  const reservations = new Map<string, Reservation>()
  const places = new Map<string, Place>()
  const usage = new Map<string, UsageRow>()

  const readSums = (tenant: string, at: number): TenantSums.Sums =>
    TenantSums.advance(sums.get(tenant) ?? TenantSums.makeSums(at), at)

  const countExpired = (tenant: string, at: number): void => {
    for (const [id, one] of reservations) {
      if (one.tenant !== tenant || one.expiresAt > at) continue
      if (one.isCounted) {
        if (one.expiresAt <= at - TenantSums.keptMillis) reservations.delete(id)
        continue
      }
      one.isCounted = true
      sums.set(tenant, TenantSums.addSpent(readSums(tenant, at), one.held))
    }
  }

  const countUsage = (tenant: string, day: string, one: Settlement): void => {
    const key = JSON.stringify([tenant, day, one.model])
    const row = usage.get(key)
    usage.set(key, {
      tenant,
      day,
      model: one.model,
      calls: (row?.calls ?? 0) + 1,
      inputTokens: (row?.inputTokens ?? 0) + one.inputTokens,
      outputTokens: (row?.outputTokens ?? 0) + one.outputTokens,
      nanos: (row?.nanos ?? 0) + one.nanos
    })
  }

  const settleAll = (tenant: string, settled: ReadonlyArray<Settlement>, at: number): void => {
    for (const one of settled) {
      const reservation = reservations.get(one.id)
      if (reservation === undefined) continue
      reservations.delete(one.id)
      const used = { tokens: one.inputTokens + one.outputTokens, nanos: one.nanos }
      const { held, isCounted } = reservation
      const counted = isCounted ? held : nothing
      const change = { tokens: used.tokens - counted.tokens, nanos: used.nanos - counted.nanos }
      const next = TenantSums.addSpent(readSums(tenant, at), change)
      sums.set(tenant, next)
      countUsage(tenant, next.day, one)
    }
  }

  const sumReserved = (tenant: string): Amounts => {
    let total: Amounts = nothing
    for (const one of reservations.values()) if (one.tenant === tenant && !one.isCounted) total = add(total, one.held)
    return total
  }

  const withNow = <A>(body: (at: number) => A): Effect.Effect<A> => Effect.map(Clock.currentTimeMillis, body)

  return {
    reserve: (request) =>
      withNow((at) => {
        const { expiresIn, id, settled, tenant } = request
        settleAll(tenant, settled, at)
        countExpired(tenant, at)
        const now = readSums(tenant, at)
        const decision = TenantSums.decide(now, sumReserved(tenant), request, at)
        sums.set(tenant, decision._tag === "Reserved" ? TenantSums.countCall(now) : now)
        if (decision._tag === "Reserved") {
          const held = TenantSums.computeHeld(request, decision.output)
          reservations.set(id, { tenant, held, expiresAt: at + expiresIn, isCounted: false })
        }
        return decision
      }),
    settle: (tenant, settled) => withNow((at) => settleAll(tenant, settled, at)),
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
        countExpired(tenant, at)
        const { day, month, today } = readSums(tenant, at)
        return { day, spentToday: today, spentThisMonth: month, reserved: sumReserved(tenant) }
      }),
    usage: ({ from, tenant, to } = {}) =>
      Effect.sync(() =>
        Array.from(usage.values())
          .filter((row) => tenant === undefined || row.tenant === tenant)
          .filter(({ day }) => (from === undefined || day >= from) && (to === undefined || day <= to))
          .toSorted((a, b) => (`${a.day} ${a.tenant} ${a.model}` < `${b.day} ${b.tenant} ${b.model}` ? -1 : 1))
      ),
    enter: (tenant, id, most, expiresIn) =>
      withNow((at) => {
        let taken = 0
        for (const [other, place] of places) {
          if (place.expiresAt <= at) places.delete(other)
          else if (place.tenant === tenant && other !== id) taken++
        }
        if (taken >= most) return false
        places.set(id, { tenant, expiresAt: at + expiresIn })
        return true
      }),
    leave: (id) => Effect.sync(() => void places.delete(id)),
    remove: (tenant) =>
      Effect.sync(() => {
        sums.delete(tenant)
        for (const map of [reservations, places]) {
          for (const [id, one] of map) if (one.tenant === tenant) map.delete(id)
        }
        for (const [key, row] of usage) if (row.tenant === tenant) usage.delete(key)
      })
  }
}
