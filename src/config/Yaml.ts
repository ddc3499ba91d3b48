/**
 * YAML as far as a configuration file needs it: reading with exact places of errors, and writing values.
 *
 * **Details**
 *
 * The reader is effect's, loaded when there is something to read: it costs a fraction of a start, where the full YAML
 * packages cost many times as much. It takes block and flow mappings and lists, comments, quoted keys, block scalars,
 * multi-line texts, anchors and merge keys, by the rules of YAML 1.2: `yes` and `off` are texts.
 *
 * **Gotchas**
 *
 * It does not take lists of lists on one line (`- - x`), quoted texts of several lines inside `[…]` and `{…}`, keys that
 * are no texts (`? …`), and several documents; tags (`!!str`) are read as text, and `1_000` as a number.
 *
 * @since 0.1.0
 */
import * as Effect from "effect/Effect"
import { ConfigError } from "../domain/AgentError.ts"

type Parse = (text: string) => unknown

const attempt = (parse: Parse, text: string): string | undefined => {
  try {
    parse(text)
    return undefined
  } catch (cause) {
    return cause instanceof Error ? cause.message : String(cause)
  }
}

/** The longest of some prefixes that can be read, when each shorter one can be read too. */
const bisect = (ends: ReadonlyArray<number>, reads: (end: number) => boolean): number => {
  let low = 0
  let high = ends.length
  while (low < high) {
    const middle = (low + high) >> 1
    if (reads(ends[middle] ?? 0)) low = middle + 1
    else high = middle
  }
  return ends[low - 1] ?? 0
}

/** The longest prefix that can be read, tried from the end. */
const longest = (ends: ReadonlyArray<number>, reads: (end: number) => boolean): number =>
  ends.findLast(reads) ?? 0

/** Ends of lines, each with its line break, from one offset to another. */
const lineEnds = (text: string, from: number, to: number): ReadonlyArray<number> => {
  const ends = []
  for (let at = text.indexOf("\n", from); at !== -1 && at + 1 < to; at = text.indexOf("\n", at + 1)) ends.push(at + 1)
  return ends
}

/**
 * The first character that can not be read: the one after the longest prefix that can. The reader itself does not always
 * know, since an open quote or bracket makes it read on.
 */
const faultAt = (text: string, parse: Parse): number => {
  const reads = (end: number): boolean => attempt(parse, text.slice(0, end)) === undefined
  // What begins in the first column begins a new entry: a prefix that ends there has nothing open.
  const entries = Array.from(text.matchAll(/^(?=[^\s#\]}-])/gm), ({ index }) => index).filter((index) => index > 0)
  const entry = bisect(entries, reads)
  const end = entries.find((other) => other > entry) ?? text.length
  const line = Math.max(entry, longest(lineEnds(text, entry, end), reads))
  const lineEnd = text.indexOf("\n", line)
  const columns = Array.from({ length: (lineEnd === -1 ? text.length : lineEnd) - line }, (_, index) => line + index + 1)
  return Math.max(line, longest(columns, reads))
}

/** Line and column of an offset, counted from 1. */
const position = (text: string, offset: number): string => {
  const before = text.slice(0, offset)
  return `line ${before.split("\n").length}, column ${offset - before.lastIndexOf("\n")}`
}

const openers: Readonly<Record<string, string>> = {
  "[": "the list that opens here has no end, or an entry without a comma: add ] or ,",
  "{": "the mapping that opens here has no end, or an entry that is no \"key: value\": add } or ,"
}

/** The reader's messages by their words, each as the mistake and what to do about it. */
const mistakes: ReadonlyArray<readonly [said: RegExp, mistake: string | ((...found: ReadonlyArray<string>) => string)]> = [
  [/^Tabs cannot/, "a tab in the indentation: use spaces"],
  [/block scalar indentation|^Leading empty lines/, "the lines of a text block are not indented alike: indent them by the same number of spaces"],
  [/quoted scalar|double-quoted/, "the quote that opens here has no end, or text behind it: close it at the end of the value"],
  [/indentation of \d+ spaces/, "the indentation fits no line above: align the line with its neighbours"],
  [/^Duplicate key '([^]*)'/, (key = "") => `the key ${JSON.stringify(key)} is there twice: keep one of them`],
  [/alias '([^]*)'/, (alias = "") => `nothing is named ${alias.slice(1)} by an &: put the value into quotes if the * belongs to it`],
  [/anchor/i, "an & names nothing here: put the value into quotes if the & belongs to it"],
  [/^Merge key/, "<< takes a mapping, or a list of mappings: write *NAME behind it"],
  [/^Compact nested/, "a list directly in a list: write the inner one in brackets, - [x, y]"],
  [/^Invalid colon/, "a colon in the value: put the value into quotes"],
  [/escape/, "an escape that there is not: write a backslash as \\\\, or use single quotes"],
  [/^Multiple YAML documents/, "a second document: keep one, without the --- before the other"],
  [/^Unexpected content|^Expected ':'|flow collection/, "no \"key: value\": add the colon and a space, or remove the line"]
]

const plainly = (opener: string, reason: string): string => {
  if (Object.hasOwn(openers, opener) && /^Expected '|flow/.test(reason)) return openers[opener] ?? ""
  for (const [said, mistake] of mistakes) {
    const found = said.exec(reason)
    if (found !== null) return typeof mistake === "string" ? mistake : mistake(...found.slice(1))
  }
  return "no YAML: put the value into quotes"
}

const explain = (text: string, parse: Parse, reason: string): string => {
  const at = faultAt(text, parse)
  return `${position(text, at)}: ${plainly(text[at] ?? "", reason)}`
}

/** A reader of YAML texts: the value of one, or the error of the file that it is. */
export interface Reader {
  /** Throws on what it can not read. */
  readonly parse: Parse
  readonly read: (text: string, file: string) => Effect.Effect<unknown, ConfigError>
}

/** Loads the reader. */
export const reader: Effect.Effect<Reader> = Effect.map(
  Effect.promise(() => import("effect/encoding/Yaml")),
  ({ parse }) => ({
    parse,
    read: (text, file) =>
      Effect.suspend(() => {
        try {
          return Effect.succeed(parse(text))
        } catch (cause) {
          const reason = cause instanceof Error ? cause.message : String(cause)
          return Effect.fail(new ConfigError({ path: file, message: `${file}: ${explain(text, parse, reason)}` }))
        }
      })
  })
)

/** The value of a YAML text. */
export const read = (text: string, file: string): Effect.Effect<unknown, ConfigError> =>
  Effect.flatMap(reader, (yaml) => yaml.read(text, file))

/** Texts that mean themselves without quotes. */
const plain = /^(?:_*[A-Za-z]|[/$(]|~\/|\.{1,2}\/)[\w ./~$@^(){}+=%<>;:-]*$/
const notText = /^(?:null|true|false|yes|no|on|off|y|n)$/i

const scalar = (value: string): string =>
  plain.test(value) && !notText.test(value) && !/:(?:\s|$)|\s$|\s#/.test(value) ? value : JSON.stringify(value)

const isMapping = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const inline = (value: unknown): string => {
  if (typeof value === "string") return scalar(value)
  if (Array.isArray(value) && value.length === 0) return "[]"
  if (isMapping(value) && Object.keys(value).length === 0) return "{}"
  return String(value)
}

const isBlock = (value: unknown): value is object =>
  Array.isArray(value) ? value.length > 0 : isMapping(value) && Object.keys(value).length > 0

const indented = (lines: ReadonlyArray<string>): ReadonlyArray<string> => lines.map((line) => `  ${line}`)

/** A list item: its first line stands behind the dash. */
const item = (value: unknown): ReadonlyArray<string> => {
  if (!isBlock(value)) return [`- ${inline(value)}`]
  if (Array.isArray(value)) return ["-", ...indented(lines(value))]
  const [first, ...rest] = lines(value)
  return [`- ${first}`, ...indented(rest)]
}

/** The lines of a value that stands on its own. */
export const lines = (value: unknown): ReadonlyArray<string> => {
  if (!isBlock(value)) return [inline(value)]
  if (Array.isArray(value)) return value.flatMap(item)
  return Object.entries(value).flatMap(([key, inside]) => entry(key, inside))
}

/** The lines of a key and its value. */
export const entry = (key: string, value: unknown): ReadonlyArray<string> =>
  isBlock(value) ? [`${scalar(key)}:`, ...indented(lines(value))] : [`${scalar(key)}: ${inline(value)}`]

/** A value as YAML, as `hermes config get` prints it. */
export const render = (value: unknown): string => lines(value).join("\n")
