/**
 * Events of the Agent Trajectory Observability Format 0.1: the content of each line of a stream, and functions that
 * read and write it.
 *
 * **Details**
 *
 * A scope (agent, llm, tool, …) is a start event and an end event with the same `uuid`; a mark is a single moment.
 * `parent_uuid` is the event's parent in the tree; `category_profile.tool_call_id` is the id of the model's tool call.
 * Readers preserve unknown keys and accept any version `0.Y`; {@link decode} reports why it rejects a line.
 *
 * **Gotchas**
 *
 * `data` is any JSON value here. The format requires an object or null, but every producer writes strings for tool
 * results.
 *
 * **Example** (A mark, as a line and back)
 *
 * ```ts
 * import * as Result from "effect/Result"
 * import { Atof } from "hermes-effect/observability"
 *
 * const line = Atof.encode({
 *   kind: "mark",
 *   atof_version: Atof.version,
 *   uuid: "0198f6a0-0000-7000-8000-000000000001",
 *   parent_uuid: null,
 *   timestamp: Atof.formatTimestamp(1_700_000_000_000_000),
 *   name: "checkpoint"
 * })
 *
 * console.log(Atof.parse(Result.getOrThrow(line)).events.map(({ name }) => name))
 * // => [ 'checkpoint' ]
 * ```
 *
 * Source: the NeMo Relay document ("ATOF Mapping"), `relay-atof-atif.md` §1.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Issue } from "./AtifCheck.ts"

/** Format version of the events that this module writes. */
export const version = "0.1"

/**
 * Failure to decode or encode an event that violates the format. `line` counts from 1, and is 0 for an event that is
 * not in a file yet.
 */
export class AtofError extends Schema.TaggedError<AtofError>("hermes-effect/observability/AtofError")("AtofError", {
  line: Schema.Int,
  message: Schema.String
}) {}

const rfc3339 = /^\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(\.\d+)?(Z|[+-]\d\d:?\d\d)$/u

/** Timestamp: microseconds since the epoch, or RFC 3339 with an offset. */
export const Timestamp = Schema.Union([
  Schema.Natural,
  Schema.String.check(
    Schema.makeFilter((text: string) =>
      rfc3339.test(text) && !Number.isNaN(Date.parse(text)) ? undefined : "an RFC 3339 time with Z or an offset"
    )
  )
])

const JsonObject = Schema.Record(Schema.String, Schema.Json)
const Named = Schema.String.check(Schema.isNonEmpty())

const Profile = JsonObject

const envelope = {
  atof_version: Schema.optionalKey(Schema.String.check(Schema.isPattern(/^0\.\d+$/u))),
  uuid: Named,
  parent_uuid: Schema.optionalKey(Schema.NullOr(Named)),
  timestamp: Timestamp,
  name: Schema.String,
  data: Schema.optionalKey(Schema.Json),
  data_schema: Schema.optionalKey(Schema.NullOr(JsonObject)),
  metadata: Schema.optionalKey(Schema.NullOr(JsonObject)),
  category_profile: Schema.optionalKey(Schema.NullOr(Profile))
}

const findMissingSubtype = (event: {
  readonly category?: string | null
  readonly category_profile?: Readonly<Record<string, unknown>> | null
}) =>
  event.category === "custom" &&
  (typeof event.category_profile?.["subtype"] !== "string" || event.category_profile["subtype"] === "")
    ? "category_profile.subtype, which a custom category needs"
    : undefined

/** Start or end of a scope. */
export const ScopeEvent = Schema.Struct({
  kind: Schema.Literal("scope"),
  ...envelope,
  scope_category: Schema.Literals(["start", "end"]),
  category: Named,
  attributes: Schema.optionalKey(Schema.Array(Schema.String))
}).check(Schema.makeFilter(findMissingSubtype))
/** See {@link ScopeEvent}. */
export type ScopeEvent = typeof ScopeEvent.Type

/** A single moment in a stream. */
export const MarkEvent = Schema.Struct({
  kind: Schema.Literal("mark"),
  ...envelope,
  category: Schema.optionalKey(Schema.NullOr(Named)),
  scope_category: Schema.optionalKey(Schema.Undefined),
  attributes: Schema.optionalKey(Schema.Undefined)
}).check(Schema.makeFilter(findMissingSubtype))
/** See {@link MarkEvent}. */
export type MarkEvent = typeof MarkEvent.Type

/** One event of a stream. */
export type Event = ScopeEvent | MarkEvent

const decodeScope = Schema.decodeUnknownResult(ScopeEvent)
const decodeMark = Schema.decodeUnknownResult(MarkEvent)

const toOneLine = (text: string): string => text.replace(/\s+/gu, " ").trim()

/** Decodes an event from an object, or returns the reason why it is invalid. Unknown keys are preserved. */
export const decode = (value: unknown, line = 0): Result.Result<Event, AtofError> => {
  const refuseEvent = (message: string) =>
    Result.fail(new AtofError({ line, message: line === 0 ? message : `line ${line}: ${message}` }))
  if (typeof value !== "object" || value === null || Array.isArray(value))
    return refuseEvent("an event is a JSON object")
  const kind: unknown = "kind" in value ? value.kind : undefined
  if (kind !== "scope" && kind !== "mark") return refuseEvent("kind must be scope or mark")
  const decoded: Result.Result<Event, Schema.SchemaError> = kind === "scope" ? decodeScope(value) : decodeMark(value)
  // Decoding transforms nothing, so the original value is returned with its unknown keys.
  return Result.isSuccess(decoded) ? Result.succeed(value as Event) : refuseEvent(toOneLine(decoded.failure.message))
}

/** JSON text of values that several events share. Events and their values are never changed. */
const texts = new WeakMap<object, string>()

/** JSON of shared values as UTF-8 bytes. */
const encodings = new WeakMap<object, Uint8Array>()

const encoder = new TextEncoder()
const decoder = new TextDecoder("utf-8", { ignoreBOM: true })

/** Caches the JSON of a list's items, separated by commas, as UTF-8 bytes. */
export const rememberItems = <A extends ReadonlyArray<Schema.Json>>(list: A, items: Uint8Array): A => {
  encodings.set(list, items)
  return list
}

/** Returns the JSON text of a value and caches it, because later events may contain the same value. */
export const encodeRepeated = (value: Schema.Json): string => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const known = texts.get(value)
  if (known !== undefined) return known
  const text = JSON.stringify(value)
  texts.set(value, text)
  return text
}

/** An encoded line as a list of parts. Parts that several lines share are UTF-8 bytes. */
export type Parts = ReadonlyArray<string | Uint8Array>

const encodeRepeatedBytes = (value: Schema.Json): string | Uint8Array => {
  if (typeof value !== "object" || value === null) return JSON.stringify(value)
  const known = encodings.get(value)
  if (known !== undefined) return known
  const made = encoder.encode(JSON.stringify(value))
  encodings.set(value, made)
  return made
}

/** Returns the JSON of the items of a list of messages. */
const encodeItems = (messages: ReadonlyArray<Schema.Json>): string | Uint8Array =>
  encodings.get(messages) ?? messages.map(encodeRepeated).join(",")

/** Encoded keys of events and requests, cached because there are only a few different keys. */
const beginnings = new Map<string, string>()

const maxBeginnings = 256

const formatMemberStart = (name: string): string => {
  const known = beginnings.get(name)
  if (known !== undefined) return known
  if (beginnings.size >= maxBeginnings) beginnings.clear()
  const made = `${JSON.stringify(name)}:`
  beginnings.set(name, made)
  return made
}

/**
 * Encodes the event as JSON. Messages of a request and sets of tools are encoded once, even if many requests contain
 * them.
 */
const encodeJson = (event: Event): Parts => {
  const { data } = event
  if (typeof data !== "object" || data === null || !("messages" in data)) return [JSON.stringify(event)]
  const parts: Array<string | Uint8Array> = []
  let text = ""
  const addMembers = <A>(
    fields: Readonly<Record<string, A | undefined>>,
    special: (name: string, value: A) => boolean
  ): void => {
    let separator = "{"
    for (const name of Object.keys(fields)) {
      const value = fields[name]
      if (value === undefined) continue
      text += separator + formatMemberStart(name)
      separator = ","
      if (!special(name, value)) text += JSON.stringify(value)
    }
    text += separator === "{" ? "{}" : "}"
  }
  const addCommonPart = (before: string, common: string | Uint8Array, after: string): true => {
    if (typeof common === "string") text += before + common + after
    else {
      parts.push(text + before, common)
      text = after
    }
    return true
  }
  const addDataMember = (name: string, value: Schema.Json): boolean =>
    name === "messages" && Array.isArray(value)
      ? addCommonPart("[", encodeItems(value), "]")
      : name === "tools" && addCommonPart("", encodeRepeatedBytes(value), "")
  addMembers(event, (name) => {
    if (name !== "data") return false
    addMembers(data, addDataMember)
    return true
  })
  return [...parts, text]
}

/** Returns the event with the attributes in the order of the specification: sorted, and each once. */
const withSortedAttributes = (event: Event): Event => {
  if (event.kind !== "scope" || event.attributes === undefined || event.attributes.length < 2) return event
  return { ...event, attributes: Array.from(new Set(event.attributes)).toSorted() }
}

/**
 * Encodes an event as a line of the stream, without the line feed. Attributes are sorted. Fails for an invalid event.
 */
export const encode = (event: Event): Result.Result<string, AtofError> =>
  Result.map(encodeParts(event), (parts) =>
    parts.map((part) => (typeof part === "string" ? part : decoder.decode(part))).join("")
  )

/**
 * Encodes an event as the parts of a line. A request contains the whole conversation, and sharing parts between lines
 * avoids copying it.
 */
export const encodeParts = (event: Event): Result.Result<Parts, AtofError> => {
  const missing = findMissingSubtype(event)
  if (missing !== undefined)
    return Result.fail(new AtofError({ line: 0, message: `${event.name}: missing ${missing}` }))
  try {
    return Result.succeed(encodeJson(withSortedAttributes(event)))
  } catch (error) {
    const reason = error instanceof Error ? error.message : String(error)
    return Result.fail(new AtofError({ line: 0, message: `${event.name}: not JSON: ${toOneLine(reason)}` }))
  }
}

/** Returns the instant of a timestamp in microseconds. Nanoseconds are truncated. */
export const toMicros = (timestamp: string | number): number => {
  if (typeof timestamp === "number") return timestamp
  const fraction = /\.(\d+)/u.exec(timestamp)?.[1] ?? ""
  return (
    Math.floor(Date.parse(timestamp.replace(/\.\d+/u, "")) / 1000) * 1_000_000 +
    Number(fraction.padEnd(6, "0").slice(0, 6))
  )
}

/**
 * Newest timestamp in whole seconds, and its text form. Events mostly arrive in chronological order, so the text can
 * often be reused.
 */
let newestSecond = { second: 0, text: "1970-01-01T00:00:00" }

/** Formats a time as RFC 3339 in UTC with six fractional digits, as this runtime and Relay write it. */
export const formatTimestamp = (micros: number): string => {
  const second = Math.floor(micros / 1_000_000)
  if (second !== newestSecond.second)
    newestSecond = { second, text: new Date(second * 1000).toISOString().slice(0, 19) }
  return `${newestSecond.text}.${String(micros % 1_000_000).padStart(6, "0")}+00:00`
}

/** Sorts events by instant. Events with the same instant retain their order. */
export const sortByTime = (events: ReadonlyArray<Event>): ReadonlyArray<Event> =>
  events
    .map((event) => ({ event, at: toMicros(event.timestamp) }))
    .toSorted((a, b) => a.at - b.at)
    .map(({ event }) => event)

/** Content of a stream file: its events in chronological order, and its invalid lines. */
export interface Stream {
  readonly events: ReadonlyArray<Event>
  readonly faults: ReadonlyArray<AtofError>
}

/**
 * Parses a whole stream. Blank lines are skipped. A line that is not an event is reported as a fault; the other lines
 * are still parsed.
 */
export const parse = (text: string): Stream => {
  const events: Array<Event> = []
  const faults: Array<AtofError> = []
  for (const [index, line] of text.split("\n").entries()) {
    if (line.trim() === "") continue
    const read = parseLine(line, index + 1)
    if (Result.isSuccess(read)) {
      lines.set(read.success, index + 1)
      events.push(read.success)
    } else faults.push(read.failure)
  }
  return { events: sortByTime(events), faults }
}

const lines = new WeakMap<Event, number>()

/**
 * Returns the number of the line that an event was read from, counted from 1, or `undefined` if the event was not read
 * from a file.
 */
export const findLine = (event: Event): number | undefined => lines.get(event)

const parseLine = (line: string, number: number): Result.Result<Event, AtofError> => {
  try {
    return decode(JSON.parse(line), number)
  } catch {
    return Result.fail(
      new AtofError({ line: number, message: `line ${number}: not JSON; the file was cut or is damaged` })
    )
  }
}

const pairedFields = ["name", "category", "attributes", "parent_uuid"] as const

const checkPair = (start: ScopeEvent, end: ScopeEvent): ReadonlyArray<Issue> => {
  const issues: Array<Issue> = []
  if (toMicros(end.timestamp) <= toMicros(start.timestamp)) {
    issues.push({ severity: "error", path: end.uuid, message: `${end.name}: its end is not later than its start` })
  }
  for (const key of pairedFields) {
    if (JSON.stringify(start[key] ?? null) !== JSON.stringify(end[key] ?? null)) {
      issues.push({ severity: "error", path: end.uuid, message: `${end.name}: ${key} is not the same at both ends` })
    }
  }
  return issues
}

const checkAttributes = (event: Event): ReadonlyArray<Issue> => {
  if (event.kind === "mark") return []
  const list = event.attributes ?? []
  const isSorted = list.every((flag, index) => index === 0 || String(list[index - 1]) < flag)
  return isSorted
    ? []
    : [{ severity: "error", path: event.uuid, message: `${event.name}: attributes are sorted, and each is there once` }]
}

/**
 * Validates a stream: first each line, then the pairs of scope events and the tree that they form. A stream is valid if
 * there are no issues. A scope without an end causes only a warning, because its process may have been killed.
 *
 * Source: `relay-atof-atif.md` §1.5.
 */
export const check = ({ events, faults }: Stream): ReadonlyArray<Issue> => {
  const issues: Array<Issue> = faults.map(({ line, message }) => ({
    severity: "error",
    path: `line ${line}`,
    message: message.replace(/^line \d+: /u, "")
  }))
  const scopes = new Set(events.flatMap((event) => (event.kind === "scope" ? [event.uuid] : [])))
  const open = new Map<string, ScopeEvent>()
  const closed = new Set<string>()
  const missing = new Set<string>()
  for (const event of events) {
    issues.push(...checkAttributes(event))
    const parent = event.parent_uuid
    if (parent && !scopes.has(parent)) missing.add(parent)
    if (event.kind === "mark") continue
    const start = open.get(event.uuid)
    if (event.scope_category === "start") {
      if (start !== undefined || closed.has(event.uuid))
        issues.push({ severity: "error", path: event.uuid, message: `${event.name}: it has two starts` })
      open.set(event.uuid, event)
    } else if (start === undefined) {
      const what = closed.has(event.uuid) ? "it has two ends" : "it has an end and no start before it"
      issues.push({ severity: "error", path: event.uuid, message: `${event.name}: ${what}` })
    } else {
      issues.push(...checkPair(start, event))
      open.delete(event.uuid)
      closed.add(event.uuid)
    }
  }
  for (const parent of missing)
    issues.push({ severity: "warning", path: parent, message: "events are in a scope that is not in the stream" })
  for (const { name, uuid } of open.values())
    issues.push({ severity: "warning", path: uuid, message: `${name}: it has no end` })
  return issues.toSorted((a, b) => Number(a.severity === "warning") - Number(b.severity === "warning"))
}
