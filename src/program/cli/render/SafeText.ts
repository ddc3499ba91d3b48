/**
 * Makes text of others (a model, a tool, a stored session) safe to write to a terminal: it can be read, and it drives
 * nothing.
 *
 * - Control characters become their visible pictures (`␛` for escape), so that no escape sequence reaches the terminal,
 *   in its 7-bit or its 8-bit form. Line feeds and tabs stay; CR LF is a line feed.
 * - Characters that reorder the following text (bidirectional overrides, embeddings and isolates) are removed: they are
 *   invisible, and make a command look like another one.
 * - {@link toPlainText}, which every line of a command passes, removes whole control sequences instead (colours, cursor
 *   moves, titles, the clipboard), so that text with colours stays readable in a pipe.
 * - Halves of surrogate pairs become U+FFFD, which is what the encoding would make of them.
 */

const harmful = /(?![\n\t])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u
const harmfulAll = new RegExp(harmful, "gu")

const toPicture = (char: string): string => {
  const code = char.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return "␡"
  return code < 0xa0 || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : ""
}

/** A text of any number of lines, made harmless. */
export const sanitise = (value: string): string =>
  harmful.test(value) ? value.replaceAll("\r\n", "\n").replace(harmfulAll, toPicture) : value

// The bodies end at the next introducer, so that a text of introducers is still read in linear time.
const sequences = new RegExp(
  [
    String.raw`(?:\u001b\[|\u009b)[\u0030-\u003f]*[\u0020-\u002f]*[\u0040-\u007e]`,
    String.raw`(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\n\u0007\u001b\u0090\u0098\u009c-\u009f]*(?:\u0007|\u001b\\|\u009c)`,
    String.raw`\u001b[\u0020-\u002f]*[\u0030-\u007e]`
  ].join("|"),
  "gu"
)

/**
 * Removes control sequences, then makes harmless what is left. Text without control characters is returned as it is.
 */
export const toPlainText = (value: string): string =>
  harmful.test(value) ? sanitise(value.replace(sequences, "")) : value

const escaped = new RegExp(String.raw`[\u007f-\u009f\u202a-\u202e\u2066-\u2069]`, "gu")

/**
 * Writes a value as JSON in which such characters are `\\uXXXX`: a terminal shows them, a parser reads the same value.
 */
export const toJson = (value: unknown, indent?: number): string =>
  JSON.stringify(value, null, indent).replace(
    escaped,
    (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`
  )

/** The same as one line: runs of white space, line ends too, are a space. */
export const toLine = (value: string): string => sanitise(value).replace(/\s+/gu, " ").trim()

/** Sanitizes a text that arrives in chunks. */
interface Stream {
  /** Returns the text that is now safe to emit. */
  readonly push: (piece: string) => string
  readonly end: () => string
}

/** Makes a {@link Stream}. Its output does not depend on the chunk boundaries. */
export const makeStream = (): Stream => {
  let held = ""
  return {
    push: (piece) => {
      const all = held + piece
      // A carriage return may be half of a line end, a surrogate half of a character.
      held = /(?:\r|[\ud800-\udbff])$/.exec(all)?.[0] ?? ""
      return sanitise(held === "" ? all : all.slice(0, -1))
    },
    end: () => {
      const rest = sanitise(held)
      held = ""
      return rest
    }
  }
}
