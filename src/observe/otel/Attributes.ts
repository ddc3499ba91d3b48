/**
 * Presents runs as OpenTelemetry spans. Names follow the GenAI semantic conventions; other attributes have the prefix
 * `hermes.`. All functions are pure.
 *
 * **Details**
 *
 * Prompts, answers, arguments and results are part of spans only if the application or the user enables this. They are
 * complete and without secrets.
 *
 * Source: OpenTelemetry, "Semantic Conventions for GenAI agent and framework spans" and "… for Model Context Protocol".
 */
import type * as Prompt from "effect/ai/Prompt"
import { redactText } from "../../base/domain/Redaction.ts"
import type * as RecordEvent from "../../base/domain/RecordEvent.ts"
import { parseMcpTool, toProviderName } from "../../base/domain/OperationSpans.ts"
import { isCompletedExit } from "../../base/domain/RunEvent.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as ApiPayload from "../../hooks/ApiPayload.ts"
import { JoinedText } from "../JoinedText.ts"
import * as RunSpans from "../RunSpans.ts"
import type { Approval, Attempt, Call, Child, Node, Run, Tree } from "../RunTree.ts"
import * as Content from "./Content.ts"
import * as Conventions from "./Conventions.ts"

/** Options of all spans. */
export interface Options {
  readonly agentName: string
  readonly captureContent: boolean
  /** True if names from before version 1.37 are written in addition to the current ones. */
  readonly duplicate?: boolean | undefined
  /** Names of the attributes. The default is {@link Conventions.standard}. */
  readonly conventions?: Conventions.Table | undefined
  /** If true, `invoke_agent` spans have the totals of their model calls under the names that model calls use. */
  readonly agentUsage?: boolean | undefined
}

/** Returns a fact as an attribute value, or `undefined` for an empty fact. */
const toAttributeValue = (fact: unknown): RunSpans.Value | undefined => {
  if (typeof fact === "number" || typeof fact === "boolean" || (typeof fact === "string" && fact !== "")) return fact
  if (fact instanceof JoinedText) return fact
  return Array.isArray(fact) && fact.length > 0 ? fact.map(String) : undefined
}

/**
 * Converts facts to attributes, sorted by name. If the object is already sorted, its values are replaced in place.
 * Adding many names to a new object would turn it into a slow dictionary.
 */
const normalizeInPlace = (facts: Record<string, unknown>): RunSpans.SparseAttributes => {
  let last = ""
  const names = Object.keys(facts)
  for (let index = 0; index < names.length; index++) {
    const name = names[index] ?? ""
    if (name < last) return toSortedAttributes(facts)
    last = name
    const fact = facts[name]
    const value = toAttributeValue(fact)
    if (value !== fact) facts[name] = value
  }
  // Every property is now an attribute value or `undefined`.
  return facts as RunSpans.SparseAttributes
}

/** Returns attributes sorted by name, without empty ones. */
const toSortedAttributes = (facts: Readonly<Record<string, unknown>>): RunSpans.Attributes => {
  const out: Record<string, RunSpans.Value> = {}
  for (const name of Object.keys(facts).toSorted()) {
    const value = toAttributeValue(facts[name])
    if (value !== undefined) out[name] = value
  }
  return out
}

const redactOptional = (text: string | undefined): string | undefined =>
  text === undefined ? undefined : redactText(text)

/**
 * Returns the address and port of an endpoint. The result is cached because most calls of a run use the same endpoint.
 */
export const getServerAttributes = (baseUrl: string | undefined): RunSpans.Attributes => {
  if (baseUrl !== undefined && newestServer?.baseUrl === baseUrl) return newestServer.attributes
  const attributes = toServerAttributes(baseUrl)
  if (baseUrl !== undefined) newestServer = { baseUrl, attributes }
  return attributes
}

let newestServer: { readonly baseUrl: string; readonly attributes: RunSpans.Attributes } | undefined

const toServerAttributes = (baseUrl: string | undefined): RunSpans.Attributes => {
  const url = URL.parse(baseUrl ?? "")
  if (url === null) return {}
  const standard = url.protocol === "https:" ? 443 : 80
  return { "server.address": url.hostname, "server.port": url.port === "" ? standard : Number(url.port) }
}

/** Returns the cost of an attempt in US dollars, or `undefined` if the price is unknown. */
export const getDollars = ({ end }: Attempt): number | undefined =>
  end?.cost === undefined || end.cost.status === "unknown" ? undefined : (end.cost.usd ?? undefined)

/** Returns the seconds from the request to the first chunk of the answer. */
export const measureFirstChunk = ({ end, startedAt }: Attempt): number | undefined =>
  end?.firstPartAt === undefined ? undefined : Math.max(0, end.firstPartAt - startedAt) / 1000

const maxTokens = ["max_tokens", "max_completion_tokens", "max_output_tokens"]

const withoutInput: ReturnType<typeof Content.makeInputAttributes> = {}

const readMaxTokens = (parameters: Attempt["start"]["parameters"]): unknown => {
  for (const name of maxTokens) if (typeof parameters[name] === "number") return parameters[name]
  return undefined
}

/** Attributes that describe the outcome of the operation of a span. */
interface SpanEnding {
  readonly errorType: string | undefined
  readonly interrupted: boolean | undefined
}

const describeAttempt = (
  attempt: Attempt,
  tree: Pick<Tree, "sent">,
  { captureContent }: Options,
  { errorType, interrupted }: SpanEnding
) => {
  const {
    end,
    run,
    start: { apiRequestId, parameters, rewritten, route, step, task }
  } = attempt
  const usage = end?.usage
  const input = captureContent ? Content.makeInputAttributes(tree.sent(attempt), rewritten) : withoutInput
  const address = getServerAttributes(route.baseUrl)
  return {
    "error.type": errorType,
    "gen_ai.conversation.id": run.sessionId,
    "gen_ai.input.messages": input["gen_ai.input.messages"],
    "gen_ai.operation.name": "chat",
    "gen_ai.output.messages":
      captureContent && end !== undefined && end.answer.length > 0
        ? Content.toJsonText([
            Content.makeAnswerMessage(
              end.answer,
              end.finishReason === undefined ? "error" : ApiPayload.formatFinishReason(end.finishReason)
            )
          ])
        : undefined,
    "gen_ai.provider.name": toProviderName(route.provider),
    "gen_ai.request.max_tokens": readMaxTokens(parameters),
    "gen_ai.request.model": route.model,
    "gen_ai.request.stream": parameters["stream"],
    "gen_ai.request.temperature": parameters["temperature"],
    "gen_ai.request.top_p": parameters["top_p"],
    "gen_ai.response.finish_reasons":
      end?.finishReason === undefined ? undefined : [ApiPayload.formatFinishReason(end.finishReason)],
    "gen_ai.response.id": end?.responseId,
    "gen_ai.response.model": end?.model,
    "gen_ai.response.time_to_first_chunk": measureFirstChunk(attempt),
    "gen_ai.system_instructions": input["gen_ai.system_instructions"],
    "gen_ai.usage.cache_creation.input_tokens": usage?.cacheWriteTokens,
    "gen_ai.usage.cache_read.input_tokens": usage?.cacheReadTokens,
    "gen_ai.usage.input_tokens": usage && Usage.countPromptTokens(usage),
    "gen_ai.usage.output_tokens": usage?.outputTokens,
    "gen_ai.usage.reasoning.output_tokens": usage?.reasoningTokens,
    "hermes.api_mode": route.apiMode,
    "hermes.api_request_id": apiRequestId,
    "hermes.cost_usd": getDollars(attempt),
    "hermes.error.reason": end?.failure?.reason,
    "hermes.error.retryable": end?.failure?.retryable,
    "hermes.input.omitted_messages": input["hermes.input.omitted_messages"],
    "hermes.interrupted": interrupted,
    "hermes.platform": task === undefined ? run.start?.platform : `auxiliary:${task}`,
    "hermes.tenant.id": run.start?.tenant,
    "hermes.retry_count": attempt.start.attempt,
    "hermes.step": task === undefined ? step : undefined,
    "hermes.task": task,
    "http.response.status_code": end?.failure?.status,
    "server.address": address["server.address"],
    "server.port": address["server.port"]
  }
}

/** Returns the provider of a run under its name in the conventions. */
export const getRunProvider = ({ start, steps }: Run): string | undefined => {
  const name = start?.provider ?? steps[0]?.attempts[0]?.start.route.provider
  return name === undefined ? undefined : toProviderName(name)
}

const describeCall = (call: Call, { captureContent }: Options, { errorType, interrupted }: SpanEnding) => {
  const { args, end, id, name, run, start } = call
  const mcp = parseMcpTool(name)
  const route = call.step?.attempts.at(-1)?.start.route
  // A call to an MCP tool has no request if it was stopped before it sent one.
  const request = call.mcp?.event
  return {
    "error.type": errorType,
    "gen_ai.conversation.id": run.sessionId,
    "gen_ai.operation.name": "execute_tool",
    "gen_ai.prompt.name": request?.method === "prompts/get" ? request.target : undefined,
    "gen_ai.provider.name": route === undefined ? getRunProvider(run) : toProviderName(route.provider),
    "gen_ai.tool.call.arguments": captureContent ? Content.toJsonText(start?.args ?? args ?? {}) : undefined,
    "gen_ai.tool.call.id": id,
    "gen_ai.tool.call.result": captureContent ? redactOptional(RunSpans.readResultText(call)) : undefined,
    "gen_ai.tool.name": name,
    "gen_ai.tool.type": "function",
    "hermes.interrupted": interrupted,
    "hermes.mcp.server": request?.server ?? mcp?.server,
    "hermes.mcp.tool": request === undefined ? mcp?.tool : request.method === "tools/call" ? request.target : undefined,
    "hermes.tool.parallel": start?.parallel === true ? true : undefined,
    "hermes.tool.status": end?.status,
    "mcp.method.name": request?.method,
    "mcp.protocol.version": request?.protocol,
    "mcp.resource.uri": redactOptional(request?.uri),
    "mcp.session.id": request?.session,
    "network.protocol.name": request?.address === undefined ? undefined : "http",
    "network.transport": request === undefined ? undefined : request.address === undefined ? "pipe" : "tcp",
    "server.address": request?.address,
    "server.port": request?.port
  }
}

const describeApproval = ({ call, event }: Approval, { captureContent }: Options) => ({
  "gen_ai.provider.name": getRunProvider(call.run),
  "gen_ai.conversation.id": call.run.sessionId,
  "gen_ai.tool.call.id": call.id,
  "hermes.approval.pattern": event.patterns?.[0],
  "hermes.approval.surface": event.surface,
  "hermes.approval.choice": event.choice,
  "hermes.approval.decided_by": event.decidedBy,
  "hermes.approval.command": captureContent ? redactOptional(event.subject) : undefined
})

const joinMessageText = (content: Prompt.Message["content"]): string =>
  typeof content === "string"
    ? content
    : content.flatMap((part) => (part.type === "text" ? [part.text] : [])).join("\n")

/** Returns the text of the user at the beginning of a run. */
export const readPrompt = ({ messages }: Run): string => {
  const message = messages.find(({ origin }) => origin === "user")?.message
  return message === undefined ? "" : joinMessageText(message.content)
}

/**
 * Lists the attempts of a run and of its side tasks that began before the run ended. Attempts of its children are
 * excluded.
 */
const listAttempts = ({ endedAt = Number.POSITIVE_INFINITY, sideTasks, steps }: Run): ReadonlyArray<Attempt> => [
  ...steps.flatMap(({ attempts }) => attempts),
  ...sideTasks.filter(({ startedAt }) => startedAt < endedAt)
]

const sumAttempts = (run: Run, count: (attempt: Attempt) => number | undefined): number | undefined => {
  const known = listAttempts(run).flatMap((attempt) => count(attempt) ?? [])
  return known.length === 0 ? undefined : known.reduce((a, b) => a + b, 0)
}

/** Returns the cost of a run, or `undefined` if the price of one of its model calls is unknown. */
const sumCost = (run: Run): number | undefined =>
  listAttempts(run).some((attempt) => attempt.end?.usage !== undefined && getDollars(attempt) === undefined)
    ? undefined
    : sumAttempts(run, getDollars)

/** Names of the totals of a run: in general, and the names that model calls use. */
const totalNames = {
  own: ["hermes.total.input_tokens", "hermes.total.output_tokens", "hermes.total.cost_usd"],
  shared: ["gen_ai.usage.input_tokens", "gen_ai.usage.output_tokens", "hermes.cost_usd"]
} as const

const describeTotals = (run: Run, { agentUsage }: Options) => {
  const [input, output, cost] = totalNames[agentUsage === true ? "shared" : "own"]
  return {
    [input]: sumAttempts(run, ({ end }) => end?.usage && Usage.countPromptTokens(end.usage)),
    [output]: sumAttempts(run, ({ end }) => end?.usage?.outputTokens),
    [cost]: sumCost(run)
  }
}

const describeRun = (run: Run, options: Options) => {
  const { agentName, captureContent } = options
  const { end, sessionId, start, turnId } = run
  const interrupted = RunSpans.getOutcome(run)._tag === "Cut"
  return {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": agentName,
    "gen_ai.conversation.id": sessionId,
    "gen_ai.provider.name": getRunProvider(run),
    "gen_ai.request.model": start?.model,
    "hermes.turn_id": turnId,
    "hermes.task_id": start?.parent?.subagentId ?? sessionId,
    "hermes.platform": start?.platform,
    "hermes.tenant.id": start?.tenant,
    "hermes.exit": end?.exit ?? "interrupted",
    "hermes.completed": isCompletedExit(end?.exit),
    "hermes.interrupted": interrupted,
    ...describeTotals(run, options),
    "gen_ai.input.messages": captureContent
      ? Content.toJsonText([Content.makePlainMessage("user", readPrompt(run))])
      : undefined,
    "gen_ai.output.messages":
      captureContent && end?.text !== undefined
        ? Content.toJsonText([{ ...Content.makePlainMessage("assistant", end.text), finish_reason: "stop" }])
        : undefined
  }
}

const describeChild = (child: Child, options: Options) => {
  const { end, parent, run, start } = child
  const { captureContent } = options
  return {
    "gen_ai.operation.name": "invoke_agent",
    "gen_ai.agent.name": options.agentName,
    "gen_ai.conversation.id": start.sessionId,
    "gen_ai.provider.name": getRunProvider(run ?? parent),
    ...(run === undefined ? {} : describeRun(run, options)),
    "gen_ai.agent.id": start.subagentId,
    "hermes.child.role": start.role,
    "hermes.child.status": end?.status ?? "interrupted",
    "hermes.parent.conversation.id": parent.sessionId,
    "gen_ai.input.messages": captureContent
      ? Content.toJsonText([Content.makePlainMessage("user", start.goal)])
      : undefined,
    "gen_ai.output.messages":
      captureContent && end?.summary !== undefined
        ? Content.toJsonText([{ ...Content.makePlainMessage("assistant", end.summary), finish_reason: "stop" }])
        : undefined
  }
}

const collectFacts = (
  node: Node,
  tree: Pick<Tree, "sent">,
  options: Options,
  ending: SpanEnding
): Record<string, unknown> => {
  const { errorType, interrupted } = ending
  const outcome = { "error.type": errorType, "hermes.interrupted": interrupted }
  switch (node.kind) {
    case "run":
      return { ...describeRun(node, options), ...outcome }
    case "child":
      return { ...describeChild(node, options), ...outcome }
    case "step":
      return {
        "error.type": errorType,
        "gen_ai.conversation.id": node.run.sessionId,
        "gen_ai.provider.name": getRunProvider(node.run),
        "hermes.interrupted": interrupted,
        "hermes.step": node.number
      }
    case "attempt":
      return describeAttempt(node, tree, options, ending)
    case "call":
      return describeCall(node, options, ending)
    case "approval":
      return { ...describeApproval(node, options), ...outcome }
  }
}

/** Attributes that had a different name before version 1.37, each with its earlier name. */
const earlier: Readonly<Record<string, string>> = { "gen_ai.provider.name": "gen_ai.system" }

/** Returns the name of a span. */
const formatSpanName = (node: Node, agentName: string): string => {
  switch (node.kind) {
    case "attempt":
      return `chat ${node.start.route.model}`
    case "call":
      return `execute_tool ${node.name}`
    case "approval":
      return "approval"
    case "step":
      return `step ${node.number}`
    default:
      return `invoke_agent ${agentName}`
  }
}

const buildAttributes = (
  node: Node,
  outcome: RunSpans.Outcome,
  tree: Pick<Tree, "sent">,
  options: Options
): RunSpans.SparseAttributes => {
  const attributes = normalizeInPlace(
    collectFacts(node, tree, options, {
      errorType: outcome._tag === "Failed" ? outcome.failure.type : undefined,
      interrupted: outcome._tag === "Cut" ? true : node.kind === "run" || node.kind === "child" ? false : undefined
    })
  )
  const { conventions: table = Conventions.standard } = options
  if (table !== Conventions.standard)
    return toSortedAttributes(Conventions.renameFacts(table, attributes, node.kind === "run" || node.kind === "child"))
  if (options.duplicate !== true) return attributes
  const old = Object.entries(earlier).flatMap(([name, before]) =>
    attributes[name] === undefined ? [] : [[before, attributes[name]] as const]
  )
  return toSortedAttributes({ ...attributes, ...Object.fromEntries(old) })
}

/** Returns the attributes of a span that has ended. */
export const toAttributes = (
  node: Node,
  outcome: RunSpans.Outcome,
  tree: Pick<Tree, "sent">,
  options: Options
): RunSpans.Attributes => toSortedAttributes(buildAttributes(node, outcome, tree, options))

const toSpanEvent = (
  { at, event }: { readonly at: number; readonly event: RecordEvent.RecordEvent },
  captureContent: boolean
): RunSpans.Event => {
  const { _tag, ...facts } = event
  const name = `hermes.${_tag.replace(/(?!^)[A-Z]/gu, "_$&").toLowerCase()}`
  const flat =
    event._tag === "RouteChanged"
      ? {
          from: `${event.from.provider}/${event.from.model}`,
          to: `${event.to.provider}/${event.to.model}`,
          reason: event.reason
        }
      : event._tag === "Notice"
        ? { level: event.level, message: captureContent ? redactOptional(event.message) : undefined }
        : facts
  return {
    name,
    at,
    attributes: toSortedAttributes(
      Object.fromEntries(Object.entries(flat).map(([key, value]) => [`${name}.${key}`, value]))
    )
  }
}

/** Lists the events of a span: waits, changes of route, notices, rewritten contexts and lost entries. */
const listSpanEvents = (node: Node, { captureContent }: Options): ReadonlyArray<RunSpans.Event> => {
  const run =
    node.kind === "step" || node.kind === "run" ? RunSpans.findRun(node) : node.kind === "child" ? node.run : undefined
  if (run === undefined) return []
  const step = node.kind === "step" ? node.number : 0
  return run.asides
    .filter((aside) => aside.step === step && aside.at <= (run.endedAt ?? aside.at))
    .map((aside) => toSpanEvent(aside, captureContent))
}

/** Creates the view of an exporter. `trace` returns the trace and the parent span of a run. */
export const makeView = (options: Options, trace: RunSpans.View["trace"]): RunSpans.View => ({
  hasSteps: true,
  trace,
  name: (node) => formatSpanName(node, options.agentName),
  attributes: (node, outcome, tree) => buildAttributes(node, outcome, tree, options),
  events: (node) => listSpanEvents(node, options)
})
