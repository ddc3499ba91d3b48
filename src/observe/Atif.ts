/**
 * Schemas of every object in a document of the Agent Trajectory Interchange Format, version 1.7. The rules that relate
 * objects to each other are in `AtifCheck`.
 *
 * **Details**
 *
 * Objects have known keys; other programs put their fields under `extra`. Decoding preserves every field, so nothing is
 * lost if a document is read and written again. Versions 1.0 to 1.7 can be read; 1.7 is written. {@link decodeLater}
 * reads the supported parts of a later version.
 *
 * **Example** (Reading a trajectory)
 *
 * ```ts
 * import * as Result from "effect/Result"
 * import { Atif } from "hermes-effect/observability"
 *
 * const read = Atif.decode({
 *   schema_version: Atif.version,
 *   session_id: "s1",
 *   agent: { name: "hermes", version: "0.1.0" },
 *   steps: [{ step_id: 1, source: "user", message: "Hello" }]
 * })
 *
 * console.log(Result.isSuccess(read) && read.success.steps.length)
 * // => 1
 * ```
 *
 * Source: `relay-atof-atif.md` §2.
 */
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"

/** Format version of the documents that this module writes. */
export const version = "ATIF-v1.7"

const Extra = Schema.optionalKey(Schema.NullOr(Schema.Record(Schema.String, Schema.Json)))
const Text = Schema.optionalKey(Schema.NullOr(Schema.String))
const Count = Schema.optionalKey(Schema.NullOr(Schema.Natural))
const Cost = Schema.optionalKey(Schema.NullOr(Schema.Finite))
const Name = Schema.String.check(Schema.isNonEmpty())

/** Source of an image: a path relative to the document, or a URL. */
export const ImageSource = Schema.Struct({
  media_type: Schema.Literals(["image/jpeg", "image/png", "image/gif", "image/webp"]),
  path: Name
})

/** One part of a multimodal message: text or an image. */
export const ContentPart = Schema.Union([
  Schema.Struct({ type: Schema.Literal("text"), text: Schema.String }),
  Schema.Struct({ type: Schema.Literal("image"), source: ImageSource })
])
/** See {@link ContentPart}. */
export type ContentPart = typeof ContentPart.Type

/** Content of a message: a string or a list of parts. */
export const Content = Schema.Union([Schema.String, Schema.Array(ContentPart)])
/** See {@link Content}. */
export type Content = typeof Content.Type

/** A tool call. */
export const ToolCall = Schema.Struct({
  tool_call_id: Name,
  function_name: Schema.String,
  arguments: Schema.Record(Schema.String, Schema.Json),
  extra: Extra
})
/** See {@link ToolCall}. */
export type ToolCall = typeof ToolCall.Type

/** Reference to the trajectory of a child agent. */
export const SubagentRef = Schema.Struct({
  trajectory_id: Text,
  trajectory_path: Text,
  session_id: Text,
  extra: Extra
}).check(
  Schema.makeFilter((ref) =>
    ref.trajectory_id || ref.trajectory_path ? undefined : "a ref needs trajectory_id or trajectory_path"
  )
)
/** See {@link SubagentRef}. */
export type SubagentRef = typeof SubagentRef.Type

/** Result of a tool call. */
export const ObservationResult = Schema.Struct({
  source_call_id: Text,
  content: Schema.optionalKey(Schema.NullOr(Content)),
  subagent_trajectory_ref: Schema.optionalKey(Schema.NullOr(Schema.Array(SubagentRef))),
  extra: Extra
})
/** See {@link ObservationResult}. */
export type ObservationResult = typeof ObservationResult.Type

/** Tool results of a step. */
export const Observation = Schema.Struct({ results: Schema.Array(ObservationResult) })

/** Metrics of a model call. `prompt_tokens` includes `cached_tokens`. */
export const Metrics = Schema.Struct({
  prompt_tokens: Count,
  completion_tokens: Count,
  cached_tokens: Count,
  cost_usd: Cost,
  prompt_token_ids: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Int))),
  completion_token_ids: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Int))),
  logprobs: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Finite))),
  extra: Extra
})
/** See {@link Metrics}. */
export type Metrics = typeof Metrics.Type

const calendar = /^\d{4}-\d\d-\d\d([T ]\d\d:\d\d(:\d\d([.,]\d+)?)?(Z|[+-]\d\d(:?\d\d)?)?)?$/u

/**
 * ISO 8601 timestamp. A date without a time and a time without an offset are allowed, but `AtifCheck` warns about them.
 */
export const Timestamp = Schema.String.check(
  Schema.makeFilter((text: string) =>
    calendar.test(text) && !Number.isNaN(Date.parse(text.slice(0, 10))) ? undefined : "an ISO 8601 time"
  )
)

/** One turn of the system, the user or the agent. */
export const Step = Schema.Struct({
  step_id: Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)),
  timestamp: Schema.optionalKey(Schema.NullOr(Timestamp)),
  source: Schema.Literals(["system", "user", "agent"]),
  message: Content,
  model_name: Text,
  reasoning_effort: Schema.optionalKey(Schema.NullOr(Schema.Union([Schema.String, Schema.Finite]))),
  reasoning_content: Text,
  tool_calls: Schema.optionalKey(Schema.NullOr(Schema.Array(ToolCall))),
  observation: Schema.optionalKey(Schema.NullOr(Observation)),
  metrics: Schema.optionalKey(Schema.NullOr(Metrics)),
  llm_call_count: Count,
  is_copied_context: Schema.optionalKey(Schema.NullOr(Schema.Boolean)),
  extra: Extra
})
/** See {@link Step}. */
export type Step = typeof Step.Type

/** Identity of the agent. */
export const Agent = Schema.Struct({
  name: Name,
  version: Name,
  model_name: Text,
  tool_definitions: Schema.optionalKey(Schema.NullOr(Schema.Array(Schema.Record(Schema.String, Schema.Json)))),
  extra: Extra
})
/** See {@link Agent}. */
export type Agent = typeof Agent.Type

/** Totals of a trajectory. */
export const FinalMetrics = Schema.Struct({
  total_prompt_tokens: Count,
  total_completion_tokens: Count,
  total_cached_tokens: Count,
  total_cost_usd: Cost,
  total_steps: Count,
  extra: Extra
})
/** See {@link FinalMetrics}. */
export type FinalMetrics = typeof FinalMetrics.Type

/** A complete document, or the trajectory of a child agent that is embedded in a document. */
export interface Trajectory {
  readonly schema_version: (typeof versions)[number]
  readonly session_id?: string | null
  readonly trajectory_id?: string | null
  readonly agent: Agent
  readonly steps: ReadonlyArray<Step>
  readonly notes?: string | null
  readonly final_metrics?: FinalMetrics | null
  readonly continued_trajectory_ref?: string | null
  readonly extra?: { readonly [key: string]: Schema.Json } | null
  readonly subagent_trajectories?: ReadonlyArray<Trajectory> | null
}

/** Format versions that can be read. */
export const versions = [
  "ATIF-v1.0",
  "ATIF-v1.1",
  "ATIF-v1.2",
  "ATIF-v1.3",
  "ATIF-v1.4",
  "ATIF-v1.5",
  "ATIF-v1.6",
  "ATIF-v1.7"
] as const

/** See {@link Trajectory}. */
export const Trajectory: Schema.Codec<Trajectory> = Schema.Struct({
  schema_version: Schema.Literals(versions),
  session_id: Text,
  trajectory_id: Text,
  agent: Agent,
  steps: Schema.Array(Step).check(Schema.isMinLength(1)),
  notes: Text,
  final_metrics: Schema.optionalKey(Schema.NullOr(FinalMetrics)),
  continued_trajectory_ref: Text,
  extra: Extra,
  subagent_trajectories: Schema.optionalKey(
    Schema.NullOr(Schema.Array(Schema.suspend((): Schema.Codec<Trajectory> => Trajectory)))
  )
})

const decodeKnown = Schema.decodeUnknownResult(Trajectory, { onExcessProperty: "ignore", errors: "all" })

/**
 * Decodes a JSON value to a document and preserves fields added by other programs. Fails with all structural errors.
 */
export const decodeForeign = (value: unknown): ReturnType<typeof decodeKnown> =>
  // Decoding only drops unknown keys, so the original value is returned.
  Result.map(decodeKnown(value), () => value as Trajectory)

/** A document of a later version, limited to the parts that this version can read. */
export interface LaterTrajectory {
  readonly version: string
  readonly trajectory: Trajectory
  /** Number of steps that were left out because this version cannot read them. */
  readonly unread: number
}

const isStep = Schema.is(Step)

const isLater = (version: unknown): version is string =>
  typeof version === "string" && /^ATIF-v\d+\.\d+$/u.test(version) && !versions.some((one) => one === version)

/**
 * Reads a document of a later version and leaves out the steps that it cannot read. Returns `undefined` for any other
 * value.
 */
export const decodeLater = (value: unknown): LaterTrajectory | undefined => {
  let unread = 0
  const dropUnreadableSteps = (one: unknown): unknown => {
    if (!Predicate.isObject(one)) return one
    const {
      schema_version: given,
      steps,
      subagent_trajectories: children
    }: { readonly [name: string]: unknown } = { ...one }
    const known: ReadonlyArray<unknown> = Array.isArray(steps) ? steps.filter(isStep) : []
    unread += Array.isArray(steps) ? steps.length - known.length : 0
    return {
      ...one,
      ...(isLater(given) ? { schema_version: version } : {}),
      steps: known,
      ...(Array.isArray(children) ? { subagent_trajectories: children.map(dropUnreadableSteps) } : {})
    }
  }
  const given = Predicate.isObject(value) ? { schema_version: undefined, ...value }.schema_version : undefined
  if (!isLater(given)) return undefined
  const decoded = decodeForeign(dropUnreadableSteps(value))
  return Result.isSuccess(decoded) ? { version: given, trajectory: decoded.success, unread } : undefined
}

/** Decodes a JSON value to a document, or fails with all structural errors. */
export const decode = Schema.decodeUnknownResult(Trajectory, { onExcessProperty: "error", errors: "all" })
