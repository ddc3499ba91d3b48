/**
 * Encodes recorded exchanges with a provider as lines of JSON. Values are written, hashed and compared in a canonical
 * form: JSON with sorted keys, bytes as base64, secrets redacted.
 */
import * as Base64 from "effect/encoding/Base64"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import { ConfigError } from "../../../base/domain/AgentError.ts"
import { ApiMode } from "../../../base/domain/ApiMode.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { ModelRequest, StreamPart } from "../../../base/domain/ModelCall.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as TextCut from "../../../base/domain/TextCut.ts"
import * as Digest from "../../../base/platform/Digest.ts"
import * as PartSchema from "../PartSchema.ts"

// Canonical values

const bytesKey = "~bytes"

const toPlainValue = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map((item) => (item === undefined ? null : toPlainValue(item)))
  if (value instanceof Uint8Array) return { [bytesKey]: Base64.encode(value) }
  if (typeof value === "bigint") return String(value)
  if (!Json.isFields(value)) return value
  if (typeof value["toJSON"] === "function") return toPlainValue(value["toJSON"]())
  return Object.fromEntries(
    Object.keys(value)
      .filter((key) => value[key] !== undefined && typeof value[key] !== "function")
      .sort()
      .map((key) => [key, toPlainValue(value[key])])
  )
}

/** Returns the canonical form of a value. */
export const toCanonical = (value: unknown): unknown => Redaction.redactValue(toPlainValue(value))

/** Restores the bytes in a canonical value. */
export const reviveBytes = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(reviveBytes)
  if (!Json.isFields(value)) return value
  const bytes = value[bytesKey]
  if (typeof bytes === "string" && Object.keys(value).length === 1) {
    return Result.getOrElse(Base64.decode(bytes), (): unknown => value)
  }
  return Object.fromEntries(Object.keys(value).map((key) => [key, reviveBytes(value[key])]))
}

/** Path of the first difference between two canonical values, and the two values at this path. */
interface Difference {
  readonly path: string
  readonly expected: string
  readonly actual: string
}

const maxShown = 80

const formatValue = (value: unknown): string => {
  return TextCut.shorten(value === undefined ? "nothing" : JSON.stringify(value), maxShown)
}

/**
 * Finds the first difference between two values, in the key order of the expected value. Returns `undefined` if they
 * are equal.
 */
export const findDifference = (expected: unknown, actual: unknown, path = ""): Difference | undefined => {
  if (Object.is(expected, actual)) return undefined
  if (Array.isArray(expected) && Array.isArray(actual)) {
    for (let index = 0; index < Math.max(expected.length, actual.length); index++) {
      const found = findDifference(expected[index], actual[index], `${path}[${index}]`)
      if (found !== undefined) return found
    }
    return undefined
  }
  if (Json.isFields(expected) && Json.isFields(actual)) {
    for (const key of new Set([...Object.keys(expected), ...Object.keys(actual)])) {
      const found = findDifference(expected[key], actual[key], path === "" ? key : `${path}.${key}`)
      if (found !== undefined) return found
    }
    return undefined
  }
  return { path, expected: formatValue(expected), actual: formatValue(actual) }
}

// Exchanges

const Answer = Schema.Struct({
  parts: Schema.Array(PartSchema.ContentPart),
  finishReason: Response.FinishReason,
  usage: Response.Usage,
  model: Schema.optional(Schema.String),
  id: Schema.optional(Schema.String),
  raw: Schema.Unknown
})

/** Schema of a recorded exchange. */
export const Exchange = Schema.Struct({
  version: Schema.Literal(1),
  /** Index among the requests of a recording, in the order in which they began. */
  index: Schema.Natural,
  route: Schema.Struct({
    provider: Schema.String,
    model: Schema.String,
    apiMode: ApiMode,
    baseUrl: Schema.optional(Schema.String)
  }),
  /** Hash that identifies the request; see {@link hashRequest}. */
  hash: Schema.String,
  /** The request, without secrets. */
  request: Schema.Unknown,
  /** Streamed parts, in the arrays in which they arrived. */
  stream: Schema.optional(Schema.Array(Schema.Array(PartSchema.StreamPart))),
  response: Schema.optional(Answer),
  error: Schema.optional(AiError.AiError)
})
/** A recorded exchange. */
export type Exchange = typeof Exchange.Type

/** Fields that differ between runs and do not affect the answer. */
const passing: ReadonlySet<string> = new Set(["prompt_cache_key"])

/** Returns a request in the form in which it is recorded and compared. */
export const toCanonicalRequest = (request: ModelRequest): unknown =>
  toCanonical(Object.fromEntries(Object.entries(request).filter(([key]) => !passing.has(key))))

/** Returns the hash that identifies a canonical request. */
export const hashRequest = (request: unknown): string => Digest.toHex(JSON.stringify(request), 16)

const makeCodecs = () => {
  const codec = Schema.toCodecJson(Exchange)
  return { encode: Schema.encodeSync(codec), decode: Schema.decodeUnknownResult(codec) }
}
let made: ReturnType<typeof makeCodecs> | undefined
/** Returns the codecs, which are created on first use. */
const getCodecs = (): ReturnType<typeof makeCodecs> => (made ??= makeCodecs())

type Batch = ReadonlyArray<StreamPart>

/**
 * Redacts secrets that are split across the deltas of a stream. If text, reasoning or the arguments of a tool call
 * contain a secret, the whole redacted text is moved to the first delta and the other deltas are removed.
 */
const redactStream = (stream: ReadonlyArray<Batch>): ReadonlyArray<Batch> => {
  const texts = new Map<string, string>()
  const formatDeltaKey = ({ id, type }: { readonly id: string; readonly type: string }): string => `${type} ${id}`
  for (const part of stream.flat()) {
    if ("delta" in part) texts.set(formatDeltaKey(part), (texts.get(formatDeltaKey(part)) ?? "") + part.delta)
  }
  const changed = new Map(
    Array.from(texts).flatMap(([key, text]) => {
      const safe = Redaction.redactText(text)
      return safe === text ? [] : [[key, safe] as const]
    })
  )
  if (changed.size === 0) return stream
  const told = new Set<string>()
  return stream.map((batch) =>
    batch.flatMap((part): Batch => {
      if (!("delta" in part)) return [part]
      const delta = changed.get(formatDeltaKey(part))
      if (delta === undefined) return [part]
      if (told.has(formatDeltaKey(part))) return []
      told.add(formatDeltaKey(part))
      return [{ ...part, delta }]
    })
  )
}

/** Encodes an exchange as a line, without secrets. Throws if a value cannot be represented in JSON. */
export const toLine = (given: Exchange): string => {
  const { response, stream } = given
  const exchange = stream === undefined ? given : { ...given, stream: redactStream(stream) }
  return JSON.stringify(
    toCanonical(
      getCodecs().encode(
        response === undefined ? exchange : { ...exchange, response: { ...response, raw: toCanonical(response.raw) } }
      )
    )
  )
}

const reviveResponse = (exchange: Exchange): Exchange => {
  const { response } = exchange
  return response === undefined ? exchange : { ...exchange, response: { ...response, raw: reviveBytes(response.raw) } }
}

/** Parses a line of a recording; `number` is its line number. */
export const fromLine = (line: string, number: number): Result.Result<Exchange, ConfigError> => {
  const makeLineError = (message: string): ConfigError =>
    new ConfigError({ path: `line ${number}`, message: `line ${number} of the recording ${message}` })
  return Option.match(Json.parse(line), {
    onNone: () => Result.fail(makeLineError("is no JSON")),
    onSome: (value) =>
      Result.mapBoth(getCodecs().decode(value), {
        onFailure: (error) => makeLineError(`is not a recorded exchange: ${error.message.split("\n").join(" ")}`),
        onSuccess: reviveResponse
      })
  })
}
