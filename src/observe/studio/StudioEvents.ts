/**
 * Updates of the studio as server-sent events: changed sessions, and the progress of one session in any process.
 *
 * **Details**
 *
 * The version of the store is polled a few times a second without reading the store. New entries are read only after a
 * write, and once for all listeners. An event contains only the differences from the previous event.
 */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Arr from "effect/Array"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as PubSub from "effect/PubSub"
import * as Result from "effect/Result"
import * as Schedule from "effect/Schedule"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as HttpServerResponse from "effect/http/HttpServerResponse"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import * as SessionDetails from "./SessionDetails.ts"
import type { Index } from "./SessionIndex.ts"
import * as SessionQueries from "./SessionQueries.ts"
import type { Problem, SessionDetail, SessionEvent, SessionsEvent, SessionSummary } from "./StudioApi.ts"
import type { Refusal } from "./StudioRequests.ts"

/** Interval at which the version of the store is polled. */
const interval = Duration.millis(250)

/**
 * Interval between two comments of a stream. Running sessions are checked at the same interval, because a killed
 * process does not write its end.
 */
const heartbeat = Duration.seconds(15)

/** The current sessions, or the reason why they cannot be read. */
type Reading = Result.Result<SessionQueries.World, SessionStoreError>

/** Streams of the changes to a store. */
export interface News {
  /** Stream that emits the current sessions, and emits them again after every change. */
  readonly worlds: Stream.Stream<Reading>
  /** Checks the store for changes now. */
  readonly wake: Effect.Effect<void>
}

/** Watches the store of an index for changes until the scope closes. */
export const watch = (index: Index): Effect.Effect<News, never, Scope.Scope> =>
  Effect.gen(function* () {
    const changes = yield* PubSub.sliding<Reading>(1)
    let last: SessionQueries.World | undefined
    let failure = ""
    let checkedAt = 0
    let listeners = 0
    const look = Effect.gen(function* () {
      if (listeners === 0) return
      const now = yield* Clock.currentTimeMillis
      const isDue = now - checkedAt >= Duration.toMillis(heartbeat)
      if (isDue) checkedAt = now
      const reading = yield* Effect.result(isDue ? index.refresh : index.current)
      const isNew = Result.isSuccess(reading)
        ? reading.success !== last || failure !== ""
        : reading.failure.message !== failure
      if (Result.isSuccess(reading)) last = reading.success
      failure = Result.isSuccess(reading) ? "" : reading.failure.message
      if (isNew) yield* PubSub.publish(changes, reading)
    })
    yield* Effect.forkScoped(Effect.repeat(look, Schedule.spaced(interval)))
    return {
      worlds: Stream.unwrap(
        Effect.gen(function* () {
          yield* Effect.acquireRelease(
            Effect.sync(() => void listeners++),
            () => Effect.sync(() => void listeners--)
          )
          const subscription = yield* PubSub.subscribe(changes)
          return Stream.concat(Stream.fromEffect(Effect.result(index.refresh)), Stream.fromSubscription(subscription))
        })
      ),
      wake: look
    }
  })

/** A server-sent event. */
export interface Event {
  readonly event: string
  readonly id: number | undefined
  readonly data: unknown
}

const makeProblemEvent = (message: string): Event => ({
  event: "problem",
  id: undefined,
  data: { error: message } satisfies Problem
})

/** Number of summaries that are serialized before other fibers may run. */
const serializedAtOnce = 256

/** Serializes session summaries, by id, to detect changes. Lets other fibers run in between. */
const serializeSummaries = Effect.fnUntraced(function* (summaries: ReadonlyArray<SessionSummary>) {
  const serialized = new Map<string, string>()
  for (const some of Arr.chunksOf(summaries, serializedAtOnce)) {
    for (const one of some) serialized.set(one.id, JSON.stringify(one))
    yield* Effect.yieldNow
  }
  return serialized
})

const listSummaries = (world: SessionQueries.World): ReadonlyArray<SessionSummary> =>
  SessionQueries.find(world, { children: true, sort: "started", order: "asc" }, new Set())

/**
 * Streams changes to sessions. If `after` is given, the first event has the sessions that changed after that sequence
 * number and all removed sessions.
 */
export const streamSessions = ({ worlds }: News, after: number | undefined): Stream.Stream<Event> => {
  let known: ReadonlyMap<string, string> | undefined
  const findChanges = Effect.fnUntraced(function* (world: SessionQueries.World) {
    const all = listSummaries(world)
    const [before, now] = [known, yield* serializeSummaries(all)]
    known = now
    const isNews = (one: SessionSummary): boolean =>
      before === undefined
        ? after !== undefined && (world.facts.get(one.id)?.sequence ?? 0) > after
        : before.get(one.id) !== now.get(one.id)
    const data: SessionsEvent = {
      sessions: all.filter(isNews),
      // A session may be removed after the page received the list and before the first event. The page therefore
      // receives all removals since the studio started.
      removed:
        before === undefined
          ? after === undefined
            ? []
            : Array.from(world.removed)
          : Array.from(before.keys()).filter((id) => !world.sessions.has(id))
    }
    return before !== undefined && data.sessions.length === 0 && data.removed.length === 0
      ? Option.none<Event>()
      : Option.some<Event>({ event: "sessions", id: world.sequence, data })
  })
  return Stream.mapEffect(worlds, (reading) =>
    Result.isFailure(reading)
      ? Effect.succeed(Option.some(makeProblemEvent(reading.failure.message)))
      : findChanges(reading.success)
  ).pipe(Stream.flatMap((event) => Option.match(event, { onNone: () => Stream.empty, onSome: Stream.succeed })))
}

/**
 * Streams the difference from the state of the page, then each change to the session. Changes to other sessions are
 * skipped.
 */
export const streamSession = (
  { worlds }: News,
  id: string,
  before: SessionDetail | undefined,
  read: (world: SessionQueries.World) => Effect.Effect<SessionDetail, SessionStoreError | Refusal>
): Stream.Stream<Event> => {
  let known = before
  let isFirst = true
  let stamp = ""
  const isNews = (reading: Reading): boolean => {
    const earlier = stamp
    stamp = Result.isSuccess(reading) ? SessionQueries.makeStamp(reading.success, id) : ""
    return stamp === "" || stamp !== earlier
  }
  return Stream.mapEffect(Stream.filter(worlds, isNews), (reading) =>
    Effect.fromResult(reading).pipe(
      Effect.flatMap(read),
      Effect.map((now): Option.Option<Event> => {
        const data: SessionEvent = SessionDetails.computeChange(known, now)
        const isSame =
          known !== undefined &&
          JSON.stringify({ ...SessionDetails.computeChange(known, known), sequence: 0 }) ===
            JSON.stringify({ ...data, sequence: 0 })
        known = now
        if (isSame && !isFirst) return Option.none()
        isFirst = false
        return Option.some({ event: "session", id: now.sequence, data })
      }),
      Effect.catch(({ message }) => Effect.succeed(Option.some(makeProblemEvent(message))))
    )
  ).pipe(Stream.flatMap((event) => Option.match(event, { onNone: () => Stream.empty, onSome: Stream.succeed })))
}

const encodeEvent = ({ data, event, id }: Event): string =>
  `event: ${event}\n${id === undefined ? "" : `id: ${id}\n`}data: ${JSON.stringify(data)}\n\n`

/** Creates a response that sends events until the browser disconnects. */
export const respond = (events: Stream.Stream<Event>): HttpServerResponse.HttpServerResponse =>
  HttpServerResponse.stream(
    Stream.encodeText(
      Stream.merge(
        Stream.map(events, encodeEvent),
        Stream.map(Stream.tick(heartbeat), () => ": alive\n\n")
      )
    ),
    { contentType: "text/event-stream; charset=utf-8", headers: { "x-accel-buffering": "no" } }
  )
