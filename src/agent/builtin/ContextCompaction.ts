/**
 * Decides when the conversation of a run is compacted and which messages stay: the lifecycle document's options for the
 * runtime's engine (`Compaction`).
 *
 * **Details**
 *
 * | parameter | default | |
 * | --- | --- | --- |
 * | `maxContextTokens` | the model's | context window of the model in tokens |
 * | `autoCompact` | true | if false, the conversation is never compacted, even if a provider rejects it because of its size |
 * | `emergencyCompactEnabled` | true | if false, the run ends when a provider rejects the conversation because of its size |
 * | `trigger`, `threshold` | `token_threshold`, 0.75 | compacts when this share of the window is used |
 * | `trigger`, `gapThresholdMinutes` | `time_based`, 5 | compacts if the last answer is at least this many minutes old, so that the cache has expired |
 * | `compactionStrategy` | `tool_result_compaction` | shortens old tool results to one line; `llm_summary` writes a summary |
 * | `keepIterations` | 3 | newest answers that stay, with their results and the user's messages before them |
 * | `keepUserRounds` | 0 | if above 0, this many user messages stay with their answers, instead of iterations |
 * | `compactableTools` | all | tools whose results are shortened; an empty list selects no tools |
 * | `summaryLlmConfig` | the task `compression` | model for summaries: `model`, `base_url`, `api_key`, `api_type` |
 * | `summaryModel`, `summaryBaseUrl`, `summaryApiKey`, `summaryApiType` | none | values for keys that `summaryLlmConfig` does not set |
 * | `compactPromptPath` | the engine's instructions | file with the instructions for the summary |
 * | `retryAttempts` | 3 | maximum number of attempts to get a summary |
 * | `saveHistory` | true | has no effect: the stored session always stays complete |
 *
 * `sliding_window` is an old name for `llm_summary`. At least one parameter must be given. Two entries can be layered:
 * a cheap time-based entry before an entry with summaries. With such an entry in the stack, the runtime's own
 * `compression.threshold` has no effect.
 *
 * **Gotchas**
 *
 * A window of unknown size never triggers compaction. Before the first answer of a run the decision uses an estimate of
 * the tokens, afterwards the provider's count. Only the process that received the last answer knows the age of the
 * answer. If no summary can be made, the conversation stays unchanged.
 *
 * **Example** (Summaries when two thirds of the window are used)
 *
 * ```ts
 * import { ContextCompaction } from "hermes-effect/middleware"
 *
 * export const compaction = ContextCompaction.make({
 *   threshold: 0.66,
 *   compactionStrategy: "llm_summary",
 *   keepIterations: 4
 * })
 * ```
 *
 * Source: the lifecycle document, `nexau.md` §4.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Predicate from "effect/Predicate"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { apiTypes } from "../../base/domain/ApiMode.ts"
import type { CompactionPlan, SummaryModel } from "../../base/domain/CompactionPlan.ts"
import type { SessionId } from "../../base/domain/Ids.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import * as ChildProcesses from "../../base/platform/ChildProcesses.ts"
import * as Split from "../../tools/prompt/compaction/Split.ts"
import * as Parameters from "./Parameters.ts"

const id = "context-compaction"

const Key = Schema.Union([Schema.String, Schema.Redacted(Schema.String)])

const Options = Schema.Struct({
  maxContextTokens: Schema.optional(Schema.NullOr(Parameters.Positive)),
  autoCompact: Schema.optional(Schema.Boolean),
  emergencyCompactEnabled: Schema.optional(Schema.Boolean),
  threshold: Schema.optional(Schema.Finite.check(Schema.isBetween({ minimum: 0, maximum: 1, exclusiveMinimum: true }))),
  trigger: Schema.optional(Schema.Literals(["token_threshold", "time_based"])),
  gapThresholdMinutes: Schema.optional(Schema.Finite.check(Schema.isGreaterThan(0))),
  compactionStrategy: Schema.optional(Schema.Literals(["tool_result_compaction", "llm_summary", "sliding_window"])),
  keepIterations: Schema.optional(Parameters.Positive),
  keepUserRounds: Schema.optional(Parameters.NotNegative),
  compactableTools: Schema.optional(Schema.NullOr(Schema.Array(Schema.String))),
  summaryLlmConfig: Schema.optional(Schema.NullOr(Schema.Record(Schema.String, Schema.Unknown))),
  summaryModel: Schema.optional(Schema.NullOr(Schema.String)),
  summaryBaseUrl: Schema.optional(Schema.NullOr(Schema.String)),
  summaryApiKey: Schema.optional(Schema.NullOr(Key)),
  summaryApiType: Schema.optional(Schema.NullOr(Schema.String)),
  compactPromptPath: Schema.optional(Schema.NullOr(Schema.String)),
  retryAttempts: Schema.optional(Parameters.Positive),
  saveHistory: Schema.optional(Schema.Boolean)
})

/** Options of the middleware; see the table above. */
export type Options = typeof Options.Type

const failParameter = (name: string, message: string) =>
  Result.fail(new ConfigError({ path: `${id}.${name}`, message: `${id}.${name}: ${message}` }))

const readText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim() : undefined

/**
 * Reads the values of the summary model. A key of the nested form, in either spelling, takes precedence over the flat
 * form.
 */
const readSummaryFields = (options: Options) => {
  const config = options.summaryLlmConfig ?? {}
  const apiKey: unknown = config["api_key"] ?? config["apiKey"] ?? options.summaryApiKey
  return {
    model: readText(config["model"]) ?? readText(options.summaryModel),
    baseUrl: readText(config["base_url"] ?? config["baseUrl"]) ?? readText(options.summaryBaseUrl),
    apiKey: Redacted.isRedacted(apiKey) ? readText(Redacted.value(apiKey)) : readText(apiKey),
    apiType: readText(config["api_type"] ?? config["apiType"]) ?? readText(options.summaryApiType)
  }
}

const readSummaryModel = (options: Options): Result.Result<SummaryModel | undefined, ConfigError> => {
  const config = options.summaryLlmConfig
  const unknown = Object.keys(config ?? {}).find(
    (key) => !["model", "base_url", "baseUrl", "api_key", "apiKey", "api_type", "apiType"].includes(key)
  )
  if (unknown !== undefined)
    return failParameter("summaryLlmConfig", `unknown key ${unknown}: use model, base_url, api_key and api_type`)
  const { apiKey, apiType, baseUrl, model } = readSummaryFields(options)
  if (Predicate.isNullish(config) && [model, baseUrl, apiKey, apiType].every(Predicate.isUndefined))
    return Result.succeed(undefined)
  const missing = [
    model === undefined ? "model" : "",
    baseUrl === undefined ? "base_url" : "",
    apiKey === undefined ? "api_key" : ""
  ].filter((name) => name !== "")
  if (model === undefined || baseUrl === undefined || apiKey === undefined) {
    return failParameter(
      "summaryLlmConfig",
      `${missing.join(", ")} missing: nothing is inherited, so set model, base_url and api_key`
    )
  }
  const apiMode = apiTypes[apiType ?? "openai_chat_completion"]
  return apiMode === undefined
    ? failParameter("summaryLlmConfig", `unknown api_type: use one of ${Object.keys(apiTypes).join(", ")}`)
    : Result.succeed({ model, baseUrl, apiKey: Redacted.make(apiKey), apiMode })
}

/** Maximum number of sessions whose last answer time is stored. */
const maxSessions = 1_000

const toCompactionPlan = (options: Options, summaryModel: SummaryModel | undefined): CompactionPlan => {
  const { keepIterations = 3, keepUserRounds = 0 } = options
  return {
    strategy:
      options.compactionStrategy === undefined || options.compactionStrategy === "tool_result_compaction"
        ? "tool_result_compaction"
        : "llm_summary",
    keep:
      keepUserRounds > 0 ? { unit: "user_round", count: keepUserRounds } : { unit: "iteration", count: keepIterations },
    compactableTools: options.compactableTools ?? undefined,
    summaryModel,
    attempts: options.retryAttempts ?? 3,
    window: options.maxContextTokens ?? undefined
  }
}

const buildMiddleware = (options: Options, summaryModel: SummaryModel | undefined): Middleware.LifecycleMiddleware => {
  const {
    autoCompact = true,
    compactPromptPath,
    emergencyCompactEnabled = true,
    gapThresholdMinutes = 5,
    threshold = 0.75,
    trigger = "token_threshold"
  } = options
  const answeredAt = new Map<SessionId, number>()
  const plan = toCompactionPlan(options, summaryModel)
  let prompt: string | undefined
  const withPrompt = (path: string | null | undefined): Effect.Effect<CompactionPlan> =>
    path === null || path === undefined
      ? Effect.succeed(plan)
      : Effect.map(
          prompt === undefined
            ? Effect.flatMap(FileSystem.FileSystem, (fs) => fs.readFileString(path))
            : Effect.succeed(prompt),
          (read) => ({ ...plan, prompt: (prompt = read) })
        ).pipe(
          Effect.catch((error) =>
            Effect.as(
              Effect.logWarning(`${path} cannot be read, so the engine's own instructions are used: ${error.message}`),
              plan
            )
          ),
          Effect.provide(ChildProcesses.layerDefault())
        )

  const isFull = Effect.fnUntraced(function* (input: Middleware.BeforeModelInput) {
    const window = plan.window ?? (yield* input.contextWindow)
    // The conversation is only measured before the first answer.
    return (
      window !== undefined && (input.promptTokens ?? Split.estimateTotalTokens(input.messages)) / window >= threshold
    )
  })

  const isOld = ({ run }: Middleware.BeforeModelInput) =>
    Effect.map(Clock.currentTimeMillis, (now) => {
      const last = answeredAt.get(run.sessionId)
      return last !== undefined && now - last >= gapThresholdMinutes * 60_000
    })

  const entry = Middleware.lifecycle({
    name: "ContextCompaction",
    beforeModel: (input) =>
      Effect.gen(function* () {
        const fires = autoCompact && (yield* trigger === "time_based" ? isOld(input) : isFull(input))
        return fires
          ? Middleware.withModifications({ compaction: [...input.compaction, yield* withPrompt(compactPromptPath)] })
          : Middleware.noChanges
      }),
    ...(trigger === "time_based"
      ? {
          afterModel: ({ run }: Middleware.AfterModelInput) =>
            Effect.map(Clock.currentTimeMillis, (now) => {
              answeredAt.delete(run.sessionId)
              answeredAt.set(run.sessionId, now)
              const [oldest] = answeredAt.keys()
              if (answeredAt.size > maxSessions && oldest !== undefined) answeredAt.delete(oldest)
              return Middleware.noChanges
            })
        }
      : {})
  })
  return Middleware.lifecycleUndeclared({
    ...entry.run,
    compaction: { whenRefused: autoCompact && emergencyCompactEnabled }
  })
}

/** Creates the middleware from unvalidated parameters. */
export const fromUnknown = (parameters: unknown): Result.Result<Middleware.LifecycleMiddleware, ConfigError> =>
  Result.flatMap(Parameters.read(id, Options, parameters), (options) => {
    const { keepIterations = 3, keepUserRounds = 0, saveHistory } = options
    if (Object.values(options).every((value) => value === undefined)) {
      return Result.fail(
        new ConfigError({
          path: id,
          message: `${id}: give at least one parameter, such as max_context_tokens or threshold`
        })
      )
    }
    if (keepUserRounds > 0 && keepIterations !== 3)
      return failParameter("keepUserRounds", "not together with keep_iterations: remove one of them")
    if (saveHistory === false)
      return failParameter("saveHistory", "the stored session always contains omitted messages: remove it")
    return Result.map(readSummaryModel(options), (summaryModel) => buildMiddleware(options, summaryModel))
  })

/** Creates the middleware. Throws a `ConfigError` if a parameter is invalid. */
export const make = (options: Options): Middleware.LifecycleMiddleware => Result.getOrThrow(fromUnknown(options))
