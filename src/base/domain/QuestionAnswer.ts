/**
 * Answers to questions: the check of an answer by the schema of its question, and the conversion of a line that a user
 * typed to an answer.
 */
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Json from "./Json.ts"
import type { Question } from "./Question.ts"

/** The part of a question that its answer depends on. */
export type Asked = Pick<Question, "kind" | "schema">

/** Decodes an answer by the JSON Schema of its question. Fails with a description of every mistake. */
export const decodeAnswer = (schema: Question["schema"], answer: unknown): Effect.Effect<unknown, string> => {
  if (answer === undefined) return Effect.fail("it is missing")
  if (Object.keys(schema).length === 0) return Effect.succeed(answer)
  return Effect.flatMap(
    Effect.promise(() => import("./JsonSchemaFormat.ts")),
    ({ readJsonSchema }) => {
      const format = readJsonSchema(schema)
      if (Result.isFailure(format)) return Effect.fail(`the schema of the question ${format.failure}`)
      const { decode, unwrap } = format.success
      return decode(unwrap === undefined ? answer : { value: answer })
    }
  )
}

/** The answer that declines a question, if its schema permits it. */
export const declined = "decline"

const declinedSchema = { type: "string", enum: [declined] }

/** Returns the schema of an answer that may also be {@link declined}. */
export const addDeclined = (schema: Question["schema"]): Question["schema"] => ({ anyOf: [schema, declinedSchema] })

/** Returns the schema to which {@link addDeclined} was applied; `undefined` for any other schema. */
export const removeDeclined = ({ anyOf }: Question["schema"]): Question["schema"] | undefined => {
  const [schema, other, ...more] = Json.readItems(anyOf)
  const isAdded = more.length === 0 && JSON.stringify(other) === JSON.stringify(declinedSchema)
  return isAdded && Json.isFields(schema) ? schema : undefined
}

/** An answer to an approval. `session` and `always` also allow the same request later. */
export type ApprovalChoice = "once" | "session" | "always" | "deny"

const approvalWords: ReadonlyMap<string, ApprovalChoice> = new Map([
  ["y", "once"],
  ["yes", "once"],
  ["once", "once"],
  ["session", "session"],
  ["always", "always"],
  ["n", "deny"],
  ["no", "deny"],
  ["deny", "deny"]
])

const booleanWords: ReadonlyMap<string, boolean> = new Map([
  ["y", true],
  ["yes", true],
  ["n", false],
  ["no", false]
])

/** Reads a word such as `y`, `always` or `no` as the answer to an approval, in any case of its letters. */
export const readApprovalWord = (word: string): ApprovalChoice | undefined =>
  approvalWords.get(word.trim().toLowerCase())

const readApproval = (line: string): unknown => {
  const choice = readApprovalWord(line)
  if (choice !== undefined) return { choice }
  const json = Option.getOrUndefined(Json.parse(line))
  return Json.isFields(json) ? json : { choice: "deny", ...(line === "" ? {} : { reason: line }) }
}

const isText = ({ type }: Question["schema"]): boolean => type === "string"

/**
 * Reads a line as an answer. For an approval, a line that is not a clear yes is a denial with the line as its reason.
 * For a text, the line is the answer. Any other answer is JSON, or the line itself if it is not JSON.
 */
export const readTyped = ({ kind, schema }: Asked, line: string): unknown => {
  const words = line.trim()
  if (kind === "approval") return readApproval(words)
  if (kind === "text" || isText(schema)) return line
  const word = schema["type"] === "boolean" ? booleanWords.get(words.toLowerCase()) : undefined
  return word ?? Option.getOrElse(Json.parse(words), () => words)
}

const decodeChoices = Schema.decodeUnknownOption(Schema.Array(Schema.String))

/** Lists the answers that a question offers as words. The list is empty if its answer is free. */
export const listWords = ({ schema }: Pick<Question, "schema">): ReadonlyArray<string> =>
  schema["type"] === "boolean" ? ["yes", "no"] : Option.getOrElse(decodeChoices(schema["enum"]), () => [])

/** Lists the choices of an approval. */
export const listChoices = ({ schema }: Pick<Question, "schema">): ReadonlyArray<string> =>
  Option.getOrElse(decodeChoices(Json.readFields(Json.readFields(schema["properties"])["choice"])["enum"]), () => [
    "once",
    "deny"
  ])
