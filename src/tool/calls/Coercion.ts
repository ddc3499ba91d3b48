/**
 * Values of another type than the one that a tool's schema wants, where there is no doubt what is meant: `"5"` for 5, `"true"` for
 * true, the JSON text of a list or an object for the value itself.
 *
 * **Details**
 *
 * Only a text is ever taken for something else, only where the schema does not take texts, and only when it is exactly that
 * something. What is left alone is the tool's own Schema to refuse. Arguments without such a value are given back as they
 * are, the same object.
 *
 * Source: `hermes-product.md` §2.1, `ARCHITECTURE.md` §4.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../../domain/Json.ts"

/** A JSON Schema, or a part of one. */
type Node = { readonly [x: string]: unknown }

/** References, choices and levels of arguments that are followed before they are left alone. */
const deepest = 32

const asNode = (value: unknown): Node | undefined =>
  // A member of a JSON document that is no list is a mapping.
  Predicate.isObject(value) ? value as Node : undefined

const member = (node: Node | undefined, key: string): unknown =>
  node !== undefined && Object.hasOwn(node, key) ? node[key] : undefined

const followed = (node: Node | undefined, root: Node): Node | undefined => {
  let at = node
  for (let hops = 0; hops < deepest; hops++) {
    const reference = member(at, "$ref")
    if (typeof reference !== "string") return at
    if (!reference.startsWith("#/")) return undefined
    at = reference.slice(2).split("/").reduce<Node | undefined>(
      (inside, key) => asNode(member(inside, key.replaceAll("~1", "/").replaceAll("~0", "~"))),
      root
    )
  }
  return undefined
}

/** The schemas of which a value may fit one. */
const choices = (node: Node | undefined, root: Node, depth = 0): ReadonlyArray<Node> => {
  const at = depth > deepest ? undefined : followed(node, root)
  if (at === undefined) return []
  for (const key of ["anyOf", "oneOf"]) {
    const several = member(at, key)
    if (Array.isArray(several)) return several.flatMap((one) => choices(asNode(one), root, depth + 1))
  }
  return [at]
}

const typesOf = (node: Node): ReadonlyArray<unknown> => {
  const type = member(node, "type")
  return Array.isArray(type) ? type : type === undefined ? [] : [type]
}

/** True when a text may be just what is wanted. */
const takesText = (node: Node, text: string): boolean => {
  const values = member(node, "enum")
  if (Array.isArray(values)) return values.includes(text)
  if (Object.hasOwn(node, "const")) return node["const"] === text
  const types = typesOf(node)
  return types.length === 0 || types.includes("string")
}

const numeral = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

const numberOf = (text: string): number | undefined => {
  const value = numeral.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? value : undefined
}

/** Reads a text as a value of a type. */
const readAs = (type: unknown, text: string): Option.Option<unknown> => {
  const trimmed = text.trim()
  switch (type) {
    case "integer":
    case "number": {
      const value = numberOf(trimmed)
      return value === undefined || type === "integer" && !Number.isSafeInteger(value) ? Option.none() : Option.some(value)
    }
    case "boolean": {
      const word = trimmed.toLowerCase()
      return word === "true" || word === "false" ? Option.some(word === "true") : Option.none()
    }
    case "null":
      return trimmed === "null" ? Option.some(null) : Option.none()
    case "array":
      return Option.filter(Json.parse(trimmed), Array.isArray)
    case "object":
      return Option.filter(Json.parse(trimmed), (value) => asNode(value) !== undefined)
    default:
      return Option.none()
  }
}

const ofText = (text: string, wanted: ReadonlyArray<Node>): Option.Option<unknown> => {
  if (wanted.length === 0 || wanted.some((node) => takesText(node, text))) return Option.none()
  for (const type of wanted.flatMap(typesOf)) {
    const value = readAs(type, text)
    if (Option.isSome(value)) return value
  }
  return Option.none()
}

/** The same list or mapping where no member changes. */
const coerceList = (list: ReadonlyArray<unknown>, wanted: ReadonlyArray<Node>, root: Node, depth: number): ReadonlyArray<unknown> => {
  const node = wanted.find((one) => typesOf(one).includes("array"))
  const items = asNode(member(node, "items"))
  if (items === undefined) return list
  const next = list.map((value) => coerceValue(value, items, root, depth + 1))
  return next.some((value, index) => value !== list[index]) ? next : list
}

const coerceMembers = (value: Node, wanted: ReadonlyArray<Node>, root: Node, depth: number): Node => {
  const objects = wanted.filter((one) => typesOf(one).includes("object"))
  const node = objects.length === 1 ? objects[0] : undefined
  if (node === undefined) return value
  const properties = asNode(member(node, "properties"))
  const others = asNode(member(node, "additionalProperties"))
  let changed: Record<string, unknown> | undefined
  for (const [key, given] of Object.entries(value)) {
    const schema = asNode(member(properties, key)) ?? others
    const next = schema === undefined ? given : coerceValue(given, schema, root, depth + 1)
    if (next === given) continue
    changed ??= { ...value }
    changed[key] = next
  }
  return changed ?? value
}

const coerceValue = (value: unknown, node: Node, root: Node, depth: number): unknown => {
  if (depth > deepest) return value
  if (typeof value === "string") {
    const read = ofText(value, choices(node, root))
    if (Option.isNone(read)) return value
    // Members of a list or an object may be written as text too.
    return coerceValue(read.value, node, root, depth + 1)
  }
  if (Array.isArray(value)) return coerceList(value, choices(node, root), root, depth)
  const given = asNode(value)
  return given === undefined ? value : coerceMembers(given, choices(node, root), root, depth)
}

/** Values of another type than the one that a tool's schema wants, where there is no doubt what is meant. */
export const coerce = <Args>(args: Args, schema: object): Args => {
  const root = asNode(schema)
  // Members may have changed their types, towards those of the schema; the arguments were unknown before and are after.
  return root === undefined ? args : coerceValue(args, root, root, 0) as Args
}
