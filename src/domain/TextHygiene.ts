/**
 * Keeps text well formed: surrogates that stand alone become U+FFFD, control characters that no text needs are taken out.
 *
 * **Details**
 *
 * Everything here returns its argument itself when there is nothing to do, and never throws. Characters outside the basic
 * plane are pairs of surrogates and stay.
 *
 * Source: `hermes-llm.md` §19.1.
 */

/** A text without unpaired surrogates. */
export const wellFormed = (text: string): string => text.isWellFormed() ? text : text.toWellFormed()

/** {@link wellFormed} for text that comes in pieces: a pair that is split over two of them stays a pair. */
export interface HygieneStream {
  readonly push: (piece: string) => string
  /** The text is over: what was held back. */
  readonly end: () => string
}

/** Makes a {@link HygieneStream}. */
export const stream = (): HygieneStream => {
  let held = ""
  return {
    push: (piece) => {
      const text = held + piece
      const last = text.charCodeAt(text.length - 1)
      held = last >= 0xd800 && last <= 0xdbff ? text.slice(-1) : ""
      return wellFormed(held === "" ? text : text.slice(0, -1))
    },
    end: () => {
      const text = held
      held = ""
      return wellFormed(text)
    }
  }
}

const controls = new RegExp(String.raw`[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]`, "g")

/** A text without control characters other than tab and line ends. */
export const withoutControls = (text: string): string => text.replace(controls, "")

const maxDepth = 64

/** The same for every string and key of a JSON value. */
export const wellFormedValue = (value: unknown, depth = 0): unknown => {
  if (typeof value === "string") return wellFormed(value)
  if (typeof value !== "object" || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) {
    const items = value.map((item: unknown) => wellFormedValue(item, depth + 1))
    return items.every((item, index) => Object.is(item, value[index])) ? value : items
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  const before = Object.entries(value)
  const after = before.map(([key, item]) => [wellFormed(key), wellFormedValue(item, depth + 1)] as const)
  return after.every(([key, item], index) => key === before[index]?.[0] && Object.is(item, before[index]?.[1]))
    ? value
    : Object.fromEntries(after)
}
