/**
 * Determines the owner of a stored session: a named key of a server, or all users without such a key.
 *
 * **Details**
 *
 * The sessions of a named key belong only to that key: their stored source ends with its name (`api-server:NAME`), and
 * they are hidden from other named keys, from the server's own key, and from agents that search earlier conversations.
 * A session that works for another session, such as a sub-agent's, belongs to the owner of that session.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import { hiddenSources } from "./SessionSearch.ts"
import { type Session, SessionStore } from "./SessionStorePort.ts"

const sources = ["api-server", "mcp"] as const

/** Maximum number of parent sessions that are examined. */
const mostParents = 50

/** Returns the source that is stored for sessions that a client begins. */
export const formatSource = (source: (typeof sources)[number], client: string | undefined): string =>
  client === undefined ? source : `${source}:${client}`

/** Lists the sources of all sessions that a named key owns. */
export const listSources = (client: string): ReadonlyArray<string> =>
  sources.map((source) => formatSource(source, client))

/** Returns the named key that owns the sessions of a source, or `undefined` if they are not owned by a named key. */
const parseClient = (source: string): string | undefined => {
  const served = sources.find((one) => source.startsWith(`${one}:`))
  return served === undefined ? undefined : source.slice(served.length + 1)
}

/** Tests whether a client may continue a stored session, by the session's source. */
export const isSeenBy = (client: string | undefined, source: string): boolean => parseClient(source) === client

/**
 * Finds the named key that owns a session. A session that works for another session has the same owner as that session.
 */
export const findOwner = Effect.fnUntraced(function* (
  session: Session
): Effect.fn.Return<string | undefined, SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const readSession = (id: SessionId) => Effect.map(store.get(id), Option.getOrUndefined)
  let at: Session | undefined = session
  for (let left = mostParents; left > 0 && at !== undefined && hiddenSources.includes(at.source); left--) {
    at = at.parentId === undefined ? undefined : yield* readSession(at.parentId)
  }
  return at === undefined ? undefined : parseClient(at.source)
})
