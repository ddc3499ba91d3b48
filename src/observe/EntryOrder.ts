/**
 * Orders entries of the run record by time. Each run passes its entries on step by step, so the entries of concurrent
 * runs, such as children of one call, arrive late by different times.
 *
 * **Details**
 *
 * The entries of one session keep their order: an entry is never placed before an earlier entry of its session. Entries
 * of the same time keep the order in which they arrived.
 */
import type { Entry } from "../base/domain/RecordEvent.ts"

/**
 * Time for which entries wait for entries of concurrent runs, in milliseconds. A run counts as active for this time
 * after its end, because a side task may follow it.
 */
const patience = 100

interface PlacedEntry {
  readonly entry: Entry
  /** Time that determines the order, in epoch milliseconds. */
  readonly at: number
}

/** Entries that wait for their place. */
interface EntryOrder {
  readonly addEntries: (entries: ReadonlyArray<Entry>) => void
  readonly isEmpty: () => boolean
  /**
   * Removes and returns the entries in order, up to a time at which entries of concurrent runs may still be missing. By
   * default, and if only one run is active, all entries.
   */
  readonly takeEntries: (now?: number) => ReadonlyArray<Entry>
}

/** Creates an order without entries. */
export const makeOrder = (): EntryOrder => {
  /** Time of the last entry of each session. */
  const times = new Map<string, number>()
  /** Time until which a run or a side task is active; infinite before its end. */
  const active = new Map<string, number>()
  let waiting: Array<PlacedEntry> = []

  const countActive = (now: number): number => {
    for (const [name, until] of active) if (until <= now) active.delete(name)
    return active.size
  }
  const noteActivity = ({ at, event, turnId }: Entry): void => {
    if (event._tag === "RunStarted") active.set(turnId, Number.POSITIVE_INFINITY)
    else if (event._tag === "RunEnded") active.set(turnId, at + patience)
    else if (event._tag === "AttemptStarted" && event.task !== undefined)
      active.set(`task ${event.apiRequestId}`, Number.POSITIVE_INFINITY)
    else if (event._tag === "AttemptEnded") active.delete(`task ${event.apiRequestId}`)
  }

  const placeEntry = (entry: Entry): PlacedEntry => {
    const { event, sessionId } = entry
    const at = Math.max(entry.at, times.get(sessionId) ?? 0)
    times.set(sessionId, at)
    noteActivity(entry)
    if (event._tag === "SessionEnded") times.delete(sessionId)
    else if (event._tag === "ChildEnded") times.delete(event.sessionId)
    return { entry, at }
  }

  return {
    addEntries: (entries) => {
      for (const entry of entries) waiting.push(placeEntry(entry))
    },
    isEmpty: () => waiting.length === 0,
    takeEntries: (now) => {
      const until = now === undefined || countActive(now) < 2 ? Number.POSITIVE_INFINITY : now - patience
      const sorted = waiting.toSorted((a, b) => a.at - b.at)
      const count = sorted.findIndex(({ at }) => at > until)
      waiting = count === -1 ? [] : sorted.slice(count)
      return (count === -1 ? sorted : sorted.slice(0, count)).map(({ entry }) => entry)
    }
  }
}

/** Returns all entries in order. */
export const sortEntries = (entries: Iterable<Entry>): ReadonlyArray<Entry> => {
  const order = makeOrder()
  order.addEntries(Array.from(entries))
  return order.takeEntries()
}
