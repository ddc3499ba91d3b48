/**
 * Stored events of a run: complete, redacted once, in the order in which they happened. Traces, trajectories, usage and
 * the views of a stored session are pure functions of them.
 *
 * **Details**
 *
 * Each message is recorded once. A model call references its messages, and its tools by the hash of their definitions,
 * so that a step adds only new data and not the whole history again. Times are epoch milliseconds. `version` is the
 * version of the union; a reader skips and reports an event with an unknown `_tag`.
 *
 * **Example** (Reading the prompt and the result of a run)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Stream from "effect/Stream"
 * import { Agent, RunRecord, Runtime } from "hermes-effect"
 * import type { RecordEvent } from "hermes-effect/observability"
 *
 * const told = ({ event }: RecordEvent.Entry): ReadonlyArray<string> =>
 *   event._tag === "AttemptStarted" ? [event.route.model] : event._tag === "RunEnded" ? [event.exit] : []
 *
 * const program = Effect.gen(function*() {
 *   yield* Agent.run({ prompt: "Reply exactly hello" })
 *   return yield* RunRecord.RunRecord.use((record) => Stream.runCollect(record.read()))
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).flatMap(told))
 * // => [ 'offline', 'text_response' ]
 * ```
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import { FileChanged, FilesReverted } from "./FileChange.ts"
import { Parts as CostParts, PromptRates, Spent } from "./Cost.ts"
import { SessionId, TurnId } from "./Ids.ts"
import * as RunEvent from "./RunEvent.ts"
import { Usage } from "./Usage.ts"
import * as WorkflowEvents from "./WorkflowEvents.ts"

/** The version of the events that are written. */
export const version = 1

/**
 * Writer of a message: the user, the model, a tool, a child agent that reports, or the runtime (the system prompt,
 * nudges, the results of interrupted calls, context that plugins add).
 */
export const Origin = Schema.Literals(["user", "model", "tool", "child", "runtime"])
/** Type of {@link Origin}. */
export type Origin = typeof Origin.Type

/**
 * Reference to messages of a model call: the position of a stored message in the session, a range as first and last
 * position, or the id of a message that is not stored.
 */
export const Reference = Schema.Union([Schema.Int, Schema.Tuple([Schema.Int, Schema.Int]), Schema.String])
/** Type of {@link Reference}. */
export type Reference = typeof Reference.Type

/** Provider, model and address of an attempt. */
export const RoutePlace = Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  apiMode: Schema.String,
  baseUrl: Schema.optionalKey(Schema.String)
})

/** First event of every run. */
export const RunStarted = Schema.TaggedStruct("RunStarted", {
  version: Schema.Int,
  /** Version of the runtime; absent in records of earlier versions. */
  agentVersion: Schema.optionalKey(Schema.String),
  /** Origin of the session: `cli`, `oneshot`, `batch`, `subagent`, `library`, … */
  source: Schema.String,
  platform: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  cwd: Schema.String,
  resumed: Schema.Boolean,
  /** Tenant for which the run works; absent without a tenant. */
  tenant: Schema.optionalKey(Schema.String),
  /** Span in which the run was started, in the format of W3C Trace Context; absent if tracing is off. */
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String),
  /** The tool call that started the child agent; absent if the run is not a child's. */
  parent: Schema.optionalKey(
    Schema.Struct({
      sessionId: SessionId,
      turnId: TurnId,
      callId: Schema.optionalKey(Schema.String),
      subagentId: Schema.String,
      goal: Schema.String,
      depth: Schema.Int
    })
  )
})

/** The message of another session that was copied. */
export const Original = Schema.Struct({
  sessionId: SessionId,
  position: Schema.Int,
  /**
   * True if the copy differs from the original: results, long arguments or images were omitted, or a replay changed a
   * result.
   */
  changed: Schema.optionalKey(Schema.Boolean)
})
/** Type of {@link Original}. */
export type Original = typeof Original.Type

/**
 * A message was added. A message with a `position` is part of the session; a message with an `id` is sent but never
 * stored. `message` is `undefined` if the message stored in the session can no longer be read.
 */
export const MessageAppended = Schema.TaggedStruct("MessageAppended", {
  origin: Origin,
  position: Schema.optionalKey(Schema.Int),
  /** The original of a message that was copied from another session when this session began. */
  copyOf: Schema.optionalKey(Original),
  id: Schema.optionalKey(Schema.String),
  /** Id of the request that the message answers. */
  apiRequestId: Schema.optionalKey(Schema.String),
  message: Schema.UndefinedOr(Prompt.Message)
})

/** Tool definitions, which model calls reference by hash. Written before the first call of a run that uses them. */
export const ToolsOffered = Schema.TaggedStruct("ToolsOffered", {
  hash: Schema.String,
  definitions: Schema.Array(
    Schema.Struct({ name: Schema.String, description: Schema.String, parameters: Schema.Unknown })
  )
})

/** A request is sent to a provider. */
export const AttemptStarted = Schema.TaggedStruct("AttemptStarted", {
  apiRequestId: Schema.String,
  step: Schema.Int,
  /** Number of the attempt, counted from 0 over all routes of the call. */
  attempt: Schema.Int,
  /** Name of the side task that makes the request (a title, a judgement, a summary); absent for a step of the run. */
  task: Schema.optionalKey(Schema.String),
  /**
   * Id of the tool call whose tool or approval started the side task; absent for other side tasks and for a step of the
   * run.
   */
  callId: Schema.optionalKey(Schema.String),
  route: RoutePlace,
  messages: Schema.Array(Reference),
  /** Hash of the request's tool definitions. */
  tools: Schema.optionalKey(Schema.String),
  /** The prepared request without its messages and tools, with the field names of the provider. */
  parameters: Schema.Record(Schema.String, Schema.Unknown),
  /**
   * The whole request, if middleware rewrote it. In this case the references do not describe the request that was sent.
   */
  rewritten: Schema.optionalKey(Schema.Unknown),
  /** Lifetime of the cached prefix that the request asks for; absent if it asks for none. */
  cacheTtl: Schema.optionalKey(Schema.Literals(["5m", "1h"])),
  /** Number of characters that were already received, if this request continues an answer that broke off. */
  continues: Schema.optionalKey(Schema.Int)
})

/** A part of an answer as the provider sent it. `params` is the parsed JSON, or the raw text if it is not JSON. */
export const AnswerPart = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("reasoning"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("tool-call"), id: Schema.String, name: Schema.String, params: Schema.Unknown }),
  Schema.Struct({ type: Schema.Literal("file"), mediaType: Schema.String })
])
/** Type of {@link AnswerPart}. */
export type AnswerPart = typeof AnswerPart.Type

/** Failure of an attempt or a run. */
export const Failure = Schema.Struct({
  /** Class name of the error. */
  type: Schema.String,
  message: Schema.String,
  /** HTTP status of the provider. */
  status: Schema.optionalKey(Schema.Int),
  /** Classification of the failure: `rate_limit`, `overloaded`, `auth`, … */
  reason: Schema.optionalKey(Schema.String),
  retryable: Schema.optionalKey(Schema.Boolean)
})

/** An attempt has ended: it was answered, failed, or was interrupted. */
export const AttemptEnded = Schema.TaggedStruct("AttemptEnded", {
  apiRequestId: Schema.String,
  status: Schema.Literals(["answered", "failed", "interrupted"]),
  /** Time of the first piece of the answer. */
  firstPartAt: Schema.optionalKey(Schema.Finite),
  /** The whole answer, or the received part of an answer that broke off. */
  answer: Schema.Array(AnswerPart),
  /** The model that answered, as the provider names it. */
  model: Schema.optionalKey(Schema.String),
  /** The provider's id of the answer. */
  responseId: Schema.optionalKey(Schema.String),
  finishReason: Schema.optionalKey(Response.FinishReason),
  usage: Schema.optionalKey(Usage),
  cost: Schema.optionalKey(Spent),
  /** The cost by kind of tokens, if it was computed from the price list. */
  costParts: Schema.optionalKey(CostParts),
  /** The prices of the model's prompt tokens; absent if they are unknown or included in a subscription. */
  promptRates: Schema.optionalKey(PromptRates),
  failure: Schema.optionalKey(Failure)
})

/**
 * Calls of an answer were changed before the answer was stored: a name or the arguments were repaired, or a duplicate
 * call was omitted.
 */
export const AnswerAdapted = Schema.TaggedStruct("AnswerAdapted", {
  apiRequestId: Schema.String,
  changes: Schema.Array(Schema.String)
})

/** A tool call starts. `args` are the initial arguments; approvals and middleware may still change them. */
export const CallStarted = Schema.TaggedStruct("CallStarted", {
  callId: Schema.String,
  name: Schema.String,
  args: Schema.Unknown,
  apiRequestId: Schema.String,
  /** True if other calls of the same answer run at the same time. */
  parallel: Schema.Boolean,
  /** Id of the call whose tool (a script) made this call; absent if the model made it. */
  parentCallId: Schema.optionalKey(Schema.String)
})

/**
 * A tool call has ended, whether or not the tool ran. Its result is the tool message of the same `callId`, or `output`.
 */
export const CallEnded = Schema.TaggedStruct("CallEnded", {
  callId: Schema.String,
  name: Schema.String,
  status: RunEvent.ToolStatus,
  /** True if the tool ran. */
  ran: Schema.Boolean,
  /** Reason why the tool did not run: `plugin_block`, `approval_denied`, `unknown_tool`, `malformed_arguments`, … */
  reason: Schema.optionalKey(Schema.String),
  durationMillis: Schema.Finite,
  /** Id of the parent call, as in `CallStarted`. */
  parentCallId: Schema.optionalKey(Schema.String),
  /** Result of a call that was made by a tool; such a result is not a message. */
  output: Schema.optionalKey(Schema.String)
})

/** A tool sends a request to an MCP server. */
export const McpRequested = Schema.TaggedStruct("McpRequested", {
  callId: Schema.String,
  /** Name of the server in the settings. */
  server: Schema.String,
  /** Method of the request: `tools/call`, `resources/read`, … */
  method: Schema.String,
  /** The server's name for its tool or prompt. */
  target: Schema.optionalKey(Schema.String),
  /** Resource that is read. */
  uri: Schema.optionalKey(Schema.String),
  /** Revision of the protocol. */
  protocol: Schema.String,
  /** Session id assigned by a server that is reached by address, if any. */
  session: Schema.optionalKey(Schema.String),
  /** Address of the server; absent for a server that is a program. */
  address: Schema.optionalKey(Schema.String),
  port: Schema.optionalKey(Schema.Int)
})

/** Type of {@link McpRequested}. */
export type McpRequested = typeof McpRequested.Type

/** A call that needs approval was approved or denied. */
export const ApprovalDecided = Schema.TaggedStruct("ApprovalDecided", {
  callId: Schema.String,
  /** Subject of the request: the command, the path, the host. */
  subject: Schema.String,
  /** Decision: `once`, `session`, `always`, `deny`, `timeout`, … */
  choice: Schema.String,
  /** Readable reasons for the question. */
  description: Schema.optionalKey(Schema.String),
  /** Keys under which an answer for the session is stored. */
  patterns: Schema.optionalKey(Schema.Array(Schema.String)),
  /** User interface in which the question was shown. */
  surface: Schema.optionalKey(Schema.String),
  /** `aux_llm` if a model decided. */
  decidedBy: Schema.optionalKey(Schema.String),
  waitedMillis: Schema.Finite
})

/**
 * The conversation as it is sent to the model was rewritten: it was compacted or trimmed, or the run removed a message.
 */
export const ContextRewritten = Schema.TaggedStruct("ContextRewritten", {
  reason: Schema.String,
  /** Numbers of messages before and after. */
  before: Schema.Int,
  after: Schema.Int,
  /** The session whose compacted conversation this session continues, if any. */
  source: Schema.optionalKey(SessionId),
  /** Positions of the removed messages: in `source`, or in the session itself if `source` is absent. */
  removed: Schema.optionalKey(Schema.Array(Reference))
})

/** A child agent starts. Its events are recorded under its own session and turn. */
export const ChildStarted = Schema.TaggedStruct("ChildStarted", {
  callId: Schema.optionalKey(Schema.String),
  subagentId: Schema.String,
  sessionId: SessionId,
  goal: Schema.String,
  role: Schema.String,
  background: Schema.Boolean
})

/** A child agent has ended. */
export const ChildEnded = Schema.TaggedStruct("ChildEnded", {
  subagentId: Schema.String,
  sessionId: SessionId,
  /** Status of the child: `completed`, `partial`, `failed`, `interrupted`, `timeout`, `error` or `suspended`. */
  status: Schema.String,
  summary: Schema.optionalKey(Schema.String),
  durationMillis: Schema.Finite
})

/** Entries were lost because the record could not be written. */
export const Gap = Schema.TaggedStruct("Gap", { entries: Schema.Int, reason: Schema.String })

/** Calls of a middleware entry in a run. */
export const MiddlewareHealth = Schema.Struct({
  /** Kind of the entry, or the phase of a lifecycle method. */
  kind: Schema.String,
  name: Schema.String,
  calls: Schema.Int,
  faults: Schema.Int,
  /** Time of the middleware itself, in milliseconds, without the calls that it makes. */
  ownMillis: Schema.Finite
})

/** See {@link MiddlewareHealth}. */
export type MiddlewareHealth = typeof MiddlewareHealth.Type

/** Last event of every run, unless the process died during the run. */
export const RunEnded = Schema.TaggedStruct("RunEnded", {
  /** Exit of a run with a result; `interrupted` or `failed` for a run without a result. */
  exit: Schema.Union([RunEvent.Exit, Schema.Literals(["interrupted", "failed"])]),
  limit: Schema.optionalKey(RunEvent.Limit),
  /** Name of the stop tool or of the middleware that ended the run. */
  endedBy: Schema.optionalKey(Schema.String),
  /** True if a hook or `after_agent` replaced the final text. Absent otherwise. */
  responseTransformed: Schema.optionalKey(Schema.Boolean),
  /** The final text as the user received it. */
  text: Schema.optionalKey(Schema.String),
  steps: Schema.Int,
  usage: Usage,
  cost: Spent,
  failure: Schema.optionalKey(Failure),
  /** Health of the middleware that the run called, absent without middleware. */
  middleware: Schema.optionalKey(Schema.Array(MiddlewareHealth))
})

/** A session ended because the user switched to another session or the program ended. A later run reopens it. */
export const SessionEnded = Schema.TaggedStruct("SessionEnded", {
  /** Reason: `shutdown`, `session_boundary`, `new_session`, `session_expired` or `compression`. */
  reason: Schema.String
})

/**
 * The session replays another session, whose messages are copied before its first run. The copied messages follow under
 * the same turn id. If the conversation was compacted, a `ContextRewritten` follows too.
 */
export const ReplayBegun = Schema.TaggedStruct("ReplayBegun", {
  /** The session that is replayed. */
  source: SessionId,
  /** Position in `source` of the message at which this session starts to differ. */
  position: Schema.Int,
  /**
   * Differences from `source`: `prompt`, `model`, `result`; `compression` if this session continues from the compacted
   * conversation.
   */
  changed: Schema.Array(Schema.String)
})

/**
 * A person or a program scored a session or one of its runs. A later score with the same name and run replaces this
 * score.
 */
export const Scored = Schema.TaggedStruct("Scored", {
  name: Schema.String,
  /** Value of the score; `null` removes the score. */
  value: Schema.NullOr(Schema.Union([Schema.Finite, Schema.String, Schema.Boolean])),
  run: Schema.optionalKey(TurnId),
  comment: Schema.optionalKey(Schema.String)
})

/** A note on a session, on one of its runs, or on the message at a position. */
export const Noted = Schema.TaggedStruct("Noted", {
  text: Schema.String,
  run: Schema.optionalKey(TurnId),
  position: Schema.optionalKey(Schema.Int)
})

/** Schema of every event of the record. */
export const RecordEvent = Schema.Union([
  RunStarted,
  MessageAppended,
  ToolsOffered,
  AttemptStarted,
  AttemptEnded,
  AnswerAdapted,
  RunEvent.Waiting,
  RunEvent.RouteChanged,
  CallStarted,
  CallEnded,
  McpRequested,
  FileChanged,
  FilesReverted,
  ApprovalDecided,
  ContextRewritten,
  ChildStarted,
  ChildEnded,
  RunEvent.Notice,
  Gap,
  RunEnded,
  SessionEnded,
  ReplayBegun,
  Scored,
  Noted,
  ...WorkflowEvents.all
])
/** Any event of the record. */
export type RecordEvent = typeof RecordEvent.Type

/** Kind of an event, for use in filters. */
export type Kind = RecordEvent["_tag"]

/** An event with its run, its session and its time. */
export const Entry = Schema.Struct({
  sessionId: SessionId,
  turnId: TurnId,
  /** Time of the event, in epoch milliseconds. */
  at: Schema.Finite,
  event: RecordEvent
})
/** Type of {@link Entry}. */
export type Entry = typeof Entry.Type
