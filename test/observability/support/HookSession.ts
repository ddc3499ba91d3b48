/**
 * State of one session: its agent scope and the scopes that are open in it.
 */
import type * as Schema from "effect/Schema"
import type { ScopeEvent } from "../../../src/observability/Atof.ts"

/** A JSON object as events carry it. */
export interface Facts {
  readonly [key: string]: Schema.Json
}

/** A scope that waits for its end: what its start said. */
export type Open = ScopeEvent

/** A session that is open. */
export interface Session {
  readonly id: string
  readonly scope: Open
  /** Open model calls by attempt. */
  readonly calls: Map<string, Open>
  /** Open tool calls by key, oldest first where a provider gave two calls one id. */
  readonly tools: Map<string, Array<Open>>
}

/** A delegation, for the scope of the child when it appears. */
export interface Link {
  readonly parent: string
  readonly metadata: Facts
  readonly goal: string
}

/** The open tool scopes of a session, in the order in which they started. */
export const openTools = (session: Session): ReadonlyArray<Open> =>
  Array.from(session.tools.values()).flat().toSorted((a, b) => String(a.timestamp) < String(b.timestamp) ? -1 : 1)

/** Takes the oldest open tool scope of a key. */
export const takeTool = (session: Session, key: string): Open | undefined => {
  const open = session.tools.get(key)
  const first = open?.shift()
  if (open?.length === 0) session.tools.delete(key)
  return first
}

/** Adds an open tool scope. */
export const putTool = (session: Session, key: string, scope: Open): void => {
  const open = session.tools.get(key)
  if (open === undefined) session.tools.set(key, [scope])
  else open.push(scope)
}

/**
 * The tool call that a child belongs to: the one that is named, else the one whose arguments say its goal, else the only
 * delegation that is open.
 */
export const delegatingTool = (session: Session, toolCallId: string | undefined, goal: string): Open | undefined => {
  const tools = openTools(session)
  const quoted = goal === "" ? undefined : JSON.stringify(goal)
  return tools.find(({ category_profile: profile }) => toolCallId && profile?.["tool_call_id"] === toolCallId) ??
    tools.find(({ data }) => quoted !== undefined && JSON.stringify(data ?? null).includes(quoted)) ??
    tools.findLast(({ name }) => name === "delegate_task") ??
    (tools.length === 1 ? tools[0] : undefined)
}
