/**
 * Makes trajectories out of a stream of events, one event at a time: of a run that is going on as well as of a file.
 *
 * **Details**
 *
 * - A request makes a step of each message of the system and the user that is new in it; an answer makes one step of the
 *   agent. Attempts that failed are told in the step of the one that did not; when none did, in a step of the system.
 * - A result belongs to the step whose answer issued its call, by `tool_call_id`, whenever it arrives. A tool that no model
 *   asked for is a step of the agent with `llm_call_count` 0.
 * - An agent under a tool scope is a child: its trajectory is embedded, and the result of that call points to it.
 * - A payload that nobody knows becomes a step of the system that holds it; none is lost.
 *
 * **Gotchas**
 *
 * Events must come in order of time (`Atof.parse` sorts). What is converted before a stream ends is what is known by then: a
 * call without a result yet has none.
 *
 * Source: `relay-atof-atif.md` §2.4 to §2.7.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import type * as Atif from "./Atif.ts"
import * as Answer from "./atif/Answer.ts"
import * as Draft from "./atif/Draft.ts"
import * as Inputs from "./atif/Inputs.ts"
import * as Message from "./atif/Message.ts"
import { type AgentScope, callIdOf, ending, issuing, type ToolScope } from "./atif/Scope.ts"
import { args, fields, items, number, text } from "./atif/Value.ts"
import { type Event, micros, type MarkEvent, type ScopeEvent, timestampOf } from "./Atof.ts"

/** A payload that is not what its `data_schema` says. */
export class ShapeMismatch extends Schema.TaggedError<ShapeMismatch>("hermes-effect/observability/ShapeMismatch")(
  "ShapeMismatch",
  { uuid: Schema.String, message: Schema.String }
) {}

/** What a stream does not say. */
export interface Options {
  /** Takes the place of what the stream says of its agents. */
  readonly agentName?: string | undefined
  readonly agentVersion?: string | undefined
  /** Of trajectories whose events name no model. */
  readonly modelName?: string | undefined
  /** What a call cost in dollars, where the provider does not say and somebody knows. */
  readonly cost?: ((model: string, metrics: Atif.Metrics) => number | undefined) | undefined
}

/** See the module. */
export interface Converter {
  readonly add: (event: Event) => void
  /** The agents that nobody delegated to, by their scope's uuid, as far as they are known. */
  readonly roots: () => ReadonlyArray<string>
  /** Undefined when there is nothing to tell yet. */
  readonly trajectory: (root: string) => Atif.Trajectory | undefined
  /** The trajectory of an agent scope that is a child, as a document of its own. */
  readonly child: (sessionId: string) => Atif.Trajectory | undefined
  /** Forgets a root and all that is under it. */
  readonly forget: (root: string) => void
  readonly faults: () => ReadonlyArray<ShapeMismatch>
}

const shapes: Readonly<Record<string, { readonly start: (data: unknown) => boolean; readonly end: (data: unknown) => boolean }>> = {
  "openai/chat-completions": {
    start: (data) => Message.request(data) !== undefined,
    end: (data) => items(fields(data)["choices"]).length > 0
  },
  "anthropic/messages": {
    start: (data) => Message.request(data) !== undefined,
    end: (data) => Array.isArray(fields(data)["content"])
  }
}

const implicit = "implicit"

const timestampText = (event: Event): string => timestampOf(micros(event.timestamp))

/** A conversion that has seen nothing yet. */
export const make = (options: Options = {}): Converter => {
  const agents = new Map<string, AgentScope>()
  const tools = new Map<string, ToolScope>()
  const parents = new Map<string, string | null>()
  const starts = new Map<string, ScopeEvent>()
  const faults: Array<ShapeMismatch> = []
  let taken = new WeakSet<Draft.Call>()

  /** The nearest scope around an event that one of the maps knows. */
  const around = <A>(event: Event, known: ReadonlyMap<string, A>): A | undefined => {
    let uuid = event.parent_uuid ?? null
    for (let depth = 0; uuid !== null && depth < 256; depth++) {
      const found = known.get(uuid)
      if (found !== undefined) return found
      uuid = parents.get(uuid) ?? null
    }
    return undefined
  }
  const open = (event: Event, sessionId: string, root: AgentScope | undefined): AgentScope => {
    const meta = fields(event.metadata)
    const name = options.agentName ?? text(meta["agent_name"]) ?? (root === undefined ? text(event.name) : undefined)
    return {
      draft: {
        sessionId,
        agent: { name: (root === undefined ? name : text(meta["agent_name"]) ?? text(event.name)) ?? "unknown", version: options.agentVersion ?? text(meta["version"]) ?? "unknown" },
        goal: text(meta["child_goal"]) ?? text(fields(event.data)["input"]),
        steps: [],
        model: undefined,
        tools: [],
        extra: {}
      },
      inputs: Inputs.make(),
      pending: undefined,
      failures: [],
      root
    }
  }
  const agentOf = (event: Event): AgentScope => {
    const found = around(event, agents)
    if (found !== undefined) return found
    const id = text(event.metadata?.["session_id"]) ?? implicit
    const known = agents.get(`${implicit}:${id}`)
    if (known !== undefined) return known
    const made = open({ ...event, name: "" }, id, undefined)
    agents.set(`${implicit}:${id}`, made)
    return made
  }

  const checked = (event: ScopeEvent): void => {
    const name = text(event.data_schema?.["name"])
    const shape = name !== undefined && Object.hasOwn(shapes, name) ? shapes[name] : undefined
    if (shape === undefined || event.data === null || event.data === undefined || shape[event.scope_category](event.data)) return
    faults.push(new ShapeMismatch({ uuid: event.uuid, message: `${event.uuid}: its data is not what ${name} has at the ${event.scope_category} of a call` }))
  }

  const say = (agent: AgentScope, one: Parameters<typeof Draft.step>[0]): Draft.Step => {
    const made = Draft.step(one)
    agent.draft.steps.push(made)
    return made
  }
  const flushPending = (agent: AgentScope): void => {
    if (agent.pending !== undefined) say(agent, { source: "user", ...agent.pending })
    agent.pending = undefined
  }
  const flushFailures = (agent: AgentScope): void => {
    const last = agent.failures.at(-1)
    if (last === undefined) return
    flushPending(agent)
    const { at, ...failure } = last
    const error = fields(failure["error"])
    say(agent, {
      source: "system",
      message: `The model could not be asked: ${text(error["message"]) ?? text(failure["error"]) ?? "unknown error"}`,
      timestamp: at,
      extra: { error: failure, attempts: agent.failures.length }
    })
    agent.failures = []
  }

  const asked = (event: ScopeEvent): void => {
    const agent = agentOf(event)
    const request = Message.request(event.data)
    const timestamp = timestampText(event)
    const model = text(event.category_profile?.["model_name"])
    agent.draft.model ??= model
    if (request === undefined) return flushPending(agent)
    if (agent.draft.tools.length === 0) agent.draft.tools = request.tools as typeof agent.draft.tools
    const { fresh, isAside, replaced } = agent.inputs.take(request)
    if (isAside) return
    if (replaced !== undefined) {
      say(agent, {
        source: "system",
        message: "",
        timestamp,
        results: [{ callId: undefined, content: replaced, children: [], extra: {} }],
        extra: { context_management: { type: "compaction", boundary: "replace" } }
      })
    }
    // What is new in the first request of a turn is of the turn's beginning.
    const since = agent.pending?.timestamp ?? timestamp
    const lastUser = fresh.findLastIndex(({ role }) => role === "user")
    fresh.forEach(({ content, copied, role }, index) => {
      const isTurn = index === lastUser && agent.pending !== undefined
      say(agent, {
        // `take` keeps these two roles.
        source: role as "system" | "user",
        message: isTurn ? agent.pending?.message ?? content : content,
        timestamp: since,
        rest: copied ? { is_copied_context: true } : {}
      })
      if (isTurn) agent.pending = undefined
    })
    flushPending(agent)
  }

  const answered = (event: ScopeEvent): void => {
    const agent = agentOf(event)
    const start = starts.get(event.uuid)
    starts.delete(event.uuid)
    const { error, status } = ending(event)
    const data = fields(event.data)
    const meta = fields(event.metadata)
    const requested = text(start?.category_profile?.["model_name"])
    if (status === "error" || (data["error"] !== undefined && data["content"] === undefined && data["choices"] === undefined)) {
      agent.failures.push({
        at: timestampText(event),
        error: data["error"] ?? (error === undefined ? null : { message: error }),
        model: requested ?? null,
        provider: event.name,
        ...(data["reason"] === undefined ? {} : { reason: data["reason"] })
      })
      return
    }
    const answer = Answer.read(event.data)
    const model = text(event.category_profile?.["model_name"]) ?? answer.model ?? requested
    agent.draft.model ??= model
    const failures = agent.failures
    agent.failures = []
    const effort = Message.request(start?.data)?.effort
    const cost = answer.metrics !== undefined && answer.metrics.cost_usd === undefined && model !== undefined
      ? options.cost?.(model, answer.metrics)
      : undefined
    say(agent, {
      source: "agent",
      message: answer.message,
      timestamp: timestampText(event),
      rest: {
        ...(model === undefined ? {} : { model_name: model }),
        ...(effort === undefined ? {} : { reasoning_effort: effort }),
        ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
        ...(answer.metrics === undefined ? {} : { metrics: cost === undefined ? answer.metrics : { ...answer.metrics, cost_usd: cost } }),
        llm_call_count: 1
      },
      calls: identified(answer.calls),
      extra: {
        ...(answer.finishReason === undefined ? {} : { finish_reason: answer.finishReason }),
        ...(text(meta["provider"]) === undefined ? {} : { provider: text(meta["provider"]) ?? "" }),
        ...(start === undefined ? {} : { invocation: invocation(start, event, "completed") }),
        ...(failures.length === 0 ? {} : { retries: failures.map(({ at, ...failure }) => ({ ...failure, timestamp: at })) })
      }
    })
  }

  const end = (tool: ToolScope, event: ScopeEvent): void => {
    const place = placeOf(tool)
    const { error, status } = ending(event)
    const said = event.data === null || event.data === undefined ? error ?? "" : Message.output(event.data)
    const duration = number(event.metadata?.["duration_ms"])
    const result = resultOf(tool, place)
    // The order of results is that in which calls are over.
    place.step.results.splice(place.step.results.indexOf(result), 1)
    place.step.results.push(result)
    result.content = said
    result.extra = {
      ...result.extra,
      ...(status === undefined || status === "ok" ? {} : { status, ...(error === undefined ? {} : { error }) }),
      ...(duration === undefined ? {} : { duration_ms: duration }),
      ...(tool.approval === undefined ? {} : { approval: tool.approval })
    }
    place.call.extra["invocation"] = invocation(tool.start, event, status === undefined || status === "ok" ? "completed" : status)
  }
  const placeOf = (tool: ToolScope): NonNullable<ToolScope["place"]> => {
    tool.place ??= issuing(tool, taken)
    if (tool.place === undefined) {
      flushPending(tool.agent)
      const call: Draft.Call = { id: tool.callId ?? tool.start.uuid, name: tool.name, args: args(tool.start.data), extra: {} }
      const step = say(tool.agent, {
        source: "agent",
        message: "",
        timestamp: timestampText(tool.start),
        rest: { llm_call_count: 0 },
        calls: [call]
      })
      tool.place = { step, call }
    }
    taken.add(tool.place.call)
    return tool.place
  }
  const resultOf = (tool: ToolScope, { call, step }: NonNullable<ToolScope["place"]>): Draft.Result => {
    if (tool.result === undefined) {
      tool.result = { callId: call.id, content: undefined, children: tool.children, extra: {} }
      step.results.push(tool.result)
    }
    return tool.result
  }

  const agentStarted = (event: ScopeEvent): void => {
    const named = text(event.metadata?.["parent_tool_call_id"])
    const within = around(event, tools) ??
      (named === undefined ? undefined : Array.from(tools.values()).findLast(({ callId }) => callId === named))
    const parent = within?.agent ?? around(event, agents)
    const sessionId = text(event.metadata?.["session_id"]) ?? event.uuid
    const agent = open(event, sessionId, parent)
    agents.set(event.uuid, agent)
    if (within !== undefined) within.children.push(agent.draft)
    else if (parent !== undefined) {
      const result: Draft.Result = { callId: undefined, content: undefined, children: [agent.draft], extra: {} }
      say(parent, { source: "system", message: "", timestamp: timestampText(event), results: [result], extra: { event: "subagent" } })
    }
  }

  const started = (event: ScopeEvent): void => {
    parents.set(event.uuid, event.parent_uuid ?? null)
    if (event.category === "agent") return agentStarted(event)
    if (event.category === "llm") {
      starts.set(event.uuid, event)
      checked(event)
      return asked(event)
    }
    if (event.category === "tool") {
      const tool: ToolScope = {
        agent: agentOf(event), start: event, callId: callIdOf(event), name: event.name, children: [],
        approval: undefined, place: undefined, result: undefined
      }
      tool.place = issuing(tool, taken)
      if (tool.place !== undefined) taken.add(tool.place.call)
      tools.set(event.uuid, tool)
      return
    }
    starts.set(event.uuid, event)
  }
  const ended = (event: ScopeEvent): void => {
    if (event.category === "agent") {
      const agent = agents.get(event.uuid)
      if (agent !== undefined) flushFailures(agent)
      return
    }
    if (event.category === "llm") {
      checked(event)
      return answered(event)
    }
    const tool = tools.get(event.uuid)
    if (tool !== undefined) return end(tool, event)
    if (event.category === "tool") {
      started({ ...event, scope_category: "start", data: null })
      return ended(event)
    }
    starts.delete(event.uuid)
    if (event.data !== null && event.data !== undefined) opaque(event, event.category)
  }
  const opaque = (event: Event, what: string): void => {
    const role = text(fields(event.data)["role"])
    const source = role === "user" || role === "system" ? role : role === "assistant" ? "agent" : "system"
    const content = role === undefined ? undefined : Message.content(fields(event.data)["content"])
    say(agentOf(event), {
      source: content === undefined ? "system" : source,
      message: content ?? `${what}: ${event.name}`,
      timestamp: timestampText(event),
      extra: content === undefined ? { event: event.name, category: what, data: event.data ?? null } : {}
    })
  }
  const marked = (event: MarkEvent): void => {
    if (event.name === "hermes.turn.start") {
      const agent = agentOf(event)
      flushFailures(agent)
      flushPending(agent)
      const message = Message.content(event.metadata?.["user_message"])
      if (message !== undefined) agent.pending = { message, timestamp: timestampText(event) }
    } else if (event.name === "hermes.session.end") {
      const agent = agentOf(event)
      flushPending(agent)
      flushFailures(agent)
      if (event.metadata?.["interrupted"] === true) agent.draft.extra["interrupted"] = true
      else delete agent.draft.extra["interrupted"]
    } else if (event.name === "hermes.approval.response") {
      const tool = event.parent_uuid === undefined || event.parent_uuid === null ? undefined : tools.get(event.parent_uuid)
      const facts = fields(event.metadata)
      const choice = text(facts["choice"]) ?? "unknown"
      const decidedBy = text(facts["decided_by"])
      if (tool !== undefined) tool.approval = { choice, ...(decidedBy === undefined ? {} : { decided_by: decidedBy }) }
    } else if (event.data !== null && event.data !== undefined && !event.name.startsWith("hermes.") && event.name !== "llm.chunk") {
      opaque(event, event.category ?? "mark")
    }
  }

  /** What nobody has seen the end of: calls without a result, delegations that go on. */
  const settle = (): void => {
    for (const tool of tools.values()) {
      if (tool.result !== undefined) continue
      const place = placeOf(tool)
      if (tool.children.length > 0) resultOf(tool, place)
    }
  }
  const rootOf = (agent: AgentScope): AgentScope => agent.root === undefined ? agent : rootOf(agent.root)
  return {
    add: (event) => event.kind === "mark" ? marked(event) : event.scope_category === "start" ? started(event) : ended(event),
    roots: () => Array.from(agents).flatMap(([uuid, { root }]) => root === undefined ? [uuid] : []),
    trajectory: (root) => {
      settle()
      const agent = agents.get(root)
      if (agent === undefined) return undefined
      if (agent.draft.model === undefined) agent.draft.model = options.modelName
      return Draft.trajectory(agent.draft)
    },
    child: (sessionId) => {
      settle()
      const found = Array.from(agents.values()).findLast(({ draft, root }) => root !== undefined && draft.sessionId === sessionId)
      return found === undefined ? undefined : Draft.trajectory(found.draft)
    },
    forget: (root) => {
      const gone = agents.get(root)
      if (gone === undefined) return
      for (const [uuid, tool] of tools) if (rootOf(tool.agent) === gone) forgetScope(uuid)
      for (const [uuid, agent] of agents) if (rootOf(agent) === gone) forgetScope(uuid)
      if (agents.size === 0) {
        parents.clear()
        starts.clear()
        taken = new WeakSet()
      }
    },
    faults: () => faults
  }

  function forgetScope(uuid: string): void {
    tools.delete(uuid)
    agents.delete(uuid)
    parents.delete(uuid)
  }
}

const invocation = (start: ScopeEvent, event: ScopeEvent, status: string) => ({
  start_timestamp: micros(start.timestamp) / 1e6,
  end_timestamp: micros(event.timestamp) / 1e6,
  invocation_id: event.uuid,
  status
})

/** Calls with an id each; one that the provider gave none is named by its tool and its place. */
const identified = (calls: ReadonlyArray<Answer.Call>): Array<Draft.Call> => {
  const used = new Set<string>()
  return calls.map((call, index) => {
    let id = call.id ?? `${call.name}:${index}`
    while (used.has(id)) id = `${id}'`
    used.add(id)
    return { id, name: call.name, args: call.args, extra: {} }
  })
}

/** The trajectories of a whole stream, one for each agent that nobody delegated to. */
export const convert = (
  events: ReadonlyArray<Event>,
  options: Options = {}
): { readonly trajectories: ReadonlyArray<Atif.Trajectory>; readonly faults: ReadonlyArray<ShapeMismatch> } => {
  const converter = make(options)
  for (const event of events) converter.add(event)
  return {
    trajectories: converter.roots().flatMap((root) => converter.trajectory(root) ?? []),
    faults: converter.faults()
  }
}
