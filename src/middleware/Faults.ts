/**
 * Reports failures of middleware itself: one warning per distinct fault, so that a broken plugin does not flood the log
 * in a loop of a thousand calls. Middleware that misses its deadline, or fails several times in one run, is
 * set aside for the rest of the run, so that a hanging wrapper does not delay each step. Calls, faults and own time of
 * each entry are counted for the record of the run.
 *
 * Source: `hermes-contract.md` §1.8 and §1.11, `ARCHITECTURE.md` §6.
 */
import * as Effect from "effect/Effect"
import type { TurnId } from "../base/domain/Ids.ts"
import { DeadlineExceeded } from "../base/domain/IsolatedCall.ts"
import type { MiddlewareHealth } from "../base/domain/RecordEvent.ts"
import * as Json from "../base/domain/Json.ts"
import type { Kind, PhaseKind } from "./Kind.ts"

/** One failure of one middleware. */
interface Fault {
  readonly kind: Kind | PhaseKind
  readonly name: string
  /** Consequence for the call, in words that complete "… failed; ". */
  readonly consequence: string
  readonly error: unknown
  /** The run in which it failed. Absent for failures outside of a run, which are not counted. */
  readonly turn?: TurnId
}

/** Identity of an entry of the stack. */
export interface Entry {
  readonly kind: Kind | PhaseKind
  readonly name: string
}

/** Receives fault reports. */
export interface Faults {
  readonly report: (fault: Fault) => Effect.Effect<void>
  /** Counts a fault that fails the call. Returns true if the entry is set aside because of it. */
  readonly count: (entry: Entry, turn: TurnId, error: unknown) => boolean
  /** Counts a call of an entry, and its own time in milliseconds, without the calls that it makes. */
  readonly noteCall: (entry: Entry, turn: TurnId, ownMillis: number) => void
  /** Returns the health of the entries that a run called, and forgets the run. Called at the end of a run. */
  readonly takeHealth: (turn: TurnId) => ReadonlyArray<MiddlewareHealth>
  /** Returns whether an entry is set aside for the rest of a run. */
  readonly isSetAside: (entry: Entry, turn: TurnId) => boolean
}

/** Counts of an entry in one run. An entry with {@link mostFaults} strikes is set aside. */
interface EntryCounts {
  readonly kind: Kind | PhaseKind
  readonly name: string
  calls: number
  faults: number
  ownMillis: number
  strikes: number
}

/** Number of faults in one run after which middleware is set aside. */
const mostFaults = 5

/** Maximum number of runs whose entries are counted. Beyond it, the oldest are removed. */
const mostRuns = 1_000

/** Error of closed middleware that is set aside: the call is refused without calling it. */
export class SetAside extends Error {
  override readonly name = "SetAside"
  constructor() {
    super("it failed too often in this run, and is not called again")
  }
}

/** Maximum number of distinct faults that are stored. Further faults are reported each time. */
const remembered = 1_000

/** Returns a printable form of any thrown value. */
export const describeError = (error: unknown): string => {
  if (error instanceof Error) return error.message === "" ? error.name : error.message
  try {
    return Json.toText(error)
  } catch {
    return "a value that cannot be printed"
  }
}

/** Creates a reporter with a separate record of faults. Repeated faults are logged at debug level. */
export const make = (): Faults => {
  const seen = new Set<string>()
  const runs = new Map<TurnId, Map<string, EntryCounts>>()

  const findEntries = (turn: TurnId): Map<string, EntryCounts> => {
    const found = runs.get(turn)
    if (found !== undefined) return found
    const oldest = runs.size >= mostRuns ? runs.keys().next() : undefined
    if (oldest?.done === false) runs.delete(oldest.value)
    const counts = new Map<string, EntryCounts>()
    runs.set(turn, counts)
    return counts
  }

  const findCounts = ({ kind, name }: Entry, turn: TurnId): EntryCounts => {
    const entries = findEntries(turn)
    const key = `${kind}|${name}`
    const known = entries.get(key)
    if (known !== undefined) return known
    const counts: EntryCounts = { kind, name, calls: 0, faults: 0, ownMillis: 0, strikes: 0 }
    entries.set(key, counts)
    return counts
  }

  const count: Faults["count"] = (entry, turn, error) => {
    const counts = findCounts(entry, turn)
    const before = counts.strikes
    counts.faults++
    counts.strikes = error instanceof DeadlineExceeded ? mostFaults : before + 1
    return before < mostFaults && counts.strikes >= mostFaults
  }

  return {
    count,
    noteCall: (entry, turn, ownMillis) => {
      const counts = findCounts(entry, turn)
      counts.calls++
      counts.ownMillis += ownMillis
    },
    takeHealth: (turn) => {
      const entries = runs.get(turn)
      runs.delete(turn)
      return Array.from(entries?.values() ?? [], ({ strikes: _, ...health }) => health)
    },
    isSetAside: ({ kind, name }, turn) =>
      runs.size > 0 && (runs.get(turn)?.get(`${kind}|${name}`)?.strikes ?? 0) >= mostFaults,
    report: ({ consequence, error, kind, name, turn }) => {
      const text = describeError(error)
      const isLast = turn !== undefined && count({ kind, name }, turn, error)
      const key = `${kind}|${name}|${consequence}|${text.slice(0, 200)}`
      const line = `${kind} middleware "${name}" failed (${text}); ${consequence}`
      const isKnown = seen.has(key)
      if (!isKnown && seen.size >= remembered) seen.clear()
      seen.add(key)
      const reported = isKnown ? Effect.logDebug(line) : Effect.logWarning(line)
      if (!isLast) return reported
      return Effect.andThen(
        reported,
        Effect.logInfo(`${kind} middleware "${name}" is set aside for the rest of the run`)
      )
    }
  }
}
