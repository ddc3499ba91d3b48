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

/** Reader of one JSON value. */
export interface Reader {
  /** Reads more text. Returns true if the value changed. */
  readonly read: (text: string) => boolean
  /** Returns the value so far, or `undefined` before its first bracket. Later reads do not change it. */
  readonly takeSnapshot: () => unknown
}

/** An open object or list with its finished members. */
interface Container {
  readonly members: Array<unknown> | Map<string, unknown>
  /** Name of the member of an object whose value is awaited. */
  key: string | undefined
}

/** Maximum number of open objects and lists. A deeper answer is read no further. */
const deepest = 256

const escapes: Readonly<Record<string, string>> = { b: "\b", f: "\f", n: "\n", r: "\r", t: "\t" }

const addMember = ({ key, members }: Container, value: unknown): void => {
  if (Array.isArray(members)) members.push(value)
  else if (key !== undefined) members.set(key, value)
}

/** Copies the finished members with the open member, if any. */
const copy = ({ key, members }: Container, open: unknown): unknown => {
  if (Array.isArray(members)) return open === undefined ? [...members] : [...members, open]
  // Entries become properties without the setter of `__proto__`.
  const fields = Object.fromEntries(members)
  return open === undefined || key === undefined ? fields : Object.fromEntries([...members, [key, open]])
}

/** Creates a reader of one value. */
export const make = (): Reader => {
  const stack: Array<Container> = []
  let phase: "before" | "inside" | "text" | "bare" | "over" = "before"
  /** Text that is being read: a string without its quotes, or a number or literal. */
  let text = ""
  let escape: string | undefined
  let root: unknown
  let changed = false

  const stop = (): void => {
    phase = "over"
  }
  const getOpen = (): Container | undefined => stack.at(-1)
  const isKey = ({ key, members }: Container): boolean => !Array.isArray(members) && key === undefined

  /** Adds a finished value. All of it but a number or literal was in the snapshot before. */
  const finish = (value: unknown): void => {
    const container = getOpen()
    if (container === undefined) {
      root = value
      stop()
    } else {
      addMember(container, value)
      container.key = undefined
      phase = "inside"
    }
  }

  const open = (members: Container["members"]): void => {
    if (stack.length >= deepest) return stop()
    stack.push({ members, key: undefined })
    phase = "inside"
    changed = true
  }

  const close = (): void => {
    const container = stack.pop()
    if (container === undefined) return stop()
    finish(copy(container, undefined))
  }

  const endBare = (): void => {
    const value = Json.parse(text)
    text = ""
    if (Option.isNone(value)) return stop()
    finish(value.value)
    changed = true
  }

  const endText = (): void => {
    const container = getOpen()
    const value = text
    text = ""
    if (container === undefined || !isKey(container)) return finish(value)
    container.key = value
    phase = "inside"
  }

  const addToText = (more: string): void => {
    const container = getOpen()
    text += more
    if (container === undefined || !isKey(container)) changed = true
  }

  const readEscape = (character: string, pending: string): void => {
    const all = pending + character
    if (all.startsWith("u") && all.length < 5) {
      escape = all
      return
    }
    addToText(all.startsWith("u") ? String.fromCharCode(Number.parseInt(all.slice(1), 16)) : (escapes[all] ?? all))
    escape = undefined
  }

  const readInText = (character: string): void => {
    if (escape !== undefined) return readEscape(character, escape)
    if (character === "\\") escape = ""
    else if (character === '"') endText()
    else addToText(character)
  }

  const readInside = (character: string): void => {
    switch (character) {
      case "{":
        return open(new Map())
      case "[":
        return open([])
      case "}":
      case "]":
        return close()
      case '"': {
        const container = getOpen()
        phase = "text"
        if (container === undefined || !isKey(container)) changed = true
        return
      }
      case ",":
      case ":":
        return
      default:
        if (/\s/u.test(character)) return
        text = character
        phase = "bare"
    }
  }

  const readCharacter = (character: string): void => {
    switch (phase) {
      case "before":
        if (character === "{" || character === "[") readInside(character)
        return
      case "text":
        return readInText(character)
      case "bare":
        if (/[-+.\w]/u.test(character)) {
          text += character
          return
        }
        endBare()
        // The character that ends a number may also close its list.
        return readCharacter(character)
      case "inside":
        return readInside(character)
      case "over":
        return
    }
  }

  return {
    read: (more) => {
      changed = false
      for (const character of more) {
        if (phase === "over") break
        readCharacter(character)
      }
      return changed
    },
    takeSnapshot: () => {
      if (stack.length === 0) return root
      const container = getOpen()
      // A text is shown as far as it is known, except the name of a member.
      let value: unknown = phase === "text" && container !== undefined && !isKey(container) ? text : undefined
      for (const open of stack.toReversed()) value = copy(open, value)
      return value
    }
  }
}
