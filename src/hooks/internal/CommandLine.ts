/**
 * A command line as its words, by the quoting rules of a POSIX shell and nothing else of one: no variables, no globs, no
 * operators. Undefined when a quote is not closed.
 */
export const words = (line: string): ReadonlyArray<string> | undefined => {
  const out: Array<string> = []
  let word: string | undefined
  let quote = ""
  for (let i = 0; i < line.length; i++) {
    const char = line.charAt(i)
    if (quote === "'") {
      if (char === "'") quote = ""
      else word += char
    } else if (char === "\\" && (quote === "" || /["\\$`]/.test(line.charAt(i + 1)))) {
      if (i + 1 === line.length) return undefined
      word = (word ?? "") + line.charAt(++i)
    } else if (quote === "\"") {
      if (char === "\"") quote = ""
      else word += char
    } else if (char === "'" || char === "\"") {
      quote = char
      word ??= ""
    } else if (/\s/.test(char)) {
      if (word !== undefined) out.push(word)
      word = undefined
    } else {
      word = (word ?? "") + char
    }
  }
  if (quote !== "") return undefined
  if (word !== undefined) out.push(word)
  return out
}

/** The words with a leading `~` replaced by the user's home. */
export const expanded = (line: string, home: string | undefined): ReadonlyArray<string> | undefined =>
  words(line)?.map((word) => home !== undefined && /^~(?:\/|$)/.test(word) ? home + word.slice(1) : word)
