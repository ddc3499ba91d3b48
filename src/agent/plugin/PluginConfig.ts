/**
 * Settings of a plugin: `plugins.entries.<key>` in the configuration, decoded by the Schema in the plugin's code and by
 * the declarations in its manifest. An error names the plugin's key, the setting, the file and the line.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as SchemaAST from "effect/SchemaAST"
import * as ConfigFile from "../../base/config/ConfigFile.ts"
import { Home } from "../../base/config/Environment.ts"
import { Secrets, registerSecrets } from "../../base/domain/Secrets.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"
import * as ConfigFields from "./ConfigFields.ts"
import type { Manifest } from "./Manifest.ts"

/** Settings of a plugin as written in the configuration. */
export type Values = Readonly<Record<string, unknown>>

/** Error raised for an invalid setting. `path` leads to it from `plugins.entries.<key>`. */
export class InvalidConfig extends Schema.TaggedError<InvalidConfig>("hermes-effect/plugin/InvalidConfig")(
  "InvalidConfig",
  { path: Schema.Array(Schema.String), message: Schema.String }
) {}

export { GivenConfig } from "./GivenConfig.ts"

/** Settings that the program reads itself. */
const reserved = ["allow_tool_override"]

/** Decodes settings with a Schema, in camelCase or snake_case. Registers its secrets. */
export const decodeSchema = <A>(schema: Schema.Decoder<A>, values: Values): Effect.Effect<A, InvalidConfig> => {
  const result = MiddlewareDefinition.decode(schema, values)
  if (Result.isSuccess(result)) return Effect.as(registerSecrets(result.success), result.success)
  const { message, path } = result.failure
  const [first, ...rest] = path
  const spelled = Object.keys(values).find((name) => MiddlewareDefinition.toCamelCase(name) === first)
  const shown = first === undefined ? [] : [spelled ?? toSnakeCase(first), ...rest]
  return Effect.fail(new InvalidConfig({ path: shown, message }))
}

const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

/**
 * Returns the settings of a plugin after the declarations of its manifest were applied. Without declarations they are
 * returned unchanged. Registers its secrets.
 */
export const decodeDeclared = Effect.fnUntraced(function* (
  { config }: Pick<Manifest, "config">,
  given: Values
): Effect.fn.Return<Values, InvalidConfig> {
  const values = Object.fromEntries(Object.entries(given).filter(([name]) => !reserved.includes(name)))
  if (config.fields.length === 0) return values
  const decoded = yield* Effect.mapError(
    Effect.fromResult(ConfigFields.decodeDeclared(config.fields, values)),
    (problem) => new InvalidConfig(problem)
  )
  const registry = yield* Secrets
  for (const { isSecret, name } of config.fields) {
    const value = decoded[name]
    if (isSecret && typeof value === "string") registry.add(value)
  }
  return decoded
})

/** Returns the message of an invalid setting with its file, line and place, as the user finds it. */
export const locateProblem = Effect.fnUntraced(function* (
  key: string,
  { message, path }: InvalidConfig
): Effect.fn.Return<string, never, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  const home = yield* Effect.serviceOption(Home)
  const text = Option.match(home, {
    onNone: () => Effect.succeed(""),
    onSome: ({ config }) => Effect.orElseSucceed(fs.readFileString(config), () => "")
  })
  const folder = Option.match(home, { onNone: () => "", onSome: ({ root }) => root })
  const error = yield* ConfigFile.makeError(
    { name: "config.yaml", folder, text },
    ["plugins", "entries", key, ...path],
    message
  )
  return error.message
})

const describeType = (property: unknown): string => {
  if (!Predicate.isObject(property)) return "value"
  if (Array.isArray(property["enum"])) return property["enum"].map((one) => JSON.stringify(one)).join(" | ")
  if (typeof property["type"] === "string") return property["type"] === "array" ? "list" : property["type"]
  const parts: unknown = property["anyOf"] ?? property["oneOf"]
  if (!Array.isArray(parts)) return "value"
  const names = parts.map(describeType).filter((name) => name !== "null")
  return Array.from(new Set(names)).join(" | ")
}

const isRedacted = (ast: SchemaAST.AST): boolean => {
  const type = SchemaAST.toType(ast)
  if (SchemaAST.isUnion(type)) return type.types.some(isRedacted)
  const representation: unknown = SchemaAST.isDeclaration(type) ? type.annotations?.["representation"] : undefined
  return Predicate.isObject(representation) && representation["id"] === "effect/schema/Redacted"
}

const isObjectSchema = (schema: Schema.Top): schema is Schema.Top & { readonly fields: Schema.Struct.Fields } =>
  Predicate.hasProperty(schema, "fields") && Predicate.isObject(schema.fields)

/** Lists the settings of a Schema for display. The list is empty for a Schema that is not a struct. */
export const describeSchema = (schema: Schema.Top): ReadonlyArray<ConfigFields.ConfigField> => {
  if (!isObjectSchema(schema)) return []
  const { fields } = schema
  const described = Schema.toJsonSchemaDocument(schema).schema
  const properties: unknown = described["properties"]
  const required: unknown = described["required"]
  return Object.entries(fields).map(([name, field]) => {
    const property: unknown = Predicate.isObject(properties) ? properties[name] : undefined
    const description: unknown = Predicate.isObject(property) ? property["description"] : undefined
    const isSecret = isRedacted(field.ast)
    // A field whose decoding needs services dies here as it does when the plugin is built.
    const alone = Schema.Struct({ [name]: field as Schema.Decoder<unknown> })
    const empty = Schema.decodeUnknownResult(alone)({})
    return {
      name: toSnakeCase(name),
      type: describeType(property),
      isRequired: Array.isArray(required) && required.includes(name),
      isSecret,
      description: typeof description === "string" ? description : "",
      fallback: Result.isSuccess(empty) && !isSecret ? empty.success[name] : undefined
    }
  })
}
