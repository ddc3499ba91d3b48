/** Reads what schemas of Zod, ArkType, Valibot and Effect say of themselves: their JSON Schema, and their verdicts. */
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as Json from "../../base/domain/Json.ts"

/** Tests whether a value implements Standard Schema. A program without type checks may pass any value. */
export const isStandardSchema = (value: unknown): value is StandardSchemaV1 => {
  if ((typeof value !== "object" && typeof value !== "function") || value === null) return false
  const standard: unknown = Reflect.get(value, "~standard")
  return Json.isFields(standard) && typeof standard["validate"] === "function"
}

/** Returns the JSON Schema of a schema; `undefined` if it has no JSON Schema. Throws what its converter throws. */
export const findJsonSchema = (schema: StandardSchemaV1): unknown => {
  const standard: object = schema["~standard"]
  const converter = "jsonSchema" in standard && typeof standard.jsonSchema === "object" ? standard.jsonSchema : null
  if (converter === null || !("input" in converter) || typeof converter.input !== "function") return undefined
  return converter.input({ target: "draft-2020-12" })
}

const formatIssue = ({ message, path = [] }: StandardSchemaV1.Issue): string => {
  const at = path.map((part) => String(typeof part === "object" ? part.key : part)).join(".")
  return at === "" ? message : `${at}: ${message}`
}

/** Parses the result of a schema. A hand-written schema may return any value. */
export const readCheckResult = (
  result: StandardSchemaV1.Result<unknown>
): { readonly value: unknown } | { readonly problem: string } => {
  if (!Json.isFields(result)) throw new Error("it returned neither a value nor issues")
  if (result.issues !== undefined)
    return { problem: result.issues.map(formatIssue).join("; ") || "its schema gives no reason" }
  if (!("value" in result)) throw new Error("it returned neither a value nor issues")
  return { value: result.value }
}
