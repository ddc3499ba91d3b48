/**
 * Stored forms of messages and of entries of the run record: lines of JSON without the secrets that the runtime holds.
 * A message is `{ "v": 1, "message": <encoded Prompt.Message> }`: `v` determines whether a reader can decode it. An
 * event of the record is stored unchanged, except that a message in it has its own stored form.
 *
 * **Details**
 *
 * Decoding returns values equal to the encoded ones. The exceptions are values in a tool's arguments and results that
 * JSON cannot represent: a `Date` is decoded as a string, a `Map` as an empty object. Values that JSON rejects (a
 * cycle, a bigint) are a {@link Problem}.
 *
 * Every store masks its input first (`StoredMask`).
 *
 * Source: `ARCHITECTURE.md` §7 (secrets), §8 (run record too).
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TurnId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import { type Entry, RecordEvent, version } from "../base/domain/RecordEvent.ts"

/** Version of the stored form that is written. All versions up to this one can be read. */
const currentVersion = 1

const Version1 = Schema.Struct({ v: Schema.Literal(1), message: Prompt.Message })

const encodeVersion1 = Schema.encodeResult(Schema.fromJsonString(Version1))
const decodeVersion1 = Schema.decodeUnknownResult(Version1)

/** Reason why a message cannot be written or read: a phrase to be used after the name of the message, and the cause. */
export interface Problem {
  readonly message: string
  readonly cause: unknown
}

/** Tests whether a value survives a JSON round trip unchanged. */
const isJson = (value: unknown): boolean => {
  if (typeof value === "object" && value !== null) {
    return Array.isArray(value) ? value.every(isJson) : isPlainObject(value) && Object.values(value).every(isJson)
  }
  return value === null || typeof value === "string" || typeof value === "boolean" || Number.isFinite(value)
}

const isPlainObject = (value: object): boolean => Object.getPrototypeOf(value) === Object.prototype

const areStrings = (...values: ReadonlyArray<unknown>): boolean => values.every((value) => typeof value === "string")

/** Encodes a part that consists only of text and plain data. Returns `undefined` for any other part. */
const toPlainPart = (part: Exclude<Prompt.Message["content"], string>[number]): object | undefined => {
  const { options } = part
  if (!isPlainObject(options) || !isJson(options)) return undefined
  switch (part.type) {
    case "text":
    case "reasoning":
      return areStrings(part.text) ? { options, type: part.type, text: part.text } : undefined
    case "tool-call": {
      const { id, name, params, providerExecuted, type } = part
      return areStrings(id, name) && typeof providerExecuted === "boolean"
        ? { options, type, id, name, params, providerExecuted }
        : undefined
    }
    case "tool-result": {
      const { id, isFailure, modelOutput, name, providerExecuted, result, type } = part
      return areStrings(id, name) &&
        typeof isFailure === "boolean" &&
        typeof providerExecuted === "boolean" &&
        modelOutput === undefined
        ? { options, type, id, name, isFailure, result, providerExecuted }
        : undefined
    }
    default:
      return undefined
  }
}

/**
 * Encodes a message that consists only of text and plain data, as most messages do. Returns `undefined` for any other
 * message.
 */
const toPlainMessage = ({ content, options, role }: Prompt.Message): object | undefined => {
  if (!isPlainObject(options) || !isJson(options)) return undefined
  if (typeof content === "string") return { options, role, content }
  const [only] = content
  if (
    content.length === 1 &&
    only?.type === "text" &&
    areStrings(only.text) &&
    Object.keys(only.options).length === 0
  ) {
    return { options, role, content: only.text }
  }
  const parts: Array<object> = []
  for (const part of content) {
    const plain = toPlainPart(part)
    if (plain === undefined) return undefined
    parts.push(plain)
  }
  return { options, role, content: parts }
}

const encodePlainMessage = (message: Prompt.Message): string | undefined => {
  const plain = toPlainMessage(message)
  try {
    return plain === undefined ? undefined : JSON.stringify({ v: currentVersion, message: plain })
  } catch {
    // The schema reports values that JSON cannot represent.
    return undefined
  }
}

/**
 * Encodes a message to its stored form. Plain messages are encoded without the schema, which would produce the same
 * string. Types are checked when the message is read.
 */
export const encode = (message: Prompt.Message): Result.Result<string, Problem> => {
  const plain = encodePlainMessage(message)
  return plain !== undefined
    ? Result.succeed(plain)
    : Result.mapError(encodeVersion1({ v: currentVersion, message }), (cause) => ({
        message: `cannot be stored (${cause.message.replace(/\s+/gu, " ")}): give tools results of plain JSON data`,
        cause
      }))
}

/** Restores an undefined value, such as the result of a tool that returns nothing, because JSON omits it. */
const addAbsentValue = (part: unknown): unknown => {
  if (!Predicate.isObject(part)) return part
  const { type } = { type: undefined, ...part }
  if (type === "tool-call" && !("params" in part)) return { ...part, params: undefined }
  if (type === "tool-result" && !("result" in part)) return { ...part, result: undefined }
  return part
}

const addAbsentValues = (envelope: unknown): unknown => {
  if (!Predicate.hasProperty(envelope, "message")) return envelope
  const { message } = envelope
  if (!Predicate.hasProperty(message, "content") || !Array.isArray(message.content)) return envelope
  return { ...envelope, message: { ...message, content: message.content.map(addAbsentValue) } }
}

/** Decodes the message in a stored form, which is equal to the encoded message. */
export const decode = (stored: string): Result.Result<Prompt.Message, Problem> => {
  const envelope = Option.getOrUndefined(Json.parse(stored))
  const decoded = decodeVersion1(addAbsentValues(envelope))
  if (Result.isSuccess(decoded)) return Result.succeed(decoded.success.message)
  const version = Predicate.hasProperty(envelope, "v") ? envelope.v : undefined
  return Result.fail({
    message:
      typeof version === "number" && version > currentVersion
        ? `was written in format ${version} by a newer version: update hermes to read it (nothing is lost)`
        : "is damaged: run `hermes sessions repair`, or go on in a new session",
    cause: decoded.failure
  })
}

const decodeEvent = Schema.decodeUnknownResult(RecordEvent)

/** Encodes an event as JSON. The message is left out if the session stores it at its position. */
export const encodeEvent = (event: RecordEvent, isJoined: boolean): Result.Result<string, Problem> => {
  if (event._tag !== "MessageAppended") return Result.succeed(Json.toText(event))
  if (event.message === undefined || (isJoined && event.position !== undefined)) {
    return Result.succeed(Json.toText({ ...event, message: undefined }))
  }
  return Result.map(encode(event.message), (message) => Json.toText({ ...event, message }))
}

/**
 * Outcome of reading a stored entry. `Whole`: completely read. `Partial`: partly read, because a newer version wrote
 * it. `Newer`: not read, because a newer version wrote it. `Damaged`: not read, because it is damaged or truncated.
 */
export type Reading<A> =
  | { readonly _tag: "Whole" | "Partial"; readonly value: A }
  | { readonly _tag: "Newer" | "Damaged" }

const kinds: ReadonlySet<unknown> = new Set(RecordEvent.members.map(({ fields }) => fields._tag.schema.literal))

const damaged: Reading<never> = { _tag: "Damaged" }

/**
 * Reads an event from its JSON and the version in which it was written. If the session stores the event's message,
 * `joined` is the stored form of this message.
 */
export const readEvent = (body: unknown, joined: string | undefined, written: number): Reading<RecordEvent> => {
  if (!Predicate.isObject(body)) return written > version ? { _tag: "Newer" } : damaged
  const { _tag, message: own }: { readonly _tag?: unknown; readonly message?: unknown } = body
  const isNewer = written > version || (typeof _tag === "string" && !kinds.has(_tag))
  const isMessage = _tag === "MessageAppended"
  const decoded = decodeEvent(isMessage ? { ...body, message: undefined } : body)
  if (Result.isFailure(decoded)) return isNewer ? { _tag: "Newer" } : damaged
  const event = decoded.success
  const stored = joined ?? (typeof own === "string" ? own : undefined)
  const message =
    stored === undefined || !isMessage ? undefined : Option.getOrUndefined(Result.getSuccess(decode(stored)))
  return {
    _tag: isNewer ? "Partial" : "Whole",
    value: event._tag === "MessageAppended" ? { ...event, message } : event
  }
}

/** Returns the value of a reading, or `None` if it could not be read. */
export const getValue = <A>(reading: Reading<A>): Option.Option<A> =>
  "value" in reading ? Option.some(reading.value) : Option.none()

/** Encodes an entry as one line of a file. */
export const encodeEntry = ({ at, event, sessionId, turnId }: Entry): Result.Result<string, Problem> =>
  Result.map(
    encodeEvent(event, false),
    (body) =>
      `{"v":${version},"sessionId":${JSON.stringify(sessionId)},"turnId":${JSON.stringify(turnId)},"at":${at},"event":${body}}`
  )

const Place = Schema.Struct({ sessionId: SessionId, turnId: TurnId, at: Schema.Finite })
const decodePlace = Schema.decodeUnknownOption(Place)

/** Reads the entry in a line. */
export const readEntry = (line: string): Reading<Entry> => {
  const read = Option.getOrUndefined(Json.parse(line))
  if (!Predicate.isObject(read)) return damaged
  const { event: body, v: written }: { readonly event?: unknown; readonly v?: unknown } = read
  const place = Option.getOrUndefined(decodePlace(read))
  const isNewer = typeof written === "number" && written > version
  if (place === undefined) return isNewer ? { _tag: "Newer" } : damaged
  const event = readEvent(body, undefined, typeof written === "number" ? written : version)
  return "value" in event ? { _tag: event._tag, value: { ...place, event: event.value } } : event
}

/** Returns the session and turn of a line, if they can be read. */
export const readPlace = (line: string): Option.Option<Omit<Entry, "event">> =>
  Option.flatMap(Json.parse(line), decodePlace)
