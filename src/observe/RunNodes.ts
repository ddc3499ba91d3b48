/**
 * Nodes of the tree of runs: runs, their steps, the attempts and tool calls of a step, the approvals of a call, and
 * children.
 *
 * **Details**
 *
 * - If a run was killed or is still running, `endedAt` is undefined. The run that resumes the session closes the calls
 *   that were left open; `end.ran` is true if the call had begun.
 * - A call without `start` never began, or it was a call of a read-only tool whose process was killed. Its name and
 *   arguments come from the model's answer.
 * - A child is below the call that started it. If that call is not in the record, the child is a root.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Record from "../base/domain/RecordEvent.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** A message and its position. */
export interface Message {
  readonly at: number
  readonly origin: Record.Origin
  /** Position in the session, or `undefined` for a message that is sent but not stored. */
  readonly position: number | undefined
  /** The message, or `undefined` if the stored session can no longer be read. */
  readonly message: Prompt.Message | undefined
  /** Original of a message that was copied to the beginning of the session. */
  readonly copyOf?: Record.Original | undefined
}

/** Beginning of a session that repeats another session: its messages before its first run. */
export interface Beginning {
  readonly at: number
  readonly turnId: string
  readonly link: TaggedEvent<"ReplayBegun">
  /** Event that reports the rewritten context, if the conversation of the other session was compacted. */
  rewritten: TaggedEvent<"ContextRewritten"> | undefined
  readonly messages: Array<Message>
}

/** Event between attempts: a wait, a change of route, a notice, a rewritten context, or lost entries. */
interface Aside {
  readonly at: number
  /** The current step; 0 before the first step. */
  readonly step: number
  readonly event: TaggedEvent<"Waiting" | "RouteChanged" | "Notice" | "ContextRewritten" | "Gap" | "AnswerAdapted">
}

/** Values that views store on a node of the tree. A field costs less than an entry in a weak map. */
interface SpanState {
  /** Id of the node's span, once it has been requested. */
  spanId?: string | undefined
  /** True if the node's span has ended. */
  isEnded?: boolean | undefined
}

/** A request to a provider and its answer. */
export interface Attempt extends SpanState {
  readonly kind: "attempt"
  readonly run: Run
  /** The step of the attempt, or `undefined` for a side task. */
  readonly step: Step | undefined
  /** For a side task, the call whose tool or approval requested the task. */
  readonly call: Call | undefined
  readonly startedAt: number
  readonly start: TaggedEvent<"AttemptStarted">
  endedAt: number | undefined
  end: TaggedEvent<"AttemptEnded"> | undefined
}

/** An approval that a call required. */
export interface Approval extends SpanState {
  readonly kind: "approval"
  readonly call: Call
  readonly endedAt: number
  readonly event: TaggedEvent<"ApprovalDecided">
}

/** A tool call. */
export interface Call extends SpanState {
  readonly kind: "call"
  readonly run: Run
  readonly step: Step | undefined
  /** The call whose tool made this call, or `undefined` if the model made it. */
  readonly parent: Call | undefined
  readonly id: string
  readonly name: string
  readonly args: unknown
  startedAt: number
  start: TaggedEvent<"CallStarted"> | undefined
  endedAt: number | undefined
  end: TaggedEvent<"CallEnded"> | undefined
  /** The result as the model receives it. */
  result: Prompt.ToolResultPart | undefined
  /** Last request to an MCP server, if the tool belongs to one. */
  mcp?: { readonly at: number; readonly event: TaggedEvent<"McpRequested"> } | undefined
  readonly approvals: Array<Approval>
  /** Files that the call created, changed or removed. */
  readonly changes: Array<TaggedEvent<"FileChanged">>
  readonly children: Array<Child>
  /** Calls that the tool of this call made. */
  readonly calls: Array<Call>
}

/** A child agent. Its run begins a little later, in a separate session. */
export interface Child extends SpanState {
  readonly kind: "child"
  readonly parent: Run
  readonly call: Call | undefined
  readonly startedAt: number
  readonly start: TaggedEvent<"ChildStarted">
  endedAt: number | undefined
  end: TaggedEvent<"ChildEnded"> | undefined
  run: Run | undefined
}

/** One iteration of the agent loop. */
export interface Step extends SpanState {
  readonly kind: "step"
  readonly run: Run
  readonly number: number
  readonly startedAt: number
  endedAt: number | undefined
  readonly attempts: Array<Attempt>
  /** Calls in the answer of the step, in model order. */
  readonly calls: Array<Call>
  /** The answer as stored. */
  message: Message | undefined
}

/** A run. */
export interface Run extends SpanState {
  readonly kind: "run"
  readonly sessionId: string
  readonly turnId: string
  readonly startedAt: number
  /** Start event of the run, or `undefined` if it is not in the record. */
  readonly start: TaggedEvent<"RunStarted"> | undefined
  endedAt: number | undefined
  end: TaggedEvent<"RunEnded"> | undefined
  /** The child that this run belongs to, if it is a child's run. */
  readonly child: Child | undefined
  /** Messages that the run added, in order. */
  readonly messages: Array<Message>
  readonly steps: Array<Step>
  /** Attempts of side tasks (a title, a judgement, a summary), which are not steps. */
  readonly sideTasks: Array<Attempt>
  readonly asides: Array<Aside>
  /** Children that were not started by a call in the record. */
  readonly children: Array<Child>
}

/** A part of the tree that has a beginning and an end. */
export type Node = Run | Step | Attempt | Call | Approval | Child
