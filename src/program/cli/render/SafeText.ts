/**
 * Makes external text (from a model, a tool or a stored session) safe to write to a terminal: it is readable and cannot
 * control the terminal.
 *
 * - Control characters become their visible pictures (`␛` for escape), so that no escape sequence reaches the terminal,
 *   in its 7-bit or its 8-bit form. Line feeds and tabs stay; CR LF is a line feed.
 * - Characters that reorder the following text (bidirectional overrides, embeddings and isolates) are removed: they are
 *   invisible, and make a command look like a different command.
 * - {@link toPlainText}, which is applied to every line that a command prints, removes whole control sequences instead
 *   (colours, cursor moves, titles, the clipboard), so that text with colours stays readable in a pipe.
 * - Lone surrogates become U+FFFD, as in the encoded output.
 */

const harmful = /(?![\n\t])[\p{Cc}\p{Cs}\u202a-\u202e\u2066-\u2069]/u
const harmfulAll = new RegExp(harmful, "gu")

const toPicture = (char: string): string => {
  const code = char.charCodeAt(0)
  if (code < 0x20) return String.fromCharCode(0x2400 + code)
  if (code === 0x7f) return "␡"
  return code < 0xa0 || (code >= 0xd800 && code < 0xe000) ? "\ufffd" : ""
}

/** Sanitises text with any number of lines. */
export const sanitise = (value: string): string =>
  harmful.test(value) ? value.replaceAll("\r\n", "\n").replace(harmfulAll, toPicture) : value

// The bodies end at the next introducer, so that text full of introducers is still parsed in linear time.
const sequences = new RegExp(
  [
    String.raw`(?:\u001b\[|\u009b)[\u0030-\u003f]*[\u0020-\u002f]*[\u0040-\u007e]`,
    String.raw`(?:\u001b[\]PX^_]|[\u0090\u0098\u009d-\u009f])[^\n\u0007\u001b\u0090\u0098\u009c-\u009f]*(?:\u0007|\u001b\\|\u009c)`,
    String.raw`\u001b[\u0020-\u002f]*[\u0030-\u007e]`
  ].join("|"),
  "gu"
)

/**
 * Removes control sequences and sanitises the remaining text. Text without control characters is returned unchanged.
 */
export const toPlainText = (value: string): string =>
  harmful.test(value) ? sanitise(value.replace(sequences, "")) : value

const escaped = new RegExp(String.raw`[\u007f-\u009f\u202a-\u202e\u2066-\u2069]`, "gu")

/** Escapes the harmful characters of JSON, which a parser reads unchanged. */
export const escapeJson = (json: string): string =>
  json.replace(escaped, (char) => `\\u${char.charCodeAt(0).toString(16).padStart(4, "0")}`)

/**
 * Converts a value to JSON with harmful characters escaped as `\\uXXXX`: a terminal shows the escapes, and a parser
 * reads the original value.
 */
export const toJson = (value: unknown, indent?: number): string => escapeJson(JSON.stringify(value, null, indent))

/** Sanitises text and reduces it to one line: runs of white space, including line breaks, become one space. */
export const toLine = (value: string): string => sanitise(value).replace(/\s+/gu, " ").trim()

/** Sanitizes text that arrives in chunks. */
interface Stream {
  /** Returns the text that is now safe to emit. */
  readonly push: (piece: string) => string
  readonly end: () => string
}

/** Creates a {@link Stream}. Its output does not depend on the chunk boundaries. */
export const makeStream = (): Stream => {
  let held = ""
  return {
    push: (piece) => {
      const all = held + piece
      // A carriage return may be the first half of a line break, and a surrogate the first half of a character.
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
