/**
 * Reservations of one process in the ledger of tenants. A reservation carries one model call at a time. The room that a
 * call leaves is used by the next one, without a request to the ledger.
 *
 * **Details**
 *
 * A reservation takes calls for a second. Then it is settled, with the usage of all calls that have ended. If one of
 * them is still in flight, another reservation continues it, without room for more.
 */
import { add, type Amounts, nothing, subtractAmounts } from "../base/domain/Tenant.ts"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"

/** Time for which a reservation takes calls, and within which the ends of calls are written, in milliseconds. */
export const openFor = 1_000

/** Number of further calls for which the reservation of a call has room if calls follow one another fast. */
const spareCalls = 15

/** A reservation of this process. */
export interface Lease {
  id: string
  readonly tenant: string
  readonly limits: TenantLedger.Limits
  readonly openedAt: number
  /** Time from which it is held in the ledger. */
  renewedAt: number
  /** Amounts that neither a call in flight nor an ended call has taken. */
  free: Amounts
  /** Amounts of the call in flight. */
  call: Amounts | undefined
  /** Amounts and usage of the ended calls. */
  spent: Amounts
  usage: Array<TenantLedger.ModelUsage>
}

/** End of a model call. */
export interface CallEnd {
  readonly spent: Amounts
  /** Usage for figures; `undefined` if there was no call. */
  readonly usage: TenantLedger.ModelUsage | undefined
}

/** Reservations of one tenant. */
export interface TenantLeases {
  /** Reservations that carry a call. */
  readonly busy: Set<Lease>
  idle: Array<Lease>
  /** Settlements that are not written yet. */
  pending: Array<TenantLedger.Settlement>
  /** Reservations whose continuation is not written yet, by their new ids. */
  readonly continued: Map<string, Lease>
  /** Time at which the last call began. */
  begunAt: number
}

/** Creates the reservations of a tenant without calls. */
export const makeEmpty = (): TenantLeases => ({
  busy: new Set(),
  idle: [],
  pending: [],
  continued: new Map(),
  begunAt: -Infinity
})

/** Tests whether there is nothing to be written or ended. */
export const isEmpty = ({ busy, continued, idle, pending }: TenantLeases): boolean =>
  busy.size === 0 && continued.size === 0 && idle.length === 0 && pending.length === 0

const isSameLimits = (a: TenantLedger.Limits, b: TenantLedger.Limits): boolean =>
  a === b ||
  (a.dayTokens === b.dayTokens &&
    a.dayNanos === b.dayNanos &&
    a.monthTokens === b.monthTokens &&
    a.monthNanos === b.monthNanos)

const isWithinOpening = (since: number, at: number): boolean => at >= since && at - since < openFor

const hasRoom = ({ free }: Lease, need: Amounts): boolean => free.tokens >= need.tokens && free.nanos >= need.nanos

/** A call that needs room. */
export interface NeededRoom {
  readonly limits: TenantLedger.Limits
  readonly need: Amounts
  readonly at: number
}

/** Takes the room of a call in a reservation that carries none; `undefined` if the ledger has to be asked. */
export const takeLease = (leases: TenantLeases, { at, limits, need }: NeededRoom): Lease | undefined => {
  // The ledger counts the calls of a minute.
  if (limits.callsPerMinute !== undefined) return undefined
  const found = leases.idle.findIndex(
    (lease) => isWithinOpening(lease.openedAt, at) && isSameLimits(lease.limits, limits) && hasRoom(lease, need)
  )
  const lease = leases.idle[found]
  if (lease === undefined) return undefined
  leases.idle.splice(found, 1)
  leases.busy.add(lease)
  leases.begunAt = at
  lease.call = need
  lease.free = subtractAmounts(lease.free, need)
  return lease
}

/** Returns the number of further calls for which a request asks. */
export const countSpareCalls = ({ begunAt }: TenantLeases, { callsPerMinute }: TenantLedger.Limits, at: number) =>
  callsPerMinute === undefined && isWithinOpening(begunAt, at) ? spareCalls : 0

/** Adds the reservation of a call that the ledger has granted. */
export const openLease = (
  leases: TenantLeases,
  granted: Pick<Lease, "id" | "tenant"> & { readonly held: Amounts },
  { at, limits, need }: NeededRoom
): Lease => {
  const { held, id, tenant } = granted
  const free = subtractAmounts(held, need)
  const lease: Lease = { id, tenant, limits, openedAt: at, renewedAt: at, free, call: need, spent: nothing, usage: [] }
  leases.busy.add(lease)
  leases.begunAt = at
  return lease
}

const addUsage = (lease: Lease, added: TenantLedger.ModelUsage): void => {
  const at = lease.usage.findIndex(({ model }) => model === added.model)
  const before = lease.usage[at]
  if (before === undefined) lease.usage.push(added)
  else
    lease.usage[at] = {
      model: added.model,
      calls: before.calls + added.calls,
      inputTokens: before.inputTokens + added.inputTokens,
      outputTokens: before.outputTokens + added.outputTokens,
      nanos: before.nanos + added.nanos
    }
}

/** Ends the call of a reservation. The room that it leaves is free until the reservation is settled. */
export const endCall = (leases: TenantLeases, lease: Lease, { spent, usage }: CallEnd): void => {
  leases.busy.delete(lease)
  lease.free = subtractAmounts(add(lease.free, lease.call ?? nothing), spent)
  lease.call = undefined
  lease.spent = add(lease.spent, spent)
  if (usage !== undefined) addUsage(lease, usage)
  // A settlement must not overtake the continuation.
  if (!leases.continued.has(lease.id)) leases.idle.push(lease)
}

const closeLease = ({ id, spent, usage }: Lease): TenantLedger.Settlement => ({ id, spent, usage })

/** Settles the reservations that carry no call. Returns what is to be written. */
export const takePending = (leases: TenantLeases): ReadonlyArray<TenantLedger.Settlement> => {
  const settled = leases.pending
  for (const lease of leases.idle) settled.push(closeLease(lease))
  leases.idle = []
  leases.pending = []
  return settled
}

/** Tests whether a reservation has room or ended calls besides the call in flight. */
export const hasMore = ({ free, usage }: Lease): boolean => usage.length > 0 || free.tokens > 0 || free.nanos > 0

/** Lists the reservations that are to be continued: they carry a call, and have room or ended calls besides it. */
export const listContinuable = ({ busy, continued }: TenantLeases): ReadonlyArray<Lease> =>
  Array.from(busy).filter((lease) => !continued.has(lease.id) && hasMore(lease))

/** Settles the ended calls of a reservation, and continues it for its call in flight under another id. */
export const continueLease = (leases: TenantLeases, lease: Lease, id: string): void => {
  leases.pending.push({ ...closeLease(lease), rest: { id, held: lease.call ?? nothing } })
  lease.id = id
  lease.free = nothing
  lease.spent = nothing
  lease.usage = []
  leases.continued.set(id, lease)
}

/** Notes that settlements are written. */
export const confirmWritten = (leases: TenantLeases, settled: ReadonlyArray<TenantLedger.Settlement>): void => {
  for (const { rest } of settled) {
    const lease = rest === undefined ? undefined : leases.continued.get(rest.id)
    if (lease === undefined) continue
    leases.continued.delete(lease.id)
    if (lease.call === undefined) leases.idle.push(lease)
  }
}
