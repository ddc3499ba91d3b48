/**
 * Why a tool call could not be tried. Each says to the model what was wrong and how to call again.
 *
 * **Details**
 *
 * A call that the output limit cut is none of these: nothing of its answer is stored, and the same question is asked again.
 *
 * Source: `hermes-llm.md` §13.3 and §13.4, `hermes-product.md` §2.1.
 */
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"

/** Characters of what the model wrote that are shown to it again. */
const shown = 200

/** No tool of that name, and none that can be meant by it. */
export class UnknownTool extends Schema.TaggedError<UnknownTool>("hermes-effect/UnknownTool")("UnknownTool", {
  tool: Schema.String,
  available: Schema.Array(Schema.String)
}) {
  override get message(): string {
    const available = this.available.length === 0 ? "none" : this.available.toSorted().join(", ")
    return `Tool '${this.tool}' does not exist. Available tools: ${available}`
  }
}

/** Arguments that are no JSON object, and that can not be read as one. */
export class MalformedArguments extends Schema.TaggedError<MalformedArguments>("hermes-effect/MalformedArguments")(
  "MalformedArguments",
  {
    tool: Schema.String,
    given: Schema.String,
    reason: Schema.String
  }
) {
  override get message(): string {
    const given = this.given.length > shown ? `${this.given.slice(0, shown)}…` : this.given
    return `The arguments of '${this.tool}' are not a JSON object (${this.reason}): ${given}. ` +
      "Call it again with valid JSON; use {} for a tool without parameters."
  }
}

/** A JSON object that does not fit the parameters of the tool. */
export class InvalidArguments extends Schema.TaggedError<InvalidArguments>("hermes-effect/InvalidArguments")("InvalidArguments", {
  tool: Schema.String,
  problem: Schema.String,
  /** The parameters, in words. */
  parameters: Schema.String
}) {
  override get message(): string {
    return `The arguments of '${this.tool}' do not fit: ${this.problem}. ` +
      (this.parameters === "" ? "" : `Parameters: ${this.parameters}. `) +
      "Call it again with arguments that fit."
  }
}

/** The run may make no more tool calls. */
export class OverQuota extends Schema.TaggedError<OverQuota>("hermes-effect/OverQuota")("OverQuota", {
  tool: Schema.String
}) {
  override get message(): string {
    return `'${this.tool}' was not run: the tool calls of this request are used up. Answer with what you have.`
  }
}

/** Why a tool call could not be tried. */
export type CallError = UnknownTool | MalformedArguments | InvalidArguments | OverQuota

const typeOf = (schema: unknown): string => {
  if (!Predicate.isObject(schema)) return "any"
  const values: unknown = Reflect.get(schema, "enum")
  if (Array.isArray(values)) return values.map((value) => JSON.stringify(value)).join(" | ")
  const several: unknown = Reflect.get(schema, "anyOf") ?? Reflect.get(schema, "oneOf")
  if (Array.isArray(several)) return Array.from(new Set(several.map(typeOf))).join(" | ")
  const type: unknown = Reflect.get(schema, "type")
  if (type === "array") return `array of ${typeOf(Reflect.get(schema, "items"))}`
  return Array.isArray(type) ? type.join(" | ") : typeof type === "string" ? type : "any"
}

/** The parameters of a JSON Schema in words: `city (string, required), days (integer)`. */
export const parametersOf = (schema: object): string => {
  const properties: unknown = Reflect.get(schema, "properties")
  const required: unknown = Reflect.get(schema, "required")
  if (!Predicate.isObject(properties)) return ""
  return Object.entries(properties)
    .map(([name, property]) =>
      `${name} (${typeOf(property)}${Array.isArray(required) && required.includes(name) ? ", required" : ""})`)
    .join(", ")
}
