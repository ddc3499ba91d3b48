/**
 * Steps of model calls: the messages that are new in a request, and the answer to it.
 *
 * Source: `relay-atof-atif.md` §2.6 and §2.7.
 */
import type * as Atif from "../Atif.ts"
import { type MarkEvent, type ScopeEvent, toMicros } from "../Atof.ts"
import * as Answer from "./Answer.ts"
import type * as Draft from "./Draft.ts"
import * as DraftSteps from "./DraftSteps.ts"
import * as Message from "./Message.ts"
import * as NamedMessages from "./NamedMessages.ts"
import { type AgentScope, readEnding, type Failure, indexCalls } from "./Scope.ts"
import * as ToolResults from "./ToolResults.ts"
import {
  addDraftStep,
  addStep,
  describeInvocation,
  flushPending,
  formatEventTime,
  getAgent,
  type State
} from "./State.ts"
import { toFields, toFiniteNumber, toItems, toNonEmptyText } from "./Value.ts"

const describeRetries = (failures: ReadonlyArray<Failure>): Draft.Extra =>
  DraftSteps.describeRetries(failures.map(({ at, facts }) => ({ ...facts, timestamp: at })))

/** Returns a key for the model call that an attempt belongs to, or `undefined` if the stream does not identify it. */
const formatCallKey = (event: { readonly metadata?: unknown }): string | undefined => {
  const meta = toFields(event.metadata)
  const step = toFiniteNumber(meta["api_call_count"])
  return step === undefined ? undefined : `${toNonEmptyText(meta["turn_id"]) ?? ""} ${step}`
}

/** Adds a step for the attempts that failed since the last answer, with the partial answer that was received. */
export const flushFailures = (agent: AgentScope): void => {
  const { failures } = agent
  const last = failures.at(-1)
  if (last === undefined) return
  flushPending(agent)
  agent.failures = []
  const { at, facts } = last
  const partial = failures.findLast((one) => one.partial !== undefined)?.partial
  if (partial !== undefined) {
    addBrokenAnswer(agent, failures, partial)
    return
  }
  const isInterrupted = facts["status"] === "interrupted" && facts["error"] === null
  const message = toNonEmptyText(toFields(facts["error"])["message"]) ?? toNonEmptyText(facts["error"])
  addDraftStep(
    agent,
    DraftSteps.makeUnansweredStep(isInterrupted ? undefined : (message ?? "unknown error"), at, {
      error: { ...facts, timestamp: at },
      attempts: failures.length,
      ...describeRetries(failures)
    })
  )
}

/** Adds a step for an interrupted answer. */
const addBrokenAnswer = (
  agent: AgentScope,
  failures: ReadonlyArray<Failure>,
  { calls, message, reasoning }: Answer.Answer
): Draft.Step => {
  const last = failures.at(-1)
  return addStep(agent, {
    source: "agent",
    message,
    timestamp: last?.at,
    rest: DraftSteps.buildAgentFields({ model: toNonEmptyText(last?.facts["model"]), reasoning, modelCalls: 1 }),
    calls: identifyCalls(calls),
    extra: { ...last?.attempt, interrupted: true, ...describeRetries(failures) }
  })
}

/** Applies an answer that was stored in a different form than it was received. */
export const applyStoredAnswer = (agent: AgentScope, event: MarkEvent): void => {
  const answer = Answer.readAnswer({ choices: [{ message: event.metadata?.["assistant_message"] ?? null }] })
  const key = formatCallKey(event)
  const failures = agent.failures
  if (agent.last === undefined || agent.last.key !== key) {
    agent.failures = []
    addBrokenAnswer(agent, failures, answer)
    return
  }
  const { step } = agent.last
  step.message = answer.message
  const { reasoning_content: _, ...rest } = step.rest
  step.rest = answer.reasoning === undefined ? rest : { ...rest, reasoning_content: answer.reasoning }
  step.calls.splice(0, step.calls.length, ...identifyCalls(answer.calls))
  indexCalls(agent, step)
}

/** Adds the part of an answer that arrived to the failed attempt of its model call. */
export const applyPartialAnswer = (agent: AgentScope, event: MarkEvent): void => {
  const key = formatCallKey(event)
  const index = agent.failures.findLastIndex((one) => one.key === key)
  const failure = agent.failures[index]
  if (failure === undefined || failure.partial !== undefined) return
  const partial = Answer.readAnswer({ choices: [{ message: event.metadata?.["assistant_message"] ?? null }] })
  agent.failures = agent.failures.with(index, { ...failure, partial })
}

/** Returns true for an attempt of a side task (a title, a summary) that has no separate trajectory. */
const isSideTask = ({ draft }: AgentScope, event: ScopeEvent): boolean =>
  toNonEmptyText(event.metadata?.["side_task"]) !== undefined && draft.extra["side_task"] === undefined

/** Adds a side task without a trajectory to the list of them in `extra`. */
export const addSideTask = ({ draft }: AgentScope, event: MarkEvent): void => {
  const meta = toFields(event.metadata)
  const started = toFiniteNumber(meta["started_at"])
  const task: Draft.Extra = {
    task: meta["side_task"] ?? "unknown",
    model: toNonEmptyText(event.category_profile?.["model_name"]) ?? null,
    status: meta["status"] === "ok" ? "answered" : "failed",
    timestamp: formatEventTime(event),
    duration_ms: started === undefined ? null : Math.round(toMicros(event.timestamp) / 1000 - started),
    metrics: { ...Answer.readMetrics(meta["usage"]) }
  }
  draft.extra["side_tasks"] = [...toItems(draft.extra["side_tasks"]), task]
}

/** Returns true for a payload with content in an unknown form. */
const isUnread = (data: unknown): boolean =>
  data !== null && data !== undefined && (typeof data !== "object" || Object.keys(data).length > 0)

/** Adds a step for a request in an unknown form. */
const addUnreadRequest = (agent: AgentScope, event: ScopeEvent): void => {
  flushPending(agent)
  if (!isUnread(event.data)) return
  addStep(agent, {
    source: "system",
    message: `llm: ${event.name}`,
    timestamp: formatEventTime(event),
    extra: { event: event.name, category: "llm", data: event.data ?? null }
  })
}

/** Adds steps for the new messages of a request without message names. */
const addUnnamedMessages = (agent: AgentScope, event: ScopeEvent, request: Message.Request): void => {
  const timestamp = formatEventTime(event)
  const { fresh, replaced } = agent.inputs.take(request)
  if (replaced !== undefined) addDraftStep(agent, DraftSteps.makeCompactionStep(replaced, timestamp))
  // New messages in the first request of a turn get the time at which the turn began.
  const since = agent.pending?.timestamp ?? timestamp
  const lastUser = fresh.findLastIndex(({ role }) => role === "user")
  fresh.forEach(({ content, copied, role }, index) => {
    const isTurn = index === lastUser && agent.pending !== undefined
    addStep(agent, {
      // `take` returns only messages with these two roles.
      source: role as "system" | "user",
      message: isTurn ? (agent.pending?.message ?? content) : content,
      timestamp: since,
      rest: copied ? { is_copied_context: true } : {}
    })
    if (isTurn) agent.pending = undefined
  })
  flushPending(agent)
}

/** Processes a request: adds steps for its new messages. */
export const handleRequest = (state: State, event: ScopeEvent): void => {
  const agent = getAgent(state, event)
  if (isSideTask(agent, event)) return
  const key = formatCallKey(event)
  if (agent.failures.some((failure) => failure.key !== key)) flushFailures(agent)
  const request = Message.readRequest(event.data)
  agent.draft.model ??= toNonEmptyText(event.category_profile?.["model_name"])
  if (request === undefined) return addUnreadRequest(agent, event)
  if (agent.draft.tools.length === 0) agent.draft.tools = request.tools
  // Messages of a side task are not in the session, so their names say nothing about its steps.
  const names = agent.draft.extra["side_task"] === undefined ? NamedMessages.readNames(event) : undefined
  if (names !== undefined) return NamedMessages.addNewMessages(agent, event, names)
  ToolResults.addBroughtResults(state, agent, request.results)
  addUnnamedMessages(agent, event, request)
}

/**
 * Returns the calls with unique ids. If the provider did not send an id, the id is derived from the tool and the index
 * of the call.
 */
const identifyCalls = (calls: ReadonlyArray<Answer.Call>): Array<Draft.Call> => {
  const used = new Set<string>()
  return calls.map((call, index) => {
    let id = call.id ?? `${call.name}:${index}`
    while (used.has(id)) id = `${id}'`
    used.add(id)
    return { id, name: call.name, args: call.args, extra: {} }
  })
}

/**
 * Applies a second answer to the same model call. It replaces the previous answer, and the usage of both answers is
 * counted.
 */
const replaceAnswer = (
  agent: AgentScope,
  step: Draft.Step,
  answer: Answer.Answer,
  metrics: Atif.Metrics | undefined
): void => {
  const all =
    metrics === undefined
      ? step.rest.metrics
      : DraftSteps.sumMetrics([metrics, ...(step.rest.metrics ? [step.rest.metrics] : [])])
  const { reasoning_content: _, ...rest } = step.rest
  step.rest = {
    ...rest,
    ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
    ...(all ? { metrics: all } : {}),
    llm_call_count: (rest.llm_call_count ?? 1) + 1
  }
  step.message = answer.message
  step.calls.splice(0, step.calls.length, ...identifyCalls(answer.calls))
  indexCalls(agent, step)
}

/** Tests whether an event is the end of a failed model call. */
const hasFailed = (event: ScopeEvent): boolean => {
  const data = toFields(event.data)
  return (
    readEnding(event).status === "error" ||
    (data["error"] !== undefined && data["content"] === undefined && data["choices"] === undefined)
  )
}

const isEmptyAnswer = (answer: Answer.Answer): boolean =>
  Answer.getAnswerText(answer) === "" && answer.calls.length === 0 && answer.reasoning === undefined

/** Returns facts about a failed attempt, with the partial answer that was received. */
const readFailure = (event: ScopeEvent, start: ScopeEvent | undefined, answer: Answer.Answer): Failure => {
  const { error } = readEnding(event)
  const data = toFields(event.data)
  const meta = toFields(event.metadata)
  const reason = data["reason"] ?? meta["reason"]
  const isCut = reason === "interrupted"
  const provider = toNonEmptyText(meta["provider"])
  return {
    at: formatEventTime(event),
    key: formatCallKey(event),
    partial: isEmptyAnswer(answer) ? undefined : answer,
    attempt: {
      ...(provider === undefined ? {} : { provider }),
      ...(start === undefined ? {} : { invocation: describeInvocation(start, event, isCut ? "interrupted" : "error") })
    },
    facts: {
      error: data["error"] ?? meta["error"] ?? (error === undefined || isCut ? null : { message: error }),
      status: isCut ? "interrupted" : "failed",
      model: toNonEmptyText(start?.category_profile?.["model_name"]) ?? null,
      provider: event.name,
      duration_ms:
        start === undefined ? null : Math.round((toMicros(event.timestamp) - toMicros(start.timestamp)) / 1000),
      ...(reason === undefined || isCut ? {} : { reason })
    }
  }
}

/**
 * Returns the usage of an answer. If the answer does not contain the cost, it is calculated from the price, if known.
 */
const readAnswerMetrics = (
  { options }: State,
  answer: Answer.Answer,
  model: string | undefined,
  event: ScopeEvent
): Atif.Metrics | undefined => {
  // In some streams, an answer without text and calls has no data, but its metadata has the usage.
  const stated = answer.metrics ?? Answer.readMetrics(event.metadata?.["usage"])
  const cost =
    stated !== undefined && stated.cost_usd === undefined && model !== undefined
      ? options.cost?.(model, stated)
      : undefined
  return stated === undefined || cost === undefined ? stated : { ...stated, cost_usd: cost }
}

/** Returns facts about an answer for the `extra` of its step. */
const describeAnswer = (answer: Answer.Answer, start: ScopeEvent | undefined, event: ScopeEvent): Draft.Extra => {
  const meta = toFields(event.metadata)
  const finish = answer.finishReason ?? toNonEmptyText(meta["finish_reason"])
  const provider = toNonEmptyText(meta["provider"])
  return {
    ...(isEmptyAnswer(answer) && isUnread(event.data) && answer.finishReason === undefined
      ? { data: event.data ?? null }
      : {}),
    ...(finish === undefined ? {} : { finish_reason: finish }),
    ...(provider === undefined ? {} : { provider }),
    ...(start === undefined ? {} : { invocation: describeInvocation(start, event, "completed") })
  }
}

/** Processes the end of a model call: adds a step for the answer, or stores the failure for the next step. */
export const handleAnswer = (state: State, event: ScopeEvent): void => {
  const agent = getAgent(state, event)
  const start = state.starts.get(event.uuid)
  state.starts.delete(event.uuid)
  if (isSideTask(agent, event)) return
  const meta = toFields(event.metadata)
  const requested = toNonEmptyText(start?.category_profile?.["model_name"])
  const answer = Answer.readAnswer(event.data ?? { content: "", reasoning_content: meta["reasoning_content"] ?? null })
  if (hasFailed(event)) return void agent.failures.push(readFailure(event, start, answer))
  const model = toNonEmptyText(event.category_profile?.["model_name"]) ?? answer.model ?? requested
  agent.draft.model ??= model
  const failures = agent.failures
  agent.failures = []
  const metrics = readAnswerMetrics(state, answer, model, event)
  const key = formatCallKey(event)
  const retry = toFiniteNumber(meta["retry_count"]) ?? 0
  const { last } = agent
  if (key !== undefined && last?.key === key && last.retry < retry) {
    replaceAnswer(agent, last.step, answer, metrics)
    agent.last = { ...last, retry }
    return
  }
  const step = addStep(agent, {
    source: "agent",
    message: answer.message,
    timestamp: formatEventTime(event),
    rest: DraftSteps.buildAgentFields({
      model,
      effort: Message.readRequest(start?.data)?.effort,
      reasoning: answer.reasoning,
      metrics,
      modelCalls: 1
    }),
    calls: identifyCalls(answer.calls),
    extra: { ...describeAnswer(answer, start, event), ...describeRetries(failures) }
  })
  agent.last = { step, key, retry }
}
