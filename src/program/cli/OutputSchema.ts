/**
 * `--output-schema FILE`: requires an answer in JSON that matches a schema, for scripts. The first answer that does not
 * match is sent back once for correction. Only the JSON is printed.
 *
 * Source: `hermes-product.md` §1.4.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as AgentError from "../../base/domain/AgentError.ts"
import * as AnswerFormat from "../../base/domain/AnswerFormat.ts"
import * as Json from "../../base/domain/Json.ts"
import * as JsonSchemaFormat from "../../base/domain/JsonSchemaFormat.ts"
import type { RunResult } from "../../base/domain/RunEvent.ts"
import * as SafeText from "./render/SafeText.ts"
import { type Failure, makeUsageFailure, makeWorkFailure } from "./Failure.ts"

/** Reads a schema. A file that is not a valid schema is a usage error. */
export const loadSchema = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<AnswerFormat.AnswerFormat<unknown>, Failure, FileSystem.FileSystem> {
  const makeRefusal = (why: string): Failure => makeUsageFailure(`--output-schema ${path} ${why}`)
  const files = yield* FileSystem.FileSystem
  const text = yield* Effect.mapError(files.readFileString(path), ({ message }) =>
    makeRefusal(`cannot be read: ${message}`)
  )
  const format = JsonSchemaFormat.readJsonSchema(Option.getOrUndefined(Json.parse(text)))
  if (Result.isFailure(format)) return yield* makeRefusal(format.failure)
  return { ...format.success, maxCorrections: 1 }
})

/** Returns a result whose text is the JSON of its value alone. */
export const toJsonResult = ({ unwrap }: AnswerFormat.AnswerFormat<unknown>, result: RunResult): RunResult => {
  const text = unwrap === undefined ? AnswerFormat.findJson(result.text) : JSON.stringify(result.value)
  return text === undefined ? result : { ...result, text }
}

/** Names the option in the failure of a run without a value. */
export const toSchemaFailure = <E>(error: E): E | Failure =>
  error instanceof AgentError.InvalidOutput && error.exit === "text_response"
    ? makeWorkFailure(
        `the answer does not match --output-schema: ${SafeText.toLine(error.problem)}. Simplify the ` +
          "schema, or use another model with --model"
      )
    : error
