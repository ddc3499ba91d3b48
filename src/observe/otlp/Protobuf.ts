/**
 * Writes protobuf from its end to its beginning: the length of a message, which precedes it, is then known, and no text
 * is copied from one message into the next. Fields of a message are written in the opposite order.
 *
 * Source: Protocol Buffers, "Encoding".
 */
import type { GrowingBytes } from "../GrowingBytes.ts"

const encoder = new TextEncoder()

/** Buffer that is filled from its end on; `at` is the first byte that is written. */
let buffer = new Uint8Array(65_536)
let at = buffer.length

/** Bytes of a number. */
const eight = new DataView(new ArrayBuffer(8))
const eightBytes = new Uint8Array(eight.buffer)

/** Makes room for so many bytes before what is written. */
const claimBytes = (count: number): void => {
  if (count > at) {
    const larger = new Uint8Array(Math.max(buffer.length * 2, buffer.length + count))
    larger.set(buffer.subarray(at), larger.length - buffer.length + at)
    at += larger.length - buffer.length
    buffer = larger
  }
  at -= count
}

/** Makes room for so many bytes at once: a buffer that grows step by step is copied at each. */
export const reserve = (count: number): void => {
  claimBytes(count)
  at += count
}

/** Bytes as they are. */
export const writeBytes = (given: Uint8Array): void => {
  claimBytes(given.length)
  buffer.set(given, at)
}

/** An integer; a negative one has ten bytes. */
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

/** Types of fields. */
export const wire = { varint: 0, fixed64: 1, delimited: 2 } as const

/** Number and type of the field that was written. */
export const writeTag = (field: number, type: number): void => writeVarint(field * 8 + type)

/** A field of what `write` writes. */
export const writeDelimited = <A>(field: number, write: (value: A) => void, value: A): void => {
  const end = buffer.length - at
  write(value)
  writeVarint(buffer.length - at - end)
  writeTag(field, wire.delimited)
}

/** Longest text that is written character by character: a call of the encoder costs more. */
const shortText = 48

/** Writes a short text of ASCII; false, with nothing written, of every other one. */
const tryWriteAscii = (value: string): boolean => {
  const { length } = value
  for (let index = 0; index < length; index++) if (value.charCodeAt(index) > 127) return false
  claimBytes(length)
  for (let index = 0; index < length; index++) buffer[at + index] = value.charCodeAt(index)
  return true
}

/** Writes where the longest encoding would begin, and moves it to its end. */
export const writeText = (value: string): void => {
  if (value.length <= shortText && tryWriteAscii(value)) return
  const room = value.length * 3
  claimBytes(room)
  const { written } = encoder.encodeInto(value, buffer.subarray(at, at + room))
  buffer.copyWithin(at + room - written, at, at + written)
  at += room - written
}

/** Value of a hexadecimal digit, of which letters have the bit 64 and end in 1 to 6. */
const toHexDigit = (code: number): number => (code & 15) + (code > 64 ? 9 : 0)

/** Bytes of hexadecimal digits. */
export const writeHexBytes = (hex: string): void => {
  claimBytes(hex.length / 2)
  for (let index = 0; index < hex.length; index += 2)
    buffer[at + index / 2] = toHexDigit(hex.charCodeAt(index)) * 16 + toHexDigit(hex.charCodeAt(index + 1))
}

/** A field that is an integer. */
export const writeNumber = (field: number, value: number): void => {
  writeVarint(value)
  writeTag(field, wire.varint)
}

/** A field that is an integer of 64 bits. */
export const writeBigNumber = (field: number, value: bigint): void => {
  writeBigVarint(BigInt.asUintN(64, value))
  writeTag(field, wire.varint)
}

/** A field of the eight bytes of a number. */
const writeFixed = (field: number): void => {
  writeBytes(eightBytes)
  writeTag(field, wire.fixed64)
}

/** A field that is an instant in nanoseconds. */
export const writeTime = (field: number, value: bigint): void => {
  eight.setBigUint64(0, value, true)
  writeFixed(field)
}

/** A field of eight bytes that is a number with a fraction. */
export const writeDouble = (field: number, value: number): void => {
  eight.setFloat64(0, value, true)
  writeFixed(field)
}

/** Bytes that are written so far: the end of a message that is written next. */
export const mark = (): number => buffer.length - at

/** Returns a copy of the bytes written since the mark. */
export const copySince = (end: number): Uint8Array => buffer.slice(at, buffer.length - end)

/** Makes a field of the bytes written since the mark. */
export const closeField = (field: number, end: number): void => {
  writeVarint(buffer.length - at - end)
  writeTag(field, wire.delimited)
}

/** Writes a field of what `write` writes. */
export const writeMessage = (field: number, write: () => void): void => {
  const end = mark()
  write()
  closeField(field, end)
}

/** The largest buffer that is retained for the next span. */
const maxKept = 1_048_576

/** Begins the next message in a buffer of the usual size. */
const releaseBuffer = (): void => {
  if (buffer.length > maxKept) buffer = new Uint8Array(65_536)
}

/** Bytes of what `write` writes. */
export const collectBytes = (write: () => void): Uint8Array<ArrayBuffer> => {
  at = buffer.length
  write()
  // One that is nearly full and goes is given away, which copies nothing.
  const out = buffer.length <= maxKept || at > buffer.length / 4 ? buffer.slice(at) : buffer.subarray(at)
  releaseBuffer()
  return out
}

/** Adds what `write` writes of a value to others. */
export const append = <A>(to: GrowingBytes, write: (value: A) => void, value: A): void => {
  at = buffer.length
  write(value)
  to.add(buffer.subarray(at))
  releaseBuffer()
}
