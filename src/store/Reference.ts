/**
 * Resolves a reference typed by the user to a session.
 *
 * **Details**
 *
 * The input is matched in this order: the exact id; the word `latest`; the beginning of exactly one id; the title with
 * normalized white space. A title refers to the last continuation of its session. `latest` is the most recently active
 * session whose source is not hidden. With a folder, only sessions recorded in that folder are considered. A prefix
 * that several ids share is ambiguous, unless it is the title of a session. A title of sessions of several tenants is
 * ambiguous, unless a session without a tenant has it.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionNotFound, type SessionStoreError } from "../base/domain/AgentError.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import type { Session, SessionFolder } from "./SessionStorePort.ts"
import * as Title from "./Title.ts"

/** Maximum number of candidates listed for an ambiguous reference. */
export const maxCandidates = 10

/** Maximum length, in characters, of a reference that is compared with all names. */
const longestName = 100

/** Number of names that are compared before other fibers may run. */
const comparedAtOnce = 1_000

/** Store queries that are needed to resolve a reference. */
interface Lookup {
  readonly byId: (id: string) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  /** Finds sessions by the beginning of their id, at most {@link maxCandidates}, newest activity first. */
  readonly byIdPrefix: (prefix: string) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /** Finds the sessions with a title, newest activity first. Each tenant has at most one of them. */
  readonly byTitle: (title: string) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  readonly byTitlePrefix: (prefix: string) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /** Ids and titles of all sessions that are not hidden. */
  readonly names: Effect.Effect<ReadonlyArray<string>, SessionStoreError>
  readonly latest: Effect.Effect<Option.Option<Session>, SessionStoreError>
  /** Distinct directories of the sessions that are not hidden, the most recently active first. */
  readonly directories: Effect.Effect<ReadonlyArray<string>, SessionStoreError>
  readonly latestIn: (directory: string) => Effect.Effect<Option.Option<Session>, SessionStoreError>
}

/** Returns the last session in the chain of continuations that begins with `first`. */
const findLastContinuation = (first: Session, base: string, others: ReadonlyArray<Session>): Session => {
  const numbered = others
    .map((session) => ({ session, number: Title.parseContinuation(base, session.title) ?? 0 }))
    .filter(({ number }) => number > 0)
    .toSorted((a, b) => a.number - b.number)
  let last = first
  for (const { session } of numbered) {
    if (session.parentId === last.id) last = session
  }
  return last
}

/** Finds the most recently active session of a folder. */
const findLatestInFolder = Effect.fnUntraced(function* (
  lookup: Lookup,
  { holds, path }: SessionFolder
): Effect.fn.Return<Session, SessionNotFound | SessionStoreError> {
  for (const directory of yield* lookup.directories) {
    if (!(yield* holds(directory))) continue
    const found = yield* lookup.latestIn(directory)
    if (Option.isSome(found)) return found.value
  }
  return yield* new SessionNotFound({ sessionId: "latest", candidates: [], folder: path })
})

/** Finds the name with the fewest edits to a word, if it is near. Lets other fibers run meanwhile. */
const findNearestName = Effect.fnUntraced(function* (wanted: string, names: ReadonlyArray<string>) {
  const nearest: Array<string> = []
  for (let from = 0; from < names.length; from += comparedAtOnce) {
    nearest.push(...takeNearest(wanted, names.slice(from, from + comparedAtOnce)))
    yield* Effect.yieldNow
  }
  return takeNearest(wanted, nearest)[0]
})

/** Returns the nearest of some names, or no name. */
const takeNearest = (wanted: string, names: ReadonlyArray<string>): ReadonlyArray<string> => {
  const nearest = findNearest(
    wanted.toLowerCase(),
    names.map((name) => name.toLowerCase())
  )
  const named = names.find((name) => name.toLowerCase() === nearest)
  return named === undefined ? [] : [named]
}

/**
 * Creates a function that resolves a reference typed by the user to one session. With a folder, `latest` is the most
 * recently active session of that folder.
 */
export const makeResolver = (lookup: Lookup) =>
  Effect.fnUntraced(function* (
    reference: string,
    folder?: SessionFolder
  ): Effect.fn.Return<Session, SessionNotFound | SessionStoreError> {
    const wanted = reference.trim()
    if (wanted === "") return yield* new SessionNotFound({ sessionId: reference, candidates: [] })

    const exact = yield* lookup.byId(wanted)
    if (Option.isSome(exact)) return exact.value
    if (wanted === "latest") {
      if (folder !== undefined) return yield* findLatestInFolder(lookup, folder)
      const latest = yield* lookup.latest
      if (Option.isSome(latest)) return latest.value
      return yield* new SessionNotFound({ sessionId: wanted, candidates: [] })
    }

    const candidates = yield* lookup.byIdPrefix(wanted)
    if (candidates.length === 1 && candidates[0] !== undefined) return candidates[0]
    const title = Title.normalise(wanted)
    const titled = title === "" ? [] : yield* lookup.byTitle(title)
    const first = titled.length === 1 ? titled[0] : titled.find(({ tenant }) => tenant === undefined)
    if (first !== undefined)
      return findLastContinuation(first, title, yield* lookup.byTitlePrefix(Title.formatContinuationPrefix(title)))
    const meantSessions = candidates.length > 0 ? candidates : titled.slice(0, maxCandidates)
    if (meantSessions.length > 0)
      return yield* new SessionNotFound({ sessionId: wanted, candidates: meantSessions.map((session) => session.id) })
    const named = wanted.length > longestName ? undefined : yield* findNearestName(wanted, yield* lookup.names)
    return yield* new SessionNotFound({
      sessionId: wanted,
      candidates: [],
      ...(named === undefined ? {} : { meant: named })
    })
  })
