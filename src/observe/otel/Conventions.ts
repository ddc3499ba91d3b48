/**
 * Versions of the GenAI semantic conventions. Each version is a table of names: for every attribute and metric that
 * this runtime knows, its name in that version. A fact that a version does not define has a name with the prefix
 * `hermes.`.
 *
 * **Details**
 *
 * | value of `OTEL_SEMCONV_STABILITY_OPT_IN` | names |
 * | --- | --- |
 * | none, or `gen_ai/1.41` | version 1.41, the last one that describes both GenAI and MCP |
 * | `gen_ai_latest_experimental`, or `gen_ai/0.1` | `semantic-conventions-genai` 0.1.0, which replaces them |
 * | `gen_ai/1.36` | version 1.36, from before the names of providers changed |
 * | `gen_ai/dup` | version 1.41, and `gen_ai.system` of version 1.36 in addition |
 *
 * The code uses the names of version 1.41. A table is applied to finished attributes and labels.
 *
 * Source: OpenTelemetry, "Semantic Conventions for Generative AI systems" 1.36.0 and 1.41.1, and the model and
 * migration guide of `semantic-conventions-genai`.
 */
import { table as current } from "./conventions/v1_41.ts"
import { table as old } from "./conventions/v1_36.ts"
import { table as latest } from "./conventions/v0_1.ts"

/** Names of facts, by their names in version 1.41. */
export type Names = Readonly<Record<string, string>>

/** Metric of a fact. It is a counter or a histogram, and may count only the values with one label. */
export interface MetricName {
  readonly name: string
  readonly kind: "counter" | "histogram"
}

/**
 * Metrics of the usage of model calls. A version has one metric with a label for the kind of token, or one metric for
 * each kind.
 */
export interface TokenMetrics {
  readonly input: ReadonlyArray<MetricName>
  readonly output: ReadonlyArray<MetricName>
  readonly cacheRead: ReadonlyArray<MetricName>
  readonly cacheWrite: ReadonlyArray<MetricName>
  readonly reasoning: ReadonlyArray<MetricName>
  /** Label for the kind of token, if one metric counts input and output. */
  readonly typeLabel: string | undefined
}

/** Names of one version. */
export interface Table {
  readonly version: string
  /** Schema URL of the exported signals. */
  readonly schemaUrl: string
  /** Names of attributes of spans and labels of metrics. */
  readonly attributes: Names
  /** Names of attributes of `invoke_agent` spans that differ from `attributes`. */
  readonly agentAttributes: Names
  /** Names of metrics, except the tokens. */
  readonly metrics: Names
  readonly tokens: TokenMetrics
}

/** A version of the conventions, as applications name it. */
export type Version = "1.36" | "1.41" | "genai-0.1"

const versions: Readonly<Record<Version, Table>> = { "1.36": old, "1.41": current, "genai-0.1": latest }

/** Tables by the values of the variable that select them. */
const tables: Readonly<Record<string, Table>> = {
  "gen_ai/1.36": old,
  "gen_ai/1.41": current,
  "gen_ai/dup": current,
  "gen_ai/0.1": latest,
  gen_ai_latest_experimental: latest
}

/** Values that select conventions. */
export const values: ReadonlyArray<string> = Object.keys(tables)

/** The table that is used if nothing is selected. */
export const standard: Table = current

/** Returns the table of a version. The default is the standard one. */
export const getTable = (version: Version | undefined): Table => (version === undefined ? standard : versions[version])

/** Returns the table for the first known value, or the standard one. */
export const selectTable = (chosen: ReadonlyArray<string>): Table => {
  for (const value of chosen) {
    const table = Object.hasOwn(tables, value) ? tables[value] : undefined
    if (table !== undefined) return table
  }
  return standard
}

/** Returns the name of an attribute or label in a version. */
const findName = (names: Names, name: string): string => (Object.hasOwn(names, name) ? (names[name] ?? name) : name)

/** Returns facts under their names in a version. */
export const renameFacts = <A>(
  { agentAttributes, attributes }: Table,
  facts: Readonly<Record<string, A>>,
  isAgent: boolean
): Record<string, A> =>
  Object.fromEntries(
    Object.entries(facts).map(([name, value]) => [
      isAgent && Object.hasOwn(agentAttributes, name) ? findName(agentAttributes, name) : findName(attributes, name),
      value
    ])
  )

/** Returns the name of a metric in a version. */
export const getMetricName = ({ metrics }: Table, name: string): string => findName(metrics, name)
