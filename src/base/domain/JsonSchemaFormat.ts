/**
 * Makes the form of an answer from a JSON Schema that is given as data: in a file, in an agent file or by a client.
 *
 * **Details**
 *
 * The schema is of draft 2020-12. The model sees it as it is given; keywords that Effect's importer does not know, such
 * as `if` and `contains`, are refused before anything is asked. A value is the JSON of the answer.
 */
import * as JsonSchema from "effect/JsonSchema"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import * as AnswerParts from "./AnswerParts.ts"
import * as AnswerFormat from "./AnswerFormat.ts"
import * as Json from "./Json.ts"

/**
 * Reads a JSON Schema. Fails with the reason for which it cannot be used, as one line without a subject. `patterns` is
 * `ignore` for a schema of a stranger, because a regular expression may block the process for any time; the model still
 * sees its patterns.
 */
export const readJsonSchema = (
  given: unknown,
  patterns: "apply" | "ignore" = "apply"
): Result.Result<AnswerFormat.AnswerFormat<unknown>, string> => {
  if (!Json.isFields(given)) return Result.fail("is not a JSON Schema: expected a JSON object")
  try {
    const foreign = AnswerParts.findForeign(given)
    if (foreign !== undefined) return Result.fail(`is not a JSON Schema: ${foreign}`)
    // An imported schema decodes JSON and requires no services.
    const schema = SchemaRepresentation.fromJsonSchemaDocument(JsonSchema.fromSchemaDraft2020_12({ ...given }), {
      patterns
    }) as Schema.Codec<unknown, unknown>
    return Result.succeed(
      AnswerFormat.makeFormat({ schema: { ...given }, definitions: {} }, AnswerFormat.makeDecoder(schema))
    )
  } catch (error) {
    const problem = error instanceof Error ? error.message : String(error)
    return Result.fail(`is not a valid JSON Schema: ${AnswerFormat.shortenProblem(problem)}`)
  }
}
