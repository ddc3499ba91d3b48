/**
 * Steps that are common to trajectories built from runs and from streams. Both converters provide the facts, and this
 * module builds the steps from them.
 *
 * Source: `relay-atof-atif.md` §2.3, §2.4 and §2.9.
 */
import type * as Schema from "effect/Schema"
import type * as Atif from "../Atif.ts"
import * as Draft from "./Draft.ts"
import { extractContext } from "./RunContent.ts"

/** Creates a system step with facts about it. */
export const makeSystemStep = (
  message: Atif.Content,
  timestamp: string | undefined,
  extra: Draft.Extra = {}
): Draft.Step => Draft.makeStep({ source: "system", message, timestamp, extra })

/** Creates the step of a rewritten context. `content` is the whole context after the rewrite. */
export const makeCompactionStep = (
  content: Atif.Content,
  timestamp: string | undefined,
  facts: Draft.Extra = {}
): Draft.Step =>
  Draft.makeStep({
    source: "system",
    message: "",
    timestamp,
    results: [{ callId: undefined, content, children: [], extra: {} }],
    extra: { ...facts, context_management: { type: "compaction", boundary: "replace" } }
  })

/** Creates the step of a message that the runtime sent but no session stores: a nudge, or context added by plugins. */
export const makeInjectionStep = (content: Atif.Content, timestamp: string | undefined): Draft.Step => {
  const context = extractContext(content)
  return makeSystemStep(context ?? content, timestamp, {
    origin: "runtime",
    stored: false,
    ...(context === undefined ? {} : { context_management: { type: "injection", boundary: "append" } })
  })
}

/** Creates the step of a child that was not started by a call. */
export const makeSubagentStep = (child: Draft.Draft, timestamp: string | undefined): Draft.Step =>
  Draft.makeStep({
    source: "system",
    message: "",
    timestamp,
    results: [{ callId: undefined, content: undefined, children: [child], extra: {} }],
    extra: { event: "subagent" }
  })

/** Creates the step of a model call without an answer. `reason` is absent if the call was interrupted. */
export const makeUnansweredStep = (
  reason: string | undefined,
  timestamp: string | undefined,
  extra: Draft.Extra
): Draft.Step =>
  makeSystemStep(
    reason === undefined
      ? "The model call was interrupted before an answer."
      : `The model could not be asked: ${reason}`,
    timestamp,
    extra
  )

/** Facts about an agent step. */
export interface AgentFacts {
  readonly model: string | undefined
  readonly effort?: string | undefined
  readonly reasoning: string | undefined
  readonly metrics?: Atif.Metrics | undefined
  /** Number of model calls; absent if the answer's calls are unknown. */
  readonly modelCalls: number | undefined
}

/** Builds the fields of an agent step. */
export const buildAgentFields = ({
  effort,
  metrics,
  model,
  modelCalls,
  reasoning
}: AgentFacts): Draft.Step["rest"] => ({
  ...(model === undefined ? {} : { model_name: model }),
  ...(effort === undefined ? {} : { reasoning_effort: effort }),
  ...(reasoning === undefined ? {} : { reasoning_content: reasoning }),
  ...(metrics === undefined ? {} : { metrics }),
  ...(modelCalls === undefined ? {} : { llm_call_count: modelCalls })
})

type CountName = "cached_tokens" | "completion_tokens" | "cost_usd" | "prompt_tokens"

const sumCounts = (all: ReadonlyArray<Atif.Metrics>, name: CountName): { readonly [key: string]: number } => {
  const known = all.flatMap((one) => one[name] ?? [])
  return known.length === 0 ? {} : { [name]: known.reduce((a, b) => a + b, 0) }
}

/** Adds up the metrics of several calls. Other fields come from the first call. */
export const sumMetrics = (all: ReadonlyArray<Atif.Metrics>): Atif.Metrics | undefined => {
  const [first] = all
  if (first === undefined || all.length === 1) return first
  return {
    ...first,
    ...sumCounts(all, "prompt_tokens"),
    ...sumCounts(all, "completion_tokens"),
    ...sumCounts(all, "cached_tokens"),
    ...sumCounts(all, "cost_usd")
  }
}

/** Returns facts about failed attempts before an answer, if there were any. */
export const describeRetries = (failures: ReadonlyArray<Schema.Json>): Draft.Extra =>
  failures.length === 0 ? {} : { retries: failures }
