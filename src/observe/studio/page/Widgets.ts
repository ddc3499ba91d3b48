/** Small elements that the studio's pages share: figures, states, notices, form fields and tables. */
import { el, make } from "../../trace/page/Elements.ts"
import { dollars, duration, exact, short } from "../../trace/page/Figures.ts"
import type { Status, Tokens, Totals } from "../StudioApi.ts"
import { RequestFailed } from "./StudioClient.ts"

/** Returns the sum of all tokens. */
export const allTokens = ({ cacheRead, cacheWrite, input, output }: Tokens): number =>
  input + output + cacheRead + cacheWrite

/** Formats token counts as `prompt → answer`. */
export const tokenFlow = (tokens: Tokens): string => {
  const prompt = tokens.input + tokens.cacheRead + tokens.cacheWrite
  return prompt + tokens.output === 0 ? "" : `${short(prompt)} → ${short(tokens.output)}`
}

/** Formats the percentage of prompt tokens that were read from the cache. Empty if there is nothing to show. */
export const cacheShare = ({ cacheRead, cacheWrite, input }: Tokens): string =>
  cacheRead === 0 ? "" : `${Math.round((cacheRead / Math.max(1, input + cacheRead + cacheWrite)) * 100)} %`

/** Formats a cost. It is marked as a lower bound if the price of some calls is unknown. */
export const formatCost = ({
  cost,
  unpriced
}: {
  readonly cost?: number | undefined
  readonly unpriced?: number | undefined
}): string =>
  cost === undefined
    ? unpriced !== undefined && unpriced > 0
      ? "unknown"
      : ""
    : `${(unpriced ?? 0) > 0 ? "≥ " : ""}${dollars(cost) || "$0"}`

const day = new Intl.DateTimeFormat("en", { month: "short", day: "numeric" })
const clock = new Intl.DateTimeFormat("en", { hour: "2-digit", minute: "2-digit", hour12: false })

/**
 * Creates an element that shows a time: the time of day for today, the date for other days. Its tooltip has the full
 * date and time.
 */
export const time = (at: number): HTMLElement => {
  const date = new Date(at)
  const isToday = date.toDateString() === new Date().toDateString()
  const shown = el(
    "time",
    "",
    isToday
      ? clock.format(date)
      : `${day.format(date)}${date.getFullYear() === new Date().getFullYear() ? "" : ` ${date.getFullYear()}`}, ${clock.format(date)}`
  )
  shown.dateTime = date.toISOString()
  shown.title = date.toString()
  return shown
}

const statusWords: Readonly<Record<Status, string>> = {
  ok: "ok",
  error: "error",
  interrupted: "interrupted",
  running: "running"
}

/** Creates an element that shows the status of a run. */
export const statusChip = (status: Status): HTMLElement => el("span", `state ${status}`, statusWords[status])

/** Creates elements that show a number with its unit or name. */
export const figure = (value: string, name: string, isBad = false): ReadonlyArray<HTMLElement> =>
  value === "" ? [] : [make("span", { class: isBad ? "sum bad" : "sum" }, el("b", "", value), ` ${name}`)]

/** Creates elements that show the figures of totals. */
export const figures = (totals: Totals & { readonly duration?: number }): ReadonlyArray<HTMLElement> => [
  ...figure(exact(totals.modelCalls), totals.modelCalls === 1 ? "model call" : "model calls"),
  ...figure(exact(totals.toolCalls), totals.toolCalls === 1 ? "tool call" : "tool calls"),
  ...(totals.errors > 0 ? figure(exact(totals.errors), totals.errors === 1 ? "error" : "errors", true) : []),
  ...figure(tokenFlow(totals.tokens), "tokens"),
  ...figure(cacheShare(totals.tokens), "cached"),
  ...figure(formatCost(totals), ""),
  ...figure(duration(totals.duration ?? 0), "")
]

/** Creates a notice that assistive technology announces. A notice of a failure includes its remedy. */
export const notice = (text: string, kind: "info" | "bad" = "info"): HTMLElement =>
  make("p", { class: `notice ${kind}`, role: kind === "bad" ? "alert" : "status" }, text)

/** Returns the message of a failure, for the user. */
export const describeFailure = (error: unknown): string =>
  error instanceof RequestFailed
    ? error.message
    : `The page failed: ${error instanceof Error ? error.message : String(error)}. Reload it.`

/** Creates a labelled form field. */
export const field = <Control extends HTMLElement>(label: string, control: Control): HTMLElement =>
  make("label", { class: "field" }, el("span", "", label), control)

/** Creates a list of choices. The first choice is selected unless `chosen` is another one. */
export const choice = (
  values: ReadonlyArray<readonly [value: string, label: string]>,
  chosen = "",
  attributes: Readonly<Record<string, string>> = {}
): HTMLSelectElement => {
  const made = make("select", attributes)
  for (const [value, label] of values) {
    const option = el("option", "", label)
    option.value = value
    option.selected = value === chosen
    made.append(option)
  }
  return made
}

/** Creates a button with an action. */
export const button = (
  text: string,
  action: () => void,
  attributes: Readonly<Record<string, string>> = {}
): HTMLButtonElement => {
  const made = make("button", { type: "button", ...attributes }, text)
  made.addEventListener("click", action)
  return made
}

/**
 * A column of a table: its head, and a function that returns the cell of an entry. `left` aligns text to the left;
 * numbers are aligned to the right.
 */
export interface Column<A> {
  readonly head: string
  readonly cell: (entry: A) => string | HTMLElement
  readonly left?: boolean
}

/** Creates a table that scrolls horizontally if it is too wide. Columns without any value are left out. */
export const table = <A>(
  caption: string,
  entries: ReadonlyArray<A>,
  columns: ReadonlyArray<Column<A>>
): HTMLElement => {
  const lines = entries.map((entry) => columns.map((column) => column.cell(entry)))
  const used = columns.flatMap((column, index) =>
    lines.some((line) => line[index] !== "") ? [[column, index] as const] : []
  )
  const head = make(
    "tr",
    {},
    ...used.map(([column]) => make("th", { scope: "col", class: column.left ? "l" : "" }, column.head))
  )
  const rows = lines.map((line) =>
    make("tr", {}, ...used.map(([column, index]) => make("td", { class: column.left ? "l" : "" }, line[index] ?? "")))
  )
  return make(
    "div",
    { class: "wide", tabindex: "0", role: "region", "aria-label": caption },
    make(
      "table",
      { class: "figures" },
      make("caption", {}, caption),
      make("thead", {}, head),
      make("tbody", {}, ...rows)
    )
  )
}

/** Runs an action that the user started. If it fails, shows the reason in `place`. */
export const attempt = async (place: HTMLElement, what: () => Promise<void>): Promise<void> => {
  place.replaceChildren()
  try {
    await what()
  } catch (error) {
    place.replaceChildren(notice(describeFailure(error), "bad"))
  }
}
