/**
 * What is counted: tokens, durations, the time until an answer begins, errors and money, under the names of the GenAI
 * semantic conventions where they have one. They are Effect's own metrics, so whoever exports those exports these.
 *
 * Source: OpenTelemetry, "Semantic Conventions for GenAI metrics" (names, units, bounds).
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import type { Fields } from "../atof/Facts.ts"
import { type Attributes, providerOf, usage } from "./Attributes.ts"

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
/** Everything that went wrong; `error.type` says how. */
export const errors = Metric.counter("hermes.errors", {
  description: "Model calls, tool calls and runs that failed",
  attributes: { unit: "{error}" },
  incremental: true
})
/** In US dollars, by the list of prices. */
export const cost = Metric.counter("hermes.cost", { description: "Estimated cost", attributes: { unit: "USD" }, incremental: true })

/** What is common to all numbers of a span. */
export interface Labels {
  readonly attributes: Attributes
  readonly error: string | undefined
}

const strings = ({ attributes, error }: Labels, more: Readonly<Record<string, string>> = {}): Readonly<Record<string, string>> => ({
  ...Object.fromEntries(Object.entries(attributes).map(([name, value]) => [name, String(value)])),
  ...(error === undefined ? {} : { "error.type": error }),
  ...more
})

const update = (metric: Metric.Metric<number, unknown>, value: number, labels: Readonly<Record<string, string>>, into: Context.Context<never>): void =>
  Metric.withAttributes(metric, labels).updateUnsafe(value, into)

/** The labels of a model call. */
export const modelLabels = (payload: Fields): Attributes => ({
  "gen_ai.operation.name": "chat",
  "gen_ai.provider.name": providerOf(payload),
  "gen_ai.request.model": String(payload["model"] ?? "")
})

/** A model call is over. */
export const model = (elapsed: number, payload: Fields, labels: Labels, into: Context.Context<never>): void => {
  update(modelDuration, elapsed, strings(labels), into)
  const counters = usage(payload)
  for (const [type, name] of [["input", "prompt_tokens"], ["output", "output_tokens"]] as const) {
    const count = counters[name]
    if (typeof count === "number") update(tokenUsage, count, strings(labels, { "gen_ai.token.type": type }), into)
  }
  const first = payload["time_to_first_token"]
  if (typeof first === "number") update(timeToFirstChunk, first, strings(labels), into)
  const dollars = payload["estimated_cost_usd"]
  if (typeof dollars === "number" && dollars > 0) update(cost, dollars, strings(labels), into)
}

/** A tool call, a run or a child is over. */
export const timed = (metric: typeof toolDuration, elapsed: number, labels: Labels, into: Context.Context<never>): void =>
  update(metric, elapsed, strings(labels), into)

/** Something went wrong. */
export const failed = (labels: Labels, into: Context.Context<never>): void => update(errors, 1, strings(labels), into)
