/**
 * The sessions of an agent: their owners, those that are open, and their ends.
 *
 * **Details**
 *
 * A session has one owner at a time over all agents and processes. The agent closes each session that it opened once:
 * when another session replaces it, when it was idle longest of too many, and when the agent ends.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Scope from "effect/Scope"
import { InvalidInput, type SessionBusy, SessionNotFound, type SessionStoreError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as ContextCopy from "../store/ContextCopy.ts"
import * as SessionChain from "../store/SessionChain.ts"
import { SessionMaintenance } from "../store/SessionMaintenance.ts"
import { makeExistingSessionError } from "../store/StoreFailure.ts"
import { CurrentTenant, isForeignSession } from "../store/TenantScope.ts"
import * as Continuation from "./Continuation.ts"
import type * as MemoryTurns from "./MemoryTurns.ts"
import type { Service } from "./Agent.ts"
import type { RunOptions } from "./RunInput.ts"
import type * as RunStart from "./RunStart.ts"
import { type AgentServices, Services } from "./Services.ts"
import type * as SessionOpening from "./SessionOpening.ts"

/** The last run of a session. */
interface LastRun {
  readonly turnId: Ids.TurnId
  readonly tenant: string | undefined
  /** False if the session and its record were removed. */
  readonly isStored: boolean
}

/** Details of the end of a session. */
export interface SessionEnd {
  readonly reason: "shutdown" | "session_boundary" | "new_session" | "session_expired" | "compression"
  /** Session that replaces the ended one. */
  readonly next?: string | undefined
}

/** Maximum number of open sessions of an agent. One more closes the session that was idle longest. */
const maxOpenSessions = 1000

/** Records the end of a session. The end of a session that is not stored any more is only told to listeners. */
const recordEnd = (
  { record }: AgentServices,
  sessionId: Ids.SessionId,
  last: LastRun | undefined,
  reason: string
): Effect.Effect<void> => {
  const write = last?.isStored === false ? record?.announce : record?.append
  return write === undefined || last === undefined
    ? Effect.void
    : Effect.flatMap(Clock.currentTimeMillis, (at) =>
        write([{ sessionId, turnId: last.turnId, at, event: { _tag: "SessionEnded", reason } }])
      )
}

/** Maximum number of ids whose tenants are remembered. */
const maxKnownIds = 10_000

/**
 * Creates a test of the ids that a tenant may use. Tools keep data of a session by its id, also after the session was
 * removed or was not stored, so an id that one tenant or the owner has used stays closed to the other tenants.
 */
const makeIdTest = () => {
  const users = new Map<string, string | undefined>()
  return (id: string, tenant: string | undefined): boolean => {
    if (tenant !== undefined && users.has(id) && users.get(id) !== tenant) return false
    const user = tenant ?? users.get(id)
    users.delete(id)
    users.set(id, user)
    const oldest = users.keys().next()
    if (users.size > maxKnownIds && oldest.done !== true) users.delete(oldest.value)
    return true
  }
}

/** A run that owns its session. */
interface ActiveRun {
  readonly stopped: Deferred.Deferred<void, SessionBusy>
  readonly tenant: string | undefined
}

/** A session whose owner is a run, and the signal that stops the run. */
interface OwnedSession extends Pick<ActiveRun, "stopped"> {
  readonly id: Ids.SessionId
}

type AcquireError = InvalidInput | SessionBusy | SessionStoreError

/** Creates the ownership of sessions whose runs are active. */
const makeOwnership = ({ store }: AgentServices) => {
  const active = new Map<string, ActiveRun>()
  const isFreeId = makeIdTest()
  const stop: Service["stop"] = (sessionId) =>
    Effect.flatMap(CurrentTenant, (tenant) => {
      const run = active.get(sessionId)
      return run === undefined || (tenant !== undefined && run.tenant !== tenant)
        ? Effect.succeed(false)
        : Effect.as(Deferred.succeed(run.stopped, undefined), true)
    })

  /** Makes a run the owner of a session, until the scope closes. */
  const acquireOwnership = (
    run: ActiveRun,
    id: Ids.SessionId
  ): Effect.Effect<OwnedSession, AcquireError, Scope.Scope> =>
    Effect.flatMap(store.acquire(id), ({ lost }): Effect.Effect<OwnedSession, AcquireError, Scope.Scope> => {
      if (!isFreeId(id, run.tenant)) return Effect.fail(makeExistingSessionError(id))
      const { stopped } = run
      const own = Effect.map(
        Effect.addFinalizer(() => Effect.sync(() => active.delete(id))),
        (): OwnedSession => {
          active.set(id, run)
          return { id, stopped }
        }
      )
      const watchLoss = (busy: SessionBusy): Effect.Effect<boolean> => Deferred.fail(stopped, busy)
      return lost === undefined ? own : Effect.tap(own, () => Effect.forkScoped(Effect.catch(lost, watchLoss)))
    })

  /** Makes a run the owner of the newest session of a conversation, which it continues. */
  const acquireNewest = Effect.fnUntraced(function* (run: ActiveRun, asked: Ids.SessionId) {
    let owned = yield* acquireOwnership(run, asked)
    // Only the owner knows the newest session: a run that ends may create a continuation.
    let next = yield* store.newest(owned.id)
    while (next !== owned.id) {
      owned = yield* acquireOwnership(run, next)
      next = yield* store.newest(next)
    }
    return owned
  })

  /** Makes the caller the owner of the session in which a run continues, until the scope closes. */
  const acquireSession = (asked: string | undefined): Effect.Effect<OwnedSession, AcquireError, Scope.Scope> =>
    Effect.contextWith(
      (context: Context.Context<Scope.Scope>): Effect.Effect<OwnedSession, AcquireError, Scope.Scope> => {
        if (asked === "")
          return Effect.fail(new InvalidInput({ message: "the session id is empty: leave it out, or name one" }))
        const stopped = Deferred.makeUnsafe<void, SessionBusy>()
        const run: ActiveRun = { stopped, tenant: Context.get(context, CurrentTenant) }
        return asked === undefined
          ? Effect.flatMap(Ids.makeSessionId, (id) => acquireOwnership(run, id))
          : acquireNewest(run, Ids.SessionId.make(asked))
      }
    )

  /**
   * Fails for a session that the tenant of the fiber does not have. To acquire it would reveal that another tenant has
   * it.
   */
  const requireOwn = (id: string): Effect.Effect<void, SessionNotFound | SessionStoreError> =>
    Effect.flatMap(CurrentTenant, (tenant) =>
      tenant === undefined
        ? Effect.void
        : Effect.flatMap(store.get(Ids.SessionId.make(id)), (found) =>
            Option.isSome(found) ? Effect.void : Effect.fail(new SessionNotFound({ sessionId: id, candidates: [] }))
          )
    )

  return { acquireSession, requireOwn, stop, isActive: (id: string): boolean => active.has(id) }
}

/** Notifies the listeners and the memory of the end of a session, and records it. */
const announceEnd = (
  services: AgentServices,
  memories: MemoryTurns.MemoryNotifier,
  old: Ids.SessionId,
  last: LastRun | undefined,
  { next, reason }: SessionEnd
): Effect.Effect<void> => {
  const { interceptors, settings } = services
  const told = interceptors.hooks.emit("on_session_finalize", () => ({
    session_id: old,
    platform: settings.platform ?? "library",
    reason,
    ...(next === undefined ? {} : { old_session_id: old, new_session_id: Ids.SessionId.make(next) })
  }))
  const remembered = Effect.provideService(memories.ended(old), Services, services)
  const closed = Effect.andThen(Effect.andThen(told, remembered), recordEnd(services, old, last, reason))
  // The end may be caused by the work for another tenant.
  return last === undefined ? closed : Effect.provideService(closed, CurrentTenant, last.tenant)
}

/** Tests whether a session may be closed in the work for the tenant of the fiber. */
const isClosable = ({ store }: AgentServices, sessionId: string, last: LastRun | undefined): Effect.Effect<boolean> =>
  Effect.flatMap(CurrentTenant, (tenant) => {
    if (tenant === undefined || last !== undefined)
      return Effect.succeed(tenant === undefined || last?.tenant === tenant)
    const isForeign = isForeignSession(store, Ids.SessionId.make(sessionId))
    return Effect.catch(
      Effect.map(isForeign, (foreign) => !foreign),
      () => Effect.succeed(false)
    )
  })

/** Creates the sessions of an agent. Those that are still open are closed with the scope. */
export const makeSessions = Effect.fnUntraced(function* (
  services: AgentServices,
  memories: MemoryTurns.MemoryNotifier
) {
  const { hooks } = services.interceptors
  const { acquireSession, isActive, requireOwn, stop } = makeOwnership(services)

  /** Sessions of top-level runs with their last run, the most recent last. */
  const open = new Map<string, LastRun>()
  const noteRemoval = (sessionId: string): void => {
    const last = open.get(sessionId)
    if (last !== undefined) open.set(sessionId, { ...last, isStored: false })
  }
  yield* services.store.dropped?.((ids) => ids.forEach(noteRemoval)) ?? Effect.void

  const closeSession: Service["finalize"] = (sessionId, end) =>
    Effect.suspend(() => {
      const last = open.get(sessionId)
      open.delete(sessionId)
      return announceEnd(services, memories, Ids.SessionId.make(sessionId), last, end)
    })
  const finalize: Service["finalize"] = (sessionId, end) =>
    Effect.flatMap(isClosable(services, sessionId, open.get(sessionId)), (isOwn) =>
      isOwn ? closeSession(sessionId, end) : Effect.void
    )
  const findLongestIdle = (): string | undefined => {
    for (const id of open.keys()) if (!isActive(id)) return id
    return undefined
  }
  const keepOpen = (sessionId: string, turnId: Ids.TurnId): Effect.Effect<void> =>
    Effect.withFiber((fiber) => {
      const tenant = fiber.getRef(CurrentTenant)
      open.delete(sessionId)
      open.set(sessionId, { turnId, tenant, isStored: true })
      const idle = open.size > maxOpenSessions ? findLongestIdle() : undefined
      return idle === undefined ? Effect.void : closeSession(idle, { reason: "session_expired" })
    })

  /** Continues a compacted session in a new one: notifies the listeners and replaces the old session. */
  const continueInNewSession = (
    opened: RunStart.OpenedRun,
    input: SessionOpening.PromptInput & Pick<RunOptions, "systemPrompt">,
    reason: string
  ) =>
    !Continuation.isContinued(opened.run)
      ? Effect.undefined
      : Effect.tap(Continuation.make(opened, input, reason), (next) => {
          const { platform, sessionId: old } = opened.run
          if (next === undefined) return Effect.void
          return Effect.gen(function* () {
            yield* closeSession(old, { reason: "compression", next })
            yield* hooks.emit("on_session_reset", () => ({
              session_id: next,
              platform,
              reason: "compression",
              old_session_id: old,
              new_session_id: next
            }))
            yield* keepOpen(next, ContextCopy.makeCompressionTurnId(next))
          })
        })

  const maintenance = Option.getOrUndefined(yield* Effect.serviceOption(SessionMaintenance))
  const deleteSession: Service["deleteSession"] = (sessionId) =>
    Effect.gen(function* () {
      const newest = yield* services.store.newest(Ids.SessionId.make(sessionId))
      const isRemoved = yield* SessionChain.removeConversation(services.store, newest, maintenance)
      if (!isRemoved || !open.has(newest)) return isRemoved
      noteRemoval(newest)
      yield* closeSession(newest, { reason: "session_boundary" })
      return true
    })

  const finalizeAll = Effect.suspend(() =>
    Effect.forEach(Array.from(open.keys()), (id) => closeSession(id, { reason: "shutdown" }), { discard: true })
  )
  yield* Effect.addFinalizer(() => finalizeAll)

  return { acquireSession, requireOwn, keepOpen, stop, finalize, continueInNewSession, deleteSession }
})
