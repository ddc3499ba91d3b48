/**
 * The port to the store of conversations. A run appends each message as soon as it exists, so that a session is
 * readable after a crash at any point; it never rewrites stored messages.
 *
 * **Details**
 *
 * `append` returns when the message is durable, even after a `kill -9`. The same holds for `begin`, so that a call
 * without a result is known to have started or not. A store of many runs may collect writes other than `begin` for some
 * milliseconds, in their order; then it has `committed`. Messages are `Prompt.Message`s; a layer that serializes them
 * wraps each in a versioned envelope. Reading returns the messages as written, open calls included;
 * `Conversation.closeOpenCalls` prepares them for sending.
 *
 * Source: `hermes-product.md` §4.1, `ARCHITECTURE.md` §4 and §8.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"
import type * as Prompt from "effect/ai/Prompt"
import type { SessionBusy, SessionNotFound, SessionStoreError } from "../base/domain/AgentError.ts"
import type { Spent } from "../base/domain/Cost.ts"
import type { SessionId } from "../base/domain/Ids.ts"
import type { Together } from "../base/domain/RunRecorder.ts"
import type { Usage } from "../base/domain/Usage.ts"

/** Data of a session besides its messages. Times are epoch milliseconds. */
export interface Session {
  readonly id: SessionId
  /** Origin: `cli`, `oneshot`, `batch`, `subagent`, `library`, … */
  readonly source: string
  readonly provider: string
  readonly model: string
  /** Built once and replayed byte for byte. */
  readonly systemPrompt: string
  readonly parentId: SessionId | undefined
  /** The compacted session that this one continues; also its parent. */
  readonly continues: SessionId | undefined
  /** True if the caller of its first run provided the system prompt, which is then never rebuilt. */
  readonly hasOwnPrompt: boolean
  readonly title: string | undefined
  readonly cwd: string | undefined
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly endReason: string | undefined
  readonly usage: Usage
  /** The sum of the known costs. */
  readonly cost: Spent
  readonly messageCount: number
  readonly toolCallCount: number
}

/** Data of a new session. */
export interface NewSession {
  readonly id: SessionId
  readonly source: string
  readonly provider: string
  readonly model: string
  readonly systemPrompt: string
  readonly parentId?: SessionId | undefined
  /** The session that it continues. A session has at most one continuation. */
  readonly continues?: SessionId | undefined
  /** False when absent. */
  readonly hasOwnPrompt?: boolean | undefined
  readonly title?: string | undefined
  readonly cwd?: string | undefined
}

/**
 * Messages that can be read, oldest first, and a sentence for each that cannot: a newer version wrote it, or it is
 * damaged.
 */
export interface ReadableMessages {
  readonly messages: ReadonlyArray<{ readonly position: number; readonly message: Prompt.Message }>
  readonly faults: ReadonlyArray<string>
}

/** A session that continues a compacted one, with its messages. */
export interface Continuation {
  readonly id: SessionId
  readonly provider: string
  readonly model: string
  readonly systemPrompt: string
  readonly messages: ReadonlyArray<Prompt.Message>
  /** Reason of the end of the run that was compacted. */
  readonly endReason: string
}

/** Tokens, model and cost of one call to a provider, stored per session and model. */
export interface UsageRecord {
  readonly provider: string
  readonly model: string
  readonly usage: Usage
  readonly cost: Spent
}

/** Filter of the sessions of `list`, newest activity first. */
interface ListOptions {
  readonly source?: string | undefined
  /** 20 when absent. */
  readonly limit?: number | undefined
}

/** Sessions that `list` returns when it is not told how many. */
export const defaultLimit = 20

/** Positions of messages in their session, from 0. */
export interface MessageRange {
  readonly from: number
  /** First position after the range. */
  readonly to: number
}

/** The folder that `latest` is about. */
export interface SessionFolder {
  /** Its name in an error. */
  readonly path: string
  /** Returns whether the directory of a session belongs to it. */
  readonly holds: (directory: string) => Effect.Effect<boolean>
}

/** A session that one run owns, until its scope closes. */
interface OwnedSession {
  /** Fails when the session was taken over by another process; absent where that cannot happen. */
  readonly lost: Effect.Effect<never, SessionBusy> | undefined
}

/**
 * Stores and reads sessions and their messages. Reading a session that does not exist returns nothing; writing to it
 * fails.
 */
export interface Service {
  /** Fails when the id exists. */
  readonly create: (session: NewSession) => Effect.Effect<Session, SessionStoreError>
  /**
   * Makes the caller the one owner of a session, over everything that uses the same store, until the scope closes. The
   * session need not exist yet. Fails at once when it has an owner.
   */
  readonly acquire: (id: SessionId) => Effect.Effect<OwnedSession, SessionBusy | SessionStoreError, Scope.Scope>
  /** Records that tool calls are about to start: from now on they may have run. */
  readonly begin: (id: SessionId, callIds: ReadonlyArray<string>) => Effect.Effect<void, SessionStoreError>
  /** Calls that began and whose result was not appended since. */
  readonly begun: (id: SessionId) => Effect.Effect<ReadonlySet<string>, SessionStoreError>
  /**
   * Adds messages at the end, in order, all or none; returns the position of the first, from 0. A result closes its
   * call for {@link Service.begun}.
   */
  readonly append: (id: SessionId, messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<number, SessionStoreError>
  /**
   * Adds the usage of one model call to the session's sums. An unknown cost changes no sum. The calls of a child agent
   * are added to its session and to every session above it, so totals over several sessions include only those without
   * a parent and those that continue another one.
   */
  readonly recordUsage: (id: SessionId, record: UsageRecord) => Effect.Effect<void, SessionStoreError>
  /** Marks the end of a run; a later run reopens the session. */
  readonly end: (id: SessionId, reason: string) => Effect.Effect<void, SessionStoreError>
  /**
   * Ends a session with the reason `compression` and makes its continuation: a child with the same source and
   * directory, and the same title with the next number. All or nothing; fails if the session already has a
   * continuation.
   */
  readonly continueIn: (id: SessionId, continuation: Continuation) => Effect.Effect<Session, SessionStoreError>
  /** Returns the last session that continues this one, or the id itself if none does. */
  readonly newest: (id: SessionId) => Effect.Effect<SessionId, SessionStoreError>
  /** Sets the title; fails when another session has it. */
  readonly rename: (id: SessionId, title: string) => Effect.Effect<void, SessionStoreError>
  /** Removes a session and all its data; fails if the id is unknown. Its children remain. */
  readonly remove: (id: SessionId) => Effect.Effect<void, SessionStoreError>
  readonly get: (id: SessionId) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  /** All messages, oldest first; with a range those from position `from` up to `to`, which is not among them. */
  readonly messages: (
    id: SessionId,
    range?: MessageRange
  ) => Effect.Effect<ReadonlyArray<Prompt.Message>, SessionStoreError>
  /** Returns the readable messages, for showing or exporting a session. `messages` fails if one is unreadable. */
  readonly readable: (id: SessionId) => Effect.Effect<ReadableMessages, SessionStoreError>
  readonly list: (options?: ListOptions) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /**
   * Resolves a text that a user typed to a session: exact id, unique id prefix, title, or `latest`, which is the newest
   * session of the folder where one is given, and of all otherwise. `SessionNotFound` lists the candidates when several
   * fit.
   */
  readonly resolve: (
    reference: string,
    folder?: SessionFolder
  ) => Effect.Effect<Session, SessionNotFound | SessionStoreError>
  /** Tokens by provider and model; the sum over them is the session's. */
  readonly usageByModel: (id: SessionId) => Effect.Effect<ReadonlyArray<UsageRecord>, SessionStoreError>
  /**
   * Makes one transaction of several writes; a run record in the same place has the same function. Absent where writing
   * is no transaction.
   */
  readonly together?: Together | undefined
  /** Waits until all that was written is safe; absent where every write is when it returns. */
  readonly committed?: Effect.Effect<void, SessionStoreError> | undefined
}

/**
 * The session store of a runtime.
 *
 * @see {@link Service} for its members.
 */
export class SessionStore extends Context.Service<SessionStore, Service>()("hermes-effect/session/SessionStore") {}
