/**
 * One word of a command, and a list of them that is assigned to a name.
 *
 * @since 0.1.0
 */
import type { Part, Word } from "../Tree.ts"
import type { Cursor } from "./Cursor.ts"
import { ansi, expansion, quotedTo, substitution } from "./Expansion.ts"

/** One word; the position is on its first character. */
export const word = (cursor: Cursor): Word => {
  const text = cursor.text
  const parts: Array<Part> = []
  let plain = ""
  const flush = (): void => {
    if (plain !== "") parts.push({ _tag: "Text", text: plain, quoted: false })
    plain = ""
  }
  while (cursor.at < text.length) {
    const char = text.charAt(cursor.at)
    const next = text.charAt(cursor.at + 1)
    if (char === "\\") {
      if (next !== "\n") {
        flush()
        parts.push({ _tag: "Text", text: next, quoted: true })
      }
      cursor.at += 2
    } else if (char === "'") {
      flush()
      const end = text.indexOf("'", cursor.at + 1)
      if (end === -1) cursor.fail("a single quote is not closed")
      else {
        parts.push({ _tag: "Text", text: text.slice(cursor.at + 1, end), quoted: true })
        cursor.at = end + 1
      }
    } else if (char === "\"" || char === "$" && next === "\"") {
      flush()
      cursor.at += char === "$" ? 2 : 1
      parts.push({ _tag: "Text", text: "", quoted: true })
      for (const part of quotedTo(cursor, "\"")) parts.push(part)
    } else if (char === "$" && next === "'") {
      flush()
      cursor.at += 2
      parts.push({ _tag: "Text", text: ansi(cursor), quoted: true })
    } else if (char === "$" || char === "`") {
      const part = expansion(cursor, false)
      if (part === undefined) plain += char
      else {
        flush()
        parts.push(part)
      }
    } else if ((char === "<" || char === ">") && next === "(" && plain === "" && parts.length === 0) {
      cursor.at += 2
      parts.push(substitution(cursor, false, true))
      break
    } else if (/[ \t\r\n;&|<>()]/.test(char)) break
    else {
      plain += char
      cursor.at++
    }
  }
  flush()
  return parts
}

/** `name=(a b)`: one word, its items separated by blanks. */
export const array = (cursor: Cursor, name: Word): Word => {
  cursor.at++
  const parts: Array<Part> = [...name]
  while (cursor.at < cursor.text.length && cursor.text.charAt(cursor.at) !== ")") {
    const char = cursor.text.charAt(cursor.at)
    if (/\s/.test(char)) {
      parts.push({ _tag: "Text", text: " ", quoted: true })
      cursor.at++
    } else {
      const before = cursor.at
      for (const part of word(cursor)) parts.push(part)
      if (cursor.at === before) cursor.at++
    }
  }
  if (cursor.at >= cursor.text.length) cursor.fail("a list is not closed")
  cursor.at++
  return parts
}
