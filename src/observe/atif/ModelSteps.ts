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
import { type AgentScope, readEnding, type Failure, indexCalls } from "./Scope.ts"
import * as ToolResults from "./ToolResults.ts"
import { getAgent, flushPending, describeInvocation, addStep, type State, formatEventTime } from "./State.ts"
import { toFields, toFiniteNumber, toNonEmptyText } from "./Value.ts"

const describeRetries = (failures: ReadonlyArray<Failure>) =>
  failures.length === 0 ? {} : { retries: failures.map(({ at, facts }) => ({ ...facts, timestamp: at })) }

/** The model call that an attempt belongs to, where the stream says it. */
const formatCallKey = (event: { readonly metadata?: unknown }): string | undefined => {
  const meta = toFields(event.metadata)
  const step = toFiniteNumber(meta["api_call_count"])
  return step === undefined ? undefined : `${toNonEmptyText(meta["turn_id"]) ?? ""} ${step}`
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
    addBrokenAnswer(agent, failures, partial)
    return
  }
  const error = toFields(facts["error"])
  addStep(agent, {
    source: "system",
    message:
      facts["reason"] === "interrupted" && facts["error"] === null
        ? "The model call was interrupted before an answer."
        : `The model could not be asked: ${toNonEmptyText(error["message"]) ?? toNonEmptyText(facts["error"]) ?? "unknown error"}`,
    timestamp: at,
    extra: { error: facts, attempts: failures.length, ...describeRetries(failures) }
  })
}

/** The step of an answer that broke off. */
const addBrokenAnswer = (
  agent: AgentScope,
  failures: ReadonlyArray<Failure>,
  { calls, message, reasoning }: Answer.Answer
): Draft.Step => {
  const last = failures.at(-1)
  const model = toNonEmptyText(last?.facts["model"])
  return addStep(agent, {
    source: "agent",
    message,
    timestamp: last?.at,
    rest: {
      ...(model === undefined ? {} : { model_name: model }),
      ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
      llm_call_count: 1
    },
    calls: identifyCalls(calls),
    extra: { interrupted: true, ...describeRetries(failures) }
  })
}

/** An answer was stored in another form than it came in. */
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

/** True of an attempt of a side task: a title, a judgement, a summary. */
const isSideTask = (event: ScopeEvent): boolean => toNonEmptyText(event.metadata?.["side_task"]) !== undefined

/** Returns true for a payload with content in an unknown form. */
const isUnread = (data: unknown): boolean =>
  data !== null && data !== undefined && (typeof data !== "object" || Object.keys(data).length > 0)

/** A request. */
export const handleRequest = (state: State, event: ScopeEvent): void => {
  const agent = getAgent(state, event)
  if (isSideTask(event)) return
  const key = formatCallKey(event)
  if (agent.failures.some((failure) => failure.key !== key)) flushFailures(agent)
  const request = Message.readRequest(event.data)
  const timestamp = formatEventTime(event)
  const model = toNonEmptyText(event.category_profile?.["model_name"])
  agent.draft.model ??= model
  if (request === undefined) {
    flushPending(agent)
    if (isUnread(event.data))
      addStep(agent, {
        source: "system",
        message: `llm: ${event.name}`,
        timestamp,
        extra: { event: event.name, category: "llm", data: event.data ?? null }
      })
    return
  }
  if (agent.draft.tools.length === 0) agent.draft.tools = request.tools
  const names = NamedMessages.readNames(event)
  if (names !== undefined) return NamedMessages.addNewMessages(agent, event, names)
  ToolResults.addBroughtResults(state, agent, request.results)
  const { fresh, isAside, replaced } = agent.inputs.take(request)
  if (isAside) return
  if (replaced !== undefined) {
    addStep(agent, {
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
    addStep(agent, {
      // `take` keeps these two roles.
      source: role as "system" | "user",
      message: isTurn ? (agent.pending?.message ?? content) : content,
      timestamp: since,
      rest: copied ? { is_copied_context: true } : {}
    })
    if (isTurn) agent.pending = undefined
  })
  flushPending(agent)
}

/** Calls with an id each; one that the provider gave none is named by its tool and its place. */
const identifyCalls = (calls: ReadonlyArray<Answer.Call>): Array<Draft.Call> => {
  const used = new Set<string>()
  return calls.map((call, index) => {
    let id = call.id ?? `${call.name}:${index}`
    while (used.has(id)) id = `${id}'`
    used.add(id)
    return { id, name: call.name, args: call.args, extra: {} }
  })
}

const sumMetrics = (a: Atif.Metrics, b: Atif.Metrics | undefined): Atif.Metrics => {
  const sumKey = (key: "cached_tokens" | "completion_tokens" | "cost_usd" | "prompt_tokens") => {
    const known = [a[key], b?.[key]].flatMap((one) => one ?? [])
    return known.length === 0 ? {} : { [key]: known.reduce((x, y) => x + y, 0) }
  }
  return {
    ...a,
    ...sumKey("prompt_tokens"),
    ...sumKey("completion_tokens"),
    ...sumKey("cached_tokens"),
    ...sumKey("cost_usd")
  }
}

/** A further answer to one model call: it takes the place of the one before, and both were paid for. */
const replaceAnswer = (
  agent: AgentScope,
  step: Draft.Step,
  answer: Answer.Answer,
  metrics: Atif.Metrics | undefined
): void => {
  const all = metrics === undefined ? step.rest.metrics : sumMetrics(metrics, step.rest.metrics ?? undefined)
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

/** An answer, or a failure. */
export const handleAnswer = (state: State, event: ScopeEvent): void => {
  const agent = getAgent(state, event)
  const start = state.starts.get(event.uuid)
  state.starts.delete(event.uuid)
  if (isSideTask(event)) return
  const { error, status } = readEnding(event)
  const data = toFields(event.data)
  const meta = toFields(event.metadata)
  const key = formatCallKey(event)
  const requested = toNonEmptyText(start?.category_profile?.["model_name"])
  const answer = Answer.readAnswer(event.data ?? { content: "", reasoning_content: meta["reasoning_content"] ?? null })
  if (
    status === "error" ||
    (data["error"] !== undefined && data["content"] === undefined && data["choices"] === undefined)
  ) {
    const reason = data["reason"] ?? meta["reason"]
    const isPartial = Answer.getAnswerText(answer) !== "" || answer.calls.length > 0 || answer.reasoning !== undefined
    agent.failures.push({
      at: formatEventTime(event),
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
  const model = toNonEmptyText(event.category_profile?.["model_name"]) ?? answer.model ?? requested
  agent.draft.model ??= model
  const failures = agent.failures
  agent.failures = []
  const effort = Message.readRequest(start?.data)?.effort
  // An answer without text and calls has no data in some streams.
  const told = answer.metrics ?? Answer.readMetrics(meta["usage"])
  const cost =
    told !== undefined && told.cost_usd === undefined && model !== undefined
      ? state.options.cost?.(model, told)
      : undefined
  const metrics = told === undefined || cost === undefined ? told : { ...told, cost_usd: cost }
  const finish = answer.finishReason ?? toNonEmptyText(meta["finish_reason"])
  const retry = toFiniteNumber(meta["retry_count"]) ?? 0
  const { last } = agent
  if (key !== undefined && last?.key === key && last.retry < retry) {
    replaceAnswer(agent, last.step, answer, metrics)
    agent.last = { ...last, retry }
    return
  }
  const saysNothing = Answer.getAnswerText(answer) === "" && answer.calls.length === 0 && answer.reasoning === undefined
  const step = addStep(agent, {
    source: "agent",
    message: answer.message,
    timestamp: formatEventTime(event),
    rest: {
      ...(model === undefined ? {} : { model_name: model }),
      ...(effort === undefined ? {} : { reasoning_effort: effort }),
      ...(answer.reasoning === undefined ? {} : { reasoning_content: answer.reasoning }),
      ...(metrics === undefined ? {} : { metrics }),
      llm_call_count: 1
    },
    calls: identifyCalls(answer.calls),
    extra: {
      ...(saysNothing && isUnread(event.data) && answer.finishReason === undefined ? { data: event.data ?? null } : {}),
      ...(finish === undefined ? {} : { finish_reason: finish }),
      ...(toNonEmptyText(meta["provider"]) === undefined ? {} : { provider: toNonEmptyText(meta["provider"]) ?? "" }),
      ...(start === undefined ? {} : { invocation: describeInvocation(start, event, "completed") }),
      ...describeRetries(failures)
    }
  })
  agent.last = { step, key, retry }
}
