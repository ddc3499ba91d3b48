/**
 * Which runs of `*`, `_` and `~` in a line begin and end emphasis.
 *
 * **Details**
 *
 * The rules are those of CommonMark, made stricter where they take characters out of what is not Markdown: between ASCII
 * letters and digits a run is text (`2*3*4`, `x**2 + y**2`), next to a path separator or a dot it needs white space on its
 * other side (`src/**\/*.ts`), and two underscores around one word are part of a name (`__init__`). They are looser next to
 * characters of scripts that write without spaces.
 *
 * @since 0.1.0
 */

/** A run of one delimiter in a line. */
export interface Run {
  readonly char: string
  readonly from: number
  readonly to: number
  readonly canOpen: boolean
  readonly canClose: boolean
}

const isSpace = (char: string): boolean => char === "" || /\s/u.test(char)
const isPunctuation = (char: string): boolean => /[\p{P}\p{S}]/u.test(char)
const isAsciiWord = (char: string): boolean => /[A-Za-z0-9]/.test(char)
const isWord = (char: string): boolean => /[\p{L}\p{N}]/u.test(char)

/** Whether what stands beyond a run next to punctuation lets it be a delimiter. */
const separates = (char: string): boolean =>
  isSpace(char) || (isPunctuation(char) ? !/[/\\.=:@&%$]/.test(char) : char > "\u007f")

/** Commas and full stops end a sentence after emphasis. */
const separatesEnd = (char: string): boolean => separates(char) || /[.:=]/.test(char)

const flanks = (outer: string, inner: string, separated: (char: string) => boolean): boolean =>
  !isSpace(inner) && (!isPunctuation(inner) || separated(outer))

/** The run that a delimiter at `from` begins. The character after it must be there, unless it ends the line. */
export const runAt = (line: string, from: number): Run => {
  const char = line.charAt(from)
  let to = from + 1
  while (line.charAt(to) === char) to++
  const count = to - from
  const before = from === 0 ? "" : line.charAt(from - 1)
  const after = line.charAt(to)
  const opens = flanks(before, after, separates)
  const closes = flanks(after, before, separatesEnd)
  const none = { char, from, to, canOpen: false, canClose: false }
  if (count > 3 || (char === "~" && count !== 2)) return none
  if (isAsciiWord(before) && isAsciiWord(after)) return none
  return char === "_"
    ? { ...none, canOpen: opens && !isWord(before), canClose: closes && !isWord(after) }
    : { ...none, canOpen: opens, canClose: closes }
}

/** Whether two runs can stand around this text. */
export const encloses = (char: string, used: number, inner: string): boolean =>
  inner !== "" && !(char === "_" && used === 2 && /^\w+$/.test(inner))
