/**
 * The list of sessions. The server searches, filters and sorts it, events keep it up to date, and sessions can be
 * selected for a comparison or a dataset.
 */
import { el, make } from "../../trace/page/Elements.ts"
import { duration, exact } from "../../trace/page/Figures.ts"
import type { ExportFormat, ReplaySource, SessionList, SessionSummary } from "../StudioApi.ts"
import { address, link, route, toSession } from "./Router.ts"
import { toServerQuery, type SessionFilters } from "./SessionFilters.ts"
import * as StudioClient from "./StudioClient.ts"
import { button, choice, formatCost, field, describeFailure, notice, statusChip, time, tokenFlow } from "./Widgets.ts"

const pageSize = 50

/**
 * Time, in milliseconds, during which changes to sessions outside the list are collected before the list is read again.
 */
const together = 1000

const formats: ReadonlyArray<readonly [ExportFormat, string]> = [
  ["atif", "ATIF trajectories"],
  ["jsonl", "JSON Lines of sessions"],
  ["sharegpt", "ShareGPT conversations"]
]

const forms: ReadonlyArray<readonly [string, string]> = [
  ["file", "one file"],
  ["archive", "archive"]
]

/** Returns the display name of a session. */
export const chooseTitle = ({ goal, id, prompt, title }: SessionSummary): string => title ?? goal ?? prompt ?? id

const renderScores = ({ scores }: SessionSummary): ReadonlyArray<HTMLElement> =>
  scores
    .filter(({ run }) => run === undefined)
    .slice(0, 3)
    .map(({ name, value }) => el("span", "tag", `${name}: ${String(value)}`))

/** Names the kind of a copy: after an undo, a compaction, a fork, or a replay with its differences. */
const nameCopy = ({ changed }: ReplaySource): string => {
  if (changed.includes("undo")) return "copy after undo"
  if (changed.includes("compression")) return "after compaction"
  return changed.length === 0 ? "copy" : `replay: ${changed.join(", ")}`
}

const renderTags = (session: SessionSummary): ReadonlyArray<HTMLElement> => [
  ...(session.parent === undefined ? [] : [el("span", "tag", "sub-agent")]),
  ...(session.replayOf === undefined ? [] : [el("span", "tag", nameCopy(session.replayOf))]),
  ...(session.children > 0
    ? [el("span", "tag", `${session.children} ${session.children === 1 ? "sub-agent" : "sub-agents"}`)]
    : []),
  ...(session.notes > 0 ? [el("span", "tag", `${session.notes} ${session.notes === 1 ? "note" : "notes"}`)] : []),
  ...renderScores(session)
]

const cell = (name: string, ...inside: ReadonlyArray<Node | string>): HTMLElement =>
  make("td", { "data-name": name }, ...inside)

const heads = ["", "Session", "State", "Model", "Steps", "Tokens", "Cost", "Time", "Errors", "Active"] as const

/** A list of sessions that is refreshed until it is closed. */
export interface SessionTable {
  readonly element: HTMLElement
  readonly close: () => void
}

/** Creates the list of the sessions that match the filters in the address. */
export const sessionTable = (filters: SessionFilters): SessionTable => {
  const { parameters } = route()
  const query = toServerQuery(parameters)
  const chosen = new Set<string>()
  const aborter = new AbortController()
  let shown: ReadonlyArray<SessionSummary> = []
  let total = 0
  let stop: (() => void) | undefined
  let waiting: ReturnType<typeof setTimeout> | undefined

  const body = make("tbody")
  const found = make("span", { class: "dim", role: "status" })
  const problem = el("div")
  const none = make(
    "p",
    { class: "empty", hidden: "" },
    "No session matches. Clear the search and the filters, or run hermes."
  )
  const head = make(
    "tr",
    {},
    ...heads.map((name) => make("th", { scope: "col" }, name === "" ? el("span", "hidden", "Select") : name))
  )
  const tableNode = make(
    "table",
    { class: "sessions" },
    make("caption", { class: "hidden" }, "Sessions"),
    make("thead", {}, head),
    body
  )
  const compare = make("a", { class: "button", role: "link" }, "Compare")
  const format = choice(formats)
  const form = choice(forms, "", { title: "An archive (.tar.gz) has a file for each session" })
  const download = make("a", { class: "button", download: "" }, "Export")
  const more = button("Show more", () => void load(shown.length), { class: "wideButton" })

  const drawActions = (): void => {
    const [left = "", right = ""] = chosen
    const canCompare = chosen.size === 2
    compare.textContent = canCompare ? "Compare both" : "Compare"
    compare.title = canCompare ? "" : "Select two sessions to compare them"
    compare.setAttribute("aria-disabled", String(!canCompare))
    if (canCompare) compare.href = address("compare", { left, right })
    else compare.removeAttribute("href")
    download.href = StudioClient.exportAddress({ format: format.value, form: form.value }, [...chosen], query)
    download.textContent = chosen.size > 0 ? `Export ${chosen.size} selected` : `Export all ${exact(total)}`
    download.hidden = total === 0
  }

  const renderRow = (session: SessionSummary): HTMLElement => {
    const box = make("input", { type: "checkbox", "aria-label": `Select ${chooseTitle(session)}` })
    box.checked = chosen.has(session.id)
    box.addEventListener("change", () => {
      if (box.checked) chosen.add(session.id)
      else chosen.delete(session.id)
      drawActions()
    })
    const name = make(
      "div",
      { class: "name" },
      link(chooseTitle(session), toSession(session.id)),
      ...renderTags(session)
    )
    const { branch, cwd } = session
    if (cwd !== undefined) {
      const place = `${cwd.split("/").at(-1) ?? cwd}${branch === undefined ? "" : ` (${branch})`}`
      name.append(make("span", { class: "place dim", title: cwd }, place))
    }
    const sub = session.failure ?? (session.title === undefined ? "" : (session.prompt ?? ""))
    if (sub !== "") name.append(el("div", session.failure === undefined ? "sub" : "sub bad", sub))
    return make(
      "tr",
      { "data-id": session.id },
      cell("", box),
      cell("Session", name),
      cell("State", statusChip(session.status)),
      cell("Model", session.models.join(", ")),
      cell("Steps", exact(session.steps)),
      cell("Tokens", tokenFlow(session.tokens)),
      cell("Cost", formatCost(session)),
      cell("Time", duration(session.duration)),
      cell("Errors", session.errors === 0 ? "" : el("span", "bad", exact(session.errors))),
      cell("Active", time(session.activeAt))
    )
  }

  const draw = (): void => {
    body.replaceChildren(...shown.map(renderRow))
    found.textContent =
      shown.length < total
        ? `${exact(shown.length)} of ${exact(total)} sessions`
        : `${exact(total)} ${total === 1 ? "session" : "sessions"}`
    none.hidden = total > 0
    tableNode.hidden = total === 0
    more.hidden = shown.length >= total
    drawActions()
  }

  /** Updates the rows of changed sessions. Requests the list again if a new session may belong to it. */
  const applyChanges = (sessions: ReadonlyArray<SessionSummary>, removed: ReadonlyArray<string>): void => {
    const news = new Map(sessions.map((session) => [session.id, session]))
    const isNew = sessions.some(({ id }) => !shown.some((one) => one.id === id))
    if (isNew || removed.length > 0) {
      waiting ??= setTimeout(() => {
        waiting = undefined
        void load(0, Math.max(pageSize, shown.length))
      }, together)
    }
    shown = shown.map((one) => news.get(one.id) ?? one)
    for (const session of shown) {
      const old = news.has(session.id) ? body.querySelector(`tr[data-id="${CSS.escape(session.id)}"]`) : null
      // A row with the focus is not redrawn now, so that it keeps the focus. It is updated with the next change.
      if (old !== null && !old.contains(document.activeElement)) old.replaceWith(renderRow(session))
    }
  }

  const take = (list: SessionList, offset: number): void => {
    shown = [...shown.slice(0, offset), ...list.sessions]
    total = list.total
    filters.offer(list.known)
    draw()
    // One stream for the lifetime of the list. It continues when the list is read again.
    stop ??= StudioClient.listenToSessions(list.sequence, {
      on: ({ removed, sessions }) => applyChanges(sessions, removed),
      problem: (message) => problem.replaceChildren(notice(message, "bad")),
      lost: (isLost) =>
        problem.replaceChildren(
          ...(isLost
            ? [notice("The studio does not answer: what is shown may be old. It connects again by itself.", "bad")]
            : [])
        )
    })
  }

  const load = async (offset: number, limit = pageSize): Promise<void> => {
    const asked = new URLSearchParams(query)
    asked.set("offset", String(offset))
    asked.set("limit", String(Math.min(limit, 500)))
    try {
      take(await StudioClient.sessions(asked, aborter.signal), offset)
    } catch (error) {
      if (!aborter.signal.aborted) problem.replaceChildren(notice(describeFailure(error), "bad"))
    }
  }

  for (const one of [format, form]) one.addEventListener("change", drawActions)
  more.hidden = true
  download.hidden = true
  drawActions()
  void load(0)
  const actions = make(
    "div",
    { class: "actions" },
    found,
    el("span", "gap"),
    compare,
    field("Format", format),
    field("As", form),
    download
  )
  return {
    element: make(
      "section",
      { class: "panel" },
      actions,
      problem,
      none,
      make("div", { class: "tableBox" }, tableNode),
      more
    ),
    close: () => {
      aborter.abort()
      clearTimeout(waiting)
      stop?.()
    }
  }
}
