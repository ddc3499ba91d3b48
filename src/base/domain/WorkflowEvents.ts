/** Entries of the run record about executions of workflows. */
import * as Schema from "effect/Schema"

/** A step in the definition of a workflow, with the step and the branch that contain it. */
const WorkflowStep = Schema.Struct({
  name: Schema.String,
  /** Kind of the step: `step`, `agent`, `question`, `branch`, `all`, `loop`, … */
  kind: Schema.String,
  detail: Schema.optionalKey(Schema.String),
  within: Schema.optionalKey(Schema.Struct({ step: Schema.String, branch: Schema.String }))
})
/** Type of {@link WorkflowStep}. */
export type WorkflowStep = typeof WorkflowStep.Type

/** An execution of a workflow starts. Its entries are in a session of the source `workflow`. */
const WorkflowStarted = Schema.TaggedStruct("WorkflowStarted", {
  workflow: Schema.String,
  version: Schema.Int,
  /** Steps of the definition, in order. */
  steps: Schema.Array(WorkflowStep)
})

/** A step of an execution of a workflow begins, waits for an answer or a time, or ends. */
const StepChanged = Schema.TaggedStruct("StepChanged", {
  /** Place of the step: its name, after the steps that contain it, with the round or the index of each. */
  path: Schema.String,
  name: Schema.String,
  kind: Schema.String,
  state: Schema.Literals(["running", "waiting", "done", "failed"]),
  attempts: Schema.Int,
  /** Reason for a failure, or the chosen branch. */
  message: Schema.optionalKey(Schema.String),
  /** Session of a step that is an agent. */
  stepSession: Schema.optionalKey(Schema.String)
})

/** An execution of a workflow ends. */
const WorkflowEnded = Schema.TaggedStruct("WorkflowEnded", {
  state: Schema.Literals(["finished", "failed", "cancelled"])
})

/** Schemas of these entries. */
export const all = [WorkflowStarted, StepChanged, WorkflowEnded] as const

/** An entry about an execution of a workflow. */
export type WorkflowEvent = (typeof all)[number]["Type"]

const tags: ReadonlySet<string> = new Set<WorkflowEvent["_tag"]>(["WorkflowStarted", "StepChanged", "WorkflowEnded"])

/** Tests whether an event of the record is about an execution of a workflow. */
export const isWorkflowEvent = <Event extends { readonly _tag: string }>(
  event: Event
): event is Extract<Event, WorkflowEvent> => tags.has(event._tag)
