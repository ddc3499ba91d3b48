/**
 * The clock and the ids of one stream: no two events share an instant, so that the order of a file is the order in time and
 * every end is later than its start. Ids are UUIDs of version 7.
 *
 * Source: `relay-atof-atif.md` §1.7.
 *
 * @since 0.1.0
 */

/** See the module. */
export interface Ticks {
  /** The next instant of the stream, in microseconds: `now`, or one more than the last. */
  readonly next: (now: number) => number
  readonly uuid: (micros: number) => string
}

/** `node` sets streams apart: a number below 2^32 that no other stream has. */
export const make = (node: number): Ticks => {
  let last = 0
  let count = 0
  const suffix = node.toString(16).padStart(8, "0")
  return {
    next: (now) => last = Math.max(now, last + 1),
    uuid: (micros) => {
      const time = Math.floor(micros / 1000).toString(16).padStart(12, "0")
      const n = count++ % 2 ** 40
      const low = (n % 2 ** 12).toString(16).padStart(3, "0")
      const high = Math.floor(n / 2 ** 12).toString(16).padStart(7, "0")
      return `${time.slice(0, 8)}-${time.slice(8)}-7${low}-8${suffix.slice(0, 3)}-${suffix.slice(3)}${high}`
    }
  }
}
