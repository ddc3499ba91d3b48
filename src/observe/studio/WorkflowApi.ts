/** Executions of workflows in the interface of the studio. Types alone. */

/** A step of a workflow, with its state in an execution. */
export interface WorkflowStepView {
  readonly name: string
  readonly kind: string
  readonly detail?: string
  /** The step and the branch that contain it. */
  readonly within?: { readonly step: string; readonly branch: string }
  /** State over all places of the step. Absent if it was not reached. */
  readonly state?: "running" | "waiting" | "done" | "failed"
  /** Places at which the step ran: one for each round and each element of the steps that contain it. */
  readonly places: ReadonlyArray<{
    readonly path: string
    readonly state: "running" | "waiting" | "done" | "failed"
    readonly attempts: number
    /** Epoch milliseconds. */
    readonly startedAt: number
    readonly endedAt?: number
    /** Reason for a failure, or the chosen branch. */
    readonly message?: string
    /** Session of a step that is an agent. */
    readonly session?: string
  }>
}

/** An execution of a workflow. */
export interface WorkflowExecutionView {
  readonly workflow: string
  readonly version: number
  readonly state: "running" | "waiting" | "finished" | "failed" | "cancelled"
  readonly startedAt: number
  readonly endedAt?: number
  /** Steps of the definition, in order. */
  readonly steps: ReadonlyArray<WorkflowStepView>
}
