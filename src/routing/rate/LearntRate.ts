/**
 * The rate at which one key is answered, learnt from what its provider accepts and refuses. Pure: times are given, in
 * milliseconds.
 *
 * **Details**
 *
 * Before the first refusal no rate is known. Then at most `firstWindow` calls wait for a first sign of their answer at once;
 * the window doubles whenever as many calls as it holds were accepted. Calls that find it full begin all the same, one
 * `fullWindowDelay` after the other and sooner and sooner: however many there are, all of them have begun after two seconds. A
 * few calls side by side never notice it; a crowd learns from a few refusals instead of one for each.
 *
 * The first refusal closes the key for as long as the provider says and sets the rate: as many calls in that time as were
 * accepted in it, less a margin. Calls then begin evenly spread. Every accepted call raises the rate a little, every
 * refusal lowers it by a fifth; refusals of calls that began before the rate was last lowered say nothing new. After a
 * while without refusals the rate is forgotten.
 */

/** A call that began, until its provider has decided about it. */
export interface Begun {
  readonly at: number
}

/** The rate of one key. */
export interface LearntRate {
  /** Returns whole milliseconds until the next call may begin; 0 when it may now. */
  readonly delay: (now: number) => number
  /** Milliseconds that a call with `ahead` others before it will probably wait. */
  readonly expected: (ahead: number, now: number) => number
  /** Counts a call that begins now. */
  readonly begin: (now: number) => Begun
  /** The provider took the call. */
  readonly accepted: (call: Begun, now: number) => void
  /** The provider refused the call and the key with it, for so many milliseconds. */
  readonly refused: (call: Begun, closedFor: number, now: number) => void
  /** A call that began waits for its provider no longer, whatever became of it. */
  readonly decided: () => void
  /** Returns the time of the last accepted call; undefined when there was none. */
  readonly acceptedAt: () => number | undefined
}

/** Calls that wait for a first sign at once, before anything is known. */
export const firstWindow = 8
const largestWindow = 1_024
/** Milliseconds between calls that begin although the window is full, and by how much less each next one waits. */
const fullWindowDelay = 100
const impatience = 0.95
/** Milliseconds that are not worth a wait. */
const leastDelay = 5
/** Milliseconds without a refusal after which a rate is forgotten. */
const memory = 120_000
/** Accepted calls whose beginnings are kept to learn a rate from. */
const mostBeginnings = 1_024
/** Kept below what was seen to be accepted. */
const margin = 0.9
const decrease = 0.8
/** Growth with each accepted call: before a learnt rate was refused, and after. */
const searching = 0.05
const careful = 0.01
/** Milliseconds: a provider that closes a key for less is measured over this time. */
const leastSpan = 1_000

interface Rate {
  /** Calls in a millisecond. */
  perMilli: number
  /** Increment for an accepted call; undefined while it grows by a share of itself. */
  step: number | undefined
}

/** A key of which nothing is known. */
export const make = (): LearntRate => {
  let rate: Rate | undefined
  let window = firstWindow
  let acceptedInWindow = 0
  let undecided = 0
  let lastBegin = Number.NEGATIVE_INFINITY
  let opensAt = Number.NEGATIVE_INFINITY
  let nextAt = Number.NEGATIVE_INFINITY
  let loweredAt = Number.NEGATIVE_INFINITY
  let refusedAt = Number.NEGATIVE_INFINITY
  let acceptedAt: number | undefined
  let beginnings: Array<number> = []

  const crowdDelay = (now: number): number => {
    const delay = fullWindowDelay * impatience ** (undecided - window)
    return delay < leastDelay ? 0 : Math.ceil(Math.max(0, lastBegin + delay - now))
  }

  const forget = (now: number): void => {
    if (rate === undefined || now - refusedAt < memory) return
    rate = undefined
    window = firstWindow
    acceptedInWindow = 0
  }

  const firstRate = (span: number, now: number): Rate => {
    const accepted = beginnings.filter((at) => at > now - span).length
    return { perMilli: margin * Math.max(1, accepted) / span, step: undefined }
  }

  const lowered = ({ perMilli }: Rate): Rate => ({ perMilli: perMilli * decrease, step: perMilli * decrease * careful })

  return {
    delay: (now) => {
      forget(now)
      if (opensAt > now) return opensAt - now
      if (rate !== undefined) return Math.ceil(Math.max(0, nextAt - now))
      return undecided < window ? 0 : crowdDelay(now)
    },
    expected: (ahead, now) => {
      forget(now)
      const closed = Math.max(0, opensAt - now)
      return rate === undefined ? closed : Math.ceil(Math.max(closed, nextAt - now) + ahead / rate.perMilli)
    },
    begin: (now) => {
      undecided++
      lastBegin = now
      if (rate !== undefined) nextAt = Math.max(now, nextAt) + 1 / rate.perMilli
      return { at: now }
    },
    accepted: ({ at }, now) => {
      acceptedAt = now
      beginnings.push(at)
      if (beginnings.length > mostBeginnings) beginnings = beginnings.slice(-mostBeginnings / 2)
      if (rate !== undefined) {
        if (at > loweredAt) rate.perMilli += rate.step ?? rate.perMilli * searching
        return
      }
      acceptedInWindow++
      if (acceptedInWindow < window) return
      acceptedInWindow = 0
      window = Math.min(largestWindow, window * 2)
    },
    refused: ({ at }, closedFor, now) => {
      refusedAt = now
      opensAt = Math.max(opensAt, now + closedFor)
      nextAt = Math.max(nextAt, opensAt)
      if (at <= loweredAt) return
      loweredAt = now
      rate = rate === undefined ? firstRate(Math.max(leastSpan, closedFor), now) : lowered(rate)
      nextAt = opensAt
    },
    decided: () => void undecided--,
    acceptedAt: () => acceptedAt
  }
}
