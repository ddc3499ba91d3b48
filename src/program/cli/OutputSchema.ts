/**
 * `--output-schema FILE`: requires an answer in JSON that matches a schema, for scripts. The first answer that does not
 * match is sent back once for correction.
 *
 * **Details**
 *
 * The file is a JSON Schema (draft 2020-12; keywords that Effect's importer rejects, such as `if` and `contains`, are
 * rejected before any model call). The prompt describes the schema. An answer may be wrapped in a code fence; only the
 * JSON is printed.
 *
 * Source: `hermes-product.md` §1.4.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as JsonSchema from "effect/JsonSchema"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaRepresentation from "effect/SchemaRepresentation"
import * as Prompt from "effect/ai/Prompt"
import type { RunInput } from "../../agent/RunInput.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import { type Failure, makeUsageFailure } from "./Failure.ts"

/** A schema that answers must match. */
export interface OutputSchema {
  /** Adds the required answer format to a prompt. */
  readonly ask: (prompt: RunInput["prompt"]) => RunInput["prompt"]
  /** Returns the JSON of an answer, or a description of its error. */
  readonly read: (answer: string) => Result.Result<string, string>
  /** Returns the message that asks for a corrected answer. */
  readonly correction: (problem: string) => string
}

/** Maximum length of a problem reported to the model, in characters. */
const longest = 2_000

/** Returns the text inside a code fence if the answer is one fence, otherwise the answer. */
const stripFence = (answer: string): string => /^```[\w-]*\n([^]*?)\n?```$/u.exec(answer.trim())?.[1] ?? answer.trim()

/** Reads a schema. A file that is not a valid schema is a usage error. */
export const load = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<OutputSchema, Failure, FileSystem.FileSystem> {
  const makeRefusal = (why: string): Failure => makeUsageFailure(`--output-schema ${path} ${why}`)
  const files = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(files.readFileString(path), ({ message }) =>
    makeRefusal(`cannot be read: ${message}`)
  )
  const given = Option.getOrUndefined(Json.parse(text))
  if (!Json.isFields(given)) return yield* makeRefusal("is not a JSON Schema: expected a JSON object")
  const schema = yield* Effect.try({
    try: () =>
      SchemaRepresentation.fromJsonSchemaDocument(JsonSchema.fromSchemaDraft2020_12({ ...given }), {
        patterns: "apply"
      }),
    catch: (error) =>
      makeRefusal(
        `is not a valid JSON Schema: ${(error instanceof Error ? error.message : String(error)).replace(/\s+/gu, " ")}`
      )
  })
  // An imported schema decodes JSON and requires no services.
  const decode = Schema.decodeUnknownResult(schema as Schema.Codec<unknown, unknown>)
  const wanted = `Answer with one JSON value that fits this JSON Schema, and with nothing else:\n${JSON.stringify(given)}`
  return {
    ask: (prompt) =>
      typeof prompt === "string" ? `${prompt}\n\n${wanted}` : [...prompt, Prompt.textPart({ text: wanted })],
    read: (answer) => {
      const json = stripFence(answer)
      const value = Json.parse(json)
      if (Option.isNone(value)) return Result.fail("the answer is not JSON")
      const fitting = decode(value.value)
      return Result.isSuccess(fitting)
        ? Result.succeed(json)
        : Result.fail(TextCut.shorten(fitting.failure.message.replace(/\s+/gu, " "), longest))
    },
    correction: (problem) =>
      `Your answer does not fit the JSON Schema: ${problem}\n\nAnswer again, with the JSON value alone.`
  }
})
