/**
 * Live sessions of a server. They are opened on request and closed when they are unused. Their state is stored, so that
 * the next request can reopen them.
 *
 * **Details**
 *
 * A session is in use while it answers a request, has a turn or a waiting message, or has readers of its events. An
 * unused session is closed after `idle`. If more than {@link mostUnused} sessions are unused, the least recently used
 * ones are closed earlier, except sessions with an open question or background work. The mode and the model that a
 * client chose are restored with the session.
 *
 * Questions are sent to the readers of the session's events. If there are no readers, questions are denied, or suspend
 * the run if its policy says so.
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
import { Agent } from "../../../agent/Agent.ts"
import type { BackgroundWork } from "../../../agent/BackgroundWork.ts"
import type { PermissionMode } from "../../../base/config/PermissionMode.ts"
import * as Ids from "../../../base/domain/Ids.ts"
import { type Registry, Secrets } from "../../../base/domain/Secrets.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { Hooks } from "../../../hooks/Hooks.ts"
import type { HostEvent } from "../../host/HostEvent.ts"
import * as EventReaders from "../../host/EventReaders.ts"
import * as LiveSession from "../../host/LiveSession.ts"
import type { RunRecord } from "../../../store/RunRecord.ts"
import { type Session, SessionStore } from "../../../store/SessionStore.ts"
import type { QuestionPolicy } from "../../../tools/CallQuestions.ts"
import type { Selection } from "../../../tools/ToolRegistry.ts"
import * as ApiError from "../ApiError.ts"
import * as OpenSessions from "../OpenSessions.ts"
import * as SessionAudience from "../../../store/SessionAudience.ts"
import * as ClientTools from "./ClientTools.ts"
import {
  type ChosenSettings,
  hideQuestions,
  readPolicy,
  rememberSettings,
  type SessionInput,
  unread
} from "./SessionOptions.ts"
import * as EventFeed from "./EventFeed.ts"
import type { ServedTurn } from "./RequestedForm.ts"

/** Options that all sessions share. */
export interface Options {
  /** Name of the key to which the sessions belong. If absent, they belong to the server's own key. */
  readonly client?: string | undefined
  /** Tenant for which the runs of the sessions work. */
  readonly tenant?: string | undefined
  /** Tools that the agent offers. */
  readonly tools: Selection
  readonly mode: PermissionMode
  /** Least strict mode that clients may choose. If absent, every mode is allowed. */
  readonly maxMode?: PermissionMode | undefined
  /** Working directory of the tools; `undefined` for the workspace of the tenant, or the agent's directory. */
  readonly cwd: string | undefined
  readonly maxIterations?: number | undefined
  /**
   * Treatment of questions without an answer; a client may choose `unanswered` and `wait` of its sessions. By default,
   * approvals wait for readers of the events. With `unanswered: "suspend"`, the run is suspended, after `wait` (0 by
   * default) if the events have a reader. A named key sees no question of another audience.
   */
  readonly questions?: QuestionPolicy | undefined
  /** Maximum number of open sessions. Defaults to 512. */
  readonly maxSessions?: number | undefined
  /** Maximum number of unused sessions that stay open. Defaults to 64. */
  readonly maxUnused?: number | undefined
  /** Time after which an unused session is closed. It remains stored. Defaults to 10 minutes. */
  readonly idle?: Duration.Duration | undefined
}

/** An open session. */
export interface ServedSession {
  readonly id: string
  /** Options of the next turns. */
  readonly input: SessionInput
  readonly live: LiveSession.LiveSession
  readonly feed: EventFeed.EventFeed
  readonly calls: ClientTools.ClientCalls
}

/** An open session, with the state that all of its exchanges share. */
export interface ExchangeSession extends ServedSession {
  readonly scope: Scope.Scope
  turn: ServedTurn
  /** True while an exchange is in progress. A session has at most one exchange at a time. */
  isBusy: boolean
  usedAt: number
  /** Signals that the session may now be unused, so that it can be closed. */
  readonly freed: Effect.Effect<void>
}

/** Counts that `/metrics` reports. */
export interface Counts {
  readonly open: number
  readonly turns: number
  readonly readers: number
  readonly usage: Usage.Usage
}

/** Operations on the sessions of a server. */
export interface ServedSessions {
  /** Source tag of sessions that begin on this server. */
  readonly source: string
  /** Opens the newest session of the conversation with the given id, or returns the session if it is already open. */
  readonly find: (id: string) => Effect.Effect<ExchangeSession, ApiError.ApiError>
  /** Opens a session with a new id. */
  readonly begin: (id: Ids.SessionId) => Effect.Effect<ExchangeSession, ApiError.ApiError>
  /** Returns the newest stored session of the conversation with the given id. */
  readonly stored: (id: string) => Effect.Effect<Session, ApiError.ApiError>
  /** Returns the open session that waits for a result of one of these calls. */
  readonly waitingFor: (calls: ReadonlyMap<string, unknown>) => ExchangeSession | undefined
  readonly close: (id: string) => Effect.Effect<boolean>
  /** Hides a session, and removes it as soon as it is unused. */
  readonly discard: (session: ExchangeSession) => void
  /** Closes and removes the whole conversation of a session, which stops its turn. */
  readonly remove: (id: string) => Effect.Effect<void, ApiError.ApiError>
  readonly counts: () => Counts
  /** Ends the event stream of each session as soon as the session is idle, because the server is ending. */
  readonly drain: Effect.Effect<void>
  /** Closes all open sessions: their turns are stopped, and waiting requests are notified. */
  readonly closeAll: Effect.Effect<void>
}

/** Services that sessions require. */
export type Needs = Agent | BackgroundWork | Hooks | RunRecord | SessionStore

/** Default number of unused sessions that stay open. */
const mostUnused = 64

/** Totals over all sessions. */
interface SessionSums {
  turns: number
  usage: Usage.Usage
  /** True after the server has begun to end. */
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
  readonly chosen: Map<string, ChosenSettings>
  /** Ids of sessions that are removed from the store as soon as they are unused. */
  readonly discarded: Set<string>
  /** Queue that triggers the closing of unused sessions. */
  readonly freed: Queue.Queue<void>
  readonly sums: SessionSums
}

const isIdle = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
  Effect.map(live.state, ({ queue, turn }) => turn === undefined && queue.length === 0)

const isUnused = (one: ExchangeSession): Effect.Effect<boolean> =>
  Effect.map(isIdle(one), (is) => is && !one.isBusy && one.feed.readers() === 0)

/** Returns true if closing the session would lose something that the store does not contain. */
const isWaiting = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
  Effect.flatMap(live.state, ({ questions }) =>
    questions.length > 0 ? Effect.succeed(true) : Effect.map(live.background.list, ({ length }) => length > 0)
  )

/** Returns the unused sessions, the least recently used first. */
const listUnused = Effect.fnUntraced(function* ({ sessions }: SessionPool) {
  const now = yield* Clock.currentTimeMillis
  const found: Array<ExchangeSession> = []
  for (const one of sessions.all()) {
    if (yield* isUnused(one)) found.push(one)
    else one.usedAt = now
  }
  return found.sort((one, other) => one.usedAt - other.usedAt)
})

/** Closes sessions that were unused for too long, and the oldest unused sessions if there are too many. */
const releaseUnused = Effect.fnUntraced(function* (pool: SessionPool) {
  const { idle = Duration.minutes(10), maxUnused = mostUnused } = pool.options
  const now = yield* Clock.currentTimeMillis
  const found = yield* listUnused(pool)
  const due = found.filter(({ id, usedAt }) => pool.discarded.has(id) || now - usedAt >= Duration.toMillis(idle))
  const surplus =
    found.length <= maxUnused
      ? []
      : yield* Effect.filter(found.slice(0, found.length - maxUnused), (one) => Effect.map(isWaiting(one), (is) => !is))
  // The session may have been used again meanwhile.
  for (const one of new Set([...due, ...surplus])) if (yield* isUnused(one)) yield* pool.sessions.close(one.id)
})

/** Closes the least recently used session if the maximum number of sessions is reached. */
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

/** Opens the live session. If the session was open before, its previous settings are restored. */
const openLive = Effect.fnUntraced(function* (
  pool: SessionPool,
  id: Ids.SessionId,
  input: SessionInput
): Effect.fn.Return<LiveSession.LiveSession, never, Needs | Scope.Scope> {
  const { cwd, maxIterations, maxMode, mode } = pool.options
  const before = pool.chosen.get(id)
  if (before !== undefined) input.questions = before.questions
  const live = yield* LiveSession.make({
    session: { id, cwd },
    cwd,
    input: {
      source: pool.source,
      platform: "api-server",
      maxIterations,
      tenant: pool.options.tenant,
      // A getter, because each request supplies its own tools and the value is read for each turn.
      get tools() {
        return input.tools
      },
      get ephemeralSystemPrompt() {
        return input.system
      },
      get output() {
        return input.output
      },
      get questions() {
        return readPolicy(input)
      }
    },
    mode: before?.mode ?? mode,
    maxMode
  })
  if (before !== undefined) yield* live.setRoute(before.route)
  yield* Effect.addFinalizer(() =>
    Effect.map(live.state, (state) =>
      rememberSettings(pool, state.session.id, { ...state, questions: input.questions })
    )
  )
  return live
})

/** Counts an event, adds it to the feed, and answers a question that has no reader. */
const handleEvent = Effect.fnUntraced(function* (
  { options, sums }: SessionPool,
  session: ExchangeSession,
  event: HostEvent
) {
  const { feed, input, live } = session
  feed.publish(hideQuestions(options.client, event))
  if (event._tag === "RunEvents")
    for (const one of event.events) if (one._tag === "UsageReported") sums.usage = Usage.add(sums.usage, one.usage)
  if (event._tag === "TurnStarted") sums.turns++
  if (event._tag === "TurnEnded") {
    // An exchange reports the failure of its turn.
    if (!session.isBusy) yield* ApiError.logOperatorMessage(event.exit)
    if (sums.isEnding && (yield* isIdle(session))) yield* feed.end
    yield* session.freed
  }
  if (event._tag !== "QuestionAsked" || feed.readers() > 0) return
  if (live.isRemoteQuestion(event.question.id) || (yield* live.isWatched)) return
  if (event.question._tag === "Approval" && input.questions?.unanswered === "suspend")
    return yield* live.leaveUnanswered(event.question.id)
  // The question may already have been answered or withdrawn.
  yield* Effect.ignore(live.answer(event.question.id, unread[event.question._tag]))
})

const makeSession = Effect.fnUntraced(function* (
  pool: SessionPool,
  id: Ids.SessionId
): Effect.fn.Return<ExchangeSession, never, Needs | Scope.Scope> {
  const { discarded, freed, options, secrets } = pool
  const scope = yield* Effect.scope
  const { deleteSession } = yield* Agent
  // Runs when everything else of the session is closed. A session that cannot be removed stays hidden.
  yield* Effect.addFinalizer(() =>
    discarded.has(id)
      ? Effect.ignore(Effect.tap(deleteSession(id), () => Effect.sync(() => discarded.delete(id))))
      : Effect.void
  )
  // This scope is closed after the live session, so that the last events of a stopped turn are still read.
  const reading = yield* Scope.fork(scope)
  const input: SessionInput = {
    tools: ClientTools.excludeClients(options.tools),
    system: undefined,
    output: undefined,
    questions: options.questions,
    toolScope: undefined,
    offered: "[]"
  }
  const live = yield* openLive(pool, id, input)
  const now = yield* Clock.currentTimeMillis
  // The numbers are greater than all numbers of an earlier feed, so that its readers can detect missed events.
  const feed = EventFeed.make(EventFeed.computeStartNumber(now), secrets)
  const session: ExchangeSession = {
    id,
    live,
    feed,
    calls: ClientTools.make(id, secrets),
    scope,
    input,
    turn: { position: 0, begin: 0, continuations: 0, format: undefined },
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

/** Returns the open session whose current stored session has the id. It retains its first id after a compaction. */
const findOpenPart = Effect.fnUntraced(function* ({ sessions }: SessionPool, id: Ids.SessionId) {
  const byId = sessions.get(id)
  if (byId !== undefined) return byId
  for (const one of sessions.all()) if ((yield* one.live.state).session.id === id) return one
  return undefined
})

const findStored = Effect.fnUntraced(function* (
  { discarded, options, store }: SessionPool,
  id: string
): Effect.fn.Return<Session, ApiError.ApiError> {
  const found = Option.getOrUndefined(
    yield* Effect.mapError(Effect.flatMap(store.newest(Ids.SessionId.make(id)), store.get), ApiError.toStoreError)
  )
  const isSeen =
    found !== undefined &&
    SessionAudience.isSeenBy(options.client, found.source) &&
    !discarded.has(id) &&
    !discarded.has(found.id)
  // A session that belongs to another key, or is about to be removed, is treated as missing.
  return isSeen ? found : yield* ApiError.make(404, "session_not_found", `There is no session "${id}".`)
})

const removeStored = Effect.fnUntraced(function* (pool: SessionPool, id: string) {
  const { id: newest } = yield* findStored(pool, id)
  const open = yield* findOpenPart(pool, newest)
  if (open !== undefined) yield* pool.sessions.close(open.id)
  yield* Effect.mapError((yield* Agent).deleteSession(newest), (error) =>
    error._tag === "SessionBusy" ? ApiError.make(409, "session_busy", error.message) : ApiError.toStoreError(error)
  )
})

/**
 * Makes the operations on the sessions of a server. At first no session is open. All open sessions are closed with the
 * scope.
 */
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
    discarded: new Set(),
    freed: yield* Queue.sliding<void>(1),
    sums
  }
  /** Only one session is opened at a time, so that the limit is observed and a session is never opened twice. */
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
    // The session is made outside the context of the request. Otherwise that context would be retained for as long as
    // the session is open.
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
    discard: ({ id }) => void pool.discarded.add(id),
    remove: (id) => Effect.provide(removeStored(pool, id), services),
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
