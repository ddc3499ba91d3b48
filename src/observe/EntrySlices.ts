/**
 * Divides entries of the run record into slices, so that an exporter lets other fibers run between them. Without that,
 * a batch with megabytes of arguments or results would block the event loop.
 */
import * as Effect from "effect/Effect"
import * as Json from "../base/domain/Json.ts"
import type { Entry } from "../base/domain/RecordEvent.ts"

/** Number of characters after which a slice ends. A longer entry is one slice. */
export const sliceChars = 65_536

/** Divides entries, in order, into slices. A batch of usual size is a single slice. */
const divideEntries = (entries: ReadonlyArray<Entry>): ReadonlyArray<ReadonlyArray<Entry>> => {
  const slices: Array<ReadonlyArray<Entry>> = []
  let from = 0
  let chars = 0
  for (let index = 0; index < entries.length; index++) {
    chars += Json.countCharacters(entries[index]?.event, sliceChars)
    if (chars < sliceChars) continue
    slices.push(entries.slice(from, index + 1))
    from = index + 1
    chars = 0
  }
  if (from === 0) return [entries]
  if (from < entries.length) slices.push(entries.slice(from))
  return slices
}

/** Handles entries slice by slice, in order, and lets other fibers run between two slices. */
export const forEachSlice = <E, R>(
  entries: ReadonlyArray<Entry>,
  handle: (slice: ReadonlyArray<Entry>) => Effect.Effect<void, E, R>
): Effect.Effect<void, E, R> => {
  const slices = divideEntries(entries)
  const [only] = slices
  return only !== undefined && slices.length === 1
    ? handle(only)
    : Effect.forEach(slices, (slice) => Effect.andThen(handle(slice), Effect.yieldNow), { discard: true })
}
