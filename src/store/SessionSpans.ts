/**
 * Spans of the operations of a session store that an application calls, in the tracer of the application:
 * `SessionStore.list`, `SessionSearch.search`, …. The writes of a run have none. Titles, queries and messages are not
 * part of a span.
 */
import type * as Effect from "effect/Effect"
import * as OperationSpans from "../base/domain/OperationSpans.ts"
import type { Service as Search } from "./SessionSearch.ts"
import type { Service as Store } from "./SessionStorePort.ts"

const traceCall = <A, E, R>(effect: Effect.Effect<A, E, R>, name: string, sessionId?: string): Effect.Effect<A, E, R> =>
  OperationSpans.traceOperation(effect, () => ({
    name,
    kind: "internal",
    attributes: { "gen_ai.conversation.id": sessionId }
  }))

/** Adds spans to a session store. */
export const traceStore = (store: Store): Store => ({
  ...store,
  get: (id) => traceCall(store.get(id), "SessionStore.get", id),
  listQuestions: (filter) => traceCall(store.listQuestions(filter), "SessionStore.listQuestions", filter?.sessionId),
  list: (options) => traceCall(store.list(options), "SessionStore.list"),
  messages: (id, range) => traceCall(store.messages(id, range), "SessionStore.messages", id),
  readable: (id) => traceCall(store.readable(id), "SessionStore.readable", id),
  remove: (id) => traceCall(store.remove(id), "SessionStore.remove", id),
  rename: (id, title) => traceCall(store.rename(id, title), "SessionStore.rename", id),
  resolve: (reference, folder) => traceCall(store.resolve(reference, folder), "SessionStore.resolve"),
  usageByModel: (id) => traceCall(store.usageByModel(id), "SessionStore.usageByModel", id)
})

/** Adds a span to a search over sessions. */
export const traceSearch = (search: Search): Search => ({
  ...search,
  search: (query, options) => traceCall(search.search(query, options), "SessionSearch.search", options?.sessionId)
})
