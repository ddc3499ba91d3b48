/**
 * An execution of a workflow as its graph with the state of each step, from the run record. Pure.
 */
import type { Entry, RecordEvent } from "../../base/domain/RecordEvent.ts"
import type { WorkflowExecutionView, WorkflowStepView } from "./WorkflowApi.ts"

/** Kinds of the entries of workflows. */
export const kinds = ["WorkflowStarted", "StepChanged", "WorkflowEnded"] as const satisfies ReadonlyArray<
  RecordEvent["_tag"]
>

type Change = Extract<RecordEvent, { readonly _tag: "StepChanged" }>
type Place = WorkflowStepView["places"][number]

/** Adds a change to the place of a step. A place that begins again is open again. */
const changePlace = (
  before: Place | undefined,
  { attempts, message, path, state, stepSession }: Change,
  at: number
): Place => ({
  path,
  state,
  attempts,
  startedAt: before?.startedAt ?? at,
  ...(state === "done" || state === "failed" ? { endedAt: at } : {}),
  ...(message === undefined ? {} : { message }),
  ...(stepSession === undefined ? {} : { session: stepSession })
})

const order = ["failed", "waiting", "running", "done"] as const

/** Gives a step without places, such as a loop, the state of the steps inside it. */
const addInnerStates = (steps: ReadonlyArray<WorkflowStepView>): ReadonlyArray<WorkflowStepView> => {
  const known = new Map<string, WorkflowStepView["state"]>()
  // A step precedes those inside it.
  const reversed = steps.toReversed().map((step): WorkflowStepView => {
    const inner = steps.flatMap((one) => (one.within?.step === step.name ? [known.get(one.name)] : []))
    const found = step.state ?? order.find((one) => inner.includes(one))
    const state = step.state === undefined && found === "done" && inner.includes(undefined) ? "running" : found
    known.set(step.name, state)
    return state === undefined ? step : { ...step, state }
  })
  return reversed.toReversed()
}

/** Returns the view of an execution; `undefined` if the entries are not of one. */
export const makeWorkflowView = (entries: ReadonlyArray<Entry>): WorkflowExecutionView | undefined => {
  const begin = entries.find(({ event }) => event._tag === "WorkflowStarted")
  const last = entries.findLast(({ event }) => event._tag === "WorkflowStarted")
  if (begin === undefined || last?.event._tag !== "WorkflowStarted") return undefined
  const places = new Map<string, Map<string, Place>>()
  let end: { readonly state: WorkflowExecutionView["state"]; readonly at: number } | undefined
  for (const { at, event } of entries) {
    if (event._tag === "WorkflowEnded") end = { state: event.state, at }
    if (event._tag !== "StepChanged") continue
    const own = places.get(event.name) ?? new Map<string, Place>()
    places.set(event.name, own)
    own.set(event.path, changePlace(own.get(event.path), event, at))
  }
  const { steps, version, workflow } = last.event
  const own = steps.map((step): WorkflowStepView => {
    const found = Array.from(places.get(step.name)?.values() ?? [])
    const state = order.find((one) => found.some((place) => place.state === one))
    return { ...step, ...(state === undefined ? {} : { state }), places: found }
  })
  const views = addInnerStates(own)
  const isWaiting = views.some(({ state }) => state === "waiting") && !views.some(({ state }) => state === "running")
  return {
    workflow,
    version,
    state: end?.state ?? (isWaiting ? "waiting" : "running"),
    startedAt: begin.at,
    ...(end === undefined ? {} : { endedAt: end.at }),
    steps: views
  }
}
