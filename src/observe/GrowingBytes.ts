/**
 * Text in UTF-8 that grows at its end, so that what is known of it is never encoded or copied again for a longer one.
 *
 * Source: `relay-atof-atif.md` §1.7 (rule 6: a request has all messages).
 */
const encoder = new TextEncoder()

/** Bytes of the first buffer, and of the largest buffer that {@link GrowingBytes.clear} retains. */
const [smallest, largest] = [4096, 4_194_304]

/**
 * Longest text that is written character by character: a call of the encoder, and the view that it needs, cost more.
 */
const shortText = 48

/** Most bytes that a character of a text has. */
const maxBytes = 3

/** Bytes that grow at their end. */
export interface GrowingBytes {
  readonly length: () => number
  /** Makes room for so many more bytes at once: a buffer that grows step by step is copied at each. */
  readonly reserve: (count: number) => void
  /** Adds text, or bytes that are text in UTF-8. */
  readonly add: (more: string | Uint8Array) => void
  /** Returns a part of the bytes. Later additions do not change it; {@link cut} and {@link clear} do. */
  readonly slice: (from: number, to: number) => Uint8Array<ArrayBuffer>
  /** Removes the bytes from a place on. */
  readonly cut: (at: number) => void
  /** Begins anew, in the same memory unless it is large. */
  readonly clear: () => void
}

/** No bytes yet. */
export const make = (): GrowingBytes => {
  let buffer = new Uint8Array(smallest)
  let at = 0
  const ensureCapacity = (count: number): void => {
    if (at + count <= buffer.length) return
    const larger = new Uint8Array(Math.max(buffer.length * 2, at + count))
    larger.set(buffer.subarray(0, at))
    buffer = larger
  }
  /** Adds a text of ASCII; false, with nothing added, of every other one. */
  const writeAscii = (text: string): boolean => {
    const { length } = text
    for (let index = 0; index < length; index++) {
      const code = text.charCodeAt(index)
      if (code > 127) return false
      buffer[at + index] = code
    }
    at += length
    return true
  }
  return {
    length: () => at,
    reserve: ensureCapacity,
    add: (more) => {
      if (typeof more === "string") {
        ensureCapacity(more.length * maxBytes)
        if (more.length <= shortText && writeAscii(more)) return
        at += encoder.encodeInto(more, buffer.subarray(at)).written
      } else {
        ensureCapacity(more.length)
        buffer.set(more, at)
        at += more.length
      }
    },
    slice: (from, to) => buffer.subarray(from, to),
    cut: (to) => {
      at = to
    },
    clear: () => {
      at = 0
      if (buffer.length > largest) buffer = new Uint8Array(smallest)
    }
  }
}
