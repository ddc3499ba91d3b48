/**
 * Schemas from the OpenAI API that all server APIs of this package share: requests for chat completions, models,
 * errors.
 *
 * Source: OpenAI API reference, chat completions and models.
 */
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as HttpApiEndpoint from "effect/http-api/HttpApiEndpoint"
import * as HttpApiSchema from "effect/http-api/HttpApiSchema"
import * as Json from "../../base/domain/Json.ts"
import * as ApiError from "./ApiError.ts"

/** Any JSON object. */
export const Fields = Schema.Record(Schema.String, Schema.Json)

/** A request for a chat completion. The endpoint decides on fields that are not listed here. */
export const ChatRequest = Schema.StructWithRest(
  Schema.Struct({
    messages: Schema.Array(Fields),
    model: Schema.optionalKey(Schema.String),
    stream: Schema.optionalKey(Schema.Boolean),
    tools: Schema.optionalKey(Schema.Array(Fields))
  }),
  [Fields]
)

/** Schema of a response with server-sent events, encoded as text. */
export const EventStream = Schema.String.pipe(HttpApiSchema.asText({ contentType: "text/event-stream" }))

/** One model. */
export const Model = Schema.Struct({
  id: Schema.String,
  object: Schema.Literal("model"),
  created: Schema.Int,
  owned_by: Schema.String
})

/** A list of models. */
export const ModelList = Schema.Struct({ object: Schema.Literal("list"), data: Schema.Array(Model) })

/** Makes a list of models from their names. */
export const makeModelList = (names: ReadonlyArray<string>): typeof ModelList.Type => ({
  object: "list",
  data: names.map((id) => ({ id, object: "model", created: 0, owned_by: "hermes" }))
})

/** Statuses of error responses. */
export const statuses = [400, 401, 403, 404, 409, 413, 415, 422, 429, 500, 502, 503, 504]

/** Error responses of every endpoint. */
export const errors = statuses.map((status) => ApiError.ErrorBody.pipe(HttpApiSchema.status(status)))

/** The path parameter `id`. */
export const id = { id: Schema.String }

/** Endpoint for health checks. */
export const health = HttpApiEndpoint.get("health", "/health", {
  success: Schema.Struct({ status: Schema.Literal("ok") }),
  error: errors
})

/**
 * Adds the client key to the OpenAPI description of an API. Every operation except the health check requires the key.
 */
export const describeKeys = (description: Json.Fields): Json.Fields => {
  const security = [{ key: [] }]
  const paths = Object.entries(Json.readFields(description["paths"])).map(([path, operations]) => {
    const described = Object.entries(Json.readFields(operations)).map(
      ([method, operation]) =>
        [method, { ...Json.readFields(operation), security: path === "/health" ? [] : security }] as const
    )
    return [path, Object.fromEntries(described)] as const
  })
  const securitySchemes = { key: { type: "http", scheme: "bearer" } }
  return {
    ...description,
    paths: Object.fromEntries(paths),
    components: { ...Json.readFields(description["components"]), securitySchemes },
    security
  }
}

/** Parses a whole number from a query or a header. Returns `other` if the value is absent. */
export const parseWholeNumber = (
  name: string,
  given: string | undefined,
  { least = 0, most, other }: { readonly least?: number; readonly most: number; readonly other: number }
): Effect.Effect<number, ApiError.ApiError> => {
  const number = given === undefined ? other : /^\d+$/u.test(given) ? Number(given) : Number.NaN
  return Number.isSafeInteger(number) && number >= least && number <= most
    ? Effect.succeed(number)
    : Effect.fail(ApiError.make(400, "invalid_request", `${name} is a whole number from ${least} to ${most}.`))
}
