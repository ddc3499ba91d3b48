/**
 * Delays calls by what is left of a key's limits: calls are spread instead of being refused.
 *
 * **Details**
 *
 * Each call takes its share of what was left when the provider last said so; when a limit has nothing left for it, the call
 * waits for as much of it as it needs to fill up. Several calls at once wait one behind the other. Answers correct the
 * account.
 *
 * | who | headers |
 * | --- | --- |
 * | OpenAI, Groq, Nous, many others | `x-ratelimit-{limit,remaining,reset}-{requests,tokens}`, by the hour with `-1h` behind |
 * | Anthropic | `anthropic-ratelimit-{requests,tokens,input-tokens}-{limit,remaining,reset}` |
 * | OpenRouter | `x-ratelimit-{limit,remaining,reset}`, requests |
 *
 * A reset is a length (`6m0s`, `20ms`, seconds) or a moment (a date, seconds or milliseconds since 1970).
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

const lengthOf = (text: string): number | undefined => {
  if (!/^(?:[\d.]+(?:ms|s|m|h|d))+$/.test(text)) return undefined
  let millis = 0
  for (const [, count, unit = ""] of text.matchAll(/([\d.]+)(ms|s|m|h|d)/g)) millis += Number(count) * (units[unit] ?? 0)
  return millis
}

const seconds = 1_000_000_000
const milliseconds = 1_000_000_000_000

const resetOf = (text: string, now: number): number => {
  const number = Number(text)
  if (Number.isFinite(number)) {
    return number >= milliseconds ? number - now : number >= seconds ? number * 1_000 - now : number * 1_000
  }
  return lengthOf(text.toLowerCase()) ?? Date.parse(text) - now
}

type Part = "limit" | "remaining" | "reset"

interface Family {
  readonly kind: Bucket["kind"]
  readonly refills: boolean
  readonly header: (part: Part) => string
}

const named = (kind: Bucket["kind"], refills: boolean, header: Family["header"]): Family => ({ kind, refills, header })

const families: ReadonlyArray<Family> = [
  named("requests", true, (part) => `x-ratelimit-${part}-requests`),
  named("tokens", true, (part) => `x-ratelimit-${part}-tokens`),
  named("requests", false, (part) => `x-ratelimit-${part}-requests-1h`),
  named("tokens", false, (part) => `x-ratelimit-${part}-tokens-1h`),
  named("requests", true, (part) => `anthropic-ratelimit-requests-${part}`),
  named("tokens", true, (part) => `anthropic-ratelimit-tokens-${part}`),
  named("tokens", true, (part) => `anthropic-ratelimit-input-tokens-${part}`),
  named("requests", false, (part) => `x-ratelimit-${part}`)
]

const countOf = (text: string | null | undefined): number | undefined => {
  const number = text === null || text === undefined || text.trim() === "" ? Number.NaN : Number(text)
  return Number.isFinite(number) && number >= 0 ? number : undefined
}

/** The limits that an answer tells of; those without a remainder or a reset are left out. */
export const readBuckets = (get: GetHeader, now: number): ReadonlyArray<Bucket> => {
  const found: Array<Bucket> = []
  for (const { header, kind, refills } of families) {
    const remaining = countOf(get(header("remaining")))
    if (remaining === undefined) continue
    const limit = countOf(get(header("limit")))
    const resetMillis = resetOf(get(header("reset"))?.trim() ?? "", now)
    if (resetMillis > 0) found.push({ kind, limit, remaining, resetMillis, refills: refills && limit !== undefined && limit > 0 })
  }
  return found
}

/** A limit that is whole again sooner says nothing about an account: a provider behind the provider may be busy. */
const leastExhaustion = 60_000

/** Returns the milliseconds that the account itself stays at its limit; undefined where it is not. */
export const exhaustion = (buckets: ReadonlyArray<Bucket>): number | undefined => {
  const spent = buckets.filter(({ remaining, resetMillis }) => remaining <= 0 && resetMillis >= leastExhaustion)
  return spent.length === 0 ? undefined : Math.max(...spent.map(({ resetMillis }) => resetMillis))
}

/** Pace of one key. Times are in milliseconds. */
export interface Pace {
  /** Takes what a provider said at `now`. */
  readonly told: (buckets: ReadonlyArray<Bucket>, now: number) => void
  /** Takes a call out of what is left; how long it has to wait. `tokens` is asked only where they are limited. */
  readonly take: (tokens: () => number, now: number) => number
  /** Returns what the provider last said, as far as it still holds; calls since then are not taken off. */
  readonly left: (now: number) => ReadonlyArray<Bucket>
}

interface Level {
  readonly said: Bucket
  /** By how much it fills up in a millisecond; 0 where it does so all at once. */
  readonly rate: number
  readonly wholeAt: number
  remaining: number
  at: number
}

const levelOf = (said: Bucket, now: number): Level => {
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
const fill = (level: Level, now: number): void => {
  level.remaining = Math.min(level.said.limit ?? Infinity, level.remaining + level.rate * Math.max(0, now - level.at))
  level.at = now
}

const takeFrom = (level: Level, need: number, now: number): number => {
  fill(level, now)
  // A request larger than the whole limit waits for the whole of it.
  level.remaining -= Math.min(need, level.said.limit ?? need)
  if (level.remaining >= 0) return 0
  return level.rate > 0 ? -level.remaining / level.rate : level.wholeAt - now
}

/** Nothing is known yet. */
export const make = (): Pace => {
  let levels: Array<Level> = []

  /** Returns the levels that are not whole again. */
  const known = (now: number): Array<Level> => {
    levels = levels.filter(({ wholeAt }) => wholeAt > now)
    return levels
  }

  return {
    told: (buckets, now) => {
      if (buckets.length > 0) levels = buckets.map((bucket) => levelOf(bucket, now))
    },
    take: (tokens, now) => {
      let wait = 0
      for (const level of known(now)) wait = Math.max(wait, takeFrom(level, level.said.kind === "requests" ? 1 : tokens(), now))
      return wait
    },
    left: (now) => known(now).map(({ said, wholeAt }) => ({ ...said, resetMillis: wholeAt - now }))
  }
}
