/**
 * Switches from one stored session to another: a new session, an earlier session, or the continuation of a compacted
 * session. Hooks are notified when a session is left. All operations run on the owner's fiber.
 *
 * Source: `hermes-contract.md` §2.3 (`on_session_finalize`, then `on_session_reset`), `hermes-product.md` §1.7.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Prompt from "effect/ai/Prompt"
import { Agent } from "../../agent/Agent.ts"
import { type SessionNotFound, type SessionStoreError, SessionBusy } from "../../base/domain/AgentError.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import { Hooks } from "../../hooks/Hooks.ts"
import { type Session, type SessionFolder, SessionStore } from "../../store/SessionStore.ts"
import * as Title from "../../store/Title.ts"
import type { SessionIdentity, State } from "./HostEvent.ts"
import type { StateOwner } from "./StateOwner.ts"

/** A new session that replaced another one. */
export interface BegunSession {
  readonly id: SessionId
  readonly from: SessionId
  /** True if the previous session is stored, and can therefore be resumed. */
  readonly isResumable: boolean
}

/** A stored session that has become the current one. */
export interface ResumedSession {
  readonly session: Session
  readonly messages: ReadonlyArray<Prompt.Message>
}

/** Options that all sessions of a live session share. */
interface MoveOptions {
  readonly cwd: string | undefined
  readonly newSession: Effect.Effect<SessionId>
  /** Name of the program, which is passed to hooks. */
  readonly platform: string
}

/** The session of a client: starts, resumes, follows and names it. */
export interface SessionMoves {
  readonly begin: (title: string | undefined) => Effect.Effect<BegunSession, SessionBusy | SessionStoreError>
  /**
   * Finds a conversation and switches to its newest session. The argument is an id, a prefix of an id, a title, or
   * `latest` for the latest conversation in the folder.
   */
  readonly resume: (
    reference: string,
    folder?: SessionFolder
  ) => Effect.Effect<ResumedSession, SessionBusy | SessionNotFound | SessionStoreError>
  /** After a compaction, switches to the session that replaced the compacted session, and notifies the agent. */
  readonly follow: Effect.Effect<void, SessionStoreError>
  /** Sets the title. If the session is not stored yet, the title is set as soon as it is stored. */
  readonly rename: (title: string) => Effect.Effect<string, SessionStoreError>
  /** Stores the pending title if the session is stored by now. */
  readonly entitle: Effect.Effect<void, SessionStoreError>
  /** Stored record of the current session. */
  readonly known: Effect.Effect<Session | undefined, SessionStoreError>
}

/** Makes the identity of a session that begins now. */
export const makeIdentity = (id: SessionId, cwd: string | undefined, title?: string): Effect.Effect<SessionIdentity> =>
  Effect.map(Clock.currentTimeMillis, (since) => ({
    id,
    since,
    title,
    cwd,
    earlier: [],
    prompts: 0,
    lastPrompt: undefined
  }))

/**
 * Returns the ids of all sessions of the conversation. Background work that started before a compaction still reports
 * to the session before it.
 */
export const listSessionIds = ({ session }: Pick<State, "session">): ReadonlyArray<SessionId> => [
  ...session.earlier,
  session.id
]

/** Returns the text of a user's message. Files are shown by their media types. */
export const renderUserText = (message: Prompt.UserMessage): string =>
  message.content.map((part) => (part.type === "text" ? part.text : `[${part.mediaType}]`)).join(" ")

/** Returns the working directory of a session, if it still exists. */
export const findSessionDirectory = Effect.fnUntraced(function* ({
  cwd
}: Pick<Session, "cwd">): Effect.fn.Return<string | undefined> {
  if (cwd === undefined) return undefined
  const files = Option.getOrUndefined(yield* Effect.serviceOption(FileSystem.FileSystem))
  // Returns a directory unchanged if no file system is available to check it.
  if (files === undefined || (yield* Effect.orElseSucceed(files.exists(cwd), () => false))) return cwd
  yield* Effect.logWarning(`Directory ${cwd} of the session does not exist; tools use the current directory.`)
  return undefined
})

/** Makes the function that notifies hooks when one session replaces another. */
const makeResetAnnouncement = Effect.fnUntraced(function* (
  platform: string
): Effect.fn.Return<
  (from: SessionId, to: SessionId, reason: "new_session" | "session_boundary") => Effect.Effect<void>,
  never,
  Agent | Hooks
> {
  const agent = yield* Agent
  const hooks = yield* Hooks
  return Effect.fnUntraced(function* (from, to, reason) {
    const ids = { platform, reason, old_session_id: from, new_session_id: to }
    yield* agent.finalize(from, { reason, next: to })
    yield* hooks.emit("on_session_reset", () => ({ session_id: to, ...ids }))
  })
})

/** Makes the operations that switch between sessions. */
export const make = Effect.fnUntraced(function* (
  owner: StateOwner,
  options: MoveOptions
): Effect.fn.Return<SessionMoves, never, Agent | Hooks | SessionStore> {
  const store = yield* SessionStore
  const announceReset = yield* makeResetAnnouncement(options.platform)

  const known = Effect.suspend(() => Effect.map(store.get(owner.state().session.id), Option.getOrUndefined))

  const idle = Effect.suspend(() => {
    const { turn } = owner.state()
    return turn === undefined ? Effect.void : Effect.fail(new SessionBusy({ sessionId: turn.sessionId }))
  })

  const begin = Effect.fnUntraced(function* (title: string | undefined) {
    yield* idle
    const wanted = title === undefined ? undefined : yield* Title.clean("new session", title)
    const stored = yield* known
    const from = owner.state().session.id
    const session = yield* makeIdentity(yield* options.newSession, options.cwd, wanted)
    owner.change({ session }, { _tag: "SessionChanged", change: "new", from, session })
    yield* announceReset(from, session.id, "new_session")
    return { id: session.id, from, isResumable: stored !== undefined }
  })

  const resume = Effect.fnUntraced(function* (reference: string, folder?: SessionFolder) {
    yield* idle
    const named = yield* store.resolve(reference, folder)
    const newest = yield* Effect.flatMap(store.newest(named.id), store.get)
    const stored = Option.getOrElse(newest, () => named)
    const messages = yield* store.messages(stored.id)
    const prompts = messages.filter((message) => message.role === "user")
    const last = prompts.at(-1)
    const from = owner.state().session.id
    const session: SessionIdentity = {
      ...(yield* makeIdentity(stored.id, (yield* findSessionDirectory(stored)) ?? options.cwd)),
      prompts: prompts.length,
      lastPrompt: last === undefined ? undefined : renderUserText(last)
    }
    owner.change({ session }, { _tag: "SessionChanged", change: "resumed", from, session })
    if (session.id !== from) yield* announceReset(from, session.id, "session_boundary")
    return { session: stored, messages }
  })

  const follow = Effect.gen(function* () {
    const { session } = owner.state()
    const id = yield* store.newest(session.id)
    if (id === session.id) return
    const next = { ...session, id, earlier: [...session.earlier, session.id] }
    owner.change({ session: next }, { _tag: "SessionChanged", change: "compacted", from: session.id, session: next })
  })

  const changeTitle = (title: string | undefined): void => {
    const session = { ...owner.state().session, title }
    owner.change({ session }, { _tag: "SessionChanged", change: "titled", from: session.id, session })
  }

  const rename = Effect.fnUntraced(function* (title: string) {
    const wanted = yield* Title.clean("rename session", title)
    const stored = yield* known
    if (stored !== undefined) yield* store.rename(stored.id, wanted)
    changeTitle(stored === undefined ? wanted : owner.state().session.title)
    return wanted
  })

  const entitle = Effect.gen(function* () {
    const { title } = owner.state().session
    const stored = title === undefined ? undefined : yield* known
    if (title === undefined || stored === undefined) return
    changeTitle(undefined)
    yield* store.rename(stored.id, title)
  })

  return { begin, resume, follow, rename, entitle, known }
})
