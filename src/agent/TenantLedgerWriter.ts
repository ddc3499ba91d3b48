/**
 * The reservations of one process in the ledger of tenants. The ends of model calls are written with the next
 * reservation of the tenant, or after a second. Reservations of calls in flight are renewed. Calls that wait for the
 * end of another call have lines.
 */
import * as Clock from "effect/Clock"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Ids from "../base/domain/Ids.ts"
import { nothing } from "../base/domain/Tenant.ts"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"
import * as TenantLeases from "./TenantLeases.ts"

/** Time until a reservation expires whose process died, in milliseconds. */
export const expiresIn = 120_000

/** Number of hexadecimal digits of an id of a reservation or a place. */
export const idLength = 24

/** Calls of one tenant that wait for the ends of calls in flight. */
export interface WaitingLine {
  /** Turn of the first waiting call. */
  readonly turn: Semaphore.Semaphore
  waiting: number
  /** Completed when a call of the tenant ends. */
  ended: Deferred.Deferred<void>
}

/** Completes the notice of an end, and returns the next one. */
export const announceEnd = (ended: Deferred.Deferred<void>): Deferred.Deferred<void> => {
  Deferred.doneUnsafe(ended, Effect.void)
  return Deferred.makeUnsafe()
}

/** Creates the lines of the calls that wait. The line of a tenant exists as long as a call waits in it. */
const makeWaitingLines = () => {
  const lines = new Map<string, WaitingLine>()
  return {
    openLine: (tenant: string): WaitingLine => {
      const line = lines.get(tenant) ?? { turn: Semaphore.makeUnsafe(1), waiting: 0, ended: Deferred.makeUnsafe() }
      line.waiting++
      lines.set(tenant, line)
      return line
    },
    closeLine: (tenant: string, line: WaitingLine): void => {
      line.waiting--
      if (line.waiting === 0) lines.delete(tenant)
    },
    hasLine: (tenant: string): boolean => lines.has(tenant),
    /** Wakes the first call in the line of a tenant. */
    wakeFirst: (tenant: string): void => {
      const line = lines.get(tenant)
      if (line !== undefined) line.ended = announceEnd(line.ended)
    }
  }
}

/** Creates the reservations of the tenants in this process. */
const makeAllLeases = () => {
  const all = new Map<string, TenantLeases.TenantLeases>()
  return {
    findLeases: (tenant: string): TenantLeases.TenantLeases => {
      const found = all.get(tenant) ?? TenantLeases.makeEmpty()
      all.set(tenant, found)
      return found
    },
    forgetEmpty: (tenant: string): void => {
      const found = all.get(tenant)
      if (found !== undefined && TenantLeases.isEmpty(found)) all.delete(tenant)
    },
    listTenants: (): ReadonlyArray<string> => Array.from(all.keys()),
    listBusy: (): ReadonlyArray<TenantLeases.Lease> => Array.from(all.values()).flatMap(({ busy }) => Array.from(busy))
  }
}

/** A reservation or a place that is renewed while it is held. */
export interface Held {
  id: string
  /** Time from which it is held in the ledger. */
  renewedAt: number
}

/** Time after which a reservation or a place is renewed, in milliseconds. */
const renewAfter = expiresIn / 3

type AllLeases = ReturnType<typeof makeAllLeases>

/** Creates the writes of ended calls. They run in the scope. */
const makeFlushes = (ledger: TenantLedger.Service, leases: AllLeases, scope: Scope.Scope) => {
  /** Tenants whose ends are written in a moment. */
  const waiting = new Set<string>()

  const writePending = <A, E>(
    tenant: string,
    write: (settled: ReadonlyArray<TenantLedger.Settlement>) => Effect.Effect<A, E>
  ): Effect.Effect<A, E> =>
    Effect.suspend(() => {
      const settled = TenantLeases.takePending(leases.findLeases(tenant))
      return Effect.onExit(write(settled), (exit) =>
        Effect.sync(() => {
          const own = leases.findLeases(tenant)
          if (exit._tag === "Success") TenantLeases.confirmWritten(own, settled)
          else own.pending = [...settled, ...own.pending]
        })
      )
    })
  const continueCalls = Effect.fnUntraced(function* (tenant: string) {
    const own = leases.findLeases(tenant)
    for (const lease of TenantLeases.listContinuable(own))
      TenantLeases.continueLease(own, lease, yield* Ids.makeHex(idLength))
  })
  const writeEnds = (tenant: string) =>
    writePending(tenant, (settled) => (settled.length === 0 ? Effect.void : ledger.settle(tenant, settled)))
  const flush = (tenant: string): Effect.Effect<void> =>
    continueCalls(tenant).pipe(
      Effect.andThen(writeEnds(tenant)),
      // The call of a reservation that was continued may have ended meanwhile.
      Effect.andThen(writeEnds(tenant)),
      Effect.catch((error) => Effect.logWarning(`The usage of tenant ${tenant} is not written yet: ${error.message}`)),
      Effect.andThen(Effect.sync(() => leases.forgetEmpty(tenant)))
    )
  const flushLater = (tenant: string): Effect.Effect<void> => {
    if (waiting.has(tenant)) return Effect.void
    waiting.add(tenant)
    const flushed = Effect.suspend(() => {
      waiting.delete(tenant)
      return flush(tenant)
    })
    return Effect.asVoid(Effect.forkIn(Effect.delay(flushed, TenantLeases.openFor), scope))
  }
  return {
    /** Runs a write with the settlements of a tenant. If it fails, the next write includes them. */
    writePending,
    /** Writes the ends of a tenant's calls. If that fails, the next write includes them. */
    flush,
    flushAll: Effect.suspend(() => Effect.forEach(leases.listTenants(), flush, { discard: true })),
    /** Marks a tenant whose ends are written in a moment, and returns the effect that waits and writes them. */
    flushLater
  }
}

/** Creates the renewal of reservations and places. It runs in the scope from its first start on. */
const makeRenewal = (ledger: TenantLedger.Service, listHeld: () => ReadonlyArray<Held>, scope: Scope.Scope) => {
  let renewing: Fiber.Fiber<void> | undefined
  const renewDue = Effect.gen(function* () {
    const at = yield* Clock.currentTimeMillis
    // A clock that was set back says nothing about the age of a reservation.
    const due = listHeld().filter(({ renewedAt }) => at < renewedAt || at - renewedAt >= renewAfter)
    if (due.length === 0) return
    const ids = due.map(({ id }) => id)
    yield* ledger.renew(ids, expiresIn)
    for (const one of due) one.renewedAt = at
  })
  const renew = Effect.catch(renewDue, (error) =>
    Effect.logWarning(`The reservations of model calls are not renewed: ${error.message}`)
  )
  const repeated = Effect.asVoid(Effect.schedule(renew, Schedule.spaced(renewAfter / 2)))
  return Effect.suspend(() => {
    if (renewing !== undefined) return Effect.void
    return Effect.map(Effect.forkIn(repeated, scope), (fiber) => {
      renewing = fiber
    })
  })
}

/** Creates the writer of the ends of calls, which renews the reservations in flight. */
export const makeLedgerWriter = Effect.fnUntraced(function* (ledger: TenantLedger.Service) {
  const scope = yield* Effect.scope
  const leases = makeAllLeases()
  /** Places of runs. */
  const places = new Set<Held>()
  const { wakeFirst, ...lines } = makeWaitingLines()
  const { flushLater, ...flushes } = makeFlushes(ledger, leases, scope)
  const startRenewal = makeRenewal(ledger, () => [...places, ...leases.listBusy()], scope)
  yield* Effect.addFinalizer(() => flushes.flushAll)

  return {
    ...flushes,
    ...lines,
    /** Renews the place of a run until it is released. */
    holdPlace: Effect.fnUntraced(function* (id: string) {
      const place: Held = { id, renewedAt: yield* Clock.currentTimeMillis }
      places.add(place)
      yield* startRenewal
      return place
    }),
    releasePlace: (place: Held): void => {
      places.delete(place)
    },
    takeLease: (tenant: string, needed: TenantLeases.NeededRoom): TenantLeases.Lease | undefined =>
      TenantLeases.takeLease(leases.findLeases(tenant), needed),
    countSpareCalls: (tenant: string, { at, limits }: TenantLeases.NeededRoom): number =>
      TenantLeases.countSpareCalls(leases.findLeases(tenant), limits, at),
    openLease: Effect.fnUntraced(function* (
      granted: Parameters<typeof TenantLeases.openLease>[1],
      needed: TenantLeases.NeededRoom
    ) {
      const lease = TenantLeases.openLease(leases.findLeases(granted.tenant), granted, needed)
      yield* startRenewal
      // Room for calls that do not come is given back.
      if (TenantLeases.hasMore(lease)) yield* flushLater(granted.tenant)
      return lease
    }),
    /** Ends a reservation that the ledger may have made although its request failed. */
    giveUp: (tenant: string, id: string): Effect.Effect<void> => {
      leases.findLeases(tenant).pending.push({ id, usage: [], spent: nothing })
      wakeFirst(tenant)
      return flushLater(tenant)
    },
    /** Notes the end of a call at once. The returned effect has it written in a moment. */
    endCall: (lease: TenantLeases.Lease, end: TenantLeases.CallEnd): Effect.Effect<void> => {
      TenantLeases.endCall(leases.findLeases(lease.tenant), lease, end)
      wakeFirst(lease.tenant)
      return flushLater(lease.tenant)
    }
  }
})

/** Writer of the ends of calls. */
export type LedgerWriter = Effect.Success<ReturnType<typeof makeLedgerWriter>>
