/**
 * The events of a session for a reader that returns: from the feed of this process as long as it has them, else from
 * the run record, also if another process works on the session.
 *
 * **Details**
 *
 * Runs of the record are repeated from the place of the reader to the newest one, whose end is awaited. Events that
 * describe only a moment, and changes of the queue and the settings, are not repeated. A turn of another process has no
 * number here.
 */
import * as Effect from "effect/Effect"
import * as Stream from "effect/Stream"
import type { SessionStoreError } from "../../../base/domain/AgentError.ts"
import { SessionId } from "../../../base/domain/Ids.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import { RunRecord } from "../../../store/RunRecord.ts"
import * as RunWatch from "../../../store/RunWatch.ts"
import * as SessionChain from "../../../store/SessionChain.ts"
import type { SessionStore } from "../../../store/SessionStore.ts"
import * as ApiError from "../ApiError.ts"
import type { FeedEvent, NumberedEvent } from "./EventFeed.ts"
import * as EventPlace from "./EventPlace.ts"
import type { ServedSession } from "./ServedSessions.ts"
import { hideFromEvent } from "./SessionOptions.ts"

type Needs = RunRecord | SessionStore

/** A reader that returns to a session. */
interface ReturningReader {
  readonly sessionId: string
  /** Name of the key of the reader; `undefined` for the owner. */
  readonly client: string | undefined
  readonly place: EventPlace.EventPlace
}

/** Numbers of events of the record, which no feed has. */
const recorded = 0

const makeEvent = (event: FeedEvent, place: EventPlace.EventPlace): NumberedEvent => ({
  id: recorded,
  data: JSON.stringify(Redaction.redactValue(event)),
  place
})

/** Lists the runs of a conversation that follow the run of a place, and that run, the oldest first. */
const listRuns = Effect.fnUntraced(function* (
  { place, sessionId }: ReturningReader,
  excluded: ReadonlySet<string>
): Effect.fn.Return<ReadonlyArray<string>, SessionStoreError, Needs> {
  const record = yield* RunRecord
  const parts = yield* SessionChain.listConversation(SessionId.make(sessionId))
  const entries = yield* Effect.forEach(parts, (part) =>
    Stream.runCollect(record.read({ sessionId: part, kinds: ["RunStarted"] }))
  )
  const runs = entries
    .flat()
    .toSorted((one, other) => one.at - other.at)
    .map(({ turnId }) => turnId)
  const from = runs.findIndex((turnId) => turnId === place.position.turnId)
  return from === -1 ? [] : runs.slice(from).filter((turnId) => !excluded.has(turnId))
})

/** Describes the start of a turn whose reader has not seen it. */
const describeStart = ({ sessionId }: ReturningReader, turnId: string) =>
  Effect.map(RunWatch.readPrompt(sessionId, turnId), ({ text }): FeedEvent => ({
    type: "turn_started",
    turn: null,
    session_id: sessionId,
    message_id: null,
    origin: "record",
    prompt: text
  }))

const describeEnd = (
  { message, turn }: EventPlace.EventPlace,
  ending: { readonly exit: string; readonly text?: string; readonly error?: string }
): FeedEvent => ({ type: "turn_ended", turn: turn ?? null, message_id: message ?? null, ...ending })

/** Repeats one run from a place, and follows it until its end. */
const repeatRun = (
  reader: ReturningReader,
  begin: EventPlace.EventPlace
): Stream.Stream<NumberedEvent, SessionStoreError, Needs> =>
  Stream.suspend(() => {
    const { client, sessionId } = reader
    let place = begin
    let finished: Extract<RunEvent, { readonly _tag: "RunFinished" }> | undefined
    const toEvents = (event: RunEvent): ReadonlyArray<NumberedEvent> => {
      place = EventPlace.followRun(place, event) ?? place
      if (event._tag === "RunFinished") finished = event
      return hideFromEvent(client, event).map(({ _tag, ...fields }) =>
        makeEvent({ type: _tag, turn: place.turn ?? null, ...fields }, place)
      )
    }
    const endTurn = (ending: Parameters<typeof describeEnd>[1]): Stream.Stream<NumberedEvent> => {
      place = { ...place, phase: "ended" }
      return Stream.make(makeEvent(describeEnd(place, ending), place))
    }
    // The result is needed for the end of the turn, also if the reader has seen it.
    const after = { ...begin.position, isOver: false }
    const events = Stream.flatMap(RunWatch.watchRun(sessionId, { after }), (event) =>
      event._tag === "RunFinished" && begin.position.isOver
        ? Stream.suspend(() => ((finished = event), Stream.empty))
        : Stream.fromIterable(toEvents(event))
    )
    return events.pipe(
      Stream.concat(Stream.suspend(() => endTurn({ exit: finished?.exit ?? "failed", text: finished?.text ?? "" }))),
      Stream.catchTag("RunLost", (lost) =>
        Stream.suspend(() =>
          endTurn({
            exit: lost.reason === "failed" ? "failed" : "interrupted_by_user",
            error: ApiError.describeRecordedFailure(lost)
          })
        )
      )
    )
  })

/** Repeats the runs that this process does not have, from the place of a reader on. */
const repeatRuns = (
  reader: ReturningReader,
  runs: ReadonlyArray<string>
): Stream.Stream<NumberedEvent, SessionStoreError, Needs> =>
  Stream.flatMap(Stream.fromIterable(runs.entries()), ([index, turnId]) => {
    const { place } = reader
    if (turnId === place.position.turnId) return place.phase === "running" ? repeatRun(reader, place) : Stream.empty
    const isSeen = place.phase === "next" && runs[index - 1] === place.position.turnId
    const begin = { ...EventPlace.makeStart(turnId), ...(isSeen ? { turn: place.turn, message: place.message } : {}) }
    if (isSeen) return repeatRun(reader, begin)
    const previous = runs[index - 1]
    const last = previous === undefined ? place : EventPlace.makeStart(previous)
    const before: EventPlace.EventPlace = { ...last, turn: undefined, message: undefined, phase: "next" }
    return Stream.concat(
      Stream.map(Stream.fromEffect(describeStart(reader, turnId)), (event) => makeEvent(event, before)),
      repeatRun(reader, begin)
    )
  })

/**
 * Returns the events of a session that a reader has not seen. A reader without a place whose events are no longer
 * retained receives `gap`.
 */
export const resumeFeed = (
  { feed, id: sessionId }: ServedSession,
  client: string | undefined,
  event: EventPlace.EventId
): Stream.Stream<NumberedEvent, SessionStoreError, Needs> =>
  Stream.unwrap(
    Effect.gen(function* () {
      const { id, place } = event
      if (place === undefined || feed.has(event)) return feed.after(id)
      const reader: ReturningReader = { sessionId, client, place }
      const runs = yield* listRuns(reader, feed.runs())
      // The record of the run is gone, or it is of another session.
      if (runs.length === 0 && !feed.runs().has(place.position.turnId)) return feed.after(Number.MAX_SAFE_INTEGER)
      const isRepeated = new Set(runs)
      /** Number of the last question that was sent before the repeated runs were over. */
      let asked = 0
      const isLive = ({ data, place }: NumberedEvent): boolean =>
        place === undefined || !isRepeated.has(place.position.turnId) || !isOfTurn(data)
      const live = feed
        .retained(id)
        .pipe(Stream.filter((one) => isLive(one) && !(one.id <= asked && isOfQuestion(one.data))))
      // The last run may be active in another process, which asks.
      const questions = feed.retained(id).pipe(
        Stream.filter(({ data }) => isOfQuestion(data)),
        Stream.tap(({ id }) => Effect.sync(() => void (asked = id)))
      )
      return Stream.concat(
        Stream.merge(repeatRuns(reader, runs), questions, { haltStrategy: "left" }),
        Stream.suspend(() => live)
      )
    })
  )

/** Events about the questions of a turn, which the record does not have. */
const isOfQuestion = (data: string): boolean =>
  /^\{"type":"(?:approval_asked|clarification_asked|plan_presented|question_closed)"/u.test(data)

/** Events of a turn, which are repeated from the record. */
const isOfTurn = (data: string): boolean => /^\{"type":"(?:turn_started|turn_ended|[A-Z][A-Za-z]+)"/u.test(data)
