/**
 * The text of a file for editing: what surrounds it (byte order mark, line ends) is taken off and put back, so that an
 * edit changes what it names and nothing else. Pure.
 *
 * **Details**
 *
 * A file whose every line ends with CRLF is edited with LF and written with CRLF. A file of mixed line ends is edited as
 * it is.
 *
 * @since 0.1.0
 */

/** A file's text and what surrounds it. */
export interface Text {
  readonly text: string
  readonly bom: boolean
  readonly crlf: boolean
}

const decoder = new TextDecoder("utf-8", { fatal: true, ignoreBOM: true })
const encoder = new TextEncoder()
const mark = "\uFEFF"

/** The text of UTF-8 bytes; `undefined` where they are not UTF-8 and an edit would change bytes that it does not name. */
export const decode = (bytes: Uint8Array): Text | undefined => {
  let whole: string
  try {
    whole = decoder.decode(bytes)
  } catch {
    return undefined
  }
  const bom = whole.startsWith(mark)
  const text = bom ? whole.slice(1) : whole
  const crlf = text.includes("\r\n") && !/(^|[^\r])\n/.test(text)
  return { text: crlf ? text.replaceAll("\r\n", "\n") : text, bom, crlf }
}

/** The bytes of a text in the surroundings that it came from. */
export const encode = ({ text, bom, crlf }: Text): Uint8Array =>
  encoder.encode((bom ? mark : "") + (crlf ? text.replaceAll("\n", "\r\n") : text))

/** A text that a model wrote in the line ends in which `file` is edited. */
export const adopt = (file: Text, written: string): string =>
  file.crlf || !file.text.includes("\r") ? written.replaceAll("\r\n", "\n") : written

/** Plain text: no mark, LF. */
export const plain = (text: string): Text => ({ text, bom: false, crlf: false })
