/**
 * Writes protobuf from its end to its beginning. The length of a message, which precedes it, is then already known, and
 * nested messages do not have to be copied. Fields of a message are written in reverse order.
 *
 * Source: Protocol Buffers, "Encoding".
 */
import type { GrowingBytes } from "../GrowingBytes.ts"

const encoder = new TextEncoder()

/** Buffer that is filled from its end. `at` is the offset of the first written byte. */
let buffer = new Uint8Array(65_536)
let at = buffer.length

/** Scratch space for the eight bytes of a number. */
const eight = new DataView(new ArrayBuffer(8))
const eightBytes = new Uint8Array(eight.buffer)

/** Makes room for the given number of bytes before the written ones. */
const claimBytes = (count: number): void => {
  if (count > at) {
    const larger = new Uint8Array(Math.max(buffer.length * 2, buffer.length + count))
    larger.set(buffer.subarray(at), larger.length - buffer.length + at)
    at += larger.length - buffer.length
    buffer = larger
  }
  at -= count
}

/**
 * Makes room for the given number of bytes at once, because a buffer that grows step by step is copied at each step.
 */
export const reserve = (count: number): void => {
  claimBytes(count)
  at += count
}

/** Writes bytes unchanged. */
export const writeBytes = (given: Uint8Array): void => {
  claimBytes(given.length)
  buffer.set(given, at)
}

/** Writes an integer as a varint. A negative integer takes ten bytes. */
export const writeVarint = (value: number): void => {
  if (value < 0 || !Number.isSafeInteger(value)) return writeBigVarint(BigInt.asUintN(64, BigInt(value)))
  let length = 1
  for (let rest = value; rest > 127; rest = Math.floor(rest / 128)) length++
  claimBytes(length)
  let rest = value
  for (let index = 0; index < length; index++) {
    buffer[at + index] = (rest % 128) + (index < length - 1 ? 128 : 0)
    rest = Math.floor(rest / 128)
  }
}

const writeBigVarint = (value: bigint): void => {
  const out: Array<number> = []
  for (let rest = value; rest > 0n; rest >>= 7n) out.push(Number(rest & 127n) + (rest > 127n ? 128 : 0))
  writeBytes(Uint8Array.from(out))
}

/** Wire types of fields. */
export const wire = { varint: 0, fixed64: 1, delimited: 2 } as const

/** Writes the number and wire type of the field whose value was just written. */
export const writeTag = (field: number, type: number): void => writeVarint(field * 8 + type)

/** Writes a length-delimited field whose content is written by `write`. */
export const writeDelimited = <A>(field: number, write: (value: A) => void, value: A): void => {
  const end = buffer.length - at
  write(value)
  writeVarint(buffer.length - at - end)
  writeTag(field, wire.delimited)
}

/** Maximum length of a string that is written character by character, because a call of the encoder would cost more. */
const shortText = 48

/** Writes a short ASCII string. Returns false, and writes nothing, if the string has other characters. */
const tryWriteAscii = (value: string): boolean => {
  const { length } = value
  for (let index = 0; index < length; index++) if (value.charCodeAt(index) > 127) return false
  claimBytes(length)
  for (let index = 0; index < length; index++) buffer[at + index] = value.charCodeAt(index)
  return true
}

/**
 * Writes a string. It is encoded at the start of the space that the longest encoding would need, then moved to the end
 * of that space.
 */
export const writeText = (value: string): void => {
  if (value.length <= shortText && tryWriteAscii(value)) return
  const room = value.length * 3
  claimBytes(room)
  const { written } = encoder.encodeInto(value, buffer.subarray(at, at + room))
  buffer.copyWithin(at + room - written, at, at + written)
  at += room - written
}

/** Returns the value of a hexadecimal digit. Character codes of letters are above 64, and their low bits are 1 to 6. */
const toHexDigit = (code: number): number => (code & 15) + (code > 64 ? 9 : 0)

/** Writes hexadecimal digits as bytes. */
export const writeHexBytes = (hex: string): void => {
  claimBytes(hex.length / 2)
  for (let index = 0; index < hex.length; index += 2)
    buffer[at + index / 2] = toHexDigit(hex.charCodeAt(index)) * 16 + toHexDigit(hex.charCodeAt(index + 1))
}

/** Writes an integer field. */
export const writeNumber = (field: number, value: number): void => {
  writeVarint(value)
  writeTag(field, wire.varint)
}

/** Writes a 64-bit integer field. */
export const writeBigNumber = (field: number, value: bigint): void => {
  writeBigVarint(BigInt.asUintN(64, value))
  writeTag(field, wire.varint)
}

/** Writes a field with the eight bytes in the scratch space. */
const writeFixed = (field: number): void => {
  writeBytes(eightBytes)
  writeTag(field, wire.fixed64)
}

/** Writes an instant in nanoseconds as a field. */
export const writeTime = (field: number, value: bigint): void => {
  eight.setBigUint64(0, value, true)
  writeFixed(field)
}

/** Writes a floating-point field of eight bytes. */
export const writeDouble = (field: number, value: number): void => {
  eight.setFloat64(0, value, true)
  writeFixed(field)
}

/** Returns the number of bytes written so far, which marks the end of the next message. */
export const mark = (): number => buffer.length - at

/** Returns a copy of the bytes written since the mark. */
export const copySince = (end: number): Uint8Array => buffer.slice(at, buffer.length - end)

/** Turns the bytes written since the mark into a field. */
export const closeField = (field: number, end: number): void => {
  writeVarint(buffer.length - at - end)
  writeTag(field, wire.delimited)
}

/** Writes a field whose content is written by `write`. */
export const writeMessage = (field: number, write: () => void): void => {
  const end = mark()
  write()
  closeField(field, end)
}

/** Maximum size of a buffer that is reused for the next span, in bytes. */
const maxKept = 1_048_576

/** Replaces a buffer that has grown too large with one of the initial size. */
const releaseBuffer = (): void => {
  if (buffer.length > maxKept) buffer = new Uint8Array(65_536)
}

/** Returns the bytes that `write` writes. */
export const collectBytes = (write: () => void): Uint8Array<ArrayBuffer> => {
  at = buffer.length
  write()
  // A large buffer that is mostly full is discarded afterwards, so a view of it is returned without copying.
  const out = buffer.length <= maxKept || at > buffer.length / 4 ? buffer.slice(at) : buffer.subarray(at)
  releaseBuffer()
  return out
}

/** Appends the bytes that `write` writes for a value. */
export const append = <A>(to: GrowingBytes, write: (value: A) => void, value: A): void => {
  at = buffer.length
  write(value)
  to.add(buffer.subarray(at))
  releaseBuffer()
}
