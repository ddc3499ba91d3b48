/**
 * Counts of the entries in a run record that could not be read completely, and the notices about them. All views of
 * runs use the same notices.
 *
 * Source: `ARCHITECTURE.md` §8 (run record).
 */
import type { Reading } from "./StoredForm.ts"

/** Numbers of entries that were not read completely. */
export interface Unread {
  /** Entries left out because a newer version wrote them. */
  readonly newer: number
  /** Entries left out because they are damaged or truncated. */
  readonly damaged: number
  /** Entries read only partly because a newer version wrote them. */
  readonly partial: number
}

/** Counts of a record that was read completely. */
export const none: Unread = { newer: 0, damaged: 0, partial: 0 }

/** Adds the counts of two parts of a record. */
export const plus = (one: Unread, other: Unread): Unread => ({
  newer: one.newer + other.newer,
  damaged: one.damaged + other.damaged,
  partial: one.partial + other.partial
})

/** Adds the outcome of reading one entry to the counts. */
export const addReading = (sum: Unread, { _tag }: Reading<unknown>): Unread => {
  switch (_tag) {
    case "Whole":
      return sum
    case "Partial":
      return { ...sum, partial: sum.partial + 1 }
    case "Newer":
      return { ...sum, newer: sum.newer + 1 }
    case "Damaged":
      return { ...sum, damaged: sum.damaged + 1 }
  }
}

/** Renders one sentence for each kind of unread entries. `place` is the name of the record. */
export const renderNotices = ({ damaged, newer, partial }: Unread, place = "the run record"): ReadonlyArray<string> => {
  const formatEntryCount = (count: number): string =>
    count === 1 ? `1 entry of ${place}` : `${count} entries of ${place}`
  return [
    ...(newer === 0
      ? []
      : [
          `${formatEntryCount(newer)} cannot be read, because a newer version wrote ` +
            `${newer === 1 ? "it" : "them"}. Update hermes to see all.`
        ]),
    ...(partial === 0
      ? []
      : [
          `${formatEntryCount(partial)} ${partial === 1 ? "is" : "are"} of a newer version and shown as far as ` +
            `this one knows ${partial === 1 ? "it" : "them"}. Update hermes to see all.`
        ]),
    ...(damaged === 0
      ? []
      : [`${formatEntryCount(damaged)} cannot be read, because ${damaged === 1 ? "it is" : "they are"} damaged.`])
  ]
}
