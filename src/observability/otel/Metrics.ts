/**
 * Metrics of spans that are over: tokens, durations, the time until an answer begins, errors and money, under the names of the
 * GenAI semantic conventions where they have one. They are Effect's own metrics, so an application's exporter exports them.
 *
 * Source: OpenTelemetry, "Semantic Conventions for GenAI metrics" (names, units, bounds).
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import * as Usage from "../../domain/Usage.ts"
import type { Span } from "../RunSpans.ts"
import type { Attempt, Node } from "../RunTree.ts"
import { dollarsOf, firstChunkOf, providerOf, providerOfRun, server } from "./Attributes.ts"

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const runSeconds = Array.from({ length: 13 }, (_, power) => Math.round(2 ** power) / 10)
const tokens = Array.from({ length: 14 }, (_, power) => 4 ** power)

const duration = (name: string, description: string, boundaries: ReadonlyArray<number> = seconds) =>
  Metric.histogram(name, { description, boundaries, attributes: { unit: "s" } })

/** Tokens of model calls; `gen_ai.token.type` tells those that went in from those that came out. */
export const tokenUsage = Metric.histogram("gen_ai.client.token.usage", {
  description: "Tokens of a model call",
  boundaries: tokens,
  attributes: { unit: "{token}" }
})
/** Of single attempts. */
export const modelDuration = duration("gen_ai.client.operation.duration", "Time that a request to a model took")
/** Of answers that stream. */
export const timeToFirstChunk = duration("gen_ai.client.operation.time_to_first_chunk", "Time until an answer that streams begins")
/** Of tool calls, with what they waited for. */
export const toolDuration = duration("gen_ai.execute_tool.duration", "Time that a tool call took")
/** Of requests to MCP servers. */
export const mcpDuration = duration(
  "mcp.client.operation.duration",
  "Time that a request to an MCP server took",
  [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
)
/** Of runs, and of children. */
export const runDuration = duration("gen_ai.invoke_agent.duration", "Time that a run took", runSeconds)
/** Failed model calls, tool calls and runs; `error.type` names the failure. */
export const errors = Metric.counter("hermes.errors", {
  description: "Model calls, tool calls and runs that failed",
  attributes: { unit: "{error}" },
  incremental: true
})
/** In US dollars, by the list of prices. */
export const cost = Metric.counter("hermes.cost", { description: "Estimated cost", attributes: { unit: "USD" }, incremental: true })

type Labels = Readonly<Record<string, string>>

/** Leaves out labels that say nothing. */
const present = (labels: Readonly<Record<string, unknown>>): Labels =>
  Object.fromEntries(Object.entries(labels).flatMap(([name, value]) => value === undefined || value === "" ? [] : [[name, String(value)]]))

/** Labels of a span's own metrics; failures have `error.type` beside them. */
const ownLabels = (node: Exclude<Node, { readonly kind: "approval" | "step" }>, agentName: string): Labels => {
  switch (node.kind) {
    case "attempt": {
      const { end, start: { route } } = node
      return present({
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": providerOf(route.provider),
        "gen_ai.request.model": route.model,
        "gen_ai.response.model": end?.model,
        ...server(route.baseUrl)
      })
    }
    case "call":
      return { "gen_ai.agent.name": agentName, "gen_ai.tool.name": node.name, "gen_ai.tool.type": "function" }
    default: {
      const run = node.kind === "child" ? node.run ?? node.parent : node
      return present({
        "gen_ai.agent.name": agentName,
        "gen_ai.provider.name": providerOfRun(run),
        "gen_ai.request.model": run.start?.model
      })
    }
  }
}

/** Name of the operation of a span, for counts and log records that are of all operations. */
const operationOf = ({ kind }: Node): string => kind === "attempt" ? "chat" : kind === "call" ? "execute_tool" : "invoke_agent"

/** Attributes of the log record about a span. */
export const labelsOf = (node: Node, agentName: string): Labels =>
  node.kind === "approval" || node.kind === "step"
    ? labelsOf(node.kind === "step" ? node.run : node.call, agentName)
    : { "gen_ai.operation.name": operationOf(node), ...ownLabels(node, agentName) }

type Counted = Metric.Metric<number, unknown>

/** A metric with labels; the labels are the same object for all of its values. */
interface Labelled {
  readonly metric: Counted
  readonly labels: Labels
}

/** Metrics with labels, by metric and labels, of a registry: one that is used again has its key already. */
const labelled = new WeakMap<Context.Context<never>, Map<string, Labelled>>()

const withLabels = (metric: Counted, labels: Labels, into: Context.Context<never>): Labelled => {
  const all = labelled.get(into) ?? new Map<string, Labelled>()
  labelled.set(into, all)
  const key = `${metric.id} ${JSON.stringify(labels)}`
  const known = all.get(key)
  if (known !== undefined) return known
  const made = { metric: Metric.withAttributes(metric, labels), labels }
  all.set(key, made)
  return made
}

/** Receives what was counted, with the labels of the data point. */
export type Noted = (metric: string, labels: Labels, value: number) => void

/** Counts a span that is over into a registry of metrics. */
export const count = ({ endedAt, node, outcome, startedAt }: Span, agentName: string, into: Context.Context<never>, noted?: Noted): void => {
  if (node.kind === "step" || node.kind === "approval") return
  const labels = ownLabels(node, agentName)
  const failed: Labels = outcome._tag === "Failed" ? { "error.type": outcome.failure.type } : {}
  const record = (metric: Counted, given: Labels, value: number): void => {
    const { labels, metric: counted } = withLabels(metric, given, into)
    counted.updateUnsafe(value, into)
    noted?.(metric.id, labels, value)
  }
  const update = (metric: Counted, value: number | undefined, more: Labels = {}): void => {
    if (value !== undefined) record(metric, { ...labels, ...more }, value)
  }
  const ofAnswer = (attempt: Attempt): void => {
    const usage = attempt.end?.usage
    update(tokenUsage, usage && Usage.promptTokens(usage), { "gen_ai.token.type": "input" })
    update(tokenUsage, usage?.outputTokens, { "gen_ai.token.type": "output" })
    if (outcome._tag === "Done") update(timeToFirstChunk, firstChunkOf(attempt))
    update(cost, dollarsOf(attempt) || undefined)
  }
  update(node.kind === "attempt" ? modelDuration : node.kind === "call" ? toolDuration : runDuration, (endedAt - startedAt) / 1000, failed)
  if (node.kind === "attempt") ofAnswer(node)
  if (node.kind === "call" && node.mcp !== undefined) {
    const { address, method, port, protocol, target } = node.mcp.event
    const facts = present({
      "gen_ai.operation.name": method === "tools/call" ? "execute_tool" : undefined,
      "gen_ai.prompt.name": method === "prompts/get" ? target : undefined,
      "gen_ai.tool.name": method === "tools/call" ? target : undefined,
      "mcp.method.name": method,
      "mcp.protocol.version": protocol,
      "network.transport": address === undefined ? "pipe" : "tcp",
      "server.address": address,
      "server.port": port,
      ...failed
    })
    record(mcpDuration, facts, Math.max(0, endedAt - node.mcp.at) / 1000)
  }
  if (outcome._tag === "Failed") update(errors, 1, { "gen_ai.operation.name": operationOf(node), ...failed })
}
