/**
 * Plays a stream of events to the library: agent scopes, model calls, tool calls and marks, each in its scope.
 *
 * **Details**
 *
 * - Every agent has a separate scope stack that is independent of concurrent agents. A child's scope is below its
 *   parent's scope and refers to the call that started the child, as the library's own trajectories require.
 * - Events have their own timestamps. While the library executes calls itself, it assigns their timestamps, and the
 *   events of these calls are not played.
 * - A call that the library executed has the tool's result. If the session stores a different result, a mark
 *   `hermes.result.stored` contains it.
 * - The response of a failed model call is `{ error }`, with the part of the answer that arrived.
 * - An event that the library rejects causes one warning, and the run continues.
 *
 * Source: `relay-atof-atif.md` §1.7, §3.2 and §3.6, `hermes-contract.md` §4.5 to §4.7.
 */
import type * as Schema from "effect/Schema"
import { toNonEmptyText } from "../atif/Value.ts"
import * as Atof from "../Atof.ts"
import * as Library from "./Library.ts"

/** An agent with an open scope. */
export interface Agent {
  readonly sessionId: string
  readonly stack: Library.ScopeStack
  readonly handle: Library.ScopeHandle
}

/** Kinds of calls that the library executes itself. Their spans are not played. */
export interface ManagedCalls {
  readonly llm: boolean
  readonly tool: boolean
}

/** Plays spans to the library. `play` returns the errors that the library reports. */
interface Spans {
  /** Takes the result that the library received for a tool call that it executed. */
  readonly executed: (sessionId: string, turnId: string, callId: string, result: string) => void
  readonly play: (event: Atof.Event, managed: ManagedCalls) => ReadonlyArray<unknown>
  readonly agent: (sessionId: string) => Agent | undefined
  /** Forgets all agents and calls, because the library's components were turned off. */
  readonly clear: () => void
}

/**
 * Returns the metadata of an end event. It includes the status of the call in the form that the library's exporters
 * use. For a model call, the library always reports OK.
 */
const toEndMetadata = (event: Atof.ScopeEvent): Schema.Json => {
  const metadata = event.metadata ?? {}
  const status = toNonEmptyText(metadata["status"])
  if (status === undefined) return metadata
  if (status === "ok") return { ...metadata, "otel.status_code": "OK" }
  return {
    ...metadata,
    "otel.status_code": "ERROR",
    "otel.status_description": toNonEmptyText(metadata["error_message"]) ?? toNonEmptyText(metadata["reason"]) ?? status
  }
}

/**
 * Returns the response of a model call. A failed call has its error as `error`, next to the part of the answer that
 * arrived. The library's own files then contain the error, which they would omit otherwise.
 */
const toResponse = ({ data, metadata }: Atof.ScopeEvent): Schema.Json => {
  const error = metadata?.["error"]
  if (error === undefined || error === null) return data ?? null
  return typeof data === "object" && data !== null && !Array.isArray(data) ? { ...data, error } : { error }
}

/**
 * Returns the metadata of a mark. If the library executes model calls, the position is removed, because their requests
 * do not contain message names.
 */
const toMarkMetadata = ({ metadata }: Atof.Event, managed: ManagedCalls): Schema.Json => {
  if (!managed.llm) return metadata ?? {}
  const { position: _, ...rest } = metadata ?? {}
  return rest
}

/** Open scopes and calls in the library. */
interface Player {
  readonly library: Library.Library
  /** Agents by the uuid of their scope. */
  readonly agents: Map<string, Agent>
  readonly bySession: Map<string, Agent>
  /** Agent of each open tool scope. */
  readonly owners: Map<string, Agent>
  readonly calls: Map<string, { readonly agent: Agent; readonly handle: Library.CallHandle }>
  /** Results that the library received for calls whose end was not played. */
  readonly results: Map<string, string>
}

const formatCallKey = (...ids: ReadonlyArray<unknown>): string => ids.join(" ")

/**
 * Adds a mark with the result that the session stored, if it differs from the result of the call that the library
 * executed.
 */
const markStoredResult = (player: Player, agent: Agent, { data, metadata }: Atof.ScopeEvent): void => {
  const facts = metadata ?? {}
  const key = formatCallKey(facts["session_id"], facts["turn_id"], facts["tool_call_id"])
  const result = player.results.get(key)
  player.results.delete(key)
  if (typeof data !== "string" || result === undefined || result.toWellFormed() === data.toWellFormed()) return
  const { session_id, tool_call_id, turn_id } = facts
  player.library.withScopeStack(agent.stack, () =>
    player.library.event(
      "hermes.result.stored",
      agent.handle,
      null,
      { session_id: session_id ?? null, turn_id: turn_id ?? null, tool_call_id: tool_call_id ?? null, content: data },
      null
    )
  )
}

const findAgent = (player: Player, event: Atof.Event): Agent | undefined => {
  const parent = event.parent_uuid
  return parent === null || parent === undefined ? undefined : (player.agents.get(parent) ?? player.owners.get(parent))
}

const openAgent = (player: Player, event: Atof.ScopeEvent, micros: number | null): void => {
  const parent = findAgent(player, event)
  const stack = player.library.createScopeStack()
  const pushScope = () =>
    player.library.pushScope(
      event.name,
      Library.agentScope,
      parent?.handle,
      null,
      null,
      event.metadata ?? {},
      event.data ?? null,
      micros
    )
  let handle: Library.ScopeHandle | undefined
  player.library.withScopeStack(stack, () => {
    handle = pushScope()
  })
  if (handle === undefined) return
  const agent = { sessionId: toNonEmptyText(event.metadata?.["session_id"]) ?? "", stack, handle }
  player.agents.set(event.uuid, agent)
  player.bySession.set(agent.sessionId, agent)
}

const closeAgent = (player: Player, agent: Agent, event: Atof.ScopeEvent, micros: number | null): void => {
  player.agents.delete(event.uuid)
  if (player.bySession.get(agent.sessionId) === agent) player.bySession.delete(agent.sessionId)
  player.library.withScopeStack(agent.stack, () =>
    player.library.popScope(agent.handle, event.data ?? null, micros, event.metadata ?? {})
  )
}

const beginCall = (player: Player, agent: Agent, event: Atof.ScopeEvent, micros: number | null): void => {
  const metadata = event.metadata ?? {}
  player.library.withScopeStack(agent.stack, () => {
    const handle =
      event.category === "llm"
        ? player.library.llmCall(
            event.name,
            { headers: {}, content: event.data ?? {} },
            null,
            event.attributes?.includes("streaming") === true ? Library.streaming : null,
            null,
            metadata,
            toNonEmptyText(event.category_profile?.["model_name"]),
            micros
          )
        : player.library.toolCall(
            event.name,
            event.data ?? {},
            null,
            null,
            null,
            metadata,
            toNonEmptyText(event.category_profile?.["tool_call_id"]),
            micros
          )
    player.calls.set(event.uuid, { agent, handle })
  })
}

const finishCall = (player: Player, event: Atof.ScopeEvent, micros: number | null): void => {
  const call = player.calls.get(event.uuid)
  if (call === undefined) return
  player.calls.delete(event.uuid)
  const { agent, handle } = call
  player.library.withScopeStack(agent.stack, () =>
    event.category === "llm"
      ? player.library.llmCallEnd(handle, toResponse(event), null, toEndMetadata(event), micros)
      : player.library.toolCallEnd(handle, { result: event.data ?? "" }, null, toEndMetadata(event), micros)
  )
}

const playScope = (player: Player, event: Atof.ScopeEvent, managed: ManagedCalls, micros: number | null): void => {
  const isStart = event.scope_category === "start"
  if (event.category === "agent") {
    if (isStart) return openAgent(player, event, micros)
    const agent = player.agents.get(event.uuid)
    return agent === undefined ? undefined : closeAgent(player, agent, event, micros)
  }
  const agent = findAgent(player, event)
  if (agent === undefined) return
  if (event.category === "tool") {
    if (isStart) player.owners.set(event.uuid, agent)
    else player.owners.delete(event.uuid)
  }
  const isManaged = event.category === "llm" ? managed.llm : managed.tool
  if (!isStart) {
    if (event.category === "tool" && !player.calls.has(event.uuid)) markStoredResult(player, agent, event)
    finishCall(player, event, micros)
  } else if (!isManaged) beginCall(player, agent, event, micros)
}

/** Plays an event. Throws the error of the library, if any. */
const playEvent = (player: Player, event: Atof.Event, managed: ManagedCalls): void => {
  const { library } = player
  const micros = managed.llm || managed.tool ? null : Atof.toMicros(event.timestamp)
  if (event.kind === "scope") return playScope(player, event, managed, micros)
  const agent = findAgent(player, event)
  if (agent === undefined) return
  library.withScopeStack(agent.stack, () =>
    library.event(event.name, agent.handle, event.data ?? null, toMarkMetadata(event, managed), micros)
  )
}

/** Creates a player of spans. */
export const make = (library: Library.Library): Spans => {
  const player: Player = {
    library,
    agents: new Map(),
    bySession: new Map(),
    owners: new Map(),
    calls: new Map(),
    results: new Map()
  }
  const { agents, bySession, calls, owners, results } = player
  return {
    play: (event, managed) => {
      try {
        playEvent(player, event, managed)
        return []
      } catch (error) {
        return [error]
      }
    },
    executed: (sessionId, turnId, callId, result) => void results.set(formatCallKey(sessionId, turnId, callId), result),
    agent: (sessionId) => bySession.get(sessionId),
    clear: () => {
      for (const map of [agents, bySession, owners, calls, results]) map.clear()
    }
  }
}
