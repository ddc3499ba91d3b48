/** Comparison of two runs or sessions side by side: their figures, their first difference, and all changes. */
import { el, make } from "../../trace/page/Elements.ts"
import { dollars, duration, exact, short } from "../../trace/page/Figures.ts"
import { load } from "../../trace/page/PageState.ts"
import { go as goToChange } from "../../trace/page/Selection.ts"
import { viewer } from "../../trace/page/Skeleton.ts"
import { restore } from "../../trace/page/Tabs.ts"
import type { Comparison, Side } from "../StudioApi.ts"
import { address, go, link, route, toSession } from "./Router.ts"
import { chooseTitle } from "./SessionTable.ts"
import * as StudioClient from "./StudioClient.ts"
import {
  attempt,
  button,
  cacheShare,
  choice,
  formatCost,
  field,
  describeFailure,
  notice,
  statusChip
} from "./Widgets.ts"

interface Measure {
  readonly name: string
  readonly of: (side: Side) => number | undefined
  readonly text: (value: number) => string
}

const measures: ReadonlyArray<Measure> = [
  { name: "Time", of: (side) => side.duration, text: (value) => duration(value) || "0" },
  { name: "Cost", of: ({ cost }) => cost, text: (value) => dollars(value) || "$0" },
  { name: "Prompt tokens", of: ({ tokens }) => tokens.input + tokens.cacheRead + tokens.cacheWrite, text: short },
  { name: "Answer tokens", of: ({ tokens }) => tokens.output, text: short },
  { name: "Steps", of: ({ steps }) => steps, text: exact },
  { name: "Model calls", of: ({ modelCalls }) => modelCalls, text: exact },
  { name: "Tool calls", of: ({ toolCalls }) => toolCalls, text: exact },
  { name: "Errors", of: ({ errors }) => errors, text: exact }
]

/**
 * Creates an element that shows the difference between the left and the right value, also as a percentage of the left
 * one.
 */
const change = ({ text }: Measure, left: number | undefined, right: number | undefined): HTMLElement => {
  if (left === undefined || right === undefined || left === right)
    return el("td", "dim", left === right && left !== undefined ? "=" : "")
  const by = right - left
  const percent = left === 0 ? "" : ` (${by > 0 ? "+" : "−"}${Math.round((Math.abs(by) / left) * 100)} %)`
  return el("td", by > 0 ? "up" : "down", `${by > 0 ? "+" : "−"}${text(Math.abs(by))}${percent}`)
}

const sideLink = (side: Side): HTMLElement => link(side.name, toSession(side.session))

const numbers = ({ left, right }: Comparison): HTMLElement => {
  const line = (
    name: string,
    one: Node | string,
    other: Node | string,
    difference: HTMLElement = el("td")
  ): HTMLElement =>
    make(
      "tr",
      {},
      make("th", { scope: "row", class: "l" }, name),
      make("td", {}, one),
      make("td", {}, other),
      difference
    )
  const formatMeasure = (measure: Measure, side: Side): string => {
    const value = measure.of(side)
    return value === undefined ? (measure.name === "Cost" ? formatCost(side) : "") : measure.text(value)
  }
  return make(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": "Numbers of both sides" },
    make(
      "table",
      { class: "figures compare" },
      make(
        "thead",
        {},
        make(
          "tr",
          {},
          make("th", {}),
          make("th", { scope: "col" }, sideLink(left)),
          make("th", { scope: "col" }, sideLink(right)),
          make("th", { scope: "col" }, "Difference")
        )
      ),
      make(
        "tbody",
        {},
        line("State", statusChip(left.status), statusChip(right.status)),
        line("Model", left.models.join(", "), right.models.join(", ")),
        ...measures.map((measure) =>
          line(
            measure.name,
            formatMeasure(measure, left),
            formatMeasure(measure, right),
            change(measure, measure.of(left), measure.of(right))
          )
        ),
        line("Cached", cacheShare(left.tokens), cacheShare(right.tokens)),
        line("Tools", left.tools.join(", "), right.tools.join(", "))
      )
    )
  )
}

/** Window height, in pixels, below which the figures are collapsed when a change is shown. */
const roomy = 1100

const renderFirstDifference = ({ first, left, right }: Comparison, makeRoom: () => void): HTMLElement => {
  if (first === undefined) return el("p", "first", "Both are the same, step for step.")
  const { change, state } = first
  const side = (name: string, text: string | undefined): ReadonlyArray<HTMLElement> =>
    text === undefined ? [] : [make("div", {}, el("b", "", name), el("span", "", text))]
  return make(
    "div",
    { class: "first" },
    make(
      "div",
      { class: "actions" },
      el("b", "", `First difference: ${state}`),
      button(
        "Show it",
        () => {
          if (innerHeight < roomy) makeRoom()
          goToChange(change)
        },
        { class: "small" }
      )
    ),
    ...side(left.name, first.left),
    ...side(right.name, first.right)
  )
}

/** Creates the page that shows the comparison given by the address. */
export const comparePage = (): {
  readonly element: HTMLElement
  readonly close: () => void
  readonly moved: () => void
} => {
  const aborter = new AbortController()
  let isLoaded = false
  const { parameters } = route()
  const query = new URLSearchParams()
  for (const name of ["left", "right", "leftRun", "rightRun"]) {
    const value = parameters.get(name)
    if (value !== null && value !== "") query.set(name, value)
  }
  const swapped = {
    left: query.get("right") ?? "",
    right: query.get("left") ?? "",
    ...(query.has("leftRun") ? { leftRun: query.get("rightRun") ?? "", rightRun: query.get("leftRun") ?? "" } : {})
  }
  const element = make("section", { class: "comparison" }, notice("Comparing …"))
  const show = async (): Promise<void> => {
    const comparison = await StudioClient.compare(query, aborter.signal)
    document.title = `${comparison.left.name} ↔ ${comparison.right.name} · hermes studio`
    const head = make(
      "summary",
      {},
      el("h1", "", "Comparison"),
      el("span", "gap"),
      el("span", "dim", `${comparison.left.name} ↔ ${comparison.right.name}`)
    )
    const sums = make("details", { class: "numbersBox", open: "" }, head)
    const makeRoom = (): void => {
      sums.open = false
    }
    sums.append(
      make("div", { class: "sideBySide" }, numbers(comparison), renderFirstDifference(comparison, makeRoom)),
      link("Swap sides", address("compare", swapped), "button small")
    )
    element.replaceChildren(sums, viewer)
    load(comparison.data)
    isLoaded = true
    restore()
  }
  show().catch((error: unknown) => {
    if (!aborter.signal.aborted)
      element.replaceChildren(notice(describeFailure(error), "bad"), link("Back to the list", address("")))
  })
  return {
    element,
    close: () => aborter.abort(),
    moved: () => {
      if (isLoaded) restore()
    }
  }
}

/** Opens a dialog that selects a session to compare with another one. */
export const openComparison = (left: string): void => {
  const place = el("div", "", "Reading the list …")
  const dialog = make("dialog", { class: "form", "aria-labelledby": "compareTitle" })
  const submit = make("button", { type: "submit", class: "primary" }, "Compare")
  submit.disabled = true
  const form = make(
    "form",
    { method: "dialog" },
    make("h2", { id: "compareTitle" }, "Compare with"),
    place,
    make(
      "div",
      { class: "actions" },
      submit,
      button("Cancel", () => dialog.close())
    )
  )
  dialog.append(form)
  dialog.addEventListener("close", () => dialog.remove())
  document.body.append(dialog)
  dialog.showModal()
  void attempt(place, async () => {
    const { sessions } = await StudioClient.sessions(new URLSearchParams({ limit: "200" }))
    const others = sessions.filter(({ id }) => id !== left)
    if (others.length === 0) return place.replaceChildren("There is no other session.")
    const other = choice(
      others.map((session) => [session.id, `${chooseTitle(session).slice(0, 70)} (${session.id})`] as const)
    )
    place.replaceChildren(field("Session", other))
    submit.disabled = false
    form.addEventListener("submit", () => go(address("compare", { left, right: other.value })))
  })
}
