/**
 * Converts bytes of a terminal to text for a model. Decoding never fails, and the text has no ANSI sequences and a
 * limited length.
 *
 * **Details**
 *
 * A text is redacted (`redact`) before it is cut, because a cut through a secret would leave an unrecognizable part of
 * it. If bytes were already dropped, text next to the gap that may be such a part is removed as well.
 *
 * Source: `hermes-product.md` §2.3 (40 % head, 60 % tail).
 */
import { redactText } from "../../../base/domain/Redaction.ts"
import { getCurrentRegistry } from "../../../base/domain/Secrets.ts"

/** Bytes retained by a buffer. */
interface BufferedBytes {
  readonly head: Uint8Array
  readonly tail: Uint8Array
  /** Number of omitted bytes between head and tail. */
  readonly omitted: number
}

/** The first and the last bytes of an output of any length, in fixed memory. */
export interface OutputBuffer {
  /** Appends a copy of the chunk; the caller may reuse the chunk. */
  readonly push: (chunk: Uint8Array) => void
  /** Returns the total number of bytes pushed. */
  readonly total: () => number
  readonly kept: () => BufferedBytes
}

const initialBytes = 4096

/** Creates a buffer for the first `head` and the last `tail` bytes (`tail` > 0). Its memory grows with the output. */
export const make = (limits: { readonly head: number; readonly tail: number }): OutputBuffer => {
  let head = new Uint8Array(0)
  let headLength = 0
  let ring = new Uint8Array(0)
  let pushed = 0
  /** Number of bytes pushed after the head was full. */
  let past = 0

  const growBuffer = (bytes: Uint8Array<ArrayBuffer>, used: number, needed: number, limit: number) => {
    if (bytes.length >= needed) return bytes
    const next = new Uint8Array(Math.min(limit, Math.max(needed, bytes.length * 2, initialBytes)))
    next.set(bytes.subarray(0, used))
    return next
  }

  const pushTail = (chunk: Uint8Array): void => {
    // Until the ring has its full size, it is filled from the start, so growing preserves the order.
    ring = growBuffer(ring, past, Math.min(limits.tail, past + chunk.length), limits.tail)
    const last = chunk.length > limits.tail ? chunk.subarray(chunk.length - limits.tail) : chunk
    const at = (past + chunk.length - last.length) % limits.tail
    const first = Math.min(last.length, limits.tail - at)
    ring.set(last.subarray(0, first), at)
    ring.set(last.subarray(first), 0)
    past += chunk.length
  }

  return {
    push: (chunk) => {
      pushed += chunk.length
      const room = Math.min(chunk.length, limits.head - headLength)
      if (room > 0) {
        head = growBuffer(head, headLength, headLength + room, limits.head)
        head.set(chunk.subarray(0, room), headLength)
        headLength += room
      }
      if (room < chunk.length) pushTail(chunk.subarray(room))
    },
    total: () => pushed,
    kept: () => {
      const size = Math.min(past, limits.tail)
      const at = past > limits.tail ? past % limits.tail : 0
      const tail = new Uint8Array(size)
      tail.set(ring.subarray(at, size))
      tail.set(ring.subarray(0, at), size - at)
      return { head: head.slice(0, headLength), tail, omitted: past - size }
    }
  }
}

const headShare = 0.4

/** Number of characters next to a gap that are searched for a secret cut by the gap. */
const gapChars = 1024

/**
 * A UTF-16 code unit takes at most three bytes of UTF-8. A few more bytes ensure that a cut never splits the last
 * character.
 */
const estimateBytes = (chars: number): number => chars * 3 + 4

/** Creates a buffer that retains everything that {@link renderBounded} needs for `limit` characters. */
export const makeBuffer = (limit: number): OutputBuffer =>
  make({ head: estimateBytes(limit * headShare + gapChars), tail: estimateBytes(limit - limit * headShare + gapChars) })

const esc = String.fromCharCode(0x1b)
const bell = String.fromCharCode(0x07)

/** Matches CSI sequences, then strings (OSC, DCS, SOS, PM, APC) terminated by BEL or ST, then short sequences. */
const ansi = new RegExp(
  [`${esc}\\[[0-?]*[ -/]*[@-~]`, `${esc}[\\]PX^_][^${bell}${esc}]*(?:${bell}|${esc}\\\\)`, `${esc}[ -/]*[0-~]`].join(
    "|"
  ),
  "g"
)

/** Removes terminal escape sequences from a text. */
export const stripAnsi = (text: string): string => (text.includes(esc) ? text.replace(ansi, "") : text)

/** Decodes UTF-8. Invalid bytes become U+FFFD; a partial character that a cut left at the start is dropped. */
export const decode = (bytes: Uint8Array): string => {
  let start = 0
  while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start))
}

const renderGapNotice = (left: number, total: number): string =>
  `\n\n[... ${left} of ${total} bytes of output left out here. ` +
  "Narrow the command, or redirect its output to a file and read the part that you need. ...]\n\n"

/** Finds the beginning of the last word before `at`, not more than {@link gapChars} before it. */
const findWordStart = (text: string, at: number): number => {
  let start = at
  while (start > 0 && at - start < gapChars && !/\s/.test(text.charAt(start - 1))) start--
  return start
}

/** Removes an end of the text that may be the first part of a secret. */
const cutBeforeGap = (text: string): string =>
  text.slice(0, findWordStart(text, getCurrentRegistry().cut(text, text.length)))

/** Removes a beginning of the text that may be the last part of a secret. */
const cutAfterGap = (text: string): string => {
  const edge = text.slice(0, 3 * gapChars)
  let at = Math.min(gapChars, text.length)
  for (let before = -1; at !== before;) {
    before = at
    at = getCurrentRegistry().cut(edge, findWordStart(edge, at))
  }
  return text.slice(at === 0 ? gapChars : at)
}

/** Minimum length of the last word of an unfinished output that may be the first part of a secret. */
const longWord = 16

/** Removes the last word of an unfinished text if it may be the first part of a secret. Prompts are unchanged. */
const dropOpenWord = (text: string): string => {
  const end = Math.min(getCurrentRegistry().cut(text, text.length), findWordStart(text, text.length))
  return text.length - end < longWord ? text : text.slice(0, end)
}

/** Returns the retained texts before and after the gap, if there is a gap. */
const readTexts = (kept: BufferedBytes, redact: boolean): readonly [head: string, tail: string | undefined] => {
  if (kept.omitted > 0) {
    const head = stripAnsi(decode(kept.head))
    const tail = stripAnsi(decode(kept.tail))
    return redact ? [cutBeforeGap(head), cutAfterGap(tail)] : [head, tail]
  }
  const all = new Uint8Array(kept.head.length + kept.tail.length)
  all.set(kept.head)
  all.set(kept.tail, kept.head.length)
  return [stripAnsi(decode(all)), undefined]
}

/**
 * Returns at most `limit` characters of the retained output: all of it unchanged, or its first 40 % and last 60 % with
 * a notice between, redacted if `redact` is true.
 */
export const renderBounded = (kept: BufferedBytes, limit: number, redact: boolean): string => {
  const headLimit = Math.floor(limit * headShare)
  let [head, tail = head] = readTexts(kept, redact)
  if (kept.omitted === 0 && head.length <= limit) return head
  if (redact) {
    head = redactText(head)
    tail = kept.omitted === 0 ? head : redactText(tail)
    if (kept.omitted === 0 && head.length <= limit) return head
  }
  head = head.slice(0, headLimit)
  tail = tail.slice(Math.max(0, tail.length - (limit - headLimit)))
  const total = kept.head.length + kept.omitted + kept.tail.length
  const shown = new TextEncoder().encode(head + tail).length
  // A cut may split a surrogate pair.
  return (head + renderGapNotice(total - shown, total) + tail).toWellFormed()
}

/** Options for reading text from an output. */
interface Reading {
  /** Value of `Redaction.RedactSecrets`. */
  readonly redact: boolean
  /** True if more output may follow. A possible first part of a secret is omitted then. */
  readonly goesOn: boolean
}

/** Returns the text after the gap, redacted if `redact` is true. */
export const renderKept = (bytes: BufferedBytes, { goesOn, redact }: Reading): string => {
  const [head, tail = head] = readTexts(bytes, redact)
  if (!redact) return tail
  return redactText(goesOn ? dropOpenWord(tail) : tail)
}

/** Returns the last `limit` characters of the retained output. */
export const renderEnd = (bytes: BufferedBytes, limit: number, reading: Reading): string => {
  const text = renderKept(bytes, reading)
  return text.slice(Math.max(0, text.length - limit)).toWellFormed()
}
