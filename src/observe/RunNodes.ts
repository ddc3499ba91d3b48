/**
 * Nodes of the tree of runs: runs, their steps, the attempts of a step, its tool calls, the approvals of a call,
 * children.
 *
 * **Details**
 *
 * - A run without an end was killed, or still runs: `endedAt` is undefined. Calls that it left open are closed by the
 *   run that resumes its session: `end.ran` is true of one that had begun.
 * - A call without `start` never began, or was begun by a tool that changes nothing when its process was killed: its
 *   name and arguments come from the model's answer.
 * - A child is under the call that made it, and is a root if that call is not in the record.
 *
 * Source: `ARCHITECTURE.md` §4 (run record).
 */
import type * as Prompt from "effect/ai/Prompt"
import type * as Record from "../base/domain/RecordEvent.ts"

type TaggedEvent<Tag extends Record.Kind> = Extract<Record.RecordEvent, { readonly _tag: Tag }>

/** A message and its place. */
export interface Message {
  readonly at: number
  readonly origin: Record.Origin
  /** Position in the session; undefined of a message that is sent and not stored. */
  readonly position: number | undefined
  /** Undefined if the copy of the session cannot be read any more. */
  readonly message: Prompt.Message | undefined
  /** Original of a message that the session began with. */
  readonly copyOf?: Record.Original | undefined
}

/** Beginning of a session that repeats another one: its messages before its first run. */
export interface Beginning {
  readonly at: number
  readonly turnId: string
  readonly link: TaggedEvent<"ReplayBegun">
  /** Present if the conversation of the other session was compacted. */
  rewritten: TaggedEvent<"ContextRewritten"> | undefined
  readonly messages: Array<Message>
}

/** Events between attempts: a wait, another route, a notice, a rewritten context, lost entries. */
interface Aside {
  readonly at: number
  /** The step that was under way; 0 before the first. */
  readonly step: number
  readonly event: TaggedEvent<"Waiting" | "RouteChanged" | "Notice" | "ContextRewritten" | "Gap" | "AnswerAdapted">
}

/** Marks of a part of the tree for its views: a field costs less than a place in a weak map. */
interface SpanState {
  /** Id of its span, once requested. */
  spanId?: string | undefined
  /** True for one whose span was ended. */
  isEnded?: boolean | undefined
}

/** A request to a provider and its answer. */
export interface Attempt extends SpanState {
  readonly kind: "attempt"
  readonly run: Run
  /** Undefined for a side task. */
  readonly step: Step | undefined
  /** Of a side task: the call whose tool or approval asked. */
  readonly call: Call | undefined
  readonly startedAt: number
  readonly start: TaggedEvent<"AttemptStarted">
  endedAt: number | undefined
  end: TaggedEvent<"AttemptEnded"> | undefined
}

/** An approval that a call needed. */
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
  /** The call whose tool made it; undefined if the model did. */
  readonly parent: Call | undefined
  readonly id: string
  readonly name: string
  readonly args: unknown
  startedAt: number
  start: TaggedEvent<"CallStarted"> | undefined
  endedAt: number | undefined
  end: TaggedEvent<"CallEnded"> | undefined
  /** The result as the model gets it. */
  result: Prompt.ToolResultPart | undefined
  /** Last request to an MCP server, of a tool of one. */
  mcp?: { readonly at: number; readonly event: TaggedEvent<"McpRequested"> } | undefined
  readonly approvals: Array<Approval>
  /** Files that it made, changed or removed. */
  readonly changes: Array<TaggedEvent<"FileChanged">>
  readonly children: Array<Child>
  /** Calls that its tool made. */
  readonly calls: Array<Call>
}

/** A child agent; its run begins a little later, in a separate session. */
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

/** One pass of the loop. */
export interface Step extends SpanState {
  readonly kind: "step"
  readonly run: Run
  readonly number: number
  readonly startedAt: number
  endedAt: number | undefined
  readonly attempts: Array<Attempt>
  /** Calls of its answer, in model order. */
  readonly calls: Array<Call>
  /** The answer as it was stored. */
  message: Message | undefined
}

/** A run. */
export interface Run extends SpanState {
  readonly kind: "run"
  readonly sessionId: string
  readonly turnId: string
  readonly startedAt: number
  /** Undefined if the beginning is not in the record. */
  readonly start: TaggedEvent<"RunStarted"> | undefined
  endedAt: number | undefined
  end: TaggedEvent<"RunEnded"> | undefined
  /** Of a child's run. */
  readonly child: Child | undefined
  /** Messages that it added, in order. */
  readonly messages: Array<Message>
  readonly steps: Array<Step>
  /** Attempts of side tasks (a title, a judgement, a summary), which are not steps. */
  readonly sideTasks: Array<Attempt>
  readonly asides: Array<Aside>
  /** Children that no call of the record made. */
  readonly children: Array<Child>
}

/** A part of the tree that has a beginning and an end. */
export type Node = Run | Step | Attempt | Call | Approval | Child
