/**
 * Finds characters that hide text from a human reader but not from a model, and decodes the hidden text.
 *
 * **Details**
 *
 * Finds tag characters, runs of variation selectors, zero-width characters, and bidirectional controls. Characters that
 * a script or an emoji needs are allowed: joiners in emoji and between letters of joining scripts, one selector after a
 * non-ASCII character, the tags of the flags of England, Scotland and Wales, and the byte order mark at the beginning
 * of a file.
 *
 * Three encodings are read: letters as tag characters, bytes as variation selectors, bits as two zero-width characters.
 */
import * as TextCut from "./TextCut.ts"
import * as VisibleText from "./VisibleText.ts"

/** Hidden text found in a visible text. */
export interface HiddenText {
  /** Offset of the first hidden character. */
  readonly at: number
  /** The decoded text, in visible characters and shortened; `undefined` if the encoding is unknown. */
  readonly decoded: string | undefined
}

/** Extent of the search: every hiding character, or only characters that do not occur in ordinary web pages. */
export type Strictness = "every" | "clear"

const selectors = String.raw`\uFE00-\uFE0F\u{E0100}-\u{E01EF}`
const joiningScripts = [
  ..."Arabic Syriac Devanagari Bengali Gurmukhi Gujarati Oriya Tamil Telugu Kannada Malayalam".split(" "),
  ..."Sinhala Khmer Myanmar Mongolian Tibetan".split(" ")
]
  .map((script) => String.raw`\p{Script=${script}}`)
  .join("")

const legitimate = new RegExp(
  [
    VisibleText.emojiSource,
    String.raw`^\uFEFF`,
    String.raw`[#*0-9]\uFE0F`,
    String.raw`(?<=[${joiningScripts}])[\u200C\u200D]`,
    String.raw`(?<=[^\x00-\x7F${selectors}])[\uFE00-\uFE0F]`,
    String.raw`(?<=\p{Unified_Ideograph})[\u{E0100}-\u{E01EF}]`
  ].join("|"),
  "gv"
)

const bidirectional = String.raw`\u202A-\u202E\u2066-\u2069`
const widthless = String.raw`\u200B-\u200D\u2060-\u2064\uFEFF`
const every = new RegExp(String.raw`[${bidirectional}${widthless}${selectors}\u{E0000}-\u{E007F}]`, "v")
const clear = new RegExp(
  String.raw`[${bidirectional}]|[\u200B\u2060-\u2064\uFEFF]{3}|[\u200B-\u200D]{8}|[${selectors}]{2}|` +
    String.raw`[\u{E0000}-\u{E007F}]{2}`,
  "v"
)

const isReadable = (text: string): boolean => text.length >= 3 && /^[\p{L}\p{M}\p{N}\p{P}\p{S}\p{Zs}\n\t]+$/u.test(text)

const listCodePoints = (text: string, pattern: RegExp): ReadonlyArray<number> =>
  Array.from(text.matchAll(pattern), ([found]) => found.codePointAt(0) ?? 0)

const readTags = (text: string): string =>
  String.fromCharCode(
    ...listCodePoints(text, /[\u{E0020}-\u{E007E}]/gu)
      .slice(0, longestRead)
      .map((code) => code - 0xe0000)
  )

const readSelectors = (text: string): string => {
  const codes = listCodePoints(text, /[\uFE00-\uFE0F\u{E0100}-\u{E01EF}]/gu).slice(0, longestRead)
  const bytes = Uint8Array.from(codes, (code) => (code <= 0xfe0f ? code - 0xfe00 : code - 0xe0100 + 16))
  return new TextDecoder().decode(bytes)
}

/** Decodes two zero-width characters as bits, eight per letter. Other zero-width characters separate letters. */
const readWidthless = (text: string): string => {
  const codes = listCodePoints(text, /[\u200B-\u200D\u2060-\u2064\uFEFF]/gu).slice(0, longestRead * 8)
  const [first, second] = [...new Set(codes)]
  const bits = codes.flatMap((code) => (code === first ? [0] : code === second ? [1] : []))
  const readBits = (one: number): string =>
    String.fromCharCode(
      ...Array.from({ length: bits.length >> 3 }, (_, index) =>
        bits.slice(index * 8, index * 8 + 8).reduce((byte, bit) => byte * 2 + (bit === one ? 1 : 0), 0)
      )
    )
  return [readBits(1), readBits(0)].find((found) => /^[\n\t -~]+$/.test(found)) ?? ""
}

/** Maximum number of letters of hidden text that are decoded. */
const longestRead = 400

/** Maximum number of letters of hidden text that are reported. */
const longestNamed = 120

const decodeHidden = (text: string): string | undefined => {
  const found = [readTags, readSelectors, readWidthless].map((read) => read(text)).find(isReadable)
  return found === undefined ? undefined : VisibleText.showLine(TextCut.shorten(found.trim(), longestNamed))
}

/** Finds characters that hide text; returns `undefined` if there are no such characters. */
export const findHiddenText = (text: string, strictness: Strictness): HiddenText | undefined => {
  if (!every.test(text)) return undefined
  const rest = text.replace(legitimate, (found) => " ".repeat(found.length))
  const at = rest.search(strictness === "every" ? every : clear)
  return at === -1 ? undefined : { at, decoded: decodeHidden(rest) }
}
