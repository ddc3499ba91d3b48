/**
 * The part of a result that is visible without opening its call: the last lines of a command, matches, a table, a plan,
 * a difference, and the images and files of messages. Results have the same view as on the terminal.
 */
import type { WireView } from "../../../base/domain/ToolView.ts"
import { el, make } from "../../trace/page/Elements.ts"
import type { FilePart, ImagePart } from "../StudioApi.ts"
import { diffLines } from "./MarkdownView.ts"

const renderRow = (cell: "td" | "th", row: ReadonlyArray<string>): HTMLElement =>
  make("tr", {}, ...row.map((text) => make(cell, { dir: "auto" }, text)))

const renderOmitted = ({ kind, omitted_lines: count = 0, outcome }: WireView): ReadonlyArray<HTMLElement> => {
  if (count === 0) return []
  const word = kind === "command" || outcome !== "done" ? "earlier" : "more"
  return [el("span", "dim", `… ${count} ${word} ${count === 1 ? "line" : "lines"}`)]
}

const renderLines = (view: WireView): HTMLElement => {
  const lines = (view.lines ?? []).map((line) => make("span", { class: "line", dir: "auto" }, line))
  const omitted = renderOmitted(view)
  const isTail = view.kind === "command" || view.outcome !== "done"
  return make("pre", { class: `view ${view.outcome}` }, ...(isTail ? [...omitted, ...lines] : [...lines, ...omitted]))
}

const renderTable = (view: WireView, { columns, rows }: NonNullable<WireView["table"]>): HTMLElement =>
  make(
    "div",
    { class: "view wide", tabindex: "0", role: "region", "aria-label": "Rows of the result" },
    make(
      "table",
      { class: "rows" },
      make("thead", {}, renderRow("th", columns)),
      make("tbody", {}, ...rows.map((row) => renderRow("td", row)))
    ),
    ...renderOmitted(view)
  )

/**
 * Creates the visible part of a result. Returns `undefined` if there is nothing to show. `hasDiffs` is true if the
 * differences of the call are shown beside it.
 */
export const renderView = (view: WireView, hasDiffs: boolean): HTMLElement | undefined => {
  if (view.diff !== undefined) return hasDiffs ? undefined : make("div", { class: "view" }, diffLines(view.diff))
  if (view.table !== undefined) return renderTable(view, view.table)
  return (view.lines ?? []).length === 0 ? undefined : renderLines(view)
}

/** Creates the view of an image. */
export const renderImage = ({ local, mediaType, url }: ImagePart): HTMLElement => {
  // Images on other servers are not loaded, because a request would reveal that this page was read.
  if (!local || !url.startsWith("/api/"))
    return el("p", "dim", `[image, ${mediaType}, not loaded: ${url.slice(0, 200)}]`)
  const image = make("img", {
    src: url,
    alt: `Image of the conversation (${mediaType})`,
    loading: "lazy",
    decoding: "async"
  })
  return make("a", { class: "image", href: url, target: "_blank", rel: "noopener" }, image)
}

/** Names a file that is not an image. */
export const renderFile = ({ mediaType, name }: FilePart): HTMLElement =>
  el("p", "dim", `[file${name === undefined ? "" : ` ${name}`}, ${mediaType}]`)
