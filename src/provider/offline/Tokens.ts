/**
 * Plain text as words, quoted passages and punctuation, each with its place in the text, so that a command or a reply
 * can be taken from it letter by letter.
 *
 * @since 0.1.0
 */

/** One token; `text` of a quoted passage is what stands between the quotes. */
export interface Token {
  readonly kind: "word" | "quoted" | "mark" | "break"
  readonly text: string
  readonly start: number
  readonly end: number
}

/** A text and its tokens. */
export interface Source {
  readonly text: string
  readonly tokens: ReadonlyArray<Token>
}

const closing: Readonly<Record<string, string>> = { "\"": "\"", "'": "'", "`": "`", "“": "”", "‘": "’" }
const marks = ".,;:!?"

const isSpace = (character: string | undefined): boolean => character === undefined || character.trim() === ""
const isMark = (character: string | undefined): boolean => character !== undefined && marks.includes(character)

/**
 * Where the quotation that opens at `start` closes, or -1. An apostrophe closes only at the end of a word. `dead` keeps
 * the quotes that close nowhere further on, so that the text is not searched for them again and again.
 */
const closes = (text: string, start: number, dead: Set<string>): number => {
  const open = text[start] ?? ""
  const close = closing[open]
  if (close === undefined || dead.has(open)) return -1
  for (let at = text.indexOf(close, start + 1); at >= 0; at = text.indexOf(close, at + 1)) {
    const after = text[at + 1]
    if (close !== "'" || isSpace(after) || isMark(after) || after === ")") return at
  }
  dead.add(open)
  return -1
}

/** A fenced block without its fences and without the name of its language. */
const fenced = (text: string, start: number): Token | undefined => {
  if (!text.startsWith("```", start)) return undefined
  const close = text.indexOf("```", start + 3)
  if (close < 0) return undefined
  const inner = text.slice(start + 3, close)
  const line = inner.indexOf("\n")
  const body = line >= 0 && !inner.slice(0, line).trim().includes(" ") ? inner.slice(line + 1) : inner
  return { kind: "quoted", text: body.endsWith("\n") ? body.slice(0, -1) : body, start, end: close + 3 }
}

const quoted = (text: string, start: number, dead: Set<string>): Token | undefined => {
  const close = closes(text, start, dead)
  return close < 0 ? undefined : { kind: "quoted", text: text.slice(start + 1, close), start, end: close + 1 }
}

/** The end of the run of characters at `start`; quotes inside it (`--message="a b"`) belong to it whole. */
const runEnd = (text: string, start: number, dead: Set<string>): number => {
  let at = start
  while (at < text.length && !isSpace(text[at])) {
    const inner = text[at] === "'" && /\w/.test(text[at - 1] ?? "") ? -1 : closes(text, at, dead)
    at = inner < 0 || at === start ? at + 1 : inner + 1
  }
  return at
}

/** `.` and `..` on their own are paths, not punctuation. */
const isDots = (text: string, start: number, end: number): boolean => {
  const word = text.slice(start, end)
  return (word === "." || word === "..") && isSpace(text[start - 1])
}

/** A word and the punctuation behind it. */
const run = (text: string, start: number, dead: Set<string>): Array<Token> => {
  const end = runEnd(text, start, dead)
  let last = end
  if (!isDots(text, start, end)) { while (last > start && isMark(text[last - 1])) last-- }
  const tokens: Array<Token> = []
  if (last > start) tokens.push({ kind: "word", text: text.slice(start, last), start, end: last })
  for (let at = last; at < end; at++) tokens.push({ kind: "mark", text: text[at] ?? "", start: at, end: at + 1 })
  return tokens
}

const isBreak = (space: string): boolean => space.includes("\n")

/** See the module. A line break is `\n`, a blank line `\n\n`. */
export const read = (text: string): Source => {
  const tokens: Array<Token> = []
  const dead = new Set<string>()
  let at = 0
  while (at < text.length) {
    if (isSpace(text[at])) {
      let end = at
      while (end < text.length && isSpace(text[end])) end++
      const space = text.slice(at, end)
      if (isBreak(space)) {
        const blank = space.indexOf("\n") !== space.lastIndexOf("\n")
        tokens.push({ kind: "break", text: blank ? "\n\n" : "\n", start: at, end })
      }
      at = end
      continue
    }
    const passage = fenced(text, at) ?? quoted(text, at, dead)
    const next = passage === undefined ? run(text, at, dead) : [passage]
    tokens.push(...next)
    at = next.at(-1)?.end ?? at + 1
  }
  return { text, tokens }
}

/** The text from one token to before another, as it was written. */
export const slice = (source: Source, from: number, to: number): string => {
  const first = source.tokens[from]
  const last = source.tokens[to - 1]
  return first === undefined || last === undefined || to <= from ? "" : source.text.slice(first.start, last.end)
}
