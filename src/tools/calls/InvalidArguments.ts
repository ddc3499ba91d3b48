/** Arguments of a tool call that do not match the parameters of the tool, described for the model. */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

/** The arguments are a JSON object that does not match the parameters of the tool. */
export class InvalidArguments extends Schema.TaggedError<InvalidArguments>("hermes-effect/InvalidArguments")(
  "InvalidArguments",
  {
    tool: Schema.String,
    problem: Schema.String,
    /** Textual description of the parameters. */
    parameters: Schema.String
  }
) {
  override get message(): string {
    return (
      `The arguments of '${this.tool}' do not fit: ${this.problem}. ` +
      (this.parameters === "" ? "" : `Parameters: ${this.parameters}. `) +
      "Call it again with arguments that fit."
    )
  }
}

const describeType = (schema: unknown): string => {
  if (!Predicate.isObject(schema)) return "any"
  const values: unknown = Reflect.get(schema, "enum")
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ")
  const several: unknown = Reflect.get(schema, "anyOf") ?? Reflect.get(schema, "oneOf")
  if (Array.isArray(several)) return Array.from(new Set(several.map(describeType))).join(" | ")
  const type: unknown = Reflect.get(schema, "type")
  if (type === "array") return `array of ${describeType(Reflect.get(schema, "items"))}`
  return Array.isArray(type) ? type.join(" | ") : typeof type === "string" ? type : "any"
}

/** Describes the parameters of a JSON Schema in words: `city (string, required), days (integer)`. */
export const describeParameters = (schema: object): string => {
  const properties: unknown = Reflect.get(schema, "properties")
  const required: unknown = Reflect.get(schema, "required")
  if (!Predicate.isObject(properties)) return ""
  return Object.entries(properties)
    .map(
      ([name, property]) =>
        `${name} (${describeType(property)}${Array.isArray(required) && required.includes(name) ? ", required" : ""})`
    )
    .join(", ")
}
