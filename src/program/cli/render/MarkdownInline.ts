/**
 * Markdown inside of a line as styled text: emphasis, code, links.
 *
 * The rules of emphasis follow CommonMark, but are stricter to preserve text that is not Markdown: between ASCII
 * letters and digits a run of marks is text (`2*3*4`, `x**2 + y**2`), a run next to a path separator or a dot needs
 * white space on its other side (`src/**\/*.ts`), and two underscores around one word are part of a name (`__init__`).
 * The rules are less strict next to characters of scripts written without spaces. A backslash escapes only `*`, `_`, ``
 * ` ``, `~` and `#`, so that paths, patterns and formulas keep their backslashes. An opening mark without a closing
 * mark within {@link reach} characters is text. Emphasis ends with its line; link text cannot contain brackets;
 * references, footnotes and HTML are text.
 */
import { type Attribute, isSafeLink, type Paint, plainStyle, type Span, type Style } from "./Paint.ts"

/** Number of characters after which an unclosed delimiter is text. */
const reach = 2000

// Links: `[text](address)`, `![text](address)` and `<address>`.

interface Link {
  readonly label: ReadonlyArray<Span>
  readonly url: string
}

const inlineLink =
  /^!?\[([^[\]]*)\]\(\s*(<[^<>]*>|[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/
const addressLink = /^<((?:https?:\/\/|mailto:)[^\s<>]*)>/

const stripScheme = (url: string): string => url.replace(/^(?:https?:\/\/|mailto:)/i, "").replace(/\/$/, "")

/**
 * Returns the styled text of a link. The text links to the address if the terminal supports links and the text does not
 * look like another address. Otherwise the address follows the text, unless both are equal.
 */
const makeLinkSpans = ({ label, url }: Link, paint: Paint): ReadonlyArray<Span> => {
  const shown = label.map(({ text }) => text).join("")
  const same = stripScheme(shown) === stripScheme(url)
  const linked = paint.hyperlinks && isSafeLink(url) && (same || !/^\S+\.\S+$/.test(shown))
  const styled = label.map((span): Span => ({
    text: span.text,
    style: { attributes: [...span.style.attributes, "underline"], ...(linked ? { link: url } : {}) }
  }))
  return linked || same || url === "" || shown === ""
    ? styled.length === 0
      ? [{ text: url, style: { attributes: ["underline"] } }]
      : styled
    : [...styled, { text: ` (${url})`, style: plainStyle }]
}

// Runs of `*`, `_` and `~`.

interface Run {
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

/**
 * Tests the character on one side of a run that has punctuation on its other side. Returns true if the run can be a
 * delimiter.
 */
const isSeparator = (char: string): boolean =>
  isSpace(char) || (isPunctuation(char) ? !/[/\\.=:@&%$]/.test(char) : char > "\u007f")

/** Returns true for a separator or for punctuation that may follow emphasis, such as a comma or a full stop. */
const isEndSeparator = (char: string): boolean => isSeparator(char) || /[.:=]/.test(char)

const isFlanking = (outer: string, inner: string, separated: (char: string) => boolean): boolean =>
  !isSpace(inner) && (!isPunctuation(inner) || separated(outer))

const readRun = (line: string, from: number): Run => {
  const char = line.charAt(from)
  let to = from + 1
  while (line.charAt(to) === char) to++
  const count = to - from
  const before = from === 0 ? "" : line.charAt(from - 1)
  const after = line.charAt(to)
  const opens = isFlanking(before, after, isSeparator)
  const closes = isFlanking(after, before, isEndSeparator)
  const none = { char, from, to, canOpen: false, canClose: false }
  if (count > 3 || (char === "~" && count !== 2)) return none
  if (isAsciiWord(before) && isAsciiWord(after)) return none
  return char === "_"
    ? { ...none, canOpen: opens && !isWord(before), canClose: closes && !isWord(after) }
    : { ...none, canOpen: opens, canClose: closes }
}

const canEnclose = (char: string, used: number, inner: string): boolean =>
  inner !== "" && !(char === "_" && used === 2 && /^\w+$/.test(inner))

interface Delimiter {
  readonly _tag: "Delimiter"
  readonly run: Run
  left: number
  readonly opened: Array<Attribute>
  readonly closed: Array<Attribute>
}
type Item = { readonly _tag: "Spans"; readonly spans: ReadonlyArray<Span> } | Delimiter

const chooseAttribute = (char: string, used: number): Attribute =>
  char === "~" ? "strike" : used === 2 ? "bold" : "italic"

const code: Style = { attributes: ["cyan"] }

const special = /[\\`*_~[!<]/g

const withAttributes = (style: Style, added: ReadonlyArray<Attribute>): Style =>
  added.length === 0 ? style : { ...style, attributes: [...new Set([...added, ...style.attributes])] }

/** Converts items to styled text. Adjacent items without marks share one style. */
const toSpans = (items: ReadonlyArray<Item>): ReadonlyArray<Span> => {
  const spans: Array<Span> = []
  let open: ReadonlyArray<Attribute> = []
  let style = plainStyle
  const setStyle = (next: ReadonlyArray<Attribute>): void => {
    open = next
    style = withAttributes(plainStyle, next)
  }
  for (const item of items) {
    if (item._tag === "Spans") {
      for (const span of item.spans)
        spans.push({ text: span.text, style: span.style === plainStyle ? style : withAttributes(span.style, open) })
      continue
    }
    if (item.closed.length > 0) setStyle(open.slice(0, open.length - item.closed.length))
    if (item.left > 0) spans.push({ text: item.run.char.repeat(item.left), style })
    if (item.opened.length > 0) setStyle([...open, ...item.opened])
  }
  return spans
}

/** Renders a line as styled text. */
export const render = (line: string, paint: Paint): ReadonlyArray<Span> => {
  const items: Array<Item> = []
  let openers: Array<Delimiter> = []
  let at = 0

  const addText = (to: number): number => {
    items.push({ _tag: "Spans", spans: [{ text: line.slice(at, to), style: plainStyle }] })
    return to
  }

  const readBackslash = (): number => {
    if (!/[*_`~#]/.test(line.charAt(at + 1))) return addText(at + 1)
    at++
    return addText(at + 1)
  }

  const readCodeSpan = (): number => {
    const fence = /`+/y
    fence.lastIndex = at
    const marks = fence.exec(line)?.[0] ?? ""
    const from = at + marks.length
    const within = line.slice(from, from + reach)
    for (const found of within.matchAll(/`+/g)) {
      if (found[0].length !== marks.length || line.charAt(from + found.index + marks.length) === "`") continue
      const inner = within.slice(0, found.index)
      const trimmed =
        inner.length > 2 && inner.startsWith(" ") && inner.endsWith(" ") && /[^ ]/.test(inner)
          ? inner.slice(1, -1)
          : inner
      items.push({ _tag: "Spans", spans: [{ text: trimmed, style: code }] })
      return from + found.index + marks.length
    }
    return addText(from)
  }

  const readLink = (): number => {
    const rest = line.slice(at, at + reach)
    const address = addressLink.exec(rest)
    const found = address ?? inlineLink.exec(rest)
    if (found === null) return addText(at + 1)
    const [all, label = "", url = ""] = found
    const spans =
      address === null
        ? makeLinkSpans({ label: render(label, paint), url: url.replace(/^<(.*)>$/, "$1") }, paint)
        : makeLinkSpans({ label: [{ text: label, style: plainStyle }], url: label }, paint)
    items.push({ _tag: "Spans", spans })
    return at + all.length
  }

  const matchDelimiters = (closer: Delimiter): void => {
    while (closer.left > 0) {
      const index = openers.findLastIndex(({ run }) => run.char === closer.run.char)
      const opener = openers[index]
      if (opener === undefined) return
      const used = opener.left >= 2 && closer.left >= 2 ? 2 : 1
      if (closer.run.char === "~" && used !== 2) return
      if (!canEnclose(closer.run.char, used, line.slice(opener.run.to, closer.run.from))) return
      const attribute = chooseAttribute(closer.run.char, used)
      opener.left -= used
      closer.left -= used
      opener.opened.unshift(attribute)
      closer.closed.push(attribute)
      openers = openers.slice(0, opener.left > 0 ? index + 1 : index)
    }
  }

  const readDelimiter = (): number => {
    const run = readRun(line, at)
    if (run.char === "~" && !paint.color) return addText(run.to)
    const item: Delimiter = { _tag: "Delimiter", run, left: run.to - run.from, opened: [], closed: [] }
    items.push(item)
    const far = openers[0]
    if (far !== undefined && run.from - far.run.to > reach)
      openers = openers.filter((opener) => run.from - opener.run.to <= reach)
    if (run.canClose) matchDelimiters(item)
    if (run.canOpen && item.left > 0) openers.push(item)
    return run.to
  }

  const readNext = (): number => {
    switch (line.charAt(at)) {
      case "\\":
        return readBackslash()
      case "`":
        return readCodeSpan()
      case "[":
      case "!":
      case "<":
        return readLink()
      default:
        return readDelimiter()
    }
  }

  while (at < line.length) {
    special.lastIndex = at
    const to = special.exec(line)?.index ?? line.length
    if (to > at) at = addText(to)
    if (at < line.length) at = readNext()
  }
  return toSpans(items)
}
