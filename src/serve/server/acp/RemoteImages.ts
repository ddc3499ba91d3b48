/**
 * Removes remote images from a model's text. When an editor displays such an image, it sends a request to another host
 * without an approval, and the address of the image may contain any data.
 *
 * **Details**
 *
 * A Markdown image whose address is not a path or a data URL becomes a link, which contacts the other host only when
 * the user follows it: `![plan](https://example.com/a.png)` is sent as `[plan](https://example.com/a.png)`. The same
 * applies to reference-style images (`![plan][1]`, with `[1]: https://…` before or after). Text may arrive in pieces: a
 * possible image is held until it can be identified, up to {@link maxHeld} characters.
 *
 * Apart from the state of a filter, the functions are pure. They take linear time and never throw.
 *
 * **Gotchas**
 *
 * HTML (`<img>`) is left unchanged, because editors show it as text.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import type { RunEvent } from "../../../base/domain/RunEvent.ts"

/** Maximum number of characters held back. */
const maxHeld = 4_096

const [opening, backslash, closing] = [0x5b, 0x5c, 0x5d]

/**
 * Returns the text in the brackets that open at `at`, and the position after the closing bracket. Returns `undefined`
 * if the closing bracket has not arrived or is too far away.
 */
const readBracket = (text: string, at: number): { readonly label: string; readonly end: number } | undefined => {
  let depth = 0
  const most = Math.min(text.length, at + maxHeld)
  for (let index = at; index < most; index++) {
    const code = text.charCodeAt(index)
    if (code === backslash) index++
    else if (code === opening) depth++
    else if (code === closing && --depth === 0) return { label: text.slice(at + 1, index), end: index + 1 }
  }
  return undefined
}

const normalizeLabel = (label: string): string => label.trim().replaceAll(/\s+/g, " ").toLowerCase()

/**
 * Returns `true` if an address refers to this machine. Any other address, including one with escapes or entities, may
 * refer to another host.
 */
const isLocal = (address: string): boolean => /^(?:data:image\/[\w.+-]+[;,]|(?!\/\/)[\w./ ~@-]*$)/.test(address)

/** An image link in the text. */
type ImageLink =
  | { readonly _tag: "Pending" }
  | { readonly _tag: "Inline"; readonly isRemote: boolean }
  | { readonly _tag: "Reference"; readonly label: string }

const pending: ImageLink = { _tag: "Pending" }

/** Reads the image whose `![` is at a position. The address of an inline image ends at white space, `)` or `>`. */
const readImage = (text: string, at: number, isWhole: boolean): ImageLink => {
  const alt = readBracket(text, at + 1)
  if (alt === undefined) return isWhole ? { _tag: "Inline", isRemote: true } : pending
  const next = text[alt.end]
  if (next === undefined && !isWhole) return pending
  if (next === "[") {
    const reference = readBracket(text, alt.end)
    if (reference === undefined) return isWhole ? { _tag: "Reference", label: normalizeLabel(alt.label) } : pending
    return { _tag: "Reference", label: normalizeLabel(reference.label === "" ? alt.label : reference.label) }
  }
  if (next !== "(") return { _tag: "Reference", label: normalizeLabel(alt.label) }
  const [, , address = "", end = ""] =
    /^\((\s*<?\s*)([^\s)>]*)([\s)>]?)/.exec(text.slice(alt.end, alt.end + maxHeld)) ?? []
  if (end === "") return isWhole ? { _tag: "Inline", isRemote: true } : pending
  return { _tag: "Inline", isRemote: !isLocal(address) }
}

/** Matches the start of a line that may define an address, also inside a list or a quotation. */
const beforeDefinition = /^[ \t>*+.)\d-]{0,40}(?:\[|$)/
/** Maximum number of characters in a label. */
const maxLabel = 1_000

/** A definition line, which assigns an address to a label. */
interface Definition {
  readonly label: string
  readonly isRemote: boolean
}

/**
 * Reads the address definition at `at`. Returns `undefined` for other text, and `Pending` if more text is needed to
 * decide.
 */
const readDefinition = (text: string, at: number, isWhole: boolean): Definition | "Pending" | undefined => {
  const bracket = readBracket(text, at)
  if (bracket === undefined)
    return isWhole || text.length - at > maxLabel || text.includes("\n\n", at) ? undefined : "Pending"
  if (text.length === bracket.end && !isWhole) return "Pending"
  if (text[bracket.end] !== ":") return undefined
  const [, address = "", end = ""] = /^:\s*<?\s*(\S*)(\s?)/.exec(text.slice(bracket.end)) ?? []
  if (end === "" && !isWhole) return "Pending"
  return { label: normalizeLabel(bracket.label), isRemote: address === "" || !isLocal(address.replace(/>$/, "")) }
}

/** Filter for text that arrives in pieces. */
interface ImageFilter {
  /** Accepts a piece, and returns the text that can be released. */
  readonly push: (piece: string) => string
  /** Ends the text, and returns the part that was held back. */
  readonly end: () => string
}

/** Makes a filter for the pieces of one continuous text. */
export const make = (): ImageFilter => {
  let held = ""
  let isLineStart = true
  /** Labels of remote addresses, and labels that images used before their address was defined. */
  const defined = new Set<string>()
  const named = new Set<string>()

  /**
   * Takes the start of a line that defines the address of a label used by an earlier image. Returns `undefined` if the
   * text is not such a definition, and `Pending` if more text is needed to decide.
   */
  const takeDefinition = (isFull: boolean): typeof pending | string | undefined => {
    if (!isLineStart || !beforeDefinition.test(held)) return undefined
    const at = held.indexOf("[")
    const found = at === -1 ? (isFull ? undefined : "Pending") : readDefinition(held, at, isFull)
    if (found === "Pending") return pending
    isLineStart = false
    if (found?.isRemote !== true) return undefined
    defined.add(found.label)
    return named.has(found.label) ? releaseText(at, 1, "\\[") : undefined
  }

  /** Takes the start of an image. Returns `undefined` if more text is needed to decide. */
  const takeImage = (isFull: boolean): string | undefined => {
    const found = readImage(held, 0, isFull)
    if (found._tag === "Pending") return undefined
    if (found._tag === "Inline") return releaseText(0, 2, found.isRemote ? "[" : "![")
    named.add(found.label)
    return releaseText(0, 2, defined.has(found.label) ? "[" : "![")
  }

  /** Takes the next part of the text that can be released. Returns `undefined` if more text is needed to decide. */
  const takeNextPart = (isWhole: boolean): string | undefined => {
    if (held === "") return undefined
    const definition = takeDefinition(isWhole || held.length >= maxHeld)
    if (definition !== undefined) return typeof definition === "string" ? definition : undefined
    const image = held.indexOf("![")
    const line = held.indexOf("\n")
    if (line !== -1 && (image === -1 || line < image)) {
      const shown = releaseText(line + 1, 0, "")
      isLineStart = true
      return shown
    }
    if (image > 0) return releaseText(image, 0, "")
    if (image === 0) return takeImage(isWhole || held.length >= maxHeld)
    const cut = held.endsWith("!") && !isWhole ? held.length - 1 : held.length
    return cut === 0 ? undefined : releaseText(cut, 0, "")
  }

  /** Releases the first `count` characters, and replaces the `replaced` characters after them with `by`. */
  const releaseText = (count: number, replaced: number, by: string): string => {
    const shown = held.slice(0, count) + by
    held = held.slice(count + replaced)
    if (shown !== "") isLineStart = false
    return shown
  }

  const drain = (isWhole: boolean): string => {
    let out = ""
    for (let shown = takeNextPart(isWhole); shown !== undefined; shown = takeNextPart(isWhole)) out += shown
    return out
  }

  return {
    push: (piece) => {
      held += piece
      return drain(false)
    },
    end: () => {
      const out = drain(true)
      isLineStart = true
      return out
    }
  }
}

/** Removes remote images from a complete text. */
export const replaceRemoteImages = (text: string): string => {
  if (!text.includes("![")) return text
  const filter = make()
  return filter.push(text) + filter.end()
}

/** Removes remote images from the text in the events of consecutive turns. */
interface EventFilter {
  readonly of: (events: ReadonlyArray<RunEvent>) => ReadonlyArray<RunEvent>
  /** Ends the turn, and returns events with the text that was held back. */
  readonly end: () => ReadonlyArray<RunEvent>
}

/** Makes the filter for the events of a session. */
export const makeEventFilter = (): EventFilter => {
  let text = make()
  let reasoning = make()
  const makeTextPiece = (piece: string): ReadonlyArray<RunEvent> =>
    piece === "" ? [] : [{ _tag: "TextDelta", text: piece }]
  const makeThoughtPiece = (piece: string): ReadonlyArray<RunEvent> =>
    piece === "" ? [] : [{ _tag: "ReasoningDelta", text: piece }]
  /** Releases the held text. The next piece begins a new text. */
  const end = (): ReadonlyArray<RunEvent> => {
    const rest = [...makeThoughtPiece(reasoning.end()), ...makeTextPiece(text.end())]
    text = make()
    reasoning = make()
    return rest
  }
  const filterEvent = (event: RunEvent): ReadonlyArray<RunEvent> => {
    switch (event._tag) {
      case "TextDelta":
        return [...makeThoughtPiece(reasoning.end()), ...makeTextPiece(text.push(event.text))]
      case "ReasoningDelta":
        return makeThoughtPiece(reasoning.push(event.text))
      case "TextReplaced":
        text = make()
        return [...makeThoughtPiece(reasoning.end()), { ...event, text: replaceRemoteImages(event.text) }]
      case "RunFinished":
        return [...end(), { ...event, text: replaceRemoteImages(event.text) }]
      case "StepStarted":
      case "StepFinished":
      case "ToolInputStarted":
      case "ToolStarted":
      case "ToolsScheduled":
      case "ToolFinished":
        return [...end(), event]
      default:
        return [event]
    }
  }
  return { of: (events) => events.flatMap(filterEvent), end }
}
