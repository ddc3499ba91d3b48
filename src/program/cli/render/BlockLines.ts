/**
 * Lays out blocks as lines of a given width. Pure. Lines are cached for each block, so that an unchanged block is laid
 * out once.
 *
 * External text is sanitised by `SafeText` and its secrets are masked here, and nowhere else on its way to the screen.
 *
 * Source: `hermes-product.md` §1.8.
 */
import * as FileChange from "../../../base/domain/FileChange.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type * as Block from "./Block.ts"
import * as DiffText from "./DiffText.ts"
import type * as Markdown from "./Markdown.ts"
import * as Paint from "./Paint.ts"
import * as RunText from "./RunText.ts"
import * as SafeText from "./SafeText.ts"
import * as ToolFeed from "./ToolFeed.ts"
import * as ToolText from "./ToolText.ts"
import * as UsageText from "./UsageText.ts"
import * as Width from "./Width.ts"
import * as Wrap from "./Wrap.ts"

/** Display options of all blocks. */
export interface Look {
  /** Maximum width of a line in columns. */
  readonly columns: number
  readonly paint: Paint.Paint
  readonly markdown: Markdown.Mode
  /** Factory of Markdown renderers; text is shown unrendered until it is loaded. */
  readonly make: Markdown.Make | undefined
  readonly verbosity: ToolFeed.Verbosity
  readonly showReasoning: boolean
  readonly previewLength: number
}

/** Maximum number of lines shown for a file's difference, and maximum number of files shown for one call. */
const diffLines = 12
const verboseDiffLines = 200
const shownFiles = 5

/** Maximum number of lines shown of the reason why a call failed. */
const reasonLines = 3

/** Maximum number of lines of a result shown in an open block. */
const openLines = 5000

const wrapIndented = (
  text: string,
  columns: number,
  paint: Paint.Paint,
  ...attributes: ReadonlyArray<Paint.Attribute>
): ReadonlyArray<string> =>
  text.split("\n").flatMap((line) => {
    const content = line.trimStart()
    const indent = Math.min(line.length - content.length, columns >> 1)
    const rows = Wrap.wrapLines([{ text: content, style: { attributes } }], Math.max(1, columns - indent), paint)
    return rows.map((row) => " ".repeat(indent) + row)
  })

/** Prefixes lines with a mark, and indents the following lines by the same width. */
const prefixLines = (mark: string, lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  const indent = " ".repeat(Width.measure(Paint.strip(mark)))
  return lines.map((line, index) => (index === 0 ? mark : indent) + line)
}

const sanitiseText = (text: string): string => Redaction.redactText(SafeText.sanitise(text))

const renderUser = ({ text }: Block.UserBlock, { columns, paint }: Look): ReadonlyArray<string> => [
  ...prefixLines(`${paint.text("›", "bold", "cyan")} `, wrapIndented(SafeText.sanitise(text), columns - 2, paint)),
  ""
]

const splitLines = (rendered: string): ReadonlyArray<string> =>
  rendered === "" ? [] : rendered.replace(/\n$/, "").split("\n")

const renderText = ({ text }: Block.TextBlock, { columns, make, markdown, paint }: Look): ReadonlyArray<string> => {
  if (make === undefined) return splitLines(SafeText.sanitise(text))
  const renderer = make({ mode: markdown, paint, columns: () => columns })
  return splitLines(renderer.push(text) + renderer.end())
}

const renderReasoning = (
  { text }: Block.ReasoningBlock,
  detail: Block.Detail,
  { columns, paint, showReasoning, verbosity }: Look
): ReadonlyArray<string> => {
  if (detail === "folded" || (detail === "part" && !showReasoning)) {
    if (detail === "part" && verbosity === "off") return []
    const all = sanitiseText(text)
      .trim()
      .split("\n")
      .filter((line) => line.trim() !== "")
    const count = all.length - 1
    const more = count < 1 ? "" : ` (+${count} ${count === 1 ? "line" : "lines"})`
    const mark = "thought: "
    const room = Math.max(1, columns - 2 - mark.length - more.length)
    const first = Width.cut(SafeText.toLine(all[0] ?? ""), room)
    return [`${paint.text("┊", "dim")} ${paint.text(mark + first + more, "dim")}`]
  }
  const renderer = RunText.makeReasoningText(paint, () => columns)
  return splitLines(renderer.push(Redaction.redactText(text)) + renderer.end())
}

const renderOutput = ({ output, params }: Block.ToolBlock, { columns, paint }: Look): ReadonlyArray<string> => {
  const { lines, more } = ToolText.toLines(output, openLines)
  const bar = `${paint.text("┊", "dim")}   `
  const rest = more === 0 ? [] : [`… ${more} more ${more === 1 ? "line" : "lines"}`]
  return [ToolText.formatParams(params), ...lines, ...rest]
    .filter((line, index) => index > 0 || line !== "")
    .flatMap((line) => wrapIndented(line.replaceAll("\t", "  "), Math.max(8, columns - 4), paint, "dim"))
    .map((line) => bar + line)
}

const renderTool = (block: Block.ToolBlock, detail: Block.Detail, look: Look): ReadonlyArray<string> => {
  const { columns, paint, previewLength, verbosity } = look
  const view = ToolText.viewResult(block.name, block.status, block.output)
  if (detail === "part") {
    if (verbosity === "off" || (verbosity === "new" && !block.isFirst && view.outcome === "done")) return []
  }
  const room = { columns, paint, previewLength }
  // The todo list is shown as a separate block after the call.
  const preview = block.name === "todo" && block.status === "ok" ? "" : ToolText.summariseParams(block.params)
  const isReason = view.kind !== "command" && (view.outcome === "failed" || view.outcome === "refused")
  const reason = isReason ? ToolText.describeOutcome(view) : ""
  const fits =
    reason === "" ||
    Width.measure(`┊ ✗ ${block.name} ${preview} · ${ToolText.formatDuration(block.durationMillis)} · ${reason}`) <=
      columns
  const [bar, said] = [
    `${paint.text("┊", "dim")}   `,
    wrapIndented(reason, Math.max(8, columns - 4), paint, view.outcome === "failed" ? "red" : "yellow")
  ]
  const first =
    fits || detail === "folded"
      ? [ToolFeed.renderLine(block, view, preview, room)]
      : // A reason is not cut to a few words where lines are short.
        [ToolFeed.renderLine(block, view, preview, room, ""), ...said.slice(0, reasonLines).map((line) => bar + line)]
  if (detail === "open") return [...first, ...renderOutput(block, look)]
  if (detail === "folded") return first
  if (verbosity === "verbose") return [...first, ...ToolFeed.renderDetails(block, block.params, room)]
  return ToolText.hasShownLines(block.name, view) ? [...first, ...ToolFeed.renderViewLines(view, room)] : first
}

const renderDiff = (
  { changes }: Block.DiffBlock,
  detail: Block.Detail,
  { columns, paint, verbosity }: Look
): ReadonlyArray<string> => {
  if (detail === "part" && verbosity === "off") return []
  const most =
    detail === "open" ? openLines : detail === "folded" ? 0 : verbosity === "verbose" ? verboseDiffLines : diffLines
  const room = { paint, columns: columns - 2, most }
  const shown = detail === "open" ? changes : changes.slice(0, shownFiles)
  const lines = shown.flatMap((change) => {
    const name = FileChange.readFileName(change)
    return detail === "folded" ? [DiffText.renderTitle(change, name, room)] : DiffText.renderFile(change, name, room)
  })
  const left = changes.length - shown.length
  const more =
    left === 0
      ? []
      : [
          paint.text(
            Width.cut(`… ${left} more files: /diff or hermes sessions diff shows all of them`, columns - 2),
            "dim"
          )
        ]
  return [...lines, ...more].map((line) => `  ${line}`)
}

const todoMarks: Readonly<
  Record<Block.TodoItem["status"], readonly [mark: string, mark: Paint.Attribute, text: ReadonlyArray<Paint.Attribute>]>
> = {
  pending: ["☐", "dim", []],
  in_progress: ["◐", "cyan", ["bold"]],
  completed: ["☑", "green", ["dim"]],
  cancelled: ["☒", "dim", ["dim", "strike"]]
}

const renderTodo = ({ items }: Block.TodoBlock, { columns, paint, verbosity }: Look): ReadonlyArray<string> =>
  verbosity === "off"
    ? []
    : items.flatMap(({ content, status }) => {
        const [mark, attribute, attributes] = todoMarks[status]
        return prefixLines(
          `  ${paint.text(mark, attribute)} `,
          wrapIndented(SafeText.toLine(Redaction.redactText(content)), columns - 4, paint, ...attributes)
        )
      })

const noticeLooks: Readonly<Record<Block.NoticeBlock["level"], Paint.Attribute>> = {
  info: "dim",
  detail: "dim",
  warning: "yellow",
  error: "red"
}

const renderNotice = (
  { level, text }: Block.NoticeBlock,
  { columns, paint, verbosity }: Look
): ReadonlyArray<string> => {
  if (level === "detail" && verbosity !== "verbose") return []
  const line = Redaction.redactText(SafeText.toLine(text))
  const [mark = ""] = /^[┊!] /u.exec(line) ?? []
  return prefixLines(
    paint.text(mark, noticeLooks[level]),
    wrapIndented(line.slice(mark.length), columns - mark.length, paint, noticeLooks[level])
  )
}

const renderQuestion = (
  { diff, subject, text }: Block.QuestionBlock,
  detail: Block.Detail,
  { columns, paint }: Look
): ReadonlyArray<string> => {
  const room = { paint, columns, most: detail === "open" ? openLines : detail === "folded" ? 0 : 40 }
  const difference = diff === undefined ? [] : DiffText.renderLines(diff, room, "Ctrl+O shows the rest")
  return [
    ...difference,
    ...prefixLines(
      `${paint.text("?", "bold", "yellow")} `,
      wrapIndented(SafeText.sanitise(text).trim(), columns - 2, paint)
    ),
    ...(subject === undefined
      ? []
      : wrapIndented(SafeText.sanitise(subject).trimEnd(), Math.max(8, columns - 4), paint, "bold").map(
          (line) => `  ${paint.text("│", "yellow")} ${line}`
        ))
  ]
}

/** Indent of a continued line whose label is too wide, in columns. */
const shortIndent = 4

/**
 * Wraps a painted line to the given width. Continued lines begin below the text of the line, which is behind its label
 * (words that end in two spaces or more) or its indentation. A label that takes more than half of the line is part of
 * the text.
 */
const rewrapLine = (painted: string, columns: number, paint: Paint.Paint): ReadonlyArray<string> => {
  const line = Paint.strip(painted)
  if (Width.measure(line) <= columns) return [painted]
  const [label = ""] = /^(?:\s*\S+(?: \S+)*\s{2,}|\s+)/u.exec(line) ?? []
  const width = Width.measure(label)
  const isWide = width > columns >> 1
  const [head, text] = splitSpans(Paint.parseSpans(painted), isWide ? 0 : label.length)
  const indent = isWide ? shortIndent : width
  const rows = Wrap.wrapLines(text, Math.max(1, columns - indent), paint)
  const first = head.map((span) => paint.span(span.text, span.style)).join("")
  return rows.map((row, index) => (index === 0 ? first : " ".repeat(indent)) + row)
}

/** Divides spans after a number of characters. */
const splitSpans = (
  spans: ReadonlyArray<Paint.Span>,
  length: number
): readonly [head: ReadonlyArray<Paint.Span>, rest: ReadonlyArray<Paint.Span>] => {
  const head: Array<Paint.Span> = []
  const rest: Array<Paint.Span> = []
  let left = length
  for (const { style, text } of spans) {
    if (left > 0) head.push({ style, text: text.slice(0, left) })
    if (text.length > left) rest.push({ style, text: text.slice(Math.max(0, left)) })
    left -= text.length
  }
  return [head, rest]
}

/** Divides a painted line into pieces of the given width, at any character, so that code retains its columns. */
export const divideLine = (painted: string, columns: number, paint: Paint.Paint): ReadonlyArray<string> => {
  if (Width.measure(Paint.strip(painted)) <= columns) return [painted]
  const found: Array<string> = []
  let row = ""
  let room = columns
  for (const { style, text } of Paint.parseSpans(painted)) {
    let rest = text
    while (rest !== "") {
      const [head, tail] = Width.split(rest, room)
      if (head === "" && room === columns) break
      row += paint.span(head, style)
      room -= Width.measure(head)
      rest = tail
      if (rest === "") break
      found.push(row)
      row = ""
      room = columns
    }
  }
  return row === "" ? found : [...found, row]
}

/** Renders the lines of a block. */
export const renderLines = (block: Block.Block, detail: Block.Detail, look: Look): ReadonlyArray<string> => {
  switch (block._tag) {
    case "User":
      return renderUser(block, look)
    case "Text":
      return renderText(block, look)
    case "Reasoning":
      return renderReasoning(block, detail, look)
    case "Tool":
      return renderTool(block, detail, look)
    case "Diff":
      return renderDiff(block, detail, look)
    case "Todo":
      return renderTodo(block, look)
    case "Child":
      return ToolFeed.isChildShown(block.event, detail === "part" ? look.verbosity : "all")
        ? [ToolFeed.renderChild(block.event, look)]
        : []
    case "Notice":
      return renderNotice(block, look)
    case "Usage":
      return wrapIndented(UsageText.formatLine(block.usage, block.cost), look.columns, look.paint, "dim")
    case "Question":
      return renderQuestion(block, detail, look)
    case "Lines": {
      const own = splitLines(block.text)
      // The end of an unfinished line is not yet known.
      const open = block.text.endsWith("\n") ? -1 : own.length - 1
      return own.flatMap((line, index) => (index === open ? [line] : rewrapLine(line, look.columns, look.paint)))
    }
  }
}

/** Kinds of blocks that blank lines separate. */
type Kind = "text" | "reasoning" | "feed" | "own"

const classifyBlock = (block: Block.Block): Kind => {
  switch (block._tag) {
    case "Text":
      return "text"
    case "Reasoning":
      return "reasoning"
    case "User":
      return "own"
    case "Lines":
      return block.place === "own" ? "own" : "feed"
    default:
      return "feed"
  }
}

const endsBlank = (block: Block.Block): boolean =>
  block._tag === "User" || (block._tag === "Lines" && (block.text === "\n" || block.text.endsWith("\n\n")))

/** Returns true if a blank line separates two visible blocks. The program's own lines include their blank lines. */
export const isApart = (before: Block.Block | undefined, block: Block.Block): boolean => {
  if (before === undefined || classifyBlock(block) === "own" || endsBlank(before)) return false
  return classifyBlock(before) !== classifyBlock(block) || classifyBlock(block) === "text"
}

/** Returns true if a blank line separates a block from the live lines of a turn. */
export const isLiveApart = (before: Block.Block | undefined): boolean =>
  before !== undefined && (classifyBlock(before) === "text" || classifyBlock(before) === "reasoning")

/** A cache of block lines. A block is laid out again only if the look or the detail changes. */
export interface Layouts {
  readonly lines: (block: Block.Block, detail: Block.Detail, look: Look) => ReadonlyArray<string>
  /** Returns the number of layouts computed so far. */
  readonly count: () => number
}

interface BlockLayout {
  readonly detail: Block.Detail
  readonly look: Look
  readonly theme: unknown
  readonly lines: ReadonlyArray<string>
}

const isSame = (one: Look, other: Look): boolean =>
  one === other ||
  (one.columns === other.columns &&
    one.paint === other.paint &&
    one.markdown === other.markdown &&
    one.make === other.make &&
    one.verbosity === other.verbosity &&
    one.showReasoning === other.showReasoning &&
    one.previewLength === other.previewLength)

/** Creates a cache of block lines. The lines of a block are computed again only if the block or the view changes. */
export const makeLayouts = (): Layouts => {
  const made = new WeakMap<Block.Block, BlockLayout>()
  let count = 0
  return {
    count: () => count,
    lines: (block, detail, look) => {
      const known = made.get(block)
      const theme = look.paint.theme?.value
      if (known?.detail === detail && known.theme === theme && isSame(known.look, look)) return known.lines
      count++
      const next = renderLines(block, detail, look)
      made.set(block, { detail, look, theme, lines: next })
      return next
    }
  }
}
