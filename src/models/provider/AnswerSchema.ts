/**
 * Adapts the JSON Schemas that constrain answers to the structured outputs of each protocol.
 *
 * **Details**
 *
 * OpenAI enforces a schema strictly only if every object lists all its properties as required and allows no others.
 * Claude requires closed objects and supports only a part of JSON Schema, so unsupported keywords are written into the
 * `description` of their schema. If the model or the API has no field for a schema, the schema is added to the system
 * prompt as an instruction.
 */
import type * as JsonSchema from "effect/JsonSchema"
import * as Json from "../../base/domain/Json.ts"
import type { ModelCall } from "../../base/domain/ModelCall.ts"

// OpenAI

const single = ["items", "not", "additionalItems", "contains"]
const lists = ["anyOf", "oneOf", "allOf", "prefixItems"]
const tables = ["properties", "$defs", "definitions"]

const isObjectSchema = (schema: Json.Fields): boolean =>
  schema["type"] === "object" || schema["properties"] !== undefined || Json.readItems(schema["type"]).includes("object")

const isClosed = (schema: Json.Fields): boolean => {
  const required = Json.readItems(schema["required"])
  return (
    schema["additionalProperties"] === false &&
    Object.keys(Json.readFields(schema["properties"])).every((name) => required.includes(name))
  )
}

/** Keywords that OpenAI refuses in a schema that it enforces strictly. */
const notStrict = ["oneOf", "allOf", "not", "prefixItems"]

/** Tests whether OpenAI can enforce a schema strictly. */
export const isStrict = (schema: unknown): boolean => {
  if (!Json.isFields(schema)) return true
  if (isObjectSchema(schema) && !isClosed(schema)) return false
  if (notStrict.some((keyword) => schema[keyword] !== undefined)) return false
  return (
    single.every((name) => isStrict(schema[name])) &&
    lists.every((name) => Json.readItems(schema[name]).every(isStrict)) &&
    tables.every((name) => Object.values(Json.readFields(schema[name])).every(isStrict))
  )
}

// Claude

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
const formats = new Set(["date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"])
/** Keywords that do not constrain values and are dropped. */
const silent = new Set(["$schema", "$id", "$comment", "additionalProperties"])

const closeEachValue = (value: unknown): unknown =>
  Json.isFields(value)
    ? Object.fromEntries(Object.entries(value).map(([key, schema]) => [key, closeSchema(schema)]))
    : value

const closeKeyword = (key: string, value: unknown): unknown => {
  switch (key) {
    case "properties":
    case "$defs":
    case "definitions":
      return closeEachValue(value)
    case "items":
      return closeSchema(value)
    case "anyOf":
    case "allOf":
      return Array.isArray(value) ? value.map(closeSchema) : value
    default:
      return value
  }
}

/** Returns the schema in the form that Claude accepts. */
export const closeSchema = (schema: unknown): unknown => {
  if (!Json.isFields(schema)) return schema
  const out: Record<string, unknown> = {}
  const refused: Record<string, unknown> = {}
  for (const [key, value] of Object.entries(schema)) {
    if (structural.has(key)) out[key] = closeKeyword(key, value)
    else if (key === "oneOf") out["anyOf"] = closeKeyword("anyOf", value)
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

/** Tests whether an object schema allows properties that it does not name. */
const hasFreeNames = (schema: Json.Fields): boolean => {
  if (!isObjectSchema(schema)) return false
  const others = schema["additionalProperties"]
  return (
    Json.isFields(others) ||
    schema["patternProperties"] !== undefined ||
    schema["propertyNames"] !== undefined ||
    (others !== false && schema["properties"] === undefined)
  )
}

/** Returns the schema that a reference within a document names, or `undefined`. */
const findReferred = (root: Json.Fields, reference: string): unknown =>
  reference === "#"
    ? root
    : reference
        .split("/")
        .slice(1)
        .reduce<unknown>((found, key) => Json.readFields(found)[key.replaceAll("~1", "/").replaceAll("~0", "~")], root)

/**
 * Tests whether Claude can enforce a schema: it has no tuples and no objects with free names, which {@link closeSchema}
 * would empty, and does not refer to itself. Any other schema is an instruction.
 */
const isClosable = (root: unknown): boolean => {
  if (!Json.isFields(root)) return true
  /** Verdicts on referred schemas; false while a schema is tested, because a reference to it is a circle. */
  const known = new Map<unknown, boolean>()
  const isReferenceSound = (reference: string): boolean => {
    const referred = findReferred(root, reference)
    const verdict = known.get(referred)
    if (verdict !== undefined) return verdict
    known.set(referred, false)
    const sound = isSound(referred)
    known.set(referred, sound)
    return sound
  }
  const isSound = (schema: unknown): boolean => {
    if (!Json.isFields(schema)) return true
    if (hasFreeNames(schema) || schema["prefixItems"] !== undefined) return false
    if (typeof schema["$ref"] === "string" && !isReferenceSound(schema["$ref"])) return false
    return (
      single.every((key) => isSound(schema[key])) &&
      lists.every((key) => Json.readItems(schema[key]).every(isSound)) &&
      Object.values(Json.readFields(schema["properties"])).every(isSound)
    )
  }
  return isReferenceSound("#")
}

/** Renders the instruction that replaces the schema field of a request. */
const renderInstruction = (schema: JsonSchema.JsonSchema): string =>
  `Answer with one JSON document and nothing else: no prose, no code fence. It must match this JSON Schema:\n${JSON.stringify(
    schema
  )}`

type JsonFormat = Extract<ModelCall["responseFormat"], { readonly type: "json" }>

/** The answer format of a call: a field of the request or, if the model cannot enforce it, an instruction. */
export interface FormatPlan {
  readonly field: JsonFormat | undefined
  readonly instruction: string | undefined
}

/** Plans the answer format of a call for a Claude model. `isEnforced` is true if the model takes a schema. */
export const planFormat = ({ responseFormat }: Pick<ModelCall, "responseFormat">, isEnforced: boolean): FormatPlan => {
  if (responseFormat.type !== "json") return { field: undefined, instruction: undefined }
  return isEnforced && isClosable(responseFormat.schema)
    ? { field: responseFormat, instruction: undefined }
    : { field: undefined, instruction: renderInstruction(responseFormat.schema) }
}
