/**
 * Renders a stored conversation as a Markdown document, or as an HTML page without scripts and network requests.
 *
 * Secrets are removed from all text. All other characters are preserved, also those that a terminal may not receive:
 * `ProgramOutput.printDocument` shows a document there.
 *
 * Source: `hermes-product.md` §1.7 (`export --format md|html`).
 */
import type * as Prompt from "effect/ai/Prompt"
import * as Base64 from "effect/encoding/Base64"
import * as Json from "../../../base/domain/Json.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import * as ToolView from "../../../base/domain/ToolView.ts"
import type * as ViewContent from "../../../base/domain/ViewContent.ts"
import * as Usage from "../../../base/domain/Usage.ts"
import type { Session } from "../../../store/SessionStore.ts"
import * as SafeText from "./SafeText.ts"

/** A session and its messages. */
export interface Conversation {
  readonly session: Session
  readonly messages: ReadonlyArray<Prompt.Message>
}

interface Block {
  readonly kind: "text" | "reasoning" | "call" | "result" | "picture"
  /** Name of the tool; empty for text. */
  readonly name: string
  readonly text: string
  /** The part of a result that is shown without opening it. */
  readonly view?: ToolView.ToolView
  /** Data URL of a picture. */
  readonly url?: string | undefined
}

interface Section {
  readonly speaker: string
  readonly blocks: ReadonlyArray<Block>
}

const speakers: Readonly<Record<Prompt.Message["role"], string>> = {
  system: "System",
  user: "You",
  assistant: "Agent",
  tool: "Tool"
}

const formatReadable = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2))

/** Redacts text. Only text in which control sequences separate the characters of a secret loses its sequences. */
const cleanText = (text: string): string => {
  const whole = Redaction.redactText(text)
  const safe = Redaction.redactText(SafeText.toPlainText(text))
  return SafeText.toPlainText(whole) === safe ? whole : safe
}

/** Reduces text to one line. */
const toLine = (text: string): string => text.replace(/\s+/gu, " ").trim()

const isImage = ({ mediaType }: Prompt.FilePart): boolean => mediaType.startsWith("image/")

const listPictures = ({ modelOutput = [] }: Prompt.ToolResultPart): ReadonlyArray<Prompt.FilePart> =>
  modelOutput.flatMap((part) => (part.type === "file" && isImage(part) ? [part] : []))

/** Returns the view of a result without secrets. */
const presentPart = (part: Prompt.ToolResultPart): ToolView.ToolView => {
  const images = listPictures(part).map(({ fileName, mediaType }) => ({ mediaType, name: fileName }))
  const { result } = part
  const output = typeof result === "string" ? cleanText(result) : Json.toText(Redaction.redactValue(result))
  const view = ToolView.presentResult(part.name, part.isFailure ? "error" : "ok", output, images)
  return view.lines.length === 0 ? view : { ...view, lines: cleanText(view.lines.join("\n")).split("\n") }
}

/** Formats the title of a result: the tool, and the outcome if it is not a plain success. */
const formatResultTitle = (name: string, { note, outcome }: ToolView.ToolView): string => {
  const said = [...(outcome === "done" ? [] : [outcome]), ...(note === "" ? [] : [toLine(note)])]
  return said.length === 0 ? name : `${name} (${said.join(", ")})`
}

/** Types of pictures that a page shows. They cannot contain scripts. */
const pictureTypes: ReadonlySet<string> = new Set(["image/png", "image/jpeg", "image/gif", "image/webp", "image/avif"])

/** Maximum size of a picture in a page, in characters of its base64 text. */
const mostPicture = 4_000_000

/** Returns the data URL of a picture; `undefined` if it is on another host, is too large, or is not a picture. */
const toPictureUrl = ({ data, mediaType }: Prompt.FilePart): string | undefined => {
  if (!pictureTypes.has(mediaType) || data instanceof URL) return undefined
  const base64 = typeof data === "string" ? data.replace(/^data:[^,]*;base64,/u, "") : Base64.encode(data)
  return base64.length <= mostPicture && /^[A-Za-z0-9+/\s]*=*\s*$/u.test(base64)
    ? `data:${mediaType};base64,${base64.replace(/\s/gu, "")}`
    : undefined
}

const toFileBlock = (part: Prompt.FilePart): Block => {
  const text = cleanText(`[${part.mediaType}${part.fileName === undefined ? "" : ` ${part.fileName}`}]`)
  const url = toPictureUrl(part)
  return url === undefined ? { kind: "text", name: "", text } : { kind: "picture", name: "", text, url }
}

const toBlocks = (part: Prompt.Part): ReadonlyArray<Block> => {
  switch (part.type) {
    case "text":
    case "reasoning":
      return part.text.trim() === "" ? [] : [{ kind: part.type, name: "", text: cleanText(part.text) }]
    case "file":
      return [toFileBlock(part)]
    case "tool-call":
      return [{ kind: "call", name: cleanText(part.name), text: cleanText(formatReadable(part.params)) }]
    case "tool-result": {
      const view = presentPart(part)
      const text = cleanText(formatReadable(part.result))
      return [
        { kind: "result", name: cleanText(formatResultTitle(part.name, view)), text, view },
        ...listPictures(part).map(toFileBlock)
      ]
    }
    default:
      return []
  }
}

const toSections = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<Section> =>
  messages.flatMap(({ content, role }) => {
    const blocks =
      typeof content === "string"
        ? [{ kind: "text", name: "", text: cleanText(content) } as const]
        : content.flatMap(toBlocks)
    return blocks.length === 0 ? [] : [{ speaker: speakers[role], blocks }]
  })

const formatTitle = ({ id, title }: Session): string => cleanText(toLine(title ?? `Session ${id}`))

const listFacts = (session: Session): ReadonlyArray<readonly [string, string]> =>
  [
    ["Session", session.id],
    ["Started", new Date(session.startedAt).toISOString()],
    ["Model", `${session.model} (${session.provider})`],
    ["Source", session.source],
    ["Directory", session.cwd ?? "unknown"],
    ...(session.branch === undefined ? [] : [["Branch", session.branch]]),
    ["Ended", session.endReason ?? "not ended"],
    ["Tokens", `${Usage.countTotalTokens(session.usage)}`]
  ].map(([name = "", value = ""]) => [name, cleanText(toLine(value))] as const)

const fenceText = (text: string): string => {
  const longest = Math.max(2, ...Array.from(text.matchAll(/`+/gu), ([run]) => run.length))
  const fence = "`".repeat(longest + 1)
  return `${fence}\n${text.replace(/\n$/u, "")}\n${fence}`
}

const renderMarkdownBlock = ({ kind, name, text }: Block): string => {
  if (kind === "text" || kind === "picture") return text
  return kind === "reasoning"
    ? `_Reasoning_\n\n${fenceText(text)}`
    : `_${kind === "call" ? "Call" : "Result"}: ${name}_\n\n${fenceText(text)}`
}

/** Renders the conversations as one Markdown document. */
export const renderMarkdown = (all: ReadonlyArray<Conversation>): string =>
  all
    .map(
      ({ messages, session }) =>
        [
          `# ${formatTitle(session)}`,
          listFacts(session)
            .map(([name, value]) => `- ${name}: ${value}`)
            .join("\n"),
          ...toSections(messages).flatMap(({ blocks, speaker }) => [
            `## ${speaker}`,
            ...blocks.map(renderMarkdownBlock)
          ])
        ].join("\n\n") + "\n"
    )
    .join("\n---\n\n")

const signs: Readonly<Record<string, string>> = { "&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "'": "&#39;" }

const escapeHtml = (text: string): string => text.replace(/[&<>"']/gu, (sign) => signs[sign] ?? sign)

const renderHtmlTable = ({ columns, rows }: ViewContent.Table): string => {
  const renderRow = (cell: "td" | "th", row: ReadonlyArray<string>): string =>
    `<tr>${row.map((text) => `<${cell} dir="auto">${escapeHtml(text)}</${cell}>`).join("")}</tr>`
  return `<table>${renderRow("th", columns)}${rows.map((row) => renderRow("td", row)).join("")}</table>`
}

const diffClasses: Readonly<Record<string, string>> = { "+": "added", "-": "removed", "@": "hunk" }

const renderHtmlDiff = (diff: string): string =>
  `<pre class="shown">${diff
    .trimEnd()
    .split("\n")
    .filter((line) => !/^(?:---|\+\+\+) (?:[ab]\/|\/dev\/null)/u.test(line) || line.startsWith("+++ b/"))
    .map((line) => {
      const look = line.startsWith("+++ ") ? "hunk" : (diffClasses[line.slice(0, 1)] ?? "same")
      return `<span class="${look}">${escapeHtml(line)}</span>`
    })
    .join("\n")}</pre>`

/** Renders the part of a result that is shown without opening it, in its own form. */
const renderHtmlView = (view: ToolView.ToolView): string => {
  if (view.diff !== undefined) return renderHtmlDiff(view.diff)
  const omitted = ToolView.describeOmitted(view)
  if (view.table !== undefined)
    return renderHtmlTable(view.table) + (omitted === "" ? "" : `<pre class="shown">${escapeHtml(omitted)}</pre>`)
  const lines = ToolView.listLines(view)
  return lines.length === 0 ? "" : `<pre class="shown ${view.outcome}" dir="auto">${escapeHtml(lines.join("\n"))}</pre>`
}

const renderHtmlBlock = ({ kind, name, text, url, view }: Block): string => {
  if (kind === "text") return `<pre class="text" dir="auto">${escapeHtml(text)}</pre>`
  if (url !== undefined) return `<img src="${escapeHtml(url)}" alt="${escapeHtml(text)}">`
  const title = kind === "reasoning" ? "Reasoning" : `${kind === "call" ? "Call" : "Result"}: ${name}`
  const mark = view === undefined || view.outcome === "done" ? "" : ` class="${view.outcome}"`
  const whole = `<pre dir="auto">${escapeHtml(text)}</pre>`
  const details = `<details${mark}><summary>${escapeHtml(title)}</summary>${whole}</details>`
  return view === undefined ? details : `${details}${renderHtmlView(view)}`
}

const style = `:root { color-scheme: light dark; }
body { font: 16px/1.5 system-ui, sans-serif; max-width: 52rem; margin: 2rem auto; padding: 0 1rem; }
pre { white-space: pre-wrap; overflow-wrap: anywhere; font: 14px/1.5 ui-monospace, monospace; margin: .25rem 0; }
pre.text { font: inherit; }
pre.shown { border-left: 2px solid #8888; padding-left: .75rem; opacity: .85; }
pre.failed, pre.refused { border-color: #c33; } details.failed > summary, details.refused > summary { color: #c33; }
.added { color: #2a7; } .removed { color: #c33; } .hunk { color: #27a; }
table { border-collapse: collapse; font-size: .9rem; margin: .25rem 0; }
th, td { border: 1px solid #8888; padding: .1rem .5rem; text-align: start; overflow-wrap: anywhere; }
img { max-width: 100%; max-height: 30rem; border: 1px solid #8888; }
section { border-left: 3px solid #8888; padding-left: 1rem; margin: 1.25rem 0; }
section.You { border-color: #2a7; } section.Agent { border-color: #27a; }
h3 { font-size: .85rem; margin: 0; opacity: .7; }
dl { display: grid; grid-template-columns: max-content 1fr; gap: 0 1rem; font-size: .9rem; }
dd { margin: 0; overflow-wrap: anywhere; }
summary { cursor: pointer; font: 14px ui-monospace, monospace; }`

const renderHtmlSession = ({ messages, session }: Conversation): string =>
  `<article>
<h1>${escapeHtml(formatTitle(session))}</h1>
<dl>${listFacts(session)
    .map(([name, value]) => `<dt>${escapeHtml(name)}</dt><dd>${escapeHtml(value)}</dd>`)
    .join("")}</dl>
${toSections(messages)
  .map(
    ({ blocks, speaker }) =>
      `<section class="${speaker}"><h3>${speaker}</h3>${blocks.map(renderHtmlBlock).join("\n")}</section>`
  )
  .join("\n")}
</article>`

/** Renders the conversations as one HTML page. It has no script, and its content security policy allows none. */
export const renderHtml = (all: ReadonlyArray<Conversation>): string => {
  const [only, ...more] = all
  const title = only !== undefined && more.length === 0 ? formatTitle(only.session) : `${all.length} sessions`
  return `<!doctype html>
<html lang="en">
<head>
<meta charset="utf-8">
<meta http-equiv="Content-Security-Policy" content="default-src 'none'; img-src data:; style-src 'unsafe-inline'; base-uri 'none'; form-action 'none'">
<meta name="viewport" content="width=device-width, initial-scale=1">
<title>${escapeHtml(title)}</title>
<style>
${style}
</style>
</head>
<body>
${all.map(renderHtmlSession).join("\n<hr>\n")}
</body>
</html>
`
}
