/**
 * Reads `.env` files, and changes single variables without touching other lines.
 *
 * **Details**
 *
 * A line has the form `NAME=value`, with or without `export`. A value in single quotes is literal; in double quotes
 * `\n`, `\r`, `\t`, `\"`, `\\` and `\$` are escapes; both kinds of quoted values may span lines. A value without quotes
 * ends at the end of the line, or at a `#` after a space. If a name occurs more than once, the last line applies.
 * Nothing is interpolated: `$` is a literal dollar sign.
 *
 * **Gotchas**
 *
 * A line of any other form is ignored and never reported, because it may be part of a secret.
 */

const escapes: Readonly<Record<string, string>> = { n: "\n", r: "\r", t: "\t" }

const unescapeValue = (text: string): string =>
  text.replaceAll(/\\(.)/gs, (match, letter: string) => escapes[letter] ?? (/["\\$]/.test(letter) ? letter : match))

/** Matches one assignment: the name, and the value in one of three forms. */
const assignment = new RegExp(
  String.raw`^[ \t]*(?:export[ \t]+)?([A-Za-z_]\w*)[ \t]*=` +
    String.raw`(?:[ \t]*'([^']*)'[ \t]*(?:#[^\r\n]*)?|[ \t]*"((?:[^"\\]|\\[^])*)"[ \t]*(?:#[^\r\n]*)?|([^\r\n]*))(?:\r?\n|$)`,
  "gm"
)

interface Entry {
  readonly name: string
  readonly value: string
  readonly start: number
  readonly end: number
}

const parseEntries = (text: string): ReadonlyArray<Entry> =>
  Array.from(text.matchAll(assignment), (match) => {
    const [whole, name = "", single, double, bare = ""] = match
    const value = single ?? (double === undefined ? bare.replace(/\s#.*$/, "").trim() : unescapeValue(double))
    return { name, value, start: match.index, end: match.index + whole.length }
  })

const withoutMark = (text: string): string => (text.startsWith("\uFEFF") ? text.slice(1) : text)

/** Returns the variables of a file. */
export const parse = (text: string): Readonly<Record<string, string>> =>
  Object.fromEntries(parseEntries(withoutMark(text)).map(({ name, value }) => [name, value]))

const quoteValue = (value: string): string => {
  if (/^[\w./:@%+,=~^-]*$/.test(value)) return value
  if (!/['\r\n]/.test(value)) return `'${value}'`
  const escaped = value.replaceAll(/["\\$]/g, (letter) => `\\${letter}`)
  return `"${escaped.replaceAll("\n", "\\n").replaceAll("\r", "\\r")}"`
}

/** Sets a variable in the text of a `.env` file. Replaces the last line of the variable, or adds a line at the end. */
export const set = (text: string, name: string, value: string): string => {
  const eol = /\r\n/.test(text) ? "\r\n" : "\n"
  const line = `${name}=${quoteValue(value)}${eol}`
  const last = parseEntries(text).findLast((entry) => entry.name === name)
  if (last !== undefined) return text.slice(0, last.start) + line + text.slice(last.end)
  return text === "" || text.endsWith("\n") ? text + line : text + eol + line
}

/** Removes a variable from the text of a `.env` file. */
export const unset = (text: string, name: string): string =>
  parseEntries(text)
    .filter((entry) => entry.name === name)
    .reduceRight((rest, { end, start }) => rest.slice(0, start) + rest.slice(end), text)
