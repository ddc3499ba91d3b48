/**
 * Words of a text, as search compares them.
 */

/** A word and its position. */
export interface Word {
  readonly text: string
  readonly start: number
  readonly end: number
}

// Scripts without spaces between words: each character is a separate word.
const unspaced = /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]/u

const word =
  /[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]|[[\p{L}\p{N}\p{M}\p{Co}]--[\p{sc=Han}\p{sc=Hiragana}\p{sc=Katakana}\p{sc=Hangul}\p{sc=Thai}]]+/gv

/** The words of a text: runs of letters and digits. */
export const splitWords = (text: string): ReadonlyArray<Word> =>
  Array.from(text.matchAll(word), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length
  }))

/** True when a word belongs to a script that an index of blank-separated words cannot find. */
export const isUnspaced = (word: string): boolean => unspaced.test(word)

const everyUnspaced = new RegExp(unspaced, "gu")

/**
 * Returns the characters of a text that are separate words, folded. Characters that are empty after folding are left
 * out.
 */
export const listSigns = (text: string): ReadonlyArray<string> =>
  // Folded with blanks between them, so that they stay apart.
  unspaced.test(text)
    ? fold((text.match(everyUnspaced) ?? []).join(" "))
        .split(" ")
        .filter((sign) => sign !== "")
    : []

/** A word without case and accents. */
export const fold = (word: string): string =>
  word
    .toLowerCase()
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "")
    .normalize("NFC")

/** The first characters of a text. */
export const truncateText = (text: string, length: number): string =>
  // A character is at most two units, so that a long text is not taken apart whole.
  Array.from(text.slice(0, 2 * length))
    .slice(0, length)
    .join("")
