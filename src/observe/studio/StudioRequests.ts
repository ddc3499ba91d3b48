/** Reads and validates requests to the studio: list queries, and the bodies of writes. */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import * as SessionQueries from "./SessionQueries.ts"
import type { ExportFormat, NoteRequest, ReplayRequest, ScoreRequest, SessionQuery, Sort, Status } from "./StudioApi.ts"

/** Rejection of a request, with the HTTP status and a message that states the problem and its remedy. */
export class Refusal extends Schema.TaggedError<Refusal>("hermes-effect/observability/Refusal")("Refusal", {
  status: Schema.Int,
  message: Schema.String
}) {}

/** Creates the failure for an invalid request. */
export const makeBadRequest = (message: string): Refusal => new Refusal({ status: 400, message })

/** Maximum size of the body of a write, in bytes. */
export const longestBody = 2_000_000

const readChoice = <A extends string>(
  name: string,
  value: string | null,
  known: ReadonlyArray<A>
): Effect.Effect<A | undefined, Refusal> => {
  if (value === null) return Effect.succeed(undefined)
  const found = known.find((each) => each === value)
  return found === undefined
    ? Effect.fail(makeBadRequest(`${name} is one of ${known.join(", ")}, not ${JSON.stringify(value)}`))
    : Effect.succeed(found)
}

const readNumber = (
  name: string,
  value: string | null,
  {
    from = -Infinity,
    to = Infinity,
    whole = false
  }: { readonly from?: number; readonly to?: number; readonly whole?: boolean } = {}
): Effect.Effect<number | undefined, Refusal> => {
  if (value === null) return Effect.succeed(undefined)
  const read = value.trim() === "" ? Number.NaN : Number(value)
  if (Number.isFinite(read) && read >= from && read <= to && (!whole || Number.isInteger(read)))
    return Effect.succeed(read)
  const range = `${from === -Infinity ? "" : ` from ${from}`}${to === Infinity ? "" : ` to ${to}`}`
  return Effect.fail(
    makeBadRequest(`${name} is a ${whole ? "whole " : ""}number${range}, not ${JSON.stringify(value)}`)
  )
}

const names: ReadonlySet<string> = new Set([
  "q",
  "source",
  "model",
  "status",
  "since",
  "until",
  "tool",
  "minCost",
  "children",
  "sort",
  "order",
  "limit",
  "offset",
  "utcOffset"
])

/** Reads a list query. `more` lists additional parameters of the endpoint; any other unknown parameter is rejected. */
export const readQuery = Effect.fnUntraced(function* (
  search: URLSearchParams,
  more: ReadonlyArray<string> = []
): Effect.fn.Return<SessionQuery, Refusal> {
  const unknown = Array.from(search.keys()).find((name) => !names.has(name) && !more.includes(name))
  if (unknown !== undefined)
    return yield* makeBadRequest(
      `unknown parameter ${JSON.stringify(unknown)}: the parameters are ${[...names, ...more].join(", ")}`
    )
  const readValues = (name: string) => (search.has(name) ? search.getAll(name) : undefined)
  const status: ReadonlyArray<Status | undefined> = yield* Effect.forEach(search.getAll("status"), (value) =>
    readChoice("status", value, SessionQueries.statuses)
  )
  const children = yield* readChoice("children", search.get("children"), ["true", "false"])
  const sort: Sort | undefined = yield* readChoice("sort", search.get("sort"), SessionQueries.sorts)
  return {
    q: search.get("q") ?? undefined,
    source: readValues("source"),
    model: readValues("model"),
    tool: readValues("tool"),
    status: status.length === 0 ? undefined : status.filter((each) => each !== undefined),
    since: yield* readNumber("since", search.get("since")),
    until: yield* readNumber("until", search.get("until")),
    minCost: yield* readNumber("minCost", search.get("minCost"), { from: 0 }),
    children: children === undefined ? undefined : children === "true",
    sort,
    order: yield* readChoice("order", search.get("order"), ["asc", "desc"]),
    limit: yield* readNumber("limit", search.get("limit"), { from: 1, to: SessionQueries.limits.most, whole: true }),
    offset: yield* readNumber("offset", search.get("offset"), { from: 0, whole: true }),
    utcOffset: yield* readNumber("utcOffset", search.get("utcOffset"), { from: -1440, to: 1440, whole: true })
  }
})

const formats: ReadonlyArray<ExportFormat> = ["atif", "jsonl", "sharegpt"]

/** Reads the format of an export. */
export const readFormat = (search: URLSearchParams): Effect.Effect<ExportFormat, Refusal> =>
  Effect.flatMap(readChoice("format", search.get("format"), formats), (found) =>
    found === undefined
      ? Effect.fail(makeBadRequest(`format is missing: it is one of ${formats.join(", ")}`))
      : Effect.succeed(found)
  )

/** Reads the parameter that requests an archive with a separate file for each session. */
export const readArchiveFlag = (search: URLSearchParams): Effect.Effect<boolean, Refusal> =>
  Effect.map(readChoice("archive", search.get("archive"), ["true", "false"]), (found) => found === "true")

/** Reads a sequence number of the record, or returns `undefined` if the request does not contain a number. */
export const readSequence = (value: string | null | undefined): Effect.Effect<number | undefined, Refusal> =>
  readNumber("after", value ?? null, { from: 0, whole: true })

const ReplayBody = Schema.Struct({
  position: Schema.optionalKey(Schema.Natural),
  prompt: Schema.optionalKey(Schema.NonEmptyString),
  model: Schema.optionalKey(Schema.NonEmptyString),
  result: Schema.optionalKey(Schema.Struct({ callId: Schema.NonEmptyString, text: Schema.String }))
})

const ScoreBody = Schema.Struct({
  name: Schema.NonEmptyString.check(Schema.isMaxLength(100)),
  value: Schema.NullOr(Schema.Union([Schema.Finite, Schema.String.check(Schema.isMaxLength(1000)), Schema.Boolean])),
  run: Schema.optionalKey(Schema.NonEmptyString),
  comment: Schema.optionalKey(Schema.String.check(Schema.isMaxLength(20_000)))
})

const NoteBody = Schema.Struct({
  text: Schema.NonEmptyString.check(Schema.isMaxLength(100_000)),
  run: Schema.optionalKey(Schema.NonEmptyString),
  position: Schema.optionalKey(Schema.Natural)
})

/** Makes the reader of the bodies of a form. */
export const makeBodyReader = <S extends Schema.Codec<unknown, unknown, never, never>>(schema: S) => {
  const decode = Schema.decodeUnknownEffect(schema)
  return (text: string): Effect.Effect<S["Type"], Refusal> =>
    Option.match(Json.parse(text), {
      onNone: () => Effect.fail(makeBadRequest("the body is not JSON")),
      onSome: (value) =>
        Effect.mapError(decode(value, { onExcessProperty: "error" }), (error) =>
          makeBadRequest(`the body does not fit: ${error.message.replace(/\s+/gu, " ")}`)
        )
    })
}

/** Reads the body of a replay. */
export const replay: (text: string) => Effect.Effect<ReplayRequest, Refusal> = makeBodyReader(ReplayBody)
/** Reads the body of a score. */
export const score: (text: string) => Effect.Effect<ScoreRequest, Refusal> = makeBodyReader(ScoreBody)
/** Reads the body of a note. */
export const note: (text: string) => Effect.Effect<NoteRequest, Refusal> = makeBodyReader(NoteBody)
