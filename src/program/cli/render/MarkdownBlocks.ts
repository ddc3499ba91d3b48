/**
 * Markdown blocks, parsed with the lexer of `marked` and laid out for a terminal.
 *
 * The rules follow GitHub's Markdown, but are stricter to preserve the characters of text that is not Markdown: HTML,
 * link references and underlined headings are text, and inline content follows `MarkdownInline`. A paragraph preserves
 * the line ends of its author. Lines are wrapped between words; code is never wrapped, and only the indentation of its
 * block is removed, so that it can be copied.
 *
 * Lists and quotes are nested at most {@link deepest} levels; marks below that are text.
 */
import { Lexer, type MarkedToken, type Token, Tokenizer, type Tokens } from "marked"
import * as CodeHighlight from "./CodeHighlight.ts"
import type { Options, Renderer } from "./Markdown.ts"
import * as MarkdownInline from "./MarkdownInline.ts"
import * as MarkdownTable from "./MarkdownTable.ts"
import * as MarkdownTheme from "./MarkdownTheme.ts"
import * as SafeText from "./SafeText.ts"
import type { Span } from "./Paint.ts"
import * as Width from "./Width.ts"
import * as Wrap from "./Wrap.ts"

/** Maximum nesting depth of lists and quotes. */
const deepest = 8

/** Width of a horizontal rule, in columns, if the line width is unlimited. */
const ruleColumns = 40

/** Length of an open block, in characters, above which it is no longer repainted; it is written when it ends. */
const repaintable = 65_536

class BlockTokenizer extends Tokenizer {
  #depth = 0

  #nested<A>(read: () => A | undefined): A | undefined {
    if (this.#depth === deepest) return undefined
    this.#depth++
    const found = read()
    this.#depth--
    return found
  }

  override blockquote(src: string): Tokens.Blockquote | undefined {
    return this.#nested(() => super.blockquote(src))
  }

  override list(src: string): Tokens.List | undefined {
    return this.#nested(() => super.list(src))
  }

  override html(): undefined {}

  override def(): undefined {}

  override lheading(): undefined {}
}

const readTokens = (text: string): ReadonlyArray<Token> =>
  new Lexer({ gfm: true, tokenizer: new BlockTokenizer() }).blockTokens(text, [])

const countLineEnds = (text: string): number => text.split("\n").length - 1

const countTrailingLineEnds = (text: string): number => countLineEnds(text.slice(text.trimEnd().length))

/** Prefix of a line inside of lists and quotes. */
class Prefix {
  #next: string
  readonly rest: string
  readonly columns: number

  constructor(next: string, rest: string, columns: number) {
    this.#next = next
    this.rest = rest
    this.columns = columns
  }

  /** Returns the prefix of the next line. A bullet precedes only one line. */
  take(): string {
    const next = this.#next
    this.#next = this.rest
    return next
  }

  /** Returns the prefix of the nested content. */
  within(first: string, rest: string, columns: number): Prefix {
    return new Prefix(this.take() + first, this.rest + rest, this.columns + columns)
  }
}

/** Number of line breaks since the last visible line; `undefined` before the first line. */
type LineEnds = number | undefined

/** Renders tokens as lines. */
class Layout {
  out = ""
  readonly #theme: MarkdownTheme.MarkdownTheme
  readonly #columns: number
  lineEnds: LineEnds

  constructor(theme: MarkdownTheme.MarkdownTheme, columns: number, lineEnds: LineEnds) {
    this.#theme = theme
    this.#columns = columns
    this.lineEnds = lineEnds
  }

  blocks(tokens: ReadonlyArray<Token>, prefix = new Prefix("", "", 0), task = ""): void {
    let lead = task
    for (const token of tokens) {
      // Every token of the lexer has one of these types; only extensions add others.
      const block = token as MarkedToken
      if (block.type === "space") {
        this.#lineEnded(countLineEnds(block.raw))
        continue
      }
      if (block.type === "checkbox") continue
      this.#gap(prefix)
      this.#block(block, prefix, lead)
      lead = ""
      if (this.lineEnds !== undefined) this.lineEnds = countTrailingLineEnds(block.raw)
    }
  }

  #lineEnded(count: number): void {
    if (this.lineEnds !== undefined) this.lineEnds += count
  }

  /** Writes pending blank lines, now that content follows them. */
  #gap(prefix: Prefix): void {
    if (this.lineEnds !== undefined) this.out += `${prefix.rest.trimEnd()}\n`.repeat(Math.max(0, this.lineEnds - 1))
    this.lineEnds = 0
  }

  #line(prefix: Prefix, text: string): void {
    this.out += `${(prefix.take() + text).trimEnd()}\n`
  }

  #room(prefix: Prefix): number {
    return this.#columns - prefix.columns
  }

  #block(token: MarkedToken, prefix: Prefix, lead: string): void {
    switch (token.type) {
      case "heading":
        return this.#heading(token, prefix)
      case "hr":
        return this.#line(prefix, this.#theme.rule(Math.min(this.#room(prefix), ruleColumns)))
      case "code":
        return token.codeBlockStyle === "indented" ? this.#text(token.raw, prefix, lead) : this.#code(token, prefix)
      case "blockquote": {
        const { quote } = this.#theme
        return this.blocks(token.tokens, prefix.within(quote, quote, 2))
      }
      case "list":
        return this.#list(token.items, prefix)
      case "table":
        return this.#table(token, prefix)
      default:
        return this.#text(token.raw, prefix, lead)
    }
  }

  /** Writes lines of text. The continuation of a wrapped line has the same indentation. */
  #text(text: string, prefix: Prefix, lead = ""): void {
    const { paint } = this.#theme
    let checkbox = lead
    for (const line of text.trimEnd().split("\n")) {
      if (line.trim() === "") {
        this.#lineEnded(1)
        continue
      }
      this.#gap(prefix)
      const content = line.trimStart()
      const first = line.slice(0, line.length - content.length)
      const indent = Width.measure(first.replaceAll("\t", "    "))
      const room = this.#room(prefix)
      const wrap = Wrap.make(
        {
          columns: room,
          first: prefix.take() + first,
          rest: prefix.rest + " ".repeat(indent * 3 > room ? 0 : indent),
          indent,
          longWords: "overflow"
        },
        paint
      )
      for (const span of MarkdownInline.render(checkbox + content, paint)) this.out += wrap.add(span)
      this.out += `${wrap.end()}\n`
      this.#lineEnded(1)
      checkbox = ""
    }
  }

  #heading({ depth, text }: Tokens.Heading, prefix: Prefix): void {
    const { heading, paint } = this.#theme
    const style = heading(depth)
    const spans = MarkdownInline.render(text, paint).map((span): Span => ({
      text: span.text,
      style: { ...span.style, attributes: [...new Set([...style, ...span.style.attributes])] }
    }))
    for (const line of Wrap.wrapLines(spans, this.#room(prefix), paint)) this.#line(prefix, line)
  }

  #code({ lang = "", text }: Tokens.Code, prefix: Prefix): void {
    const { codeIndent, label, paint } = this.#theme
    const name = lang.split(/[\s{,]/)[0] ?? ""
    const language = label(name)
    if (language !== "") this.#line(prefix, codeIndent + language)
    if (text === "") return
    const colored = paint.color ? CodeHighlight.highlightLines(text, name) : undefined
    for (const [index, line] of text.split("\n").entries()) {
      if (line.trim() === "") this.#line(prefix, "")
      else
        this.out += `${prefix.take()}${codeIndent}${colored?.[index]?.map(({ style, text }) => paint.span(text, style)).join("") ?? line}\n`
    }
  }

  #list(items: ReadonlyArray<Tokens.ListItem>, prefix: Prefix): void {
    for (const item of items) {
      this.#gap(prefix)
      const marker = /^[ \t]*([-*+]|\d{1,9}[.)])/.exec(item.raw)?.[1] ?? "-"
      const bullet = this.#theme.bullet(marker)
      const columns = Width.measure(bullet) + 1
      const inside = prefix.within(`${bullet} `, " ".repeat(columns), columns)
      const [first] = item.tokens.filter(({ type }) => type !== "checkbox")
      const beside = first !== undefined && first.type !== "code" && first.type !== "table" && first.type !== "hr"
      const checkbox = item.task ? (item.checked === true ? "[x] " : "[ ] ") : ""
      if (!beside) this.#line(inside, checkbox)
      this.blocks(item.tokens, inside, beside ? checkbox : "")
      this.lineEnds = countTrailingLineEnds(item.raw)
    }
  }

  /** A line without a bar is not part of the table, but text after it. */
  #table({ raw }: Tokens.Table, prefix: Prefix): void {
    const lines = raw.trimEnd().split("\n")
    const after = lines.findIndex((line, index) => index > 1 && !line.includes("|"))
    const rows = after < 0 ? lines : lines.slice(0, after)
    for (const row of MarkdownTable.render(rows, this.#room(prefix), this.#theme)) this.#line(prefix, row)
    if (after > 0) this.#text(lines.slice(after).join("\n"), prefix)
  }
}

const isClosed = (code: Tokens.Code): boolean => {
  const lines = code.raw.trimEnd().split("\n")
  const fence = /^ {0,3}(`{3,}|~{3,})/.exec(code.raw)?.[1] ?? "```"
  const last = lines.at(-1)?.trim() ?? ""
  return lines.length > 1 && last.startsWith(fence) && last.replaceAll(fence.charAt(0), "") === ""
}

/** Tokens that later lines cannot change, and their length in characters. */
interface FinishedTokens {
  readonly tokens: ReadonlyArray<Token>
  readonly length: number
}

const measureLength = (tokens: ReadonlyArray<{ readonly raw: string }>): number =>
  tokens.reduce((sum, { raw }) => sum + raw.length, 0)

const selectFinished = (tokens: ReadonlyArray<Token>): FinishedTokens => {
  const index = tokens.findLastIndex(({ type }) => type !== "space")
  const open = tokens[index] as MarkedToken | undefined
  const all = { tokens, length: measureLength(tokens) }
  if (open === undefined) return all
  const before = tokens.slice(0, index)
  const blankFollows = index < tokens.length - 1
  switch (open.type) {
    case "heading":
    case "hr":
      return all
    case "code":
      if (open.codeBlockStyle === "indented" ? blankFollows : isClosed(open)) return all
      break
    case "list": {
      const items = open.items.slice(0, -1)
      return items.length === 0
        ? { tokens: before, length: measureLength(before) }
        : {
            tokens: [...before, { ...open, items, raw: items.map(({ raw }) => raw).join("") }],
            length: measureLength(before) + measureLength(items)
          }
    }
    default:
      if (blankFollows) return all
  }
  return { tokens: before, length: measureLength(before) }
}

/** Renders the blocks of one answer incrementally. */
class Blocks implements Renderer {
  readonly #theme: MarkdownTheme.MarkdownTheme
  readonly #columns: () => number | undefined
  readonly #harmless = SafeText.makeStream()
  #lineEnds: LineEnds
  /** Text of the block that is open. */
  #held = ""
  #lines = 0
  /** Number of lines at which the open block is parsed again, so that a long block is not parsed at every line. */
  #next = 1
  #painted: { readonly held: number; readonly columns: number; readonly text: string } | undefined

  constructor(theme: MarkdownTheme.MarkdownTheme, columns: () => number | undefined) {
    this.#theme = theme
    this.#columns = columns
  }

  push(piece: string): string {
    const text = this.#harmless.push(piece)
    let out = ""
    let from = 0
    for (let at = text.indexOf("\n"); at >= 0; at = text.indexOf("\n", from)) {
      this.#held += text.slice(from, at + 1)
      from = at + 1
      this.#lines++
      if (this.#lines >= this.#next) out += this.#read()
    }
    this.#held += text.slice(from)
    return out
  }

  end(): string {
    this.#held += this.#harmless.end()
    const out = this.#layOut(readTokens(this.#held))
    this.#held = ""
    return out
  }

  open(): string {
    const columns = this.#columns() ?? Infinity
    if (this.#held.length > repaintable) return ""
    if (this.#painted?.held !== this.#held.length || this.#painted.columns !== columns) {
      const layout = new Layout(this.#theme, columns, this.#lineEnds)
      layout.blocks(readTokens(this.#held))
      this.#painted = { held: this.#held.length, columns, text: layout.out }
    }
    return this.#painted.text
  }

  #read(): string {
    const { length, tokens } = selectFinished(readTokens(this.#held))
    if (tokens.length === 0) {
      this.#next = this.#lines + Math.max(1, this.#lines >> 3)
      return ""
    }
    this.#held = this.#held.slice(length)
    this.#lines = countLineEnds(this.#held)
    this.#next = this.#lines + 1
    this.#painted = undefined
    return this.#layOut(tokens)
  }

  #layOut(tokens: ReadonlyArray<Token>): string {
    const layout = new Layout(this.#theme, this.#columns() ?? Infinity, this.#lineEnds)
    layout.blocks(tokens)
    this.#lineEnds = layout.lineEnds
    return layout.out
  }
}

/** Creates the renderer of one answer. Raw text does not need this module. */
export const make = ({ columns, mode, paint }: Options): Renderer =>
  new Blocks(mode === "strip" ? MarkdownTheme.stripped : MarkdownTheme.makeStyledTheme(paint), columns)
