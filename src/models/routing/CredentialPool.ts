/**
 * Manages the keys of one provider, which are shared by all callers.
 *
 * **Details**
 *
 * A call leases a key and releases it afterwards; other calls prefer unused keys. If the provider refuses a key,
 * {@link CredentialPool.rotate} disables it for the time that the provider requests, or for a time that depends on the
 * reason, and leases the next key. A pool always returns a key: if all are disabled, the one that becomes available
 * first.
 *
 * A key that another process disables is also disabled here if the store reports it
 * ({@link PoolStore.PoolStore.listen}).
 *
 * A pool with a single key never disables it, because there is no other key; the session's own cooldown prevents early
 * retries on the route.
 *
 * **Gotchas**
 *
 * If the provider does not state a time, a key refused because of a rate limit is disabled for one minute, and for
 * twice as long, up to one hour, each time that it is refused again soon after. The specification says one hour from
 * the start; together with the rule that the first refusal causes a change to the next key (`ARCHITECTURE.md` §7, D3),
 * this could disable a whole pool for an hour within a minute. A key without credit is disabled for one hour, a
 * rejected key for five minutes.
 *
 * Unused keys are preferred, so that concurrent runs use different keys; the strategy chooses among them. `fill_first`
 * prefers the first key, and with it the prompt cache that the provider stores for this key.
 *
 * Source: `hermes-llm.md` §17.2.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type * as AiError from "effect/ai/AiError"
import type { Reason } from "./Recovery.ts"
import { fingerprint } from "../../base/platform/Digest.ts"
import * as PoolStore from "./PoolStore.ts"
import * as Evidence from "./classification/Evidence.ts"

/** A configured key. */
export interface Credential {
  readonly key: Redacted.Redacted<string>
  /** Returns a new key that replaces this one, for OAuth tokens that can be renewed. */
  readonly refresh?: Effect.Effect<Redacted.Redacted<string>, AiError.AiError> | undefined
  /** Address of the service that issued the key, if it is not the provider. */
  readonly issuer?: string | undefined
}

/** A key in use. */
export interface Lease {
  readonly key: Redacted.Redacted<string>
  /** Identifies the key without revealing it. A renewed key has another id. */
  readonly id: string
  /** Position of the key in the pool, from 1. */
  readonly number: number
}

/** State of a key, without secrets. */
export interface KeyState {
  readonly id: string
  readonly number: number
  readonly leases: number
  readonly used: number
  /** Milliseconds until a disabled key can be used again, and the reason; `undefined` if the key is available. */
  readonly resting: { readonly millis: number; readonly reason: string } | undefined
}

/** Pool of one provider's keys. */
export interface CredentialPool {
  readonly size: number
  readonly lease: Effect.Effect<Lease>
  readonly release: (lease: Lease) => void
  /**
   * Disables the key and leases the next one. Returns `undefined` and preserves the lease if no other key is available.
   */
  readonly rotate: (
    lease: Lease,
    why: { readonly reason: Reason; readonly resetAfter: Duration.Duration | undefined }
  ) => Effect.Effect<Lease | undefined>
  /** Renews the key. Returns `undefined` and preserves the lease if the key cannot be renewed or the renewal fails. */
  readonly refresh: (lease: Lease) => Effect.Effect<Lease | undefined>
  /** True if at least one key is not disabled. */
  readonly isReady: Effect.Effect<boolean>
  readonly state: Effect.Effect<ReadonlyArray<KeyState>>
}

interface Entry extends Candidate {
  readonly credential: Credential
  readonly renewing: Semaphore.Semaphore
  key: Redacted.Redacted<string>
  id: string
  leases: number
  used: number
  until: number
  /** Milliseconds of the newest time for which the key was disabled. */
  rest: number
  reason: string
}

/** Returns the time for which a key is disabled if the provider does not state one. */
const chooseRest = (reason: Reason): Duration.Duration => {
  switch (reason) {
    case "rate_limit":
      return Duration.minutes(1)
    case "auth":
      return Duration.minutes(5)
    default:
      return Duration.hours(1)
  }
}

const longestRest = Duration.toMillis(Duration.hours(1))

/**
 * Returns the time in milliseconds for which a key is disabled if the provider does not state one. A rate limit that is
 * still there soon after the key was enabled again doubles the time. Refusals of concurrent calls, which arrive while
 * the key is disabled, do not.
 */
const computeRest = ({ rest, until }: Entry, reason: Reason, now: number): number => {
  if (reason === "rate_limit" && now < until) return Math.max(rest, until - now)
  const first = Duration.toMillis(chooseRest(reason))
  const isRepeated = reason === "rate_limit" && rest > 0 && now < until + rest
  return isRepeated ? Math.min(longestRest, Math.max(first, rest * 2)) : first
}

/** Options of a pool. */
interface Options {
  /** Name of the pool in the store. */
  readonly name: string
  /** At least one key. Duplicate keys are ignored. */
  readonly credentials: ReadonlyArray<Credential>
  /** Order in which keys are used. Defaults to `fill_first`. */
  readonly strategy?: Strategy | undefined
  /** Store for the state of the keys. Without this option the state is lost when the process ends. */
  readonly store?: PoolStore.PoolStore | undefined
}

const removeDuplicates = (credentials: ReadonlyArray<Credential>): ReadonlyArray<Credential> => {
  const seen = new Set<string>()
  return credentials.filter(({ key }) => {
    const value = Redacted.value(key)
    return !seen.has(value) && seen.add(value)
  })
}

const makeEntry = (credential: Credential, place: number): Entry => ({
  place,
  credential,
  renewing: Semaphore.makeUnsafe(1),
  key: credential.key,
  id: fingerprint(Redacted.value(credential.key)),
  leases: 0,
  used: 0,
  until: 0,
  rest: 0,
  reason: ""
})

/** Disables keys for the times that other processes recorded. If a key is already disabled, the longer time is used. */
const adoptMarks = (entries: ReadonlyArray<Entry>, keys: PoolStore.PoolRecord["keys"]): void => {
  for (const entry of entries) {
    const mark = Object.hasOwn(keys, entry.id) ? keys[entry.id] : undefined
    if (mark === undefined || mark.until <= entry.until) continue
    entry.until = mark.until
    entry.reason = mark.reason
  }
}

/** Creates a pool with a single key, which is never disabled, so no state is needed. */
const makeSingleKeyPool = (entry: Entry): Pick<CredentialPool, "lease" | "release"> => {
  let lease: Lease | undefined
  return {
    lease: Effect.sync(() => {
      entry.leases++
      if (lease === undefined || lease.id !== entry.id) lease = { key: entry.key, id: entry.id, number: 1 }
      return lease
    }),
    release: () => void entry.leases--
  }
}

/** Keys of a pool. */
interface PoolState {
  readonly name: string
  readonly store: PoolStore.PoolStore
  readonly strategy: Strategy
  readonly entries: ReadonlyArray<Entry>
  /** Position of the key that was used last, or -1. */
  last: number
  unsaved: boolean
}

const findEntry = ({ entries }: PoolState, { number }: Lease): Entry | undefined => entries[number - 1]

const takeKey = (pool: PoolState, entry: Entry): Lease => {
  entry.leases++
  entry.used++
  pool.last = entry.place
  pool.unsaved = true
  return { key: entry.key, id: entry.id, number: entry.place + 1 }
}

const releaseKey = (pool: PoolState, lease: Lease): void => {
  const entry = findEntry(pool, lease)
  if (entry !== undefined) entry.leases--
}

/** Saves the state of the keys. */
const saveKeys = (pool: PoolState) =>
  Effect.suspend(() => {
    pool.unsaved = false
    const chosen = pool.entries[pool.last]
    return pool.store.save(pool.name, {
      ...(chosen === undefined ? {} : { last: chosen.id }),
      keys: Object.fromEntries(pool.entries.map(({ id, reason, until, used }) => [id, { until, reason, used }]))
    })
  })

const listReadyKeys = ({ entries }: PoolState, now: number): ReadonlyArray<Entry> =>
  entries.filter(({ until }) => until <= now)

const findSoonestKey = ({ entries }: PoolState): Entry | undefined => entries.toSorted((a, b) => a.until - b.until)[0]

const chooseEntry = (pool: PoolState, candidates: ReadonlyArray<Entry>): Effect.Effect<Entry | undefined> =>
  pool.strategy === "random"
    ? Effect.map(Random.next, (chance) => chooseKey(pool.strategy, candidates, pool.last, chance))
    : Effect.sync(() => chooseKey(pool.strategy, candidates, pool.last, 0))

const leaseKey = (pool: PoolState): CredentialPool["lease"] =>
  Effect.gen(function* () {
    const entry =
      (yield* chooseEntry(pool, listReadyKeys(pool, yield* Clock.currentTimeMillis))) ?? findSoonestKey(pool)
    return entry === undefined ? yield* Effect.die(`the pool ${pool.name} was made without keys`) : takeKey(pool, entry)
  })

const rotate = (pool: PoolState): CredentialPool["rotate"] =>
  Effect.fnUntraced(function* (held, { reason, resetAfter }) {
    const entry = findEntry(pool, held)
    if (entry === undefined || pool.entries.length < 2) return undefined
    const now = yield* Clock.currentTimeMillis
    // A key that has been renewed in the meantime has another id and is not disabled.
    if (entry.id === held.id) {
      entry.rest = resetAfter === undefined ? computeRest(entry, reason, now) : Duration.toMillis(resetAfter)
      entry.until = now + entry.rest
      entry.reason = reason
    }
    const next = yield* chooseEntry(pool, listReadyKeys(pool, now))
    const taken = next === undefined ? undefined : takeKey(pool, next)
    if (taken !== undefined) releaseKey(pool, held)
    yield* saveKeys(pool)
    return taken
  })

const refresh =
  (pool: PoolState): CredentialPool["refresh"] =>
  (held) => {
    const entry = findEntry(pool, held)
    const renew = entry?.credential.refresh
    if (entry === undefined || renew === undefined) return Effect.succeed(undefined)
    const renewed = Effect.gen(function* () {
      // If the ids differ, another caller has already renewed the key.
      if (entry.id === held.id) {
        const key = yield* renew
        const id = fingerprint(Redacted.value(key))
        if (id === held.id) return undefined
        entry.key = key
        entry.id = id
      }
      return { key: entry.key, id: entry.id, number: held.number }
    })
    return entry.renewing
      .withPermits(1)(renewed)
      .pipe(
        Effect.catch((error) =>
          Effect.as(
            Effect.logWarning(`key ${held.number} of ${pool.name} was not renewed: ${error.message}`),
            undefined
          )
        )
      )
  }

/** Creates a pool. Its state is saved when the scope is closed. */
export const make = Effect.fnUntraced(function* ({
  credentials,
  name,
  store = PoolStore.none,
  strategy = "fill_first"
}: Options): Effect.fn.Return<CredentialPool, never, Scope.Scope> {
  const given = removeDuplicates(credentials)
  const entries = given.map(makeEntry)
  // The listener is registered before the store is read, so that no change in between is missed.
  if (given.length > 1) yield* store.listen?.(name, (keys) => adoptMarks(entries, keys)) ?? Effect.void
  const saved = given.length < 2 ? { keys: {} } : yield* store.load(name)
  adoptMarks(entries, saved.keys)
  for (const entry of entries)
    entry.used = (Object.hasOwn(saved.keys, entry.id) ? saved.keys[entry.id]?.used : undefined) ?? 0
  const last = entries.findIndex(({ id }) => id === saved.last)
  const pool: PoolState = { name, store, strategy, entries, last, unsaved: false }

  yield* Effect.addFinalizer(() => (pool.unsaved && entries.length > 1 ? saveKeys(pool) : Effect.void))

  const [only] = entries
  return {
    size: entries.length,
    ...(only !== undefined && entries.length === 1
      ? makeSingleKeyPool(only)
      : { lease: leaseKey(pool), release: (held) => releaseKey(pool, held) }),
    rotate: rotate(pool),
    refresh: refresh(pool),
    isReady: Effect.map(Clock.currentTimeMillis, (now) => listReadyKeys(pool, now).length > 0),
    state: Effect.map(Clock.currentTimeMillis, (now) =>
      entries.map(({ id, leases, place, reason, until, used }) => ({
        id,
        number: place + 1,
        leases,
        used,
        resting: until > now ? { millis: until - now, reason } : undefined
      }))
    )
  }
})

const parseHours = (text: string): number => Number(/(\d+)\s*(?:hours?|hrs?|h)(?![a-z])/.exec(text)?.[1] ?? 0)
const parseMinutes = (text: string): number => Number(/(\d+)\s*(?:minutes?|mins?|m)(?![a-z])/.exec(text)?.[1] ?? 0)
const parseSeconds = (text: string): number =>
  Number(/(\d+(?:\.\d+)?)\s*(?:seconds?|secs?|s)(?![a-z])/.exec(text)?.[1] ?? 0)
const parseMillis = (text: string): number => Number(/(\d+(?:\.\d+)?)\s*ms(?![a-z])/.exec(text)?.[1] ?? 0)

/** Parses durations such as `1h2m`, `Xhr Ymin`, `20s` and `6.5 seconds`. */
const parseSpokenDuration = (text: string): number =>
  ((parseHours(text) * 60 + parseMinutes(text)) * 60 + parseSeconds(text)) * 1_000 + parseMillis(text)

/** Words that precede a duration. */
const introductions =
  /(?:try again in|retry after|retry in|resets? in|reset after|quotaresetdelay['"]?\s*[:=]\s*['"]?|retrydelay['"]?\s*[:=]\s*['"]?)\s*([\d.]+\s*[a-z]+(?:[\s,]*[\d.]+\s*[a-z]+)*)/

/** Words that precede a point in time, which is given as seconds or milliseconds since 1970, or as a date. */
const moments = /(?:resets?_?at|reset_time|resets at)['"]?\s*[:=]?\s*['"]?(\d{4}-\d\d-\d\dt[\d:.]+z?|\d{10,13})/

const parseMoment = (moment: string): number => {
  if (/^\d+$/.test(moment)) return moment.length > 10 ? Number(moment) : Number(moment) * 1_000
  return Date.parse(moment.toUpperCase())
}

const longest = Duration.toMillis(Duration.days(7))

const readBody = ({ reason }: AiError.AiError): string => ("http" in reason ? (reason.http?.body ?? "") : "")

/**
 * Reads how long after `now` the provider will refuse the key. The time is stated in a header, or in text and fields in
 * the body. Returns `undefined` if no time is stated.
 */
export const readResetAfter = (error: AiError.AiError, now: number): Duration.Duration | undefined => {
  const { retryAfter, text } = Evidence.collectEvidence(error)
  if (retryAfter !== undefined) return retryAfter
  const all = `${text} ${readBody(error).toLowerCase()}`
  const length = introductions.exec(all)?.[1]
  const moment = moments.exec(all)?.[1]
  const wait = length !== undefined ? parseSpokenDuration(length) : moment !== undefined ? parseMoment(moment) - now : 0
  return wait > 0 && wait <= longest ? Duration.millis(wait) : undefined
}

/** Order in which keys are used. */
export type Strategy = "fill_first" | "round_robin" | "random" | "least_used"

/** An available key. */
interface Candidate {
  /** Position of the key in the pool, from 0. */
  readonly place: number
  /** Number of calls that currently use the key. */
  readonly leases: number
  /** Number of times that the key was chosen. */
  readonly used: number
}

const findLeast = <A>(items: ReadonlyArray<A>, rank: (item: A) => number): A | undefined => {
  let best: A | undefined
  for (const item of items) {
    if (best === undefined || rank(item) < rank(best)) best = item
  }
  return best
}

const chooseByStrategy = <C extends Candidate>(
  strategy: Strategy,
  candidates: ReadonlyArray<C>,
  last: number,
  chance: number
): C | undefined => {
  switch (strategy) {
    case "fill_first":
      return findLeast(candidates, ({ place }) => place)
    case "round_robin":
      return candidates.find(({ place }) => place > last) ?? candidates[0]
    case "random":
      return candidates[Math.min(Math.floor(chance * candidates.length), candidates.length - 1)]
    case "least_used":
      return findLeast(candidates, ({ used }) => used)
  }
}

/**
 * Chooses one of the candidates, which are in the pool's order. `last` is the position of the previously chosen key,
 * `chance` a random number in [0, 1).
 */
export const chooseKey = <C extends Candidate>(
  strategy: Strategy,
  candidates: ReadonlyArray<C>,
  last: number,
  chance: number
): C | undefined => {
  const fewest = findLeast(candidates, ({ leases }) => leases)?.leases
  return chooseByStrategy(
    strategy,
    candidates.filter(({ leases }) => leases === fewest),
    last,
    chance
  )
}
