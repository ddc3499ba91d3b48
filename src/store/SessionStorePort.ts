/**
 * The port to the store of conversations. A run appends each message as soon as it exists, so that a session is
 * readable after a crash at any point. Stored messages are never rewritten.
 *
 * **Details**
 *
 * `append` returns when the message is durable, even after a `kill -9`. The same holds for `begin`, so that after a
 * crash it is known for each call without a result if it has started. A store for many runs may collect writes other
 * than `begin` for some milliseconds and write them in order. Such a store has `committed`. Messages are
 * `Prompt.Message`s; a layer that serializes them wraps each in a versioned envelope. Reading returns the messages as
 * written, including calls without a result; `Conversation.closeOpenCalls` prepares them for sending.
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
import type * as Question from "../base/domain/Question.ts"
import type { Usage } from "../base/domain/Usage.ts"

/** Data of a session without its messages. Times are in epoch milliseconds. */
export interface Session {
  readonly id: SessionId
  /** Origin of the session: `cli`, `oneshot`, `batch`, `subagent`, `library`, … */
  readonly source: string
  readonly provider: string
  readonly model: string
  /** System prompt, which is built once and sent unchanged, byte for byte, in every request. */
  readonly systemPrompt: string
  readonly parentId: SessionId | undefined
  /** The compacted session that this one continues. It is also the parent. */
  readonly continues: SessionId | undefined
  /** True if the caller of the first run provided the system prompt. It is then never rebuilt. */
  readonly hasOwnPrompt: boolean
  /** Tenant for which the session was begun; see `TenantScope`. */
  readonly tenant: string | undefined
  /** Title, unique among the sessions of a tenant and among the sessions without a tenant. */
  readonly title: string | undefined
  readonly cwd: string | undefined
  /** Branch that the folder was on at the beginning of the session. */
  readonly branch?: string | undefined
  readonly startedAt: number
  readonly endedAt: number | undefined
  readonly endReason: string | undefined
  readonly usage: Usage
  /** Sum of the known costs. */
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
  /** The session that the new session continues. A session has at most one continuation. */
  readonly continues?: SessionId | undefined
  /** Value of `hasOwnPrompt` in {@link Session}. The default is false. */
  readonly hasOwnPrompt?: boolean | undefined
  /** Tenant of the session. Within the work for a tenant it is that tenant. */
  readonly tenant?: string | undefined
  /** True if the caller of the run did not choose the id. A store in memory may drop such a session after the run. */
  readonly isUnnamed?: boolean | undefined
  readonly title?: string | undefined
  readonly cwd?: string | undefined
  readonly branch?: string | undefined
}

/**
 * Readable messages, oldest first, and a sentence about each unreadable message. A message is unreadable if it is
 * damaged or from a newer version.
 */
export interface ReadableMessages {
  readonly messages: ReadonlyArray<{ readonly position: number; readonly message: Prompt.Message }>
  readonly faults: ReadonlyArray<string>
}

/** A continuation of a compacted session, with its messages. */
export interface Continuation {
  readonly id: SessionId
  readonly provider: string
  readonly model: string
  readonly systemPrompt: string
  readonly messages: ReadonlyArray<Prompt.Message>
  /** End reason of the run that was compacted. */
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
export interface ListOptions {
  readonly source?: string | undefined
  /** Selects the sessions of a tenant. */
  readonly tenant?: string | undefined
  /** Maximum number of sessions. The default is 20. */
  readonly limit?: number | undefined
}

/** Default number of sessions that `list` returns. */
export const defaultLimit = 20

/** Range of message positions in a session, counted from 0. */
export interface MessageRange {
  readonly from: number
  /** First position after the range. */
  readonly to: number
}

/** Folder to which `latest` is limited. */
export interface SessionFolder {
  /** Name of the folder in error messages. */
  readonly path: string
  /** Tests whether the directory of a session belongs to the folder. */
  readonly holds: (directory: string) => Effect.Effect<boolean>
}

/** Questions that a run leaves open when it is suspended. */
export interface Suspension {
  /** New questions. Questions that are stored already stay as they are. */
  readonly questions: ReadonlyArray<Question.StoredQuestion>
  /** Calls that began and that are run again after an answer. They no longer count as possibly executed. */
  readonly callIds: ReadonlyArray<string>
  /** End reason of the session. */
  readonly reason: string
}

/** Filter of the questions of `listQuestions`, oldest first. */
export interface QuestionFilter {
  readonly sessionId?: SessionId | undefined
  readonly audience?: string | undefined
  /** Selects the questions of the sessions of a tenant. */
  readonly tenant?: string | undefined
  readonly kind?: Question.Kind | undefined
  /** States of the questions. The default is `open`. */
  readonly states?: ReadonlyArray<Question.State> | undefined
  /** Maximum number of questions. The default is 100. */
  readonly limit?: number | undefined
}

/** The answer to a question, as JSON that was checked. */
export interface CheckedAnswer {
  readonly questionId: string
  readonly answer: unknown
  readonly by: string | undefined
  readonly answeredAt: number
}

/** Result of a step of a suspended call, which does not run again with the call. */
export interface StepResult {
  readonly callId: string
  readonly name: string
  readonly value: unknown
}

/** A session owned by one run until its scope closes. */
interface OwnedSession {
  /** Effect that fails when another process takes over the session. `undefined` if that cannot happen. */
  readonly lost: Effect.Effect<never, SessionBusy> | undefined
}

/**
 * Functions that store and read sessions and their messages. Reading a session that does not exist returns an empty
 * result; writing to it fails.
 */
export interface Service {
  /** Creates a session. Fails if the id already exists. */
  readonly create: (session: NewSession) => Effect.Effect<Session, SessionStoreError>
  /**
   * Makes the caller the only owner of a session among all users of the store, until the scope closes. The session does
   * not have to exist yet. Fails immediately if the session already has an owner.
   */
  readonly acquire: (id: SessionId) => Effect.Effect<OwnedSession, SessionBusy | SessionStoreError, Scope.Scope>
  /** Records that tool calls are about to start. From then on, they count as possibly executed. */
  readonly begin: (id: SessionId, callIds: ReadonlyArray<string>) => Effect.Effect<void, SessionStoreError>
  /** Returns the calls that have begun but whose result has not been appended. */
  readonly begun: (id: SessionId) => Effect.Effect<ReadonlySet<string>, SessionStoreError>
  /**
   * Appends all messages in order, or none, and returns the position of the first one, counted from 0. Once the result
   * of a call is appended, {@link Service.begun} no longer returns the call.
   */
  readonly append: (id: SessionId, messages: ReadonlyArray<Prompt.Message>) => Effect.Effect<number, SessionStoreError>
  /**
   * Adds the usage of one model call to the session's totals. An unknown cost does not change them. Calls of a child
   * agent are added to its session and to all ancestors of that session. A total over several sessions must therefore
   * include only continuations and sessions without a parent.
   */
  readonly recordUsage: (id: SessionId, record: UsageRecord) => Effect.Effect<void, SessionStoreError>
  /** Marks the end of a run; a later run reopens the session. */
  readonly end: (id: SessionId, reason: string) => Effect.Effect<void, SessionStoreError>
  /**
   * Ends a session with the reason `compression` and creates its continuation: a child session with the same source and
   * directory, and with the same title followed by the next number. Both changes are made in one transaction. Fails if
   * the session already has a continuation.
   */
  readonly continueIn: (id: SessionId, continuation: Continuation) => Effect.Effect<Session, SessionStoreError>
  /** Returns the last session in the chain of continuations of this one. If it is not continued, returns its own id. */
  readonly newest: (id: SessionId) => Effect.Effect<SessionId, SessionStoreError>
  /** Sets the title. Fails if another session of the same tenant has this title. */
  readonly rename: (id: SessionId, title: string) => Effect.Effect<void, SessionStoreError>
  /** Removes a session and all its data; fails if the id is unknown. Its children remain. */
  readonly remove: (id: SessionId) => Effect.Effect<void, SessionStoreError>
  readonly get: (id: SessionId) => Effect.Effect<Option.Option<Session>, SessionStoreError>
  /**
   * Returns all messages, oldest first. With a range, returns the messages from position `from` up to, but excluding,
   * position `to`.
   */
  readonly messages: (
    id: SessionId,
    range?: MessageRange
  ) => Effect.Effect<ReadonlyArray<Prompt.Message>, SessionStoreError>
  /**
   * Returns the readable messages, for display or export. `messages`, in contrast, fails if a message is unreadable.
   */
  readonly readable: (id: SessionId) => Effect.Effect<ReadableMessages, SessionStoreError>
  readonly list: (options?: ListOptions) => Effect.Effect<ReadonlyArray<Session>, SessionStoreError>
  /**
   * Resolves a reference typed by the user to a session: exact id, unique id prefix, title, or `latest`. `latest` is
   * the most recently active session of the folder, or of all sessions if no folder is given. If several sessions
   * match, `SessionNotFound` lists them.
   */
  readonly resolve: (
    reference: string,
    folder?: SessionFolder
  ) => Effect.Effect<Session, SessionNotFound | SessionStoreError>
  /** Returns the tokens by provider and model. Their sum is the usage of the session. */
  readonly usageByModel: (id: SessionId) => Effect.Effect<ReadonlyArray<UsageRecord>, SessionStoreError>
  /**
   * Stores the questions of a suspended run and marks the end of the run, in one transaction. The calls that wait stay
   * open.
   */
  readonly suspend: (id: SessionId, suspension: Suspension) => Effect.Effect<void, SessionStoreError>
  /** Lists questions of all sessions, or of those that the filter selects. */
  readonly listQuestions: (
    filter?: QuestionFilter
  ) => Effect.Effect<ReadonlyArray<Question.StoredQuestion>, SessionStoreError>
  /**
   * Marks open questions of a session as answered, all or none. Returns false, and stores nothing, if one of them is
   * not open any more.
   */
  readonly answerQuestions: (
    id: SessionId,
    answers: ReadonlyArray<CheckedAnswer>
  ) => Effect.Effect<boolean, SessionStoreError>
  /** Closes the open and answered questions of calls, and removes the results of their steps. */
  readonly closeQuestions: (
    id: SessionId,
    callIds: ReadonlyArray<string>,
    state: "used" | "withdrawn"
  ) => Effect.Effect<void, SessionStoreError>
  /** Stores the result of a step of a call. The first result of a name stands. */
  readonly storeStep: (id: SessionId, step: StepResult) => Effect.Effect<void, SessionStoreError>
  /** Returns the results of the steps of a session's calls. */
  readonly listSteps: (id: SessionId) => Effect.Effect<ReadonlyArray<StepResult>, SessionStoreError>
  /**
   * Combines several writes into one transaction. A run record in the same database has the same function. Absent if
   * writing is not transactional.
   */
  readonly together?: Together | undefined
  /** Waits until all previous writes are durable. Absent if every write is durable when it returns. */
  readonly committed?: Effect.Effect<void, SessionStoreError> | undefined
  /**
   * Removes the conversation of a session: the sessions that it continues or that continue it, and their sub-agents.
   * Returns false if the session is unknown. Absent if `SessionMaintenance` removes conversations.
   */
  readonly removeConversation?: ((id: SessionId) => Effect.Effect<boolean, SessionBusy>) | undefined
  /**
   * Passes the ids of dropped and removed sessions to a listener until the scope closes, so that other data about them
   * can be dropped too. Absent if the store contains all data about its sessions.
   */
  readonly dropped?:
    | ((listener: (ids: ReadonlyArray<SessionId>) => void) => Effect.Effect<void, never, Scope.Scope>)
    | undefined
}

/**
 * The session store of a runtime.
 *
 * @see {@link Service} for its members.
 */
export class SessionStore extends Context.Service<SessionStore, Service>()("hermes-effect/session/SessionStore") {}
