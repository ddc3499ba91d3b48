/**
 * Plays a stream of events to the library: agent scopes, model calls, tool calls and marks, each in its scope.
 *
 * **Details**
 *
 * - Every agent has a separate scope stack that is independent of concurrent agents. A child's scope is below the call
 *   that started it, and refers to that call, as readers and the library's own trajectories require.
 * - Events have their own timestamps. While the library executes calls itself, it assigns their timestamps, and the
 *   events of these calls are not played.
 * - A call that the library executed has the tool's result. If the session stores a different result, a mark
 *   `hermes.result.stored` contains it.
 * - A failed model call has the part of the answer that arrived. Its error is in the metadata, because readers would
 *   take an error in the data for an answer. If the library executes model calls, a mark `hermes.answer.partial` has
 *   that part.
 * - An event that the library rejects causes one warning, and the run continues.
 *
 * Source: `relay-atof-atif.md` §1.7, §3.2 and §3.6, `hermes-contract.md` §4.5 to §4.7.
 */
import type * as Schema from "effect/Schema"
import { toFields, toNonEmptyText } from "../atif/Value.ts"
import * as Atof from "../Atof.ts"
import * as SideScopes from "../atof/SideScopes.ts"
import * as Library from "./Library.ts"

/** An agent with an open scope. */
export interface Agent {
  readonly sessionId: string
  readonly stack: Library.ScopeStack
  readonly handle: Library.ScopeHandle
  /** The library's id of the root agent. */
  readonly root: string
}

/** Kinds of calls that the library executes itself. Their spans are not played. */
export interface ManagedCalls {
  readonly llm: boolean
  readonly tool: boolean
}

/** A side task that the library executes, and the call that requested it, if any. */
export interface SideTask {
  readonly task: string
  readonly id: string
  readonly turnId: string
  readonly callId: string | undefined
}

/** Stack for the model call of a side task. */
interface SidePlace {
  readonly stack: Library.ScopeStack
  readonly close: () => void
}

/** Plays spans to the library. `play` returns the errors that the library reports. */
export interface Spans {
  /** Takes the library's id of a tool call that it executes. */
  readonly began: (sessionId: string, turnId: string, callId: string, uuid: string) => void
  /** Takes the result that the library received for a tool call that it executed. */
  readonly executed: (sessionId: string, turnId: string, callId: string, result: string) => void
  readonly play: (event: Atof.Event, managed: ManagedCalls) => ReadonlyArray<unknown>
  readonly agent: (sessionId: string) => Agent | undefined
  /** Opens the place of a side task that the library executes. */
  readonly openSideTask: (agent: Agent, task: SideTask) => SidePlace
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
 * Returns the metadata of a mark. If the library executes model calls, the position is removed, because their requests
 * do not contain message names.
 */
const toMarkMetadata = ({ metadata }: Atof.Event, managed: ManagedCalls): Schema.Json => {
  if (!managed.llm) return metadata ?? {}
  const { position: _, ...rest } = metadata ?? {}
  return rest
}

/** A tool scope of the stream. */
interface ToolScope {
  readonly agent: Agent
  readonly key: string
}

/** Open scopes and calls in the library. */
interface Player {
  readonly library: Library.Library
  /** Agents by the uuid of their scope. */
  readonly agents: Map<string, Agent>
  readonly bySession: Map<string, Agent>
  /** Tool scopes of the open agents, including those that have ended, because a child may begin later. */
  readonly tools: Map<string, ToolScope>
  readonly calls: Map<string, { readonly agent: Agent; readonly handle: Library.CallHandle }>
  /** Results that the library received for calls whose end was not played. */
  readonly results: Map<string, string>
  /** The library's ids of tool calls, by call. */
  readonly uuids: Map<string, string>
}

const formatCallKey = (...ids: ReadonlyArray<unknown>): string => ids.join(" ")

const readCallKey = (facts: Readonly<Record<string, unknown>>): string =>
  formatCallKey(facts["session_id"], facts["turn_id"], facts["tool_call_id"])

/**
 * Adds a mark with the result that the session stored, if it differs from the result of the call that the library
 * executed, or if it has images.
 */
const markStoredResult = (player: Player, agent: Agent, { data, metadata }: Atof.ScopeEvent): void => {
  const facts = metadata ?? {}
  const key = readCallKey(facts)
  const result = player.results.get(key)
  player.results.delete(key)
  const { images, session_id, tool_call_id, turn_id } = facts
  const isSame = result === undefined || (typeof data === "string" && result.toWellFormed() === data.toWellFormed())
  if (typeof data !== "string" || (isSame && images === undefined)) return
  player.library.withScopeStack(agent.stack, () =>
    player.library.event(
      "hermes.result.stored",
      agent.handle,
      null,
      {
        session_id: session_id ?? null,
        turn_id: turn_id ?? null,
        tool_call_id: tool_call_id ?? null,
        content: data,
        ...(images === undefined ? {} : { images })
      },
      null
    )
  )
}

/** Adds a mark with the part of an answer that arrived before its call failed. */
const markPartialAnswer = (player: Player, agent: Agent, { data, metadata }: Atof.ScopeEvent): void => {
  const facts = metadata ?? {}
  const message = toFields(data)["assistant_message"]
  if (facts["status"] === "ok" || message === undefined || facts["side_task"] !== undefined) return
  player.library.withScopeStack(agent.stack, () =>
    player.library.event(
      "hermes.answer.partial",
      agent.handle,
      null,
      {
        session_id: facts["session_id"] ?? null,
        turn_id: facts["turn_id"] ?? null,
        api_call_count: facts["api_call_count"] ?? null,
        assistant_message: message
      },
      null
    )
  )
}

const findAgent = (player: Player, event: Atof.Event): Agent | undefined => {
  const parent = event.parent_uuid
  return parent === null || parent === undefined
    ? undefined
    : (player.agents.get(parent) ?? player.tools.get(parent)?.agent)
}

/**
 * Returns a handle of the tool call with the library's id `uuid`. Returns the agent that made the call if the library
 * has no such handles.
 */
const findCallHandle = (library: Library.Library, agent: Agent, uuid: string | undefined): Library.ScopeHandle => {
  let handle: Library.ScopeHandle | undefined
  if (uuid === undefined || library.getHandle === undefined) return agent.handle
  library.withScopeStack(agent.stack, () => {
    const place = library.capturePropagationContextWithRoot?.(agent.root)
    const stack =
      place === undefined ? undefined : library.createScopeStackFromPropagation?.({ ...place, parentUuid: uuid })
    // A stack that begins below a call has the handle of this call on top.
    if (stack !== undefined) library.withScopeStack(stack, () => void (handle = library.getHandle?.()))
  })
  return handle ?? agent.handle
}

const openAgent = (player: Player, event: Atof.ScopeEvent, micros: number | null): void => {
  const parent = findAgent(player, event)
  const stack = player.library.createScopeStack()
  const tool = player.tools.get(event.parent_uuid ?? "")
  const uuid = tool === undefined ? undefined : player.uuids.get(tool.key)
  const above = parent === undefined ? undefined : findCallHandle(player.library, parent, uuid)
  const pushScope = () =>
    player.library.pushScope(
      event.name,
      Library.agentScope,
      above,
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
  const agent = {
    sessionId: toNonEmptyText(event.metadata?.["session_id"]) ?? "",
    stack,
    handle,
    root: parent?.root ?? handle.uuid
  }
  player.agents.set(event.uuid, agent)
  player.bySession.set(agent.sessionId, agent)
}

const closeAgent = (player: Player, agent: Agent, event: Atof.ScopeEvent, micros: number | null): void => {
  player.agents.delete(event.uuid)
  for (const [uuid, tool] of player.tools) {
    if (tool.agent !== agent) continue
    player.tools.delete(uuid)
    player.uuids.delete(tool.key)
  }
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
    if (event.category === "tool") player.uuids.set(readCallKey(metadata), handle.uuid)
  })
}

const finishCall = (player: Player, event: Atof.ScopeEvent, micros: number | null): void => {
  const call = player.calls.get(event.uuid)
  if (call === undefined) return
  player.calls.delete(event.uuid)
  const { agent, handle } = call
  player.library.withScopeStack(agent.stack, () =>
    event.category === "llm"
      ? player.library.llmCallEnd(handle, event.data ?? null, null, toEndMetadata(event), micros)
      : player.library.toolCallEnd(handle, { result: event.data ?? "" }, null, toEndMetadata(event), micros)
  )
}

/** Tests whether an event belongs to the place of a side task, which the library executes itself. */
const isSideTask = (event: Atof.Event): boolean =>
  event.kind === "mark"
    ? event.name === SideScopes.markNames.start || event.name === SideScopes.markNames.end
    : event.category === "agent" && event.metadata?.["side_task"] !== undefined

/**
 * Opens the place of a side task: an agent scope below the call that requested it, or a stack outside all agents, so
 * that the trajectory of the agent does not contain it.
 */
const openSideTask = ({ library, uuids }: Player, agent: Agent, { callId, id, task, turnId }: SideTask): SidePlace => {
  const stack = library.createScopeStack()
  const uuid = callId === undefined ? undefined : uuids.get(formatCallKey(agent.sessionId, turnId, callId))
  const parent = findCallHandle(library, agent, uuid)
  if (uuid === undefined || callId === undefined || parent === agent.handle) return { stack, close: () => {} }
  const metadata = {
    side_task: task,
    session_id: id,
    trajectory_id: id,
    parent_session_id: agent.sessionId,
    parent_tool_call_id: callId,
    nemo_relay_scope_role: "subagent"
  }
  let handle: Library.ScopeHandle | undefined
  const pushScope = () =>
    library.pushScope(`side task ${task}`, Library.agentScope, parent, null, null, metadata, null, null)
  library.withScopeStack(stack, () => {
    handle = pushScope()
  })
  const closeScope = (): void => {
    if (handle === undefined) return
    const opened = handle
    handle = undefined
    library.withScopeStack(stack, () => library.popScope(opened, null, null, metadata))
  }
  return { stack, close: closeScope }
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
  if (event.category === "tool" && isStart)
    player.tools.set(event.uuid, { agent, key: readCallKey(event.metadata ?? {}) })
  const isManaged = event.category === "llm" ? managed.llm : managed.tool
  if (!isStart) {
    if (event.category === "tool" && !player.calls.has(event.uuid)) markStoredResult(player, agent, event)
    if (event.category === "llm" && isManaged) markPartialAnswer(player, agent, event)
    finishCall(player, event, micros)
  } else if (!isManaged) beginCall(player, agent, event, micros)
}

/** Plays an event. Throws the error of the library, if any. */
const playEvent = (player: Player, event: Atof.Event, managed: ManagedCalls): void => {
  const { library } = player
  if (managed.llm && isSideTask(event)) return
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
    tools: new Map(),
    calls: new Map(),
    results: new Map(),
    uuids: new Map()
  }
  const { agents, bySession, calls, results, tools, uuids } = player
  return {
    play: (event, managed) => {
      try {
        playEvent(player, event, managed)
        return []
      } catch (error) {
        return [error]
      }
    },
    began: (sessionId, turnId, callId, uuid) => void uuids.set(formatCallKey(sessionId, turnId, callId), uuid),
    executed: (sessionId, turnId, callId, result) => void results.set(formatCallKey(sessionId, turnId, callId), result),
    agent: (sessionId) => bySession.get(sessionId),
    openSideTask: (agent, task) => openSideTask(player, agent, task),
    clear: () => {
      for (const map of [agents, bySession, calls, tools, results, uuids]) map.clear()
    }
  }
}
