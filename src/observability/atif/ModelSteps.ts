/**
 * Steps of model calls: the messages that are new in a request, and the answer to it.
 *
 * Source: `relay-atof-atif.md` §2.6 and §2.7.
 */
import type * as Atif from "../Atif.ts"
import type { MarkEvent, ScopeEvent } from "../Atof.ts"
import * as Answer from "./Answer.ts"
import type * as Draft from "./Draft.ts"
import * as Message from "./Message.ts"
import * as NamedMessages from "./NamedMessages.ts"
import { type AgentScope, ending, type Failure, index } from "./Scope.ts"
import * as ToolResults from "./ToolResults.ts"
import { agentOf, flushPending, invocation, say, type State, timestampText } from "./State.ts"
import { fields, number, text } from "./Value.ts"

const retriesOf = (failures: ReadonlyArray<Failure>) =>
  failures.length === 0 ? {} : { retries: failures.map(({ at, facts }) => ({ ...facts, timestamp: at })) }

/** The model call that an attempt belongs to, where the stream says it. */
const keyOf = (event: { readonly metadata?: unknown }): string | undefined => {
  const meta = fields(event.metadata)
  const step = number(meta["api_call_count"])
  return step === undefined ? undefined : `${text(meta["turn_id"]) ?? ""} ${step}`
}

/** Says that no attempt since the last answer had one, or what had come of it. */
export const flushFailures = (agent: AgentScope): void => {
  const { failures } = agent
  const last = failures.at(-1)
  if (last === undefined) return
  flushPending(agent)
  agent.failures = []
  const { at, facts } = last
  const partial = failures.findLast((one) => one.partial !== undefined)?.partial
  if (partial !== undefined) {
    partly(agent, failures, partial)
    return
  }
  const error = fields(facts["error"])
  say(agent, {
    source: "system",
    message: facts["reason"] === "interrupted" && facts["error"] === null
      ? "The model call was interrupted before an answer."
      : `The model could not be asked: ${text(error["message"]) ?? text(facts["error"]) ?? "unknown error"}`,
    timestamp: at,
    extra: { error: facts, attempts: failures.length, ...retriesOf(failures) }
  })
}

/** The step of an answer that broke off. */
const partly = (agent: AgentScope, failures: ReadonlyArray<Failure>, { calls, message, reasoning }: Answer.Answer): Draft.Step => {
  const last = failures.at(-1)
  const model = text(last?.facts["model"])
  return say(agent, {
    source: "agent",
    message,
    timestamp: last?.at,
    rest: {
      ...(model === undefined ? {} : { model_name: model }),
      ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
      llm_call_count: 1
    },
    calls: identified(calls),
    extra: { interrupted: true, ...retriesOf(failures) }
  })
}

/** An answer was stored in another form than it came in. */
export const stored = (agent: AgentScope, event: MarkEvent): void => {
  const answer = Answer.read({ choices: [{ message: event.metadata?.["assistant_message"] ?? null }] })
  const key = keyOf(event)
  const failures = agent.failures
  if (agent.last === undefined || agent.last.key !== key) {
    agent.failures = []
    partly(agent, failures, answer)
    return
  }
  const { step } = agent.last
  step.message = answer.message
  const { reasoning_content: _, ...rest } = step.rest
  step.rest = answer.reasoning === undefined ? rest : { ...rest, reasoning_content: answer.reasoning }
  step.calls.splice(0, step.calls.length, ...identified(answer.calls))
  index(agent, step)
}

/** True of an attempt of a side task: a title, a judgement, a summary. */
const isSideTask = (event: ScopeEvent): boolean => text(event.metadata?.["side_task"]) !== undefined

/** True of a payload that says something in a form that nobody knows. */
const isUnread = (data: unknown): boolean => data !== null && data !== undefined && (typeof data !== "object" || Object.keys(data).length > 0)

/** A request. */
export const asked = (state: State, event: ScopeEvent): void => {
  const agent = agentOf(state, event)
  if (isSideTask(event)) return
  const key = keyOf(event)
  if (agent.failures.some((failure) => failure.key !== key)) flushFailures(agent)
  const request = Message.request(event.data)
  const timestamp = timestampText(event)
  const model = text(event.category_profile?.["model_name"])
  agent.draft.model ??= model
  if (request === undefined) {
    flushPending(agent)
    if (isUnread(event.data)) say(agent, { source: "system", message: `llm: ${event.name}`, timestamp, extra: { event: event.name, category: "llm", data: event.data ?? null } })
    return
  }
  if (agent.draft.tools.length === 0) agent.draft.tools = request.tools
  const names = NamedMessages.namesOf(event)
  if (names !== undefined) return NamedMessages.asked(agent, event, names)
  ToolResults.brought(state, agent, request.results)
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
  // New messages of the first request of a turn belong to the turn's beginning.
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

const sum = (a: Atif.Metrics, b: Atif.Metrics | undefined): Atif.Metrics => {
  const of = (key: "cached_tokens" | "completion_tokens" | "cost_usd" | "prompt_tokens") => {
    const known = [a[key], b?.[key]].flatMap((one) => one ?? [])
    return known.length === 0 ? {} : { [key]: known.reduce((x, y) => x + y, 0) }
  }
  return { ...a, ...of("prompt_tokens"), ...of("completion_tokens"), ...of("cached_tokens"), ...of("cost_usd") }
}

/** A further answer to one model call: it takes the place of the one before, and both were paid for. */
const again = (agent: AgentScope, step: Draft.Step, answer: Answer.Answer, metrics: Atif.Metrics | undefined): void => {
  const all = metrics === undefined ? step.rest.metrics : sum(metrics, step.rest.metrics ?? undefined)
  const { reasoning_content: _, ...rest } = step.rest
  step.rest = {
    ...rest,
    ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
    ...(all ? { metrics: all } : {}),
    llm_call_count: (rest.llm_call_count ?? 1) + 1
  }
  step.message = answer.message
  step.calls.splice(0, step.calls.length, ...identified(answer.calls))
  index(agent, step)
}

/** An answer, or a failure. */
export const answered = (state: State, event: ScopeEvent): void => {
  const agent = agentOf(state, event)
  const start = state.starts.get(event.uuid)
  state.starts.delete(event.uuid)
  if (isSideTask(event)) return
  const { error, status } = ending(event)
  const data = fields(event.data)
  const meta = fields(event.metadata)
  const key = keyOf(event)
  const requested = text(start?.category_profile?.["model_name"])
  const answer = Answer.read(event.data ?? { content: "", reasoning_content: meta["reasoning_content"] ?? null })
  if (status === "error" || (data["error"] !== undefined && data["content"] === undefined && data["choices"] === undefined)) {
    const reason = data["reason"] ?? meta["reason"]
    const isPartial = Answer.textOf(answer) !== "" || answer.calls.length > 0 || answer.reasoning !== undefined
    agent.failures.push({
      at: timestampText(event),
      key,
      partial: isPartial ? answer : undefined,
      facts: {
        error: data["error"] ?? meta["error"] ?? (error === undefined ? null : { message: error }),
        model: requested ?? null,
        provider: event.name,
        ...(reason === undefined ? {} : { reason })
      }
    })
    return
  }
  const model = text(event.category_profile?.["model_name"]) ?? answer.model ?? requested
  agent.draft.model ??= model
  const failures = agent.failures
  agent.failures = []
  const effort = Message.request(start?.data)?.effort
  // An answer without text and calls has no data in some streams.
  const told = answer.metrics ?? Answer.metrics(meta["usage"])
  const cost = told !== undefined && told.cost_usd === undefined && model !== undefined ? state.options.cost?.(model, told) : undefined
  const metrics = told === undefined || cost === undefined ? told : { ...told, cost_usd: cost }
  const finish = answer.finishReason ?? text(meta["finish_reason"])
  const retry = number(meta["retry_count"]) ?? 0
  const { last } = agent
  if (key !== undefined && last?.key === key && last.retry < retry) {
    again(agent, last.step, answer, metrics)
    agent.last = { ...last, retry }
    return
  }
  const saysNothing = Answer.textOf(answer) === "" && answer.calls.length === 0 && answer.reasoning === undefined
  const step = say(agent, {
    source: "agent",
    message: answer.message,
    timestamp: timestampText(event),
    rest: {
      ...(model === undefined ? {} : { model_name: model }),
      ...(effort === undefined ? {} : { reasoning_effort: effort }),
      ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
      ...(metrics === undefined ? {} : { metrics }),
      llm_call_count: 1
    },
    calls: identified(answer.calls),
    extra: {
      ...(saysNothing && isUnread(event.data) && answer.finishReason === undefined ? { data: event.data ?? null } : {}),
      ...(finish === undefined ? {} : { finish_reason: finish }),
      ...(text(meta["provider"]) === undefined ? {} : { provider: text(meta["provider"]) ?? "" }),
      ...(start === undefined ? {} : { invocation: invocation(start, event, "completed") }),
      ...retriesOf(failures)
    }
  })
  agent.last = { step, key, retry }
}
