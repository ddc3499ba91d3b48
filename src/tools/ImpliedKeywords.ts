/**
 * Removes keywords from the JSON Schemas of tools that allow the same values if they are absent: `additionalProperties`
 * of open objects, and the bounds of safe integers. `effect/Schema` adds them to every object and integer, and each
 * request contains the schemas of all tools.
 */
import * as Predicate from "effect/Predicate"
import type { JsonSchema } from "effect/JsonSchema"

const implied: ReadonlyArray<readonly [name: string, value: unknown]> = [
  ["additionalProperties", true],
  ["maximum", Number.MAX_SAFE_INTEGER],
  ["minimum", Number.MIN_SAFE_INTEGER]
]

/** Keywords whose values are schemas by name, and keywords whose values are data. */
const named: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"])
const data: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"])

const mapValues = (
  fields: Readonly<Record<string, unknown>>,
  map: (value: unknown) => unknown
): Record<string, unknown> => Object.fromEntries(Object.entries(fields).map(([name, value]) => [name, map(value)]))

const visitKeyword = ([name, value]: readonly [string, unknown]): readonly [string, unknown] => {
  if (data.has(name)) return [name, value]
  return [name, named.has(name) && Predicate.isObject(value) ? mapValues(value, visitValue) : visitValue(value)]
}

const visitSchema = (schema: Readonly<Record<string, unknown>>): Record<string, unknown> =>
  Object.fromEntries(
    Object.entries(schema)
      .filter(([name, value]) => !implied.some(([keyword, omitted]) => keyword === name && omitted === value))
      .map(visitKeyword)
  )

const visitValue = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(visitValue)
  return Predicate.isObject(value) ? visitSchema(value) : value
}

/** Returns a schema without implied keywords, at any depth. The order of the other keywords stays. */
export const omit = (schema: JsonSchema): JsonSchema => visitSchema(schema)
