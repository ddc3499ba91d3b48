/**
 * Attribute values that are strings made of parts. Several attributes may share a part, so that data derived from it,
 * such as its bytes, is computed once.
 *
 * Source: `ARCHITECTURE.md` §4 (run record: the cost of a step depends only on its new content).
 */
import * as GrowingBytes from "./GrowingBytes.ts"

/** A part of a string. Several strings may share it. Data derived from it, such as its bytes, is cached in it. */
export interface TextPart {
  readonly text: string
  /** The part as JSON without the quotes, cached once computed. `bytes` is the part in UTF-8. */
  json?: string | undefined
  bytes?: Uint8Array | undefined
}

/**
 * A list of parts in order. `bytes` returns their UTF-8 form, separated by commas, or `undefined` if it is not known.
 */
export interface Parts {
  readonly list: () => ReadonlyArray<TextPart>
  readonly bytes: () => Uint8Array | undefined
}

const noBytes = (): undefined => undefined

/** Creates a list of parts whose UTF-8 form is not known. */
export const makeParts = (list: ReadonlyArray<TextPart>): Parts => ({ list: () => list, bytes: noBytes })

/** A string that consists of comma-separated parts, with a prefix and a suffix. */
export class JoinedText {
  readonly before: string
  readonly parts: Parts
  readonly after: string
  constructor(before: string, parts: Parts, after: string) {
    this.before = before
    this.parts = parts
    this.after = after
  }
  /** Returns the whole string. */
  toString(): string {
    const parts = this.parts.list()
    // A single join copies every part only once.
    const last = parts.length - 1
    return last < 0
      ? this.before + this.after
      : parts
          .map(({ text }, index) => `${index === 0 ? this.before : ""}${text}${index === last ? this.after : ""}`)
          .join(",")
  }
}

/**
 * Maximum number of unused bytes that are retained before the requested parts. When it is exceeded, all unused bytes
 * are removed at once.
 */
const maxBehind = 32_768

/**
 * A growing list of parts, the last of which are requested. Each part is encoded once, and the requested parts are
 * contiguous in memory.
 */
export interface GrowingParts {
  readonly add: (part: TextPart) => void
  readonly length: () => number
  /** Returns all parts from the given index on. */
  readonly from: (first: number) => Parts
}

/** Creates an empty list of parts. */
export const makeGrowingParts = (): GrowingParts => {
  const parts: Array<TextPart> = []
  let buffer = GrowingBytes.make()
  /** Index of the first part in the buffer. `ends` has the end offset of each part from that index on. */
  let base = 0
  let ends: Array<number> = []

  const findBegin = (part: number): number => (part === base ? 0 : (ends[part - base - 1] ?? 0) + 1)
  const encodeUpTo = (to: number): void => {
    for (let index = base + ends.length; index < to; index++) {
      if (index > base) buffer.add(",")
      buffer.add(parts[index]?.text ?? "")
      ends.push(buffer.length())
    }
  }
  const dropBefore = (first: number): void => {
    const begin = findBegin(first)
    const kept = GrowingBytes.make()
    kept.add(buffer.slice(begin, buffer.length()))
    ends = ends.slice(first - base).map((end) => end - begin)
    buffer = kept
    base = first
  }
  return {
    add: (part) => void parts.push(part),
    length: () => parts.length,
    from: (first) => {
      const to = parts.length
      return {
        list: () => parts.slice(first, to),
        bytes: () => {
          if (first < base || first >= to) return undefined
          if (ends.length === 0) base = first
          encodeUpTo(to)
          if (findBegin(first) > maxBehind) dropBefore(first)
          return buffer.slice(findBegin(first), ends[to - base - 1] ?? 0)
        }
      }
    }
  }
}
