/**
 * The port through which processes with the same store reach the process that works on a session: messages to it, and
 * notices that it posts for the others.
 *
 * **Details**
 *
 * A message is a row. It is taken by one process, once, in the order in which the messages of the session were sent,
 * or withdrawn by its sender, never both. Its reply is stored with it until the sender has read it. A text for the
 * model (`steer`) stays in the inbox until its effect is stored, held by the process that took it. If that process ends
 * before, the text is taken again, or withdrawn. A notice is the newest text of its kind for a session. Stores in memory
 * do not have this service, because they belong to one process.
 *
 * `RemoteSession` has the operations that clients use.
 *
 * **Example** (A message that is taken once)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { SessionStore } from "hermes-effect"
 * import { SessionInbox } from "hermes-effect/sessions"
 * import { SessionSamples } from "hermes-effect/testing"
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* SessionStore.SessionStore
 *   yield* store.create(SessionSamples.makeNewSession("s"))
 *   const inbox = yield* SessionInbox.SessionInbox
 *   yield* inbox.send({ sessionId: "s", kind: "cancel", body: "{}" })
 *   const taken = yield* inbox.take("s")
 *   return [taken.map(({ kind }) => kind), yield* inbox.take("s")]
 * })
 *
 * console.log(await Effect.runPromise(Effect.provide(program, SessionStore.layerSqlite({ path: "state.db" }))))
 * // => [ [ 'cancel' ], [] ]
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 (room `cluster`).
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Stream from "effect/Stream"
import type { SessionStoreError } from "../base/domain/AgentError.ts"

/** Kinds of messages: text for the model, the end of the turn, the answer to a question, the wake-up of a run. */
export type Kind = "answer" | "cancel" | "resume" | "steer"

/** A message to the process that works on a session. `body` is JSON; see `RemoteForms`. */
export interface NewMessage {
  readonly sessionId: string
  readonly kind: Kind
  readonly body: string
}

/** A message in the inbox. */
export interface SentMessage {
  readonly number: number
  /** Id of the message that no other message has, also in another store. */
  readonly id: string
}

/** A message that was taken. */
export interface InboxMessage extends NewMessage, SentMessage {
  /** True for a text that an earlier process took. The model may have it. */
  readonly isRepeated: boolean
}

/** State of a message: not taken, taken, or replied to with JSON. `removed` if there is no such message. */
export type Delivery =
  | { readonly _tag: "pending" | "removed" | "taken" }
  | { readonly _tag: "replied"; readonly reply: string }

/** Kinds of notices about a session: its open questions, and the durable run that continues it. */
export type Notice = "claim" | "questions"

/** Maximum number of messages of a session that wait. */
export const mostMessages = 100

/** Functions that carry messages and notices. For an unknown session they have no effect. */
export interface Service {
  /** Sends a message. Returns `undefined` if too many messages of the session wait. */
  readonly send: (message: NewMessage) => Effect.Effect<SentMessage | undefined, SessionStoreError>
  /**
   * Removes a message that was not taken, or a text whose process ended before its effect was stored. Returns false for
   * any other message.
   */
  readonly withdraw: (sessionId: string, number: number) => Effect.Effect<boolean, SessionStoreError>
  /** Returns the state of a message. */
  readonly read: (sessionId: string, number: number) => Effect.Effect<Delivery, SessionStoreError>
  /** Removes a message whose reply was read. A text remains until it is settled. */
  readonly remove: (sessionId: string, number: number) => Effect.Effect<void, SessionStoreError>
  /** Returns the ids of the sessions with messages that were not taken, or with texts that are not settled. */
  readonly waiting: Effect.Effect<ReadonlyArray<string>, SessionStoreError>
  /**
   * Takes the messages of a session, the oldest first. This process then holds the texts among them, until it settles
   * or releases them.
   */
  readonly take: (sessionId: string) => Effect.Effect<ReadonlyArray<InboxMessage>, SessionStoreError>
  /** Ends texts that this process holds, because their effect is stored, or because they were returned. */
  readonly settle: (sessionId: string, numbers: ReadonlyArray<number>) => Effect.Effect<void, SessionStoreError>
  /** No longer holds texts, so that they are taken again. */
  readonly release: (numbers: ReadonlyArray<number>) => Effect.Effect<void>
  /** Stores the reply to a message that was taken. */
  readonly reply: (message: InboxMessage, reply: string) => Effect.Effect<void, SessionStoreError>
  /** Posts a notice, which replaces an earlier one of its kind. `undefined` removes it. */
  readonly post: (sessionId: string, kind: Notice, body: string | undefined) => Effect.Effect<void, SessionStoreError>
  /** Returns the notice of a kind. */
  readonly find: (sessionId: string, kind: Notice) => Effect.Effect<string | undefined, SessionStoreError>
  /** Posts that a process watches a session for some time from now. */
  readonly watch: (sessionId: string, millis: number) => Effect.Effect<void, SessionStoreError>
  /** Tests whether a process watches a session. The time is measured by one clock, which the processes share. */
  readonly isWatched: (sessionId: string) => Effect.Effect<boolean, SessionStoreError>
  /** Emits whenever there may be new messages, replies or notices. */
  readonly changes: Stream.Stream<void>
}

/**
 * Messages to the process that works on a session.
 *
 * @see {@link Service} for its members.
 */
export class SessionInbox extends Context.Service<SessionInbox, Service>()("hermes-effect/store/SessionInbox") {}
