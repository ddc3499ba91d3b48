/**
 * Width of text in terminal columns, and cutting by columns. Pure.
 *
 * A grapheme, one character to its reader (a letter with its accents, a flag, a family of four), is never divided.
 * East Asian wide and fullwidth characters and emoji take two columns, marks and joiners none.
 *
 * **Gotchas**
 *
 * Terminals disagree about some of it (a heart with an emoji selector, ambiguous East Asian characters). This follows
 * current terminals; where one differs, a line is a column off and nothing is lost. Text must be free of control
 * characters, see `SafeText`.
 */

const ascii = /^[\x20-\x7e]*$/

/**
 * The blocks whose characters are all wide (Unicode's East Asian Width W and F); wide emoji are a property of their
 * own.
 */
const wide =
  /^[\u{1100}-\u{115f}\u{2329}\u{232a}\u{2e80}-\u{303e}\u{3041}-\u{a4cf}\u{a960}-\u{a97f}\u{ac00}-\u{d7a3}\u{f900}-\u{faff}\u{fe10}-\u{fe19}\u{fe30}-\u{fe6b}\u{ff01}-\u{ff60}\u{ffe0}-\u{ffe6}\u{16fe0}-\u{1b2ff}\u{1f200}-\u{1f2ff}\u{20000}-\u{3fffd}]|^\p{Emoji_Presentation}/u

/** Accents, joiners, selectors, and the vowels and finals of decomposed Hangul. */
const zero = /^[\p{M}\p{Cf}\p{Cc}\u{1160}-\u{11ff}\u{d7b0}-\u{d7ff}]/u

/** An emoji selector, a joined emoji, a flag, a skin tone. */
const emojiSequence = /\u{fe0f}|\u{200d}\p{Extended_Pictographic}|\p{Regional_Indicator}|\p{Emoji_Modifier}/u

/** Making one takes milliseconds, and most text needs none. */
let segmenter: Intl.Segmenter | undefined

const measureCodePoint = (char: string): number => (zero.test(char) ? 0 : wide.test(char) ? 2 : 1)

const measureGrapheme = (grapheme: string): number => {
  if (grapheme.length === 1) return measureCodePoint(grapheme)
  if (emojiSequence.test(grapheme)) return 2
  let width = 0
  for (const char of grapheme) width += measureCodePoint(char)
  return width
}

/** A character as a user sees it. */
export interface Grapheme {
  readonly text: string
  readonly width: number
}

/** The characters of a text as a user sees them. */
export function* splitGraphemes(text: string): Generator<Grapheme> {
  if (ascii.test(text)) {
    for (let index = 0; index < text.length; index++) yield { text: text.charAt(index), width: 1 }
    return
  }
  segmenter ??= new Intl.Segmenter("en", { granularity: "grapheme" })
  for (const { segment } of segmenter.segment(text)) yield { text: segment, width: measureGrapheme(segment) }
}

/** The columns of a text of one line. */
export const measure = (text: string): number => {
  if (ascii.test(text)) return text.length
  let width = 0
  for (const grapheme of splitGraphemes(text)) width += grapheme.width
  return width
}

/** As much of a text's beginning as fits into so many columns, and the rest. */
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

/** A text of at most so many columns; one that was cut ends in an ellipsis. */
export const cut = (text: string, columns: number): string => {
  const [whole, rest] = split(text, columns)
  if (rest === "") return whole
  return columns < 1 ? "" : `${split(text, columns - 1)[0].trimEnd()}…`
}

/** Filled up with spaces. */
export const pad = (text: string, columns: number, align: "left" | "right" | "center" = "left"): string => {
  const missing = Math.max(0, columns - measure(text))
  if (align === "left") return text + " ".repeat(missing)
  if (align === "right") return " ".repeat(missing) + text
  const before = missing >> 1
  return " ".repeat(before) + text + " ".repeat(missing - before)
}
