/**
 * Steps of model calls: the messages that are new in a request, and the answer to it.
 *
 * Source: `relay-atof-atif.md` §2.6 and §2.7.
 */
import type { ScopeEvent } from "../Atof.ts"
import * as Answer from "./Answer.ts"
import type * as Draft from "./Draft.ts"
import * as Message from "./Message.ts"
import { type AgentScope, ending } from "./Scope.ts"
import { agentOf, flushPending, invocation, say, type State, timestampText } from "./State.ts"
import { fields, text } from "./Value.ts"

/** Says that no attempt since the last answer had one. */
export const flushFailures = (agent: AgentScope): void => {
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

/** A request. */
export const asked = (state: State, event: ScopeEvent): void => {
  const agent = agentOf(state, event)
  const request = Message.request(event.data)
  const timestamp = timestampText(event)
  const model = text(event.category_profile?.["model_name"])
  agent.draft.model ??= model
  if (request === undefined) return flushPending(agent)
  if (agent.draft.tools.length === 0) agent.draft.tools = request.tools
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

/** An answer, or a failure. */
export const answered = (state: State, event: ScopeEvent): void => {
  const agent = agentOf(state, event)
  const start = state.starts.get(event.uuid)
  state.starts.delete(event.uuid)
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
    ? state.options.cost?.(model, answer.metrics)
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

