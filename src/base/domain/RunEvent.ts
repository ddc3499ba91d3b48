/**
 * Events of a run, in order. The terminal, `stream-json` and every other view are projections of this union
 * (`ARCHITECTURE.md` §4).
 *
 * **Details**
 *
 * Events are plain objects that are cheap to create; each delta is one event. `RunStarted.version` is the version of
 * the union; a reader skips an event with an unknown `_tag`. The Schema is for code that stores or forwards events.
 *
 * **Example** (Streaming the text of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { Agent, type RunEvent, Runtime } from "hermes-effect"
 *
 * const shown = (event: RunEvent.RunEvent): string => event._tag === "TextDelta" ? event.text : ""
 *
 * const program = Agent.stream({ prompt: "Reply exactly hello" }).pipe(
 *   Stream.runFold(() => "", (text, event) => text + shown(event))
 * )
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Runtime.layer())))
 * // => hello
 * ```
 */
import * as Schema from "effect/Schema"
import * as Response from "effect/ai/Response"
import { Spent } from "./Cost.ts"
import { FileChanged } from "./FileChange.ts"
import { SessionId, TurnId } from "./Ids.ts"
import { Question } from "./Question.ts"
import { Usage } from "./Usage.ts"

/**
 * Exit of a run (`hermes-llm.md` §22). A run completed with `text_response` (the model answered), `stop_tool_triggered`
 * (the result of a stop tool is the answer) or `ended_by_middleware` (lifecycle middleware ended it with an answer).
 * `suspended` means that the run waits for answers and continues with `Agent.resume`. Every other value is the reason
 * why the run ended early.
 */
export const Exit = Schema.Literals([
  "text_response",
  "stop_tool_triggered",
  "ended_by_middleware",
  "interrupted_by_user",
  "max_iterations_reached",
  "budget_exhausted",
  "empty_response_exhausted",
  "output_truncated",
  "partial_stream_recovery",
  "invalid_tool_calls",
  "content_filtered",
  "guardrail_halt",
  "suspended"
])
/** Type of {@link Exit}. */
export type Exit = typeof Exit.Type

/**
 * Limit that ended a run: `iterations` is the limit on model calls (exit `max_iterations_reached`); the others end the
 * run with exit `budget_exhausted`. `allowance` is the allowance of the run's tenant.
 */
export const Limit = Schema.Literals(["iterations", "tokens", "cost", "time", "tool_calls", "allowance"])
/** Type of {@link Limit}. */
export type Limit = typeof Limit.Type

/** Outcome of one tool call (`hermes-contract.md` §2.3). */
export const ToolStatus = Schema.Literals(["ok", "error", "blocked", "cancelled"])
/** Type of {@link ToolStatus}. */
export type ToolStatus = typeof ToolStatus.Type

/** First event of every run. */
export const RunStarted = Schema.TaggedStruct("RunStarted", {
  version: Schema.Literal(1),
  sessionId: SessionId,
  turnId: TurnId,
  provider: Schema.String,
  model: Schema.String,
  /** True if the session has earlier messages. */
  resumed: Schema.Boolean
})
/** A step of the loop begins; `step` counts from 1. */
export const StepStarted = Schema.TaggedStruct("StepStarted", { step: Schema.Int })
/** A piece of the visible answer. */
export const TextDelta = Schema.TaggedStruct("TextDelta", { text: Schema.String })
/**
 * Replaces all text shown since the step `stepId` began, including the text of later steps. Later pieces are appended
 * to `text`. `stepId` is the number of the step in `StepStarted`.
 */
export const TextReplaced = Schema.TaggedStruct("TextReplaced", { stepId: Schema.Int, text: Schema.String })
/**
 * The value of the answer as far as it has arrived, in a streamed run with an output schema. `value` is JSON: finished
 * parts, with texts as far as they are known. Each event replaces the one before. The checked value is in
 * `RunFinished`.
 */
export const ValueDelta = Schema.TaggedStruct("ValueDelta", { value: Schema.Unknown })
/** A piece of the model's reasoning. */
export const ReasoningDelta = Schema.TaggedStruct("ReasoningDelta", { text: Schema.String })
/** The model started to write a tool call; the arguments follow in pieces. */
export const ToolInputStarted = Schema.TaggedStruct("ToolInputStarted", { callId: Schema.String, name: Schema.String })
/** A piece of the JSON text of a tool call's arguments. */
export const ToolInputDelta = Schema.TaggedStruct("ToolInputDelta", { callId: Schema.String, text: Schema.String })
/** Several calls of one message are about to run. `reason` states why they run in parallel or one after another. */
export const ToolsScheduled = Schema.TaggedStruct("ToolsScheduled", {
  calls: Schema.Int,
  mode: Schema.Literals(["parallel", "sequential"]),
  reason: Schema.String
})
/** A tool starts to run, with the given arguments. */
export const ToolStarted = Schema.TaggedStruct("ToolStarted", {
  callId: Schema.String,
  name: Schema.String,
  params: Schema.Unknown
})
/** A running tool reports a preliminary result. */
export const ToolProgress = Schema.TaggedStruct("ToolProgress", {
  callId: Schema.String,
  name: Schema.String,
  text: Schema.String
})
/**
 * A tool call has ended, whether or not the tool ran. `output` is the result that the model receives. `result` is the
 * value of a successful result, as JSON of the tool's success schema. It is not enumerable, so that the JSON of the
 * event contains the result once, and absent if a hook or middleware changed the result.
 */
export const ToolFinished = Schema.TaggedStruct("ToolFinished", {
  callId: Schema.String,
  name: Schema.String,
  status: ToolStatus,
  output: Schema.String,
  result: Schema.optionalKey(Schema.Unknown),
  durationMillis: Schema.Finite
})
/** A child agent begins to work on a part of the task; it has a separate session. */
export const SubagentStarted = Schema.TaggedStruct("SubagentStarted", {
  subagentId: Schema.String,
  sessionId: SessionId,
  goal: Schema.String
})
/** A child agent performs an action; `text` describes it in a few words. */
export const SubagentProgress = Schema.TaggedStruct("SubagentProgress", {
  subagentId: Schema.String,
  text: Schema.String
})
/** A child agent has ended: `completed`, `partial`, `failed`, `interrupted`, `timeout` or `error`. */
export const SubagentFinished = Schema.TaggedStruct("SubagentFinished", {
  subagentId: Schema.String,
  sessionId: SessionId,
  goal: Schema.String,
  status: Schema.String,
  toolCount: Schema.Int,
  durationMillis: Schema.Finite,
  /** Usage of the child and its children. */
  usage: Usage
})
/**
 * The run waits, for example before a retry or because of a rate limit. Attempt number `attempt` of `maxAttempts`
 * follows the wait.
 */
export const Waiting = Schema.TaggedStruct("Waiting", {
  reason: Schema.String,
  millis: Schema.Finite,
  attempt: Schema.Int,
  maxAttempts: Schema.optionalKey(Schema.Int)
})
/**
 * The run is still waiting for a model that has been silent for a while; `waitedMillis` counts from the start of the
 * request.
 */
export const Heartbeat = Schema.TaggedStruct("Heartbeat", { waitedMillis: Schema.Finite })
/** The usage of a model call, and its cost if known. */
export const UsageReported = Schema.TaggedStruct("UsageReported", {
  step: Schema.Int,
  provider: Schema.String,
  model: Schema.String,
  usage: Usage,
  cost: Spent,
  /** Origin of a call that is not a step of the run: the name of a side task, or the id of a child agent. */
  origin: Schema.optionalKey(Schema.String)
})
/** Type of {@link UsageReported}. */
export type UsageReported = typeof UsageReported.Type
/** Provider and model of a call. */
const Place = Schema.Struct({ provider: Schema.String, model: Schema.String })
/** A model call continues with another route, because the previous route cannot answer. */
export const RouteChanged = Schema.TaggedStruct("RouteChanged", { from: Place, to: Place, reason: Schema.String })
/** A step of the loop ended. */
export const StepFinished = Schema.TaggedStruct("StepFinished", {
  step: Schema.Int,
  finishReason: Response.FinishReason
})
/** A message for the user that does not affect the run. */
export const Notice = Schema.TaggedStruct("Notice", {
  level: Schema.Literals(["info", "warning"]),
  message: Schema.String
})
/**
 * A tool call waits for an answer, and the run is about to end with the exit `suspended`. The call has no
 * `ToolFinished` until the session is resumed.
 */
export const QuestionAsked = Schema.TaggedStruct("QuestionAsked", { question: Question })
/** Last event of every run that ends with a `RunResult`. A run that fails ends its stream with the error instead. */
export const RunFinished = Schema.TaggedStruct("RunFinished", {
  sessionId: SessionId,
  turnId: TurnId,
  exit: Exit,
  /** Limit that ended the run. */
  limit: Schema.optionalKey(Limit),
  /** Time at which the allowance of the run's tenant is free again, in milliseconds since 1970. */
  freeAt: Schema.optionalKey(Schema.Finite),
  /** Name of the stop tool or of the middleware that ended the run. */
  endedBy: Schema.optionalKey(Schema.String),
  /** True if a hook or `after_agent` replaced the final text. Absent otherwise. */
  responseTransformed: Schema.optionalKey(Schema.Boolean),
  /** The final text; partial if the run did not complete (see {@link isCompleted}). */
  text: Schema.String,
  /** The value of the answer, decoded by the output schema of the run. Absent without one. */
  value: Schema.optionalKey(Schema.Unknown),
  /** Questions that the run waits for. Absent unless the exit is `suspended`. */
  questions: Schema.optionalKey(Schema.Array(Question)),
  steps: Schema.Int,
  provider: Schema.String,
  model: Schema.String,
  usage: Usage,
  /** The sum of the known costs, including children. */
  cost: Spent
})

/** Schema of every event of a run. */
export const RunEvent = Schema.Union([
  RunStarted,
  StepStarted,
  TextDelta,
  TextReplaced,
  ValueDelta,
  ReasoningDelta,
  ToolInputStarted,
  ToolInputDelta,
  ToolsScheduled,
  ToolStarted,
  ToolProgress,
  ToolFinished,
  FileChanged,
  SubagentStarted,
  SubagentProgress,
  SubagentFinished,
  Waiting,
  Heartbeat,
  UsageReported,
  RouteChanged,
  StepFinished,
  Notice,
  QuestionAsked,
  RunFinished
])
/** Any event of a run. */
export type RunEvent = typeof RunEvent.Type

/** Result of a run: its last event. */
export type RunResult = typeof RunFinished.Type

const completedExits: ReadonlySet<string> = new Set<Exit>([
  "text_response",
  "stop_tool_triggered",
  "ended_by_middleware"
])

/** Tests whether an exit, also one from a record or a session, means that the run completed. */
export const isCompletedExit = (exit: string | undefined): boolean => exit !== undefined && completedExits.has(exit)

/** Tests whether the run completed, as opposed to ending early with a partial result. */
export const isCompleted = ({ exit }: RunResult): boolean => isCompletedExit(exit)
