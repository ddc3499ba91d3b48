/**
 * Bytes of a terminal as text for a model: decoded without ever failing, without ANSI sequences, and of bounded length.
 *
 * Source: `hermes-product.md` §2.3 (40 % head, 60 % tail).
 *
 * @since 0.1.0
 */
/** What a buffer still has. */
export interface Kept {
  readonly head: Uint8Array
  readonly tail: Uint8Array
  /** Bytes between head and tail that are gone. */
  readonly omitted: number
}

/** The first and the last bytes of an output of any length, in fixed memory. */
export interface OutputBuffer {
  /** Copies the chunk: the caller may reuse it. */
  readonly push: (chunk: Uint8Array) => void
  /** Bytes that were ever pushed. */
  readonly total: () => number
  readonly kept: () => Kept
}

const initialBytes = 4096

/** A buffer for the first `head` and the last `tail` bytes (`tail` > 0). It takes memory as the output grows. */
export const make = (limits: { readonly head: number; readonly tail: number }): OutputBuffer => {
  let head = new Uint8Array(0)
  let headLength = 0
  let ring = new Uint8Array(0)
  let pushed = 0
  /** Bytes that went past the head. */
  let past = 0

  const grown = (bytes: Uint8Array<ArrayBuffer>, used: number, needed: number, limit: number) => {
    if (bytes.length >= needed) return bytes
    const next = new Uint8Array(Math.min(limit, Math.max(needed, bytes.length * 2, initialBytes)))
    next.set(bytes.subarray(0, used))
    return next
  }

  const pushTail = (chunk: Uint8Array): void => {
    // Until the ring has its full size it is filled from the start, so growing keeps the order.
    ring = grown(ring, past, Math.min(limits.tail, past + chunk.length), limits.tail)
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
        head = grown(head, headLength, headLength + room, limits.head)
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

/** A UTF-16 code unit is at most three bytes of UTF-8; a few more, so that a cut never lacks the rest of a character. */
const bytesOf = (chars: number): number => chars * 3 + 4

/** A buffer that keeps all that {@link bounded} shows of `limit` characters. */
export const buffer = (limit: number): OutputBuffer =>
  make({ head: bytesOf(limit * headShare), tail: bytesOf(limit - limit * headShare) })

const esc = String.fromCharCode(0x1b)
const bell = String.fromCharCode(0x07)

/** CSI, then the strings (OSC, DCS, SOS, PM, APC) that BEL or ST ends, then the short sequences. */
const ansi = new RegExp(
  [
    `${esc}\\[[0-?]*[ -/]*[@-~]`,
    `${esc}[\\]PX^_][^${bell}${esc}]*(?:${bell}|${esc}\\\\)`,
    `${esc}[ -/]*[0-~]`
  ].join("|"),
  "g"
)

/** The text without escape sequences of a terminal. */
export const stripAnsi = (text: string): string => text.includes(esc) ? text.replace(ansi, "") : text

/** UTF-8 to text. What is not UTF-8 becomes U+FFFD; half a character at the start, left by a cut, is dropped. */
export const decode = (bytes: Uint8Array): string => {
  let start = 0
  while (start < 3 && ((bytes[start] ?? 0) & 0xc0) === 0x80) start++
  return new TextDecoder("utf-8", { ignoreBOM: true }).decode(bytes.subarray(start))
}

const notice = (left: number, total: number): string =>
  `\n\n[... ${left} of ${total} bytes of output left out here. ` +
  "Narrow the command, or redirect its output to a file and read the part that you need. ...]\n\n"

/** What was kept as at most `limit` characters: all of it, or its first 40 % and last 60 % with a notice between. */
export const bounded = (kept: Kept, limit: number): string => {
  const headLimit = Math.floor(limit * headShare)
  let head: string
  let tail: string
  if (kept.omitted === 0) {
    const all = new Uint8Array(kept.head.length + kept.tail.length)
    all.set(kept.head)
    all.set(kept.tail, kept.head.length)
    const text = stripAnsi(decode(all))
    if (text.length <= limit) return text
    head = text
    tail = text
  } else {
    head = stripAnsi(decode(kept.head))
    tail = stripAnsi(decode(kept.tail))
  }
  head = head.slice(0, headLimit)
  tail = tail.slice(Math.max(0, tail.length - (limit - headLimit)))
  const total = kept.head.length + kept.omitted + kept.tail.length
  const shown = new TextEncoder().encode(head + tail).length
  // A cut may split a pair of surrogates.
  return (head + notice(total - shown, total) + tail).toWellFormed()
}

/** The end of what was kept, at most `limit` characters. */
export const last = (kept: Kept, limit: number): string => {
  const size = bytesOf(limit)
  const bytes = new Uint8Array(kept.head.length + kept.tail.length)
  bytes.set(kept.head)
  bytes.set(kept.tail, kept.head.length)
  const text = stripAnsi(decode(bytes.subarray(Math.max(0, bytes.length - size))))
  return text.slice(Math.max(0, text.length - limit)).toWellFormed()
}
