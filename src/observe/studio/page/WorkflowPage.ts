/**
 * The page of a workflow execution: the graph of its steps from top to bottom, with the branches of a step side by
 * side and the state of each step.
 */
import { el, make } from "../../trace/page/Elements.ts"
import { duration } from "../../trace/page/Figures.ts"
import type { WorkflowExecutionView, WorkflowStepView } from "../WorkflowApi.ts"
import { address, link, toSession } from "./Router.ts"
import * as StudioClient from "./StudioClient.ts"
import { describeFailure, notice } from "./Widgets.ts"

/** Prefix of the sessions of executions. */
const prefix = "workflow_"

/** Tests whether a session is one of a workflow execution. */
export const isWorkflowSession = (id: string): boolean => id.startsWith(prefix)

/** Interval in milliseconds at which a running execution is read again. */
const interval = 1_000

const glyphs = { done: "✓", failed: "✕", running: "●", waiting: "?", open: "·" } as const
const words = { done: "done", failed: "failed", running: "running", waiting: "waits", open: "not reached" } as const

/** Steps that contain steps, by the word above each of their branches. */
const containers: Readonly<Record<string, (branch: string) => string>> = {
  all: (branch) => branch,
  branch: (branch) => branch,
  forEach: () => "for each",
  loop: () => "repeats",
  handoff: (branch) => branch
}

const describePlaces = ({ places }: WorkflowStepView): ReadonlyArray<Node> =>
  places.map(({ attempts, endedAt, message, path, session, startedAt, state }) => {
    const time = endedAt === undefined ? "" : duration(endedAt - startedAt)
    const facts = [places.length > 1 ? path : "", time, attempts > 1 ? `${attempts} attempts` : "", message ?? ""]
    const line = make("div", { class: `stepPlace ${state}` }, facts.filter((fact) => fact !== "").join(" · "))
    if (session !== undefined) line.append(" ", link("conversation", toSession(session)))
    return line
  })

/** Draws one step, and the steps inside it. */
const drawStep = (step: WorkflowStepView, all: ReadonlyArray<WorkflowStepView>): HTMLElement => {
  const { detail, kind, name, state = "open" } = step
  const title = make(
    "div",
    { class: "stepTitle" },
    make("span", { class: "stepGlyph", "aria-hidden": "true" }, glyphs[state]),
    make("strong", {}, name),
    make("span", { class: "dim" }, kind === "step" ? "" : ` ${kind}`),
    make("span", { class: "stepState" }, words[state])
  )
  const box = make("div", { class: `step ${state}`, "data-step": name, "data-state": state }, title)
  if (detail !== undefined) box.append(el("div", "dim", detail))
  box.append(...describePlaces(step))
  const inner = all.filter(({ within }) => within?.step === name)
  if (inner.length > 0) {
    const branches = [...new Set(inner.map(({ within }) => within?.branch ?? ""))]
    const columns = branches.map((branch) =>
      make(
        "div",
        { class: "stepBranch" },
        make("div", { class: "branchLabel dim" }, containers[kind]?.(branch) ?? branch),
        drawSequence(
          inner.filter(({ within }) => within?.branch === branch),
          all
        )
      )
    )
    box.append(make("div", { class: "stepBranches" }, ...columns))
  }
  return box
}

/** Draws steps one below the other, with an arrow between two of them. */
const drawSequence = (steps: ReadonlyArray<WorkflowStepView>, all: ReadonlyArray<WorkflowStepView>): HTMLElement =>
  make("ol", { class: "steps" }, ...steps.map((step) => make("li", {}, drawStep(step, all))))

const drawExecution = (id: string, view: WorkflowExecutionView): ReadonlyArray<Node> => {
  const { endedAt, startedAt, state, steps, version, workflow } = view
  const time = endedAt === undefined ? "" : ` in ${duration(endedAt - startedAt)}`
  return [
    make(
      "header",
      { class: "sessionHead" },
      make("h1", {}, workflow),
      make("span", { class: `workflowState ${state}`, role: "status" }, `${state}${time}`),
      make("span", { class: "dim" }, `version ${version} · execution ${id.slice(prefix.length)}`)
    ),
    drawSequence(
      steps.filter(({ within }) => within === undefined),
      steps
    )
  ]
}

/** Creates the page of an execution, and reads it again until the execution is over. */
export const workflowPage = (id: string): { readonly element: HTMLElement; readonly close: () => void } => {
  const element = make("section", { class: "workflow" })
  const aborter = new AbortController()
  let timer: ReturnType<typeof setTimeout> | undefined
  const redrawPage = async (): Promise<void> => {
    try {
      const view = await StudioClient.workflow(id, aborter.signal)
      document.title = `${view.workflow} · hermes studio`
      element.replaceChildren(...drawExecution(id, view))
      if (view.endedAt === undefined) timer = setTimeout(() => void redrawPage(), interval)
    } catch (error) {
      if (aborter.signal.aborted) return
      element.replaceChildren(notice(describeFailure(error), "bad"), link("Sessions", address("")))
    }
  }
  void redrawPage()
  return {
    element,
    close: () => {
      clearTimeout(timer)
      aborter.abort()
    }
  }
}
