/**
 * The form of an answer that a call of the AI SDK asks for (`Output.object`, `generateObject`), as the output of a run.
 *
 * **Details**
 *
 * The run checks the answer and has it corrected, as with any output. A stream of the AI SDK cannot take text back, so
 * that such a call streams no text before the answer is accepted; it then has exactly the JSON of the value. A schema
 * with keywords that the runtime cannot check is still given to the model, and checked by the AI SDK alone.
 */
import type { LanguageModelV4CallOptions, SharedV4Warning } from "@ai-sdk/provider"
import type { StandardJSONSchemaV1, StandardSchemaV1 } from "effect/StandardSchema"
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as JsonSchemaFormat from "../../base/domain/JsonSchemaFormat.ts"

type ResponseFormat = LanguageModelV4CallOptions["responseFormat"]

const findSchema = (format: ResponseFormat): Readonly<Record<string, unknown>> | undefined =>
  format?.type === "json" ? { ...(format.schema ?? { type: "object" }) } : undefined

/** A schema of any value, of which a JSON Schema is known. */
type DescribedSchema = StandardSchemaV1 & StandardJSONSchemaV1

/** Returns the output of a run for a call, or `undefined` if the call asks for text. */
export const findOutput = (format: ResponseFormat): DescribedSchema | undefined => {
  const schema = findSchema(format)
  if (schema === undefined) return undefined
  const read = JsonSchemaFormat.readJsonSchema(schema)
  const validateJson = async (json: unknown): Promise<StandardSchemaV1.Result<unknown>> => {
    if (Result.isFailure(read)) return { value: json }
    const { decode, unwrap } = read.success
    const wrapped = unwrap === undefined ? json : { value: json }
    return await Effect.runPromise(
      Effect.match(decode(wrapped), {
        onFailure: (message) => ({ issues: [{ message }] }),
        onSuccess: (value) => ({ value })
      })
    )
  }
  const getSchema = () => schema
  return {
    "~standard": {
      version: 1,
      vendor: "ai-sdk",
      validate: validateJson,
      jsonSchema: { input: getSchema, output: getSchema }
    }
  }
}

/** Lists a warning if the runtime cannot check the schema of a call. */
export const listOutputWarnings = (format: ResponseFormat): ReadonlyArray<SharedV4Warning> => {
  const schema = findSchema(format)
  const read = schema === undefined ? undefined : JsonSchemaFormat.readJsonSchema(schema)
  return read === undefined || Result.isSuccess(read)
    ? []
    : [
        {
          type: "compatibility",
          feature: "responseFormat",
          details: `the runtime does not check the answer: its schema ${read.failure}`
        }
      ]
}
