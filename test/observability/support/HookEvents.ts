// Streams by hand, for tests of what reads them: scopes and marks of the payloads that a test tells, in the form of streams of
// other writers (answers with an `assistant_message`, children told in any order).
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Random from "effect/Random"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Json from "../../../src/domain/Json.ts"
import type { Hook } from "../../../src/hooks/Hook.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import { sanitize } from "../../../src/hooks/Sanitizer.ts"
import { type Event, type ScopeEvent, timestampOf, version } from "../../../src/observability/Atof.ts"
import { type Fields, metadata, object, pick, text } from "./HookPayload.ts"
import { delegatingTool, type Facts, type Link, openTools, putTool, type Session, takeTool } from "./HookSession.ts"
import * as SpokenAnswer from "./SpokenAnswer.ts"

/** Name and version of the agent. */
export interface Agent {
  readonly name: string
  readonly version: string
}

/** Makes events; each member gives those that follow, in order. `now` is in microseconds. */
export interface Recorder {
  readonly record: (name: string, payload: Fields, now: number) => ReadonlyArray<Event>
  /** Ends everything that is open. */
  readonly close: (now: number) => ReadonlyArray<Event>
}

/** Clock and ids of one stream. */
interface Ticks {
  /** Returns `now`, or one microsecond after the last instant: no two events share one, so the order of a file is the order in time. */
  readonly next: (now: number) => number
  /** Returns a UUID of version 7. */
  readonly uuid: (micros: number) => string
}

const makeTicks = (node: number): Ticks => {
  let last = 0
  let count = 0
  const suffix = node.toString(16).padStart(8, "0")
  return {
    next: (now) => last = Math.max(now, last + 1),
    uuid: (micros) => {
      const time = Math.floor(micros / 1000).toString(16).padStart(12, "0")
      const n = count++ % 2 ** 40
      const low = (n % 2 ** 12).toString(16).padStart(3, "0")
      const high = Math.floor(n / 2 ** 12).toString(16).padStart(7, "0")
      return `${time.slice(0, 8)}-${time.slice(8)}-7${low}-8${suffix.slice(0, 3)}-${suffix.slice(3)}${high}`
    }
  }
}

type Handler = (payload: Fields) => void

/** A recorder; `node` is a number below 2^32 that sets its ids apart. */
export const make = (agent: Agent, node: number): Recorder => {
  const ticks = makeTicks(node)
  const sessions = new Map<string, Session>()
  const links = new Map<string, Link>()
  let out: Array<Event> = []
  let now = 0

  const stamp = () => {
    const at = ticks.next(now)
    return { at, timestamp: timestampOf(at) }
  }
  const start = (
    fields: Pick<ScopeEvent, "name" | "category" | "data" | "metadata"> & {
      readonly parent: string | null
      readonly profile?: Facts | undefined
      readonly attributes?: ReadonlyArray<string> | undefined
    }
  ): ScopeEvent => {
    const { at, timestamp } = stamp()
    const event: ScopeEvent = {
      kind: "scope",
      atof_version: version,
      category: fields.category,
      name: fields.name,
      scope_category: "start",
      uuid: ticks.uuid(at),
      parent_uuid: fields.parent,
      timestamp,
      category_profile: fields.profile ?? null,
      attributes: fields.attributes ?? [],
      metadata: fields.metadata ?? null,
      data: fields.data ?? null
    }
    out.push(event)
    return event
  }
  const end = (open: ScopeEvent, data: Schema.Json, facts: Facts, profile?: Facts): void => {
    out.push({
      ...open,
      scope_category: "end",
      timestamp: stamp().timestamp,
      category_profile: profile ?? open.category_profile ?? null,
      metadata: { ...open.metadata, ...facts },
      data
    })
  }
  const mark = (name: string, parent: string | null, facts: Facts): void => {
    const { at, timestamp } = stamp()
    out.push({
      kind: "mark",
      atof_version: version,
      name,
      uuid: ticks.uuid(at),
      parent_uuid: parent,
      timestamp,
      category: null,
      category_profile: null,
      metadata: facts,
      data: null
    })
  }

  const ensure = (id: string, payload: Fields): Session => {
    const known = sessions.get(id)
    if (known !== undefined) return known
    const link = links.get(id)
    const facts = { ...pick(metadata(payload), ["telemetry_schema_version", "platform", "provider", "model"]) }
    const session: Session = {
      id,
      scope: start({
        name: `hermes-session-${id}`,
        category: "agent",
        parent: link?.parent ?? null,
        metadata: {
          ...facts, session_id: id, trajectory_id: id, agent_name: agent.name, version: agent.version, ...link?.metadata
        },
        data: link === undefined ? { session_id: id } : { session_id: id, input: link.goal }
      }),
      calls: new Map(),
      tools: new Map()
    }
    sessions.set(id, session)
    return session
  }
  const sessionOf = (payload: Fields): Session =>
    ensure(text(payload, "session_id") || text(payload, "parent_session_id") || "default", payload)
  const closeSession = (id: string, facts: Facts): void => {
    const session = sessions.get(id)
    if (session === undefined) return
    for (const tool of openTools(session).toReversed()) end(tool, null, { status: "cancelled", reason: "interrupted" })
    for (const call of session.calls.values()) end(call, null, { status: "error", reason: "interrupted" })
    end(session.scope, null, facts)
    sessions.delete(id)
  }
  const note = (name: string, ...names: ReadonlyArray<string>): Handler => (payload) =>
    mark(name, sessionOf(payload).scope.uuid, { ...metadata(payload), ...pick(payload, names) })
  const toolKey = (payload: Fields): string =>
    `${text(payload, "turn_id")}:${text(payload, "tool_call_id") || text(payload, "tool_name")}`

  const closeCall = (data: Facts, status: string, unmatched: string): Handler => (payload) => {
    const session = sessionOf(payload)
    const open = session.calls.get(text(payload, "api_request_id"))
    session.calls.delete(text(payload, "api_request_id"))
    if (open === undefined) return mark(unmatched, session.scope.uuid, { ...metadata(payload), ...pick(payload, ["error"]) })
    const model = text(payload, "response_model") || text(payload, "model")
    end(open, data, { ...metadata(payload), status, ...pick(payload, ["finish_reason", "cost_status", "cost_source"]) }, { model_name: model })
  }
  const approval = (name: string): Handler => (payload) => {
    const session = sessionOf(payload)
    const tool = session.tools.get(toolKey(payload))?.[0]
    mark(name, (tool ?? session.scope).uuid, {
      ...metadata(payload),
      ...pick(payload, ["command", "description", "pattern_key", "pattern_keys", "surface", "choice", "decided_by"])
    })
  }
  const subagent = (payload: Fields): { readonly parent: Session; readonly facts: Facts } => {
    const child = text(payload, "child_session_id")
    const parent = ensure(text(payload, "parent_session_id") || "default", { ...payload, session_id: undefined })
    return {
      parent,
      facts: {
        ...metadata(payload),
        ...pick(payload, ["child_goal", "child_summary", "child_status"]),
        ...(child === "" ? {} : { session_id: child, trajectory_id: child }),
        ...(text(payload, "child_subagent_id") === "" ? {} : { subagent_id: text(payload, "child_subagent_id") })
      }
    }
  }

  const handlers: Readonly<Record<string, Handler>> = {
    on_session_start: sessionOf,
    on_session_end: note("hermes.session.end", "completed", "interrupted"),
    on_session_finalize: (payload) => closeSession(text(payload, "session_id") || text(payload, "old_session_id"), metadata(payload)),
    on_session_reset: (payload) => closeSession(text(payload, "old_session_id"), metadata(payload)),
    pre_llm_call: (payload) =>
      mark("hermes.turn.start", sessionOf(payload).scope.uuid, {
        ...metadata(payload),
        ...pick(payload, ["is_first_turn", "sender_id"]),
        // Bounded, for it may hold whole files.
        user_message: sanitize(payload["user_message"] ?? "")
      }),
    post_llm_call: note("hermes.turn.end", "assistant_response"),
    pre_api_request: (payload) => {
      const session = sessionOf(payload)
      const body = object(object(payload, "request") ?? {}, "body")
      session.calls.set(text(payload, "api_request_id"), start({
        name: text(payload, "provider") || "llm",
        category: "llm",
        parent: session.scope.uuid,
        profile: { model_name: text(payload, "model") },
        attributes: body?.["stream"] === true ? ["streaming"] : [],
        metadata: { ...metadata(payload), ...pick(payload, ["tool_count", "message_count"]) },
        data: body ?? payload["request"] ?? null
      }))
    },
    post_api_request: (payload) => closeCall(SpokenAnswer.answer(payload), "ok", "hermes.api.response.unmatched")(payload),
    api_request_error: (payload) => closeCall(SpokenAnswer.failure(payload), "error", "hermes.api.error")(payload),
    pre_tool_call: (payload) => {
      const session = sessionOf(payload)
      const id = text(payload, "tool_call_id")
      putTool(session, toolKey(payload), start({
        name: text(payload, "tool_name") || "tool",
        category: "tool",
        parent: session.scope.uuid,
        profile: id === "" ? {} : { tool_call_id: id },
        metadata: metadata(payload),
        data: payload["args"] ?? {}
      }))
    },
    post_tool_call: (payload) => {
      const session = sessionOf(payload)
      const open = takeTool(session, toolKey(payload))
      if (open === undefined) return mark("hermes.tool.response.unmatched", session.scope.uuid, metadata(payload))
      end(open, Json.toText(payload["result"] ?? ""), metadata(payload))
    },
    pre_approval_request: approval("hermes.approval.request"),
    post_approval_response: approval("hermes.approval.response"),
    subagent_start: (payload) => {
      const { facts, parent } = subagent(payload)
      const goal = text(payload, "child_goal")
      const tool = delegatingTool(parent, text(payload, "parent_tool_call_id"), goal)
      const callId = tool?.category_profile?.["tool_call_id"]
      const child = text(payload, "child_session_id")
      if (child !== "") {
        links.set(child, {
          parent: (tool ?? parent.scope).uuid,
          goal,
          metadata: { ...facts, nemo_relay_scope_role: "subagent", ...(typeof callId === "string" ? { parent_tool_call_id: callId } : {}) }
        })
      }
      mark("hermes.subagent.start", (tool ?? parent.scope).uuid, facts)
    },
    subagent_stop: (payload) => {
      const { facts, parent } = subagent(payload)
      const child = text(payload, "child_session_id")
      const link = links.get(child)
      links.delete(child)
      closeSession(child, facts)
      mark("hermes.subagent.stop", link?.parent ?? parent.scope.uuid, facts)
    }
  }

  const taken = (): ReadonlyArray<Event> => {
    const events = out
    out = []
    return events
  }
  return {
    record: (name, payload, at) => {
      now = at
      if (Object.hasOwn(handlers, name)) handlers[name]?.(payload)
      return taken()
    },
    close: (at) => {
      now = at
      // Children first: an end stands before the end of what it is in.
      for (const id of Array.from(sessions.keys()).toReversed()) closeSession(id, { reason: "shutdown" })
      return taken()
    }
  }
}

/** Receiver of events: a file, a collector of trajectories. */
export interface Sink {
  readonly write: (events: ReadonlyArray<Event>) => Effect.Effect<void>
}

const names = [
  "on_session_start", "on_session_end", "on_session_finalize", "on_session_reset", "pre_llm_call", "post_llm_call",
  "pre_api_request", "post_api_request", "api_request_error", "pre_tool_call", "post_tool_call", "pre_approval_request",
  "post_approval_response", "subagent_start", "subagent_stop"
] as const

const microsOf = (clock: Clock.Clock): number => Number(clock.currentTimeNanosUnsafe() / 1000n)

/** Builds the hook for the lifetime of the scope. Closing the scope ends every open event. */
export const hook = (agent: Agent, sinks: ReadonlyArray<Sink>): Effect.Effect<Hook, never, Scope.Scope> =>
  Effect.gen(function*() {
    const recorder = make(agent, yield* Random.nextIntBetween(0, 2 ** 32))
    const send = (events: ReadonlyArray<Event>): Effect.Effect<void> =>
      sinks.length === 1 && sinks[0] !== undefined
        ? sinks[0].write(events)
        : Effect.forEach(sinks, (sink) => sink.write(events), { discard: true })
    yield* Effect.addFinalizer(() => Clock.clockWith((clock) => send(recorder.close(microsOf(clock)))))
    // A payload is JSON; its legacy members, which are made when first read, are never read here.
    const handle = (name: string) => (payload: object): Effect.Effect<void> =>
      Clock.clockWith((clock) => send(recorder.record(name, payload as Fields, microsOf(clock))))
    return Hooks.observer({ label: "trace" }, Object.fromEntries(names.map((name) => [name, handle(name)])))
  })
