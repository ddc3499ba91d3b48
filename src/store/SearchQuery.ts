/**
 * Reads a search that a user typed, so that nothing they typed can be wrong.
 *
 * **Details**
 *
 * Words must all be there, in any order; `OR` (upper case) separates alternatives, `NOT` excludes the next word. A
 * piece in double quotes is a phrase, and so is a word of several pieces (`read_file`, `well-known`, `a.b`). A trailing
 * `*` matches the beginning of a word. Operators that lack a side, quotes that are never closed, parentheses and other
 * signs are passed over; terms beyond the 32nd are left out. An empty query matches nothing.
 *
 * Source: `hermes-product.md` §4.1.
 */
import * as SearchWords from "./SearchWords.ts"

/** A word, or several that must follow one another. */
export interface Term {
  readonly words: ReadonlyArray<string>
  /** True when the last word is only the beginning of one. */
  readonly prefix: boolean
}

/** One alternative: every term of `all`, no term of `none`. `all` is never empty. */
export interface Alternative {
  readonly all: ReadonlyArray<Term>
  readonly none: ReadonlyArray<Term>
}

/** The alternatives, of which one must fit. */
export type SearchQuery = ReadonlyArray<Alternative>

const maxTerms = 32

// A closed quotation, or a run without blanks, quotes and parentheses. A lone quote matches neither and is passed over.
const pieces = /"([^"]*)"|[^\s"()]+/gu

interface Draft {
  readonly all: Array<Term>
  readonly none: Array<Term>
}

/** Reads a query. */
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
