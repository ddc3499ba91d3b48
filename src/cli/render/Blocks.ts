/**
 * The blocks of a Markdown text, written line by line: each line is shown as soon as it is known what it is.
 *
 * **Details**
 *
 * A line is held as long as its block can not be told (a mark that may become a rule, the first row of what may be a table);
 * text and code go on while the line is written. Blank lines are written when something follows them.
 *
 * @since 0.1.0
 */
import * as Block from "./Block.ts"
import * as Inline from "./Inline.ts"
import type { Look } from "./Look.ts"
import type { Span } from "./Paint.ts"
import * as Table from "./Table.ts"
import * as Width from "./Width.ts"
import * as Wrap from "./Wrap.ts"

/** Columns of a rule where lines have no end. */
const ruleColumns = 40

/** The line under way, once it is known what it is. */
interface Line {
  readonly add: (text: string) => string
  readonly end: () => string
}

const verbatim: Line = { add: (text) => text, end: () => "" }

interface OpenFence {
  readonly depth: number
  readonly fence: Block.Fence
}

interface OpenTable {
  readonly depth: number
  /** The first may turn out to be no table. */
  readonly rows: Array<string>
}

/** See the module. */
export class Blocks {
  readonly #look: Look
  readonly #columns: () => number
  #out = ""
  #started = false
  #blanks = 0
  /** The line under way as long as nobody can tell what it is. */
  #held = ""
  #line: Line | undefined
  #fence: OpenFence | undefined
  #table: OpenTable | undefined

  constructor(look: Look, columns: () => number | undefined) {
    this.#look = look
    this.#columns = () => columns() ?? Infinity
  }

  push(text: string): string {
    const [first = "", ...rest] = text.split("\n")
    this.#add(first)
    for (const part of rest) {
      this.#finish()
      this.#add(part)
    }
    return this.#flush()
  }

  end(): string {
    if (this.#held !== "" || this.#line !== undefined) this.#finish()
    this.#closeTable()
    return this.#flush()
  }

  #flush(): string {
    const out = this.#out
    this.#out = ""
    return out
  }

  #add(text: string): void {
    if (text === "") return
    if (this.#line !== undefined) {
      this.#out += this.#line.add(text)
      return
    }
    this.#held += text
    const line = this.#begin(this.#held, false)
    if (line === undefined || line === "done") return
    this.#held = ""
    this.#line = line
  }

  #finish(): void {
    const line = this.#line ?? this.#begin(this.#held, true)
    if (line !== undefined && line !== "done") this.#out += `${line.end()}\n`
    this.#line = undefined
    this.#held = ""
  }

  /** Blank lines are written when something follows them. */
  #write(text: string): void {
    if (this.#started) this.#out += "\n".repeat(this.#blanks)
    this.#started = true
    this.#blanks = 0
    this.#out += text
  }

  #quotes(depth: number): string {
    return this.#look.quote.repeat(depth)
  }

  #room(depth: number): number {
    return this.#columns() - 2 * depth
  }

  /** What the line is; `undefined` while its end is needed to tell, `"done"` when nothing of it is left to write. */
  #begin(held: string, whole: boolean): Line | "done" | undefined {
    if (this.#fence !== undefined) {
      const quoted = Block.unquote(held, whole, this.#fence.depth)
      if (quoted === undefined) return undefined
      if (quoted.depth === this.#fence.depth) return this.#code(this.#fence, quoted.line, whole)
      this.#fence = undefined
    }
    const quoted = Block.unquote(held, whole)
    if (quoted === undefined) return undefined
    if (whole && quoted.line.trim() === "") return this.#blank(quoted.depth)
    const block = Block.of(quoted.line, whole)
    if (block === undefined) return undefined
    if (block._tag !== "Row") this.#closeTable()
    return this.#block(quoted.depth, block, whole)
  }

  #block(depth: number, block: Block.Block, whole: boolean): Line | "done" | undefined {
    switch (block._tag) {
      case "Text":
        return this.#text(depth, block.indent, block.text)
      case "Item":
        return this.#item(depth, block, whole)
      case "Heading":
        return this.#heading(depth, block)
      case "Rule":
        return this.#whole(depth, this.#look.rule(Math.min(this.#room(depth), ruleColumns)))
      case "Fence":
        return this.#openFence(depth, block.fence)
      case "Row":
        return this.#row(depth, block.text)
    }
  }

  #whole(depth: number, text: string): "done" {
    this.#write(`${(this.#quotes(depth) + text).trimEnd()}\n`)
    return "done"
  }

  #blank(depth: number): "done" {
    this.#closeTable()
    if (depth > 0) return this.#whole(depth, "")
    this.#blanks++
    return "done"
  }

  /** A line of text; the lines that it is broken into are indented like it. */
  #text(depth: number, prefix: string, text: string): Line {
    const indent = Width.of(prefix.replaceAll("\t", "    "))
    const hanging = indent * 3 > this.#room(depth) ? 0 : indent
    const wrap = Wrap.make({
      columns: this.#room(depth),
      first: prefix,
      rest: this.#quotes(depth) + " ".repeat(hanging),
      indent,
      longWords: "overflow"
    }, this.#look.paint)
    const inline = Inline.make(this.#look.paint)
    const show = (spans: ReadonlyArray<Span>): string => {
      let shown = ""
      for (const span of spans) shown += wrap.add(span)
      return shown
    }
    this.#write(this.#quotes(depth) + show(inline.push(text)))
    return { add: (more) => show(inline.push(more)), end: () => show(inline.end()) + wrap.end() }
  }

  #item(depth: number, item: Extract<Block.Block, { _tag: "Item" }>, whole: boolean): Line | "done" | undefined {
    const prefix = item.indent + this.#look.bullet(item.marker)
    if (/^[`~]/.test(item.text)) {
      const inner = Block.of(item.text, whole)
      if (inner === undefined) return undefined
      if (inner._tag === "Fence") {
        this.#whole(depth, prefix)
        const indent = " ".repeat(item.indent.length + item.marker.length + item.gap.length)
        return this.#openFence(depth, { ...inner.fence, indent })
      }
    }
    return this.#text(depth, prefix + item.gap, item.text)
  }

  #heading(depth: number, { level, text }: Extract<Block.Block, { _tag: "Heading" }>): "done" {
    const { heading, paint } = this.#look
    const style = heading(level)
    const spans = Inline.render(text, paint).map((span): Span => ({
      text: span.text,
      style: { ...span.style, attributes: [...new Set([...style, ...span.style.attributes])] }
    }))
    for (const line of Wrap.lines(spans, this.#room(depth), paint)) this.#whole(depth, line)
    return "done"
  }

  #openFence(depth: number, fence: Block.Fence): "done" {
    this.#fence = { depth, fence }
    const label = this.#look.label(fence.language)
    return label === "" ? "done" : this.#whole(depth, fence.indent + this.#look.codeIndent + label)
  }

  #code({ depth, fence }: OpenFence, text: string, whole: boolean): Line | "done" | undefined {
    const closes = Block.closes(fence, text, whole)
    if (closes === undefined) return undefined
    if (closes) {
      this.#fence = undefined
      return "done"
    }
    const code = Block.dedent(fence, text)
    const line = fence.indent + this.#look.codeIndent + code
    if (code.trim() === "") return this.#whole(depth, "")
    this.#write(this.#quotes(depth) + line)
    return verbatim
  }

  #row(depth: number, row: string): "done" {
    const open = this.#table
    const [only] = open?.rows ?? []
    const follows = open?.depth === depth && (open.rows.length > 1 || (only !== undefined && Table.begins(only, row)))
    if (follows) {
      open.rows.push(row)
    } else {
      this.#closeTable()
      this.#table = { depth, rows: [row] }
    }
    return "done"
  }

  #closeTable(): void {
    if (this.#table === undefined) return
    const { depth, rows } = this.#table
    this.#table = undefined
    const [only = ""] = rows
    if (rows.length === 1) {
      const line = this.#text(depth, "", only)
      this.#out += `${line.end()}\n`
      return
    }
    for (const row of Table.render(rows, this.#room(depth), this.#look.paint, this.#look.table)) this.#whole(depth, row)
  }
}
