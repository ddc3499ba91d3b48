/**
 * State of one agent scope and of one tool scope in a conversion.
 */
import type * as Atif from "../Atif.ts"
import type { ScopeEvent } from "../Atof.ts"
import type { Answer } from "./Answer.ts"
import type { Call, Draft, Extra, Result, Step } from "./Draft.ts"
import type { Inputs } from "./Inputs.ts"
import { toFields, toNonEmptyText } from "./Value.ts"

/** A call, and the step that contains it. */
export interface CallPlace {
  readonly step: Step
  readonly call: Call
}

/** A failed attempt. */
export interface Failure {
  readonly at: string
  /** Key of the model call that the attempt belongs to, if the stream identifies it. */
  readonly key: string | undefined
  /** Part of the answer that was received. */
  readonly partial: Answer | undefined
  /** Provider and times of the attempt, if the stream has its start. */
  readonly attempt: Extra
  readonly facts: Extra
}

/** Messages that have a name in the stream and that are already steps. */
interface KnownMessages {
  readonly names: Set<number | string>
  /** First position in the session that this stream covers. Messages before it are copied context. */
  first: number | undefined
  isAsked: boolean
  /** Rewrites of the context since the last request, each with facts about it and its time. */
  readonly rewritten: Array<{ readonly facts: Extra; readonly timestamp: string }>
  /** Facts about the compaction from which the session continues. */
  readonly beginning: Extra | undefined
}

/** An agent: its trajectory, and the state of its conversation. */
export interface AgentScope {
  readonly draft: Draft
  readonly inputs: Inputs
  /** Calls of the agent's steps, oldest first, by id; `byName` has the same calls by name. */
  readonly byId: Map<string, Array<CallPlace>>
  readonly byName: Map<string, Array<CallPlace>>
  /** User message of a turn that has begun. It is retained until a request contains the message. */
  pending: { readonly message: Atif.Content; readonly timestamp: string } | undefined
  /** Failed attempts since the last answer. */
  failures: Array<Failure>
  /** The step of the last answer, and the attempt that produced it. */
  last: { readonly step: Step; readonly key: string | undefined; readonly retry: number } | undefined
  readonly told: KnownMessages
  readonly root: AgentScope | undefined
}

/** An active or finished tool call. */
export interface ToolScope {
  readonly agent: AgentScope
  readonly start: ScopeEvent
  readonly callId: string | undefined
  readonly name: string
  readonly children: Array<Draft>
  approval: Extra | undefined
  /** The call in its step, once it is known. */
  place: CallPlace | undefined
  /** The result in the step, once there is one. */
  result: Result | undefined
}

/** Calls that have been matched to a tool scope. */
export type TakenCalls = WeakSet<Call>

/** Returns the result that a later run recorded for a call that was left open because its process was killed. */
export const findLaterClose = ({ call, step }: CallPlace): Result | undefined =>
  step.results.findLast(({ callId, extra }) => callId === call.id && extra["status"] === "interrupted")

/** Tests whether a writer derived an id from the name of the tool and a number. */
const isMadeId = (id: string, name: string): boolean =>
  id.startsWith(`${name}__`) && /^\d+$/u.test(id.slice(name.length + 2))

/**
 * Finds the call that a tool scope belongs to: the latest call with the id of the scope and without a result. If the
 * scope has no id, or one that its writer made, it is the first unmatched call of the same tool in the latest step that contains one.
 */
export const findIssuingCall = (tool: ToolScope, taken: TakenCalls): CallPlace | undefined => {
  const isFree = (place: CallPlace): boolean =>
    !taken.has(place.call) &&
    (findLaterClose(place) !== undefined || !place.step.results.some(({ callId }) => callId === place.call.id))
  const known = tool.callId === undefined ? undefined : tool.agent.byId.get(tool.callId)?.findLast(isFree)
  // Writers count the calls of a provider without ids differently, so such an id may differ from the answer's id.
  if (tool.callId !== undefined && !isMadeId(tool.callId, tool.name)) return known
  if (known !== undefined) return known
  const named = tool.agent.byName.get(tool.name)
  const latest = named?.findLast(isFree)
  return latest && named?.find((place) => place.step === latest.step && isFree(place))
}

/** Indexes the calls of a step by id and by name. */
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

/** Returns the status and the error in the end event of a scope, if present. */
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
