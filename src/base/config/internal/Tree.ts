/**
 * The tree of settings: the shape that the Schema expects at each place, and the plain values of a file (mappings,
 * lists and scalars). Reads and changes values in the tree. Also converts environment variables, and the references
 * `${VAR}` and `${env:VAR}` in the file, to the expected types. `ConfigFile` handles `${this_file_dir}`.
 *
 * **Details**
 *
 * Booleans are `true`, `1`, `yes`, `on` and their opposites; lists are separated by commas (directories as in `PATH`)
 * or written as JSON; mappings are JSON. Text that cannot be converted remains a string, which the Schema rejects.
 *
 * References are expanded in parsed values, so that a variable cannot change the structure of the file. A string that
 * consists of one reference is converted to the expected type, like an environment variable. `$${` is a literal `${`,
 * and `${NAME:-text}` is `text` if the variable is not set or empty. References in shell commands are not expanded.
 */
import * as Option from "effect/Option"
import * as SchemaAST from "effect/SchemaAST"
import * as Json from "../../domain/Json.ts"
import { type FieldRules, factsKey, type Unsupported } from "../Fields.ts"
import { toFileKey, providerKeysKey } from "./FileKeys.ts"

/** Shape of a mapping with declared keys, by their names in the file. */
export interface Section {
  readonly _tag: "Section"
  readonly fields: ReadonlyMap<string, Shape>
  /** Keys in the file, by the names of the decoded fields. */
  readonly keys: ReadonlyMap<string, string>
  readonly open: boolean
}

/** Shape of a mapping whose keys the user chooses. */
interface MapOf {
  readonly _tag: "MapOf"
  readonly item: Shape
  readonly facts: FieldRules
}

/** A list. */
interface ListOf {
  readonly _tag: "ListOf"
  readonly item: Shape
  readonly facts: FieldRules
}

/** Shape of a scalar, or of a value that may have several types. */
export interface Value {
  readonly _tag: "Value"
  readonly kinds: ReadonlySet<"string" | "number" | "boolean" | "list" | "anything">
  readonly expected: string
  readonly facts: FieldRules
  /** Shape of the value if it is a mapping; `undefined` if no mapping is accepted. */
  readonly section?: Section | undefined
}

/** The expected shape of one place. */
export type Shape = Section | MapOf | ListOf | Value

const readFacts = (ast: SchemaAST.AST): FieldRules => SchemaAST.resolveAt<FieldRules>(factsKey)(ast) ?? {}

const readExpected = (ast: SchemaAST.AST): string | undefined => SchemaAST.resolveAt<string>("expected")(ast)

const makeValue = (ast: SchemaAST.AST, kinds: Value["kinds"], expected: string): Value => ({
  _tag: "Value",
  kinds,
  expected: readExpected(ast) ?? expected,
  facts: readFacts(ast)
})

const makeUnion = (ast: SchemaAST.Union): Value => {
  const words = ast.types.flatMap((type) => (SchemaAST.isLiteral(type) ? [String(type.literal)] : []))
  const kinds = ast.types.map((type) => {
    if (SchemaAST.isBoolean(type)) return "boolean"
    if (SchemaAST.isArrays(type)) return "list"
    return "string"
  })
  const mapping = ast.types.find((type) => SchemaAST.isObjects(type) && type.indexSignatures.length === 0)
  return {
    ...makeValue(ast, new Set(kinds), `one of ${words.join(", ")}`),
    section: mapping === undefined || !SchemaAST.isObjects(mapping) ? undefined : makeSection(mapping)
  }
}

/** Returns the shape of a mapping with declared keys. */
export const makeSection = (ast: SchemaAST.Objects): Section => ({
  _tag: "Section",
  fields: new Map(ast.propertySignatures.map(({ name, type }) => [toFileKey(String(name)), toShape(type)])),
  keys: new Map(ast.propertySignatures.map(({ name }) => [String(name), toFileKey(String(name))])),
  open: readFacts(ast).open ?? false
})

const toShape = (ast: SchemaAST.AST): Shape => {
  switch (ast._tag) {
    case "Objects": {
      const [index] = ast.indexSignatures
      return index === undefined
        ? makeSection(ast)
        : { _tag: "MapOf", item: toShape(index.type), facts: readFacts(ast) }
    }
    case "Arrays": {
      const [item] = ast.rest
      return item === undefined
        ? makeValue(ast, new Set(["list"]), "a list")
        : { _tag: "ListOf", item: toShape(item), facts: readFacts(ast) }
    }
    case "Union":
      return makeUnion(ast)
    case "Literal":
      return makeValue(ast, new Set(["string"]), String(ast.literal))
    case "Number":
      return makeValue(ast, new Set(["number"]), "a number")
    case "Boolean":
      return makeValue(ast, new Set(["boolean"]), "true or false")
    case "String":
    case "Declaration":
      return makeValue(ast, new Set(["string"]), "a string")
    default:
      return makeValue(ast, new Set(["anything"]), "anything")
  }
}

/** Returns the key of a field in the file. `name` is this key or the decoded name of the field. */
export const findFileKey = ({ keys }: Section, name: string): string => keys.get(name) ?? name

/** Returns the shape at a path of the file, which may contain list positions; `undefined` for an undeclared path. */
export const findShape = (shape: Shape, path: ReadonlyArray<string | number>): Shape | undefined => {
  let current: Shape | undefined = shape
  for (const key of path) {
    switch (current?._tag) {
      case "Section":
        current = current.fields.get(findFileKey(current, String(key)))
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

/**
 * Names of properties that every JavaScript object inherits; a setting with such a name could read or change the
 * inherited property.
 */
const reservedNames: ReadonlySet<string> = new Set(["__proto__", "constructor", "prototype"])

/** Returns the first reserved name in a path; `undefined` if the path has no reserved name. */
export const findReservedName = (path: Path): string | undefined =>
  path.map(String).find((name) => reservedNames.has(name))

/** Maximum nesting depth that is searched; values of settings have only a few levels. */
const deepest = 100

/** Returns the path of a key `__proto__` inside a parsed value; `undefined` if there is no such key. */
export const findPrototypeKey = (value: unknown, path: Path = []): Path | undefined => {
  if (typeof value !== "object" || value === null || path.length > deepest) return undefined
  for (const [key, item] of Object.entries(value)) {
    const found = key === "__proto__" ? [...path, key] : findPrototypeKey(item, [...path, key])
    if (found !== undefined) return found
  }
  return undefined
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

/** Returns the mark of a key that is not implemented yet; `undefined` for other keys. */
export const readUnsupported = (shape: Shape): Unsupported | undefined =>
  shape._tag === "Value" || shape._tag === "ListOf" ? shape.facts.unsupported : undefined

/** Describes the value that a place of this shape takes. */
export const describeExpected = (shape: Shape): string => {
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

/** A mapping in the file. */
export type Mapping = Readonly<Record<string, unknown>>

/** A place, as a path of mapping keys and list positions. */
export type Path = ReadonlyArray<string | number>

/** Tests whether a value is a mapping. */
export const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const readOwn = (tree: unknown, key: string | number): unknown => {
  if (Array.isArray(tree)) return tree[Number(key)]
  return isMapping(tree) && Object.hasOwn(tree, key) ? tree[String(key)] : undefined
}

/** Returns the value at a place; `undefined` if there is no value. */
export const get = (tree: unknown, path: Path): unknown => path.reduce(readOwn, tree)

/** Returns a copy with a value at a place. Missing mappings on the path are created. */
export const set = (tree: unknown, path: ReadonlyArray<string>, value: unknown): unknown => {
  const [key, ...rest] = path
  if (key === undefined) return value
  return { ...(isMapping(tree) ? tree : {}), [key]: set(readOwn(tree, key), rest, value) }
}

/** Returns a copy without the place. */
export const remove = (tree: unknown, path: ReadonlyArray<string>): unknown => {
  const [key, ...rest] = path
  if (key === undefined || !isMapping(tree) || !Object.hasOwn(tree, key)) return tree
  if (rest.length > 0) return { ...tree, [key]: remove(tree[key], rest) }
  return Object.fromEntries(Object.entries(tree).filter(([name]) => name !== key))
}

const showKey = (key: string): string => (/^[\w<>-]+$/.test(key) ? key : JSON.stringify(key))

/**
 * Converts a path in the decoded settings to the path in the file. Removes the key under which `gatherProviderKeys`
 * collects the sections `<provider>.api_keys`.
 */
export const toFilePath = (path: Path): Path => (path[0] === providerKeysKey ? path.slice(1) : path)

/** Formats a path for users: `agent.max_turns`, `fallback_providers[0].model`, `providers.x.models."a.b"`. */
export const formatPath = (path: Path): string =>
  toFilePath(path).reduce<string>((shown, key) => {
    if (typeof key === "number") return `${shown}[${key}]`
    return shown === "" ? showKey(key) : `${shown}.${showKey(key)}`
  }, "")

const words: Readonly<Record<string, boolean>> = {
  true: true,
  yes: true,
  on: true,
  "1": true,
  false: false,
  no: false,
  off: false,
  "0": false
}

/** Returns the boolean that a word represents, ignoring case; `undefined` for any other word. */
export const parseBoolean = (text: string): boolean | undefined => words[text.trim().toLowerCase()]

const numeric = /^[+-]?(?:\d+\.?\d*|\.\d+)(?:e[+-]?\d+)?$/i

const splitItems = (text: string, separator: string): ReadonlyArray<string> =>
  text
    .split(separator)
    .map((item) => item.trim())
    .filter((item) => item !== "")

const parseJson = (text: string, fits: (value: unknown) => boolean): unknown =>
  Option.getOrElse(
    Option.filter(Json.parse(text), (value) => fits(value) && findPrototypeKey(value) === undefined),
    () => text
  )

const coerceScalar = (text: string, { kinds }: Value): unknown => {
  if (kinds.has("anything")) return parseJson(text, () => true)
  if (kinds.has("boolean")) {
    const word = parseBoolean(text)
    if (word !== undefined) return word
  }
  if (kinds.has("number") && numeric.test(text.trim())) return Number(text)
  if (kinds.has("list") && text.includes(",")) return splitItems(text, ",")
  return text
}

/** Converts text to the type that a shape expects. */
export const coerce = (text: string, shape: Shape): unknown => {
  switch (shape._tag) {
    case "Section":
    case "MapOf":
      return parseJson(text, isMapping)
    case "ListOf":
      return text.trimStart().startsWith("[") || shape.item._tag !== "Value"
        ? parseJson(text, Array.isArray)
        : splitItems(text, shape.facts.separator ?? ",").map((item) => coerce(item, shape.item))
    case "Value":
      return coerceScalar(text, shape)
  }
}

/** A reference to a variable that is not set. */
interface MissingReference {
  readonly path: Path
  readonly variable: string
  readonly reference: string
}

/** A reference to a variable, with the default value after `:-` for a variable that is not set or empty. */
const reference = /\$?\$\{(?:env[:.])?(?!this_file_dir\})([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}/g
const whole = /^\$\{(?:env[:.])?(?!this_file_dir\})([A-Za-z_][A-Za-z0-9_]*)(?::-([^{}]*))?\}$/

/** Replaces the references in a tree. Returns the new tree and the references that have no value. */
export const expandWith = (
  root: Shape,
  tree: unknown,
  lookup: (name: string) => string | undefined
): { readonly tree: unknown; readonly missing: ReadonlyArray<MissingReference> } => {
  const missing: Array<MissingReference> = []

  const lookUpOr = (variable: string, otherwise: string | undefined): string | undefined =>
    otherwise === undefined ? lookup(variable) : lookup(variable) || otherwise

  const expandText = (value: string, shape: Shape | undefined, path: Path): unknown => {
    const [, only, otherwise] = whole.exec(value) ?? []
    const found = only === undefined ? undefined : lookUpOr(only, otherwise)
    if (found !== undefined && shape !== undefined) return coerce(found, shape)
    return value.replaceAll(reference, (match, variable: string, otherwise: string | undefined) => {
      if (match.startsWith("$$")) return match.slice(1)
      const found = lookUpOr(variable, otherwise)
      if (found === undefined) missing.push({ path, variable, reference: match })
      return found ?? match
    })
  }

  const expandValue = (value: unknown, shape: Shape | undefined, path: Path): unknown => {
    if (typeof value === "string") {
      const verbatim = shape?._tag === "Value" && shape.facts.verbatim === true
      return verbatim || !value.includes("${") ? value : expandText(value, shape, path)
    }
    const findInnerShape = (key: string | number) => shape && findShape(shape, [key])
    if (Array.isArray(value))
      return value.map((item, index) => expandValue(item, findInnerShape(index), [...path, index]))
    if (!isMapping(value)) return value
    return Object.fromEntries(
      Object.entries(value).map(([key, item]) => [key, expandValue(item, findInnerShape(key), [...path, key])])
    )
  }

  return { tree: expandValue(tree, root, []), missing }
}

/** Returns the names of the variables that a tree refers to. */
export const listReferences = (tree: unknown): ReadonlyArray<string> => {
  if (typeof tree === "string") {
    return Array.from(tree.matchAll(reference)).flatMap(([match, variable]) =>
      match.startsWith("$$") || variable === undefined ? [] : [variable]
    )
  }
  if (Array.isArray(tree)) return tree.flatMap(listReferences)
  return isMapping(tree) ? Object.values(tree).flatMap(listReferences) : []
}
