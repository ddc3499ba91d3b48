/**
 * The form of an answer that a request asks for.
 *
 * **Details**
 *
 * The form is set when a turn begins. A request with results of the caller's tools continues its turn, so that it may
 * repeat the form or leave it out, but not change it.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as AnswerFormat from "../../../base/domain/AnswerFormat.ts"
import * as Json from "../../../base/domain/Json.ts"
import * as JsonSchemaFormat from "../../../base/domain/JsonSchemaFormat.ts"
import * as ApiError from "../ApiError.ts"

/** Form of an answer, which is then JSON, and the request field that it came from. */
export interface RequestedForm {
  readonly field: string
  readonly format: AnswerFormat.AnswerFormat<unknown>
}

/** The turn of a session that the last request began. */
export interface ServedTurn {
  /** Number of messages in the session before the turn. */
  readonly position: number
  /** Number of messages in the session before the last request of the turn. */
  readonly begin: number
  /** Number of requests with results that continued the turn. */
  readonly continuations: number
  readonly format: AnswerFormat.AnswerFormat<unknown> | undefined
}

/** Reads the form of an answer. A schema that cannot be used is refused with the name `schemaField`. */
export const readForm = (
  field: string,
  format: unknown,
  schema: unknown,
  schemaField: string
): Effect.Effect<RequestedForm | undefined, ApiError.ApiError> => {
  switch (Json.readFields(format)["type"]) {
    case "json_object":
      return Effect.sync(() => ({
        field,
        format: AnswerFormat.makeFormat({ schema: { type: "object" }, definitions: {} }, (json) =>
          Json.isFields(json) ? Effect.succeed(json) : Effect.fail("expected a JSON object")
        )
      }))
    case "json_schema": {
      const read = JsonSchemaFormat.readJsonSchema(schema, "ignore")
      if (Result.isFailure(read))
        return Effect.fail(ApiError.refuseField(schemaField, `${schemaField} ${read.failure}`))
      return read.success.unwrap === undefined
        ? Effect.succeed({ field, format: read.success })
        : Effect.fail(ApiError.refuseField(schemaField, `${schemaField} is not the schema of an object`))
    }
    default:
      return Effect.undefined
  }
}

/** Refuses a form that the turn did not begin with. */
export const requireForm = (
  form: RequestedForm | undefined,
  { format: begun }: ServedTurn
): Effect.Effect<void, ApiError.ApiError> =>
  form === undefined || JSON.stringify(form.format.schema) === JSON.stringify(begun?.schema)
    ? Effect.void
    : Effect.fail(
        ApiError.refuseField(
          form.field,
          `${form.field}: the form of an answer is set by the request that begins the turn, not with results of tools.`
        )
      )
