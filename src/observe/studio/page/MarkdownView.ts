/**
 * Renders Markdown written by models and users as elements. The text is untrusted: it is parsed into tokens, and only
 * known tokens become elements. HTML is shown as text, images are shown by name and never loaded, and only web and mail
 * links are followed.
 */
import { lexer, type MarkedToken, type Token, type Tokens } from "marked"
import { renderFoldedText } from "../../trace/page/DetailText.ts"
import { el, make } from "../../trace/page/Elements.ts"

/**
 * Maximum length of text that is parsed as Markdown, in characters. For some input, the parsing time is quadratic in
 * its length.
 */
const longest = 40_000

/** Long sequences of blanks, for which parsing is slowest. */
const blanks = /[ \t]{500}/u

/** Maximum depth of nested tokens that are rendered as elements. */
const deepest = 40

const schemes: ReadonlySet<string> = new Set(["http:", "https:", "mailto:"])

const entities: Readonly<Record<string, string>> = {
  "&amp;": "&",
  "&lt;": "<",
  "&gt;": ">",
  "&quot;": '"',
  "&#39;": "'"
}

/** Returns the text of a token with its HTML escapes decoded. */
const plain = (text: string): string =>
  text.replace(/&(?:amp|lt|gt|quot|#39);/gu, (entity) => entities[entity] ?? entity)

/** Returns the address of a link, or `undefined` if it is not safe to follow. */
const safeAddress = (address: string): string | undefined => {
  try {
    const url = new URL(plain(address))
    return schemes.has(url.protocol) ? url.href : undefined
  } catch {
    return undefined
  }
}

const linkTo = (address: string, ...inside: ReadonlyArray<Node | string>): HTMLElement => {
  const safe = safeAddress(address)
  return safe === undefined
    ? make("span", { class: "unsafe", title: address.slice(0, 300) }, ...inside)
    : make(
        "a",
        {
          href: safe,
          title: safe.slice(0, 300),
          rel: "noopener noreferrer nofollow",
          target: "_blank",
          referrerpolicy: "no-referrer"
        },
        ...inside
      )
}

const headings = ["h3", "h4", "h5", "h6"] as const

const inside = (tokens: ReadonlyArray<Token> | undefined, depth: number): ReadonlyArray<Node | string> =>
  (tokens ?? []).flatMap((token) => renderToken(token, depth + 1))

const renderCell = (tag: "th" | "td", { align, tokens }: Tokens.TableCell, depth: number): HTMLElement =>
  make(
    tag,
    { dir: "auto", ...(align === null ? {} : { class: align === "right" ? "r" : align === "center" ? "c" : "" }) },
    ...inside(tokens, depth)
  )

const renderTable = ({ header, rows }: Tokens.Table, depth: number): HTMLElement =>
  make(
    "div",
    { class: "wide" },
    make(
      "table",
      {},
      make("thead", {}, make("tr", {}, ...header.map((cell) => renderCell("th", cell, depth)))),
      make("tbody", {}, ...rows.map((row) => make("tr", {}, ...row.map((cell) => renderCell("td", cell, depth)))))
    )
  )

const renderList = ({ items, ordered, start }: Tokens.List, depth: number): HTMLElement => {
  const list = make(ordered ? "ol" : "ul", {
    dir: "auto",
    ...(ordered && typeof start === "number" && start !== 1 ? { start: String(start) } : {})
  })
  for (const item of items) {
    list.append(make("li", item.task ? { class: "task" } : {}, ...inside(item.tokens, depth)))
  }
  return list
}

const renderCode = ({ lang, text }: Tokens.Code): HTMLElement => {
  const language = (lang ?? "").split(/\s/u)[0] ?? ""
  const isDiff = language === "diff" || language === "patch"
  const pre = isDiff ? diffLines(text) : make("pre", { tabindex: "0" }, el("code", "", text))
  return language === "" ? pre : make("div", { class: "code" }, el("span", "lang", plain(language)), pre)
}

const renderToken = (token: Token, depth: number): ReadonlyArray<Node | string> => {
  if (depth > deepest) return [token.raw]
  // Without extensions, marked produces only these tokens.
  const one = token as MarkedToken
  switch (one.type) {
    case "heading":
      return [
        make(headings[Math.min(one.depth, headings.length) - 1] ?? "h6", { dir: "auto" }, ...inside(one.tokens, depth))
      ]
    case "paragraph":
      return [make("p", { dir: "auto" }, ...inside(one.tokens, depth))]
    case "text":
      return "tokens" in one && one.tokens !== undefined ? inside(one.tokens, depth) : [plain(one.text)]
    case "escape":
      return [plain(one.text)]
    case "strong":
    case "em":
    case "del":
      return [make(one.type, {}, ...inside(one.tokens, depth))]
    case "codespan":
      return [el("code", "", one.text)]
    case "checkbox":
      return [one.checked ? "☑ " : "☐ "]
    case "br":
      return [el("br")]
    case "hr":
      return [el("hr")]
    case "code":
      return [renderCode(one)]
    case "blockquote":
      return [make("blockquote", { dir: "auto" }, ...inside(one.tokens, depth))]
    case "list":
      return [renderList(one, depth)]
    case "table":
      return [renderTable(one, depth)]
    case "link":
      return [linkTo(one.href, ...inside(one.tokens, depth))]
    case "image":
      return [linkTo(one.href, `[image: ${plain(one.text) || one.href.slice(0, 80)}]`)]
    case "space":
    case "def":
      return []
    default:
      // HTML and all other tokens are shown as text.
      return [one.raw]
  }
}

/**
 * Parses Markdown. Returns `undefined` if the text is too long, or nested so deeply that the parser's stack overflows.
 */
const parseTokens = (text: string): ReadonlyArray<Token> | undefined => {
  if (text.length > longest || blanks.test(text)) return undefined
  try {
    return lexer(text, { gfm: true, breaks: true })
  } catch (error) {
    if (error instanceof RangeError) return undefined
    throw error
  }
}

/** Renders Markdown. Text that cannot be parsed is shown unchanged. */
export const markdown = (text: string): HTMLElement => {
  const tokens = parseTokens(text)
  return make(
    "div",
    { class: "md" },
    ...(tokens === undefined ? [renderFoldedText(text)] : tokens.flatMap((token) => renderToken(token, 0)))
  )
}

/** Renders a unified diff with coloured lines. */
export const diffLines = (text: string): HTMLElement => {
  const pre = make("pre", { class: "lines", tabindex: "0" })
  for (const line of text.replace(/\n$/u, "").split("\n")) {
    pre.append(
      el(
        "span",
        line.startsWith("+") ? "plus" : line.startsWith("-") ? "minus" : line.startsWith("@@") ? "hunk" : "",
        `${line}\n`
      )
    )
  }
  return pre
}
