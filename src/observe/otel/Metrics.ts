/**
 * Metrics of ended spans: tokens, durations, the time until an answer begins, errors and cost. Their names follow the
 * GenAI semantic conventions if these define one. They are Effect metrics, so an application's exporter exports them.
 *
 * Source: OpenTelemetry, "Semantic Conventions for GenAI metrics" (names, units, bounds).
 */
import type * as Context from "effect/Context"
import * as Metric from "effect/Metric"
import * as Usage from "../../base/domain/Usage.ts"
import type { Instrument, Labels } from "../otlp/MetricPoints.ts"
import { findRun, type Span } from "../RunSpans.ts"
import type { Attempt, Node } from "../RunTree.ts"
import { toProviderName } from "../../base/domain/OperationSpans.ts"
import * as Conventions from "./Conventions.ts"
import { getDollars, measureFirstChunk, getRunProvider, getServerAttributes } from "./Attributes.ts"

const seconds = [0.01, 0.02, 0.04, 0.08, 0.16, 0.32, 0.64, 1.28, 2.56, 5.12, 10.24, 20.48, 40.96, 81.92]
const runSeconds = Array.from({ length: 13 }, (_, power) => Math.round(2 ** power) / 10)
const tokens = Array.from({ length: 14 }, (_, power) => 4 ** power)

const makeDuration = (name: string, description: string, boundaries: ReadonlyArray<number> = seconds): Instrument => ({
  name,
  description,
  unit: "s",
  boundaries
})

/** Instruments of the conventions, by table and name. There are only a few. */
const instruments = new WeakMap<Conventions.Table, Map<string, Instrument>>()

const getInstrument = (conventions: Conventions.Table, name: string, make: () => Instrument): Instrument => {
  const known = instruments.get(conventions) ?? new Map<string, Instrument>()
  instruments.set(conventions, known)
  const made = known.get(name) ?? make()
  known.set(name, made)
  return made
}

/** Returns the instrument under its name in the conventions. */
const toConventions = (conventions: Conventions.Table, instrument: Instrument): Instrument =>
  conventions === Conventions.standard
    ? instrument
    : getInstrument(conventions, instrument.name, () => ({
        ...instrument,
        name: Conventions.getMetricName(conventions, instrument.name)
      }))

/** Returns the instrument for tokens of model calls. */
const getTokenInstrument = (conventions: Conventions.Table, { kind, name }: Conventions.MetricName): Instrument =>
  getInstrument(conventions, name, () => ({
    name,
    description: kind === "counter" ? "Tokens of model calls" : "Tokens of a model call",
    unit: "{token}",
    ...(kind === "counter" ? {} : { boundaries: tokens })
  }))

/** Duration of each attempt. */
const modelDuration = makeDuration("gen_ai.client.operation.duration", "Time that a request to a model took")
/** Time to the first chunk of a streamed answer. */
const timeToFirstChunk = makeDuration(
  "gen_ai.client.operation.time_to_first_chunk",
  "Time until an answer that streams begins"
)
/** Duration of each tool call, including the time it waited. */
const toolDuration = makeDuration("gen_ai.execute_tool.duration", "Time that a tool call took")
/** Duration of each request to an MCP server. */
const mcpDuration = makeDuration(
  "mcp.client.operation.duration",
  "Time that a request to an MCP server took",
  [0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1, 2, 5, 10, 30, 60, 120, 300]
)
/** Duration of each run of an agent or a child. */
const runDuration = makeDuration("gen_ai.invoke_agent.duration", "Time that a run took", runSeconds)
/** Number of failed model calls, tool calls and runs. `error.type` is the kind of failure. */
const errors: Instrument = {
  name: "hermes.errors",
  description: "Model calls, tool calls and runs that failed",
  unit: "{error}"
}
/** Cost in US dollars, calculated from the price list. */
const cost: Instrument = { name: "hermes.cost", description: "Estimated cost", unit: "USD" }

/** Maximum number of tenants with labels of their own. Further tenants share the label `other`. */
const mostTenants = 100

/** Tenants with labels of their own. */
const labelledTenants = new Set<string>()

/** Returns the label of the tenant of a span's run, if it has one. */
const getTenantLabel = (node: Node): string | undefined => {
  const { tenant } = findRun(node).start ?? {}
  if (tenant === undefined || labelledTenants.has(tenant)) return tenant
  if (labelledTenants.size >= mostTenants) return "other"
  labelledTenants.add(tenant)
  return tenant
}

/** Removes empty labels. */
const dropEmptyLabels = (labels: Readonly<Record<string, unknown>>): Labels =>
  Object.fromEntries(
    Object.entries(labels).flatMap(([name, value]) =>
      value === undefined || value === "" ? [] : [[name, String(value)]]
    )
  )

/** Returns the labels for the duration metric of a span. For a failure, they include `error.type`. */
const makeOwnLabels = (node: Exclude<Node, { readonly kind: "approval" | "step" }>, agentName: string): Labels => {
  switch (node.kind) {
    case "attempt": {
      const {
        end,
        start: { route }
      } = node
      return dropEmptyLabels({
        "gen_ai.operation.name": "chat",
        "gen_ai.provider.name": toProviderName(route.provider),
        "gen_ai.request.model": route.model,
        "gen_ai.response.model": end?.model,
        ...getServerAttributes(route.baseUrl)
      })
    }
    case "call":
      return { "gen_ai.agent.name": agentName, "gen_ai.tool.name": node.name, "gen_ai.tool.type": "function" }
    default: {
      const run = node.kind === "child" ? (node.run ?? node.parent) : node
      return dropEmptyLabels({
        "gen_ai.agent.name": agentName,
        "gen_ai.provider.name": getRunProvider(run),
        "gen_ai.request.model": run.start?.model
      })
    }
  }
}

/** Returns the operation name of a span, for metrics and log records that cover all operations. */
const getOperationName = ({ kind }: Node): string =>
  kind === "attempt" ? "chat" : kind === "call" ? "execute_tool" : "invoke_agent"

/** Returns the labels of a span's metrics. */
export const makeLabels = (node: Node, agentName: string, conventions = Conventions.standard): Labels =>
  node.kind === "approval" || node.kind === "step"
    ? makeLabels(node.kind === "step" ? node.run : node.call, agentName, conventions)
    : renameLabels(conventions, node, {
        "gen_ai.operation.name": getOperationName(node),
        ...makeOwnLabels(node, agentName)
      })

/** Returns labels under their names in the conventions. */
const renameLabels = (conventions: Conventions.Table, { kind }: Node, labels: Labels): Labels =>
  conventions === Conventions.standard
    ? labels
    : Conventions.renameFacts(conventions, labels, kind === "run" || kind === "child")

/** Cached labels by key, because calls often have the same labels. */
const known = new Map<string, Labels>()

const maxKnown = 1024

const getLabels = (key: string, make: () => Labels): Labels => {
  const before = known.get(key)
  if (before !== undefined) return before
  if (known.size >= maxKnown) known.clear()
  const made = make()
  known.set(key, made)
  return made
}

/** Lists the facts that determine the labels of a span. */
const listLabelFacts = (node: Node, agentName: string): ReadonlyArray<string | undefined> => {
  if (node.kind === "attempt") {
    const {
      end,
      start: { route }
    } = node
    return ["attempt", route.provider, route.model, end?.model, route.baseUrl]
  }
  if (node.kind === "call") return ["call", agentName, node.name]
  const run = node.kind === "child" ? (node.run ?? node.parent) : node.kind === "run" ? node : undefined
  return ["run", agentName, run && getRunProvider(run), run?.start?.model]
}

/** Function that receives a value of a metric, with its labels. */
export type MetricRecorder = (instrument: Instrument, labels: Labels, value: number) => void

/** Records the metrics of a span that has ended. */
export const recordSpan = (
  { endedAt, node, outcome, startedAt }: Span,
  agentName: string,
  record: MetricRecorder,
  conventions: Conventions.Table = Conventions.standard
): void => {
  if (node.kind === "step" || node.kind === "approval") return
  const tenant = getTenantLabel(node)
  const ofTenant: Labels = tenant === undefined ? {} : { "hermes.tenant.id": tenant }
  const key = [...listLabelFacts(node, agentName), tenant].join("\n")
  const failure = outcome._tag === "Failed" ? outcome.failure.type : undefined
  const recordValue = (instrument: Instrument, value: number | undefined, more: Labels = {}): void => {
    if (value === undefined) return
    record(
      toConventions(conventions, instrument),
      getLabels([conventions.version, key, ...Object.values(more)].join("\n"), () =>
        renameLabels(conventions, node, { ...makeOwnLabels(node, agentName), ...ofTenant, ...more })
      ),
      value
    )
  }
  const recordTokens = (
    names: ReadonlyArray<Conventions.MetricName>,
    value: number | undefined,
    type?: "input" | "output"
  ): void => {
    const label = type === undefined || conventions.tokens.typeLabel === undefined ? {} : { "gen_ai.token.type": type }
    for (const name of names) recordValue(getTokenInstrument(conventions, name), value, label)
  }
  const failed: Labels = failure === undefined ? {} : { "error.type": failure }
  const recordAnswer = (attempt: Attempt): void => {
    const usage = attempt.end?.usage
    const { cacheRead, cacheWrite, input, output, reasoning } = conventions.tokens
    recordTokens(input, usage && Usage.countPromptTokens(usage), "input")
    recordTokens(output, usage?.outputTokens, "output")
    recordTokens(cacheRead, usage?.cacheReadTokens || undefined)
    recordTokens(cacheWrite, usage?.cacheWriteTokens || undefined)
    recordTokens(reasoning, usage?.reasoningTokens || undefined)
    if (outcome._tag === "Done") recordValue(timeToFirstChunk, measureFirstChunk(attempt))
    recordValue(cost, getDollars(attempt) || undefined)
  }
  recordValue(
    node.kind === "attempt" ? modelDuration : node.kind === "call" ? toolDuration : runDuration,
    (endedAt - startedAt) / 1000,
    failed
  )
  if (node.kind === "attempt") recordAnswer(node)
  if (node.kind === "call" && node.mcp !== undefined) {
    const { address, method, port, protocol, target } = node.mcp.event
    const facts = dropEmptyLabels({
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
    record(
      toConventions(conventions, mcpDuration),
      renameLabels(conventions, node, facts),
      Math.max(0, endedAt - node.mcp.at) / 1000
    )
  }
  if (failure !== undefined) recordValue(errors, 1, { "gen_ai.operation.name": getOperationName(node), ...failed })
}

type EffectMetric = Metric.Metric<number, unknown>

/** Effect metrics by instrument. */
const metrics = new Map<Instrument, EffectMetric>()

const getMetric = (instrument: Instrument): EffectMetric => {
  const before = metrics.get(instrument)
  if (before !== undefined) return before
  const { boundaries, description, name, unit } = instrument
  const made: EffectMetric =
    boundaries === undefined
      ? Metric.counter(name, { description, attributes: { unit }, incremental: true })
      : Metric.histogram(name, { description, boundaries, attributes: { unit } })
  metrics.set(instrument, made)
  return made
}

/** Creates a recorder that updates metrics in a registry. The metric for each set of labels is looked up only once. */
export const toRegistry = (into: Context.Context<never>): MetricRecorder => {
  const made = new Map<Instrument, WeakMap<Labels, EffectMetric>>()
  return (instrument, labels, value) => {
    const ofInstrument = made.get(instrument) ?? new WeakMap<Labels, EffectMetric>()
    made.set(instrument, ofInstrument)
    const metric = ofInstrument.get(labels) ?? Metric.withAttributes(getMetric(instrument), labels)
    ofInstrument.set(labels, metric)
    metric.updateUnsafe(value, into)
  }
}
