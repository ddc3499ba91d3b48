/**
 * Removes images that an editor would load from elsewhere from a model's text: the contents of an image address leave
 * the machine as soon as the image is shown, without a question about the host.
 *
 * **Details**
 *
 * An image in Markdown whose address is not a path or a data URL becomes a link to it, which leads away only when the
 * user follows it: `![plan](https://example.com/a.png)` is sent as `[plan](https://example.com/a.png)`. The same
 * applies to images by reference (`![plan][1]`, with `[1]: https://…` before or after). Text may arrive in pieces: a
 * possible image is held until it is known, up to {@link maxHeld} characters.
 *
 * Pure but for the state of a stream, linear, never throws.
 *
 * **Gotchas**
 *
 * HTML (`<img>`) stays as it is: editors show it as text.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import type { RunEvent } from "../../../base/domain/RunEvent.ts"

/** Characters that are held back at most. */
const maxHeld = 4_096

const [opening, backslash, closing] = [0x5b, 0x5c, 0x5d]

/**
 * Returns the text of a bracket that opens at `at`, and the position after it, or `undefined` if its end is still to
 * come or too far away.
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
 * Returns `true` if an address is read on this machine. Any other address, including one with escapes or entities, may
 * lead elsewhere.
 */
const isLocal = (address: string): boolean => /^(?:data:image\/[\w.+-]+[;,]|(?!\/\/)[\w./ ~@-]*$)/.test(address)

/** Links of the text to images. */
type ImageLink =
  | { readonly _tag: "Pending" }
  | { readonly _tag: "Inline"; readonly isRemote: boolean }
  | { readonly _tag: "Reference"; readonly label: string }

const pending: ImageLink = { _tag: "Pending" }

/** Reads the image at `![`. Its address ends with white space or its bracket. */
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

/** The beginning of a line in which an address may be defined, in a list or a quotation too. */
const beforeDefinition = /^[ \t>*+.)\d-]{0,40}(?:\[|$)/
/** Characters of a label at most. */
const maxLabel = 1_000

/** The address that a label refers to. */
interface Definition {
  readonly label: string
  readonly isRemote: boolean
}

/** Reads the definition of an address at `at`; undefined for other text, `Pending` while it is not known. */
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

/** A text that comes in pieces. */
interface ImageFilter {
  /** Returns the text that is known now. */
  readonly push: (piece: string) => string
  /** The text is over: the rest. */
  readonly end: () => string
}

/** Makes the filter of one text. */
export const make = (): ImageFilter => {
  let held = ""
  let isLineStart = true
  /** Labels of addresses elsewhere, and labels that images named before there was an address. */
  const defined = new Set<string>()
  const named = new Set<string>()

  /**
   * Takes the beginning of a line that defines an address which an image named before. Returns `undefined` if the text
   * is something else, and `Pending` if more text is needed to decide.
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

  /** Takes the beginning of an image. Returns `undefined` if more text is needed to decide. */
  const takeImage = (isFull: boolean): string | undefined => {
    const found = readImage(held, 0, isFull)
    if (found._tag === "Pending") return undefined
    if (found._tag === "Inline") return releaseText(0, 2, found.isRemote ? "[" : "![")
    named.add(found.label)
    return releaseText(0, 2, defined.has(found.label) ? "[" : "![")
  }

  /** Takes the next part of the text that is known. Returns `undefined` if more text is needed to decide. */
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

  /** Releases the first characters, and a replacement for those after them. */
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

/** A whole text without remote images. */
export const replaceRemoteImages = (text: string): string => {
  if (!text.includes("![")) return text
  const filter = make()
  return filter.push(text) + filter.end()
}

/** Events of one turn after another, their texts without remote images. */
interface EventFilter {
  readonly of: (events: ReadonlyArray<RunEvent>) => ReadonlyArray<RunEvent>
  /** Ends the turn and returns the text held back. */
  readonly end: () => ReadonlyArray<RunEvent>
}

/** Makes the filter of the events of a session. */
export const makeEventFilter = (): EventFilter => {
  let text = make()
  let reasoning = make()
  const makeTextPiece = (piece: string): ReadonlyArray<RunEvent> =>
    piece === "" ? [] : [{ _tag: "TextDelta", text: piece }]
  const makeThoughtPiece = (piece: string): ReadonlyArray<RunEvent> =>
    piece === "" ? [] : [{ _tag: "ReasoningDelta", text: piece }]
  /** Releases held text; the next piece starts another text. */
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
