/**
 * Converts a stream of events to trajectories, one event at a time. The events may come from an active run or from a
 * file.
 *
 * **Details**
 *
 * - Each new system or user message in a request becomes a step; an answer becomes one agent step. Failed attempts are
 *   recorded in the step of the successful one, or in a system step if all failed.
 * - A result belongs to the step whose answer issued its call, by `tool_call_id`, regardless of when it arrives. A tool
 *   call that no model requested is an agent step with `llm_call_count` 0.
 * - An agent under a tool scope is a child: its trajectory is embedded, and the result of that call points to it.
 * - An unknown payload becomes a system step that contains it, so no payload is lost.
 *
 * **Gotchas**
 *
 * Events must be in chronological order (`Atof.parse` sorts them). A conversion before the end of the stream shows the
 * current state: a call without a result so far is shown without one.
 *
 * **Example** (The trajectories of a stream of events)
 *
 * ```ts
 * import { AtifConvert, Atof } from "hermes-effect/observability"
 *
 * const { events, faults } = Atof.parse("")
 * const { trajectories } = AtifConvert.convert(events)
 *
 * console.log(trajectories.length, faults.length)
 * // => 0 0
 * ```
 *
 * Source: `relay-atof-atif.md` §2.4 to §2.7.
 */
import * as Schema from "effect/Schema"
import type * as Atif from "./Atif.ts"
import * as Draft from "./atif/Draft.ts"
import * as DraftSteps from "./atif/DraftSteps.ts"
import * as Message from "./atif/Message.ts"
import * as ModelSteps from "./atif/ModelSteps.ts"
import * as NamedMessages from "./atif/NamedMessages.ts"
import type { AgentScope, ToolScope } from "./atif/Scope.ts"
import {
  getAgent,
  findEnclosing,
  flushPending,
  forgetRoot,
  make as makeState,
  openAgentScope,
  type Options,
  addDraftStep,
  addStep,
  type State,
  formatEventTime
} from "./atif/State.ts"
import * as ToolResults from "./atif/ToolResults.ts"
import { type Fields, toFields, toItems, toNonEmptyText } from "./atif/Value.ts"
import * as Atof from "./Atof.ts"
import * as SideScopes from "./atof/SideScopes.ts"

export type { Options } from "./atif/State.ts"

/** A payload that does not match its `data_schema`. */
export class ShapeMismatch extends Schema.TaggedError<ShapeMismatch>("hermes-effect/observability/ShapeMismatch")(
  "ShapeMismatch",
  { uuid: Schema.String, message: Schema.String }
) {}

/** A conversion in progress. It takes events in order and returns the trajectories known so far. */
export interface Converter {
  readonly add: (event: Atof.Event) => void
  /** Scope uuids of the root agents known so far. A root agent was not started by another agent. */
  readonly roots: () => ReadonlyArray<string>
  /** Ends the input. Scopes that are still open remain without an end. */
  readonly finish: () => void
  /**
   * Returns the trajectory known so far without changing the state of the conversion, or `undefined` if it has no steps
   * yet.
   */
  readonly trajectory: (root: string) => Atif.Trajectory | undefined
  /** Returns the trajectory of a child agent as a separate document. */
  readonly child: (sessionId: string) => Atif.Trajectory | undefined
  /** Forgets a root agent and everything below it. */
  readonly forget: (root: string) => void
  readonly faults: () => ReadonlyArray<ShapeMismatch>
}

const shapes: Readonly<
  Record<string, { readonly start: (data: unknown) => boolean; readonly end: (data: unknown) => boolean }>
> = {
  "openai/chat-completions": {
    start: (data) => Message.readRequest(data) !== undefined,
    end: (data) =>
      toItems(toFields(data)["choices"]).length > 0 ||
      typeof toFields(data)["content"] === "string" ||
      Array.isArray(toFields(data)["tool_calls"])
  },
  "anthropic/messages": {
    start: (data) => Message.readRequest(data) !== undefined,
    end: (data) => Array.isArray(toFields(data)["content"])
  },
  "gemini/generate-content": {
    start: (data) => Message.readRequest(data) !== undefined,
    end: (data) => toItems(toFields(data)["candidates"]).length > 0
  }
}

/** Checks the payload of a model call against its schema, if that schema is known. */
const findMismatches = (event: Atof.ScopeEvent): ReadonlyArray<ShapeMismatch> => {
  const name = toNonEmptyText(event.data_schema?.["name"])
  const shape = name !== undefined && Object.hasOwn(shapes, name) ? shapes[name] : undefined
  if (shape === undefined || event.data === null || event.data === undefined || shape[event.scope_category](event.data))
    return []
  const line = Atof.findLine(event)
  return [
    new ShapeMismatch({
      uuid: event.uuid,
      message:
        `${line === undefined ? event.uuid : `line ${line}`}: its data is not what ${name} has` +
        ` at the ${event.scope_category} of a call; it is kept as it is`
    })
  ]
}

/**
 * Adds a child to the tool call that started it, or else to a separate step of its parent. An agent without a parent is
 * a root and is not added anywhere.
 */
const placeChild = (
  event: Atof.Event,
  within: ToolScope | undefined,
  parent: AgentScope | undefined,
  draft: Draft.Draft
): void => {
  if (within !== undefined) within.children.push(draft)
  else if (parent !== undefined) {
    addDraftStep(parent, DraftSteps.makeSubagentStep(draft, formatEventTime(event)))
  }
}

/**
 * Removes the placeholder of an announced child when its scope begins, because the scope determines its exact place.
 */
const removeAnnouncedChild = (state: State, sessionId: string): void => {
  const known = state.announced.get(sessionId)
  if (known === undefined) return
  state.announced.delete(sessionId)
  const { draft, parent, within } = known
  if (within !== undefined) within.children.splice(within.children.indexOf(draft), 1)
  else
    parent.draft.steps.splice(
      parent.draft.steps.findIndex(({ results }) => results.some(({ children }) => children.includes(draft))),
      1
    )
}

const handleAgentStart = (state: State, event: Atof.ScopeEvent): void => {
  const named = toNonEmptyText(event.metadata?.["parent_tool_call_id"])
  const within =
    findEnclosing(state, event, state.tools) ??
    (named === undefined ? undefined : Array.from(state.tools.values()).findLast(({ callId }) => callId === named))
  const parent = within?.agent ?? findEnclosing(state, event, state.agents)
  const sessionId = toNonEmptyText(event.metadata?.["session_id"]) ?? event.uuid
  removeAnnouncedChild(state, sessionId)
  const agent = openAgentScope(state, event, sessionId, parent)
  const task = toNonEmptyText(event.metadata?.["side_task"])
  if (task !== undefined) agent.draft.extra["side_task"] = task
  state.agents.set(event.uuid, agent)
  placeChild(event, within, parent, agent.draft)
}

/**
 * Adds a placeholder for an announced child before its scope begins. A child whose scope never begins is described by
 * its goal.
 */
const handleChildAnnouncement = (state: State, event: Atof.MarkEvent): void => {
  const within = findEnclosing(state, event, state.tools)
  const parent = within?.agent ?? findEnclosing(state, event, state.agents)
  const sessionId = toNonEmptyText(event.metadata?.["child_session_id"])
  if (
    parent === undefined ||
    sessionId === undefined ||
    Array.from(state.agents.values()).some(({ draft }) => draft.sessionId === sessionId)
  )
    return
  const { draft } = openAgentScope(state, { ...event, name: parent.draft.agent.name }, sessionId, parent)
  state.announced.set(sessionId, { parent, within, draft })
  placeChild(event, within, parent, draft)
}

/** Returns an unknown payload as the text of a step, or the name of its event if it has no payload. */
const readOpaqueMessage = ({ data, name }: Atof.Event, what: string): string =>
  Message.renderOutput(data) === "" ? `${what}: ${name}` : Message.renderOutput(data)

/** Adds a step for an unknown payload. `input` is the payload of the start event of its scope. */
const addOpaqueStep = (state: State, event: Atof.Event, what: string, input: Schema.Json = null): void => {
  const { content, message, role: given } = toFields(event.data)
  const role = toNonEmptyText(given)
  const source =
    role === "user" || role === "system" ? role : role === "assistant" || role === "agent" ? "agent" : "system"
  const said = role === undefined ? undefined : Message.readContent(content ?? message)
  addStep(getAgent(state, event), {
    source: said === undefined ? "system" : source,
    message: said ?? readOpaqueMessage(event, what),
    timestamp: formatEventTime(event),
    extra:
      said === undefined
        ? { event: event.name, category: what, ...(input === null ? {} : { input }), data: event.data ?? null }
        : {}
  })
}

/** Returns the text of an opaque payload. If its only value is a string, that string is returned. */
const readOpaqueText = (data: Schema.Json): string => {
  const values = Object.values(toFields(data))
  const [only] = values
  return values.length === 1 && typeof only === "string" ? only : Message.renderOutput(data)
}

/** Adds a step for the start or the end of an unknown top-level scope: the input of a program, or its output. */
const addBoundaryStep = (state: State, event: Atof.ScopeEvent): void => {
  if (event.data === null || event.data === undefined) return
  const agent = getAgent(state, event)
  agent.draft.extra["opaque_root"] = event.name
  addStep(agent, {
    source: event.scope_category === "start" ? "user" : "agent",
    message: readOpaqueText(event.data),
    timestamp: formatEventTime(event)
  })
}

const isBoundary = (event: Atof.ScopeEvent): boolean => event.parent_uuid === null && event.category !== "llm"

/** Reads the outcome of a run. Only streams of this runtime have the source of a session and the exits of its runs. */
const readOutcome = ({ draft: { extra } }: AgentScope, { error, interrupted, reason }: Fields): void => {
  if (interrupted === true) extra["interrupted"] = true
  else delete extra["interrupted"]
  if (extra["source"] === undefined) return
  extra["exit"] = reason ?? "interrupted"
  if (error !== undefined) extra["error"] = error
}

/** Reads the status of a child that did not complete. */
const readChildStatus = ({ draft: { extra } }: AgentScope, { metadata }: Atof.ScopeEvent): void => {
  const facts = toFields(metadata)
  const status = facts["child_status"] ?? (facts["reason"] === "interrupted" ? "interrupted" : "completed")
  if (extra["source"] !== undefined && extra["goal"] !== undefined && status !== "completed") extra["status"] = status
}

const handleMark = (state: State, event: Atof.MarkEvent): void => {
  if (event.name === "hermes.turn.start") {
    const agent = getAgent(state, event)
    ModelSteps.flushFailures(agent)
    flushPending(agent)
    // Pending rewrites are from a previous run that was killed after the rewrite.
    NamedMessages.flushRewrites(agent, "")
    if (NamedMessages.appendMessage(agent, event)) return
    const message = Message.readContent(event.metadata?.["user_message"])
    if (message !== undefined) agent.pending = { message, timestamp: formatEventTime(event) }
  } else if (event.name === "hermes.session.end") {
    const agent = getAgent(state, event)
    flushPending(agent)
    ModelSteps.flushFailures(agent)
    NamedMessages.flushRewrites(agent, "")
    readOutcome(agent, toFields(event.metadata))
  } else if (event.name === "hermes.subagent.start") {
    handleChildAnnouncement(state, event)
  } else if (event.name === "hermes.message") {
    NamedMessages.appendMessage(getAgent(state, event), event)
  } else if (event.name === "hermes.answer.stored") {
    ModelSteps.applyStoredAnswer(getAgent(state, event), event)
  } else if (event.name === SideScopes.markNames.end) {
    ModelSteps.addSideTask(getAgent(state, event), event)
  } else if (event.name === "hermes.answer.partial") {
    ModelSteps.applyPartialAnswer(getAgent(state, event), event)
  } else if (event.name === "hermes.result.stored") {
    ToolResults.applyStoredResult(getAgent(state, event), event)
  } else if (event.name === "hermes.context.rewritten") {
    const { after, before, reason, removed } = toFields(event.metadata)
    getAgent(state, event).told.rewritten.push({
      facts: {
        reason: reason ?? null,
        before: before ?? null,
        after: after ?? null,
        ...(removed === undefined ? {} : { removed })
      },
      timestamp: formatEventTime(event)
    })
  } else if (event.name === "hermes.approval.response") {
    const tool =
      event.parent_uuid === undefined || event.parent_uuid === null ? undefined : state.tools.get(event.parent_uuid)
    const facts = toFields(event.metadata)
    const choice = toNonEmptyText(facts["choice"]) ?? "unknown"
    const decidedBy = toNonEmptyText(facts["decided_by"])
    if (tool !== undefined) tool.approval = { choice, ...(decidedBy === undefined ? {} : { decided_by: decidedBy }) }
  } else if (
    event.data !== null &&
    event.data !== undefined &&
    !event.name.startsWith("hermes.") &&
    event.name !== "llm.chunk"
  ) {
    addOpaqueStep(state, event, event.category ?? "mark")
  }
}

const handleScopeStart = (state: State, event: Atof.ScopeEvent): void => {
  state.parents.set(event.uuid, event.parent_uuid ?? null)
  if (event.category === "agent") return handleAgentStart(state, event)
  if (event.category === "tool") return ToolResults.beginCall(state, event)
  state.starts.set(event.uuid, event)
  if (event.category === "llm") ModelSteps.handleRequest(state, event)
  else if (isBoundary(event)) addBoundaryStep(state, event)
}

const handleScopeEnd = (state: State, event: Atof.ScopeEvent): void => {
  if (event.category === "agent") {
    const agent: AgentScope | undefined = state.agents.get(event.uuid)
    if (agent !== undefined) {
      ModelSteps.flushFailures(agent)
      NamedMessages.flushRewrites(agent, "")
      readChildStatus(agent, event)
    }
    return
  }
  if (event.category === "llm") {
    ModelSteps.handleAnswer(state, event)
    state.parents.delete(event.uuid)
    return
  }
  if (event.category === "tool") {
    // A tool call whose start event was lost still has a result.
    if (!state.tools.has(event.uuid)) handleScopeStart(state, { ...event, scope_category: "start", data: null })
    const tool = state.tools.get(event.uuid)
    return tool === undefined ? undefined : ToolResults.endCall(state, tool, event)
  }
  const input = state.starts.get(event.uuid)?.data ?? null
  state.starts.delete(event.uuid)
  if (isBoundary(event)) return addBoundaryStep(state, event)
  if (input !== null || (event.data !== null && event.data !== undefined))
    addOpaqueStep(state, event, event.category, input)
}

/** Creates a converter that has not received any events. */
export const make = (options: Options = {}): Converter => {
  const state = makeState(options)
  const faults: Array<ShapeMismatch> = []
  return {
    add: (event) => {
      if (event.kind === "mark") return handleMark(state, event)
      if (event.category === "llm") faults.push(...findMismatches(event))
      return event.scope_category === "start" ? handleScopeStart(state, event) : handleScopeEnd(state, event)
    },
    roots: () => Array.from(state.agents).flatMap(([uuid, { root }]) => (root === undefined ? [uuid] : [])),
    finish: () => ToolResults.placeUnfinishedCalls(state),
    trajectory: (root) => {
      ToolResults.linkRunningDelegations(state)
      const agent = state.agents.get(root)
      if (agent === undefined) return undefined
      agent.draft.model ??= options.modelName
      return Draft.buildTrajectory(agent.draft)
    },
    child: (sessionId) => {
      ToolResults.linkRunningDelegations(state)
      const found = Array.from(state.agents.values()).findLast(
        ({ draft, root }) => root !== undefined && draft.sessionId === sessionId
      )
      return found === undefined ? undefined : Draft.buildTrajectory(found.draft)
    },
    forget: (root) => forgetRoot(state, root),
    faults: () => faults
  }
}

/** Returns the trajectories of a whole stream, one for each root agent. */
export const convert = (
  events: ReadonlyArray<Atof.Event>,
  options: Options = {}
): { readonly trajectories: ReadonlyArray<Atif.Trajectory>; readonly faults: ReadonlyArray<ShapeMismatch> } => {
  const converter = make(options)
  for (const event of events) converter.add(event)
  converter.finish()
  return {
    trajectories: converter.roots().flatMap((root) => converter.trajectory(root) ?? []),
    faults: converter.faults()
  }
}
