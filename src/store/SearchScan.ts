/** Search without an index: tests whether a message matches a query, and finds the location of the match. */
import type { Alternative, SearchQuery, Term } from "./SearchQuery.ts"
import type { SearchText } from "./MessageText.ts"
import * as SearchWords from "./SearchWords.ts"

/** Number of words before the first match in an excerpt, and maximum number of words in total. */
const lead = 8
const shown = 32

interface Field {
  readonly text: string
  readonly words: ReadonlyArray<SearchWords.Word>
  readonly folded: ReadonlyArray<string>
}

interface Span {
  readonly first: number
  readonly last: number
}

const makeField = (text: string): Field => {
  const words = SearchWords.splitWords(text)
  return { text, words, folded: words.map((word) => SearchWords.fold(word.text)) }
}

const findSpans = (term: Term, { folded }: Field): ReadonlyArray<Span> => {
  const wanted = term.words.map(SearchWords.fold)
  const last = wanted.length - 1
  const isSpanAt = (start: number): boolean =>
    wanted.every((word, index) => {
      const there = folded[start + index]
      return there === word || (term.prefix && index === last && there !== undefined && there.startsWith(word))
    })
  return folded.flatMap((_, start) => (isSpanAt(start) ? [{ first: start, last: start + last }] : []))
}

const isMatch = (alternative: Alternative, fields: ReadonlyArray<Field>): boolean => {
  const hasTerm = (term: Term): boolean => fields.some((field) => findSpans(term, field).length > 0)
  return alternative.all.every(hasTerm) && !alternative.none.some(hasTerm)
}

const renderSnippet = ({ text, words }: Field, found: ReadonlyArray<Span>): string => {
  const sorted = found.toSorted((a, b) => a.first - b.first || b.last - a.last)
  const from = Math.max(0, (sorted[0]?.first ?? 0) - lead)
  const to = Math.min(words.length, from + shown)
  const getWordStart = (index: number): number => words[index]?.start ?? text.length
  let at = from === 0 ? 0 : getWordStart(from)
  const end = to === words.length ? text.length : (words[to - 1]?.end ?? text.length)
  let out = from === 0 ? "" : "…"
  for (const { first, last } of sorted) {
    const start = getWordStart(first)
    const stop = words[last]?.end ?? text.length
    if (start < at || stop > end) continue
    out += `${text.slice(at, start)}>>>${text.slice(start, stop)}<<<`
    at = stop
  }
  return out + text.slice(at, end) + (to === words.length ? "" : "…")
}

/** Returns an excerpt of a message with the match marked, or `undefined` if the message does not match the query. */
export const find = (query: SearchQuery, text: SearchText): string | undefined => {
  const fields = [text.content, text.toolNames, text.toolCalls].map(makeField)
  const alternative = query.find((alternative) => isMatch(alternative, fields))
  if (alternative === undefined) return undefined
  for (const field of fields) {
    const found = alternative.all.flatMap((term) => findSpans(term, field))
    if (found.length > 0) return renderSnippet(field, found)
  }
  return undefined
}
