/**
 * Finds the part of a schema of answers that no model can write: a class without a codec, or a part of a JSON Schema
 * that is not JSON. Each function returns one sentence that begins with the place, or `undefined`.
 */
import * as SchemaAST from "effect/SchemaAST"
import * as Json from "./Json.ts"

const joinPlace = (at: string, name: PropertyKey): string => (at === "" ? String(name) : `${at}.${String(name)}`)

type Child = readonly [name: string, ast: SchemaAST.AST]

const listChildren = (ast: SchemaAST.AST): ReadonlyArray<Child> => {
  switch (ast._tag) {
    case "Objects":
      return [
        ...ast.propertySignatures.map(({ name, type }): Child => [String(name), type]),
        ...ast.indexSignatures.map(({ type }): Child => ["*", type])
      ]
    case "Arrays":
      return [...ast.elements, ...ast.rest].map((type, index): Child => [String(index), type])
    case "Union":
      return ast.types.map((type): Child => ["", type])
    case "Suspend":
      return [["", ast.thunk()]]
    default:
      return []
  }
}

/** Tests whether values of a class have a JSON form. */
const hasCodec = ({ annotations }: SchemaAST.AST): boolean =>
  typeof (annotations?.["toCodecJson"] ?? annotations?.["toCodec"]) === "function"

/** Finds a part of an encoded schema that only its own class can make. */
export const findClass = (ast: SchemaAST.AST, at = "", seen = new Set<SchemaAST.AST>()): string | undefined => {
  if (seen.has(ast)) return undefined
  seen.add(ast)
  if (ast._tag === "Declaration" && !hasCodec(ast)) return `${at === "" ? "it" : at} is a class without a codec`
  for (const [name, type] of listChildren(ast)) {
    const found = findClass(type, name === "" ? at : joinPlace(at, name), seen)
    if (found !== undefined) return found
  }
  return undefined
}

/** Types of JSON Schema. */
const types: ReadonlySet<unknown> = new Set(["string", "number", "integer", "boolean", "object", "array", "null"])

/** Keywords whose values are data, and keywords whose members have any name. */
const data: ReadonlySet<string> = new Set(["const", "default", "enum", "examples"])
const named: ReadonlySet<string> = new Set(["properties", "patternProperties", "$defs", "definitions"])

const findWrongType = (value: unknown, at: string): string | undefined => {
  const unknownType = (Array.isArray(value) ? value : [value]).find((one) => !types.has(one))
  return unknownType === undefined ? undefined : `${at} is not a type of JSON Schema`
}

const describeForeign = (value: unknown): string | undefined => {
  switch (typeof value) {
    case "bigint":
    case "function":
    case "symbol":
      return `is a ${typeof value}, which JSON does not have`
    case "number":
      return Number.isFinite(value) ? undefined : "is not a finite number"
    case "object": {
      const prototype: unknown = value === null || Array.isArray(value) ? null : Object.getPrototypeOf(value)
      return prototype === null || prototype === Object.prototype ? undefined : "is an object of a class"
    }
    default:
      return undefined
  }
}

/** Kind of a value in a JSON Schema: a schema, schemas by their names, or data. */
type Kind = "schema" | "named" | "data"

const chooseKind = (kind: Kind, name: string): Kind => {
  if (kind === "named") return "schema"
  if (kind === "data" || data.has(name)) return "data"
  return named.has(name) ? "named" : "schema"
}

/** Finds a part of a JSON Schema that is not JSON or not a type. `above` are the objects around the value. */
export const findForeign = (
  value: unknown,
  at = "",
  kind: Kind = "schema",
  above: ReadonlySet<unknown> = new Set()
): string | undefined => {
  const foreign = describeForeign(value)
  if (foreign !== undefined) return `${at === "" ? "it" : at} ${foreign}`
  if (typeof value !== "object" || value === null) return undefined
  if (above.has(value)) return `${at} contains itself: name it in $defs, and refer to it by $ref`
  if (above.size >= Json.maxDepth) return "it is nested too deeply"
  const inside = new Set(above).add(value)
  for (const [name, member] of Object.entries(value)) {
    const place = joinPlace(at, name)
    const isType = kind === "schema" && name === "type" && !Array.isArray(value) && member !== undefined
    const found =
      (isType ? findWrongType(member, place) : undefined) ??
      findForeign(member, place, Array.isArray(value) ? kind : chooseKind(kind, name), inside)
    if (found !== undefined) return found
  }
  return undefined
}
