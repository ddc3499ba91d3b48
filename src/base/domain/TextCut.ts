/**
 * Shortens long text without splitting a character as users see it (an emoji of several code points, a letter with its
 * accents), and adds a note about the missing part.
 */

/**
 * Formats a whole number with commas, such as `128,000`. The formatters of `Intl` take several milliseconds the first
 * time, which a start would notice.
 */
export const formatInteger = (value: number): string => String(value).replaceAll(/\B(?=(?:\d{3})+$)/g, ",")

/** Number of code units that are searched for a character boundary; real characters are shorter. */
const window = 64

let made: Intl.Segmenter | undefined
const segmentText = (text: string): Intl.Segments =>
  (made ??= new Intl.Segmenter("en", { granularity: "grapheme" })).segment(text)

const isSimple = (text: string): boolean => /^[\t\n\r -~]*$/.test(text)

const isLowSurrogate = (text: string, at: number): boolean => {
  const code = text.charCodeAt(at)
  return code >= 0xdc00 && code <= 0xdfff
}

/** Returns the last character boundary at or before `at`. */
const findBorderBefore = (text: string, at: number): number => {
  if (at <= 0) return 0
  if (at >= text.length) return text.length
  const around = text.slice(at - 1, at + 1)
  if (isSimple(around) && around !== "\r\n") return at
  const wished = Math.max(0, at - window)
  const start = isLowSurrogate(text, wished) ? wished - 1 : wished
  let border = start
  for (const { index, segment } of segmentText(text.slice(start, at + window))) {
    const end = start + index + segment.length
    if (end > at) break
    border = end
  }
  // A sequence of combining marks longer than the window is not a readable character, so it may be cut between code
  // points.
  return border === start && start > 0 ? at - (isLowSurrogate(text, at) ? 1 : 0) : border
}

/** Returns the first character boundary at or after `at`. */
const findBorderAfter = (text: string, at: number): number => {
  const before = findBorderBefore(text, at)
  if (before >= at) return before
  for (const { segment } of segmentText(text.slice(before, before + 2 * window)))
    return Math.min(text.length, before + segment.length)
  return at
}

/** Returns at most `chars` code units from the beginning. */
export const takeHead = (text: string, chars: number): string =>
  text.length <= chars ? text : text.slice(0, findBorderBefore(text, chars))

/** Returns the result of {@link takeHead}, followed by `…` if the text is longer. */
export const shorten = (text: string, chars: number): string =>
  text.length <= chars ? text : `${takeHead(text, chars)}…`

/** Returns at most `chars` code units from the end. */
export const takeTail = (text: string, chars: number): string =>
  text.length <= chars ? text : chars <= 0 ? "" : text.slice(findBorderAfter(text, text.length - chars))

/**
 * Returns the beginning and the end of the text with a note between them, at most `chars` code units in total. `share`
 * is the fraction that the beginning takes up.
 */
export const cutMiddle = (text: string, chars: number, share = 0.4): string => {
  if (text.length <= chars) return text
  const note = `\n\n... [${text.length - chars} of ${text.length} characters left out] ...\n\n`
  const room = chars - note.length
  if (room < 2) return takeHead(text, chars)
  const first = Math.floor(room * share)
  return takeHead(text, first) + note + takeTail(text, room - first)
}
