/**
 * One recorded exchange with a provider: a line of JSON.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import { ConfigError } from "../../domain/AgentError.ts"
import { ApiMode } from "../../domain/ApiMode.ts"
import * as Json from "../../domain/Json.ts"
import type { ModelRequest } from "../../domain/Model.ts"
import * as Digest from "../internal/Digest.ts"
import * as PartSchema from "../PartSchema.ts"
import * as Canonical from "./Canonical.ts"

const Answer = Schema.Struct({
  parts: Schema.Array(PartSchema.ContentPart),
  finishReason: Response.FinishReason,
  usage: Response.Usage,
  model: Schema.optional(Schema.String),
  id: Schema.optional(Schema.String),
  raw: Schema.Unknown
})

/** See the module. */
export const Exchange = Schema.Struct({
  version: Schema.Literal(1),
  /** Place among the requests of a recording, in the order in which they began. */
  index: Schema.Natural,
  route: Schema.Struct({
    provider: Schema.String,
    model: Schema.String,
    apiMode: ApiMode,
    baseUrl: Schema.optional(Schema.String)
  }),
  /** Names the request; see {@link hash}. */
  hash: Schema.String,
  /** Without secrets. */
  request: Schema.Unknown,
  /** What streamed by, as it came. */
  stream: Schema.optional(Schema.Array(Schema.Array(PartSchema.StreamPart))),
  response: Schema.optional(Answer),
  error: Schema.optional(AiError.AiError)
})
/** See {@link Exchange}. */
export type Exchange = typeof Exchange.Type

/** Fields that differ from run to run and mean nothing to the answer. */
const passing: ReadonlySet<string> = new Set(["prompt_cache_key"])

/** A request as it is recorded and compared. */
export const canonical = (request: ModelRequest): unknown =>
  Canonical.of(Object.fromEntries(Object.entries(request).filter(([key]) => !passing.has(key))))

/** The name of a canonical request. */
export const hash = (request: unknown): string => Digest.hex(JSON.stringify(request), 16)

const codec = Schema.toCodecJson(Exchange)
const encode = Schema.encodeSync(codec)
const decode = Schema.decodeUnknownResult(codec)

/** An exchange as its line, without secrets. Throws for what JSON can not express. */
export const toLine = (exchange: Exchange): string => {
  const { response } = exchange
  return JSON.stringify(Canonical.of(encode(
    response === undefined ? exchange : { ...exchange, response: { ...response, raw: Canonical.of(response.raw) } }
  )))
}

const withBytes = (exchange: Exchange): Exchange => {
  const { response } = exchange
  return response === undefined
    ? exchange
    : { ...exchange, response: { ...response, raw: Canonical.revive(response.raw) } }
}

/** Reads line `number` of a recording. */
export const fromLine = (line: string, number: number): Result.Result<Exchange, ConfigError> => {
  const fail = (message: string): ConfigError =>
    new ConfigError({ path: `line ${number}`, message: `line ${number} of the recording ${message}` })
  return Option.match(Json.parse(line), {
    onNone: () => Result.fail(fail("is no JSON")),
    onSome: (value) =>
      Result.mapBoth(decode(value), {
        onFailure: (error) => fail(`is no exchange: ${error.message.split("\n").join(" ")}`),
        onSuccess: withBytes
      })
  })
}
