/**
 * Makes every character visible in text that a person has to approve: a command, a call, a difference, the label of an
 * answer.
 *
 * **Details**
 *
 * A character that a reader cannot see, or that moves, hides or reorders other characters, is replaced with a mark that
 * shows its code point: `\u{202E}`. Such characters are control characters and escape sequences, carriage returns,
 * backspaces, zero-width characters, bidirectional controls, tag characters, variation selectors, white space other
 * than the space character, and halves of surrogate pairs. Emoji retain the joiners and selectors that belong to them.
 *
 * The text is not shortened, and no characters are removed. Both functions return the argument itself if it contains no
 * character to mark.
 */

const person = String.raw`\p{Extended_Pictographic}[\u{1F3FB}-\u{1F3FF}]?`

/** Matches an emoji with the joiners, selectors and tags that belong to it; needs the flag `v`. */
export const emojiSource = String.raw`\p{RGI_Emoji_Tag_Sequence}|${person}[\uFE0E\uFE0F]?(?:\u200D${person}\uFE0F?){0,8}|[#*0-9]\uFE0F\u20E3`

const hidden = [
  String.raw`\p{Cc}\p{Cf}\p{Cs}\p{Zl}\p{Zp}\p{Default_Ignorable_Code_Point}`,
  String.raw`\u00A0\u1680\u2000-\u200A\u202F\u205F\u2800\u3000`
].join("")

const hiddenInLines = new RegExp(String.raw`${emojiSource}|((?![\n\t])[${hidden}])`, "gv")
const hiddenInLine = new RegExp(`${emojiSource}|([${hidden}])`, "gv")

/**
 * Returns the mark for a matched hidden character, which is in the first group. A matched emoji has no such group and
 * remains unchanged.
 */
const markCharacter = (match: string, found: string | undefined): string =>
  found === undefined ? match : `\\u{${(found.codePointAt(0) ?? 0).toString(16).toUpperCase()}}`

/** Marks the hidden characters in text with any number of lines; line feeds and tabs are unchanged. */
export const showLines = (text: string): string =>
  /^[\n\t -~]*$/.test(text) ? text : text.replace(hiddenInLines, markCharacter)

/** Marks the hidden characters in text that is shown as one line; line feeds and tabs are marked too. */
export const showLine = (text: string): string =>
  /^[ -~]*$/.test(text) ? text : text.replace(hiddenInLine, markCharacter)
