/**
 * State of one agent scope and of one tool scope in a conversion.
 */
import type * as Atif from "../Atif.ts"
import type { ScopeEvent } from "../Atof.ts"
import type { Answer } from "./Answer.ts"
import type { Call, Draft, Extra, Result, Step } from "./Draft.ts"
import type { Inputs } from "./Inputs.ts"
import { toFields, toNonEmptyText } from "./Value.ts"

/** A call in its step. */
export interface CallPlace {
  readonly step: Step
  readonly call: Call
}

/** An attempt that failed. */
export interface Failure {
  readonly at: string
  /** The model call that it belongs to, where the stream says it. */
  readonly key: string | undefined
  /** The part of its answer that had arrived. */
  readonly partial: Answer | undefined
  readonly facts: Extra
}

/** Messages that the stream names, and that are steps already. */
interface KnownMessages {
  readonly names: Set<number | string>
  /** The first position in the session that this stream covers; messages before it are copied context. */
  first: number | undefined
  isAsked: boolean
  /** Rewrites of the context since the last request: facts of each, and its time. */
  readonly rewritten: Array<{ readonly facts: Extra; readonly timestamp: string }>
  /** Facts of the compaction from which the session continues. */
  readonly beginning: Extra | undefined
}

/** An agent: its trajectory, and the state of its conversation. */
export interface AgentScope {
  readonly draft: Draft
  readonly inputs: Inputs
  /** The calls of its steps, oldest first: by id, and by name. */
  readonly byId: Map<string, Array<CallPlace>>
  readonly byName: Map<string, Array<CallPlace>>
  /** Message of a turn that has begun, until a request contains it. */
  pending: { readonly message: Atif.Content; readonly timestamp: string } | undefined
  /** Attempts that failed since the last answer. */
  failures: Array<Failure>
  /** The last answer, and the attempt that it is of. */
  last: { readonly step: Step; readonly key: string | undefined; readonly retry: number } | undefined
  readonly told: KnownMessages
  readonly root: AgentScope | undefined
}

/** A tool call under way, or over. */
export interface ToolScope {
  readonly agent: AgentScope
  readonly start: ScopeEvent
  readonly callId: string | undefined
  readonly name: string
  readonly children: Array<Draft>
  approval: Extra | undefined
  /** The place of the call, once it is known. */
  place: CallPlace | undefined
  /** Its result in the step, once there is one. */
  result: Result | undefined
}

/** Calls that a tool scope has been matched to. */
export type TakenCalls = WeakSet<Call>

/** Result that a later run told of a call whose process died. */
export const findLaterClose = ({ call, step }: CallPlace): Result | undefined =>
  step.results.findLast(({ callId, extra }) => callId === call.id && extra["status"] === "interrupted")

/**
 * The call of a step that a tool scope belongs to: the latest one of its id that has no result; without an id the first
 * one of its name that is free, in the latest step that has one.
 */
export const findIssuingCall = (tool: ToolScope, taken: TakenCalls): CallPlace | undefined => {
  const isFree = (place: CallPlace): boolean =>
    !taken.has(place.call) &&
    (findLaterClose(place) !== undefined || !place.step.results.some(({ callId }) => callId === place.call.id))
  if (tool.callId !== undefined) return tool.agent.byId.get(tool.callId)?.findLast(isFree)
  const named = tool.agent.byName.get(tool.name)
  const latest = named?.findLast(isFree)
  return latest && named?.find((place) => place.step === latest.step && isFree(place))
}

/** Remembers the calls of a step. */
export const indexCalls = (agent: AgentScope, step: Step): void => {
  for (const call of step.calls) {
    const place = { step, call }
    for (const [map, key] of [
      [agent.byId, call.id],
      [agent.byName, call.name]
    ] as const) {
      const known = map.get(key)
      if (known === undefined) map.set(key, [place])
      else known.push(place)
    }
  }
}

/** Returns the id that a provider assigned to a call, if any. */
export const readCallId = (event: ScopeEvent): string | undefined =>
  toNonEmptyText(event.category_profile?.["tool_call_id"]) ?? toNonEmptyText(event.metadata?.["tool_call_id"])

/** Status and error of the end of a scope, as far as it states them. */
export const readEnding = (
  event: ScopeEvent
): { readonly status: string | undefined; readonly error: string | undefined } => {
  const meta = toFields(event.metadata)
  const otel = toNonEmptyText(meta["otel.status_code"])
  return {
    status: toNonEmptyText(meta["status"]) ?? (otel === "ERROR" ? "error" : otel?.toLowerCase()),
    error: toNonEmptyText(meta["error_message"]) ?? toNonEmptyText(meta["otel.status_description"])
  }
}
