/**
 * Makes text of others (a model, a tool, a stored session) safe to write to a terminal: it can be read, and it drives
 * nothing.
 *
 * **Details**
 *
 * - Control characters become their visible pictures (`␛` for escape), so that no escape sequence reaches the terminal,
 *   in its 7-bit or its 8-bit form. Line feeds and tabs stay; CR LF is a line feed.
 * - Characters that reorder what follows them (bidirectional overrides, embeddings and isolates) are left out: nobody sees
 *   them, and they make a command look like another one.
 * - Halves of surrogate pairs become U+FFFD, which is what the encoding would make of them.
 *
 * @since 0.1.0
 */

const harmful = /(?![\n\t])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u
const harmfulAll = new RegExp(harmful, "gu")

const picture = (char: string): string => {
  const code = char.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return "␡"
  return code < 0xa0 || code >= 0xd800 && code < 0xe000 ? "\ufffd" : ""
}

/** A text of any number of lines, made harmless. */
export const text = (value: string): string =>
  harmful.test(value) ? value.replaceAll("\r\n", "\n").replace(harmfulAll, picture) : value

/** The same as one line: runs of white space, line ends too, are a space. */
export const line = (value: string): string => text(value).replace(/\s+/gu, " ").trim()

/** Makes a text harmless that comes in pieces. */
export interface Stream {
  /** What is certain of the text so far and was not given yet. */
  readonly push: (piece: string) => string
  readonly end: () => string
}

/** A {@link Stream}: what it gives does not depend on where the text was cut. */
export const stream = (): Stream => {
  let held = ""
  return {
    push: (piece) => {
      const all = held + piece
      // A carriage return may be half of a line end, a surrogate half of a character.
      held = /(?:\r|[\ud800-\udbff])$/.exec(all)?.[0] ?? ""
      return text(held === "" ? all : all.slice(0, -1))
    },
    end: () => {
      const rest = text(held)
      held = ""
      return rest
    }
  }
}
