/**
 * Plays a stream of events to the library: agent scopes, model calls, tool calls and marks, each in its scope.
 *
 * **Details**
 *
 * - Every agent has a scope stack of its own, which is a value here: nothing depends on what runs beside it. A child's
 *   scope is under its parent's, and says which call it belongs to, as the library's own trajectories need it.
 * - Events bring their own instants. While the library executes calls itself its clock is the only one, and calls are
 *   left to it: their events are not played.
 * - A call that the library executed has the result that the tool gave. Where the session has another one, a mark
 *   `hermes.result.stored` says it.
 * - What the library refuses is one warning, and the run goes on.
 *
 * Source: `relay-atof-atif.md` §1.7, §3.2 and §3.6, `hermes-contract.md` §4.5 to §4.7.
 */
import type * as Schema from "effect/Schema"
import { toNonEmptyText } from "../atif/Value.ts"
import * as Atof from "../Atof.ts"
import * as Library from "./Library.ts"

/** An agent whose scope is open. */
export interface Agent {
  readonly sessionId: string
  readonly stack: Library.ScopeStack
  readonly handle: Library.ScopeHandle
}

/** Calls that the library executes itself: their spans are not played. */
export interface ManagedCalls {
  readonly llm: boolean
  readonly tool: boolean
}

/** Plays spans to the library. Each gives what the library refused. */
interface Spans {
  /** Takes the result that the library has of a tool call that it executed. */
  readonly executed: (sessionId: string, turnId: string, callId: string, result: string) => void
  readonly play: (event: Atof.Event, managed: ManagedCalls) => ReadonlyArray<unknown>
  readonly agent: (sessionId: string) => Agent | undefined
  /** Forgets everything: the library's components were turned off. */
  readonly clear: () => void
}

/**
 * Status of a call, in the words that the library's exporters know. Of a model call it says OK itself, whatever it is
 * told.
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
 * Metadata of a mark. Requests that the library executes do not name their messages, so there is nothing that a
 * position refers to.
 */
const toMarkMetadata = ({ metadata }: Atof.Event, managed: ManagedCalls): Schema.Json => {
  if (!managed.llm) return metadata ?? {}
  const { position: _, ...rest } = metadata ?? {}
  return rest
}

/** Makes a player of spans. */
export const make = (library: Library.Library): Spans => {
  /** By the uuid of their event's scope. */
  const agents = new Map<string, Agent>()
  const bySession = new Map<string, Agent>()
  /** The agent of a tool scope that is open. */
  const owners = new Map<string, Agent>()
  const calls = new Map<string, { readonly agent: Agent; readonly handle: Library.CallHandle }>()

  /** Results that the library has of calls whose end was not played. */
  const results = new Map<string, string>()
  const formatCallKey = (...ids: ReadonlyArray<unknown>): string => ids.join(" ")

  /** Says what the session has of a call that the library executed. */
  const markStoredResult = (agent: Agent, { data, metadata }: Atof.ScopeEvent): void => {
    const facts = metadata ?? {}
    const key = formatCallKey(facts["session_id"], facts["turn_id"], facts["tool_call_id"])
    const result = results.get(key)
    results.delete(key)
    if (typeof data !== "string" || result === undefined || result.toWellFormed() === data.toWellFormed()) return
    const { session_id, tool_call_id, turn_id } = facts
    library.withScopeStack(agent.stack, () =>
      library.event(
        "hermes.result.stored",
        agent.handle,
        null,
        { session_id: session_id ?? null, turn_id: turn_id ?? null, tool_call_id: tool_call_id ?? null, content: data },
        null
      )
    )
  }

  const findAgent = (event: Atof.Event): Agent | undefined => {
    const parent = event.parent_uuid
    return parent === null || parent === undefined ? undefined : (agents.get(parent) ?? owners.get(parent))
  }

  const openAgent = (event: Atof.ScopeEvent, micros: number | null): void => {
    const parent = findAgent(event)
    const stack = library.createScopeStack()
    const pushScope = () =>
      library.pushScope(
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
    library.withScopeStack(stack, () => {
      handle = pushScope()
    })
    if (handle === undefined) return
    const agent = { sessionId: toNonEmptyText(event.metadata?.["session_id"]) ?? "", stack, handle }
    agents.set(event.uuid, agent)
    bySession.set(agent.sessionId, agent)
  }

  const closeAgent = (agent: Agent, event: Atof.ScopeEvent, micros: number | null): void => {
    agents.delete(event.uuid)
    if (bySession.get(agent.sessionId) === agent) bySession.delete(agent.sessionId)
    library.withScopeStack(agent.stack, () =>
      library.popScope(agent.handle, event.data ?? null, micros, event.metadata ?? {})
    )
  }

  const beginCall = (agent: Agent, event: Atof.ScopeEvent, micros: number | null): void => {
    const metadata = event.metadata ?? {}
    library.withScopeStack(agent.stack, () => {
      const handle =
        event.category === "llm"
          ? library.llmCall(
              event.name,
              { headers: {}, content: event.data ?? {} },
              null,
              event.attributes?.includes("streaming") === true ? Library.streaming : null,
              null,
              metadata,
              toNonEmptyText(event.category_profile?.["model_name"]),
              micros
            )
          : library.toolCall(
              event.name,
              event.data ?? {},
              null,
              null,
              null,
              metadata,
              toNonEmptyText(event.category_profile?.["tool_call_id"]),
              micros
            )
      calls.set(event.uuid, { agent, handle })
    })
  }

  const finishCall = (event: Atof.ScopeEvent, micros: number | null): void => {
    const call = calls.get(event.uuid)
    if (call === undefined) return
    calls.delete(event.uuid)
    const { agent, handle } = call
    library.withScopeStack(agent.stack, () =>
      event.category === "llm"
        ? library.llmCallEnd(handle, event.data ?? null, null, toEndMetadata(event), micros)
        : library.toolCallEnd(handle, { result: event.data ?? "" }, null, toEndMetadata(event), micros)
    )
  }

  const playScope = (event: Atof.ScopeEvent, managed: ManagedCalls, micros: number | null): void => {
    const isStart = event.scope_category === "start"
    if (event.category === "agent") {
      if (isStart) return openAgent(event, micros)
      const agent = agents.get(event.uuid)
      return agent === undefined ? undefined : closeAgent(agent, event, micros)
    }
    const agent = findAgent(event)
    if (agent === undefined) return
    if (event.category === "tool") {
      if (isStart) owners.set(event.uuid, agent)
      else owners.delete(event.uuid)
    }
    const isManaged = event.category === "llm" ? managed.llm : managed.tool
    if (!isStart) {
      if (event.category === "tool" && !calls.has(event.uuid)) markStoredResult(agent, event)
      finishCall(event, micros)
    } else if (!isManaged) beginCall(agent, event, micros)
  }

  return {
    play: (event, managed) => {
      const micros = managed.llm || managed.tool ? null : Atof.toMicros(event.timestamp)
      try {
        if (event.kind === "scope") playScope(event, managed, micros)
        else {
          const agent = findAgent(event)
          if (agent !== undefined) {
            library.withScopeStack(agent.stack, () =>
              library.event(event.name, agent.handle, event.data ?? null, toMarkMetadata(event, managed), micros)
            )
          }
        }
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
