// The JSON Schemas that the package publishes (draft 2020-12): of config.yaml for editors, of events and hook payloads
// for consumers that are not written in TypeScript. Made of the Schemas, with the doc comments of their fields as
// descriptions.
import * as Schema from "effect/Schema"
import { join } from "node:path"
import * as SettingsShape from "../../src/base/config/internal/SettingsShape.ts"
import * as Tree from "../../src/base/config/internal/Tree.ts"
import { providerKeysKey } from "../../src/base/config/internal/FileKeys.ts"
import { SettingsSchema } from "../../src/base/config/SettingsSchema.ts"
import * as RecordEvent from "../../src/base/domain/RecordEvent.ts"
import * as RunEvent from "../../src/base/domain/RunEvent.ts"
import * as Payloads from "../../src/hooks/Payloads.ts"
import { type FieldDoc, fieldDocs } from "./fieldDocs.ts"
import { src } from "./sources.ts"

/** A JSON Schema. */
export type JsonSchema = Readonly<Record<string, unknown>>

const dialect = "https://json-schema.org/draft/2020-12/schema"

const isObject = (value: unknown): value is JsonSchema =>
  typeof value === "object" && value !== null && !Array.isArray(value)
const objectOf = (value: unknown): JsonSchema => (isObject(value) ? value : {})
const listOf = (value: unknown): ReadonlyArray<JsonSchema> => (Array.isArray(value) ? value.filter(isObject) : [])

/**
 * Place of a value: nothing in it is an absent key, an absent entry of a mapping where it is null, and refused in a
 * list.
 */
type Place = "key" | "entry" | "item"

/** A reference, which the loader replaces before it looks at the type, or nothing, where that may stand. */
const standsIn = (place: Place): JsonSchema => ({ $ref: `#/$defs/${place}` })
const reference = "\\$\\{[^}]+\\}"
const placeDefs: Readonly<Record<Place, JsonSchema>> = {
  key: { anyOf: [{ type: "string", pattern: `^(?:${reference})?$` }, { type: "null" }] },
  entry: { anyOf: [{ type: "string", pattern: `^${reference}$` }, { type: "null" }] },
  item: { type: "string", pattern: `^${reference}$` }
}

/** A mapping, or nothing where that may stand. */
const mappings: Readonly<Record<Place, JsonSchema>> = {
  key: { type: ["object", "null", "string"], maxLength: 0 },
  entry: { type: ["object", "null"] },
  item: { type: "object" }
}

/** Notes of the loader that a type does not show. */
const notes = (shape: Tree.Shape): ReadonlyArray<string> => {
  const facts = shape._tag === "Section" ? {} : shape.facts
  const holds = facts.unsupported?.holds
  return [
    ...(facts.least === undefined ? [] : [`At least ${facts.least}.`]),
    ...(facts.most === undefined ? [] : [`At most ${facts.most}.`]),
    ...(facts.unsupported === undefined || holds === "any" ? [] : ["Has no effect yet."])
  ]
}

const described = (schema: JsonSchema, shape: Tree.Shape, doc: FieldDoc | undefined): JsonSchema => {
  const text = [doc?.text, ...notes(shape)].filter((part) => part !== undefined).join(" ")
  return text === "" ? schema : { description: text, ...schema }
}

const typesOf: Readonly<Record<string, JsonSchema>> = {
  string: { type: "string" },
  number: { type: "number" },
  boolean: { type: "boolean" },
  list: { type: "array" }
}

/** The Schema of a place whose file form is wider than its decoded one. */
const ofShape = (shape: Tree.Shape): JsonSchema => {
  switch (shape._tag) {
    case "Section":
      return {
        type: "object",
        properties: Object.fromEntries(Array.from(shape.fields, ([key, field]) => [key, ofShape(field)]))
      }
    case "MapOf":
      return { type: "object", additionalProperties: ofShape(shape.item) }
    case "ListOf":
      return { type: "array", items: ofShape(shape.item) }
    case "Value":
      return shape.kinds.has("anything") ? {} : { anyOf: Array.from(shape.kinds, (kind) => typesOf[kind] ?? {}) }
  }
}

/**
 * Brings a generated schema to what the loader takes: declared keys alone, references to variables, keys without a
 * value.
 */
const asLoaded = (
  schema: JsonSchema,
  shape: Tree.Shape,
  doc: FieldDoc | undefined,
  defaults: unknown,
  place: Place = "key"
): JsonSchema => {
  switch (shape._tag) {
    case "Section": {
      const properties = objectOf(schema["properties"])
      // A list entry for which a text may stand has no type in the file's form.
      if (schema["properties"] === undefined) {
        const mapping = asLoaded(ofShape(shape), shape, doc, undefined, place)
        return { anyOf: [{ type: "string" }, mapping] }
      }
      return described(
        {
          ...schema,
          ...mappings[place],
          properties: Object.fromEntries(
            Array.from(shape.fields, ([key, field]) => [
              key,
              asLoaded(objectOf(properties[key]), field, doc?.fields.get(key), objectOf(defaults)[key])
            ])
          ),
          additionalProperties: shape.open
        },
        shape,
        doc
      )
    }
    case "MapOf":
      return described(
        {
          ...schema,
          ...mappings[place],
          additionalProperties: asLoaded(
            objectOf(schema["additionalProperties"]),
            shape.item,
            doc && { ...doc, text: undefined },
            undefined,
            "entry"
          )
        },
        shape,
        doc
      )
    case "ListOf": {
      const list = {
        type: "array",
        items: asLoaded(objectOf(schema["items"]), shape.item, doc && { ...doc, text: undefined }, undefined, "item")
      }
      return described({ ...withDefault(defaults), anyOf: [list, standsIn(place)] }, shape, doc)
    }
    case "Value": {
      const known = ["string", "number", "boolean"].includes(typeof defaults) ? withDefault(defaults) : {}
      if (shape.kinds.has("anything")) return described({ ...known, ...schema }, shape, doc)
      const branches = listOf(schema["anyOf"]).length > 0 ? listOf(schema["anyOf"]) : [schema]
      const { section } = shape
      const own = branches.map((branch) =>
        section !== undefined && isObject(branch["properties"])
          ? asLoaded(branch, section, doc && { ...doc, text: undefined }, undefined)
          : branch
      )
      if (branches.length === 1 && JSON.stringify(schema) === '{"type":"string"}' && shape.facts.scalars !== true) {
        return described({ ...known, type: place === "item" ? "string" : ["string", "null"] }, shape, doc)
      }
      // The loader takes a number or a boolean for its text, and words for a boolean, where a key says so.
      const scalars = shape.facts.scalars === true ? [{ type: ["number", "boolean"] }] : []
      const words =
        shape.facts.words === true ? [{ type: "string", enum: ["yes", "no", "on", "off", "true", "false"] }] : []
      return described({ ...known, anyOf: [...own, ...scalars, ...words, standsIn(place)] }, shape, doc)
    }
  }
}

const withDefault = (value: unknown): JsonSchema => (value === undefined ? {} : { default: value })

/** The JSON Schema of `config.yaml`. */
const config = (): JsonSchema => {
  const docs = fieldDocs(
    ["Fields", "ProgramSections", "SettingSections", "SettingsSchema", "PermissionMode"].map((name) =>
      join(src, "base/config", `${name}.ts`)
    )
  )
  const defaults = Schema.encodeUnknownSync(SettingsSchema)(Schema.decodeUnknownSync(SettingsSchema)({}))
  const { definitions, schema } = Schema.toJsonSchemaDocument(SettingsSchema)
  if (Object.keys(definitions).length > 0) throw new Error("config.yaml: a recursive setting needs $defs in its schema")
  const { properties, ...rest } = asLoaded(schema, SettingsShape.getRootShape(), docs("fields"), defaults)
  const pools = objectOf(objectOf(objectOf(properties)[providerKeysKey])["additionalProperties"])
  const { [providerKeysKey]: _, ...keys } = objectOf(properties)
  return {
    $schema: dialect,
    title: "config.yaml of hermes",
    ...rest,
    description: "Settings of hermes. `hermes config check` reports what a file gets wrong.",
    properties: keys,
    $defs: placeDefs,
    additionalProperties: {
      ...pools,
      description: "Keys of a provider, by its name.",
      type: "object",
      required: ["api_keys"]
    }
  }
}

/** Adds the doc comments of a module's Schemas to the members of a union that carry their names. */
const withDocs = (schema: JsonSchema, docs: (name: string) => FieldDoc): JsonSchema => {
  const tag = objectOf(objectOf(schema["properties"])["_tag"])["enum"]
  const doc = Array.isArray(tag) ? docs(String(tag[0])) : undefined
  const properties = Object.entries(objectOf(schema["properties"])).map(([key, value]) => {
    const text = doc?.fields.get(key)?.text
    const inner = withDocs(objectOf(value), docs)
    return [key, text === undefined ? inner : { description: text, ...inner }]
  })
  return {
    ...(doc?.text === undefined ? {} : { description: doc.text }),
    ...schema,
    ...(properties.length === 0 ? {} : { properties: Object.fromEntries(properties) }),
    ...(listOf(schema["anyOf"]).length === 0
      ? {}
      : { anyOf: listOf(schema["anyOf"]).map((member) => withDocs(member, docs)) })
  }
}

const events = (
  title: string,
  description: string,
  of: Schema.Constraint,
  modules: ReadonlyArray<string>
): JsonSchema => {
  const { definitions, schema } = Schema.toJsonSchemaDocument(of)
  const docs = fieldDocs(modules.map((name) => join(src, "base/domain", `${name}.ts`)))
  return {
    $schema: dialect,
    title,
    description,
    ...withDocs(schema, docs),
    ...(Object.keys(definitions).length === 0 ? {} : { $defs: definitions })
  }
}

/** The JSON Schema of a payload, with the comments of its row of the table. */
const payload = (name: Payloads.HookName, row: FieldDoc | undefined): JsonSchema => {
  const { $schema, $id, properties, title, ...rest } = Payloads.makeJsonSchema(name)
  const fields = row?.fields.get("payload")?.fields
  return {
    $schema,
    $id,
    title,
    ...(row?.text === undefined ? {} : { description: row.text }),
    ...rest,
    properties: Object.fromEntries(
      Object.entries(objectOf(properties)).map(([key, value]) => {
        const text = key === "telemetry_schema_version" ? "Version of the payloads." : fields?.get(key)?.text
        return [key, text === undefined ? value : { description: text, ...objectOf(value) }]
      })
    )
  }
}

const payloads = (): Readonly<Record<string, JsonSchema>> => {
  const { fields } = fieldDocs([join(src, "hooks/PayloadTable.ts")])("table")
  return Object.fromEntries(Payloads.names.map((name) => [`hooks/${name}.json`, payload(name, fields.get(name))]))
}

/** Every published schema by the name of its file. */
export const jsonSchemas = (): Readonly<Record<string, JsonSchema>> => ({
  "config.json": config(),
  "run-event.json": events(
    "RunEvent",
    "Events of a run, version 1. A reader skips a `_tag` that it does not know.",
    RunEvent.RunEvent,
    ["RunEvent", "FileChange", "Cost", "Usage"]
  ),
  "record-event.json": events(
    "Entry",
    "An event of the run record with its run, its session and its time.",
    RecordEvent.Entry,
    ["RunEvent", "FileChange", "Cost", "Usage", "RecordEvent"]
  ),
  ...payloads()
})
