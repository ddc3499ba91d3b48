/**
 * Parses the search input of a user. Every string is a valid search.
 *
 * **Details**
 *
 * A match must contain all words, in any order. `OR` (upper case) separates alternatives, and `NOT` excludes the next
 * word. Text in double quotes is a phrase, and so is a word with several parts (`read_file`, `well-known`, `a.b`). A
 * trailing `*` matches the beginning of a word. Operators without an operand, unclosed quotes, parentheses and other
 * signs are ignored; terms beyond the 32nd are left out. An empty query matches nothing.
 *
 * Source: `hermes-product.md` §4.1.
 */
import * as SearchWords from "./SearchWords.ts"

/** A word, or a phrase of several consecutive words. */
export interface Term {
  readonly words: ReadonlyArray<string>
  /** True if the last word matches every word that begins with it. */
  readonly prefix: boolean
}

/** One alternative: a match contains every term of `all` and no term of `none`. `all` is never empty. */
export interface Alternative {
  readonly all: ReadonlyArray<Term>
  readonly none: ReadonlyArray<Term>
}

/** Alternatives, at least one of which must match. */
export type SearchQuery = ReadonlyArray<Alternative>

const maxTerms = 32

// Text in closed quotes, or a sequence without blanks, quotes and parentheses. An unclosed quote matches neither and is
// ignored.
const pieces = /"([^"]*)"|[^\s"()]+/gu

interface Draft {
  readonly all: Array<Term>
  readonly none: Array<Term>
}

/** Parses a query. */
export const parse = (input: string): SearchQuery => {
  let draft: Draft = { all: [], none: [] }
  const drafts = [draft]
  let negated = false
  let count = 0
  for (const [piece, quoted] of input.matchAll(pieces)) {
    if (quoted === undefined && piece === "OR") {
      drafts.push((draft = { all: [], none: [] }))
      negated = false
    } else if (quoted === undefined && (piece === "AND" || piece === "NOT")) {
      negated = piece === "NOT"
    } else {
      const words = SearchWords.splitWords(quoted ?? piece).map((word) => word.text)
      if (words.length === 0 || ++count > maxTerms) continue
      const side = negated ? draft.none : draft.all
      side.push({ words, prefix: quoted === undefined && piece.endsWith("*") })
      negated = false
    }
  }
  return drafts.filter((alternative) => alternative.all.length > 0)
}
