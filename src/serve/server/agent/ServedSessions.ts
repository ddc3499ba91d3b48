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
import { Secrets } from "../../../base/domain/Secrets.ts"
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
  /** The open session whose caller is to give the result of one of these calls. */
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

/** Opens no session yet; all of them are closed with the scope. */
export const make = Effect.fnUntraced(function* (
  options: Options
): Effect.fn.Return<ServedSessions, never, Needs | Scope.Scope> {
  const {
    client,
    cwd,
    idle = Duration.minutes(10),
    maxIterations,
    maxMode,
    maxSessions = 512,
    maxUnused = mostUnused,
    mode
  } = options
  const source = SessionAudience.formatSource("api-server", client)
  const services = Context.omit(Scope.Scope)(yield* Effect.context<Needs>())
  const store = yield* SessionStore
  const secrets = yield* Secrets
  const sessions = yield* OpenSessions.make<ExchangeSession>()
  const chosen = new Map<string, LiveSettings>()
  /** Opens one session at a time, so that the bound holds and no session is opened twice. */
  const opening = yield* Semaphore.make(1)
  const freed = yield* Queue.sliding<void>(1)
  let isEnding = false
  let turns = 0
  let spent = Usage.zero

  const isIdle = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
    Effect.map(live.state, ({ queue, turn }) => turn === undefined && queue.length === 0)

  const isUnused = (one: ExchangeSession): Effect.Effect<boolean> =>
    Effect.map(isIdle(one), (is) => is && !one.isBusy && one.feed.readers() === 0)

  /** True where closing it takes something away that the store does not have. */
  const isWaiting = ({ live }: ExchangeSession): Effect.Effect<boolean> =>
    Effect.flatMap(live.state, ({ questions }) =>
      questions.length > 0 ? Effect.succeed(true) : Effect.map(live.background.list, ({ length }) => length > 0)
    )

  const unused = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const found: Array<ExchangeSession> = []
    for (const one of sessions.all()) {
      if (yield* isUnused(one)) found.push(one)
      else one.usedAt = now
    }
    return found.sort((one, other) => one.usedAt - other.usedAt)
  })

  const release = Effect.gen(function* () {
    const now = yield* Clock.currentTimeMillis
    const found = yield* unused
    const due = found.filter(({ usedAt }) => now - usedAt >= Duration.toMillis(idle))
    const surplus =
      found.length <= maxUnused
        ? []
        : yield* Effect.filter(found.slice(0, found.length - maxUnused), (one) =>
            Effect.map(isWaiting(one), (is) => !is)
          )
    // It may be in use again by now.
    for (const one of new Set([...due, ...surplus])) if (yield* isUnused(one)) yield* sessions.close(one.id)
  })
  yield* Effect.forkScoped(
    Effect.forever(Effect.andThen(Effect.timeoutOption(Queue.take(freed), Duration.seconds(30)), release))
  )

  /** Closes the least recently used session if there are too many. */
  const makeRoom = Effect.gen(function* () {
    if (sessions.all().length < maxSessions) return
    const [oldest] = yield* unused
    if (oldest === undefined)
      return yield* ApiError.make(
        503,
        "too_many_sessions",
        `${maxSessions} sessions are open and in use. Try again in a moment, or close one.`
      )
    yield* sessions.close(oldest.id)
  })

  const rememberSettings = (id: string, { effort, mode: last, route }: LiveSettings): void => {
    chosen.delete(id)
    if (last !== mode || route !== undefined) chosen.set(id, { effort, mode: last, route })
    const oldest = chosen.keys().next()
    if (chosen.size > mostSettings && oldest.done !== true) chosen.delete(oldest.value)
  }

  const makeSession = Effect.fnUntraced(function* (
    id: Ids.SessionId
  ): Effect.fn.Return<ExchangeSession, never, Needs | Scope.Scope> {
    const scope = yield* Effect.scope
    // Closed behind the live session, whose last events are of the turn that it stops.
    const reading = yield* Scope.fork(scope)
    const before = chosen.get(id)
    const input: ExchangeSession["input"] = {
      tools: ClientTools.excludeClients(options.tools),
      system: undefined,
      toolScope: undefined,
      offered: "[]"
    }
    const live = yield* LiveSession.make({
      session: { id, cwd },
      cwd,
      input: {
        source,
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
    yield* Effect.addFinalizer(() => Effect.map(live.state, (state) => rememberSettings(state.session.id, state)))
    const now = yield* Clock.currentTimeMillis
    // Behind all numbers of an earlier opening, so that a reader of that one learns what it missed.
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
    const handleEvent = Effect.fnUntraced(function* (event: HostEvent) {
      feed.publish(event)
      if (event._tag === "RunEvents")
        for (const one of event.events) if (one._tag === "UsageReported") spent = Usage.add(spent, one.usage)
      if (event._tag === "TurnStarted") turns++
      if (event._tag === "TurnEnded") {
        if (isEnding && (yield* isIdle(session))) yield* feed.end
        yield* session.freed
      }
      if (event._tag !== "QuestionAsked" || feed.readers() > 0) return
      // It was answered, or taken back, just now.
      yield* Effect.ignore(live.answer(event.question.id, unread[event.question._tag]))
    })
    const taking = yield* Effect.forkIn(
      Effect.ensuring(EventReaders.forEachEvent(reader, handleEvent), feed.end),
      reading
    )
    yield* Scope.addFinalizer(reading, Fiber.await(taking))
    yield* Effect.addFinalizer(() => session.calls.abandon)
    return session
  })

  const openSession = Effect.fnUntraced(function* (
    id: Ids.SessionId
  ): Effect.fn.Return<ExchangeSession, ApiError.ApiError> {
    yield* makeRoom
    // Not in the context of the request, which would stay as long as the session.
    return yield* Effect.updateContext(sessions.open(id, makeSession(id)), (_: Context.Context<never>) => services)
  }, Effect.uninterruptible)

  const findStored = (id: string): Effect.Effect<Session, ApiError.ApiError> =>
    Effect.mapError(Effect.flatMap(store.newest(Ids.SessionId.make(id)), store.get), toStoreError).pipe(
      // The session of another key is not there.
      Effect.map(Option.filter((found) => SessionAudience.isSeenBy(client, found.source))),
      Effect.flatMap(
        Option.match({
          onNone: () => Effect.fail(ApiError.make(404, "session_not_found", `There is no session "${id}".`)),
          onSome: Effect.succeed
        })
      )
    )

  /**
   * The open session that is in this part of a conversation: one that was compacted has the id that it was opened by.
   */
  const findOpenPart = Effect.fnUntraced(function* (id: Ids.SessionId) {
    const byId = sessions.get(id)
    if (byId !== undefined) return byId
    for (const one of sessions.all()) if ((yield* one.live.state).session.id === id) return one
    return undefined
  })

  return {
    source,
    find: Effect.fnUntraced(function* (id) {
      const found =
        sessions.get(id) ??
        (yield* opening.withPermits(1)(
          Effect.flatMap(findStored(id), ({ id: newest }) =>
            Effect.flatMap(findOpenPart(newest), (other) =>
              other === undefined ? openSession(newest) : Effect.succeed(other)
            )
          )
        ))
      found.usedAt = yield* Clock.currentTimeMillis
      return found
    }),
    begin: (id) => opening.withPermits(1)(openSession(id)),
    stored: findStored,
    waitingFor: (results) => sessions.all().find(({ calls }) => calls.waiting().some(({ id }) => results.has(id))),
    close: sessions.close,
    counts: () => ({
      open: sessions.all().length,
      turns,
      usage: spent,
      readers: sessions.all().reduce((sum, { feed }) => sum + feed.readers(), 0)
    }),
    closeAll: Effect.suspend(() =>
      Effect.forEach(sessions.entries(), ([id]) => sessions.close(id), { concurrency: "unbounded", discard: true })
    ),
    drain: Effect.suspend(() => {
      isEnding = true
      return Effect.forEach(
        sessions.all(),
        (one) => Effect.flatMap(isIdle(one), (is) => (is ? one.feed.end : Effect.void)),
        { discard: true }
      )
    })
  }
})
