/** State of a conversion: the scopes of a stream and the trajectories built from them. */
import type * as Schema from "effect/Schema"
import type * as Atif from "../Atif.ts"
import { type Event, toMicros, type ScopeEvent, formatTimestamp } from "../Atof.ts"
import * as Draft from "./Draft.ts"
import * as Inputs from "./Inputs.ts"
import { type AgentScope, indexCalls, type TakenCalls, type ToolScope } from "./Scope.ts"
import { type Fields, toFields, toNonEmptyText } from "./Value.ts"

/** Options that supply facts missing from a stream. */
export interface Options {
  /** Name of all agents, used instead of their names in the stream. */
  readonly agentName?: string | undefined
  readonly agentVersion?: string | undefined
  /** Model of trajectories whose events do not contain a model name. */
  readonly modelName?: string | undefined
  /**
   * Calculates the cost of a call in US dollars, for calls without a cost from the provider. Returns `undefined` if the
   * price is unknown.
   */
  readonly cost?: ((model: string, metrics: Atif.Metrics) => number | undefined) | undefined
}

/** State of one conversion. */
export interface State {
  readonly options: Options
  /** Agents by the uuid of their scope. */
  readonly agents: Map<string, AgentScope>
  readonly tools: Map<string, ToolScope>
  readonly parents: Map<string, string | null>
  /** Announced children whose scope has not begun, by session id, with their parent agent and call. */
  readonly announced: Map<
    string,
    { readonly parent: AgentScope; readonly within: ToolScope | undefined; readonly draft: Draft.Draft }
  >
  /** Start events of open scopes that are neither agents nor tools. */
  readonly starts: Map<string, ScopeEvent>
  taken: TakenCalls
}

/** Creates the state of a conversion that has not received any events. */
export const make = (options: Options): State => ({
  options,
  agents: new Map(),
  tools: new Map(),
  parents: new Map(),
  announced: new Map(),
  starts: new Map(),
  taken: new WeakSet()
})

/** Returns the time of an event in the format of a step. */
export const formatEventTime = (event: Event): string => formatTimestamp(toMicros(event.timestamp))

/** Finds the nearest enclosing scope of an event that has a value in `known`, and returns this value. */
export const findEnclosing = <A>({ parents }: State, event: Event, known: ReadonlyMap<string, A>): A | undefined => {
  let uuid = event.parent_uuid ?? null
  for (let depth = 0; uuid !== null && depth < 256; depth++) {
    const found = known.get(uuid)
    if (found !== undefined) return found
    uuid = parents.get(uuid) ?? null
  }
  return undefined
}

const isObject = (value: Schema.Json | undefined): value is Draft.Extra =>
  typeof value === "object" && value !== null && !Array.isArray(value)

const toExtra = (value: Schema.Json | undefined): Draft.Extra | undefined => (isObject(value) ? value : undefined)

/** Version of an agent whose stream does not state one, as the reference converter writes it. */
const unstatedVersion = "1.0.0"

/** Returns the facts about a session and its child in the scope of an agent of this runtime. */
const readStartFacts = (meta: Fields): Draft.Extra => {
  const source = toNonEmptyText(meta["source"])
  const goal = toNonEmptyText(meta["child_goal"])
  if (source === undefined) return {}
  return { source, provider: toNonEmptyText(meta["provider"]) ?? "", ...(goal === undefined ? {} : { goal }) }
}

/** Opens an agent scope. `root` is the root agent that it works for. */
export const openAgentScope = (
  { options }: State,
  event: Event,
  sessionId: string,
  root: AgentScope | undefined
): AgentScope => {
  const meta = toFields(event.metadata)
  const own = toNonEmptyText(meta["agent_name"])
  const continues = toExtra(meta["continues"])
  const rewritten = toExtra(continues?.["context_rewritten"])
  return {
    draft: {
      sessionId,
      agent: {
        name: (root === undefined ? options.agentName : undefined) ?? own ?? toNonEmptyText(event.name) ?? "unknown",
        version: options.agentVersion ?? toNonEmptyText(meta["version"]) ?? unstatedVersion
      },
      goal: toNonEmptyText(meta["child_goal"]) ?? toNonEmptyText(toFields(event.data)["input"]),
      steps: [],
      model: undefined,
      tools: [],
      extra: { ...readStartFacts(meta), ...(continues === undefined ? {} : { continues }) }
    },
    inputs: Inputs.make(),
    byId: new Map(),
    byName: new Map(),
    pending: undefined,
    failures: [],
    last: undefined,
    told: { names: new Set(), first: undefined, isAsked: false, rewritten: [], beginning: rewritten },
    root
  }
}

/**
 * Returns the agent that an event belongs to. For an event outside all agent scopes, an implicit agent is created, with
 * the name and the id of the outermost scope.
 */
export const getAgent = (state: State, event: Event): AgentScope => {
  const found = findEnclosing(state, event, state.agents)
  if (found !== undefined) return found
  const id = toNonEmptyText(event.metadata?.["session_id"])
  const key = `implicit:${id ?? ""}`
  const known = state.agents.get(key)
  if (known !== undefined) return known
  const isOutermost = event.kind === "scope" && event.parent_uuid === null
  const named = isOutermost ? event : { ...event, name: "" }
  const agent = openAgentScope(state, named, id ?? (isOutermost ? event.uuid : "implicit"), undefined)
  state.agents.set(key, agent)
  return agent
}

/** Adds a finished step, and returns it. */
export const addDraftStep = (agent: AgentScope, step: Draft.Step): Draft.Step => {
  agent.draft.steps.push(step)
  indexCalls(agent, step)
  return step
}

/** Creates a step and adds it. */
export const addStep = (agent: AgentScope, one: Parameters<typeof Draft.makeStep>[0]): Draft.Step =>
  addDraftStep(agent, Draft.makeStep(one))

/** Adds a step for the user's message of a turn whose requests did not contain it. */
export const flushPending = (agent: AgentScope): void => {
  if (agent.pending !== undefined) addStep(agent, { source: "user", ...agent.pending })
  agent.pending = undefined
}

const findRootAgent = (agent: AgentScope): AgentScope => (agent.root === undefined ? agent : findRootAgent(agent.root))

/** Forgets a root agent and everything below it. */
export const forgetRoot = (state: State, root: string): void => {
  const gone = state.agents.get(root)
  if (gone === undefined) return
  const uuids = [
    ...Array.from(state.tools).filter(([, tool]) => findRootAgent(tool.agent) === gone),
    ...Array.from(state.agents).filter(([, agent]) => findRootAgent(agent) === gone)
  ].map(([uuid]) => uuid)
  for (const uuid of uuids) {
    state.tools.delete(uuid)
    state.agents.delete(uuid)
    state.parents.delete(uuid)
  }
  for (const [sessionId, { parent }] of state.announced)
    if (findRootAgent(parent) === gone) state.announced.delete(sessionId)
  if (state.agents.size > 0) return
  state.parents.clear()
  state.starts.clear()
  state.taken = new WeakSet()
}

/** Returns the times of a scope, in seconds, in the format used by other ATOF converters. */
export const describeInvocation = (start: ScopeEvent, event: ScopeEvent, status: string) => ({
  start_timestamp: toMicros(start.timestamp) / 1e6,
  end_timestamp: toMicros(event.timestamp) / 1e6,
  invocation_id: event.uuid,
  status
})
