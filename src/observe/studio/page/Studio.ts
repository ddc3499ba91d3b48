/**
 * Entry point of the studio's script. It shows the frame and the page that the address selects.
 *
 * **Details**
 *
 * The timeline, the details and the differences are shared with the one-file page (`trace/page`). All text is displayed
 * literally: markup never becomes an element, and Markdown is rendered from its tokens (`MarkdownView`).
 * `npm run build:page` bundles these modules into `dist/pages/studio.js`.
 */
import { el, make } from "../../trace/page/Elements.ts"
import { closeHelp, start } from "../../trace/page/Viewer.ts"
import { selected } from "../../trace/page/PageState.ts"
import { address as place } from "../../trace/page/Tabs.ts"
import { comparePage } from "./ComparePage.ts"
import { insights } from "./Insights.ts"
import { address, link, remember, route } from "./Router.ts"
import { selectFilterParameters, sessionFilters } from "./SessionFilters.ts"
import { sessionPage } from "./SessionPage.ts"
import { sessionTable } from "./SessionTable.ts"
import * as StudioClient from "./StudioClient.ts"
import { describeFailure, notice } from "./Widgets.ts"
import { isWorkflowSession, workflowPage } from "./WorkflowPage.ts"

interface DisplayedPage {
  readonly element: HTMLElement
  readonly close: () => void
  /** Called when a row is selected in the timeline. */
  readonly selected?: () => void
  /** Called when the page changes its state in the address. */
  readonly moved?: () => void
}

const main = make("main", { id: "main", tabindex: "-1" })
const nav = make("nav", { "aria-label": "Pages" })
const home = make("span", { class: "home dim" })
let shown: DisplayedPage | undefined

const pages = [
  ["", "Sessions"],
  ["insights", "Insights"]
] as const

const drawNav = (): void => {
  const { page, parameters } = route()
  nav.replaceChildren(
    ...pages.map(([name, label]) => {
      const made = link(
        label,
        address(name, page === "" || page === "insights" ? selectFilterParameters(parameters) : undefined)
      )
      if (page === name) made.setAttribute("aria-current", "page")
      return made
    })
  )
}

const listPage = (): DisplayedPage => {
  const filters = sessionFilters(true)
  const { close, element } = sessionTable(filters)
  return { element: make("div", { class: "listPage" }, filters.element, element), close }
}

const insightsPage = (): DisplayedPage => {
  const filters = sessionFilters(false)
  const { close, element } = insights(filters)
  return { element: make("div", { class: "listPage" }, filters.element, element), close }
}

const makeFailurePage = (message: string): DisplayedPage => ({
  element: make("div", { class: "panel" }, notice(message, "bad"), link("Sessions", address(""))),
  close: () => undefined
})

const about = StudioClient.about()

const openPage = async (): Promise<DisplayedPage> => {
  const { id, page } = route()
  switch (page) {
    case "":
      document.title = "Sessions · hermes studio"
      return listPage()
    case "insights":
      document.title = "Insights · hermes studio"
      return insightsPage()
    case "session":
      return isWorkflowSession(id) ? workflowPage(id) : sessionPage(id, await about)
    case "compare":
      return comparePage()
    default:
      return makeFailurePage("There is no such page.")
  }
}

/**
 * Returns the part of an address that identifies the page, without the state that the page itself stores in its
 * address.
 */
const identity = (): string => {
  const { id, page, parameters } = route()
  for (const name of ["row", "view", "tab"]) parameters.delete(name)
  return address(page, parameters, id)
}

let current: string | undefined

/** Restores the focus of the search field after the search redrew the list. */
const keepTyping = (id: string | undefined, from: number | null): void => {
  const field = id === undefined ? null : document.getElementById(id)
  if (!(field instanceof HTMLInputElement)) return
  field.focus()
  field.setSelectionRange(from, from)
}

const show = async (): Promise<void> => {
  drawNav()
  const wanted = identity()
  if (wanted === current) return shown?.moved?.()
  const isFirst = current === undefined
  current = wanted
  const active = document.activeElement
  const typing = active instanceof HTMLInputElement && active.id === "query" ? active : undefined
  const caret = typing?.selectionStart ?? null
  shown?.close()
  shown = undefined
  closeHelp()
  let next: DisplayedPage
  try {
    next = await openPage()
  } catch (error) {
    next = makeFailurePage(describeFailure(error))
  }
  if (current !== wanted) return next.close()
  shown = next
  main.replaceChildren(next.element)
  main.scrollTop = 0
  if (typing !== undefined) keepTyping(typing.id, caret)
  else if (!isFirst) main.focus({ preventScroll: true })
}

// The viewer stores its state in the address of the studio's page.
place.read = () => {
  const { page, parameters } = route()
  const row = parameters.get("row")
  return new URLSearchParams({
    view: parameters.get("view") ?? (page === "compare" ? "2" : "0"),
    ...(row === null ? {} : { row })
  })
}
place.write = (given) => {
  const { page } = route()
  if (page === "session" || page === "compare")
    remember({ row: given.get("row") ?? "", view: page === "compare" ? (given.get("view") ?? "") : "" })
}
selected.listen(() => shown?.selected?.())

document.body.append(
  make(
    "header",
    { class: "frame" },
    make("a", { href: "#main", class: "skip" }, "Skip to the content"),
    el("b", "brand", "hermes studio"),
    nav,
    home
  ),
  main
)
document.querySelector(".skip")?.addEventListener("click", (event) => {
  event.preventDefault()
  main.focus()
})
start()
document.addEventListener("keydown", (event) => {
  const isTyping = document.activeElement?.matches("input, textarea, select") ?? false
  const search = document.getElementById("query")
  if (event.key !== "/" || isTyping || search === null || event.ctrlKey || event.metaKey || event.altKey) return
  event.preventDefault()
  search.focus()
})
const drawHome = async (): Promise<void> => {
  try {
    const { home: directory, unread, version, write } = await about
    const leftOut = unread === 0 ? "" : `${unread === 1 ? "1 entry" : `${unread} entries`} left out · `
    home.textContent = `${leftOut}${version} · ${directory}${write ? "" : " · read-only"}`
    // The warning is also shown on narrow screens, where the other information is hidden.
    home.classList.toggle("incomplete", unread > 0)
  } catch (error) {
    home.textContent = describeFailure(error)
  }
  home.title = home.textContent
}
void drawHome()
addEventListener("hashchange", () => void show())
void show()
