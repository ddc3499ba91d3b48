/**
 * The port to finding what was said before: full-text search over the messages of every session.
 *
 * **Details**
 *
 * A query is what a user or a model types; see `SearchQuery` for how it is read. No query is an error: one that asks
 * for nothing finds nothing. Sessions of a {@link hiddenSources | hidden source} are never found.
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

/** The message before or after a hit, cut to {@link neighbourLength} characters. */
export interface Neighbour {
  readonly role: Role
  readonly text: string
}

/** One message that fits a query. */
export interface Hit {
  readonly sessionId: SessionId
  /** The place of the message in its session: `messages(sessionId)[messageId]`. */
  readonly messageId: number
  readonly role: Role
  /** Excerpt around the match, each fitting piece between `>>>` and `<<<`. */
  readonly snippet: string
  readonly before: Neighbour | undefined
  readonly after: Neighbour | undefined
}

/** Filter and order of the hits of `search`. */
export interface SearchOptions {
  readonly sessionId?: SessionId | undefined
  /** Sessions to leave out, such as the one that asks. */
  readonly except?: ReadonlyArray<SessionId> | undefined
  /** Every role when absent. */
  readonly roles?: ReadonlyArray<Role> | undefined
  /**
   * The best first when absent; a store that does not rank returns the newest first, and one with an index may rank the
   * newest messages alone where very many fit.
   */
  readonly sort?: "newest" | "oldest" | undefined
  /** 10 when absent. */
  readonly limit?: number | undefined
}

/** See {@link SearchOptions}. */
export const defaultLimit = 10

/** Characters of a neighbour that are shown. */
export const neighbourLength = 200

/** Sources of sessions that are not a user's conversation: searches and `latest` ignore them. */
export const hiddenSources: ReadonlyArray<string> = ["tool", "subagent", "kanban"]

/** Searches the messages of every session. */
export interface Service {
  readonly search: (query: string, options?: SearchOptions) => Effect.Effect<ReadonlyArray<Hit>, SessionStoreError>
}

/**
 * The search of a runtime. Every layer of `SessionStore` brings it.
 *
 * @see {@link Service} for its members.
 */
export class SessionSearch extends Context.Service<SessionSearch, Service>()("hermes-effect/session/SessionSearch") {}
