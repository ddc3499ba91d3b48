/**
 * Entries of the run record as JSON: an event as it is, but for a message, which stands in its stored form (`Envelope`).
 *
 * Source: `ARCHITECTURE.md` §8 (run record).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { SessionId, TurnId } from "../domain/Ids.ts"
import * as Json from "../domain/Json.ts"
import { type Entry, RecordEvent, version } from "../domain/RecordEvent.ts"
import * as Envelope from "./Envelope.ts"

const decodeEvent = Schema.decodeUnknownResult(RecordEvent)

/** The JSON of an event; without its message where the session has that at its position. */
export const encodeEvent = (event: RecordEvent, isJoined: boolean): Result.Result<string, Envelope.Problem> => {
  if (event._tag !== "MessageAppended") return Result.succeed(Json.toText(event))
  if (event.message === undefined || (isJoined && event.position !== undefined)) {
    return Result.succeed(Json.toText({ ...event, message: undefined }))
  }
  return Result.map(Envelope.encode(event.message), (message) => Json.toText({ ...event, message }))
}

/**
 * The event of its JSON; none where a newer version wrote it, or where it is damaged. `joined` is the stored form of a message
 * that the session has.
 */
export const decodeEventOf = (body: unknown, joined: string | undefined): Option.Option<RecordEvent> => {
  if (!Predicate.isObject(body)) return Option.none()
  const { _tag, message: own }: { readonly _tag?: unknown; readonly message?: unknown } = body
  if (_tag !== "MessageAppended") return Result.getSuccess(decodeEvent(body))
  const stored = joined ?? (typeof own === "string" ? own : undefined)
  const message = stored === undefined ? undefined : Option.getOrUndefined(Result.getSuccess(Envelope.decode(stored)))
  return Option.map(Result.getSuccess(decodeEvent({ ...body, message: undefined })), (event) =>
    event._tag === "MessageAppended" ? { ...event, message } : event)
}

/** One line of a file. */
export const encode = ({ at, event, sessionId, turnId }: Entry): Result.Result<string, Envelope.Problem> =>
  Result.map(encodeEvent(event, false), (body) =>
    `{"v":${version},"sessionId":${JSON.stringify(sessionId)},"turnId":${JSON.stringify(turnId)},"at":${at},"event":${body}}`)

const Place = Schema.Struct({ sessionId: SessionId, turnId: TurnId, at: Schema.Finite })
const decodePlace = Schema.decodeUnknownOption(Place)

/** The entry of a line; none where a newer version wrote it, or where it is damaged or cut. */
export const decode = (line: string): Option.Option<Entry> => {
  const read = Option.getOrUndefined(Json.parse(line))
  if (!Predicate.hasProperty(read, "event")) return Option.none()
  return Option.flatMap(decodePlace(read), (place) => Option.map(decodeEventOf(read.event, undefined), (event) => ({ ...place, event })))
}
