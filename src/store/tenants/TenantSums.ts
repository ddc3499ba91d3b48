/**
 * Arithmetic of the ledger: sums of the current day and month, and the decision about a reservation. The stores in
 * memory and in SQLite use it directly; the function in `PostgresTenantLedger` does the same in SQL.
 */
import { type Amounts, add, formatDay, findNextStart, nothing } from "../../base/domain/Tenant.ts"
import type { Decision, ReserveRequest, Spent, SumsRow } from "./TenantLedgerPort.ts"

/** Sums of a tenant in its current day and month. */
export interface Sums {
  readonly day: string
  readonly today: Amounts
  readonly month: Amounts
  /** Minute, counted from 1970, and the number of calls that began in it. */
  readonly minute: number
  readonly calls: number
}

/** Sums of a tenant without usage. */
export const makeSums = (at: number): Sums => ({
  day: formatDay(at),
  today: nothing,
  month: nothing,
  minute: 0,
  calls: 0
})

const readMonth = (day: string): string => day.slice(0, 7)

/** Begins a new day, month or minute if one has passed. An earlier time leaves the sums unchanged. */
export const advance = (sums: Sums, at: number): Sums => {
  const day = formatDay(at)
  const minute = Math.floor(at / 60_000)
  const timed = minute > sums.minute ? { ...sums, minute, calls: 0 } : sums
  if (day <= sums.day) return timed
  return { ...timed, day, today: nothing, month: readMonth(day) === readMonth(sums.day) ? timed.month : nothing }
}

/** Adds amounts to both periods. */
export const addSpent = (sums: Sums, amounts: Amounts): Sums => ({
  ...sums,
  today: add(sums.today, amounts),
  month: add(sums.month, amounts)
})

/** Room for a call within one limit, in output tokens. */
interface Room extends Pick<Spent, "period" | "kind"> {
  readonly output: number
}

/** Returns the room within each limit beside the amounts that calls in flight hold. */
const findRooms = (
  { month, today }: Sums,
  reserved: Amounts,
  { limits, outputNanos, prompt, wantedOutput }: ReserveRequest
): ReadonlyArray<Room> => {
  const byTokens = (limit: number | undefined, spent: Amounts): number =>
    limit === undefined ? wantedOutput : limit - spent.tokens - reserved.tokens - prompt.tokens
  const byNanos = (limit: number | undefined, spent: Amounts): number => {
    if (limit === undefined) return wantedOutput
    const left = limit - spent.nanos - reserved.nanos - prompt.nanos
    return outputNanos > 0 ? Math.floor(left / outputNanos) : left >= 0 ? wantedOutput : -1
  }
  return [
    { period: "month", kind: "tokens", output: byTokens(limits.monthTokens, month) },
    { period: "month", kind: "cost", output: byNanos(limits.monthNanos, month) },
    { period: "day", kind: "tokens", output: byTokens(limits.dayTokens, today) },
    { period: "day", kind: "cost", output: byNanos(limits.dayNanos, today) }
  ]
}

const findLeast = (rooms: ReadonlyArray<Room>, wanted: number): number =>
  Math.min(wanted, ...rooms.map(({ output }) => output))

/** Decides about a reservation. `reserved` is the sum of the calls in flight. */
export const decide = (sums: Sums, reserved: Amounts, request: ReserveRequest, at: number): Decision => {
  const rooms = findRooms(sums, reserved, request)
  const granted = findLeast(rooms, request.wantedOutput)
  const alone = findLeast(findRooms(sums, nothing, request), request.wantedOutput)
  if (request.whenHeld === "wait" && granted < alone && alone >= request.leastOutput) return { _tag: "Held" }
  const spent = rooms.find(({ output }) => output < request.leastOutput)
  // A period that began later than this clock says ends later, too.
  const now = Math.max(at, Date.parse(sums.day))
  if (spent !== undefined)
    return { _tag: "Spent", period: spent.period, kind: spent.kind, freeAt: findNextStart(spent.period, now) }
  const { callsPerMinute } = request.limits
  if (callsPerMinute !== undefined && sums.calls >= callsPerMinute)
    return { _tag: "Paced", waitMillis: Math.max(1, (sums.minute + 1) * 60_000 - at) }
  return { _tag: "Reserved", output: granted, held: computeHeld(sums, reserved, request, granted) }
}

/** Divisor of the part of a limit's rest that all reservations may take together if one of them has spare room. */
const spareDivisor = 32

/** Counts the further calls for which a reservation has room. */
const countSpare = (
  { month, today }: Sums,
  reserved: Amounts,
  need: Amounts,
  { limits, spareCalls = 0 }: ReserveRequest
): number => {
  const countWithin = (limit: number | undefined, spent: Amounts, kind: keyof Amounts): number =>
    limit === undefined || need[kind] === 0
      ? spareCalls
      : Math.floor((Math.floor((limit - spent[kind]) / spareDivisor) - reserved[kind] - need[kind]) / need[kind])
  const counts = [
    countWithin(limits.monthTokens, month, "tokens"),
    countWithin(limits.monthNanos, month, "nanos"),
    countWithin(limits.dayTokens, today, "tokens"),
    countWithin(limits.dayNanos, today, "nanos")
  ]
  return Math.max(0, Math.min(spareCalls, ...counts))
}

/** Computes the amounts of a reservation. */
const computeHeld = (sums: Sums, reserved: Amounts, request: ReserveRequest, output: number): Amounts => {
  const { outputNanos, prompt } = request
  const need = { tokens: prompt.tokens + output, nanos: prompt.nanos + Math.ceil(output * outputNanos) }
  const calls = 1 + countSpare(sums, reserved, need, request)
  return { tokens: need.tokens * calls, nanos: need.nanos * calls }
}

/** Counts the beginning of a call. */
export const countCall = (sums: Sums): Sums => ({ ...sums, calls: sums.calls + 1 })

/** Time after its end for which an expired reservation can still be settled, in milliseconds. */
export const keptMillis = 86_400_000

const takeLarger = (a: Amounts, b: Amounts): Amounts => ({
  tokens: Math.max(a.tokens, b.tokens),
  nanos: Math.max(a.nanos, b.nanos)
})

/** Converts sums to a row of a backup. */
export const toRow = (tenant: string, { day, month, today }: Sums): SumsRow => ({
  tenant,
  day,
  dayTokens: today.tokens,
  dayNanos: today.nanos,
  monthTokens: month.tokens,
  monthNanos: month.nanos
})

/** Adds a row of a backup to sums: the larger amounts of each period remain. */
export const addRow = (sums: Sums | undefined, row: SumsRow): Sums => {
  const added: Sums = {
    day: row.day,
    today: { tokens: row.dayTokens, nanos: row.dayNanos },
    month: { tokens: row.monthTokens, nanos: row.monthNanos },
    minute: 0,
    calls: 0
  }
  if (sums === undefined) return added
  const [later, earlier] = sums.day >= added.day ? [sums, added] : [added, sums]
  return {
    ...sums,
    day: later.day,
    today: later.day === earlier.day ? takeLarger(sums.today, added.today) : later.today,
    month: readMonth(later.day) === readMonth(earlier.day) ? takeLarger(sums.month, added.month) : later.month
  }
}
