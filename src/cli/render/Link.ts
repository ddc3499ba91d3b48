/**
 * Links in a line of Markdown: `[text](address)`, `![text](address)` and `<address>`.
 *
 * @since 0.1.0
 */
import { isSafeLink, type Paint, plainStyle, type Span } from "./Paint.ts"

/** A link that was found. */
export interface Link {
  readonly label: string
  readonly url: string
  /** Characters of the line that it takes. */
  readonly length: number
  /** Whether the label is text as it is. */
  readonly code: boolean
}

/** Whether there is a link, as far as the line is known. */
export type Found = Link | "none" | "unknown"

const inline =
  /^!?\[([^[\]]*)\]\(\s*(<[^<>]*>|[^\s()<>]*(?:\([^\s()<>]*\)[^\s()<>]*)*)(?:\s+(?:"[^"]*"|'[^']*'))?\s*\)/
/** The beginnings of {@link inline} that can still become one. */
const inlineBegun = /^!?(?:$|\[[^[\]]*(?:$|\](?:$|\([^\n]*$)))/

const automatic = /^<((?:https?:\/\/|mailto:)[^\s<>]*)>/
const automaticBegun = /^<(?:[a-z]{0,6}|https?:\/?|(?:https?:\/\/|mailto:)[^\s<>]*)$/

/** The link that a line begins with. When `whole`, the line has no more to say. */
export const at = (line: string, whole: boolean): Found => {
  const angle = line.startsWith("<")
  const found = (angle ? automatic : inline).exec(line)
  if (found === null) return !whole && (angle ? automaticBegun : inlineBegun).test(line) ? "unknown" : "none"
  const [all, label = "", address = ""] = found
  return { label, url: angle ? label : address.replace(/^<(.*)>$/, "$1"), length: all.length, code: angle }
}

const bare = (url: string): string => url.replace(/^(?:https?:\/\/|mailto:)/i, "").replace(/\/$/, "")

/**
 * The text of a link. Its address is behind the text where the terminal knows links and the text does not look like another
 * address; otherwise it follows the text, unless they are the same.
 */
export const spans = ({ label, url }: Link, text: ReadonlyArray<Span>, paint: Paint): ReadonlyArray<Span> => {
  const shown = text.map((span) => span.text).join("")
  const same = bare(shown) === bare(url)
  const linked = paint.hyperlinks && isSafeLink(url) && (same || !/^\S+\.\S+$/.test(shown))
  const styled = text.map((span): Span => ({
    text: span.text,
    style: { attributes: [...span.style.attributes, "underline"], ...(linked ? { link: url } : {}) }
  }))
  return linked || same || url === "" || label === ""
    ? styled.length === 0 ? [{ text: url, style: { attributes: ["underline"] } }] : styled
    : [...styled, { text: ` (${url})`, style: plainStyle }]
}
