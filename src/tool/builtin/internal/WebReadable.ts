/**
 * The text of a page: what Readability finds to be its article, with headings, lists, links and code kept as Markdown. The
 * only place that knows Readability and linkedom; both are loaded with the first page.
 *
 * **Gotchas**
 *
 * A page can be made so that parsing it takes minutes. It gets {@link maxMillis}, and is then stripped of its tags instead.
 */

import { within } from "../../../platform/TimeLimit.ts"

/** Time that a page may take. */
export const maxMillis = 2000

/** Members of a DOM node that are used. linkedom's own types want those of a browser. */
interface Node {
  readonly nodeType: number
  readonly nodeName: string
  readonly textContent: string | null
  readonly childNodes: Iterable<Node>
  readonly getAttribute?: (name: string) => string | null
}

interface Article {
  readonly title?: string | null | undefined
  readonly content?: Node | null | undefined
}

/** Title and text of a page. */
export interface Page {
  readonly title: string
  readonly content: string
}

const isText = 3
const isElement = 1
const maxDepth = 200

const skipped = new Set(["SCRIPT", "STYLE", "NOSCRIPT", "TEMPLATE", "SVG", "IFRAME", "HEAD"])
const blocks = new Set(["P", "DIV", "SECTION", "ARTICLE", "MAIN", "HEADER", "FOOTER", "UL", "OL", "TABLE", "TR", "BLOCKQUOTE", "FIGURE", "DL", "DT", "DD"])

const inside = (node: Node, base: string, depth: number): string =>
  depth > maxDepth ? node.textContent ?? "" : Array.from(node.childNodes, (child) => markdown(child, base, depth + 1)).join("")

const link = (node: Node, base: string, text: string): string => {
  const href = node.getAttribute?.("href") ?? ""
  if (text.trim() === "" || href === "" || href.startsWith("#") || !URL.canParse(href, base)) return text
  const { href: target, protocol } = new URL(href, base)
  return protocol === "http:" || protocol === "https:" ? `[${text.trim()}](${target})` : text
}

const markdown = (node: Node, base: string, depth: number): string => {
  if (node.nodeType === isText) return (node.textContent ?? "").replaceAll(/\s+/g, " ")
  if (node.nodeType !== isElement) return ""
  const name = node.nodeName.toUpperCase()
  if (skipped.has(name)) return ""
  if (name === "PRE") return `\n\n\`\`\`\n${(node.textContent ?? "").trimEnd()}\n\`\`\`\n\n`
  const text = inside(node, base, depth)
  const heading = /^H([1-6])$/.exec(name)?.[1]
  if (heading !== undefined) return `\n\n${"#".repeat(Number(heading))} ${text.trim()}\n\n`
  switch (name) {
    case "BR":
      return "\n"
    case "LI":
      return `\n- ${text.trim()}`
    case "TD":
    case "TH":
      return `${text.trim()} | `
    case "CODE":
      return `\`${text}\``
    case "A":
      return link(node, base, text)
    default:
      return blocks.has(name) ? `\n\n${text}\n\n` : text
  }
}

const tidyProse = (text: string): string =>
  text.replaceAll(/(?<![ \t])[ \t]+\n/g, "\n").replaceAll(/\n[ \t]+(?=\S)/g, "\n").replaceAll(/\n{3,}/g, "\n\n")

/** Without needless blanks, except in code. */
const tidy = (text: string): string =>
  text.split(/(\n```\n[^]*?\n```\n)/).map((part, index) => index % 2 === 0 ? tidyProse(part) : part).join("").trim()

const codeTag = /<(\/?)(script|style|noscript)\b/gi

/** Takes scripts and styles out of HTML in one pass; one that is not closed reaches to the end. */
const withoutCode = (html: string): string => {
  let out = ""
  let from = 0
  let open: string | undefined
  for (const { 0: found, 1: slash, 2: name = "", index } of html.matchAll(codeTag)) {
    const tag = name.toLowerCase()
    if (open === undefined && slash === "") {
      out += html.slice(from, index)
      open = tag
    } else if (open === tag && slash !== "") {
      open = undefined
      from = index + found.length
      if (/\s{0,64}>/y.test(html.slice(from, from + 66))) from = html.indexOf(">", from) + 1
    }
  }
  return open === undefined ? out + html.slice(from) : out
}

/** A page that no parser can stand, without its tags. */
const stripped = (html: string): string =>
  tidy(withoutCode(html).replaceAll(/<[^<>]*>/g, " "))

type Parse = (html: string) => { readonly document: unknown }

/** The article of a page, and everything that it says where no article is found. */
const read = (html: string, url: string, parse: Parse, articleOf: (document: unknown) => Article | null): Page => {
  // Types of a browser's DOM, which this program does not have; these members are all that is used.
  const document = parse(html).document as { querySelector: (selector: string) => Node | null }
  const title = document.querySelector("title")?.textContent?.trim() ?? ""
  const article = articleOf(document)
  const found = article?.content ?? undefined
  const content = found === undefined ? "" : tidy(markdown(found, url, 0))
  if (content !== "") return { title: article?.title || title, content }
  // Finding the article has changed its document.
  const whole = parse(html).document as { readonly documentElement: Node }
  return { title, content: tidy(markdown(whole.documentElement, url, 0)) }
}

/** The text of a page. */
export const extract = async (html: string, url: string): Promise<Page> => {
  const [{ Readability }, { parseHTML }] = await Promise.all([import("@mozilla/readability"), import("linkedom")])
  type Document = ConstructorParameters<typeof Readability>[0]
  const articleOf = (document: unknown): Article | null =>
    new Readability(document as Document, { serializer: (node: unknown) => node, charThreshold: 200 }).parse() as Article | null
  try {
    const page = within(maxMillis, () => read(html, url, parseHTML as Parse, articleOf))
    if (page !== undefined) return page
  } catch {
    // Nested too deeply, or not HTML at all.
  }
  return { title: "", content: stripped(html) }
}
