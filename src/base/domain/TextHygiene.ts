/**
 * Makes text from users and models safe to store and send: lone surrogates become U+FFFD, and unneeded control
 * characters and the fences `<memory-context>` and `<plugin-context>` are removed.
 *
 * **Details**
 *
 * All functions return the argument itself if nothing has to change, and never throw. Surrogate pairs (characters
 * outside the basic plane) are unchanged.
 *
 * Fences enclose the runtime's additions to a request. Users must not write fences, and models must not repeat them.
 * In **input** ({@link stripFences}) whole blocks are removed first, then the accompanying note, then tags without a
 * partner. In **output** ({@link makeFenceStream}) text arrives in pieces: a possible tag is held back until it is
 * resolved, a block is dropped as it arrives, and an unclosed block drops the rest. {@link stripOutputFences} does the
 * same for a whole text at once.
 *
 * A tag that is quoted as code on both sides (`` `<memory-context>` ``) is mentioned, not used, and remains in output.
 *
 * Source: `hermes-llm.md` §8, §19.1 and §19.2, `ARCHITECTURE.md` §7.
 */

/** Replaces unpaired surrogates in text with U+FFFD. */
export const toWellFormed = (text: string): string => (text.isWellFormed() ? text : text.toWellFormed())

/**
 * {@link toWellFormed} for text that arrives in pieces: a surrogate pair that is split over two pieces is preserved.
 */
interface HygieneStream {
  readonly push: (piece: string) => string
  /** Ends the text and returns the part that was held back. */
  readonly end: () => string
}

/** Creates a {@link HygieneStream}. */
export const makeHygieneStream = (): HygieneStream => {
  let held = ""
  return {
    push: (piece) => {
      const text = held + piece
      const last = text.charCodeAt(text.length - 1)
      held = last >= 0xd800 && last <= 0xdbff ? text.slice(-1) : ""
      return toWellFormed(held === "" ? text : text.slice(0, -1))
    },
    end: () => {
      const text = held
      held = ""
      return toWellFormed(text)
    }
  }
}

const controls = new RegExp(String.raw`[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f]`, "g")

/** Removes control characters other than tabs and line ends. */
export const withoutControls = (text: string): string => text.replace(controls, "")

const maxDepth = 64

/** Applies {@link toWellFormed} to every string and key of a JSON value. */
export const toWellFormedValue = (value: unknown, depth = 0): unknown => {
  if (typeof value === "string") return toWellFormed(value)
  if (typeof value !== "object" || value === null || depth >= maxDepth) return value
  if (Array.isArray(value)) {
    let items: Array<unknown> | undefined
    for (let index = 0; index < value.length; index++) {
      const item = toWellFormedValue(value[index], depth + 1)
      if (!Object.is(item, value[index])) items ??= value.slice(0, index)
      items?.push(item)
    }
    return items ?? value
  }
  const prototype: unknown = Object.getPrototypeOf(value)
  if (prototype !== Object.prototype && prototype !== null) return value
  let members: Array<[string, unknown]> | undefined
  const keys = Object.keys(value)
  for (let index = 0; index < keys.length; index++) {
    const key = keys[index] ?? ""
    const given: unknown = Reflect.get(value, key)
    const item = toWellFormedValue(given, depth + 1)
    if (!key.isWellFormed() || !Object.is(item, given)) members ??= Object.entries(value).slice(0, index)
    members?.push([toWellFormed(key), item])
  }
  return members === undefined ? value : Object.fromEntries(members)
}

const maxGap = 16
const gap = String.raw`\s{0,${maxGap}}`
const tag = new RegExp(String.raw`<${gap}(/?)${gap}(memory|plugin)-context${gap}>`, "gi")
const note = /\[system note:[^\]]{0,800}\]\s?/gi

/** Removes fences from text written by a user or a memory provider. Takes linear time for any nesting. */
export const stripFences = (text: string): string => {
  if (!/<|\[system note:/i.test(text)) return text
  const found = Array.from(text.matchAll(tag), (match) => ({
    at: match.index,
    end: match.index + match[0].length,
    closes: match[1] === "/",
    kind: match[2]?.toLowerCase()
  }))
  const lastClose = new Map(found.filter(({ closes }) => closes).map(({ at, kind }) => [kind, at]))
  let out = ""
  let from = 0
  let open: string | undefined
  for (const { at, closes, end, kind } of found) {
    if (open !== undefined) {
      if (closes && kind === open) {
        open = undefined
        from = end
      }
      continue
    }
    out += text.slice(from, at)
    from = end
    // If a tag has no partner, only the tag itself is removed.
    if (!closes && (lastClose.get(kind) ?? -1) > at) open = kind
  }
  return (out + text.slice(from)).replace(note, (found) => (/\bcontext\b/i.test(found) ? "" : found))
}

/** A filter that removes fences from text that arrives in pieces. */
interface FenceStream {
  /** Returns the text that is now safe to emit. */
  readonly push: (piece: string) => string
  /** Ends the text and returns the part that was held back. */
  readonly end: () => string
}

const longest = "</memory-context>".length + 3 * maxGap
/** Matches the beginning of a tag at the end of text. */
const beginning = new RegExp(String.raw`^<${gap}/?${gap}[a-z-]{0,14}${gap}$`, "i")
const words = ["memory-context", "plugin-context"]

/** Returns the offset at which a partial tag at the end of unfinished text begins, or -1. */
const findHeldStart = (text: string): number => {
  const at = text.lastIndexOf("<")
  if (at === -1 || text.length - at > longest) return -1
  const rest = text.slice(at)
  if (!beginning.test(rest)) return -1
  const word = rest.replace(/[<>/\s]/g, "").toLowerCase()
  return words.some((known) => known.startsWith(word)) ? at : -1
}

/** Creates a {@link FenceStream}. */
export const makeFenceStream = (): FenceStream => {
  let held = ""
  let before = ""
  let inside: string | undefined

  const readPiece = (text: string, isLast: boolean): string => {
    let out = ""
    let from = 0
    for (const match of text.matchAll(tag)) {
      const kind = match[2]?.toLowerCase()
      const closes = match[1] === "/"
      const end = match.index + match[0].length
      if (inside !== undefined) {
        if (closes && kind === inside) {
          inside = undefined
          from = end
        }
        continue
      }
      const previous = match.index > from ? text.charAt(match.index - 1) : out === "" && from === 0 ? before : ""
      if (previous === "`") {
        // The next character decides whether the tag is quoted.
        if (end === text.length && !isLast) {
          out += text.slice(from, match.index)
          before = out.at(-1) ?? before
          held = text.slice(match.index)
          return out
        }
        if (text.charAt(end) === "`") continue
      }
      out += text.slice(from, match.index)
      from = end
      if (!closes) inside = kind
    }
    const rest = text.slice(from)
    const hold = isLast ? -1 : findHeldStart(rest)
    const shown = hold === -1 ? rest : rest.slice(0, hold)
    held = hold === -1 ? "" : rest.slice(hold)
    if (inside === undefined) out += shown
    before = out.at(-1) ?? before
    return out
  }
  return {
    push: (piece) => {
      const text = held + piece
      held = ""
      if (inside === undefined && !text.includes("<")) {
        before = text.at(-1) ?? before
        return text
      }
      return readPiece(text, false)
    },
    end: () => {
      const text = held
      held = ""
      return readPiece(text, true)
    }
  }
}

/** Removes fences from a whole output text, with the rules of {@link FenceStream}. */
export const stripOutputFences = (text: string): string => {
  if (!text.includes("<")) return text
  const fences = makeFenceStream()
  return fences.push(text) + fences.end()
}
