/**
 * Resolves user input to the session that it refers to.
 *
 * **Details**
 *
 * Tried in this order: the exact id; the word `latest`, the session with the newest activity whose source is not
 * hidden, of one folder where one is given (a session without a recorded directory is of no folder); the beginning of
 * exactly one id; the title with its white space normalised, of which the last continuation is meant. A beginning that
 * several ids share opens none of them, unless it is the title of one.
 *
 * Source: `hermes-product.md` §1.7.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { SessionNotFound, type SessionStoreError } from "../base/domain/AgentError.ts"
import { findNearest } from "../base/domain/Similarity.ts"
import type { Session, SessionFolder } from "./SessionStorePort.ts"
import * as Title from "./Title.ts"

/** Candidates that an ambiguous reference lists at most. */
export const maxCandidates = 10

/** Characters of a reference that is compared with all names. */
const longestName = 100

/** The questions that a store answers so that references can be resolved. */
interface Lookup {
  readonly byId: (id: string) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  /** At most {@link maxCandidates}, newest activity first. */
  readonly byIdPrefix: (prefix: string) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  readonly byTitle: (title: string) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  readonly byTitlePrefix: (prefix: string) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /** Ids and titles of the sessions that are not hidden. */
  readonly names: Effect.Effect<ReadonlyArray<string>, SessionStoreError>
  readonly latest: Effect.Effect<Option.Option<Session>, SessionStoreError>
  /** Directories of the sessions that are not hidden, each once, the most recently active first. */
  readonly directories: Effect.Effect<ReadonlyArray<string>, SessionStoreError>
  readonly latestIn: (directory: string) => Effect.Effect<Option.Option<Session>, SessionStoreError>
}

/** The last session of the chain of continuations that begins with `first`. */
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

/** Finds the newest session of a folder. */
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

/** Resolves a text of a user to one session; with a folder, `latest` is the newest session of that folder. */
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
    const titled = title === "" ? Option.none() : yield* lookup.byTitle(title)
    if (Option.isSome(titled)) {
      return findLastContinuation(
        titled.value,
        title,
        yield* lookup.byTitlePrefix(Title.formatContinuationPrefix(title))
      )
    }
    if (candidates.length > 0)
      return yield* new SessionNotFound({ sessionId: wanted, candidates: candidates.map((session) => session.id) })
    const names = wanted.length > longestName ? [] : yield* lookup.names
    const meant = findNearest(
      wanted.toLowerCase(),
      names.map((name) => name.toLowerCase())
    )
    const named = names.find((name) => name.toLowerCase() === meant)
    return yield* new SessionNotFound({
      sessionId: wanted,
      candidates: [],
      ...(named === undefined ? {} : { meant: named })
    })
  })
