/**
 * Rate of a key, said by its provider or learnt: calls are spread instead of being refused.
 *
 * **Details**
 *
 * Each call deducts its share from the limits that the provider last reported; if a limit is too low, the call waits
 * until it has refilled enough. Concurrent calls wait one after the other. Answers correct the account.
 *
 * | who | headers |
 * | --- | --- |
 * | OpenAI, Groq, Nous, many others | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, hourly with suffix `-1h` |
 * | Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens}-{limit,remaining,reset}` |
 * | OpenRouter | `x-ratelimit-{limit,remaining,reset}`, requests |
 *
 * A reset is a length (`6m0s`, `20ms`, seconds) or a moment (a date, seconds or milliseconds since 1970).
 *
 * The rate of a key whose provider says nothing of its limits is learnt ({@link makeLearntRate}).
 *
 * Before the first refusal no rate is known. Then at most `firstWindow` calls wait for a first sign of their answer at
 * once; the window doubles whenever as many calls as it holds were accepted. Calls that find it full begin all the
 * same, one `fullWindowDelay` after the other and sooner and sooner: however many there are, all of them have begun
 * after two seconds. A few calls side by side never notice it; a crowd learns from a few refusals instead of one for
 * each.
 *
 * The first refusal closes the key for as long as the provider says and sets the rate: as many calls in that time as
 * were accepted in it, less a margin. Calls then begin evenly spread. Every accepted call raises the rate a little,
 * every refusal lowers it by a fifth; refusals of calls that began before the rate was last lowered say nothing new.
 * After a while without refusals the rate is forgotten.
 *
 * Source: `hermes-llm.md` §17.5.
 */

/** `get` of a header table, names in lower case. */
export type GetHeader = (name: string) => string | null | undefined

/** One limit. */
export interface Bucket {
  readonly kind: "requests" | "tokens"
  readonly limit: number | undefined
  readonly remaining: number
  /** Milliseconds until it is whole again. */
  readonly resetMillis: number
  /** It fills up little by little, and not all at once. */
  readonly refills: boolean
}

const units: Readonly<Record<string, number>> = { ms: 1, s: 1_000, m: 60_000, h: 3_600_000, d: 86_400_000 }

const parseLength = (text: string): number | undefined => {
  if (!/^(?:[\d.]+(?:ms|s|m|h|d))+$/.test(text)) return undefined
  let millis = 0
  for (const [, count, unit = ""] of text.matchAll(/([\d.]+)(ms|s|m|h|d)/g))
    millis += Number(count) * (units[unit] ?? 0)
  return millis
}

const seconds = 1_000_000_000
const milliseconds = 1_000_000_000_000

const parseReset = (text: string, now: number): number => {
  const number = Number(text)
  if (Number.isFinite(number)) {
    return number >= milliseconds ? number - now : number >= seconds ? number * 1_000 - now : number * 1_000
  }
  return parseLength(text.toLowerCase()) ?? Date.parse(text) - now
}

type Part = "limit" | "remaining" | "reset"

interface Family {
  readonly kind: Bucket["kind"]
  readonly refills: boolean
  readonly headers: Readonly<Record<Part, string>>
}

const makeHeaderFamily = (kind: Bucket["kind"], refills: boolean, header: (part: Part) => string): Family => ({
  kind,
  refills,
  headers: { limit: header("limit"), remaining: header("remaining"), reset: header("reset") }
})

const families: ReadonlyArray<Family> = [
  makeHeaderFamily("requests", true, (part) => `x-ratelimit-${part}-requests`),
  makeHeaderFamily("tokens", true, (part) => `x-ratelimit-${part}-tokens`),
  makeHeaderFamily("requests", false, (part) => `x-ratelimit-${part}-requests-1h`),
  makeHeaderFamily("tokens", false, (part) => `x-ratelimit-${part}-tokens-1h`),
  makeHeaderFamily("requests", true, (part) => `anthropic-ratelimit-requests-${part}`),
  makeHeaderFamily("tokens", true, (part) => `anthropic-ratelimit-tokens-${part}`),
  makeHeaderFamily("tokens", true, (part) => `anthropic-ratelimit-input-tokens-${part}`),
  makeHeaderFamily("requests", false, (part) => `x-ratelimit-${part}`)
]

const parseCount = (text: string | null | undefined): number | undefined => {
  if (text === null || text === undefined) return undefined
  const number = text.trim() === "" ? Number.NaN : Number(text)
  return Number.isFinite(number) && number >= 0 ? number : undefined
}

/** The limits that an answer reports; limits without a remainder or a reset are left out. */
export const readBuckets = (get: GetHeader, now: number): ReadonlyArray<Bucket> => {
  const found: Array<Bucket> = []
  for (const { headers, kind, refills } of families) {
    const remaining = parseCount(get(headers.remaining))
    if (remaining === undefined) continue
    const limit = parseCount(get(headers.limit))
    const resetMillis = parseReset(get(headers.reset)?.trim() ?? "", now)
    if (resetMillis > 0)
      found.push({ kind, limit, remaining, resetMillis, refills: refills && limit !== undefined && limit > 0 })
  }
  return found
}

/** A limit that resets sooner says nothing about an account: an upstream provider may be busy. */
const leastExhaustion = 60_000

/** Returns the milliseconds until the account's own limit resets; undefined if it is not exhausted. */
export const findExhaustion = (buckets: ReadonlyArray<Bucket>): number | undefined => {
  const spent = buckets.filter(({ remaining, resetMillis }) => remaining <= 0 && resetMillis >= leastExhaustion)
  return spent.length === 0 ? undefined : Math.max(...spent.map(({ resetMillis }) => resetMillis))
}

/** Pace of one key. Times are in milliseconds. */
export interface Pace {
  /** Takes what a provider said at `now`. */
  readonly told: (buckets: ReadonlyArray<Bucket>, now: number) => void
  /**
   * Deducts a call from the remaining limits and returns how long it has to wait. `tokens` is called only if tokens are
   * limited.
   */
  readonly take: (tokens: () => number, now: number) => number
  /** Returns what the provider last said, as far as it still holds; calls since then are not taken off. */
  readonly left: (now: number) => ReadonlyArray<Bucket>
}

interface Level {
  readonly said: Bucket
  /** Refill per millisecond; 0 if the limit resets all at once. */
  readonly rate: number
  readonly wholeAt: number
  remaining: number
  at: number
}

const makeLevel = (said: Bucket, now: number): Level => {
  const { limit, refills, remaining, resetMillis } = said
  return {
    said,
    rate: refills && limit !== undefined ? (limit - remaining) / resetMillis : 0,
    wholeAt: now + resetMillis,
    remaining,
    at: now
  }
}

/** Fills it up to `now`. */
const refillLevel = (level: Level, now: number): void => {
  level.remaining = Math.min(level.said.limit ?? Infinity, level.remaining + level.rate * Math.max(0, now - level.at))
  level.at = now
}

const takeFrom = (level: Level, need: number, now: number): number => {
  refillLevel(level, now)
  // A request larger than the whole limit waits for the whole of it.
  level.remaining -= Math.min(need, level.said.limit ?? need)
  if (level.remaining >= 0) return 0
  return level.rate > 0 ? -level.remaining / level.rate : level.wholeAt - now
}

/** Nothing is known yet. */
export const makePace = (): Pace => {
  let levels: Array<Level> = []

  /** Returns the levels that are not whole again. */
  const listOpenLevels = (now: number): Array<Level> => {
    levels = levels.filter(({ wholeAt }) => wholeAt > now)
    return levels
  }

  return {
    told: (buckets, now) => {
      if (buckets.length > 0) levels = buckets.map((bucket) => makeLevel(bucket, now))
    },
    take: (tokens, now) => {
      let wait = 0
      for (const level of listOpenLevels(now))
        wait = Math.max(wait, takeFrom(level, level.said.kind === "requests" ? 1 : tokens(), now))
      return wait
    },
    left: (now) => listOpenLevels(now).map(({ said, wholeAt }) => ({ ...said, resetMillis: wholeAt - now }))
  }
}

/** A call that began, until its provider has decided about it. */
export interface BegunCall {
  readonly at: number
}

/** The rate of one key. */
export interface LearntRate {
  /** Returns whole milliseconds until the next call may begin; 0 when it may now. */
  readonly delay: (now: number) => number
  /** Milliseconds that a call with `ahead` others before it will probably wait. */
  readonly expected: (ahead: number, now: number) => number
  /** Counts a call that begins now. */
  readonly begin: (now: number) => BegunCall
  /** The provider took the call. */
  readonly accepted: (call: BegunCall, now: number) => void
  /** The provider refused the call and the key with it, for so many milliseconds. */
  readonly refused: (call: BegunCall, closedFor: number, now: number) => void
  /** A call that began no longer waits for its provider, regardless of the outcome. */
  readonly decided: () => void
  /** Returns the time of the last accepted call; undefined when there was none. */
  readonly acceptedAt: () => number | undefined
}

/** Calls that wait for a first sign at once, before anything is known. */
const firstWindow = 8
const largestWindow = 1_024
/** Milliseconds between calls that begin although the window is full, and by how much less each next one waits. */
const fullWindowDelay = 100
const impatience = 0.95
/** Milliseconds that are not worth a wait. */
const leastDelay = 5
/** Milliseconds without a refusal after which a rate is forgotten. */
const rateMemory = 120_000
/** Maximum number of accepted calls whose start times are stored to learn a rate. */
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
export const makeLearntRate = (): LearntRate => {
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

  const computeCrowdDelay = (now: number): number => {
    const delay = fullWindowDelay * impatience ** (undecided - window)
    return delay < leastDelay ? 0 : Math.ceil(Math.max(0, lastBegin + delay - now))
  }

  const forgetOldRate = (now: number): void => {
    if (rate === undefined || now - refusedAt < rateMemory) return
    rate = undefined
    window = firstWindow
    acceptedInWindow = 0
  }

  const estimateFirstRate = (span: number, now: number): Rate => {
    const accepted = beginnings.filter((at) => at > now - span).length
    return { perMilli: (margin * Math.max(1, accepted)) / span, step: undefined }
  }

  const lowerRate = ({ perMilli }: Rate): Rate => ({
    perMilli: perMilli * decrease,
    step: perMilli * decrease * careful
  })

  return {
    delay: (now) => {
      forgetOldRate(now)
      if (opensAt > now) return opensAt - now
      if (rate !== undefined) return Math.ceil(Math.max(0, nextAt - now))
      return undecided < window ? 0 : computeCrowdDelay(now)
    },
    expected: (ahead, now) => {
      forgetOldRate(now)
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
      rate = rate === undefined ? estimateFirstRate(Math.max(leastSpan, closedFor), now) : lowerRate(rate)
      nextAt = opensAt
    },
    decided: () => void undecided--,
    acceptedAt: () => acceptedAt
  }
}
