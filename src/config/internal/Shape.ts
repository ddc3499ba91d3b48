/**
 * Derives from the Schema of the settings what the loader needs: the keys of a mapping, and the kinds of a value.
 */
import * as SchemaAST from "effect/SchemaAST"
import { nearest } from "../../domain/Similarity.ts"
import { type FieldRules, factsKey, type Unsupported } from "../Fields.ts"
import { fileKey, providerKeysKey, SettingsSchema } from "../Settings.ts"

/** A mapping with declared keys, by their names in the file. */
export interface Section {
  readonly _tag: "Section"
  readonly fields: ReadonlyMap<string, Shape>
  readonly open: boolean
}

/** A mapping whose keys the user chooses. */
export interface MapOf {
  readonly _tag: "MapOf"
  readonly item: Shape
  readonly facts: FieldRules
}

/** A list. */
export interface ListOf {
  readonly _tag: "ListOf"
  readonly item: Shape
  readonly facts: FieldRules
}

/** A single value, or one of several kinds. */
export interface Value {
  readonly _tag: "Value"
  readonly kinds: ReadonlySet<"string" | "number" | "boolean" | "list" | "anything">
  readonly expected: string
  readonly facts: FieldRules
}

/** The shape of one place. */
export type Shape = Section | MapOf | ListOf | Value

const factsOf = (ast: SchemaAST.AST): FieldRules => SchemaAST.resolveAt<FieldRules>(factsKey)(ast) ?? {}

const describe = (ast: SchemaAST.AST): string | undefined => SchemaAST.resolveAt<string>("expected")(ast)

const value = (ast: SchemaAST.AST, kinds: Value["kinds"], expected: string): Value => ({
  _tag: "Value",
  kinds,
  expected: describe(ast) ?? expected,
  facts: factsOf(ast)
})

const union = (ast: SchemaAST.Union): Value => {
  const words = ast.types.flatMap((type) => SchemaAST.isLiteral(type) ? [String(type.literal)] : [])
  const kinds = ast.types.map((type) => {
    if (SchemaAST.isBoolean(type)) return "boolean"
    if (SchemaAST.isArrays(type)) return "list"
    return "string"
  })
  return value(ast, new Set(kinds), `one of ${words.join(", ")}`)
}

const section = (ast: SchemaAST.Objects): Section => ({
  _tag: "Section",
  fields: new Map(ast.propertySignatures.map(({ name, type }) => [fileKey(String(name)), of(type)])),
  open: factsOf(ast).open ?? false
})

const of = (ast: SchemaAST.AST): Shape => {
  switch (ast._tag) {
    case "Objects": {
      const [index] = ast.indexSignatures
      return index === undefined ? section(ast) : { _tag: "MapOf", item: of(index.type), facts: factsOf(ast) }
    }
    case "Arrays": {
      const [item] = ast.rest
      return item === undefined
        ? value(ast, new Set(["list"]), "a list")
        : { _tag: "ListOf", item: of(item), facts: factsOf(ast) }
    }
    case "Union":
      return union(ast)
    case "Literal":
      return value(ast, new Set(["string"]), String(ast.literal))
    case "Number":
      return value(ast, new Set(["number"]), "a number")
    case "Boolean":
      return value(ast, new Set(["boolean"]), "true or false")
    case "String":
    case "Declaration":
      return value(ast, new Set(["string"]), "a string")
    default:
      return value(ast, new Set(["anything"]), "anything")
  }
}

let cached: Section | undefined

/** The shape of the whole file. */
export const root = (): Section => cached ??= section(SettingsSchema.ast)

/** The shape at a path of the file, list positions included; undefined where nothing is declared. */
export const at = (shape: Shape, path: ReadonlyArray<string | number>): Shape | undefined => {
  let current: Shape | undefined = shape
  for (const key of path) {
    switch (current?._tag) {
      case "Section":
        current = current.fields.get(String(key)) ?? current.fields.get(fileKey(String(key)))
        break
      case "MapOf":
      case "ListOf":
        current = current.item
        break
      default:
        return undefined
    }
  }
  return current
}

/** The shape at a path as users write it: `<provider>.api_keys` may have any name in front. */
export const ofPath = (path: ReadonlyArray<string>): Shape | undefined =>
  at(root(), path) ??
    (path.length > 1 && !root().fields.has(path[0] ?? "") ? at(root(), [providerKeysKey, ...path]) : undefined)

/** The path of the setting that a path most likely stands for, each wrong name replaced by the nearest; undefined where one has none. */
export const nearestPath = (path: ReadonlyArray<string>): ReadonlyArray<string> | undefined => {
  const found: Array<string> = []
  for (const name of path) {
    const parent = at(root(), found)
    const known = at(root(), [...found, name]) !== undefined
    const meant = known ? name : parent?._tag === "Section" ? nearest(name, parent.fields.keys()) : undefined
    if (meant === undefined) return undefined
    found.push(meant)
  }
  return found
}

/** Tests whether the values of a shape are secrets. */
export const isSecret = (shape: Shape): boolean => {
  switch (shape._tag) {
    case "Section":
      return false
    case "MapOf":
    case "ListOf":
      return isSecret(shape.item)
    case "Value":
      return shape.facts.secret ?? false
  }
}

/** The mark of a key that nothing reads yet. */
export const unsupported = (shape: Shape): Unsupported | undefined =>
  shape._tag === "Value" || shape._tag === "ListOf" ? shape.facts.unsupported : undefined

/** Describes the value that a place of this shape takes. */
export const expected = (shape: Shape): string => {
  switch (shape._tag) {
    case "Section":
    case "MapOf":
      return "a mapping"
    case "ListOf":
      return "a list"
    case "Value":
      return shape.expected
  }
}
