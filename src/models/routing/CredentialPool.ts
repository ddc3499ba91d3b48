/**
 * The keys of one provider, shared by all its callers.
 *
 * **Details**
 *
 * A call leases a key and returns it; meanwhile other calls get unused keys first. When the provider refuses a key,
 * {@link CredentialPool.rotate} sets it aside for as long as the provider says, else for a time that depends on the
 * reason, and leases the next one. A pool always returns a key: when all are set aside, the one that becomes available
 * first.
 *
 * A key that another process sets aside rests here too, if the store reports it ({@link PoolStore.PoolStore.listen}).
 *
 * A pool of one sets nothing aside: there is no other key to continue with, and the session's own cooldown keeps the
 * route from being asked too early.
 *
 * **Gotchas**
 *
 * A key that was refused for its rate rests for a minute when the provider does not say how long. The specification has
 * an hour; with the seed's rule that the first refusal rotates (`ARCHITECTURE.md` §7, D3) that would spend a pool
 * within a minute for an hour. It rests an hour when money is short, five minutes when it was not accepted.
 *
 * Keys that no call is using come first, so that runs side by side spread over the pool; among them the strategy
 * decides. `fill_first` keeps to the first key and with it to the prompt cache that the provider holds for it.
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

/** A key as it is configured. */
export interface Credential {
  readonly key: Redacted.Redacted<string>
  /** Gets a new key in its place: an OAuth token that can be renewed. */
  readonly refresh?: Effect.Effect<Redacted.Redacted<string>, AiError.AiError> | undefined
  /** The address of the service that issued it, if that is not the provider. */
  readonly issuer?: string | undefined
}

/** A key in use. */
export interface Lease {
  readonly key: Redacted.Redacted<string>
  /** Names the key without telling it; another one after a renewal. */
  readonly id: string
  /** Its place in the pool, from 1. */
  readonly number: number
}

/** State of a key, as it may be shown. */
export interface KeyState {
  readonly id: string
  readonly number: number
  readonly leases: number
  readonly used: number
  /** Milliseconds until it is used again, and why it is not; undefined when it is fine. */
  readonly resting: { readonly millis: number; readonly reason: string } | undefined
}

/** Keys of one provider. */
export interface CredentialPool {
  readonly size: number
  readonly lease: Effect.Effect<Lease>
  readonly release: (lease: Lease) => void
  /**
   * Sets the key aside and leases the next one; returns undefined and preserves the lease if no other key is available.
   */
  readonly rotate: (
    lease: Lease,
    why: { readonly reason: Reason; readonly resetAfter: Duration.Duration | undefined }
  ) => Effect.Effect<Lease | undefined>
  /** Renews the key; undefined, and the lease stays, when it cannot be renewed or the renewal failed. */
  readonly refresh: (lease: Lease) => Effect.Effect<Lease | undefined>
  /** Returns whether some key is not set aside. */
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
  reason: string
}

/** Rest of a key when the provider names no time. */
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

/** Parts of a pool. */
interface Options {
  /** Names the pool in the store. */
  readonly name: string
  /** One at least; the same key twice counts once. */
  readonly credentials: ReadonlyArray<Credential>
  /** `fill_first` when absent. */
  readonly strategy?: Strategy | undefined
  /** Forgets everything with the process when absent. */
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
  reason: ""
})

/** Applies the rests that other processes recorded for keys: the longer rest is used. */
const adoptMarks = (entries: ReadonlyArray<Entry>, keys: PoolStore.PoolRecord["keys"]): void => {
  for (const entry of entries) {
    const mark = Object.hasOwn(keys, entry.id) ? keys[entry.id] : undefined
    if (mark === undefined || mark.until <= entry.until) continue
    entry.until = mark.until
    entry.reason = mark.reason
  }
}

/** One key that is never set aside: nothing to choose, count or remember. */
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

/** A pool; the scope saves what is to be remembered. */
export const make = Effect.fnUntraced(function* ({
  credentials,
  name,
  store = PoolStore.none,
  strategy = "fill_first"
}: Options): Effect.fn.Return<CredentialPool, never, Scope.Scope> {
  const given = removeDuplicates(credentials)
  const entries = given.map(makeEntry)
  // Before it is read: nothing that is saved in between is missed.
  if (given.length > 1) yield* store.listen?.(name, (keys) => adoptMarks(entries, keys)) ?? Effect.void
  const saved = given.length < 2 ? { keys: {} } : yield* store.load(name)
  adoptMarks(entries, saved.keys)
  for (const entry of entries)
    entry.used = (Object.hasOwn(saved.keys, entry.id) ? saved.keys[entry.id]?.used : undefined) ?? 0
  let last = entries.findIndex(({ id }) => id === saved.last)
  let unsaved = false

  const findEntry = ({ number }: Lease): Entry | undefined => entries[number - 1]

  const takeKey = (entry: Entry): Lease => {
    entry.leases++
    entry.used++
    last = entry.place
    unsaved = true
    return { key: entry.key, id: entry.id, number: entry.place + 1 }
  }

  const releaseKey = (lease: Lease): void => {
    const entry = findEntry(lease)
    if (entry !== undefined) entry.leases--
  }

  const save = Effect.suspend(() => {
    unsaved = false
    const chosen = entries[last]
    return store.save(name, {
      ...(chosen === undefined ? {} : { last: chosen.id }),
      keys: Object.fromEntries(entries.map(({ id, reason, until, used }) => [id, { until, reason, used }]))
    })
  })

  const listReadyKeys = (now: number): ReadonlyArray<Entry> => entries.filter(({ until }) => until <= now)

  const findSoonestKey = (): Entry | undefined => entries.toSorted((a, b) => a.until - b.until)[0]

  const chooseEntry = (candidates: ReadonlyArray<Entry>): Effect.Effect<Entry | undefined> =>
    strategy === "random"
      ? Effect.map(Random.next, (chance) => chooseKey(strategy, candidates, last, chance))
      : Effect.sync(() => chooseKey(strategy, candidates, last, 0))

  const lease: CredentialPool["lease"] = Effect.gen(function* () {
    const entry = (yield* chooseEntry(listReadyKeys(yield* Clock.currentTimeMillis))) ?? findSoonestKey()
    return entry === undefined ? yield* Effect.die(`the pool ${name} was made without keys`) : takeKey(entry)
  })

  const rotate: CredentialPool["rotate"] = Effect.fnUntraced(function* (held, { reason, resetAfter }) {
    const entry = findEntry(held)
    if (entry === undefined || entries.length < 2) return undefined
    const now = yield* Clock.currentTimeMillis
    // A key that was renewed meanwhile is another key.
    if (entry.id === held.id) {
      entry.until = now + Duration.toMillis(resetAfter ?? chooseRest(reason))
      entry.reason = reason
    }
    const next = yield* chooseEntry(listReadyKeys(now))
    const taken = next === undefined ? undefined : takeKey(next)
    if (taken !== undefined) releaseKey(held)
    yield* save
    return taken
  })

  const refresh: CredentialPool["refresh"] = (held) => {
    const entry = findEntry(held)
    const renew = entry?.credential.refresh
    if (entry === undefined || renew === undefined) return Effect.succeed(undefined)
    const renewed = Effect.gen(function* () {
      // Otherwise another holder has already renewed it.
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
          Effect.as(Effect.logWarning(`key ${held.number} of ${name} was not renewed: ${error.message}`), undefined)
        )
      )
  }

  yield* Effect.addFinalizer(() => (unsaved && entries.length > 1 ? save : Effect.void))

  const [only] = entries
  return {
    size: entries.length,
    ...(only !== undefined && entries.length === 1 ? makeSingleKeyPool(only) : { lease, release: releaseKey }),
    rotate,
    refresh,
    isReady: Effect.map(Clock.currentTimeMillis, (now) => listReadyKeys(now).length > 0),
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

/** `1h2m`, `Xhr Ymin`, `20s`, `6.5 seconds`. */
const parseSpokenDuration = (text: string): number =>
  ((parseHours(text) * 60 + parseMinutes(text)) * 60 + parseSeconds(text)) * 1_000 + parseMillis(text)

/** Words before a length of time. */
const introductions =
  /(?:try again in|retry after|retry in|resets? in|reset after|quotaresetdelay['"]?\s*[:=]\s*['"]?|retrydelay['"]?\s*[:=]\s*['"]?)\s*([\d.]+\s*[a-z]+(?:[\s,]*[\d.]+\s*[a-z]+)*)/

/** Words before a moment: seconds or milliseconds since 1970, or a date. */
const moments = /(?:resets?_?at|reset_time|resets at)['"]?\s*[:=]?\s*['"]?(\d{4}-\d\d-\d\dt[\d:.]+z?|\d{10,13})/

const parseMoment = (moment: string): number => {
  if (/^\d+$/.test(moment)) return moment.length > 10 ? Number(moment) : Number(moment) * 1_000
  return Date.parse(moment.toUpperCase())
}

const longest = Duration.toMillis(Duration.days(7))

const readBody = ({ reason }: AiError.AiError): string => ("http" in reason ? (reason.http?.body ?? "") : "")

/**
 * Reads how long from `now` the provider will refuse the key: from a header, or words and fields in the body; undefined
 * when it does not say.
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

/** A key that could be used. */
interface Candidate {
  /** Its place in the pool, from 0: the smaller, the sooner it is used. */
  readonly place: number
  /** Calls that are using it now. */
  readonly leases: number
  /** Number of times that it was chosen. */
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
 * Chooses one of the candidates, which are in the pool's order; `last` is the place of the one chosen before, `chance`
 * in [0, 1).
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
