/**
 * Arguments of a tool from plain words: JSON as it stands, `name=value` pairs, or one value for the only thing that the
 * tool needs.
 *
 * @since 0.1.0
 */
import * as Option from "effect/Option"
import * as Json from "../../domain/Json.ts"
import * as Raw from "../Raw.ts"
import * as Parser from "./Parser.ts"
import * as Tokens from "./Tokens.ts"

const unquoted = (text: string): string => {
  const tokens = Tokens.read(text).tokens
  const [only] = tokens
  return tokens.length === 1 && only?.kind === "quoted" ? only.text : text
}

/** A value in the type that the schema of its property names. */
const typed = (text: string, schema: Raw.Fields): unknown => {
  const json = Option.getOrUndefined(Json.parse(text))
  if (typeof json === "string") return json
  const value = unquoted(text)
  return schema["type"] === "string" || json === undefined ? value : json
}

const pair = (names: ReadonlyArray<string>): Parser.Parser<readonly [string, string]> => (source, at) => {
  const token = source.tokens[at]
  if (token?.kind !== "word") return undefined
  const equals = token.text.indexOf("=")
  const name = equals < 0 ? token.text : token.text.slice(0, equals)
  if (!names.includes(name)) return undefined
  if (equals >= 0 && equals < token.text.length - 1) return { value: [name, token.text.slice(equals + 1)], next: at + 1 }
  const next = Parser.skip(Parser.mark(":"), Parser.phrase("=|of|as|is|set? to?"))(source, at + 1)?.next ?? at + 1
  const ends = (inner: Tokens.Source, place: number): boolean =>
    place > next && (Parser.markAt(inner, place) === "," || Parser.wordAt(inner, place) === "and"
      || pair(names)(inner, place) !== undefined)
  const found = Parser.first(
    Parser.map(Parser.quotation, (text) => JSON.stringify(text)),
    Parser.textUntil(ends)
  )(source, next)
  return found === undefined ? undefined : { value: [name, found.value], next: found.next }
}

/** The arguments that a text means for a tool with this schema; undefined when it means none. */
export const read = (text: string, parameters: Raw.Fields): Raw.Fields | undefined => {
  const trimmed = text.trim()
  const json = Option.getOrUndefined(Json.parse(unquoted(trimmed)))
  if (Raw.isFields(json)) return json
  const properties = Raw.fields(parameters["properties"])
  const names = Object.keys(properties)
  const required = Raw.items(parameters["required"]).map(Raw.word)
  if (trimmed === "") return required.length === 0 ? {} : undefined
  const source = Tokens.read(trimmed)
  const pairs = Parser.many(
    Parser.map(
      Parser.seq(pair(names), Parser.skip(Parser.mark(","), Parser.phrase("and"))),
      ([found]) => found
    )
  )(source, 0)
  if (pairs !== undefined && pairs.value.length > 0 && pairs.next >= source.tokens.length) {
    return Object.fromEntries(pairs.value.map(([name, value]) => [name, typed(value, Raw.fields(properties[name]))]))
  }
  const [only] = required.length === 0 ? names : required
  return only !== undefined && (required.length === 1 || names.length === 1)
    ? { [only]: typed(trimmed, Raw.fields(properties[only])) }
    : undefined
}
