/**
 * Ids of the events of a session, as clients return them in `Last-Event-ID`: the number of an event, and the place of
 * its reader in the turn. The place means the same to each server that has the store.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import type { RunEvent } from "../../../base/domain/RunEvent.ts"
import type { HostEvent, Turn } from "../../host/HostEvent.ts"
import * as RunCursor from "../../../store/RunCursor.ts"
import * as ApiError from "../ApiError.ts"

/** Place of a reader in the newest turn that it has seen. */
export interface EventPlace {
  readonly position: RunCursor.RunPosition
  /** Number of the turn and id of its message, in the process that ran it. */
  readonly turn: number | undefined
  readonly message: string | undefined
  /** State of the turn for the reader. In the last state the reader knows the next turn, whose run has not begun. */
  readonly phase: "running" | "ended" | "next"
}

/** Id of an event. */
export interface EventId {
  readonly id: number
  readonly place: EventPlace | undefined
}

/** Makes the place before the first event of a run. */
export const makeStart = (turnId: string, turn?: Pick<Turn, "id" | "message">): EventPlace => ({
  position: RunCursor.makeStart(turnId),
  turn: turn?.id,
  message: turn?.message.id,
  phase: "running"
})

/** Returns the place behind an event that is not of a run. */
export const followTurn = (place: EventPlace | undefined, event: HostEvent): EventPlace | undefined => {
  switch (event._tag) {
    case "TurnStarted":
      if (event.turn.runId !== undefined) return makeStart(event.turn.runId, event.turn)
      return place === undefined
        ? undefined
        : { ...place, turn: event.turn.id, message: event.turn.message.id, phase: "next" }
    case "TurnEnded":
      return place === undefined ? undefined : { ...place, phase: "ended" }
    default:
      return place
  }
}

/** Returns the place behind an event of a run. */
export const followRun = (place: EventPlace | undefined, event: RunEvent): EventPlace | undefined => {
  if (event._tag === "RunStarted")
    return {
      position: RunCursor.advancePosition(RunCursor.makeStart(event.turnId), event),
      turn: place?.turn,
      message: place?.message,
      phase: "running"
    }
  return place === undefined ? undefined : { ...place, position: RunCursor.advancePosition(place.position, event) }
}

const separator = "|"

/** Returns the id of an event as it is sent. */
export const formatId = ({ id, place }: EventId): string =>
  place === undefined
    ? `${id}`
    : [id, place.turn ?? "", place.message ?? "", place.phase, RunCursor.formatCursor(place.position)].join(separator)

const refusal = ApiError.make(
  400,
  "invalid_request",
  "Last-Event-ID is the id of an event of this session, or 0 for all of them."
)

const toCount = (text: string | undefined): number | undefined =>
  text !== undefined && /^\d{1,16}$/u.test(text) && Number.isSafeInteger(Number(text)) ? Number(text) : undefined

const isPhase = Schema.is(Schema.Literals(["running", "ended", "next"]))

const isMessageId = (text: string): boolean => /^[\w:.-]{0,200}$/u.test(text)

/** Reads the id that a client returns. */
export const parseId = (given: string): Effect.Effect<EventId, ApiError.ApiError> => {
  const [number, turn = "", message = "", phase, cursor, ...more] = given.split(separator)
  const id = toCount(number)
  if (id === undefined) return Effect.fail(refusal)
  if (turn === "" && cursor === undefined && !given.includes(separator)) return Effect.succeed({ id, place: undefined })
  const position = RunCursor.parseCursor(cursor ?? "")
  if (position === undefined || more.length > 0 || !(turn === "" || toCount(turn) !== undefined) || !isPhase(phase))
    return Effect.fail(refusal)
  // It is written to the stream again, where a line break would begin another field.
  if (!isMessageId(message)) return Effect.fail(refusal)
  const place = { position, turn: toCount(turn), message: message === "" ? undefined : message, phase }
  return Effect.succeed({ id, place })
}
