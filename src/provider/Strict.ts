/**
 * Whether a JSON Schema can be enforced strictly by OpenAI's structured outputs: every object lists all its properties as
 * required and allows no others.
 *
 * @since 0.1.0
 */
import * as Raw from "./Raw.ts"

const single = ["items", "not", "additionalItems", "contains"]
const lists = ["anyOf", "oneOf", "allOf", "prefixItems"]
const tables = ["properties", "$defs", "definitions"]

const isObjectSchema = (schema: Raw.Fields): boolean =>
  schema["type"] === "object" || schema["properties"] !== undefined ||
  Raw.items(schema["type"]).includes("object")

const isClosed = (schema: Raw.Fields): boolean => {
  const required = Raw.items(schema["required"])
  return schema["additionalProperties"] === false &&
    Object.keys(Raw.fields(schema["properties"])).every((name) => required.includes(name))
}

/** See the module. */
export const holds = (schema: unknown): boolean => {
  if (!Raw.isFields(schema)) return true
  if (isObjectSchema(schema) && !isClosed(schema)) return false
  return single.every((name) => holds(schema[name])) &&
    lists.every((name) => Raw.items(schema[name]).every(holds)) &&
    tables.every((name) => Object.values(Raw.fields(schema[name])).every(holds))
}
