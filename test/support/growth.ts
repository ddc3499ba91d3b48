// Tells work that grows with the length of a text from work that grows with its square.

/** A square does this many times the work over one text that it does over all of that text's pieces. */
const pieces = 16

/** Between what garbage collection and late optimisation make of linear work, at most two and a half, and a square. */
const limit = 6

/** Looks at most before a text is called steep. */
const looks = 8

/** The unit in which some systems count processor time, in microseconds: less than it is read as nothing. */
const tick = 4_000

/** Processor time of this thread, in microseconds: what other work on the machine takes is not in it. */
export const processorTime = (work: () => void): number => {
  const before = process.threadCpuUsage()
  work()
  const { system, user } = process.threadCpuUsage(before)
  return user + system
}

/**
 * Reads a text of `size` and, sixteen times, one of a sixteenth of it: linear work is the same for both. Returns how
 * many times more the long one takes where that is steep, otherwise `undefined`. The times of all looks are added up,
 * so that one that was disturbed decides nothing. A text that is read within `cheap` microseconds is not looked at.
 */
export const steepness = (
  read: (text: string) => unknown,
  at: (size: number) => string,
  size: number,
  cheap: number
): number | undefined => {
  const [whole, piece] = [at(size), at(Math.ceil(size / pieces))]
  const one = () => processorTime(() => read(whole))
  const many = () =>
    processorTime(() => {
      for (let n = 0; n < pieces; n++) read(piece)
    })
  if (one() < cheap) return undefined
  let [long, short] = [0, 0]
  for (let look = 0; look < looks; look++) {
    long += one()
    short += many()
    if (long <= limit * Math.max(tick, short)) return undefined
  }
  return long / Math.max(tick, short)
}
