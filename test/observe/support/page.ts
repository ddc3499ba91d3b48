// Runs the script of a page on a document without layout. A real browser does it in test/browser.
import { parseHTML } from "linkedom"
import { runInNewContext } from "node:vm"

const between = (html: string, open: string, close: string): string => {
  const from = html.lastIndexOf(open) + open.length
  return html.slice(from, html.indexOf(close, from))
}

/** The data of a page. */
export const dataOf = (html: string): unknown =>
  JSON.parse(between(html, '<script type="application/json" id="data">', "</script>"))

/** What tests use of an element; `linkedom` types its own as anything. */
export interface Node {
  readonly children: ReadonlyArray<Node>
  readonly textContent: string
  readonly className: string
  readonly click: () => void
  scrollTop: number
  value: string
}

/** A page whose script has run. */
export interface Page {
  /** The element of an id; fails where there is none. */
  readonly byId: (id: string) => Node
  /** The one element that a selector fits. */
  readonly one: (selector: string) => Node
  readonly all: (selector: string) => ReadonlyArray<Node>
  readonly fire: (node: Node, type: string, fields?: object) => void
}

/** Opens a page. Every element is 1000 × 600, and nothing is drawn on a canvas. */
export const open = (html: string, hash = ""): Page => {
  const { Element, Event, document } = parseHTML(html)
  for (const [name, value] of [
    ["clientWidth", 1000],
    ["clientHeight", 600]
  ] as const) {
    Object.defineProperty(Element.prototype, name, { configurable: true, get: () => value })
  }
  Object.defineProperty(Element.prototype, "innerHTML", {
    configurable: true,
    set: () => {
      throw new Error("markup from text")
    }
  })
  Object.assign(Element.prototype, { getContext: () => null, focus: () => undefined, scrollTop: 0 })
  runInNewContext(between(html, "<script>", "</script>"), {
    document,
    window: { devicePixelRatio: 1 },
    location: { hash },
    history: { replaceState: () => undefined },
    navigator: {},
    Intl,
    URLSearchParams,
    matchMedia: () => ({ addEventListener: () => undefined }),
    getComputedStyle: () => ({ getPropertyValue: () => "#000" }),
    requestAnimationFrame: (draw: () => void) => draw(),
    ResizeObserver: class {
      observe(): void {}
    },
    addEventListener: () => undefined
  })
  const all = (selector: string): ReadonlyArray<Node> => Array.from(document.querySelectorAll(selector))
  const one = (selector: string): Node => {
    const [found, ...more] = all(selector)
    if (found === undefined || more.length > 0)
      throw new Error(`${selector}: ${more.length + (found === undefined ? 0 : 1)} elements`)
    return found
  }
  return {
    all,
    one,
    byId: (id) => one(`#${id}`),
    fire: (node, type, fields = {}) => {
      // linkedom's elements are event targets.
      const target = node as unknown as { readonly dispatchEvent: (event: object) => void }
      target.dispatchEvent(Object.assign(new Event(type, { bubbles: true, cancelable: true }), fields))
    }
  }
}
