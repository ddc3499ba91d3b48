/**
 * A buffer of UTF-8 text to which text is appended. Existing bytes are not encoded or copied again when text is added.
 *
 * Source: `relay-atof-atif.md` §1.7 (rule 6: a request has all messages).
 */
const encoder = new TextEncoder()

/** Size of the first buffer, and of the largest buffer that {@link GrowingBytes.clear} retains, in bytes. */
const [smallest, largest] = [4096, 4_194_304]

/**
 * Maximum length of a string that is written character by character. For such a short string, calling the encoder and
 * creating the view that it needs would cost more.
 */
const shortText = 48

/** Maximum number of UTF-8 bytes per UTF-16 code unit. */
const maxBytes = 3

/** A sequence of bytes that grows at its end. */
export interface GrowingBytes {
  readonly length: () => number
  /**
   * Makes room for the given number of additional bytes at once, because a buffer that grows step by step is copied at
   * each step.
   */
  readonly reserve: (count: number) => void
  /** Adds text, or text that is already encoded as UTF-8. */
  readonly add: (more: string | Uint8Array) => void
  /**
   * Returns a part of the bytes. Later additions do not change the returned bytes; {@link cut} and {@link clear} do.
   */
  readonly slice: (from: number, to: number) => Uint8Array<ArrayBuffer>
  /** Removes all bytes from an offset to the end. */
  readonly cut: (at: number) => void
  /** Removes all bytes. The buffer is reused unless it is large. */
  readonly clear: () => void
}

/** Creates an empty sequence of bytes. */
export const make = (): GrowingBytes => {
  let buffer = new Uint8Array(smallest)
  let at = 0
  const ensureCapacity = (count: number): void => {
    if (at + count <= buffer.length) return
    const larger = new Uint8Array(Math.max(buffer.length * 2, at + count))
    larger.set(buffer.subarray(0, at))
    buffer = larger
  }
  /** Adds an ASCII string. Returns false, and adds nothing, if the string has other characters. */
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
