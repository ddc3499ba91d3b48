/**
 * Outcomes of attempts at tasks: passed, failed, or the kind of failure that left no result. Pure.
 *
 * **Details**
 *
 * | kind | an attempt with this outcome |
 * | --- | --- |
 * | `passed` | passed its scorers or tests |
 * | `failed` | has a result that did not pass |
 * | `model_failure` | did not pass because a model gave no answer, or an empty, cut or refused one |
 * | `limit` | reached a limit of the run on time, tokens, cost or model calls |
 * | `infrastructure` | failed outside the model: workspace, sandbox, image, store, settings or scorer |
 * | `not_run` | was not started, or did not end |
 *
 * Every kind counts in a rate. Failures of the infrastructure are reported apart, because they say nothing about a
 * model, and so is the rate without them.
 *
 * **Example** (The rate of three attempts)
 *
 * ```ts
 * import { Outcome } from "hermes-effect/batch"
 *
 * const { rate, rateWithoutInfrastructure } = Outcome.summarizeKinds(["passed", "model_failure", "infrastructure"])
 * console.log(rate.toFixed(2), rateWithoutInfrastructure?.toFixed(2))
 * // => 0.33 0.50
 * ```
 */
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import type { Exit } from "../../base/domain/RunEvent.ts"

/** Kinds of outcomes. */
export const kinds = ["passed", "failed", "model_failure", "limit", "infrastructure", "not_run"] as const
/** See {@link kinds}. */
export type Kind = (typeof kinds)[number]

/** Number of outcomes of each kind. */
export type Counts = Readonly<Record<Kind, number>>

/** Outcomes of a number of attempts. */
export interface Summary {
  readonly counts: Counts
  readonly total: number
  /** Share of all attempts that passed, or 0 without an attempt. */
  readonly rate: number
  /** The same share of the attempts without a failure of the infrastructure, or `undefined` if none is left. */
  readonly rateWithoutInfrastructure: number | undefined
}

/** Parses a kind. Returns `undefined` for any other value. */
export const parseKind = (value: unknown): Kind | undefined => kinds.find((kind) => kind === value)

/** Formats a kind for display. */
export const formatKind = (kind: Kind): string => kind.replaceAll("_", " ")

/** Failure of an attempt in another process, which reported its kind. */
export class ReportedFailure extends Schema.TaggedError<ReportedFailure>("hermes-effect/ReportedFailure")(
  "ReportedFailure",
  {
    message: Schema.String,
    kind: Schema.Literals(kinds),
    /** True if another attempt may succeed. */
    isPassing: Schema.Boolean,
    /** Row with the work done before the failure, if there is any. */
    fields: Schema.optionalKey(Schema.Record(Schema.String, Schema.Unknown))
  }
) {}

const modelFailures: ReadonlySet<string> = new Set(["CompressionExhausted", "InvalidOutput"])

/** Returns the kind of an attempt that ended with an error. A defect is a failure of the infrastructure. */
export const classifyFailure = (error: unknown): Kind => {
  if (error instanceof ReportedFailure) return error.kind
  if (AiError.isAiError(error)) return "model_failure"
  const tag = typeof error === "object" && error !== null && "_tag" in error ? String(error._tag) : ""
  if (tag === "RowTimeout") return "limit"
  return modelFailures.has(tag) ? "model_failure" : "infrastructure"
}

const exitKinds: Readonly<Partial<Record<Exit, Kind>>> = {
  max_iterations_reached: "limit",
  budget_exhausted: "limit",
  empty_response_exhausted: "model_failure",
  output_truncated: "model_failure",
  partial_stream_recovery: "model_failure",
  invalid_tool_calls: "model_failure",
  content_filtered: "model_failure",
  interrupted_by_user: "not_run",
  suspended: "not_run"
}

const isExit = (exit: string): exit is Extract<keyof typeof exitKinds, string> => Object.hasOwn(exitKinds, exit)

/** Returns the kind of an attempt with a result, from its verdict and the exit of its run. */
export const classifyResult = ({ exit, passed }: { readonly passed: boolean; readonly exit: string }): Kind =>
  passed ? "passed" : ((isExit(exit) ? exitKinds[exit] : undefined) ?? "failed")

/** Counts outcomes, and computes their rates. */
export const summarizeKinds = (outcomes: ReadonlyArray<Kind>): Summary => {
  const countKind = (kind: Kind): number => outcomes.filter((one) => one === kind).length
  const counts: Counts = {
    passed: countKind("passed"),
    failed: countKind("failed"),
    model_failure: countKind("model_failure"),
    limit: countKind("limit"),
    infrastructure: countKind("infrastructure"),
    not_run: countKind("not_run")
  }
  const judged = outcomes.length - counts.infrastructure
  return {
    counts,
    total: outcomes.length,
    rate: outcomes.length === 0 ? 0 : counts.passed / outcomes.length,
    rateWithoutInfrastructure: judged === 0 ? undefined : counts.passed / judged
  }
}

/** Describes the outcomes that are not results, such as `2 model failure, 1 limit`. Empty for results alone. */
export const describeFailures = ({ counts }: Pick<Summary, "counts">): string =>
  (["model_failure", "limit", "infrastructure", "not_run"] as const)
    .flatMap((kind) => (counts[kind] === 0 ? [] : [`${counts[kind]} ${formatKind(kind)}`]))
    .join(", ")
