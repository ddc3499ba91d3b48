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
import { dollarsOf, firstChunkOf, providerOf } from "./Attributes.ts"

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const tokens = Array.from({ length: 14 }, (_, power) => 4 ** power)

const duration = (name: string, description: string) =>
  Metric.histogram(name, { description, boundaries: seconds, attributes: { unit: "s" } })

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
/** Of runs, and of children. */
export const runDuration = duration("gen_ai.invoke_agent.duration", "Time that a run took")
/** Failed model calls, tool calls and runs; `error.type` names the failure. */
export const errors = Metric.counter("hermes.errors", {
  description: "Model calls, tool calls and runs that failed",
  attributes: { unit: "{error}" },
  incremental: true
})
/** In US dollars, by the list of prices. */
export const cost = Metric.counter("hermes.cost", { description: "Estimated cost", attributes: { unit: "USD" }, incremental: true })

/** Labels of the metrics of a span, and of the log record about it. */
export const labelsOf = (node: Node, agentName: string): Readonly<Record<string, string>> => {
  switch (node.kind) {
    case "attempt": {
      const { model, provider } = node.start.route
      return { "gen_ai.operation.name": "chat", "gen_ai.provider.name": providerOf(provider), "gen_ai.request.model": model }
    }
    case "call":
      return { "gen_ai.operation.name": "execute_tool", "gen_ai.tool.name": node.name }
    default:
      return { "gen_ai.operation.name": "invoke_agent", "gen_ai.agent.name": agentName }
  }
}

/** Counts a span that is over into a registry of metrics. */
export const count = ({ endedAt, node, outcome, startedAt }: Span, agentName: string, into: Context.Context<never>): void => {
  if (node.kind === "step" || node.kind === "approval") return
  const labels = { ...labelsOf(node, agentName), ...(outcome._tag === "Failed" ? { "error.type": outcome.failure.type } : {}) }
  const update = (metric: Metric.Metric<number, unknown>, value: number | undefined, more: Readonly<Record<string, string>> = {}): void => {
    if (value !== undefined) Metric.withAttributes(metric, { ...labels, ...more }).updateUnsafe(value, into)
  }
  const ofAnswer = (attempt: Attempt): void => {
    const usage = attempt.end?.usage
    update(tokenUsage, usage && Usage.promptTokens(usage), { "gen_ai.token.type": "input" })
    update(tokenUsage, usage?.outputTokens, { "gen_ai.token.type": "output" })
    if (outcome._tag === "Done") update(timeToFirstChunk, firstChunkOf(attempt))
    update(cost, dollarsOf(attempt) || undefined)
  }
  update(node.kind === "attempt" ? modelDuration : node.kind === "call" ? toolDuration : runDuration, (endedAt - startedAt) / 1000)
  if (node.kind === "attempt") ofAnswer(node)
  if (outcome._tag === "Failed") update(errors, 1)
}
