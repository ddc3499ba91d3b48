/**
 * An observation of Langfuse that is not over yet, and what all observations of one run have in common.
 *
 * Source: `hermes-contract.md` §5; the attribute names are those that Langfuse's OpenTelemetry ingestion reads.
 */
import type * as Schema from "effect/Schema"
import type { Value } from "../otlp/Span.ts"

/** A tool call that a model asked for; `output` comes when the tool is done. */
export interface Call {
  readonly [key: string]: Schema.Json
}

/** What is known of a run. */
export interface Run {
  readonly traceId: string
  readonly isSampled: boolean
  /** Attributes of every observation: session, user, tags, … */
  readonly common: Readonly<Record<string, Value>>
  /** Calls that its models asked for, by id. */
  readonly calls: Map<string, Call>
  content: Schema.Json
  reasoning: Schema.Json | undefined
  exit: string | undefined
}

/** See the module. */
export interface Observation {
  readonly run: Run
  readonly spanId: string
  readonly parentSpanId: string | undefined
  readonly name: string
  readonly start: bigint
  readonly attributes: Record<string, Value>
}

/** Kinds of observations that this runtime has. */
export type Type = "chain" | "agent" | "generation" | "tool" | "guardrail"

/** A value of an attribute: text as it is, anything else as JSON. */
export const json = (value: Schema.Json): string => typeof value === "string" ? value : JSON.stringify(value)

/** Attributes of the metadata of an observation, where they say something. */
export const metadata = (facts: Readonly<Record<string, Schema.Json | undefined>>): Record<string, Value> => {
  const out: Record<string, Value> = {}
  for (const [name, value] of Object.entries(facts)) {
    if (value !== undefined && value !== null && value !== "") out[`langfuse.observation.metadata.${name}`] = json(value)
  }
  return out
}
