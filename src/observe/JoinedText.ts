/**
 * Texts of attributes that are lists of parts, which later attributes may share: derived data of a part, such as its
 * bytes, is computed once.
 *
 * Source: `ARCHITECTURE.md` §4 (run record: a step costs what is new in it).
 */
import * as GrowingBytes from "./GrowingBytes.ts"

/** A part of a text. Later texts may share it: derived data, such as its bytes, is cached with it. */
export interface TextPart {
  readonly text: string
  /** Its form in JSON, without the quotes, and its UTF-8, once they were written. */
  json?: string | undefined
  bytes?: Uint8Array | undefined
}

/** Parts in order, and their UTF-8 with commas between them where that is known. */
export interface Parts {
  readonly list: () => ReadonlyArray<TextPart>
  readonly bytes: () => Uint8Array | undefined
}

const noBytes = (): undefined => undefined

/** Parts of which nothing is known. */
export const makeParts = (list: ReadonlyArray<TextPart>): Parts => ({ list: () => list, bytes: noBytes })

/** A text that is a list of parts, separated by commas, between two others. */
export class JoinedText {
  readonly before: string
  readonly parts: Parts
  readonly after: string
  constructor(before: string, parts: Parts, after: string) {
    this.before = before
    this.parts = parts
    this.after = after
  }
  /** The text. */
  toString(): string {
    const parts = this.parts.list()
    // In one join, which copies every text once.
    const last = parts.length - 1
    return last < 0
      ? this.before + this.after
      : parts
          .map(({ text }, index) => `${index === 0 ? this.before : ""}${text}${index === last ? this.after : ""}`)
          .join(",")
  }
}

/** Bytes before the shown ones that are retained until they are dropped all at once. */
const maxBehind = 32_768

/**
 * Parts that grow at their end, of which the last ones are shown: each is encoded once, and shown ones are one piece of
 * memory.
 */
export interface GrowingParts {
  readonly add: (part: TextPart) => void
  readonly length: () => number
  /** Parts from this one to the last. */
  readonly from: (first: number) => Parts
}

/** No parts yet. */
export const makeGrowingParts = (): GrowingParts => {
  const parts: Array<TextPart> = []
  let buffer = GrowingBytes.make()
  /** Part that the buffer begins with, and the end of each from that on. */
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
