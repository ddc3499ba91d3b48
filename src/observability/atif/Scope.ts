/**
 * What a conversion remembers of one agent scope and of one tool scope.
 *
 * @since 0.1.0
 */
import type * as Atif from "../Atif.ts"
import type { ScopeEvent } from "../Atof.ts"
import type { Call, Draft, Extra, Result, Step } from "./Draft.ts"
import type { Inputs } from "./Inputs.ts"
import { fields, text } from "./Value.ts"

/** An agent: its trajectory, and where its conversation stands. */
export interface AgentScope {
  readonly draft: Draft
  readonly inputs: Inputs
  /** A turn began, and no request has shown its message yet. */
  pending: { readonly message: Atif.Content; readonly timestamp: string } | undefined
  /** Attempts that failed since the last answer. */
  failures: Array<Extra & { readonly at: string }>
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
  /** Where it belongs, once that is known. */
  place: { readonly step: Step; readonly call: Call } | undefined
  /** What is in the step of it, once there is anything. */
  result: Result | undefined
}

const isAnswered = (step: Step, id: string): boolean => step.results.some(({ callId }) => callId === id)

/** Who has taken which call. */
export type Taken = WeakSet<Call>

/**
 * The call of a step that a tool scope belongs to: the latest one of its id that has no result; without an id the first one
 * of its name that is free.
 */
export const issuing = (tool: ToolScope, taken: Taken): ToolScope["place"] => {
  for (const step of tool.agent.draft.steps.toReversed()) {
    for (const call of step.calls) {
      const isIts = tool.callId === undefined ? call.name === tool.name : call.id === tool.callId
      if (isIts && !taken.has(call) && !isAnswered(step, call.id)) return { step, call }
    }
  }
  return undefined
}

/** The id that a provider gave a call, where it gave one. */
export const callIdOf = (event: ScopeEvent): string | undefined =>
  text(event.category_profile?.["tool_call_id"]) ?? text(event.metadata?.["tool_call_id"])

/** What is said of how a scope ended. */
export const ending = (event: ScopeEvent): { readonly status: string | undefined; readonly error: string | undefined } => {
  const meta = fields(event.metadata)
  const otel = text(meta["otel.status_code"])
  return {
    status: text(meta["status"]) ?? (otel === "ERROR" ? "error" : otel?.toLowerCase()),
    error: text(meta["error_message"]) ?? text(meta["otel.status_description"])
  }
}
