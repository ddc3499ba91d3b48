/** Text in the details pane: JSON as a tree, long text collapsed, and a copy button. */
import { el } from "./Elements.ts"
import { exact } from "./Figures.ts"
import { holdsQuery, appendMarked, query } from "./PageSearch.ts"

/** Length from which text is collapsed, in lines and in characters. */
const longLines = 24
const longText = 3000

/** Length from which a string in a JSON tree is shown as a block, in characters. */
const longString = 160

/** Maximum length of a string that is parsed as JSON, in characters. */
const longestJson = 400_000

/**
 * Maximum number of entries of a JSON value that are shown, and maximum number of entries of a value that is initially
 * expanded.
 */
const mostEntries = 500
const openEntries = 30

/** Parses a string as JSON. Returns `undefined` if it is not an object or array. */
export const parseJsonText = (text: string): unknown => {
  if (text.length > longestJson || !/^\s*[[{]/u.test(text)) return undefined
  try {
    return JSON.parse(text)
  } catch {
    return undefined
  }
}

/** Renders text. If it is long, only its beginning is shown and a button reveals the rest. */
export const renderFoldedText = (text: string): HTMLElement => {
  const lines = text.split("\n")
  const pre = el("pre")
  if (lines.length <= longLines && text.length <= longText) return appendMarked(pre, text)
  const begin = lines.slice(0, longLines).join("\n").slice(0, longText)
  const all = `show all: ${exact(lines.length)} lines, ${exact(text.length)} characters`
  const asked = query()
  let isWhole = asked !== "" && !begin.toLowerCase().includes(asked) && text.toLowerCase().includes(asked)
  const more = el("button", "more")
  const draw = (): void => {
    pre.replaceChildren()
    appendMarked(pre, isWhole ? text : begin)
    more.textContent = isWhole ? "show less" : all
  }
  more.addEventListener("click", () => {
    isWhole = !isWhole
    draw()
  })
  draw()
  const box = el("div", "long")
  box.append(pre, more)
  return box
}

const label = (key: string | undefined): ReadonlyArray<string | HTMLElement> =>
  key === undefined ? [] : [el("span", "j-key", key), ": "]

const scalarLine = (key: string | undefined, value: unknown): HTMLElement => {
  const line = el("div", "j-line")
  line.append(...label(key))
  if (typeof value === "string" && (value.includes("\n") || value.length > longString)) {
    const block = renderFoldedText(value)
    block.classList.add("j-text")
    line.append(block)
  } else line.append(appendMarked(el("span", value === null ? "j-null" : `j-${typeof value}`), JSON.stringify(value)))
  return line
}

/** Renders a JSON value as a tree. Collapsed parts are created when they are opened. */
const jsonTree = (key: string | undefined, value: unknown, depth: number): HTMLElement => {
  if (value === null || typeof value !== "object") return scalarLine(key, value)
  const [open, close] = Array.isArray(value) ? (["[", "]"] as const) : (["{", "}"] as const)
  // This also works for an array, whose keys are its indexes.
  const entries: ReadonlyArray<readonly [string, unknown]> = Object.entries(value)
  if (entries.length === 0) {
    const line = el("div", "j-line")
    line.append(...label(key), open + close)
    return line
  }
  const box = el("details", "j")
  const head = el("summary")
  head.append(...label(key), open, el("span", "j-count", ` ${entries.length} `), close)
  box.append(head)
  let isFilled = false
  const fill = (): void => {
    if (isFilled) return
    isFilled = true
    for (const [one, inner] of entries.slice(0, mostEntries)) box.append(jsonTree(one, inner, depth + 1))
    if (entries.length > mostEntries)
      box.append(el("div", "j-line dim", `… ${entries.length - mostEntries} more, see the text`))
  }
  box.addEventListener("toggle", () => {
    if (box.open) fill()
  })
  if ((depth < 2 && entries.length <= openEntries) || holdsQuery(value)) {
    fill()
    box.open = true
  }
  return box
}

/** Renders text, as a tree if it is JSON. */
export const shownText = (text: string): HTMLElement => {
  const value = parseJsonText(text)
  return value === undefined ? renderFoldedText(text) : jsonTree(undefined, value, 0)
}

/** Creates a button that copies the given text. */
export const copier = (text: string): HTMLElement => {
  const button = el("button", "copy", "copy")
  const copy = async (): Promise<void> => {
    try {
      await navigator.clipboard.writeText(text)
      button.textContent = "copied"
    } catch {
      button.textContent = "not allowed here"
    }
    setTimeout(() => {
      button.textContent = "copy"
    }, 1500)
  }
  button.addEventListener("click", () => {
    void copy()
  })
  return button
}
