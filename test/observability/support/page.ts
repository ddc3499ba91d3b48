// Runs the script of a page on a document that has just what the script uses, and fails on everything else.
import { runInNewContext } from "node:vm"

class Style {
  readonly [key: string]: string
}

export class Element {
  readonly children: Array<Element> = []
  readonly dataset: Record<string, string> = {}
  readonly style: Style & Record<string, string> = {}
  readonly listeners = new Map<string, (event: unknown) => void>()
  readonly attributes = new Map<string, string>()
  readonly tag: string
  className = ""
  scrollTop = 0
  clientHeight = 600
  clientWidth = 1000
  width = 0
  height = 0
  private own = ""
  constructor(tag: string) {
    this.tag = tag
  }
  get textContent(): string {
    return this.own + this.children.map((child) => child.textContent).join("")
  }
  set textContent(text: string) {
    this.children.length = 0
    this.own = String(text)
  }
  set innerHTML(_: string) {
    throw new Error("markup from text")
  }
  append(...more: ReadonlyArray<Element>): void {
    this.children.push(...more)
  }
  replaceChildren(...more: ReadonlyArray<Element>): void {
    this.children.length = 0
    this.children.push(...more)
  }
  setAttribute(name: string, value: string): void {
    this.attributes.set(name, value)
  }
  addEventListener(name: string, handle: (event: unknown) => void): void {
    this.listeners.set(name, handle)
  }
  fire(name: string, event: object = {}): void {
    this.listeners.get(name)?.({ currentTarget: this, stopPropagation: () => undefined, preventDefault: () => undefined, ...event })
  }
  getContext(): object {
    return { scale: () => undefined, clearRect: () => undefined, fillRect: () => undefined }
  }
}

const between = (html: string, open: string, close: string): string => {
  const from = html.lastIndexOf(open) + open.length
  return html.slice(from, html.indexOf(close, from))
}

/** The data of a page. */
export const dataOf = (html: string): unknown => JSON.parse(between(html, "<script type=\"application/json\" id=\"data\">", "</script>"))

/** The elements of a page by id, once its script has run. */
export const open = (html: string): ((id: string) => Element) => {
  const elements = new Map<string, Element>()
  const byId = (id: string): Element => {
    const known = elements.get(id)
    if (known !== undefined) return known
    if (!html.includes(`id="${id}"`)) throw new Error(`the page has no ${id}`)
    const made = new Element(id)
    elements.set(id, made)
    return made
  }
  byId("data").textContent = between(html, "<script type=\"application/json\" id=\"data\">", "</script>")
  const window = { devicePixelRatio: 1 }
  runInNewContext(between(html, "<script>", "</script>"), {
    document: { getElementById: byId, createElement: (tag: string) => new Element(tag), documentElement: {} },
    window,
    getComputedStyle: () => ({ getPropertyValue: () => "#000" }),
    requestAnimationFrame: (draw: () => void) => draw(),
    addEventListener: () => undefined
  })
  return byId
}
