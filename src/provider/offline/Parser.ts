/**
 * The few parser combinators that the grammar of instructions is written in. A parser looks at the tokens from one place
 * and gives a value and the next place, or nothing; it never fails and never looks back.
 *
 * @since 0.1.0
 */
import * as Tokens from "./Tokens.ts"

/** What a parser found, and where the rest begins. */
export interface Parsed<out A> {
  readonly value: A
  readonly next: number
}

/** See the module. */
export type Parser<out A> = (source: Tokens.Source, at: number) => Parsed<A> | undefined

/** The word at a place in lower case, without surrounding brackets; empty when there is no word. */
export const wordAt = (source: Tokens.Source, at: number): string => {
  const token = source.tokens[at]
  return token?.kind === "word" ? token.text.toLowerCase().replace(/^[([]+|[)\]]+$/g, "") : ""
}

/** The punctuation or line break at a place; empty when there is none. */
export const markAt = (source: Tokens.Source, at: number): string => {
  const token = source.tokens[at]
  return token?.kind === "mark" || token?.kind === "break" ? token.text : ""
}

/** The first of several that finds something. */
export const first = <A>(...parsers: ReadonlyArray<Parser<A>>): Parser<A> => (source, at) => {
  for (const parser of parsers) {
    const found = parser(source, at)
    if (found !== undefined) return found
  }
  return undefined
}

/** Another value in place of the one found. */
export const map = <A, B>(parser: Parser<A>, f: (value: A) => B): Parser<B> => (source, at) => {
  const found = parser(source, at)
  return found === undefined ? undefined : { value: f(found.value), next: found.next }
}

/** What a parser finds, where it passes a test. */
export const filter = <A>(parser: Parser<A>, accepts: (value: A) => boolean): Parser<A> => (source, at) => {
  const found = parser(source, at)
  return found === undefined || !accepts(found.value) ? undefined : found
}

/** Several in order; the value is all of theirs. */
export const seq = <const P extends ReadonlyArray<Parser<unknown>>>(
  ...parsers: P
): Parser<{ readonly [K in keyof P]: P[K] extends Parser<infer A> ? A : never }> =>
(source, at) => {
  const values: Array<unknown> = []
  let next = at
  for (const parser of parsers) {
    const found = parser(source, next)
    if (found === undefined) return undefined
    values.push(found.value)
    next = found.next
  }
  // One value was pushed per parser, in order: what the tuple type says.
  return { value: values as { readonly [K in keyof P]: P[K] extends Parser<infer A> ? A : never }, next }
}

/** Several in order; the value is the last one's. */
export const last = <B>(...parsers: readonly [...ReadonlyArray<Parser<unknown>>, Parser<B>]): Parser<B> =>
  // The tuple type says that the last parser gives a B.
  map(seq(...parsers), (values) => values.at(-1) as B)

/** What a parser finds, or `otherwise` without moving. */
export const optional = <A, B>(parser: Parser<A>, otherwise: B): Parser<A | B> => (source, at) =>
  parser(source, at) ?? { value: otherwise, next: at }

/** Skips what a parser finds, if it finds something. */
export const skip = (...parsers: ReadonlyArray<Parser<unknown>>): Parser<undefined> => (source, at) => {
  let next = at
  for (const parser of parsers) next = parser(source, next)?.next ?? next
  return { value: undefined, next }
}

/** Holds where a test does; takes nothing. */
export const where = (test: (source: Tokens.Source, at: number) => boolean): Parser<undefined> => (source, at) =>
  test(source, at) ? { value: undefined, next: at } : undefined

/** Everything that a parser finds one after the other. */
export const many = <A>(parser: Parser<A>): Parser<ReadonlyArray<A>> => (source, at) => {
  const values: Array<A> = []
  let next = at
  for (let found = parser(source, next); found !== undefined && found.next > next; found = parser(source, next)) {
    values.push(found.value)
    next = found.next
  }
  return { value: values, next }
}

interface Item {
  readonly words: ReadonlySet<string>
  readonly repeats: "one" | "optional" | "any"
}

const itemOf = (text: string): Item => {
  const mark = text.at(-1)
  const repeats = mark === "?" ? "optional" : mark === "*" ? "any" : "one"
  return { words: new Set((repeats === "one" ? text : text.slice(0, -1)).split("|")), repeats }
}

/**
 * Words in order: `phrase("the? file|document")`. An item is one word or several that may stand for each other; `?`
 * makes it optional, `*` lets it repeat. The value is the last word found.
 */
export const phrase = (pattern: string): Parser<string> => {
  const items = pattern.split(" ").map(itemOf)
  return (source, at) => {
    let next = at
    let last = ""
    for (const item of items) {
      const start = next
      while (item.words.has(wordAt(source, next))) {
        last = wordAt(source, next)
        next++
        if (item.repeats !== "any") break
      }
      if (item.repeats === "one" && next === start) return undefined
    }
    return { value: last, next }
  }
}

/** One mark of several. */
export const mark = (marks: string): Parser<string> => (source, at) => {
  const found = markAt(source, at)
  return found !== "" && marks.includes(found) ? { value: found, next: at + 1 } : undefined
}

/** One quoted passage; the value is what is between the quotes. */
export const quotation: Parser<string> = (source, at) => {
  const token = source.tokens[at]
  return token?.kind === "quoted" ? { value: token.text, next: at + 1 } : undefined
}

/** One word that satisfies `accepts`, as it was written. */
export const wordWhere = (accepts: (word: string) => boolean): Parser<string> => (source, at) => {
  const token = source.tokens[at]
  return token?.kind === "word" && accepts(token.text) ? { value: token.text, next: at + 1 } : undefined
}

/** The text up to where `ends` holds, as it was written; at least one token. */
export const textUntil = (ends: (source: Tokens.Source, at: number) => boolean): Parser<string> => (source, at) => {
  let next = at
  while (next < source.tokens.length && !ends(source, next)) next++
  let end = next
  while (end > at && source.tokens[end - 1]?.kind === "break") end--
  return end === at ? undefined : { value: Tokens.slice(source, at, end), next }
}

/** A quoted passage, or the text up to one of some words or to where `ends` holds. */
export const wordsUntil = (
  stops: string,
  ends: (source: Tokens.Source, at: number) => boolean
): Parser<string> => {
  const words = new Set(stops.split("|"))
  return first(quotation, textUntil((source, at) => words.has(wordAt(source, at)) || ends(source, at)))
}
