/**
 * The first and the last bytes of an output of any length, in fixed memory.
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

/** See the module. */
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
