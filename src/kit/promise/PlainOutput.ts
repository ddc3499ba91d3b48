/**
 * The form of an answer from a schema of Zod, ArkType, Valibot or Effect, or from a JSON Schema that is given as data.
 *
 * **Details**
 *
 * The model sees the JSON Schema of the schema's input, and `value` is the schema's output. A schema that has no JSON
 * Schema (Standard JSON Schema; supported by Zod 4.2 and ArkType) is refused. A JSON Schema as a plain object gives
 * values of unknown type.
 */
import * as Effect from "effect/Effect"
import * as Result from "effect/Result"
import * as EffectSchema from "effect/Schema"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as AnswerFormat from "../../base/domain/AnswerFormat.ts"
import * as Json from "../../base/domain/Json.ts"
import * as JsonSchemaFormat from "../../base/domain/JsonSchemaFormat.ts"
import * as Faults from "../../middleware/Faults.ts"
import type { AnswerReader } from "../../tools/Ask.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"
import { findJsonSchema, isStandardSchema, readCheckResult } from "./StandardJson.ts"

/** A schema of the value in which a run ends: Standard Schema, Effect, or a JSON Schema as a plain object. */
export type PlainOutput = StandardSchemaV1 | EffectOutput | Readonly<Record<string, unknown>>

/** Type of the value of a run with this output: `undefined` without an output. */
export type ValueOf<Schema> = Schema extends undefined
  ? undefined
  : Schema extends StandardSchemaV1
    ? StandardSchemaV1.InferOutput<Schema>
    : Schema extends EffectSchema.ConstraintCodec<infer A, unknown, never, unknown>
      ? A
      : unknown

/** Type of a value that arrives, of which any part may be missing. */
export type PartialValueOf<Schema> = Schema extends StandardSchemaV1
  ? AnswerFormat.DeepPartial<StandardSchemaV1.InferInput<Schema>>
  : Schema extends EffectSchema.ConstraintCodec<unknown, infer I, never, unknown>
    ? AnswerFormat.DeepPartial<I>
    : unknown

const makeOutputError = (problem: string, cause?: unknown): HermesError =>
  new HermesError("ConfigError", `output: ${problem}`, { cause })

const remedy = "use a schema of Zod 4.2, ArkType or Effect, or give a JSON Schema as an object"

const readSchema = (schema: StandardSchemaV1): unknown => {
  try {
    return findJsonSchema(schema)
  } catch (error) {
    throw makeOutputError(`the schema has no JSON Schema (${Faults.describeError(error)}): ${remedy}`, error)
  }
}

const checkValue = (schema: StandardSchemaV1, json: unknown): Effect.Effect<unknown, string> =>
  Effect.flatMap(
    Effect.tryPromise({
      try: async () => readCheckResult(await schema["~standard"].validate(json)),
      catch: (error) => `the schema failed: ${Faults.describeError(error)}`
    }),
    (checked) => ("problem" in checked ? Effect.fail(checked.problem) : Effect.succeed(checked.value))
  )

/** A schema of Effect whose decoding needs no services. */
type EffectOutput = EffectSchema.ConstraintCodec<unknown, unknown, never, unknown>

const isEffectSchema = (given: unknown): given is EffectOutput => EffectSchema.isSchema(given)

const isNamedStandard = (given: unknown): boolean =>
  ((typeof given === "object" && given !== null) || typeof given === "function") && "~standard" in given

/**
 * Returns the form of answers of a run, which is a schema of Effect itself. Throws a `ConfigError` if the schema cannot
 * be described to a model.
 */
export const toOutput = (given: PlainOutput): AnswerFormat.Output<unknown> =>
  Options.readPlainly("ConfigError", "output: the schema", () => {
    if (isEffectSchema(given)) return given
    if (isStandardSchema(given)) return toFormat(given)
    if (isNamedStandard(given)) throw makeOutputError(`expected a schema: ${remedy}`)
    const format = JsonSchemaFormat.readJsonSchema(given)
    if (Result.isFailure(format)) throw makeOutputError(`the schema ${format.failure}`)
    return format.success
  })

/**
 * Returns the form of answers to a question, whose JSON may be of any type. Throws a `ConfigError` if the schema has no
 * JSON Schema.
 */
export const toAnswerReader = (given: PlainOutput): AnswerReader<unknown> | EffectOutput =>
  Options.readPlainly("ConfigError", "the schema of a question", () => {
    if (isEffectSchema(given)) return given
    if (!isStandardSchema(given)) {
      if (isNamedStandard(given) || !Json.isFields(given)) throw makeOutputError(`expected a schema: ${remedy}`)
      return { schema: given, decode: Effect.succeed }
    }
    const schema = readSchema(given)
    if (!Json.isFields(schema)) throw makeOutputError(`the schema has no JSON Schema: ${remedy}`)
    return { schema: { ...schema }, decode: (json) => checkValue(given, json) }
  })

const toFormat = (given: StandardSchemaV1): AnswerFormat.Output<unknown> => {
  const schema = readSchema(given)
  if (!Json.isFields(schema)) throw makeOutputError(`the schema has no JSON Schema: ${remedy}`)
  try {
    // The schema itself judges, so that its messages and conversions count.
    return AnswerFormat.makeFormat({ schema: { ...schema }, definitions: {} }, (json) => checkValue(given, json))
  } catch (error) {
    throw makeOutputError(`no model can be asked for this schema: ${Faults.describeError(error)}`, error)
  }
}
