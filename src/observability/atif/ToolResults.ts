/**
 * Results of tool calls, each in the step whose answer issued the call, whenever it arrives.
 *
 * Source: `relay-atof-atif.md` §2.6 and §2.7.
 */
import type { MarkEvent, ScopeEvent } from "../Atof.ts"
import type * as Draft from "./Draft.ts"
import * as Message from "./Message.ts"
import { type AgentScope, callIdOf, closedLater, ending, issuing, type Place, type ToolScope } from "./Scope.ts"
import { agentOf, flushPending, invocation, say, type State, timestampText } from "./State.ts"
import { args, number, text } from "./Value.ts"

/** The session has another result of a call than the library that executed it: a part of a long one, or what a listener made of it. */
export const stored = ({ byId }: AgentScope, { metadata }: MarkEvent): void => {
  const callId = text(metadata?.["tool_call_id"])
  const step = callId === undefined ? undefined : byId.get(callId)?.at(-1)?.step
  const result = step?.results.findLast((one) => one.callId === callId)
  if (result !== undefined) result.content = text(metadata?.["content"]) ?? ""
}

/** A call begins. */
export const began = (state: State, event: ScopeEvent): void => {
  const tool: ToolScope = {
    agent: agentOf(state, event), start: event, callId: callIdOf(event), name: event.name, children: [],
    approval: undefined, place: undefined, result: undefined
  }
  tool.place = issuing(tool, state.taken)
  if (tool.place !== undefined) state.taken.add(tool.place.call)
  state.tools.set(event.uuid, tool)
  // A call that a tool made belongs to no answer.
  if (tool.place === undefined && state.tools.has(event.parent_uuid ?? "")) placeOf(state, tool)
}

/** The place of a call: the step of the answer that issued it, or a step of its own for a call that no model asked for. */
const placeOf = (state: State, tool: ToolScope): Place => {
  tool.place ??= issuing(tool, state.taken)
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
  state.taken.add(tool.place.call)
  return tool.place
}

const resultOf = (tool: ToolScope, place: Place): Draft.Result => {
  if (tool.result !== undefined) return tool.result
  const { call, step } = place
  const later = closedLater(place)
  const made: Draft.Result = { callId: call.id, content: later?.content, children: tool.children, extra: { ...later?.extra } }
  if (later === undefined) step.results.push(made)
  else step.results.splice(step.results.indexOf(later), 1, made)
  tool.result = made
  return made
}

/** A call is over. */
export const ended = (state: State, tool: ToolScope, event: ScopeEvent): void => {
  const place = placeOf(state, tool)
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

/** Results that a request brings, of calls that no scope of the stream tells of. */
export const brought = (state: State, agent: AgentScope, results: ReadonlyArray<Message.Brought>): void => {
  const isOpen = ({ call, step }: Place): boolean => !state.taken.has(call) && !step.results.some((one) => one.callId === call.id)
  const counts = new Map<string, number>()
  for (const { callId, content, name = "" } of results) {
    const nth = counts.get(name) ?? 0
    if (callId === undefined) counts.set(name, nth + 1)
    const places = callId === undefined ? agent.byName.get(name) : agent.byId.get(callId)
    const last = places?.at(-1)?.step
    const place = callId === undefined ? places?.filter(({ step }) => step === last)[nth] : places?.at(-1)
    if (place !== undefined && isOpen(place)) place.step.results.push({ callId: place.call.id, content, children: [], extra: {} })
  }
}

/** Delegations that go on are told where they were asked for. */
export const underWay = (state: State): void => {
  for (const tool of state.tools.values()) {
    if (tool.result === undefined && tool.place !== undefined && tool.children.length > 0) resultOf(tool, tool.place)
  }
}

/** Nothing more will come: calls that nobody has seen the end of have their place, and no result. */
export const settle = (state: State): void => {
  for (const tool of state.tools.values()) if (tool.result === undefined) placeOf(state, tool)
  underWay(state)
}
