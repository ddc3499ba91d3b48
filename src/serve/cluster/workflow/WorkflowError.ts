/**
 * Errors of workflows. Each `message` is one line that states the cause and the remedy.
 */
import * as Schema from "effect/Schema"

/** Error of a step that could not produce its value: the failure of an agent, or a defect of the step's own code. */
export class StepFailed extends Schema.TaggedError<StepFailed>("hermes-effect/StepFailed")("StepFailed", {
  /** Place of the step, such as `triage` or `answers[2]/draft`. */
  step: Schema.String,
  /** Tag of the agent's error, the exit of an incomplete run, or `defect`. */
  reason: Schema.String,
  message: Schema.String
}) {}

/** Error of a loop, or of a chain of handoffs, that reached its limit before its condition was met. */
export class StepLimitReached extends Schema.TaggedError<StepLimitReached>("hermes-effect/StepLimitReached")(
  "StepLimitReached",
  { step: Schema.String, limit: Schema.Int, message: Schema.String }
) {}

/** Error raised when a workflow is built whose definition does not fit the executions that are still running. */
export class WorkflowChanged extends Schema.TaggedError<WorkflowChanged>("hermes-effect/WorkflowChanged")(
  "WorkflowChanged",
  { workflow: Schema.String, version: Schema.Int, executions: Schema.Int, message: Schema.String }
) {}

/** Error raised when an execution is unknown, or belongs to another workflow. */
export class ExecutionNotFound extends Schema.TaggedError<ExecutionNotFound>("hermes-effect/ExecutionNotFound")(
  "ExecutionNotFound",
  { id: Schema.String, message: Schema.String }
) {}

/** Error of an execution that was cancelled. */
export class ExecutionCancelled extends Schema.TaggedError<ExecutionCancelled>("hermes-effect/ExecutionCancelled")(
  "ExecutionCancelled",
  { id: Schema.String, message: Schema.String }
) {}

/**
 * Error raised when an answer has no effect: the question is unknown, was answered before, belongs to an execution that
 * ended, or does not accept a value of this form.
 */
export class AnswerRefused extends Schema.TaggedError<AnswerRefused>("hermes-effect/AnswerRefused")("AnswerRefused", {
  id: Schema.String,
  question: Schema.String,
  reason: Schema.Literals(["unknown", "answered", "late", "invalid"]),
  message: Schema.String
}) {}
