/**
 * Facts of a run as stored: complete, redacted once, in the order in which they happened. Traces, trajectories, usage
 * and the views of a stored session are pure functions of them.
 *
 * **Details**
 *
 * Each message is recorded once. A model call references the messages that it was sent, and its tools by the hash of
 * their definitions, so that a step adds only new data and not the whole history again. Times are epoch milliseconds.
 * `version` is the version of the union; a reader skips and reports an event whose `_tag` it does not know.
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
import { Parts as CostParts, Spent } from "./Cost.ts"
import { SessionId, TurnId } from "./Ids.ts"
import * as RunEvent from "./RunEvent.ts"
import { Usage } from "./Usage.ts"

/** The version of the events that are written. */
export const version = 1

/**
 * Writer of a message: the user, the model, a tool, a child agent that reports, or the runtime (the system prompt,
 * nudges, the close of a call that was cut, context that plugins add).
 */
export const Origin = Schema.Literals(["user", "model", "tool", "child", "runtime"])
/** Type of {@link Origin}. */
export type Origin = typeof Origin.Type

/**
 * Messages of a model call: a stored message by its position in the session, a range of them by the first and the last
 * position, any other by its id.
 */
export const Reference = Schema.Union([Schema.Int, Schema.Tuple([Schema.Int, Schema.Int]), Schema.String])
/** Type of {@link Reference}. */
export type Reference = typeof Reference.Type

/** Provider, model and address that an attempt is made at. */
export const RoutePlace = Schema.Struct({
  provider: Schema.String,
  model: Schema.String,
  apiMode: Schema.String,
  baseUrl: Schema.optionalKey(Schema.String)
})

/** First event of every run. */
export const RunStarted = Schema.TaggedStruct("RunStarted", {
  version: Schema.Int,
  /** Version of the runtime; absent in records of earlier ones. */
  agentVersion: Schema.optionalKey(Schema.String),
  /** Origin of the session: `cli`, `oneshot`, `batch`, `subagent`, `library`, … */
  source: Schema.String,
  platform: Schema.String,
  provider: Schema.String,
  model: Schema.String,
  cwd: Schema.String,
  resumed: Schema.Boolean,
  /** Span in which the run was started, as W3C Trace Context; absent without tracing. */
  traceparent: Schema.optionalKey(Schema.String),
  tracestate: Schema.optionalKey(Schema.String),
  /** Of a child: the call that it works for. */
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

/** The message of another session that a message repeats. */
export const Original = Schema.Struct({
  sessionId: SessionId,
  position: Schema.Int,
  /** True if it differs: results, long arguments or pictures were left out, or a replay has another result. */
  changed: Schema.optionalKey(Schema.Boolean)
})
/** Type of {@link Original}. */
export type Original = typeof Original.Type

/**
 * A message is new. One with a `position` is part of the session; one with an `id` is sent and never stored. `message`
 * is undefined where the session's own copy cannot be read any more.
 */
export const MessageAppended = Schema.TaggedStruct("MessageAppended", {
  origin: Origin,
  position: Schema.optionalKey(Schema.Int),
  /** Of a message that the session began with: the one that it is a copy of. */
  copyOf: Schema.optionalKey(Original),
  id: Schema.optionalKey(Schema.String),
  /** The request whose answer it is. */
  apiRequestId: Schema.optionalKey(Schema.String),
  message: Schema.UndefinedOr(Prompt.Message)
})

/** Tool definitions that model calls name by their hash; written before the first of a run that has them. */
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
  /** From 0, over all routes of the call. */
  attempt: Schema.Int,
  /** Name of the side task that asks (a title, a judgement, a summary); absent for a step of the run. */
  task: Schema.optionalKey(Schema.String),
  /** Of a side task: the call whose tool or approval asks. */
  callId: Schema.optionalKey(Schema.String),
  route: RoutePlace,
  messages: Schema.Array(Reference),
  /** Hash of its tool definitions. */
  tools: Schema.optionalKey(Schema.String),
  /** The prepared request without its messages and tools, in the provider's own names. */
  parameters: Schema.Record(Schema.String, Schema.Unknown),
  /** The whole request, if middleware rewrote it: the references then do not describe the request that was sent. */
  rewritten: Schema.optionalKey(Schema.Unknown),
  /** Characters of an answer that broke off, whose rest is asked for. */
  continues: Schema.optionalKey(Schema.Int)
})

/** A part of an answer as the provider gave it. `params` is the parsed JSON, or its text where that is not JSON. */
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
  /** Class of the error. */
  type: Schema.String,
  message: Schema.String,
  /** HTTP status of the provider. */
  status: Schema.optionalKey(Schema.Int),
  /** Decision on it: `rate_limit`, `overloaded`, `auth`, … */
  reason: Schema.optionalKey(Schema.String),
  retryable: Schema.optionalKey(Schema.Boolean)
})

/** An attempt is over: answered, failed, or interrupted. */
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
  failure: Schema.optionalKey(Failure)
})

/** Calls of an answer were changed before it was stored: a name or arguments repaired, a repeated call left out. */
export const AnswerAdapted = Schema.TaggedStruct("AnswerAdapted", {
  apiRequestId: Schema.String,
  changes: Schema.Array(Schema.String)
})

/** A tool begins to run. `args` is what reaches it first; approvals and middleware may still change it. */
export const CallStarted = Schema.TaggedStruct("CallStarted", {
  callId: Schema.String,
  name: Schema.String,
  args: Schema.Unknown,
  apiRequestId: Schema.String,
  /** True if other calls of the same answer run at the same time. */
  parallel: Schema.Boolean,
  /** The call whose tool made it (a script); absent where the model did. */
  parentCallId: Schema.optionalKey(Schema.String)
})

/**
 * A tool call is closed, whether or not the tool ran. Its result is the tool message of the same `callId`, or `output`.
 */
export const CallEnded = Schema.TaggedStruct("CallEnded", {
  callId: Schema.String,
  name: Schema.String,
  status: RunEvent.ToolStatus,
  /** True when the tool ran. */
  ran: Schema.Boolean,
  /** Reason why it did not run: `plugin_block`, `approval_denied`, `unknown_tool`, `malformed_arguments`, … */
  reason: Schema.optionalKey(Schema.String),
  durationMillis: Schema.Finite,
  /** Present as in `CallStarted`. */
  parentCallId: Schema.optionalKey(Schema.String),
  /** Result of a call that a tool made: it is no message. */
  output: Schema.optionalKey(Schema.String)
})

/** The tool of a call asks an MCP server. */
export const McpRequested = Schema.TaggedStruct("McpRequested", {
  callId: Schema.String,
  /** Name of the server in the settings. */
  server: Schema.String,
  /** `tools/call`, `resources/read`, … */
  method: Schema.String,
  /** The server's name for its tool or prompt. */
  target: Schema.optionalKey(Schema.String),
  /** Resource that is read. */
  uri: Schema.optionalKey(Schema.String),
  /** Revision of the protocol. */
  protocol: Schema.String,
  /** Session id of a server with an address, if it provides one. */
  session: Schema.optionalKey(Schema.String),
  /** Address of the server; absent of a program. */
  address: Schema.optionalKey(Schema.String),
  port: Schema.optionalKey(Schema.Int)
})

/** Type of {@link McpRequested}. */
export type McpRequested = typeof McpRequested.Type

/** A dangerous call was decided on. */
export const ApprovalDecided = Schema.TaggedStruct("ApprovalDecided", {
  callId: Schema.String,
  /** Subject of the request: the command, the path, the host. */
  subject: Schema.String,
  /** `once`, `session`, `always`, `deny`, `timeout`, … */
  choice: Schema.String,
  /** Reasons for the question, for people. */
  description: Schema.optionalKey(Schema.String),
  /** Keys under which an answer for the session is stored. */
  patterns: Schema.optionalKey(Schema.Array(Schema.String)),
  /** Place where the question was shown. */
  surface: Schema.optionalKey(Schema.String),
  /** `aux_llm` where a model decided. */
  decidedBy: Schema.optionalKey(Schema.String),
  waitedMillis: Schema.Finite
})

/**
 * The conversation that a model is sent is no longer what was said: it was compacted, trimmed, or the run took back a
 * message.
 */
export const ContextRewritten = Schema.TaggedStruct("ContextRewritten", {
  reason: Schema.String,
  /** Messages before and after. */
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

/** A child agent is done. */
export const ChildEnded = Schema.TaggedStruct("ChildEnded", {
  subagentId: Schema.String,
  sessionId: SessionId,
  /** `completed`, `partial`, `failed`, `interrupted`, `timeout` or `error`. */
  status: Schema.String,
  summary: Schema.optionalKey(Schema.String),
  durationMillis: Schema.Finite
})

/** Entries were lost because the record could not be written. */
export const Gap = Schema.TaggedStruct("Gap", { entries: Schema.Int, reason: Schema.String })

/** Last event of every run that ended while its process lived. */
export const RunEnded = Schema.TaggedStruct("RunEnded", {
  /** Exit of a run with a result; `interrupted` or `failed` for every other. */
  exit: Schema.Union([RunEvent.Exit, Schema.Literals(["interrupted", "failed"])]),
  limit: Schema.optionalKey(RunEvent.Limit),
  /** The final text as the user got it. */
  text: Schema.optionalKey(Schema.String),
  steps: Schema.Int,
  usage: Usage,
  cost: Spent,
  failure: Schema.optionalKey(Failure)
})

/** A session was given up: left for another one, or over with its program. A run that comes later opens it again. */
export const SessionEnded = Schema.TaggedStruct("SessionEnded", {
  /** `shutdown`, `session_boundary`, `new_session`, `session_expired` or `compression`. */
  reason: Schema.String
})

/**
 * A session repeats another one: the messages before its first run are that session's. They follow under the same turn,
 * and where the conversation was compacted so does a `ContextRewritten`.
 */
export const ReplayBegun = Schema.TaggedStruct("ReplayBegun", {
  /** The session that is repeated. */
  source: SessionId,
  /** Position in it of the message from which on this session is new. */
  position: Schema.Int,
  /** Differences to it: `prompt`, `model`, `result`; `compression` if it continues from its compacted conversation. */
  changed: Schema.Array(Schema.String)
})

/** A person or a program judged a session, or one of its runs. A later score of the same name and run replaces it. */
export const Scored = Schema.TaggedStruct("Scored", {
  name: Schema.String,
  /** Null takes the score back. */
  value: Schema.NullOr(Schema.Union([Schema.Finite, Schema.String, Schema.Boolean])),
  run: Schema.optionalKey(TurnId),
  comment: Schema.optionalKey(Schema.String)
})

/** A note on a session, on one of its runs, or on the message of a position. */
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
  Noted
])
/** Any event of the record. */
export type RecordEvent = typeof RecordEvent.Type

/** Kinds of events, to ask for some of them. */
export type Kind = RecordEvent["_tag"]

/** An event with its place: the run, the session, and when it happened. */
export const Entry = Schema.Struct({
  sessionId: SessionId,
  turnId: TurnId,
  /** Epoch milliseconds. */
  at: Schema.Finite,
  event: RecordEvent
})
/** Type of {@link Entry}. */
export type Entry = typeof Entry.Type
