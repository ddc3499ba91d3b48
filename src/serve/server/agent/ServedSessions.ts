/**
 * Live sessions of a server: opened on request and closed when unused. Their state is in the store, so that the next
 * request reopens them.
 *
 * **Details**
 *
 * A session is in use while it answers a request, has a turn or a waiting message, or has readers of its events. The
 * {@link mostUnused} most recently used of the other sessions stay open, unless a question waits or background work
 * runs, and at most for `idle`. The mode and the model that a client chose are restored with the session.
 *
 * Questions go to readers of the session's events, and are denied without any.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Clock from "effect/Clock"
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Option from "effect/Option"
import * as Queue from "effect/Queue"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import type { Agent } from "../../../agent/Agent.ts"
import type { BackgroundWork } from "../../../agent/BackgroundWork.ts"
import type { PermissionMode } from "../../../base/config/PermissionMode.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import { type Registry, Secrets } from "../../../base/domain/Secrets.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { Hooks } from "../../../hooks/Hooks.ts"
import type { Answer, HostEvent, LiveSettings } from "../../host/HostEvent.ts"
import * as EventReaders from "../../host/EventReaders.ts"
import * as LiveSession from "../../host/LiveSession.ts"
import type { RunRecord } from "../../../store/RunRecord.ts"
import { type Session, SessionStore } from "../../../store/SessionStore.ts"
import type { Selection } from "../../../tools/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as OpenSessions from "../OpenSessions.ts"
import * as SessionAudience from "../../../store/SessionAudience.ts"
import * as ClientTools from "./ClientTools.ts"
import * as EventFeed from "./EventFeed.ts"

/** Values that all sessions share. */
export interface Options {
  /** Name of the key that owns the sessions. Defaults to the server's key. */
  readonly client?: string | undefined
  /** Tools of the agent. */
  readonly tools: Selection
  readonly mode: PermissionMode
  /** Loosest mode that clients may choose; every one when absent. */
  readonly maxMode?: PermissionMode | undefined
  /** Directory of the tools. */
  readonly cwd: string
  readonly maxIterations?: number | undefined
  /** Sessions that are open at once; 512 when absent. */
  readonly maxSessions?: number | undefined
  /** Sessions that stay open unused; 64 when absent. */
  readonly maxUnused?: number | undefined
  /** Time after which an unused session is closed; 10 minutes when absent. It stays stored. */
  readonly idle?: Duration.Duration | undefined
}

/** A session that is open. */
export interface ServedSession {
  readonly id: string
  readonly live: LiveSession.LiveSession
  readonly feed: EventFeed.EventFeed
  readonly calls: ClientTools.ClientCalls
}

/** A session with the state shared by its exchanges. */
export interface ExchangeSession extends ServedSession {
  readonly scope: Scope.Scope
  readonly input: {
    tools: Selection
    system: string | undefined
    toolScope: Scope.Closeable | undefined
    offered: string
  }
  /** An exchange is under way: one at most. */
  isBusy: boolean
  usedAt: number
  /** Says that it may be unused now. */
  readonly freed: Effect.Effect<void>
}

/** Numbers for `/metrics`. */
export interface Counts {
  readonly open: number
  readonly turns: number
  readonly readers: number
  readonly usage: Usage.Usage
}

/** Sessions of a server. */
export interface ServedSessions {
  /** Source of the sessions that are begun here. */
  readonly source: string
  /** Opens a stored session, in the newest part of its conversation, or finds it open. */
  readonly find: (id: string) => Effect.Effect<ExchangeSession, ApiError.ApiError>
  /** Opens a session with a fresh id. */
  readonly begin: (id: Ids.SessionId) => Effect.Effect<ExchangeSession, ApiError.ApiError>
  /** The newest stored session of the conversation of an id. */
  readonly stored: (id: string) => Effect.Effect<Session, ApiError.ApiError>
  /** Returns the open session that waits for its caller's result of one of these calls. */
  readonly waitingFor: (calls: ReadonlyMap<string, string>) => ExchangeSession | undefined
  readonly close: (id: string) => Effect.Effect<boolean>
  readonly counts: () => Counts
  /** Ends the events of each session as soon as it has nothing to do: the server ends. */
  readonly drain: Effect.Effect<void>
  /** Closes all open sessions: their turns are stopped, and waiting requests are notified. */
  readonly closeAll: Effect.Effect<void>
}

/** Services that sessions work with. */
export type Needs = Agent | BackgroundWork | Hooks | RunRecord | SessionStore

/** Answers to the questions of a session without readers of its events. */
const unread: { readonly [Kind in Answer["_tag"]]: Extract<Answer, { readonly _tag: Kind }> } = {
  Approval: {
    _tag: "Approval",
    reply: { choice: "deny", reason: "Approvals are not available over this connection." }
  },
  Clarification: { _tag: "Clarification", answers: [] },
  Plan: { _tag: "Plan", mode: "plan" }
}

/** Sessions that stay open unused, where the options name no number. */
export const mostUnused = 64

/** Maximum number of closed sessions whose non-default settings are remembered. */
const mostSettings = 10_000

/** An error of the store, for the client. */
export const toStoreError = (error: { readonly message: string }): ApiError.ApiError =>
  ApiError.make(500, "store_failed", error.message)

/** Sums over all sessions. */
interface SessionSums {
  turns: number
  usage: Usage.Usage
  /** True once the server ends. */
  isEnding: boolean
}

/** Values that the open sessions share. */
interface SessionPool {
  readonly options: Options
  readonly source: string
  readonly store: SessionStore["Service"]
  readonly secrets: Registry
  readonly sessions: OpenSessions.OpenSessions<ExchangeSession>
  /** Settings of closed sessions that differ from the defaults. */
  readonly chosen: Map<string, LiveSettings>
  /** Wakes the release of unused sessions. */
  readonly freed: Queue.Queue<void>
  readonly sums: SessionSums
}

const isIdle = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
  Effect.map(live.state, ({ queue, turn }) => turn === undefined && queue.length === 0)

const isUnused = (one: ExchangeSession): Effect.Effect<boolean> =>
  Effect.map(isIdle(one), (is) => is && !one.isBusy && one.feed.readers() === 0)

/** True if closing the session loses something that the store does not have. */
const isWaiting = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
  Effect.flatMap(live.state, ({ questions }) =>
    questions.length > 0 ? Effect.succeed(true) : Effect.map(live.background.list, ({ length }) => length > 0)
  )

/** Unused sessions, the least recently used one first. */
const listUnused = Effect.fnUntraced(function* ({ sessions }: SessionPool) {
  const now = yield* Clock.currentTimeMillis
  const found: Array<ExchangeSession> = []
  for (const one of sessions.all()) {
    if (yield* isUnused(one)) found.push(one)
    else one.usedAt = now
  }
  return found.sort((one, other) => one.usedAt - other.usedAt)
})

/** Closes sessions that were unused for too long, or that are too many. */
const releaseUnused = Effect.fnUntraced(function* (pool: SessionPool) {
  const { idle = Duration.minutes(10), maxUnused = mostUnused } = pool.options
  const now = yield* Clock.currentTimeMillis
  const found = yield* listUnused(pool)
  const due = found.filter(({ usedAt }) => now - usedAt >= Duration.toMillis(idle))
  const surplus =
    found.length <= maxUnused
      ? []
      : yield* Effect.filter(found.slice(0, found.length - maxUnused), (one) => Effect.map(isWaiting(one), (is) => !is))
  // It may be in use again by now.
  for (const one of new Set([...due, ...surplus])) if (yield* isUnused(one)) yield* pool.sessions.close(one.id)
})

/** Closes the least recently used session if there are too many. */
const makeRoom = Effect.fnUntraced(function* (pool: SessionPool) {
  const { maxSessions = 512 } = pool.options
  if (pool.sessions.all().length < maxSessions) return
  const [oldest] = yield* listUnused(pool)
  if (oldest === undefined)
    return yield* ApiError.make(
      503,
      "too_many_sessions",
      `${maxSessions} sessions are open and in use. Try again in a moment, or close one.`
    )
  yield* pool.sessions.close(oldest.id)
})

const rememberSettings = ({ chosen, options }: SessionPool, id: string, settings: LiveSettings): void => {
  const { effort, mode, route } = settings
  chosen.delete(id)
  if (mode !== options.mode || route !== undefined) chosen.set(id, { effort, mode, route })
  const oldest = chosen.keys().next()
  if (chosen.size > mostSettings && oldest.done !== true) chosen.delete(oldest.value)
}

/** Opens the live session with the settings that it had before, if it was open. */
const openLive = Effect.fnUntraced(function* (
  pool: SessionPool,
  id: Ids.SessionId,
  input: ExchangeSession["input"]
): Effect.fn.Return<LiveSession.LiveSession, never, Needs | Scope.Scope> {
  const { cwd, maxIterations, maxMode, mode } = pool.options
  const before = pool.chosen.get(id)
  const live = yield* LiveSession.make({
    session: { id, cwd },
    cwd,
    input: {
      source: pool.source,
      platform: "api-server",
      maxIterations,
      // Read for each turn: a request brings its own.
      get tools() {
        return input.tools
      },
      get ephemeralSystemPrompt() {
        return input.system
      }
    },
    mode: before?.mode ?? mode,
    maxMode
  })
  if (before !== undefined) yield* live.setRoute(before.route)
  yield* Effect.addFinalizer(() => Effect.map(live.state, (state) => rememberSettings(pool, state.session.id, state)))
  return live
})

/** Counts an event, adds it to the feed, and answers a question that has no reader. */
const handleEvent = Effect.fnUntraced(function* ({ sums }: SessionPool, session: ExchangeSession, event: HostEvent) {
  const { feed, live } = session
  feed.publish(event)
  if (event._tag === "RunEvents")
    for (const one of event.events) if (one._tag === "UsageReported") sums.usage = Usage.add(sums.usage, one.usage)
  if (event._tag === "TurnStarted") sums.turns++
  if (event._tag === "TurnEnded") {
    if (sums.isEnding && (yield* isIdle(session))) yield* feed.end
    yield* session.freed
  }
  if (event._tag !== "QuestionAsked" || feed.readers() > 0) return
  // The question may have been answered or withdrawn just now.
  yield* Effect.ignore(live.answer(event.question.id, unread[event.question._tag]))
})

const makeSession = Effect.fnUntraced(function* (
  pool: SessionPool,
  id: Ids.SessionId
): Effect.fn.Return<ExchangeSession, never, Needs | Scope.Scope> {
  const { freed, options, secrets } = pool
  const scope = yield* Effect.scope
  // Closed after the live session, whose last events are of the turn that it stops.
  const reading = yield* Scope.fork(scope)
  const input: ExchangeSession["input"] = {
    tools: ClientTools.excludeClients(options.tools),
    system: undefined,
    toolScope: undefined,
    offered: "[]"
  }
  const live = yield* openLive(pool, id, input)
  const now = yield* Clock.currentTimeMillis
  // Above all numbers of an earlier opening, so that a reader of that one learns which events it missed.
  const feed = EventFeed.make(EventFeed.computeStartNumber(now), secrets)
  const session: ExchangeSession = {
    id,
    live,
    feed,
    calls: ClientTools.make(id, secrets),
    scope,
    input,
    isBusy: false,
    usedAt: now,
    freed: Effect.asVoid(Queue.offer(freed, undefined))
  }
  const reader = yield* Scope.provide(live.subscribe({ whenBehind: "wait" }), reading)
  const taking = yield* Effect.forkIn(
    Effect.ensuring(
      EventReaders.forEachEvent(reader, (event) => handleEvent(pool, session, event)),
      feed.end
    ),
    reading
  )
  yield* Scope.addFinalizer(reading, Fiber.await(taking))
  yield* Effect.addFinalizer(() => session.calls.abandon)
  return session
})

const findStored = ({ options, store }: SessionPool, id: string): Effect.Effect<Session, ApiError.ApiError> =>
  Effect.mapError(Effect.flatMap(store.newest(Ids.SessionId.make(id)), store.get), toStoreError).pipe(
    // The session of another key does not exist for this one.
    Effect.map(Option.filter((found) => SessionAudience.isSeenBy(options.client, found.source))),
    Effect.flatMap(
      Option.match({
        onNone: () => Effect.fail(ApiError.make(404, "session_not_found", `There is no session "${id}".`)),
        onSome: Effect.succeed
      })
    )
  )

/**
 * Returns the open session that is in this part of a conversation. A session retains its first id after a compaction.
 */
const findOpenPart = Effect.fnUntraced(function* ({ sessions }: SessionPool, id: Ids.SessionId) {
  const byId = sessions.get(id)
  if (byId !== undefined) return byId
  for (const one of sessions.all()) if ((yield* one.live.state).session.id === id) return one
  return undefined
})

/** Opens no session yet; all of them are closed with the scope. */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<ServedSessions, never, Needs | Scope.Scope> {
  const source = SessionAudience.formatSource("api-server", options.client)
  const services = Context.omit(Scope.Scope)(yield* Effect.context<Needs>())
  const sessions = yield* OpenSessions.make<ExchangeSession>()
  const sums: SessionSums = { turns: 0, usage: Usage.zero, isEnding: false }
  const pool: SessionPool = {
    options,
    source,
    store: yield* SessionStore,
    secrets: yield* Secrets,
    sessions,
    chosen: new Map(),
    freed: yield* Queue.sliding<void>(1),
    sums
  }
  /** Opens one session at a time, so that the bound holds and no session is opened twice. */
  const opening = yield* Semaphore.make(1)
  yield* Effect.forkScoped(
    Effect.forever(
      Effect.andThen(Effect.timeoutOption(Queue.take(pool.freed), Duration.seconds(30)), releaseUnused(pool))
    )
  )

  const openSession = Effect.fnUntraced(function* (
    id: Ids.SessionId
  ): Effect.fn.Return<ExchangeSession, ApiError.ApiError> {
    yield* makeRoom(pool)
    // Not in the context of the request, which would stay as long as the session.
    const opened = sessions.open(id, makeSession(pool, id))
    return yield* Effect.updateContext(opened, (_: Context.Context<never>) => services)
  }, Effect.uninterruptible)

  return {
    source,
    find: Effect.fnUntraced(function* (id) {
      const found =
        sessions.get(id) ??
        (yield* opening.withPermits(1)(
          Effect.flatMap(findStored(pool, id), ({ id: newest }) =>
            Effect.flatMap(findOpenPart(pool, newest), (other) =>
              other === undefined ? openSession(newest) : Effect.succeed(other)
            )
          )
        ))
      found.usedAt = yield* Clock.currentTimeMillis
      return found
    }),
    begin: (id) => opening.withPermits(1)(openSession(id)),
    stored: (id) => findStored(pool, id),
    waitingFor: (results) => sessions.all().find(({ calls }) => calls.waiting().some(({ id }) => results.has(id))),
    close: sessions.close,
    counts: () => ({
      open: sessions.all().length,
      turns: sums.turns,
      usage: sums.usage,
      readers: sessions.all().reduce((sum, { feed }) => sum + feed.readers(), 0)
    }),
    closeAll: Effect.suspend(() =>
      Effect.forEach(sessions.entries(), ([id]) => sessions.close(id), { concurrency: "unbounded", discard: true })
    ),
    drain: Effect.suspend(() => {
      sums.isEnding = true
      return Effect.forEach(
        sessions.all(),
        (one) => Effect.flatMap(isIdle(one), (is) => (is ? one.feed.end : Effect.void)),
        { discard: true }
      )
    })
  }
})
