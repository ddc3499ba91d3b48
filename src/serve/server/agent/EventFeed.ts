/**
 * Provides the events of a live session to readers over HTTP. Events are numbered and retained for a while, so that a
 * reader can resume after a lost connection.
 *
 * **Details**
 *
 * An event is a JSON object with a `type`. Events of a run have the fields of `RunEvent`; this module defines the
 * fields of other events. A reader passes the id of the last event that it received, or 0 for all retained events.
 * The id has the number of the event and its place in a run. If the events after that number are no longer available,
 * or the number is not from this feed, `ResumedEvents` reads the rest from the run record. Without a place the reader
 * first receives `gap`. It should then read the session's messages.
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Stream from "effect/Stream"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { Registry } from "../../../base/domain/Secrets.ts"
import type { HostEvent, OpenQuestion } from "../../host/HostEvent.ts"
import * as ApiError from "../ApiError.ts"
import * as StreamSecrets from "../StreamSecrets.ts"
import * as EventPlace from "./EventPlace.ts"

/** An event in the form in which it is sent. */
export interface FeedEvent {
  readonly type: string
  readonly [field: string]: unknown
}

/** A numbered event, and the place of its reader behind it; `undefined` before the first run. */
export interface NumberedEvent {
  readonly id: number
  readonly data: string
  readonly place: EventPlace.EventPlace | undefined
}

/** Maximum number of retained events, and maximum number of their characters. */
const mostEvents = 10_000
const mostCharacters = 1024 * 1024
/** Maximum number of characters sent to a slow reader at once. The remaining events follow when it has read them. */
const mostAtOnce = 64 * 1024

const toQuestionEvent = (question: OpenQuestion): FeedEvent => {
  if (question._tag === "Plan")
    return { type: "plan_presented", question_id: question.id, turn: question.turn, ...question.question }
  return question._tag === "Approval"
    ? {
        type: "approval_asked",
        question_id: question.id,
        tool: question.question.tool,
        command: question.question.command,
        description: question.question.description,
        choices: question.question.choices,
        targets: question.question.targets,
        ...(question.question.rules?.exact === undefined ? {} : { rules: question.question.rules.exact }),
        ...(question.question.preview === undefined ? {} : { preview: question.question.preview })
      }
    : { type: "clarification_asked", question_id: question.id, ...question.question }
}

/** Converts an event to the events that a reader receives. */
export const toFeedEvents = (event: HostEvent): ReadonlyArray<FeedEvent> => {
  switch (event._tag) {
    case "TurnStarted":
      return [
        {
          type: "turn_started",
          turn: event.turn.id,
          session_id: event.turn.sessionId,
          message_id: event.turn.message.id,
          origin: event.turn.message.origin,
          prompt: event.turn.message.shown
        }
      ]
    case "RunEvents":
      return event.events.map(({ _tag, ...fields }) => ({ type: _tag, turn: event.turn, ...fields }))
    case "TurnEnded":
      return [
        {
          type: "turn_ended",
          turn: event.turn.id,
          message_id: event.turn.message.id,
          ...(Exit.isSuccess(event.exit)
            ? { exit: event.exit.value.exit, text: event.exit.value.text }
            : {
                exit: Exit.hasInterrupts(event.exit) ? "interrupted_by_user" : "failed",
                error: ApiError.describeTurnFailure(event.exit.cause)
              })
        }
      ]
    case "QuestionAsked":
      return [toQuestionEvent(event.question)]
    case "QuestionClosed":
      return [{ type: "question_closed", question_id: event.id, is_answered: event.answer !== undefined }]
    case "QueueChanged":
      return [
        {
          type: "queue_changed",
          queue: event.queue.map(({ id, shown }) => ({ message_id: id, prompt: shown })),
          steering: event.steering
        }
      ]
    case "MessagesReturned":
      return [
        {
          type: "messages_returned",
          messages: event.messages.map(({ id, shown }) => ({ message_id: id, prompt: shown }))
        }
      ]
    case "Steered":
      return [{ type: "steered", turn: event.turn, texts: event.texts }]
    case "SessionChanged":
      return [{ type: "session_changed", change: event.change, session_id: event.session.id }]
    case "SettingsChanged":
      return [
        {
          type: "settings_changed",
          mode: event.settings.mode,
          model: event.settings.route?.model ?? null,
          effort: event.settings.effort ?? null
        }
      ]
    case "Notice":
      return [{ type: "notice", level: event.level, message: event.message }]
    case "UsageAfter":
      return event.events.map(({ _tag, ...fields }) => ({ type: _tag, ...fields }))
  }
}

/**
 * Returns the number after which a feed created at `now` (milliseconds since 1970) begins. It is greater than all
 * numbers of an earlier feed, because a session never has a thousand events per millisecond.
 */
export const computeStartNumber = (now: number): number => now * 1000

/** The numbered events of one session. */
export interface EventFeed {
  readonly publish: (event: HostEvent) => void
  /** Returns a stream of the events after a number, including future events. The stream ends when the feed ends. */
  readonly after: (id: number) => Stream.Stream<NumberedEvent>
  /** Returns a stream of all retained and future events, with their numbers above `id`. */
  readonly retained: (id: number) => Stream.Stream<NumberedEvent>
  /** Tests whether all events after an event of this feed are retained. */
  readonly has: (event: Pick<NumberedEvent, "id" | "place">) => boolean
  /**
   * Returns the ids of the runs whose events are all retained. A run of another process is not one of them, because its
   * text is whole here, and a reader may have seen a part of it there.
   */
  readonly runs: () => ReadonlySet<string>
  /** Returns the number of the newest event, or the number after which the feed begins. */
  readonly last: () => number
  /** Returns the current number of readers. */
  readonly readers: () => number
  readonly end: Effect.Effect<void>
}

/** Removes secrets from an event. The end of a turn releases its held text. */
const redactEvent = (hidden: StreamSecrets.StreamSecrets, event: HostEvent): ReadonlyArray<HostEvent> => {
  if (event._tag === "RunEvents") return [{ ...event, events: hidden.of(event.events) }]
  const rest = event._tag === "TurnEnded" ? hidden.end() : []
  return event._tag === "TurnEnded" && rest.length > 0
    ? [{ _tag: "RunEvents", turn: event.turn.id, events: rest }, event]
    : [event]
}

/** Begin of the data of the first event of a run. */
const runStart = '{"type":"RunStarted"'

const makeGap = (from: number, to: number): NumberedEvent => ({
  id: to,
  data: JSON.stringify({ type: "gap", missing_from: from, missing_to: to }),
  place: undefined
})

/** The events of a feed that are retained, the oldest first. */
interface RetainedEvents {
  readonly add: (event: FeedEvent, place: EventPlace.EventPlace | undefined) => void
  /** Returns events after a number, at most as many as a reader receives at once. */
  readonly readAfter: (id: number) => ReadonlyArray<NumberedEvent>
  readonly find: (id: number) => NumberedEvent | undefined
  /** Returns the number of the oldest event, or of the next one. */
  readonly first: () => number
  readonly last: () => number
  readonly listRuns: () => ReadonlySet<string>
}

const makeRetention = (begin: number): RetainedEvents => {
  const kept: Array<NumberedEvent> = []
  let characters = 0
  let last = begin

  /** Returns events of `kept` from an index on, at most as many as a reader receives at once. */
  const sliceFrom = (from: number): ReadonlyArray<NumberedEvent> => {
    let end = from
    for (let length = 0; end < kept.length && length < mostAtOnce; end++) length += kept[end]?.data.length ?? 0
    return kept.slice(from, end)
  }

  const findFirst = (): number => kept[0]?.id ?? last + 1

  return {
    add: (event, place) => {
      const one = { id: ++last, data: JSON.stringify(Redaction.redactValue(event)), place }
      kept.push(one)
      characters += one.data.length
      while (kept.length > mostEvents || (characters > mostCharacters && kept.length > 1))
        characters -= kept.shift()?.data.length ?? 0
    },
    readAfter: (given) => {
      const id = given === 0 ? begin : given
      // A number that this feed has not reached comes from another feed. The events that the reader already has are
      // therefore unknown.
      if (id > last) return [makeGap(begin, last)]
      const first = findFirst()
      const found = sliceFrom(Math.max(0, id - first + 1))
      return id + 1 < first ? [makeGap(id + 1, first - 1), ...found] : found
    },
    find: (id) => kept[id - findFirst()],
    first: findFirst,
    last: () => last,
    listRuns: () =>
      new Set(
        kept.flatMap(({ data, place }) =>
          place !== undefined && data.startsWith(runStart) ? [place.position.turnId] : []
        )
      )
  }
}

/** Follows the places of the events of a session. Returns the places behind an event and its parts. */
const makePlaces = () => {
  let place: EventPlace.EventPlace | undefined
  return (event: HostEvent): ReadonlyArray<EventPlace.EventPlace | undefined> => {
    if (event._tag === "RunEvents") return event.events.map((one) => (place = EventPlace.followRun(place, one)))
    place = EventPlace.followTurn(place, event)
    return [place]
  }
}

/** Collects the runs of other processes, which the session follows. */
const makeFollowed = () => {
  const runs = new Set<string>()
  let isRemote = false
  return {
    noteEvent: (event: HostEvent): void => {
      if (event._tag === "TurnStarted") isRemote = event.turn.message.origin === "remote"
      if (event._tag === "RunEvents" && isRemote)
        for (const one of event.events) if (one._tag === "RunStarted") runs.add(one.turnId)
    },
    excludeRuns: (all: ReadonlySet<string>): ReadonlySet<string> =>
      new Set(Array.from(all).filter((id) => !runs.has(id)))
  }
}

/** Makes the feed of a session. Event numbers are greater than `begin`, which comes from {@link computeStartNumber}. */
export const make = (begin: number, secrets: Registry): EventFeed => {
  const hidden = StreamSecrets.make(secrets)
  const kept = makeRetention(begin)
  const movePlace = makePlaces()
  const followed = makeFollowed()
  let readers = 0
  let isEnded = false
  let arrived = Deferred.makeUnsafe<void>()

  const wakeReaders = (): void => {
    const waiting = arrived
    arrived = Deferred.makeUnsafe<void>()
    Deferred.doneUnsafe(waiting, Effect.void)
  }

  const streamAfter: EventFeed["after"] = (id) =>
    Stream.unwrap(
      Effect.as(
        Effect.acquireRelease(
          Effect.sync(() => readers++),
          () => Effect.sync(() => readers--)
        ),
        Stream.unfold(id, (at): Effect.Effect<readonly [ReadonlyArray<NumberedEvent>, number] | undefined> =>
          Effect.suspend(() => {
            const next = (): readonly [ReadonlyArray<NumberedEvent>, number] | undefined => {
              const found = kept.readAfter(at)
              return found.length === 0 ? undefined : [found, found.at(-1)?.id ?? at]
            }
            const ready = next()
            return ready !== undefined || isEnded ? Effect.succeed(ready) : Effect.map(Deferred.await(arrived), next)
          })
        ).pipe(Stream.flattenIterable)
      )
    )

  return {
    publish: (event) => {
      followed.noteEvent(event)
      const before = kept.last()
      for (const one of redactEvent(hidden, event)) {
        const places = movePlace(one)
        toFeedEvents(one).forEach((fields, index) => kept.add(fields, places[index] ?? places.at(-1)))
      }
      if (kept.last() > before) wakeReaders()
    },
    retained: (id) => Stream.suspend(() => streamAfter(Math.max(id, kept.first() - 1))),
    has: ({ id, place }) => {
      const event = kept.find(id)
      if (id !== kept.first() - 1 && event === undefined) return false
      return place === undefined || event === undefined || event.place?.position.turnId === place.position.turnId
    },
    runs: () => followed.excludeRuns(kept.listRuns()),
    last: kept.last,
    readers: () => readers,
    after: streamAfter,
    end: Effect.sync(() => {
      isEnded = true
      wakeReaders()
    })
  }
}
