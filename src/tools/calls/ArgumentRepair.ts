/**
 * Repairs tool call arguments that are not JSON: reads their values, and determines whether they were cut or are
 * malformed.
 *
 * **Details**
 *
 * A repair invents no values: it adds missing closers and removes surplus ones, and the result must be an object. A
 * text that ends inside a value was cut by an output limit and must never be executed as if it were complete. Therefore
 * only a text whose last character is a closer is repaired.
 *
 * Source: `hermes-llm.md` §13.4, `ARCHITECTURE.md` §7.
 */
import * as Option from "effect/Option"
import * as Predicate from "effect/Predicate"
import * as Json from "../../base/domain/Json.ts"

// Converts values whose type differs from a tool's schema if their meaning is unambiguous: `"5"` to 5, `"true"` to
// true, the JSON text of a list or an object to the value itself.
//
// **Details**
//
// Only a text is converted, only if the schema does not accept texts, and only if it represents exactly one value of
// the expected type. The tool's own Schema refuses other mismatches. Arguments without such a value are returned
// unchanged, as the same object.
//
// Source: `hermes-product.md` §2.1, `ARCHITECTURE.md` §4.

/** A JSON Schema, or a part of one. */
type Node = { readonly [x: string]: unknown }

/** Maximum depth of references, choices and nested arguments that are followed; deeper values are unchanged. */
const deepest = 32

const toNode = (value: unknown): Node | undefined =>
  // An object in a JSON document that is not a list is a mapping.
  Predicate.isObject(value) ? (value as Node) : undefined

const readMember = (node: Node | undefined, key: string): unknown =>
  node !== undefined && Object.hasOwn(node, key) ? node[key] : undefined

const followReference = (node: Node | undefined, root: Node): Node | undefined => {
  let at = node
  for (let hops = 0; hops < deepest; hops++) {
    const reference = readMember(at, "$ref")
    if (typeof reference !== "string") return at
    if (!reference.startsWith("#/")) return undefined
    at = reference
      .slice(2)
      .split("/")
      .reduce<Node | undefined>(
        (inside, key) => toNode(readMember(inside, key.replaceAll("~1", "/").replaceAll("~0", "~"))),
        root
      )
  }
  return undefined
}

/** Returns the alternative schemas that a value may match. */
const listChoices = (node: Node | undefined, root: Node, depth = 0): ReadonlyArray<Node> => {
  const at = depth > deepest ? undefined : followReference(node, root)
  if (at === undefined) return []
  for (const key of ["anyOf", "oneOf"]) {
    const several = readMember(at, key)
    if (Array.isArray(several)) return several.flatMap((one) => listChoices(toNode(one), root, depth + 1))
  }
  return [at]
}

const listTypes = (node: Node): ReadonlyArray<unknown> => {
  const type = readMember(node, "type")
  return Array.isArray(type) ? type : type === undefined ? [] : [type]
}

/** Returns true if the schema accepts the text itself. */
const canTakeText = (node: Node, text: string): boolean => {
  const values = readMember(node, "enum")
  if (Array.isArray(values)) return values.includes(text)
  if (Object.hasOwn(node, "const")) return node["const"] === text
  const types = listTypes(node)
  return types.length === 0 || types.includes("string")
}

const numeral = /^-?(?:0|[1-9]\d*)(?:\.\d+)?(?:[eE][+-]?\d+)?$/

const parseNumber = (text: string): number | undefined => {
  const value = numeral.test(text) ? Number(text) : Number.NaN
  return Number.isFinite(value) ? value : undefined
}

/** Reads a text as a value of a type. */
const readAs = (type: unknown, text: string): Option.Option<unknown> => {
  const trimmed = text.trim()
  switch (type) {
    case "integer":
    case "number": {
      const value = parseNumber(trimmed)
      return value === undefined || (type === "integer" && !Number.isSafeInteger(value))
        ? Option.none()
        : Option.some(value)
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
      return Option.filter(Json.parse(trimmed), (value) => toNode(value) !== undefined)
    default:
      return Option.none()
  }
}

const coerceText = (text: string, wanted: ReadonlyArray<Node>): Option.Option<unknown> => {
  if (wanted.length === 0 || wanted.some((node) => canTakeText(node, text))) return Option.none()
  for (const type of wanted.flatMap(listTypes)) {
    const value = readAs(type, text)
    if (Option.isSome(value)) return value
  }
  return Option.none()
}

/** Returns the same list or mapping if no member changes. */
const coerceList = (
  list: ReadonlyArray<unknown>,
  wanted: ReadonlyArray<Node>,
  root: Node,
  depth: number
): ReadonlyArray<unknown> => {
  const node = wanted.find((one) => listTypes(one).includes("array"))
  const items = toNode(readMember(node, "items"))
  if (items === undefined) return list
  const next = list.map((value) => coerceValue(value, items, root, depth + 1))
  return next.some((value, index) => value !== list[index]) ? next : list
}

const coerceMembers = (value: Node, wanted: ReadonlyArray<Node>, root: Node, depth: number): Node => {
  const objects = wanted.filter((one) => listTypes(one).includes("object"))
  const node = objects.length === 1 ? objects[0] : undefined
  if (node === undefined) return value
  const properties = toNode(readMember(node, "properties"))
  const others = toNode(readMember(node, "additionalProperties"))
  let changed: Record<string, unknown> | undefined
  for (const key of Object.keys(value)) {
    const given = value[key]
    const schema = toNode(readMember(properties, key)) ?? others
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
    const read = coerceText(value, listChoices(node, root))
    if (Option.isNone(read)) return value
    // Members of a list or an object may also be written as text.
    return coerceValue(read.value, node, root, depth + 1)
  }
  if (Array.isArray(value)) return coerceList(value, listChoices(node, root), root, depth)
  const given = toNode(value)
  return given === undefined ? value : coerceMembers(given, listChoices(node, root), root, depth)
}

/** Converts values whose type differs from a tool's schema if their meaning is unambiguous. */
export const coerce = <Args>(args: Args, schema: object): Args => {
  const root = toNode(schema)
  // Members may have been converted to the types of the schema; the type of the arguments remains unknown.
  return root === undefined ? args : (coerceValue(args, root, root, 0) as Args)
}

/** Arguments of a call: a JSON object. */
type Arguments = Readonly<Record<string, unknown>>

/** Result of repairing arguments that are not JSON. */
type RepairResult =
  | { readonly _tag: "Repaired"; readonly args: Arguments; readonly how: string }
  | { readonly _tag: "Truncated" }
  | { readonly _tag: "Malformed"; readonly reason: string }

/** Parses a text as a JSON object, as opposed to a list or a scalar. */
const parseArguments = (text: string): Option.Option<Arguments> => Option.filter(Json.parse(text), Json.isFields)

interface Scan {
  /** Missing closers, innermost first. */
  readonly missing: string
  /** The cleaned text before the first closer that has no opener. */
  readonly surplus: string | undefined
  readonly inString: boolean
  /** The text with raw control characters inside strings escaped, and trailing commas removed. */
  readonly cleaned: string
}

const closers: Readonly<Record<string, string>> = { "{": "}", "[": "]" }

const escapeControl = (character: string): string => {
  switch (character) {
    case "\n":
      return "\\n"
    case "\r":
      return "\\r"
    case "\t":
      return "\\t"
    default:
      return `\\u${character.charCodeAt(0).toString(16).padStart(4, "0")}`
  }
}

/** Returns the next match at or after an offset. The pattern must be global. */
const findNext = (pattern: RegExp, text: string, from: number): number => {
  pattern.lastIndex = from
  return pattern.exec(text)?.index ?? text.length
}

const stringSpecials = /["\\]|\p{Cc}/gu
const structuralCharacters = /["[\]{},]/g

/** Maximum number of open brackets of a text that is repaired. */
const deepestRepair = 10_000

/** State of a scan, and the pieces of the cleaned text. */
interface Scanner {
  readonly text: string
  readonly open: Array<string>
  readonly pieces: Array<string>
  /** Number of pieces before the first closer that has no opener. */
  surplus: number | undefined
  /** Index of the piece of a comma followed only by whitespace, or -1. */
  comma: number
}

/**
 * Reads a string from the character after its opening quote on. Returns the offset after its closing quote, or
 * `undefined` if the text ends in it.
 */
const readString = ({ pieces, text }: Scanner, from: number): number | undefined => {
  for (let at = from; ;) {
    const end = findNext(stringSpecials, text, at)
    if (end > at) pieces.push(text.slice(at, end))
    if (end >= text.length) return undefined
    const character = text.charAt(end)
    const escaped = character === "\\" ? text.charAt(end + 1) : ""
    pieces.push(character < " " ? escapeControl(character) : character)
    if (escaped !== "") pieces.push(escaped < " " ? escapeControl(escaped) : escaped)
    at = end + 1 + escaped.length
    if (character === '"') return at
  }
}

const readStructure = (scanner: Scanner, character: string): void => {
  const { open, pieces } = scanner
  const closer = closers[character]
  if (closer !== undefined) open.push(closer)
  if (character === "}" || character === "]") {
    if (scanner.comma >= 0) pieces.length = scanner.comma
    if (open.at(-1) === character) open.pop()
    else scanner.surplus ??= pieces.length
  }
  scanner.comma = character === "," ? pieces.length : -1
  pieces.push(character)
}

/**
 * Scans the text once and recognizes strings and their escapes. Returns `undefined` if the text has too many open
 * brackets.
 */
const scanText = (text: string): Scan | undefined => {
  const scanner: Scanner = { text, open: [], pieces: [], surplus: undefined, comma: -1 }
  const { open, pieces } = scanner
  let inString = false
  for (let at = 0; at < text.length;) {
    const end = findNext(structuralCharacters, text, at)
    if (end > at) {
      const between = text.slice(at, end)
      if (between.trim() !== "") scanner.comma = -1
      pieces.push(between)
    }
    if (end >= text.length) break
    readStructure(scanner, text.charAt(end))
    if (open.length > deepestRepair) return undefined
    at = end + 1
    if (text.charAt(end) !== '"') continue
    const after = readString(scanner, at)
    inString = after === undefined
    at = after ?? text.length
  }
  const { surplus } = scanner
  return {
    missing: open.toReversed().join(""),
    surplus: surplus === undefined ? undefined : pieces.slice(0, surplus).join(""),
    inString,
    cleaned: pieces.join("")
  }
}

/** Returns the parser's message for a text that is not JSON. */
const readSyntaxError = (text: string): string => {
  try {
    JSON.parse(text)
    return "not valid JSON"
  } catch (error) {
    return error instanceof Error ? error.message : "not valid JSON"
  }
}

/** Maximum length of a text that is examined; longer arguments always count as malformed. */
const longestText = 2_000_000

/** Returns true for a text that may be the beginning of an object, also of an object in a JSON text. */
const canBeginObject = (text: string): boolean => /^["[{]/.test(text)

/** Repairs a text that is not a JSON object, if possible. */
export const repair = (text: string): RepairResult => {
  const trimmed = text.trim()
  if (trimmed === "" || trimmed === "None" || trimmed === "null") {
    return { _tag: "Repaired", args: {}, how: "nothing was given" }
  }
  if (trimmed.length > longestText) return { _tag: "Malformed", reason: "it is too long" }
  const parsed = Json.parse(trimmed)
  if (Option.isSome(parsed)) {
    if (Json.isFields(parsed.value)) return { _tag: "Repaired", args: parsed.value, how: "it was JSON already" }
    // Some models send the object as a JSON text within a JSON text.
    const inner = typeof parsed.value === "string" ? repair(parsed.value) : undefined
    return inner?._tag === "Repaired" ? inner : { _tag: "Malformed", reason: "it is another kind of value" }
  }
  const scan = scanText(trimmed)
  if (scan === undefined) return { _tag: "Malformed", reason: "it has too many open brackets" }
  const { cleaned, inString, missing, surplus } = scan
  if (!canBeginObject(trimmed)) return { _tag: "Malformed", reason: readSyntaxError(trimmed) }
  if (inString || !/[}\]]$/.test(trimmed)) return { _tag: "Truncated" }
  const candidates: ReadonlyArray<readonly [text: string, how: string]> = [
    [cleaned, "control characters and trailing commas"],
    [cleaned + missing, "closers that were missing"],
    ...(surplus === undefined ? [] : [[surplus, "closers that were surplus"] as const])
  ]
  for (const [candidate, how] of candidates) {
    const args = parseArguments(candidate)
    if (Option.isSome(args)) return { _tag: "Repaired", args: args.value, how }
  }
  return { _tag: "Malformed", reason: readSyntaxError(trimmed) }
}

/** Explains why arguments cannot be parsed, for their author. */
export const explainProblem = (params: unknown): string => {
  const repaired = typeof params === "string" ? repair(params) : undefined
  if (repaired?._tag === "Malformed") return repaired.reason
  if (repaired?._tag === "Truncated") return "it ends early"
  return params === null ? "null" : Array.isArray(params) ? "a list" : `a ${typeof params}`
}
