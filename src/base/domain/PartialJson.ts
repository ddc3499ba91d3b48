/**
 * Reads JSON while it arrives. The value so far contains every finished part and the open parts around them: a text as
 * far as it is known, and no number or literal before its end, because `12` may become `123`.
 *
 * **Details**
 *
 * Each character is read once, and a snapshot copies only the objects and lists that are still open, so that a long
 * answer costs little more than its text. A reader that meets text that is not JSON stops there. Text before the first
 * bracket, such as the opening of a code fence, is ignored.
 */
import * as Option from "effect/Option"
import * as Json from "./Json.ts"

/** An open object or list with its finished members. */
interface Container {
  readonly members: Array<unknown> | Map<string, unknown>
  /** Name of the member of an object whose value is awaited. */
  key: string | undefined
}

/** Reader of one JSON value. Only the functions of this module change it. */
export interface PartialJson {
  /** Open objects and lists, the outermost first. */
  readonly stack: Array<Container>
  phase: "before" | "inside" | "text" | "bare" | "over"
  /** Text that is being read: a string without its quotes, or a number or literal. */
  text: string
  /** Characters of an escape sequence that is not complete. */
  escape: string | undefined
  /** The finished value. */
  root: unknown
  /** True if the snapshot changed since the last read began. */
  isChanged: boolean
}

/** Maximum number of open objects and lists. A deeper answer is read no further. */
const maxDepth = 256

const escapes: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }

/** Creates a reader. */
export const makeReader = (): PartialJson => ({
  stack: [],
  phase: "before",
  text: "",
  escape: undefined,
  root: undefined,
  isChanged: false
})

/** Copies the finished members of a container with the open member, if any. */
const copyContainer = ({ key, members }: Container, open: unknown): unknown => {
  if (Array.isArray(members)) return open === undefined ? [...members] : [...members, open]
  // Entries become properties without the setter of `__proto__`.
  return Object.fromEntries(open === undefined || key === undefined ? members : [...members, [key, open]])
}

const isReadingKey = ({ stack }: PartialJson): boolean => {
  const container = stack.at(-1)
  return container !== undefined && !Array.isArray(container.members) && container.key === undefined
}

/** Adds a finished value to the container around it. */
const addValue = (reader: PartialJson, value: unknown): void => {
  const container = reader.stack.at(-1)
  if (container === undefined) {
    reader.root = value
    reader.phase = "over"
    return
  }
  if (Array.isArray(container.members)) container.members.push(value)
  else if (container.key !== undefined) container.members.set(container.key, value)
  container.key = undefined
  reader.phase = "inside"
}

const openContainer = (reader: PartialJson, members: Container["members"]): void => {
  if (reader.stack.length >= maxDepth) {
    reader.phase = "over"
    return
  }
  reader.stack.push({ members, key: undefined })
  reader.phase = "inside"
  reader.isChanged = true
}

const closeContainer = (reader: PartialJson): void => {
  const container = reader.stack.pop()
  if (container === undefined) reader.phase = "over"
  else addValue(reader, copyContainer(container, undefined))
}

/** Ends a number or literal, which appears in snapshots from here on. */
const endBareValue = (reader: PartialJson): void => {
  const value = Json.parse(reader.text)
  reader.text = ""
  if (Option.isNone(value)) {
    reader.phase = "over"
    return
  }
  addValue(reader, value.value)
  reader.isChanged = true
}

const endText = (reader: PartialJson): void => {
  const container = reader.stack.at(-1)
  const value = reader.text
  reader.text = ""
  if (container === undefined || !isReadingKey(reader)) {
    addValue(reader, value)
    return
  }
  container.key = value
  reader.phase = "inside"
}

const addToText = (reader: PartialJson, more: string): void => {
  reader.text += more
  reader.isChanged ||= !isReadingKey(reader)
}

const readEscape = (reader: PartialJson, escape: string): void => {
  const isComplete = !escape.startsWith("u") || escape.length === 5
  reader.escape = isComplete ? undefined : escape
  if (!isComplete) return
  addToText(
    reader,
    escape.startsWith("u") ? String.fromCharCode(Number.parseInt(escape.slice(1), 16)) : (escapes[escape] ?? escape)
  )
}

const readTextCharacter = (reader: PartialJson, character: string): void => {
  if (reader.escape !== undefined) readEscape(reader, reader.escape + character)
  else if (character === "\\") reader.escape = ""
  else if (character === '"') endText(reader)
  else addToText(reader, character)
}

const readStructure = (reader: PartialJson, character: string): void => {
  switch (character) {
    case "{":
      return openContainer(reader, new Map())
    case "[":
      return openContainer(reader, [])
    case "}":
    case "]":
      return closeContainer(reader)
    case '"':
      reader.phase = "text"
      reader.isChanged ||= !isReadingKey(reader)
      return
    case ",":
    case ":":
      return
    default:
      if (/\s/u.test(character)) return
      reader.text = character
      reader.phase = "bare"
  }
}

const readCharacter = (reader: PartialJson, character: string): void => {
  switch (reader.phase) {
    case "before":
      if (character === "{" || character === "[") readStructure(reader, character)
      return
    case "text":
      return readTextCharacter(reader, character)
    case "bare":
      if (/[-+.\w]/u.test(character)) {
        reader.text += character
        return
      }
      endBareValue(reader)
      // The character that ends a number may also close its list.
      return readCharacter(reader, character)
    case "inside":
      return readStructure(reader, character)
    case "over":
      return
  }
}

/** Reads more text. Returns true if the snapshot changed. */
export const readMore = (reader: PartialJson, text: string): boolean => {
  reader.isChanged = false
  for (const character of text) {
    if (reader.phase === "over") break
    readCharacter(reader, character)
  }
  return reader.isChanged
}

/** Returns the value so far, or `undefined` before its first bracket. Later reads do not change it. */
export const takeSnapshot = (reader: PartialJson): unknown => {
  if (reader.stack.length === 0) return reader.root
  // A text is shown as far as it is known, except the name of a member.
  let value: unknown = reader.phase === "text" && !isReadingKey(reader) ? reader.text : undefined
  for (const container of reader.stack.toReversed()) value = copyContainer(container, value)
  return value
}
