/**
 * A JSON Schema that Claude's answer is bound to.
 *
 * **Details**
 *
 * The schema goes into a field of the request where model and API have one, and else into the system prompt as an
 * instruction. Claude wants objects closed and knows a part of JSON Schema only, so that keywords it would refuse are
 * written into the description of their place.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import type * as JsonSchema from "effect/JsonSchema"

const structural = new Set([
  "$ref",
  "$defs",
  "definitions",
  "type",
  "title",
  "description",
  "enum",
  "const",
  "anyOf",
  "allOf",
  "properties",
  "required",
  "items",
  "pattern",
  "default"
])
const formats = new Set([
  "date-time",
  "time",
  "date",
  "duration",
  "email",
  "hostname",
  "uri",
  "ipv4",
  "ipv6",
  "uuid"
])
/** Keywords that say nothing about values. */
const silent = new Set(["$schema", "$id", "$comment", "additionalProperties"])

const eachValue = (value: unknown): unknown =>
  Predicate.isObject(value)
    ? Object.fromEntries(Object.entries(value).map(([key, schema]) => [key, closed(schema)]))
    : value

const inner = (key: string, value: unknown): unknown => {
  switch (key) {
    case "properties":
    case "$defs":
    case "definitions":
      return eachValue(value)
    case "items":
      return closed(value)
    case "anyOf":
    case "allOf":
      return Array.isArray(value) ? value.map(closed) : value
    default:
      return value
  }
}

/** A schema that the API takes; see the module. */
export const closed = (schema: unknown): unknown => {
  if (!Predicate.isObject(schema)) return schema
  const out: Record<string, unknown> = {}
  const refused: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (structural.has(key)) out[key] = inner(key, value)
    else if (key === "oneOf") out["anyOf"] = inner("anyOf", value)
    else if (key === "format" && typeof value === "string" && formats.has(value)) out[key] = value
    else if (key === "minItems" && (value === 0 || value === 1)) out[key] = value
    else if (typeof key === "string" && !silent.has(key)) refused[key] = value
  }
  if (out["type"] === "object" || out["properties"] !== undefined) out["additionalProperties"] = false
  if (Object.keys(refused).length > 0) {
    const said = typeof out["description"] === "string" ? `${out["description"]} ` : ""
    out["description"] = `${said}${JSON.stringify(refused)}`
  }
  return out
}

/** The instruction that stands for such a field. */
export const instruction = (schema: JsonSchema.JsonSchema): string =>
  `Answer with one JSON document and nothing else: no prose, no code fence. It must match this JSON Schema:\n${
    JSON.stringify(schema)
  }`
