/** Creates elements, and reads the colours defined in the page's style sheet. */
import type { Kind } from "../Row.ts"

/** Height of a row of the timeline, in pixels. */
export const rowHeight = 26

/** Maximum number of characters whose direction is examined. */
const examined = 400

/** Characters of scripts that are written from right to left. */
const rightToLeft = /[\u0590-\u08ff\ufb1d-\ufdff\ufe70-\ufefc]|\ud802|\ud803|\ud83a|\ud83b/u

/** Lets text of a script that is written from right to left decide the direction of its element. */
const setDirection = (element: HTMLElement, text: string): void => {
  if (rightToLeft.test(text)) element.dir = "auto"
}

/** Creates an element. Its text is never interpreted as markup. */
export const el = <Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  className = "",
  text?: string
): HTMLElementTagNameMap[Tag] => {
  const made = document.createElement(tag)
  if (className !== "") made.className = className
  if (text !== undefined) {
    made.textContent = text
    setDirection(made, text)
  }
  return made
}

/** Creates an element with attributes and contents. Strings are never interpreted as markup. */
export const make = <Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Readonly<Record<string, string>> = {},
  ...inside: ReadonlyArray<Node | string>
): HTMLElementTagNameMap[Tag] => {
  const made = el(tag)
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, value)
  made.append(...inside)
  if (!made.hasAttribute("dir")) setDirection(made, made.textContent.slice(0, examined))
  return made
}

/** Sets the pressed state of a toggle button. */
export const setPressed = (button: Element, on: boolean): void => button.setAttribute("aria-pressed", String(on))

/** Kinds of rows, in the order of their filters. */
export const kinds: ReadonlyArray<Kind> = ["agent", "user", "system", "llm", "tool", "approval", "mark"]

/** The symbol of each kind of row. */
export const glyphs: Readonly<Record<Kind, string>> = {
  agent: "◆",
  user: "›",
  system: "§",
  llm: "✦",
  tool: "⚙",
  approval: "?",
  mark: "·"
}

type Colours = Readonly<Record<Kind | "bad" | "line" | "dim" | "fg" | "hot" | "panel" | "focus", string>>

const read = (): Colours => {
  const style = getComputedStyle(document.documentElement)
  const colour = (name: string): string => style.getPropertyValue(`--${name}`).trim()
  return {
    agent: colour("agent"),
    user: colour("user"),
    system: colour("system"),
    llm: colour("llm"),
    tool: colour("tool"),
    approval: colour("approval"),
    mark: colour("mark"),
    bad: colour("bad"),
    line: colour("line"),
    dim: colour("dim"),
    fg: colour("fg"),
    hot: colour("hot"),
    panel: colour("panel"),
    focus: colour("focus")
  }
}

/** Colours of the current colour scheme, light or dark, as CSS values. */
export let colours = read()

/** Reads the colours again after the colour scheme has changed. */
export const readColours = (): void => {
  colours = read()
}
