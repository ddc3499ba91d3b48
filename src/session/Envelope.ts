/**
 * The stored form of a message: `{ "v": 1, "message": <encoded Prompt.Message> }` as one line of JSON. Whoever reads it
 * knows from `v` whether they can.
 *
 * **Details**
 *
 * Encoded values come back equal. The exception are values of a tool's arguments and results that JSON has no form of:
 * a `Date` comes back as text, a `Map` empty. Values that JSON refuses (a cycle, a bigint) are a {@link Problem}.
 *
 * Source: `ARCHITECTURE.md` §8.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Json from "../domain/Json.ts"

/** The version that is written. All versions up to it are read. */
export const currentVersion = 1

const Version1 = Schema.Struct({ v: Schema.Literal(1), message: Prompt.Message })

const encodeVersion1 = Schema.encodeResult(Schema.fromJsonString(Version1))
const decodeVersion1 = Schema.decodeUnknownResult(Version1)

/** Why a message cannot be written or read: what to say after its name, and the cause. */
export interface Problem {
  readonly message: string
  readonly cause: unknown
}

/** The stored form of a message. */
export const encode = (message: Prompt.Message): Result.Result<string, Problem> =>
  Result.mapError(encodeVersion1({ v: currentVersion, message }), (cause) => ({
    message: `cannot be stored (${cause.message.replace(/\s+/gu, " ")}): give tools results of plain JSON data`,
    cause
  }))

/** JSON leaves out a value that is undefined, such as the result of a tool that returns nothing. */
const withAbsentValue = (part: unknown): unknown => {
  if (!Predicate.isObject(part)) return part
  const { type } = { type: undefined, ...part }
  if (type === "tool-call" && !("params" in part)) return { ...part, params: undefined }
  if (type === "tool-result" && !("result" in part)) return { ...part, result: undefined }
  return part
}

const withAbsentValues = (envelope: unknown): unknown => {
  if (!Predicate.hasProperty(envelope, "message")) return envelope
  const { message } = envelope
  if (!Predicate.hasProperty(message, "content") || !Array.isArray(message.content)) return envelope
  return { ...envelope, message: { ...message, content: message.content.map(withAbsentValue) } }
}

/** The message that a stored form holds, equal to the one that was encoded. */
export const decode = (stored: string): Result.Result<Prompt.Message, Problem> => {
  const envelope = Option.getOrUndefined(Json.parse(stored))
  const decoded = decodeVersion1(withAbsentValues(envelope))
  if (Result.isSuccess(decoded)) return Result.succeed(decoded.success.message)
  const version = Predicate.hasProperty(envelope, "v") ? envelope.v : undefined
  return Result.fail({
    message: typeof version === "number" && version > currentVersion
      ? `was written in format ${version} by a newer version: update to read it, nothing is lost`
      : "is damaged: restore the database from a copy, or go on in a new session",
    cause: decoded.failure
  })
}
