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
 * Every store masks its input ({@link maskMessages}, {@link maskEntries}). It masks the secrets that the runtime holds,
 * in text, reasoning, arguments, results and provider options. In the output of a model or a tool, it also masks keys
 * of a known shape. User input is sent to the model unmasked in the run in which it is typed. If it contains a key that
 * the runtime does not hold, the key stays in the session, because the model may need it. It is masked when it is shown
 * or exported. Masking a message without secrets returns the same object.
 *
 * Source: `ARCHITECTURE.md` §7 (secrets), §8 (run record too).
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TurnId } from "../base/domain/Ids.ts"
import * as Json from "../base/domain/Json.ts"
import { type Entry, RecordEvent, version } from "../base/domain/RecordEvent.ts"
import { isSensitiveKey, marker, redactKeys, RedactSecrets, redactText } from "../base/domain/Redaction.ts"
import { type Registry, Secrets } from "../base/domain/Secrets.ts"

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

/** Searchable text of a message, without reasoning and the bytes of files. */
export interface SearchText {
  readonly content: string
  /** Names of the tools whose results the message contains. */
  readonly toolNames: string
  /** Name and arguments of each call in the message, without JSON punctuation. */
  readonly toolCalls: string
}

/** Returns the strings in a JSON value with their keys, one per line. */
const toPlainText = (value: unknown): string => {
  if (typeof value === "string") return value
  if (Array.isArray(value)) return value.map(toPlainText).join("\n")
  if (typeof value === "object" && value !== null) {
    return Object.entries(value)
      .map(([name, inner]) => `${name}: ${toPlainText(inner)}`)
      .join("\n")
  }
  return Json.toText(value)
}

const readPartText = (part: Exclude<Prompt.Message["content"], string>[number]): string => {
  switch (part.type) {
    case "text":
      return part.text
    case "file":
      return part.fileName ?? ""
    case "tool-result":
      return part.modelOutput === undefined ? toPlainText(part.result) : part.modelOutput.map(readPartText).join("\n")
    case "reasoning":
    case "tool-call":
    case "tool-approval-request":
    case "tool-approval-response":
      return ""
  }
}

/**
 * Extracts the searchable text of a message.
 *
 * **Gotchas**
 *
 * Arguments and results are traversed as trees, so they must not contain a cycle.
 */
export const extractSearchText = (message: Prompt.Message): SearchText => {
  if (message.role === "system") return { content: message.content, toolNames: "", toolCalls: "" }
  const content: Array<string> = []
  const toolNames: Array<string> = []
  const toolCalls: Array<string> = []
  for (const part of message.content) {
    const text = readPartText(part)
    if (text !== "") content.push(text)
    if (part.type === "tool-result") toolNames.push(part.name)
    if (part.type === "tool-call") toolCalls.push(`${part.name}\n${toPlainText(part.params)}`)
  }
  return { content: content.join("\n"), toolNames: toolNames.join(" "), toolCalls: toolCalls.join("\n") }
}

/**
 * Returns the skill that a user chose for a message. It is named at the beginning of the message text. Returns
 * `undefined` if no skill was chosen.
 */
export const findChosenSkill = (text: string): string | undefined => /^<skill name="([^"<>]{1,100})"/u.exec(text)?.[1]

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

const maxDepth = 64

/**
 * Applies a mask to every string in a value, with the key of the string. Returns the same value if nothing was masked.
 */
const maskValue = (
  value: unknown,
  mask: (text: string, key?: string) => string,
  depth: number,
  name?: string
): unknown => {
  if (typeof value === "string") return mask(value, name)
  if (
    typeof value !== "object" ||
    value === null ||
    ArrayBuffer.isView(value) ||
    value instanceof URL ||
    depth >= maxDepth
  )
    return value
  if (Array.isArray(value)) {
    let items: Array<unknown> | undefined
    for (let index = 0; index < value.length; index++) {
      const safe = maskValue(value[index], mask, depth + 1)
      if (safe !== value[index]) (items ??= value.slice())[index] = safe
    }
    return items ?? value
  }
  let changed: Record<string, unknown> | undefined
  const keys = Object.keys(value)
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] ?? ""
    const item: unknown = Reflect.get(value, key)
    if (typeof item !== "string" && typeof item !== "object") continue
    const safe = maskValue(item, mask, depth + 1, key)
    if (safe === item) continue
    // Symbols that identify the type of the value are preserved.
    changed ??= Object.assign(Object.create(Object.getPrototypeOf(value)), value)
    if (changed !== undefined) changed[key] = safe
  }
  return changed ?? value
}

/**
 * Maximum number of strings that {@link memoizeMask} caches, and the minimum and maximum length of a string that it
 * caches.
 */
const maxRemembered = 256
const [shortest, longest] = [256, 65_536]

/**
 * Memoizes a mask for recent long strings, because system prompts and tool descriptions are the same in many sessions.
 */
const memoizeMask = (mask: (text: string) => string): ((text: string) => string) => {
  const known = new Map<string, string>()
  return (text) => {
    if (text.length < shortest || text.length > longest) return mask(text)
    const before = known.get(text)
    if (before !== undefined) return before
    const [oldest] = known.keys()
    if (known.size >= maxRemembered && oldest !== undefined) known.delete(oldest)
    const safe = mask(text)
    known.set(text, safe)
    return safe
  }
}

/** Function that masks the secrets that the runtime holds. It is used for titles, system prompts and user input. */
export const heldMask: Effect.Effect<(text: string) => string> = Effect.map(Secrets, ({ mask }) => mask)

interface Masks {
  /** Masks only the secrets that the runtime holds. */
  readonly held: (text: string) => string
  /** Masks the secrets that the runtime holds, and keys of known shapes. */
  readonly said: (text: string) => string
  /** Masked messages by their original messages. */
  readonly messages: WeakMap<Prompt.Message, Prompt.Message>
  readonly redact: boolean
  /** Version of the secret registry that the masks were created for. */
  readonly version: number
}

const newestMasks = new WeakMap<Registry, Masks>()

/** Runs a function with the masks of the current fiber. */
const useMasks = <A>(use: (masks: Masks) => A): Effect.Effect<A> =>
  Effect.withFiberSucceed((fiber) => {
    const secrets = fiber.getRef(Secrets)
    const redact = fiber.getRef(RedactSecrets)
    const version = secrets.version()
    const known = newestMasks.get(secrets)
    if (known?.version === version && known.redact === redact) return use(known)
    const said = memoizeMask(redact ? (text) => redactKeys(text, secrets) : secrets.mask)
    const made: Masks = { held: memoizeMask(secrets.mask), said, messages: new WeakMap(), redact, version }
    newestMasks.set(secrets, made)
    return use(made)
  })

/** Masks a message. The result is cached, because the session and the record of a run receive the same messages. */
const maskMessage =
  ({ held, messages, said }: Masks) =>
  (message: Prompt.Message): Prompt.Message => {
    const known = messages.get(message)
    if (known !== undefined) return known
    // Only its strings are changed, so the value is still a message.
    const safe = maskValue(
      message,
      message.role === "assistant" || message.role === "tool" ? said : held,
      0
    ) as Prompt.Message
    messages.set(message, safe)
    return safe
  }

/** Returns messages in their stored form, without secrets. */
export const maskMessages = (messages: ReadonlyArray<Prompt.Message>): Effect.Effect<ReadonlyArray<Prompt.Message>> =>
  useMasks((masks) => messages.map(maskMessage(masks)))

/** Fields of events that contain the runtime's own ids, states and counts. They are never masked. */
const ownMembers: ReadonlySet<string> = new Set([
  "_tag",
  "apiRequestId",
  "callId",
  "parentCallId",
  "sessionId",
  "subagentId",
  "status",
  "hash",
  "finishReason",
  "usage",
  "cost",
  "messages",
  "tools",
  "responseId",
  "origin",
  "exit"
])

/** Masks the secrets in an event. Returns the same event if it contains no secrets. */
const maskEvent = (event: Entry["event"], mask: (text: string, key?: string) => string): Entry["event"] => {
  let changed: Record<string, unknown> | undefined
  const keys = Object.keys(event)
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] ?? ""
    if (ownMembers.has(key)) continue
    const value: unknown = Reflect.get(event, key)
    const safe = maskValue(value, mask, 1, key)
    if (safe === value) continue
    changed ??= { ...event }
    changed[key] = safe
  }
  // Only its strings are changed, so the value is still an event.
  return changed === undefined ? event : (changed as Entry["event"])
}

const replaceMessage = <E extends { readonly message: unknown }>(event: E, message: E["message"]): E =>
  message === event.message ? event : { ...event, message }

/**
 * Returns entries of the run record in their stored form. Messages are masked as in the session. In all other text,
 * keys of known shapes are also masked.
 */
export const maskEntries = (given: ReadonlyArray<Entry>): Effect.Effect<ReadonlyArray<Entry>> =>
  useMasks((known) =>
    given.map((entry) => {
      const { event } = entry
      const safe =
        event._tag !== "MessageAppended"
          ? maskEvent(event, known.said)
          : replaceMessage(event, event.message === undefined ? undefined : maskMessage(known)(event.message))
      return safe === event ? entry : { ...entry, event: safe }
    })
  )

/** Redacted entries by their original entries, because all exporters receive the same entries. */
const exportedEntries = new WeakMap<
  Registry,
  {
    readonly version: number
    readonly redact: boolean
    readonly made: WeakMap<Entry, Entry>
    readonly clean: (text: string) => string
  }
>()

/** Function that removes every secret from text that is shown or leaves the machine. */
export const textForExport: Effect.Effect<(text: string) => string> = Effect.gen(function* () {
  const secrets = yield* Secrets
  return (yield* RedactSecrets) ? (text) => redactText(text, secrets) : secrets.mask
})

/**
 * Function that redacts entries that are shown or leave the machine. It removes secrets from all text, both typed by
 * the user and produced by the model, and the values of fields whose names denote secrets. An entry without secrets is
 * returned as the same object.
 */
export const forExport: Effect.Effect<(given: ReadonlyArray<Entry>) => ReadonlyArray<Entry>> = Effect.gen(function* () {
  const secrets = yield* Secrets
  const redact = yield* RedactSecrets
  const mask = yield* textForExport
  const loadExportCache = () => {
    const version = secrets.version()
    const known = exportedEntries.get(secrets)
    if (known?.version === version && known.redact === redact) return known
    const fresh = { version, redact, made: new WeakMap<Entry, Entry>(), clean: memoizeMask(mask) }
    exportedEntries.set(secrets, fresh)
    return fresh
  }
  return (given) => {
    const { clean, made: known } = loadExportCache()
    const cleanText = (text: string, key?: string): string =>
      text !== "" && key !== undefined && isSensitiveKey(key) ? marker : clean(text)
    return given.map((entry) => {
      const before = known.get(entry)
      if (before !== undefined) return before
      const event = maskEvent(entry.event, cleanText)
      const safe = event === entry.event ? entry : { ...entry, event }
      known.set(entry, safe)
      return safe
    })
  }
})
