/**
 * Readers for the parts of words: quotes, `$…`, `${…}`, `$((…))`, `$(…)` and backquotes.
 */
import { type Cursor, readEscape, type Part, type Script, type Word } from "./ShellTree.ts"

/** Maximum number of characters of an arithmetic expression; a longer one is read as commands. */
const maxArithmetic = 200

const nameStart = /[A-Za-z_]/

/** Reads `$'…'` with its escapes; the position is after the opening quote. */
const readAnsiQuote = (cursor: Cursor): string => {
  const text = cursor.text
  let out = ""
  for (;;) {
    if (cursor.at >= text.length) {
      cursor.fail("an ANSI-C quote is not closed")
      return out
    }
    const char = text.charAt(cursor.at)
    if (char === "'") {
      cursor.at++
      return out
    }
    if (char !== "\\") {
      out += char
      cursor.at++
      continue
    }
    const [taken, value] = readEscape(text.slice(cursor.at + 1, cursor.at + 11))
    out += value
    cursor.at += 1 + taken
  }
}

/** Finds the `))` that closes `((`. If other text follows, a shell reads two groups instead. */
const findArithmeticEnd = (cursor: Cursor, start: number): number | undefined => {
  const limit = Math.min(cursor.text.length, start + maxArithmetic)
  let open = 2
  for (let at = start; at < limit; at++) {
    const char = cursor.text.charAt(at)
    if (char === "(") open++
    else if (char === ")" && --open === 1) return cursor.text.charAt(at + 1) === ")" ? at : undefined
  }
  return undefined
}

/** Returns true if the text is an arithmetic expression: `$((cd a); b)` is not. */
export const isArithmeticClosed = (cursor: Cursor, start: number): boolean =>
  findArithmeticEnd(cursor, start) !== undefined

/** Reads text with expansions up to `close` (a double quote), or to the end if `close` is `undefined`. */
export const readQuotedTo = (cursor: Cursor, close: '"' | undefined): Word => {
  const text = cursor.text
  const parts: Array<Part> = []
  let plain = ""
  const flush = (): void => {
    if (plain !== "") parts.push({ _tag: "Text", text: plain, quoted: true })
    plain = ""
  }
  for (;;) {
    if (cursor.at >= text.length) {
      if (close !== undefined) cursor.fail("a double quote is not closed")
      break
    }
    const char = text.charAt(cursor.at)
    if (char === close) {
      cursor.at++
      break
    }
    if (char === "\\") {
      const next = text.charAt(cursor.at + 1)
      plain += next === "\n" ? "" : next === "$" || next === "`" || next === "\\" || next === close ? next : char + next
      cursor.at += 2
    } else if (char === "$" || char === "`") {
      const part = readExpansion(cursor, true)
      if (part === undefined) plain += char
      else {
        flush()
        parts.push(part)
      }
    } else {
      plain += char
      cursor.at++
    }
  }
  flush()
  return parts
}

/** Reads an arithmetic expression, of which only the expansions matter. */
export const readArithmetic = (cursor: Cursor, quoted: boolean): Part => {
  const end = findArithmeticEnd(cursor, cursor.at) ?? cursor.text.length
  const inner = cursor.on(cursor.text.slice(cursor.at, end))
  const operand = cursor.nested(() => readQuotedTo(inner, undefined), [])
  cursor.inherit(inner)
  cursor.at = end + 2
  return { _tag: "Variable", name: "((", operator: "", operand, quoted }
}

/** Reads `$(…)`, or `<(…)`, which expands to a file name. */
const readSubstitution = (cursor: Cursor, quoted: boolean, asFile: boolean): Part => {
  const commands = cursor.nested(() => cursor.commands(cursor, true), [])
  return { _tag: "Substitution", script: { commands, fault: undefined }, quoted, asFile }
}

const readBackquotes = (cursor: Cursor, quoted: boolean): Part => {
  let inner = ""
  let at = cursor.at + 1
  for (; at < cursor.text.length && cursor.text.charAt(at) !== "`"; at++) {
    if (cursor.text.charAt(at) === "\\" && /[\\`$]/.test(cursor.text.charAt(at + 1))) at++
    inner += cursor.text.charAt(at)
  }
  if (at >= cursor.text.length) cursor.fail("a backquote is not closed")
  cursor.at = at + 1
  const script = cursor.nested(
    (): Script => {
      const inside = cursor.on(inner)
      const commands = inside.commands(inside, false)
      return { commands, fault: inside.fault }
    },
    { commands: [], fault: undefined }
  )
  cursor.inherit(script)
  return { _tag: "Substitution", script, quoted, asFile: false }
}

/** Reads one piece of the operand of `${…}`. */
const readOperand = (cursor: Cursor): Word => {
  const char = cursor.text.charAt(cursor.at)
  const before = cursor.at
  if (/[\\'"$`]/.test(char)) {
    const part = readPiece(cursor)
    cursor.at = Math.max(cursor.at, before + 1)
    return part
  }
  cursor.at++
  return [{ _tag: "Text", text: char, quoted: false }]
}

/** Reads one quoted run, escape or expansion. */
const readPiece = (cursor: Cursor): Word => {
  const text = cursor.text
  const char = text.charAt(cursor.at)
  const next = text.charAt(cursor.at + 1)
  if (char === "\\") {
    cursor.at += 2
    return [{ _tag: "Text", text: next, quoted: true }]
  }
  if (char === "'") {
    const end = text.indexOf("'", cursor.at + 1)
    if (end === -1) {
      cursor.fail("a single quote is not closed")
      return []
    }
    const inner = text.slice(cursor.at + 1, end)
    cursor.at = end + 1
    return [{ _tag: "Text", text: inner, quoted: true }]
  }
  if (char === '"') {
    cursor.at++
    return readQuotedTo(cursor, '"')
  }
  if (char === "$" && next === "'") {
    cursor.at += 2
    return [{ _tag: "Text", text: readAnsiQuote(cursor), quoted: true }]
  }
  const part = readExpansion(cursor, false)
  return [part ?? { _tag: "Text", text: char, quoted: false }]
}

/** Reads `${…}`; the position is after the opening brace. */
const readBraces = (cursor: Cursor, quoted: boolean): Part => {
  const text = cursor.text
  const indirect = text.charAt(cursor.at) === "!" && /[A-Za-z_]/.test(text.charAt(cursor.at + 1))
  const counted = text.charAt(cursor.at) === "#" && text.charAt(cursor.at + 1) !== "}"
  if (indirect || counted) cursor.at++
  const name =
    /^(?:[A-Za-z_]\w*(?:\[[^\]}]{0,64}\])?|[\d@*#?!$-])?/.exec(text.slice(cursor.at, cursor.at + 320))?.[0] ?? ""
  cursor.at += name.length
  const operator =
    /^(?::[-=+?]?|[-=+?]|##?|%%?|\/\/?|\^\^?|,,?|@)?/.exec(text.slice(cursor.at, cursor.at + 2))?.[0] ?? ""
  cursor.at += operator.length
  const operand: Array<Part> = []
  for (;;) {
    if (cursor.at >= text.length) {
      cursor.fail("a brace of an expansion is not closed")
      break
    }
    const char = text.charAt(cursor.at)
    if (char === "}") {
      cursor.at++
      break
    }
    if ((quoted && char === "'") || /[\s;&|<>()]/.test(char)) {
      operand.push({ _tag: "Text", text: char, quoted: true })
      cursor.at++
      continue
    }
    for (const part of readOperand(cursor)) operand.push(part)
  }
  const said = counted ? "count" : indirect ? "!" : operator
  return { _tag: "Variable", name, operator: said, operand, quoted }
}

/**
 * Reads an expansion that starts with `$` or a backquote. Returns `undefined` for a plain dollar and advances by one
 * character.
 */
const readExpansion = (cursor: Cursor, quoted: boolean): Part | undefined => {
  const text = cursor.text
  if (text.charAt(cursor.at) === "`") return readBackquotes(cursor, quoted)
  cursor.at++
  const char = text.charAt(cursor.at)
  if (char === "(") {
    cursor.at++
    if (text.charAt(cursor.at) === "(" && isArithmeticClosed(cursor, cursor.at + 1)) {
      cursor.at++
      return readArithmetic(cursor, quoted)
    }
    return readSubstitution(cursor, quoted, false)
  }
  if (char === "{") {
    cursor.at++
    return cursor.nested(() => readBraces(cursor, quoted), undefined)
  }
  const name = nameStart.test(char)
    ? (/^\w+/.exec(text.slice(cursor.at, cursor.at + 256))?.[0] ?? "")
    : /[\d@*#?!$-]/.test(char)
      ? char
      : ""
  cursor.at += name.length
  return name === "" ? undefined : { _tag: "Variable", name, operator: "", operand: [], quoted }
}

// One word of a command, and a list of them that is assigned to a name.

/** Reads text in quotes at the position, or a character after a backslash; `undefined` if there is neither. */
const readQuoted = (cursor: Cursor): ReadonlyArray<Part> | undefined => {
  const { at, text } = cursor
  const char = text.charAt(at)
  const next = text.charAt(at + 1)
  if (char === "\\") {
    cursor.at += 2
    return next === "\n" ? [] : [{ _tag: "Text", text: next, quoted: true }]
  }
  if (char === "'") {
    const end = text.indexOf("'", at + 1)
    if (end === -1) {
      cursor.fail("a single quote is not closed")
      return []
    }
    cursor.at = end + 1
    return [{ _tag: "Text", text: text.slice(at + 1, end), quoted: true }]
  }
  if (char === '"' || (char === "$" && next === '"')) {
    cursor.at += char === "$" ? 2 : 1
    return [{ _tag: "Text", text: "", quoted: true }, ...readQuotedTo(cursor, '"')]
  }
  if (char !== "$" || next !== "'") return undefined
  cursor.at += 2
  return [{ _tag: "Text", text: readAnsiQuote(cursor), quoted: true }]
}

/** Reads one word; the position is on its first character. */
export const readWord = (cursor: Cursor): Word => {
  const text = cursor.text
  const parts: Array<Part> = []
  let plain = ""
  const flush = (): void => {
    if (plain !== "") parts.push({ _tag: "Text", text: plain, quoted: false })
    plain = ""
  }
  while (cursor.at < text.length) {
    const char = text.charAt(cursor.at)
    const quoted = readQuoted(cursor)
    if (quoted !== undefined) {
      if (quoted.length > 0) flush()
      for (const part of quoted) parts.push(part)
    } else if (char === "$" || char === "`") {
      const part = readExpansion(cursor, false)
      if (part === undefined) plain += char
      else {
        flush()
        parts.push(part)
      }
    } else if (
      (char === "<" || char === ">") &&
      text.charAt(cursor.at + 1) === "(" &&
      plain === "" &&
      parts.length === 0
    ) {
      cursor.at += 2
      parts.push(readSubstitution(cursor, false, true))
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

/** Reads `name=(a b)` as one word, with its items separated by blanks. */
export const readArray = (cursor: Cursor, name: Word): Word => {
  cursor.at++
  const parts: Array<Part> = [...name]
  while (cursor.at < cursor.text.length && cursor.text.charAt(cursor.at) !== ")") {
    const char = cursor.text.charAt(cursor.at)
    if (/\s/.test(char)) {
      parts.push({ _tag: "Text", text: " ", quoted: true })
      cursor.at++
    } else {
      const before = cursor.at
      for (const part of readWord(cursor)) parts.push(part)
      if (cursor.at === before) cursor.at++
    }
  }
  if (cursor.at >= cursor.text.length) cursor.fail("a list is not closed")
  cursor.at++
  return parts
}
