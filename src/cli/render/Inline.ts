/**
 * The Markdown inside of a line: emphasis, code, links. Takes the line in pieces and gives styled text as soon as no later
 * character can change it.
 *
 * **Details**
 *
 * A delimiter that could begin something is held until its end comes, the line ends, or {@link reach} characters went by;
 * then it is text. What comes out does not depend on the pieces in which the line comes in. Anything that is no Markdown
 * comes out as it is; a backslash hides only from `*`, `_`, `` ` ``, `~` and `#`, so that paths, patterns and formulas keep
 * theirs.
 *
 * **Gotchas**
 *
 * A line knows nothing of the next: emphasis ends with it. Link texts do not hold brackets; references, footnotes and HTML
 * are text.
 *
 * @since 0.1.0
 */
import * as Delimiters from "./Delimiters.ts"
import * as Link from "./Link.ts"
import { type Attribute, type Paint, plainStyle, type Span, type Style } from "./Paint.ts"

/** Characters after which a delimiter that nothing ended is text. */
export const reach = 2000

/** Marks of a line. Each call gives what is certain now. */
export interface Inline {
  readonly push: (text: string) => ReadonlyArray<Span>
  readonly end: () => ReadonlyArray<Span>
}

interface Text {
  readonly _tag: "Text"
  text: string
}
interface Spans {
  readonly _tag: "Spans"
  readonly spans: ReadonlyArray<Span>
}
interface Delimiter {
  readonly _tag: "Delimiter"
  readonly run: Delimiters.Run
  left: number
  readonly opened: Array<Attribute>
  readonly closed: Array<Attribute>
}
type Item = Text | Spans | Delimiter

const attributeOf = (char: string, used: number): Attribute =>
  char === "~" ? "strike" : used === 2 ? "bold" : "italic"

const code: Style = { attributes: ["cyan"] }

const special = /[\\`*_~[!<]/g

/** Whether the scanner could go past a place in the line; if not, it needs more of the line. */
type Scanned = number | undefined

const withAttributes = (style: Style, added: ReadonlyArray<Attribute>): Style =>
  added.length === 0 ? style : { ...style, attributes: [...new Set([...added, ...style.attributes])] }

/** The text that items stand for. Every opener among them is closed among them or is text. */
const emit = (items: ReadonlyArray<Item>): ReadonlyArray<Span> => {
  const spans: Array<Span> = []
  let open: ReadonlyArray<Attribute> = []
  let style = plainStyle
  const restyle = (next: ReadonlyArray<Attribute>): void => {
    open = next
    style = withAttributes(plainStyle, next)
  }
  for (const item of items) {
    switch (item._tag) {
      case "Text":
        spans.push({ text: item.text, style })
        break
      case "Spans":
        for (const span of item.spans) spans.push({ ...span, style: withAttributes(span.style, open) })
        break
      case "Delimiter": {
        if (item.closed.length > 0) restyle(open.slice(0, open.length - item.closed.length))
        if (item.left > 0) spans.push({ text: item.run.char.repeat(item.left), style })
        if (item.opened.length > 0) restyle([...open, ...item.opened])
        break
      }
    }
  }
  return spans
}

/** See the module. */
export const make = (paint: Paint): Inline => {
  let line = ""
  let at = 0
  let whole = false
  let items: Array<Item> = []
  let openers: Array<Delimiter> = []

  const text = (value: string): void => {
    const last = items.at(-1)
    if (last?._tag === "Text") last.text += value
    else items.push({ _tag: "Text", text: value })
  }

  /** Whether what began at `from` may still end. */
  const mayGoOn = (from: number): boolean => !whole && line.length - from <= reach

  const literal = (to: number): Scanned => {
    text(line.slice(at, to))
    return to
  }

  const backslash = (): Scanned => {
    const next = line.charAt(at + 1)
    if (next === "" && !whole) return undefined
    if (!/[*_`~#]/.test(next)) return literal(at + 1)
    text(next)
    return at + 2
  }

  const codeSpan = (): Scanned => {
    const fence = /`+/y
    fence.lastIndex = at
    const marks = fence.exec(line)?.[0] ?? ""
    const from = at + marks.length
    if (from === line.length && !whole) return undefined
    for (let end = line.indexOf(marks, from); end >= 0 && end + marks.length <= from + reach;) {
      let to = end + marks.length
      if (to === line.length && !whole) return undefined
      while (line.charAt(to) === "`") to++
      if (to - end === marks.length) {
        const inner = line.slice(from, end)
        const trimmed = inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && /[^ ]/.test(inner) ? inner.slice(1, -1) : inner
        items.push({ _tag: "Spans", spans: [{ text: trimmed, style: code }] })
        return to
      }
      end = line.indexOf(marks, to)
    }
    return mayGoOn(from) ? undefined : literal(from)
  }

  const link = (): Scanned => {
    const found = Link.at(line.slice(at, at + reach), whole || line.length - at >= reach)
    if (found === "unknown") return undefined
    if (found === "none") return literal(at + 1)
    const label = found.code ? [{ text: found.label, style: plainStyle }] : render(found.label, paint)
    items.push({ _tag: "Spans", spans: Link.spans(found, label, paint) })
    return at + found.length
  }

  const match = (closer: Delimiter): void => {
    while (closer.left > 0) {
      const index = openers.findLastIndex(({ run }) =>
        run.char === closer.run.char && closer.run.from - run.to <= reach)
      const opener = openers[index]
      if (opener === undefined) return
      const used = opener.left >= 2 && closer.left >= 2 ? 2 : 1
      if (closer.run.char === "~" && used !== 2) return
      if (!Delimiters.encloses(closer.run.char, used, line.slice(opener.run.to, closer.run.from))) return
      const attribute = attributeOf(closer.run.char, used)
      opener.left -= used
      closer.left -= used
      opener.opened.unshift(attribute)
      closer.closed.push(attribute)
      openers = openers.slice(0, opener.left > 0 ? index + 1 : index)
    }
  }

  const delimiter = (): Scanned => {
    const run = Delimiters.runAt(line, at)
    if (run.to === line.length && !whole) return undefined
    if (run.char === "~" && !paint.color) return literal(run.to)
    const item: Delimiter = { _tag: "Delimiter", run, left: run.to - run.from, opened: [], closed: [] }
    items.push(item)
    if (run.canClose) match(item)
    if (run.canOpen && item.left > 0) openers.push(item)
    return run.to
  }

  const next = (): Scanned => {
    switch (line.charAt(at)) {
      case "\\":
        return backslash()
      case "`":
        return codeSpan()
      case "[":
      case "!":
      case "<":
        return link()
      default:
        return delimiter()
    }
  }

  const scan = (): ReadonlyArray<Span> => {
    while (at < line.length) {
      special.lastIndex = at
      const found = special.exec(line)
      const to = found === null ? line.length : found.index
      if (to > at) text(line.slice(at, to))
      at = to
      if (at === line.length) break
      const scanned = next()
      if (scanned === undefined) break
      at = scanned
    }
    openers = whole ? [] : openers.filter(({ run }) => at - run.to <= reach)
    const held = openers[0]
    const ready = held === undefined ? items : items.slice(0, items.indexOf(held))
    items = held === undefined ? [] : items.slice(ready.length)
    return emit(ready)
  }

  return {
    push: (piece) => {
      line += piece
      return scan()
    },
    end: () => {
      whole = true
      return scan()
    }
  }
}

/** The styled text of a line that is there as a whole. */
export const render = (line: string, paint: Paint): ReadonlyArray<Span> => {
  const inline = make(paint)
  return [...inline.push(line), ...inline.end()]
}
