/**
 * Writes the ends of model calls to the ledger of tenants: with the next reservation of the tenant, or after a second.
 * Renews the reservations of calls in flight, and has the lines of calls that wait for the end of another call.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as Fiber from "effect/Fiber"
import * as Schedule from "effect/Schedule"
import * as Semaphore from "effect/Semaphore"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"

/** Time until a reservation expires whose process died, in milliseconds. */
export const expiresIn = 120_000

/** Time after which the ends of calls are written if no other call follows, in milliseconds. */
const settleDelay = 1_000

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

/** Creates the writer of the ends of calls, which renews the reservations in flight. */
export const makeLedgerWriter = Effect.fnUntraced(function* (ledger: TenantLedger.Service) {
  const scope = yield* Effect.scope
  const pending = new Map<string, Array<TenantLedger.Settlement>>()
  const inFlight = new Set<string>()
  /** Tenants whose ends are written in a moment. */
  const waitingToFlush = new Set<string>()
  const { wakeFirst, ...lines } = makeWaitingLines()
  let renewing: Fiber.Fiber<void> | undefined

  const takePending = (tenant: string): ReadonlyArray<TenantLedger.Settlement> => {
    const settled = pending.get(tenant) ?? []
    pending.delete(tenant)
    return settled
  }
  /** Returns settlements that could not be written, so that the next write includes them. */
  const putBack = (tenant: string, settled: ReadonlyArray<TenantLedger.Settlement>): void => {
    if (settled.length > 0) pending.set(tenant, [...settled, ...(pending.get(tenant) ?? [])])
  }
  const flush = (tenant: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      const settled = takePending(tenant)
      if (settled.length === 0) return Effect.void
      return Effect.catch(ledger.settle(tenant, settled), (error) => {
        putBack(tenant, settled)
        return Effect.logWarning(`The usage of tenant ${tenant} is not written yet: ${error.message}`)
      })
    })
  const flushLater = (tenant: string): Effect.Effect<void> =>
    Effect.suspend(() => {
      waitingToFlush.delete(tenant)
      return flush(tenant)
    })
  const renewAll = Effect.suspend(() =>
    inFlight.size === 0
      ? Effect.void
      : Effect.catch(ledger.renew(Array.from(inFlight), expiresIn), (error) =>
          Effect.logWarning(`The reservations of model calls are not renewed: ${error.message}`)
        )
  )
  const renew = Effect.asVoid(Effect.schedule(renewAll, Schedule.spaced(expiresIn / 3)))
  yield* Effect.addFinalizer(() => Effect.forEach(Array.from(pending.keys()), flush, { discard: true }))

  return {
    takePending,
    putBack,
    flush,
    ...lines,
    hold: (id: string): Effect.Effect<void> =>
      Effect.suspend(() => {
        inFlight.add(id)
        if (renewing !== undefined) return Effect.void
        return Effect.map(Effect.forkIn(renew, scope), (fiber) => {
          renewing = fiber
        })
      }),
    release: (id: string): void => {
      inFlight.delete(id)
    },
    settle: (tenant: string, settlement: TenantLedger.Settlement): Effect.Effect<void> =>
      Effect.suspend(() => {
        inFlight.delete(settlement.id)
        wakeFirst(tenant)
        const waiting = pending.get(tenant)
        if (waiting !== undefined) {
          waiting.push(settlement)
          return Effect.void
        }
        pending.set(tenant, [settlement])
        if (waitingToFlush.has(tenant)) return Effect.void
        waitingToFlush.add(tenant)
        return Effect.asVoid(Effect.forkIn(Effect.delay(flushLater(tenant), settleDelay), scope))
      })
  }
})

/** Writer of the ends of calls. */
export type LedgerWriter = Effect.Success<ReturnType<typeof makeLedgerWriter>>
