/** Splits strings into the words that the search compares. */

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

/** Returns the words of a string: sequences of letters and digits. */
export const splitWords = (text: string): ReadonlyArray<Word> =>
  Array.from(text.matchAll(word), (match) => ({
    text: match[0],
    start: match.index,
    end: match.index + match[0].length
  }))

/**
 * Tests whether a word belongs to a script without spaces between words. An index of words separated by blanks cannot
 * find such a word.
 */
export const isUnspaced = (word: string): boolean => unspaced.test(word)

const everyUnspaced = new RegExp(unspaced, "gu")

/**
 * Returns the folded characters of a string that are separate words. Characters that are empty after folding are left
 * out.
 */
export const listSigns = (text: string): ReadonlyArray<string> =>
  // The characters are folded with blanks between them, so that they remain separate.
  unspaced.test(text)
    ? fold((text.match(everyUnspaced) ?? []).join(" "))
        .split(" ")
        .filter((sign) => sign !== "")
    : []

/** Removes case and accents from a word. */
export const fold = (word: string): string =>
  word
    .toLowerCase()
    .normalize("NFD")
    .replace(/\p{Mn}/gu, "")
    .normalize("NFC")

/** Returns the first `length` characters of a string. */
export const truncateText = (text: string, length: number): string =>
  // A character has at most two code units, so it is sufficient to split this part of a long string.
  Array.from(text.slice(0, 2 * length))
    .slice(0, length)
    .join("")
