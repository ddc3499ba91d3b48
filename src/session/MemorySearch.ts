/**
 * Search over messages in memory: every message is read on every search. The newest hits come first.
 */
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionId } from "../domain/Ids.ts"
import * as SearchQuery from "./SearchQuery.ts"
import * as SearchScan from "./SearchScan.ts"
import * as SearchText from "./SearchText.ts"
import * as SessionSearch from "./SessionSearch.ts"

/** Data of a session that search reads. */
export interface Searched {
  readonly id: SessionId
  readonly source: string
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Position of each message, in the order of all sessions; messages of one `append` share it. */
  readonly order: ReadonlyArray<number>
}

const neighbour = (message: Prompt.Message | undefined): SessionSearch.Neighbour | undefined =>
  message === undefined ? undefined : {
    role: message.role,
    text: SearchText.cut(SearchText.fromMessage(message).content, SessionSearch.neighbourLength)
  }

/** A search over the sessions that there are when it is asked. */
export const make = (sessions: () => Iterable<Searched>): SessionSearch.Service => ({
  search: (input, options = {}) =>
    Effect.sync(() => {
      const query = SearchQuery.parse(input)
      const hits: Array<{ readonly order: number; readonly hit: SessionSearch.Hit }> = []
      for (const { id, source, messages, order } of sessions()) {
        if (options.sessionId !== undefined && options.sessionId !== id) continue
        if (options.except?.includes(id) === true || SessionSearch.hiddenSources.includes(source)) continue
        messages.forEach((message, messageId) => {
          if (options.roles?.includes(message.role) === false) return
          const snippet = SearchScan.find(query, SearchText.fromMessage(message))
          if (snippet === undefined) return
          hits.push({
            order: order[messageId] ?? 0,
            hit: {
              sessionId: id,
              messageId,
              role: message.role,
              snippet,
              before: neighbour(messages[messageId - 1]),
              after: neighbour(messages[messageId + 1])
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
