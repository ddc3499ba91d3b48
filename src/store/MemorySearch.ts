/** Full-text search over the sessions in memory. */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionId } from "../base/domain/Ids.ts"
import * as SearchQuery from "./SearchQuery.ts"
import * as SearchScan from "./SearchScan.ts"
import * as SearchWords from "./SearchWords.ts"
import * as SessionSearch from "./SessionSearch.ts"
import type { NewSession } from "./SessionStorePort.ts"
import * as MessageText from "./MessageText.ts"

/** Data of a session that the search reads. */
export interface SearchedSession {
  readonly id: SessionId
  readonly source: string
  readonly start: NewSession
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Order number of each message among the messages of all sessions. Messages of one `append` share a number. */
  readonly order: ReadonlyArray<number>
}

const toNeighbour = (message: Prompt.Message | undefined): SessionSearch.Neighbour | undefined =>
  message === undefined
    ? undefined
    : {
        role: message.role,
        text: SearchWords.truncateText(MessageText.extractSearchText(message).content, SessionSearch.neighbourLength)
      }

/**
 * Creates the search service for the current sessions. Every search reads all messages and returns the newest matches
 * first.
 */
export const makeSearch = (sessions: () => Iterable<SearchedSession>): SessionSearch.Service => ({
  search: (input, options = {}) =>
    Effect.sync(() => {
      const query = SearchQuery.parse(input)
      const hits: Array<{ readonly order: number; readonly hit: SessionSearch.Hit }> = []
      for (const { id, source, messages, order, start } of sessions()) {
        if (options.tenant !== undefined && options.tenant !== start.tenant) continue
        if (options.sessionId !== undefined && options.sessionId !== id) continue
        if (options.except?.includes(id) === true || SessionSearch.hiddenSources.includes(source)) continue
        messages.forEach((message, messageId) => {
          if (options.roles?.includes(message.role) === false) return
          const snippet = SearchScan.find(query, MessageText.extractSearchText(message))
          if (snippet === undefined) return
          hits.push({
            order: order[messageId] ?? 0,
            hit: {
              sessionId: id,
              messageId,
              role: message.role,
              snippet,
              before: toNeighbour(messages[messageId - 1]),
              after: toNeighbour(messages[messageId + 1])
            }
          })
        })
      }
      const direction = options.sort === "oldest" ? 1 : -1
      return hits
        .sort((a, b) => direction * (a.order - b.order || a.hit.messageId - b.hit.messageId))
        .slice(0, Math.max(0, options.limit ?? SessionSearch.defaultLimit))
        .map(({ hit }) => hit)
    })
})
