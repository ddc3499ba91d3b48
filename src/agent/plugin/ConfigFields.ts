/**
 * Settings that a manifest declares under `config`, for plugins without a Schema. Pure.
 *
 * **Details**
 *
 * A declaration is the name of a type (`limit: number`) or a mapping with `type` (`string`, `number`, `integer`,
 * `boolean`, `list`, `object`), `default`, `description`, `required`, `secret`, `enum`, `minimum` and `maximum`. The
 * form of a JSON Schema, `{ type: object, properties, required }`, is also accepted.
 *
 * **Example** (The declarations of a plugin)
 *
 * ```yaml
 * config:
 *   limit: { type: number, default: 1, minimum: 0, description: Dollars of one run }
 *   api_key: { type: string, required: true, secret: true }
 * ```
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Json from "../../base/domain/Json.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"

const types = ["string", "number", "integer", "boolean", "list", "object"] as const

/** A setting of a plugin, for display. */
export interface ConfigField {
  readonly name: string
  readonly type: string
  readonly isRequired: boolean
  readonly isSecret: boolean
  readonly description: string
  /** Value that applies if the setting is absent; `undefined` without a default. */
  readonly fallback: unknown
}

/** A setting that a manifest declares. */
export interface DeclaredField extends ConfigField {
  readonly type: (typeof types)[number]
  /** Allowed values; empty if all values of the type are allowed. */
  readonly choices: ReadonlyArray<unknown>
  readonly minimum: number | undefined
  readonly maximum: number | undefined
}

/** An invalid declaration or setting, with its place. */
export interface Problem {
  readonly path: ReadonlyArray<string>
  readonly message: string
}

/** The declarations of a manifest, and the invalid ones. */
export interface Declarations {
  readonly fields: ReadonlyArray<DeclaredField>
  readonly problems: ReadonlyArray<Problem>
}

/** The declarations of a manifest without `config`. */
export const none: Declarations = { fields: [], problems: [] }

const keys = ["type", "default", "description", "required", "secret", "enum", "minimum", "maximum"]

const isType = (value: unknown): value is DeclaredField["type"] => types.some((type) => type === value)

const readType = (value: unknown): DeclaredField["type"] | undefined =>
  value === "array" ? "list" : isType(value) ? value : undefined

const readNumber = (value: unknown): number | undefined => (typeof value === "number" ? value : undefined)

const hasType = (type: DeclaredField["type"], value: unknown): boolean => {
  switch (type) {
    case "string":
    case "boolean":
      return typeof value === type
    case "number":
      return typeof value === "number" && Number.isFinite(value)
    case "integer":
      return Number.isSafeInteger(value)
    case "list":
      return Array.isArray(value)
    case "object":
      return Predicate.isObject(value) && !Array.isArray(value)
  }
}

const nouns: Readonly<Record<DeclaredField["type"], string>> = {
  string: "a string",
  number: "a number",
  integer: "an integer",
  boolean: "true or false",
  list: "a list",
  object: "a mapping"
}

const describeExpected = ({ choices, maximum, minimum, type }: DeclaredField): string => {
  if (choices.length > 0) return `expected one of ${choices.map((choice) => JSON.stringify(choice)).join(", ")}`
  const least = minimum === undefined ? "" : ` of ${minimum} or more`
  const most = maximum === undefined ? "" : `${minimum === undefined ? " of" : " and"} at most ${maximum}`
  return `expected ${nouns[type]}${least}${most}`
}

const isAllowed = (field: DeclaredField, value: unknown): boolean =>
  hasType(field.type, value) &&
  (field.choices.length === 0 || field.choices.includes(value)) &&
  (typeof value !== "number" || (value >= (field.minimum ?? -Infinity) && value <= (field.maximum ?? Infinity)))

const readField = (name: string, given: unknown, required: ReadonlyArray<unknown>) => {
  const facts = Json.isFields(given) ? given : { type: given }
  const type = readType(facts["type"])
  const makeProblem = (key: string | undefined, message: string) =>
    Result.fail<Problem>({ path: key === undefined ? [name] : [name, key], message })
  if (type === undefined) {
    const place = Json.isFields(given) && Object.hasOwn(given, "type") ? "type" : undefined
    return makeProblem(place, `expected a type, one of ${types.join(", ")}`)
  }
  const unknown = Object.keys(facts).find((key) => !keys.includes(key) && findNearest(key, keys) !== undefined)
  if (unknown !== undefined) return makeProblem(unknown, MiddlewareDefinition.describeUnknownName(unknown, keys))
  const field: DeclaredField = {
    name,
    type,
    isRequired: facts["required"] === true || required.includes(name),
    isSecret: facts["secret"] === true,
    description: typeof facts["description"] === "string" ? facts["description"] : "",
    fallback: facts["default"],
    choices: Array.isArray(facts["enum"]) ? facts["enum"] : [],
    minimum: readNumber(facts["minimum"]),
    maximum: readNumber(facts["maximum"])
  }
  return field.fallback !== undefined && !isAllowed(field, field.fallback)
    ? makeProblem("default", describeExpected(field))
    : Result.succeed(field)
}

/** Reads the value of `config` in a manifest. */
export const readDeclarations = (given: unknown): Declarations => {
  if (given === undefined || given === null) return none
  if (!Json.isFields(given)) return { fields: [], problems: [{ path: [], message: "expected a mapping of settings" }] }
  const isJsonSchema = given["type"] === "object" && Json.isFields(given["properties"])
  const properties = isJsonSchema && Json.isFields(given["properties"]) ? given["properties"] : given
  const required = isJsonSchema && Array.isArray(given["required"]) ? given["required"] : []
  const read = Object.entries(properties).map(([name, field]) => readField(name, field, required))
  return {
    fields: read.flatMap((one) => (Result.isSuccess(one) ? [one.success] : [])),
    problems: read.flatMap((one) =>
      Result.isFailure(one)
        ? [{ ...one.failure, path: isJsonSchema ? ["properties", ...one.failure.path] : one.failure.path }]
        : []
    )
  }
}

/** Decodes the settings of a plugin: checks each value and applies the defaults. Fails with the first problem. */
export const decodeDeclared = (
  fields: ReadonlyArray<DeclaredField>,
  given: Readonly<Record<string, unknown>>
): Result.Result<Readonly<Record<string, unknown>>, Problem> => {
  const names = fields.map(({ name }) => name)
  const stranger = Object.keys(given).find((name) => !names.includes(name))
  if (stranger !== undefined)
    return Result.fail({ path: [stranger], message: MiddlewareDefinition.describeUnknownName(stranger, names) })
  const decoded: Record<string, unknown> = {}
  for (const field of fields) {
    const value = given[field.name] ?? field.fallback
    if (value === undefined) {
      if (field.isRequired) return Result.fail({ path: [field.name], message: `missing, ${describeExpected(field)}` })
    } else if (!isAllowed(field, value)) return Result.fail({ path: [field.name], message: describeExpected(field) })
    else decoded[field.name] = value
  }
  return Result.succeed(decoded)
}
