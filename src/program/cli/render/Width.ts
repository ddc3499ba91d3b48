/**
 * Measures and cuts text by its width in terminal columns. Pure.
 *
 * A grapheme, which the reader sees as one character (a letter with its accents, a flag, a family of four), is never
 * divided. East Asian wide and fullwidth characters and emoji take two columns; marks and joiners take no columns.
 *
 * **Gotchas**
 *
 * Terminals disagree about some characters (a heart with an emoji selector, ambiguous East Asian characters). The
 * widths follow current terminals; on a terminal that differs, a line is off by a column, but no text is lost. Text
 * must be free of control characters, see `SafeText`.
 */

const ascii = /^[\x20-\x7e]*$/

/**
 * The Unicode blocks whose characters are all wide (East Asian Width W and F). Wide emoji are identified by a separate
 * property.
 */
const wide =
  /^[\u{1100}-\u{115f}\u{2329}\u{232a}\u{2e80}-\u{303e}\u{3041}-\u{a4cf}\u{a960}-\u{a97f}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe10}-\u{fe19}\u{fe30}-\u{fe6b}\u{ff01}-\u{ff60}\u{ffe0}-\u{ffe6}\u{16fe0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}/u

/** Matches characters of width 0: accents, joiners, selectors, and the vowels and finals of decomposed Hangul. */
const zero = /^[\p{M}\p{Cf}\p{Cc}\u{1160}-\u{11ff}\u{d7b0}-\u{d7ff}]/u

/** Matches an emoji selector, a joined emoji, a flag or a skin tone. */
const emojiSequence = /\u{fe0f}|\u{200d}\p{Extended_Pictographic}|\p{Regional_Indicator}|\p{Emoji_Modifier}/u

/** Created on demand: creating a segmenter takes milliseconds, and most text does not need it. */
let segmenter: Intl.Segmenter | undefined

const measureCodePoint = (char: string): number => (zero.test(char) ? 0 : wide.test(char) ? 2 : 1)

const measureGrapheme = (grapheme: string): number => {
  if (grapheme.length === 1) return measureCodePoint(grapheme)
  if (emojiSequence.test(grapheme)) return 2
  let width = 0
  for (const char of grapheme) width += measureCodePoint(char)
  return width
}

/** A grapheme with its width. */
export interface Grapheme {
  readonly text: string
  readonly width: number
}

/** Splits text into its graphemes. */
export function* splitGraphemes(text: string): Generator<Grapheme> {
  if (ascii.test(text)) {
    for (let index = 0; index < text.length; index++) yield { text: text.charAt(index), width: 1 }
    return
  }
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" })
  for (const { segment } of segmenter.segment(text)) yield { text: segment, width: measureGrapheme(segment) }
}

/** Returns the width of one line of text in columns. */
export const measure = (text: string): number => {
  if (ascii.test(text)) return text.length
  let width = 0
  for (const grapheme of splitGraphemes(text)) width += grapheme.width
  return width
}

/** Splits text into the longest beginning that fits the given number of columns, and the rest. */
export const split = (text: string, columns: number): readonly [head: string, rest: string] => {
  if (text.length <= columns && ascii.test(text)) return [text, ""]
  let width = 0
  let length = 0
  for (const grapheme of splitGraphemes(text)) {
    width += grapheme.width
    if (width > columns) break
    length += grapheme.text.length
  }
  return [text.slice(0, length), text.slice(length)]
}

/** Cuts text to the given number of columns. Text that was cut ends with an ellipsis. */
export const cut = (text: string, columns: number): string => {
  const [whole, rest] = split(text, columns)
  if (rest === "") return whole
  return columns < 1 ? "" : `${split(text, columns - 1)[0].trimEnd()}…`
}

/** Pads text with spaces to the given number of columns. */
export const pad = (text: string, columns: number, align: "left" | "right" | "center" = "left"): string => {
  const missing = Math.max(0, columns - measure(text))
  if (align === "left") return text + " ".repeat(missing)
  if (align === "right") return " ".repeat(missing) + text
  const before = missing >> 1
  return " ".repeat(before) + text + " ".repeat(missing - before)
}
