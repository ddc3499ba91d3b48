/**
 * Page of a session: its conversation next to the timeline, its totals, and its scores and notes. Conversation and
 * timeline follow an active run.
 */
import type { Data } from "../../trace/PageData.ts"
import { el, make } from "../../trace/page/Elements.ts"
import { duration, exact } from "../../trace/page/Figures.ts"
import { load, state, update } from "../../trace/page/PageState.ts"
import { go as goToRow } from "../../trace/page/Selection.ts"
import { list, viewer } from "../../trace/page/Skeleton.ts"
import { restore } from "../../trace/page/Tabs.ts"
import type {
  About,
  AgentTotals,
  ModelTotals,
  Patch,
  ReplaySource,
  RunSummary,
  SessionDetail,
  SessionEvent,
  SessionSummary,
  Tail
} from "../StudioApi.ts"
import { openComparison } from "./ComparePage.ts"
import { conversation } from "./ConversationView.ts"
import { feedback, openNote, readOnly } from "./Feedback.ts"
import { openReplay } from "./ReplayForm.ts"
import { address, link, remember, route, toSession } from "./Router.ts"
import { chooseTitle } from "./SessionTable.ts"
import { makeSteeringPanel } from "./SteeringPanel.ts"
import * as StudioClient from "./StudioClient.ts"
import {
  button,
  cacheShare,
  choice,
  formatCost,
  figures,
  describeFailure,
  notice,
  statusChip,
  table,
  time,
  tokenFlow
} from "./Widgets.ts"

const tabs = [
  ["conversation", "Conversation"],
  ["timeline", "Timeline"],
  ["totals", "Totals"],
  ["feedback", "Scores and notes"]
] as const

type Tab = (typeof tabs)[number][0]

const steps: Readonly<Record<string, number>> = { ArrowRight: 1, ArrowLeft: -1 }

const applyTail = <A>(known: ReadonlyArray<A>, { from, items }: Tail<A>): ReadonlyArray<A> => [
  ...known.slice(0, from),
  ...items
]

const applyPatch = <A>(known: ReadonlyArray<A>, patch: Patch<A>): ReadonlyArray<A> => {
  const made = [...applyTail(known, patch)]
  for (const [index, item] of patch.changed) made[index] = item
  return made
}

const updateData = (before: Data, { pool, rows, sums }: SessionEvent): Data => {
  const [run] = before.runs
  return {
    ...before,
    pool: applyTail(before.pool, pool),
    runs: [{ name: run?.name ?? "", sums, rows: applyPatch(run?.rows ?? [], rows) }]
  }
}

/** Creates the table of a session's runs, in which two runs can be selected for comparison. */
const runsTable = (session: string, runs: ReadonlyArray<RunSummary>): HTMLElement => {
  const chosen = new Set<string>()
  const compare = button(
    "Compare two runs",
    () => {
      const [leftRun = "", rightRun = ""] = chosen
      location.hash = address("compare", { left: session, leftRun, right: session, rightRun })
    },
    { class: "small" }
  )
  compare.disabled = true
  const box = (id: string, index: number): HTMLElement => {
    const made = make("input", { type: "checkbox", "aria-label": `Select run ${index + 1}` })
    made.addEventListener("change", () => {
      if (made.checked) chosen.add(id)
      else chosen.delete(id)
      compare.disabled = chosen.size !== 2
    })
    return made
  }
  const numbered = runs.map((run, index) => ({ ...run, index }))
  const all = table("Runs", numbered, [
    ...(runs.length > 1 ? [{ head: "", cell: (run: (typeof numbered)[number]) => box(run.id, run.index) }] : []),
    { head: "Run", cell: ({ index }) => String(index + 1) },
    { head: "Prompt", cell: ({ prompt = "" }) => prompt, left: true },
    { head: "State", cell: ({ status }) => statusChip(status), left: true },
    { head: "Exit", cell: ({ exit = "", failure }) => failure ?? exit, left: true },
    { head: "Model", cell: ({ model }) => model, left: true },
    { head: "Steps", cell: (run) => exact(run.steps) },
    { head: "Tokens", cell: ({ tokens }) => tokenFlow(tokens) },
    { head: "Cost", cell: (run) => formatCost(run) },
    { head: "Time", cell: ({ endedAt, startedAt }) => (endedAt === undefined ? "" : duration(endedAt - startedAt)) },
    { head: "Began", cell: ({ startedAt }) => time(startedAt), left: true }
  ])
  return make("div", {}, all, ...(runs.length > 1 ? [compare] : []))
}

const agentsTable = (agents: ReadonlyArray<AgentTotals>): HTMLElement =>
  table("Agents", agents, [
    {
      head: "Agent",
      cell: ({ name, parent, session }) => (parent === undefined ? name : link(name, toSession(session))),
      left: true
    },
    { head: "State", cell: ({ status }) => statusChip(status), left: true },
    { head: "Calls", cell: ({ modelCalls }) => exact(modelCalls) },
    { head: "Tools", cell: ({ toolCalls }) => exact(toolCalls) },
    { head: "Errors", cell: ({ errors }) => (errors === 0 ? "" : el("span", "bad", exact(errors))) },
    { head: "Tokens", cell: ({ tokens }) => tokenFlow(tokens) },
    { head: "Cached", cell: ({ tokens }) => cacheShare(tokens) },
    { head: "Cost", cell: (agent) => formatCost(agent) },
    { head: "Time", cell: (agent) => duration(agent.duration) }
  ])

const modelsTable = (models: ReadonlyArray<ModelTotals>): HTMLElement =>
  table("Models", models, [
    { head: "Model", cell: ({ model }) => model, left: true },
    { head: "Calls", cell: ({ calls }) => exact(calls) },
    { head: "Errors", cell: ({ errors }) => (errors === 0 ? "" : el("span", "bad", exact(errors))) },
    { head: "Tokens", cell: ({ tokens }) => tokenFlow(tokens) },
    { head: "Cached", cell: ({ tokens }) => cacheShare(tokens) },
    { head: "Cost", cell: (model) => formatCost(model) },
    { head: "p50", cell: ({ latency }) => duration(latency?.p50 ?? 0) },
    { head: "p90", cell: ({ latency }) => duration(latency?.p90 ?? 0) },
    { head: "p99", cell: ({ latency }) => duration(latency?.p99 ?? 0) }
  ])

/** Describes the session of which this one is a copy. */
const describeSource = ({ changed }: ReplaySource, source: Node): ReadonlyArray<Node | string> => {
  if (changed.includes("undo")) return ["copy of ", source, " before the turn that was undone"]
  if (changed.includes("compression")) return ["continues ", source, ", which was compacted"]
  if (changed.length === 0) return ["copy of ", source]
  return ["replay of ", source, ` with another ${changed.join(" and ")}`]
}

/** Creates links to the sessions from which this session was derived, and to the sessions derived from it. */
const kinship = ({ id, parent, replayOf, replays }: SessionSummary): ReadonlyArray<Node | string> => [
  ...(parent === undefined ? [] : ["sub-agent of ", link(parent, toSession(parent))]),
  ...(replayOf === undefined
    ? []
    : [
        ...describeSource(replayOf, link(replayOf.session, toSession(replayOf.session))),
        " (",
        link("compare", address("compare", { left: replayOf.session, right: id })),
        ") "
      ]),
  ...replays.flatMap((replay) => [
    "continued or replayed as ",
    link(replay, toSession(replay)),
    " (",
    link("compare", address("compare", { left: id, right: replay })),
    ") "
  ])
]

/** Creates the page of a session. `about` describes the capabilities of the server. */
export const sessionPage = (
  id: string,
  about: About
): {
  readonly element: HTMLElement
  readonly close: () => void
  readonly selected: () => void
  readonly moved: () => void
} => {
  const aborter = new AbortController()
  let stop = (): void => undefined
  let detail: SessionDetail | undefined

  const toTimeline = (row: number): void => {
    // On a wide screen the timeline is already visible.
    if (buttons.some((one) => one.dataset["tab"] === "timeline" && one.checkVisibility())) choose("timeline")
    goToRow(row)
  }
  const talk = conversation({
    toRow: toTimeline,
    replay: about.write
      ? (message, result) => openReplay({ session: id, message, result, models: about.models })
      : undefined,
    note: about.write ? (position) => openNote(id, position, () => void reread()) : undefined
  })
  const head = make("header", { class: "sessionHead" })
  const problem = el("div")
  const steering = makeSteeringPanel(id)
  const format = choice(
    [
      ["atif", "ATIF"],
      ["jsonl", "JSON Lines"],
      ["sharegpt", "ShareGPT"]
    ],
    "",
    { "aria-label": "Format of the export" }
  )
  const download = make("a", { class: "button", download: "" }, "Export")
  const drawDownload = (): void => {
    download.href = StudioClient.exportAddress({ format: format.value, form: "file" }, [id], new URLSearchParams())
  }
  format.addEventListener("change", drawDownload)
  drawDownload()
  const live = make("span", { class: "live", role: "status" })

  const panels: Readonly<Record<Tab, HTMLElement>> = {
    conversation: make("div", { class: "tabPanel", role: "tabpanel", "aria-label": "Conversation" }, talk.element),
    timeline: make("div", { class: "tabPanel", role: "tabpanel", "aria-label": "Timeline" }, viewer),
    totals: make("div", { class: "tabPanel", role: "tabpanel", "aria-label": "Totals" }),
    feedback: make("div", { class: "tabPanel", role: "tabpanel", "aria-label": "Scores and notes" })
  }
  const left = make("div", { class: "leftSide" }, panels.conversation, panels.totals, panels.feedback)
  const split = make("div", { class: "split" }, left, panels.timeline)
  const buttons = tabs.map(([tab, label], index) => {
    const made = make("button", { type: "button", role: "tab", "data-tab": tab }, label)
    made.addEventListener("click", () => choose(tab))
    made.addEventListener("keydown", ({ key }) => {
      const step = steps[key]
      if (step === undefined) return
      // Tabs that are hidden at this width are skipped.
      const seen = buttons.filter((one) => one.checkVisibility())
      const next = seen[(seen.indexOf(made) + step + seen.length) % seen.length] ?? buttons[index]
      next?.click()
      next?.focus()
    })
    return made
  })
  const bar = make("div", { class: "tabs", role: "tablist", "aria-label": "Views of the session" }, ...buttons)
  const element = make("section", { class: "session" }, head, problem, steering.element, bar, split)

  const choose = (tab: Tab): void => {
    element.dataset["tab"] = tab
    for (const one of buttons) {
      const isChosen = one.dataset["tab"] === tab
      one.setAttribute("aria-selected", String(isChosen))
      one.tabIndex = isChosen ? 0 : -1
    }
    // If both sides are visible, the conversation is selected by default.
    const [first] = buttons
    if (first !== undefined && buttons.every((one) => one.tabIndex < 0 || !one.checkVisibility())) first.tabIndex = 0
    remember({ tab: tab === "conversation" ? "" : tab })
  }

  const drawHead = ({ scores, summary, warnings }: SessionDetail): void => {
    const { branch, cwd, failure, source, startedAt, status } = summary
    const kin = kinship(summary)
    head.replaceChildren(
      make(
        "div",
        { class: "titleLine" },
        el("h1", "", chooseTitle(summary)),
        statusChip(status),
        live,
        el("span", "gap"),
        button("Compare with …", () => openComparison(id)),
        format,
        download
      ),
      make(
        "div",
        { class: "figuresLine" },
        ...figures(summary),
        ...scores
          .filter(({ run }) => run === undefined)
          .slice(0, 4)
          .map(({ name, value }) => el("span", "tag", `${name}: ${String(value)}`))
      ),
      make(
        "div",
        { class: "meta dim" },
        `${id} · ${source}${cwd === undefined ? "" : ` · ${cwd}`}${branch === undefined ? "" : ` (${branch})`} · `,
        time(startedAt),
        ...(kin.length > 0 ? [" · ", ...kin] : [])
      ),
      ...(failure === undefined ? [] : [el("p", "failure", failure)]),
      ...(about.write ? [] : [el("p", "dim hint", readOnly)]),
      ...warnings.map((warning) => notice(warning, "bad"))
    )
    live.textContent = status === "running" ? "● live" : ""
    steering.showRun(about.write && status === "running")
  }

  const drawSides = (shown: SessionDetail): void => {
    const { agents, models, runs } = shown
    // The totals are not redrawn while the reader is selecting runs, because this would clear the selection.
    if (!panels.totals.contains(document.activeElement))
      panels.totals.replaceChildren(
        make(
          "section",
          { class: "panel" },
          runsTable(id, runs),
          ...(agents.length === 0 ? [] : [agentsTable(agents)]),
          ...(models.length === 0 ? [] : [modelsTable(models)])
        )
      )
    // An update of an active run must not discard text that is being typed.
    if (!panels.feedback.contains(document.activeElement)) drawFeedback(shown)
  }
  const drawFeedback = (shown: SessionDetail): void =>
    panels.feedback.replaceChildren(feedback(id, shown, about.write, () => void reread()))

  const reread = async (): Promise<void> => {
    const now = await StudioClient.detail(id, aborter.signal)
    detail = detail === undefined ? now : { ...detail, summary: now.summary, scores: now.scores, notes: now.notes }
    drawHead(detail)
    drawFeedback(detail)
  }

  const follow = (event: SessionEvent): void => {
    if (detail === undefined) return
    const { messages, pool: _, rows: __, sums: ___, ...rest } = event
    const isAtEnd = list.scrollHeight - list.scrollTop - list.clientHeight < 60 && list.scrollHeight > list.clientHeight
    detail = { ...rest, data: updateData(detail.data, event), messages: applyTail(detail.messages, messages) }
    drawHead(detail)
    drawSides(detail)
    talk.update(messages)
    update(detail.data)
    if (isAtEnd) list.scrollTop = list.scrollHeight
  }

  const show = (given: SessionDetail): void => {
    detail = given
    document.title = `${chooseTitle(given.summary)} · hermes studio`
    drawHead(given)
    drawSides(given)
    talk.update({ from: 0, items: given.messages })
    load(given.data)
    restore()
    if (given.summary.status === "running") {
      talk.toEnd()
      list.scrollTop = list.scrollHeight
    }
    stop = StudioClient.listenToSession(id, given.sequence, {
      on: follow,
      questions: steering.showQuestions,
      problem: (message) => problem.replaceChildren(notice(message, "bad")),
      lost: (isLost) => {
        problem.replaceChildren(
          ...(isLost
            ? [notice("The studio does not answer: what is shown may be old. It connects again by itself.", "bad")]
            : [])
        )
      }
    })
  }

  const chooseAsked = (): void => {
    const asked = route().parameters.get("tab")
    choose(tabs.find(([tab]) => tab === asked)?.[0] ?? "conversation")
  }

  head.append(notice("Reading the session …"))
  chooseAsked()
  StudioClient.detail(id, aborter.signal)
    .then(show)
    .catch((error: unknown) => {
      if (!aborter.signal.aborted)
        head.replaceChildren(notice(describeFailure(error), "bad"), link("Back to the list", address("")))
    })
  return {
    element,
    selected: () => talk.mark(state.selected),
    moved: () => {
      chooseAsked()
      if (detail !== undefined) restore()
    },
    close: () => {
      aborter.abort()
      stop()
    }
  }
}
