/**
 * Tracks the request rate that a key allows, as reported by its provider or learned, so that calls are spread over time
 * instead of being refused.
 *
 * **Details**
 *
 * Each call deducts its share from the limits that the provider last reported. If too little remains of a limit, the
 * next call waits until it has refilled sufficiently. The headers of answers correct the recorded limits.
 *
 * | provider | headers |
 * | --- | --- |
 * | OpenAI, Groq, Nous, many others | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, hourly with suffix `-1h` |
 * | Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens}-{limit,remaining,reset}` |
 * | OpenRouter | `x-ratelimit-{limit,remaining,reset}`, requests |
 *
 * A reset is a duration (`6m0s`, `20ms`, seconds) or a point in time (a date, seconds or milliseconds since 1970).
 *
 * If a provider does not report its limits, the rate of the key is learned ({@link makeLearntRate}).
 *
 * Before the first refusal no rate is known. Initially at most `firstWindow` calls wait concurrently for the beginning
 * of their answers; the window doubles whenever a full window of calls has been accepted. If the window is full, more
 * calls still begin, at intervals that start at `fullWindowDelay` and become shorter, so that any number of calls has
 * begun after two seconds. A few concurrent calls are not delayed; for many calls, the rate is learned from a few
 * refusals instead of one for each call.
 *
 * The first refusal closes the key for the time that the provider specifies, and sets the rate: the number of calls
 * that were accepted in a period of that length, less a margin. Calls then begin at even intervals. Every accepted call
 * raises the rate a little, every refusal lowers it by a fifth. Refusals of calls that began before the rate was last
 * lowered are ignored. After some time without refusals the rate is discarded.
 *
 * Source: `hermes-llm.md` §17.5.
 */

/** Returns the value of a header; the name is in lower case. */
export type GetHeader = (name: string) => string | null | undefined

/** One rate limit, with its remaining amount. */
export interface Bucket {
  readonly kind: "requests" | "tokens"
  readonly limit: number | undefined
  readonly remaining: number
  /** Milliseconds until the limit has fully reset. */
  readonly resetMillis: number
  /** True if the limit refills gradually instead of all at once. */
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

/** Reads the limits that an answer reports. Limits without a remaining amount or a reset are omitted. */
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

/**
 * Minimum time until the reset of an exhausted account limit, in milliseconds. A shorter time may be caused by a busy
 * upstream provider.
 */
const leastExhaustion = 60_000

/** Returns the milliseconds until the account's limit resets, or `undefined` if it is not exhausted. */
export const findExhaustion = (buckets: ReadonlyArray<Bucket>): number | undefined => {
  const spent = buckets.filter(({ remaining, resetMillis }) => remaining <= 0 && resetMillis >= leastExhaustion)
  return spent.length === 0 ? undefined : Math.max(...spent.map(({ resetMillis }) => resetMillis))
}

/** Tracks the reported limits of one key. Times are in milliseconds. */
export interface Pace {
  /** Records the limits that the provider reported at `now`. */
  readonly told: (buckets: ReadonlyArray<Bucket>, now: number) => void
  /**
   * Returns the whole milliseconds until the limits have room for a call with `ahead` calls of its size before it; 0 if
   * they have. `tokens` is called only if tokens are limited.
   */
  readonly expected: (ahead: number, tokens: () => number, now: number) => number
  /** Deducts a call that begins now from the remaining limits. */
  readonly take: (tokens: () => number, now: number) => void
  /** Returns the limits that the provider last reported and that have not reset yet, without deducting later calls. */
  readonly left: (now: number) => ReadonlyArray<Bucket>
}

interface Level {
  readonly said: Bucket
  /** Amount refilled per millisecond; 0 if the limit resets all at once. */
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

/** Adds the amount refilled until `now`. */
const refillLevel = (level: Level, now: number): void => {
  level.remaining = Math.min(level.said.limit ?? Infinity, level.remaining + level.rate * Math.max(0, now - level.at))
  level.at = now
}

/** Returns what a call takes of a limit. A call larger than the whole limit takes all of it. */
const computeNeed = ({ said: { kind, limit } }: Level, tokens: () => number): number =>
  kind === "requests" ? 1 : Math.min(tokens(), limit ?? Number.POSITIVE_INFINITY)

/** Largest rounding error of a refilled limit. */
const rounding = 1e-6

const computeWait = (level: Level, calls: number, need: number, now: number): number => {
  refillLevel(level, now)
  const missing = calls * need - level.remaining
  if (missing <= rounding) return 0
  return Math.ceil(level.rate > 0 ? missing / level.rate : level.wholeAt - now)
}

/** Creates a pace without known limits. */
export const makePace = (): Pace => {
  let levels: Array<Level> = []

  /** Returns the levels that have not fully reset. */
  const listOpenLevels = (now: number): Array<Level> => {
    levels = levels.filter(({ wholeAt }) => wholeAt > now)
    return levels
  }

  return {
    told: (buckets, now) => {
      if (buckets.length > 0) levels = buckets.map((bucket) => makeLevel(bucket, now))
    },
    expected: (ahead, tokens, now) => {
      let wait = 0
      for (const level of listOpenLevels(now))
        wait = Math.max(wait, computeWait(level, ahead + 1, computeNeed(level, tokens), now))
      return wait
    },
    take: (tokens, now) => {
      for (const level of listOpenLevels(now)) {
        refillLevel(level, now)
        level.remaining -= computeNeed(level, tokens)
      }
    },
    left: (now) => listOpenLevels(now).map(({ said, wholeAt }) => ({ ...said, resetMillis: wholeAt - now }))
  }
}

/** A call that has begun and that the provider has neither accepted nor refused yet. */
export interface BegunCall {
  readonly at: number
}

/** Learned request rate of one key. */
export interface LearntRate {
  /** Returns the whole milliseconds until the next call may begin; 0 if it may begin now. */
  readonly delay: (now: number) => number
  /** Returns the expected wait, in milliseconds, of a call that has `ahead` other calls before it. */
  readonly expected: (ahead: number, now: number) => number
  /** Records a call that begins now. */
  readonly begin: (now: number) => BegunCall
  /** Records that the provider accepted the call. */
  readonly accepted: (call: BegunCall, now: number) => void
  /** Records that the provider refused the call, and that the key must not be used for `closedFor` milliseconds. */
  readonly refused: (call: BegunCall, closedFor: number, now: number) => void
  /** Records that a call no longer waits for the provider, regardless of its outcome. */
  readonly decided: () => void
  /** Returns the time of the last accepted call, or `undefined` if no call was accepted. */
  readonly acceptedAt: () => number | undefined
}

/** Initial maximum number of calls that wait concurrently for the beginning of their answers. */
const firstWindow = 8
const largestWindow = 1_024
/**
 * Initial interval, in milliseconds, between calls that begin although the window is full. Later intervals are shorter.
 */
const fullWindowDelay = 100
const impatience = 0.95
/** Minimum delay in milliseconds. Shorter delays are skipped. */
const leastDelay = 5
/** Milliseconds without a refusal after which a learned rate is discarded. */
const rateMemory = 120_000
/** Maximum number of accepted calls whose start times are stored to learn a rate. */
const mostBeginnings = 1_024
/** Factor by which the learned rate is below the rate that was accepted. */
const margin = 0.9
const decrease = 0.8
/**
 * Relative growth of the rate with each accepted call: `searching` before a learned rate is first refused, `careful`
 * afterwards.
 */
const searching = 0.05
const careful = 0.01
/** Minimum period in milliseconds over which the rate is measured, if the provider closes a key for a shorter time. */
const leastSpan = 1_000

interface Rate {
  /** Number of calls per millisecond. */
  perMilli: number
  /** Fixed increment for each accepted call; `undefined` while the rate grows proportionally. */
  step: number | undefined
}

/** Creates the rate of a key whose limits are unknown. */
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
