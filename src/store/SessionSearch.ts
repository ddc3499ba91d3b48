/**
 * The port for full-text search over the messages of all sessions.
 *
 * **Details**
 *
 * A query is text typed by a user or a model; see `SearchQuery` for its syntax. Every query is valid, and an empty
 * query has no hits. Sessions from a {@link hiddenSources | hidden source} are never found.
 *
 * **Example** (Finding what was said)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime } from "hermes-effect"
 * import { SessionSearch } from "hermes-effect/sessions"
 *
 * const program = Effect.gen(function*() {
 *   yield* Agent.run({ prompt: "Reply exactly hello" })
 *   const { search } = yield* SessionSearch.SessionSearch
 *   return (yield* search("hello", { roles: ["assistant"] })).map(({ snippet }) => snippet)
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => [ '>>>hello<<<' ]
 * ```
 *
 * Source: `hermes-product.md` §2.3 (`session_search`) and §4.1.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionStoreError } from "../base/domain/AgentError.ts"
import type { SessionId } from "../base/domain/Ids.ts"

/** Author of a message. */
export type Role = Prompt.Message["role"]

/** The message before or after a hit, truncated to {@link neighbourLength} characters. */
export interface Neighbour {
  readonly role: Role
  readonly text: string
}

/** One message that matches a query. */
export interface Hit {
  readonly sessionId: SessionId
  /** Position of the message in its session: `messages(sessionId)[messageId]`. */
  readonly messageId: number
  readonly role: Role
  /** Excerpt around the match, with each matching part between `>>>` and `<<<`. */
  readonly snippet: string
  readonly before: Neighbour | undefined
  readonly after: Neighbour | undefined
}

/** Filter and order of the hits of `search`. */
export interface SearchOptions {
  readonly sessionId?: SessionId | undefined
  /** Selects the sessions of a tenant. */
  readonly tenant?: string | undefined
  /** Sessions to leave out, such as the searching session itself. */
  readonly except?: ReadonlyArray<SessionId> | undefined
  /** Roles to search. All roles by default. */
  readonly roles?: ReadonlyArray<Role> | undefined
  /**
   * Order of the hits. By default, the best come first. A store without ranking returns the newest first. A store with
   * an index may rank only the newest messages if very many match.
   */
  readonly sort?: "newest" | "oldest" | undefined
  /** Maximum number of hits. The default is 10. */
  readonly limit?: number | undefined
}

/** Default value of `limit` in {@link SearchOptions}. */
export const defaultLimit = 10

/** Maximum length of the text of a {@link Neighbour}, in characters. */
export const neighbourLength = 200

/** Sources of sessions that are not conversations of a user. Lists, searches and `latest` ignore them. */
export const hiddenSources: ReadonlyArray<string> = ["tool", "subagent", "kanban", "workflow"]

/** Searches the messages of every session. */
export interface Service {
  readonly search: (query: string, options?: SearchOptions) => Effect.Effect<ReadonlyArray<Hit>, SessionStoreError>
}

/**
 * The search of a runtime. Every layer of `SessionStore` also provides it.
 *
 * @see {@link Service} for its members.
 */
export class SessionSearch extends Context.Service<SessionSearch, Service>()("hermes-effect/session/SessionSearch") {}
