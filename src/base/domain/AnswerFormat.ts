/**
 * The form of a run's answer: a JSON Schema for the model, and a decoder for its JSON.
 *
 * **Details**
 *
 * A run takes any Effect Schema whose decoding needs no services. The model writes the JSON form of its encoded side,
 * such as an ISO 8601 text for a `Date`. A schema whose JSON is not an object is wrapped into an object with the one
 * property `value`, because no provider accepts another root; the decoder removes the wrapper. Schemas from elsewhere
 * are an {@link AnswerFormat} with a decoder of their own.
 *
 * **Example** (A run that ends in a value)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Agent, Runtime, Scripted } from "hermes-effect"
 *
 * const Weather = Schema.Struct({ city: Schema.String, celsius: Schema.Int })
 *
 * const program = Agent.run({ prompt: "How is the weather in Oslo?", output: Weather })
 * const model = Scripted.layer([Scripted.complete('{"city":"Oslo","celsius":4}')])
 *
 * const { value } = await Effect.runPromise(Effect.provide(program, Runtime.layer({ provider: model })))
 * console.log(value.celsius)
 * // => 4
 * ```
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Schema from "effect/Schema"
import type * as JsonSchema from "effect/JsonSchema"
import { ConfigError } from "./AgentError.ts"
import * as AnswerParts from "./AnswerParts.ts"
import * as Json from "./Json.ts"
import * as TextCut from "./TextCut.ts"

/** The form of an answer. */
export interface AnswerFormat<out A> {
  /** Name of the form for the provider: letters, digits, `_` and `-`. */
  readonly name: string
  /** JSON Schema of an object, as the model sees it. */
  readonly schema: JsonSchema.JsonSchema
  /** Decodes the JSON value of an answer. Fails with a description of every mistake, which the model reads. */
  readonly decode: (json: unknown) => Effect.Effect<A, string>
  /** Returns the part of a JSON value that is the answer. By default all of it is. */
  readonly unwrap?: ((json: unknown) => unknown) | undefined
  /** Number of answers of a run that are sent back for correction, at most. The default is 2. */
  readonly maxCorrections?: number | undefined
}

/**
 * A form of answers as a caller gives it: an Effect Schema, or an {@link AnswerFormat}. `A` is the type of the value,
 * and `I` the type of its JSON.
 */
export type Output<A, I = unknown> = Schema.ConstraintCodec<A, I, never, unknown> | AnswerFormat<A>

/** Values whose JSON has another form, such as the text of a date. */
export type ConvertedValue =
  | Date
  | Error
  | ReadonlyMap<unknown, unknown>
  | ReadonlySet<unknown>
  | RegExp
  | URL
  | Uint8Array
  | bigint

/**
 * The JSON of a value of which any part may still be missing, as it is while an answer arrives. Parts that are not JSON
 * themselves, such as dates, are `unknown`.
 */
export type DeepPartial<A> = A extends ConvertedValue
  ? unknown
  : A extends ReadonlyArray<infer Item>
    ? ReadonlyArray<DeepPartial<Item>>
    : A extends object
      ? { readonly [Key in keyof A]?: DeepPartial<A[Key]> }
      : A

/** Maximum length of a description of mistakes, in characters. */
const longestProblem = 2_000

/** Property of the object that wraps a value that is not an object. */
const wrapper = "value"

const isObjectSchema = (schema: JsonSchema.JsonSchema): boolean =>
  schema["type"] === "object" || schema["properties"] !== undefined

/** Returns the schema that a reference at the root names, or the schema itself. */
const resolveRoot = ({ definitions, schema }: JsonDocument): JsonSchema.JsonSchema => {
  const name = typeof schema["$ref"] === "string" ? schema["$ref"].split("/").at(-1) : undefined
  return (name === undefined ? undefined : definitions[name]) ?? schema
}

/** Shortens a description of mistakes to one line that fits into a message. */
export const shortenProblem = (problem: string): string =>
  TextCut.shorten(problem.replace(/\s+/gu, " ").trim(), longestProblem)

/** JSON Schema of a value, with the definitions that its references name. */
type JsonDocument = Pick<JsonSchema.Document<"draft-2020-12">, "definitions" | "schema">

/** Points references to the root of a schema at its place in the wrapper. */
const moveReferences = (schema: unknown): unknown => {
  if (Array.isArray(schema)) return schema.map(moveReferences)
  if (!Json.isFields(schema)) return schema
  return Object.fromEntries(
    Object.entries(schema).map(([key, value]) => [
      key,
      key === "$ref" && value === "#" ? `#/properties/${wrapper}` : moveReferences(value)
    ])
  )
}

/** Keywords of which a schema has at least one, unless it allows any value. */
const stating: ReadonlySet<string> = new Set(
  (
    "type properties patternProperties additionalProperties required items prefixItems " +
    "enum const anyOf oneOf allOf not $ref pattern minimum maximum"
  ).split(" ")
)

/**
 * Makes the form of answers of a JSON Schema. `decode` decodes the value without its wrapper. Throws for a schema that
 * says nothing.
 */
export const makeFormat = <A>(
  document: JsonDocument,
  decode: (json: unknown) => Effect.Effect<A, string>
): AnswerFormat<A> => {
  const foreign = AnswerParts.findForeign(document.schema)
  if (foreign !== undefined) throw new Error(foreign)
  const root = resolveRoot(document)
  if (Json.isFields(root["not"]) && Object.keys(root["not"]).length === 0) throw new Error("it allows no value")
  if (Object.keys(root).every((key) => !stating.has(key))) throw new Error("it allows any JSON value")
  const definitions = Object.keys(document.definitions).length === 0 ? {} : { $defs: document.definitions }
  if (isObjectSchema(root)) return { name: "answer", schema: { ...root, ...definitions }, decode }
  const { $defs, $schema: _, ...value } = document.schema
  return {
    name: "answer",
    schema: {
      type: "object",
      properties: { [wrapper]: moveReferences(value) },
      required: [wrapper],
      additionalProperties: false,
      ...($defs === undefined ? {} : { $defs: moveReferences($defs) }),
      ...definitions
    },
    decode: (json) =>
      Json.isFields(json) && Object.keys(json).length === 1 && wrapper in json
        ? decode(json[wrapper])
        : Effect.fail(`expected an object with the one property "${wrapper}"`),
    unwrap: (json) => (Json.isFields(json) ? json[wrapper] : undefined)
  }
}

/** Makes the decoder of a codec of JSON. */
export const makeDecoder = <A>(
  codec: Schema.ConstraintCodec<A, unknown, never, unknown>
): ((json: unknown) => Effect.Effect<A, string>) => {
  const decode = Schema.decodeUnknownEffect(codec, { errors: "all" })
  return (json) => Effect.mapError(decode(json), ({ message }) => shortenProblem(message))
}

const makeFromSchema = <A>(schema: Schema.ConstraintCodec<A, unknown, never, unknown>): AnswerFormat<A> => {
  const codec = Schema.toCodecJson(schema)
  const unwritable = AnswerParts.findClass(Schema.toEncoded(schema).ast)
  if (unwritable !== undefined) throw new Error(unwritable)
  // The model writes no other properties, and the decoder ignores those that it writes all the same.
  return makeFormat(Schema.toJsonSchemaDocument(codec, { onExcessProperty: "error" }), makeDecoder(codec))
}

const isFormat = <A>(output: Output<A>): output is AnswerFormat<A> => !("ast" in output)

/** Schemas that were resolved before; a form is built once for each. */
const known = new WeakMap<object, AnswerFormat<unknown>>()

/**
 * Returns the form of answers for an output. Fails with a `ConfigError` if the schema cannot be described to a model,
 * for example because it is a class without a codec.
 */
export const resolveOutput = <A>(output: Output<A>): Effect.Effect<AnswerFormat<A>, ConfigError> => {
  if (isFormat(output)) return Effect.succeed(output)
  // The form was built from this schema, so that it decodes its type.
  const found = known.get(output) as AnswerFormat<A> | undefined
  if (found !== undefined) return Effect.succeed(found)
  return Effect.try({
    try: () => {
      const made = makeFromSchema(output)
      known.set(output, made)
      return made
    },
    catch: (error) =>
      new ConfigError({
        path: "output",
        message:
          `output: the schema has no JSON form that a model can write (${shortenProblem(describeError(error))}): ` +
          "give that part a codec, or use a schema of JSON values"
      })
  })
}

const describeError = (error: unknown): string => (error instanceof Error ? error.message : String(error))

/** Lists the texts inside the code fences of an answer, without the first line with their language. */
const listFenced = (text: string): ReadonlyArray<string> =>
  text
    .split("```")
    .filter((_, index) => index % 2 === 1)
    .map((inner) => inner.slice(inner.indexOf("\n") + 1))

/** Lists the texts of an answer that may be its JSON: all of it, the part between brackets, and each code fence. */
const listCandidates = (text: string): ReadonlyArray<string> => {
  const trimmed = text.trim()
  const from = trimmed.search(/[[{]/u)
  const to = Math.max(trimmed.lastIndexOf("}"), trimmed.lastIndexOf("]"))
  return [trimmed, ...(from === -1 || to <= from ? [] : [trimmed.slice(from, to + 1)]), ...listFenced(trimmed)]
}

/**
 * Returns the JSON text of an answer, which may be in a code fence or between sentences if the model has no field for
 * the schema. Returns `undefined` for an answer without JSON.
 */
export const findJson = (text: string): string | undefined =>
  listCandidates(text).find((candidate) => Option.isSome(Json.parse(candidate)))
