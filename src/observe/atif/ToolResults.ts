/**
 * Adds the results of tool calls to the steps whose answers issued the calls, regardless of when they arrive.
 *
 * Source: `relay-atof-atif.md` §2.6 and §2.7.
 */
import type { MarkEvent, ScopeEvent } from "../Atof.ts"
import type * as Draft from "./Draft.ts"
import * as Message from "./Message.ts"
import {
  type AgentScope,
  readCallId,
  findLaterClose,
  readEnding,
  findIssuingCall,
  type CallPlace,
  type ToolScope
} from "./Scope.ts"
import { getAgent, flushPending, describeInvocation, addStep, type State, formatEventTime } from "./State.ts"
import { toArguments, toFiniteNumber, toNonEmptyText } from "./Value.ts"

/**
 * Applies the result that the session stored for a call if it differs from the library's result: a part of a long
 * result, or a result that a listener changed.
 */
export const applyStoredResult = ({ byId }: AgentScope, { metadata }: MarkEvent): void => {
  const callId = toNonEmptyText(metadata?.["tool_call_id"])
  const step = callId === undefined ? undefined : byId.get(callId)?.at(-1)?.step
  const result = step?.results.findLast((one) => one.callId === callId)
  if (result === undefined) return
  result.content = toNonEmptyText(metadata?.["content"]) ?? ""
  result.extra = { ...result.extra, ...Message.readImages(metadata) }
}

/** Processes the start of a call. */
export const beginCall = (state: State, event: ScopeEvent): void => {
  const tool: ToolScope = {
    agent: getAgent(state, event),
    start: event,
    callId: readCallId(event),
    name: event.name,
    children: [],
    approval: undefined,
    place: undefined,
    result: undefined
  }
  tool.place = findIssuingCall(tool, state.taken)
  if (tool.place !== undefined) state.taken.add(tool.place.call)
  state.tools.set(event.uuid, tool)
  // A call made by a tool does not belong to an answer, so its place is known immediately.
  if (tool.place === undefined && state.tools.has(event.parent_uuid ?? "")) resolvePlace(state, tool)
}

/**
 * Returns the place of a call: in the step of the answer that issued it, or in a separate step if no model requested
 * it.
 */
const resolvePlace = (state: State, tool: ToolScope): CallPlace => {
  tool.place ??= findIssuingCall(tool, state.taken)
  if (tool.place === undefined) {
    flushPending(tool.agent)
    const call: Draft.Call = {
      id: tool.callId ?? tool.start.uuid,
      name: tool.name,
      args: toArguments(tool.start.data),
      extra: {}
    }
    const step = addStep(tool.agent, {
      source: "agent",
      message: "",
      timestamp: formatEventTime(tool.start),
      rest: { llm_call_count: 0 },
      calls: [call]
    })
    tool.place = { step, call }
  }
  state.taken.add(tool.place.call)
  return tool.place
}

const getResult = (tool: ToolScope, place: CallPlace): Draft.Result => {
  if (tool.result !== undefined) return tool.result
  const { call, step } = place
  const later = findLaterClose(place)
  const made: Draft.Result = {
    callId: call.id,
    content: later?.content,
    children: tool.children,
    extra: { ...later?.extra }
  }
  if (later === undefined) step.results.push(made)
  else step.results.splice(step.results.indexOf(later), 1, made)
  tool.result = made
  return made
}

/** Processes the end of a call. */
export const endCall = (state: State, tool: ToolScope, event: ScopeEvent): void => {
  const place = resolvePlace(state, tool)
  const { error, status } = readEnding(event)
  const said = event.data === null || event.data === undefined ? (error ?? "") : Message.renderResult(event.data)
  const duration = toFiniteNumber(event.metadata?.["duration_ms"])
  const result = getResult(tool, place)
  // Results are listed in the order in which the calls ended.
  place.step.results.splice(place.step.results.indexOf(result), 1)
  place.step.results.push(result)
  result.content = said
  result.extra = {
    ...result.extra,
    ...(status === undefined || status === "ok" ? {} : { status, ...(error === undefined ? {} : { error }) }),
    ...(duration === undefined ? {} : { duration_ms: duration }),
    ...(tool.approval === undefined ? {} : { approval: tool.approval }),
    ...Message.readImages(event.metadata)
  }
  place.call.extra["invocation"] = describeInvocation(
    tool.start,
    event,
    status === undefined || status === "ok" ? "completed" : status
  )
}

/** Adds those results in a request whose calls have no scope in the stream. */
export const addBroughtResults = (
  state: State,
  agent: AgentScope,
  results: ReadonlyArray<Message.BroughtResult>
): void => {
  const isOpen = ({ call, step }: CallPlace): boolean =>
    !state.taken.has(call) && !step.results.some((one) => one.callId === call.id)
  const counts = new Map<string, number>()
  for (const { callId, content, name = "" } of results) {
    const nth = counts.get(name) ?? 0
    if (callId === undefined) counts.set(name, nth + 1)
    const places = callId === undefined ? agent.byName.get(name) : agent.byId.get(callId)
    const last = places?.at(-1)?.step
    const place = callId === undefined ? places?.filter(({ step }) => step === last)[nth] : places?.at(-1)
    if (place !== undefined && isOpen(place))
      place.step.results.push({ callId: place.call.id, content, children: [], extra: {} })
  }
}

/** Adds references to unfinished children to the steps that requested them. */
export const linkRunningDelegations = (state: State): void => {
  for (const tool of state.tools.values()) {
    if (tool.result === undefined && tool.place !== undefined && tool.children.length > 0) getResult(tool, tool.place)
  }
}

/** Adds the calls whose end was not received before the end of the input. They have no result. */
export const placeUnfinishedCalls = (state: State): void => {
  for (const tool of state.tools.values()) if (tool.result === undefined) resolvePlace(state, tool)
  linkRunningDelegations(state)
}
