/**
 * Tools, tool choice and the form of the answer, in the words of the Messages API.
 *
 * **Details**
 *
 * `none` leaves the tools out (`hermes-llm.md` §4.2). A schema for the answer goes into `output_config` where the API
 * has it, and else into the system prompt as an instruction. The API wants objects closed in such a schema and knows a
 * part of JSON Schema only, so that keywords it would refuse are written into the description of their place.
 *
 * @since 0.1.0
 */
import * as Predicate from "effect/Predicate"
import type * as JsonSchema from "effect/JsonSchema"
import type { ToolChoice, ToolDefinition } from "../../domain/Model.ts"

/** A tool on the wire. */
export interface Tool {
  readonly name: string
  readonly description: string
  readonly input_schema: JsonSchema.JsonSchema
}

/** A converter with a memory: the tools of a run are one array as long as they are the same. */
export const make = (
  toolName: (name: string) => string
): (tools: ReadonlyArray<ToolDefinition>) => ReadonlyArray<Tool> => {
  const known = new WeakMap<ReadonlyArray<ToolDefinition>, ReadonlyArray<Tool>>()
  return (tools) => {
    const before = known.get(tools)
    if (before !== undefined) return before
    const converted = tools.map((tool) => ({
      name: toolName(tool.name),
      description: tool.description,
      input_schema: tool.parameters["type"] === "object"
        ? tool.parameters
        : { properties: {}, ...tool.parameters, type: "object" }
    }))
    known.set(tools, converted)
    return converted
  }
}

/** The choice on the wire; undefined for `none`. */
export const choice = (
  toolChoice: ToolChoice,
  toolName: (name: string) => string
): Readonly<Record<string, string>> | undefined => {
  if (typeof toolChoice === "object") return { type: "tool", name: toolName(toolChoice.tool) }
  switch (toolChoice) {
    case "auto":
      return { type: "auto" }
    case "required":
      return { type: "any" }
    case "none":
      return undefined
  }
}

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

/** The instruction that stands for `output_config` where there is none. */
export const instruction = (schema: JsonSchema.JsonSchema): string =>
  `Answer with one JSON document and nothing else: no prose, no code fence. It must match this JSON Schema:\n${
    JSON.stringify(schema)
  }`
