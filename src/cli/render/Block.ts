/**
 * What kind of block a line of Markdown belongs to, told from as few of its characters as possible.
 *
 * **Details**
 *
 * Lines are blocks: a paragraph keeps the line ends that its author gave it, and a rule under a line is a rule. So text
 * that is no Markdown stays as it was, and a line can be shown while it is still written.
 *
 * @since 0.1.0
 */

/** How a line begins. `text` is what follows the marks. */
export type Block =
  | { readonly _tag: "Text"; readonly indent: string; readonly text: string }
  | { readonly _tag: "Item"; readonly indent: string; readonly marker: string; readonly gap: string; readonly text: string }
  | { readonly _tag: "Heading"; readonly level: number; readonly text: string }
  | { readonly _tag: "Rule" }
  | { readonly _tag: "Fence"; readonly fence: Fence }
  | { readonly _tag: "Row"; readonly text: string }

/** Where a block of code began. */
export interface Fence {
  readonly char: string
  readonly count: number
  readonly indent: string
  readonly language: string
}

const fence = /^(`{3,}|~{3,})[ \t]*([^\n]*)$/
const rule = /^([-*_])[ \t]*(?:\1[ \t]*)*$/
const marked = /^([-*+]|\d{1,9}[.)])([ \t]+)([^ \t].*)$/s
const markedBegun = /^(?:[-*+]|\d{1,9}[.)]?)[ \t]*$/
const heading = /^(#{1,6})[ \t]+(.*)$/s

const fenceOf = (indent: string, rest: string): Fence | undefined => {
  const found = fence.exec(rest)
  if (found === null) return undefined
  const [, marks = "", info = ""] = found
  if (info.includes("`") && marks.startsWith("`")) return undefined
  return { char: marks.charAt(0), count: marks.length, indent, language: info.trim().split(/[\s{,]/)[0] ?? "" }
}

const item = (indent: string, rest: string): Block | undefined => {
  const found = marked.exec(rest)
  if (found === null) return undefined
  const [, marker = "", gap = "", text = ""] = found
  return { _tag: "Item", indent, marker, gap, text }
}

/** The block of a line; `undefined` while that can not be told, which a whole line always can. */
export const of = (line: string, whole: boolean): Block | undefined => {
  const rest = line.trimStart()
  const indent = line.slice(0, line.length - rest.length)
  const text: Block = { _tag: "Text", indent, text: rest }
  const unless = (more: boolean): Block | undefined => more && !whole ? undefined : text
  const indented = indent.length > 3 || indent.includes("\t")
  switch (rest.charAt(0)) {
    case "":
      return unless(true)
    case "`":
    case "~": {
      const found = whole ? fenceOf(indent, rest) : undefined
      if (found !== undefined) return { _tag: "Fence", fence: found }
      return unless(/^(?:`{1,2}|~{1,2}|`{3,}[^`]*|~{3,}.*)$/s.test(rest))
    }
    case "#": {
      if (indented) return text
      const found = heading.exec(rest)
      if (found === null) return unless(/^#{1,6}[ \t]*$/.test(rest))
      return whole
        ? { _tag: "Heading", level: (found[1] ?? "").length, text: (found[2] ?? "").trimEnd().replace(/(?:^|(?<![ \t])[ \t]+)#*$/, "") }
        : undefined
    }
    case "|":
      return whole ? { _tag: "Row", text: rest } : undefined
    case "-":
    case "*":
    case "_":
    case "+":
      if (!indented && rule.test(rest)) {
        if (!whole) return undefined
        if (rest.replace(/[ \t]/g, "").length >= 3) return { _tag: "Rule" }
      }
      return item(indent, rest) ?? unless(markedBegun.test(rest))
    default:
      return item(indent, rest) ?? unless(markedBegun.test(rest))
  }
}

/** Whether a line of code ends its block; `undefined` while it may. */
export const closes = ({ char, count }: Fence, line: string, whole: boolean): boolean | undefined => {
  const found = /^([`~]*)$/.exec(line.replace(/^[ \t]+|(?<![ \t])[ \t]+$/g, ""))
  if (found === null) return false
  const marks = found[1] ?? ""
  const foreign = marks.split("").some((mark) => mark !== char)
  if (foreign) return false
  return whole ? marks.length >= count : undefined
}

/** A line of code without the indentation of its block. */
export const dedent = ({ indent }: Fence, line: string): string => {
  let from = 0
  while (from < indent.length && (line.charAt(from) === " " || line.charAt(from) === "\t")) from++
  return line.slice(from)
}

const quoteMark = /^ {0,3}>[ \t]?/

/** How deep a line is quoted, at most `most` levels, and the line without the marks; `undefined` while that can not be told. */
export const unquote = (
  line: string,
  whole: boolean,
  most = 8
): { readonly depth: number; readonly line: string } | undefined => {
  let depth = 0
  let rest = line
  while (depth < most) {
    const found = quoteMark.exec(rest)
    if (found === null) break
    if (!whole && found[0].length === rest.length) return undefined
    rest = rest.slice(found[0].length)
    depth++
  }
  return !whole && /^ {0,3}$/.test(rest) && depth < most ? undefined : { depth, line: rest }
}
