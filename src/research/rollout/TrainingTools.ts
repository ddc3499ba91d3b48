/**
 * The toolset `rl`: ten tools for a training agent, which use the {@link TrainingService} in the context.
 *
 * **Details**
 *
 * Each session has its own selected environment and configuration. The status of a run is reported once every 30
 * minutes. An earlier request returns only the time of the next report.
 *
 * **Example** (The tools of a training agent)
 *
 * ```ts
 * import { TrainingTools } from "hermes-effect/rollouts"
 *
 * console.log(TrainingTools.toolset.tools.length)
 * // => 10
 * ```
 *
 * Source: `hermes-product.md` §5.5.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Problem from "../../tools/builtin/file/Problem.ts"
import { ToolContext } from "../../tools/ToolContext.ts"
import * as Toolset from "../../tools/Toolset.ts"
import { statusIntervalMillis } from "./RolloutSettings.ts"
import {
  makeDefaultConfig,
  TrainingConfig,
  type TrainingError,
  type TrainingRun,
  TrainingService
} from "./TrainingService.ts"

/** Configuration fields that a call may change. Absent fields remain unchanged. */
const edits = Schema.Struct({
  total_steps: Schema.optionalKey(TrainingConfig.fields.total_steps),
  group_size: Schema.optionalKey(TrainingConfig.fields.group_size),
  max_agent_turns: Schema.optionalKey(TrainingConfig.fields.max_agent_turns),
  temperature: Schema.optionalKey(TrainingConfig.fields.temperature),
  steps_per_eval: Schema.optionalKey(TrainingConfig.fields.steps_per_eval)
})

const Result = Schema.Record(Schema.String, Schema.Json)

const runId = Schema.Struct({
  run_id: Schema.String.annotate({ description: "Id of the run, from rl_start_training or rl_list_runs" })
})

const makeTool = <const Name extends string, Fields extends Schema.Struct.Fields>(
  name: Name,
  description: string,
  parameters: Schema.Struct<Fields>
) =>
  Tool.make(name, {
    description,
    parameters,
    success: Result,
    failure: Problem.Failure,
    failureMode: "return",
    dependencies: [ToolContext]
  })

/** Makes a tool that only reads. */
const makeReadTool = <const Name extends string, Fields extends Schema.Struct.Fields>(
  name: Name,
  description: string,
  parameters: Schema.Struct<Fields>
) => makeTool(name, description, parameters).annotate(Tool.Readonly, true).annotate(Tool.Destructive, false)

/** Makes a tool that changes the state of this session, or stops a run that this session started. */
const makeChangeTool = <const Name extends string, Fields extends Schema.Struct.Fields>(
  name: Name,
  description: string,
  parameters: Schema.Struct<Fields>
) => makeTool(name, description, parameters).annotate(Tool.Readonly, false).annotate(Tool.Destructive, false)

const none = Schema.Struct({})

const toolkit = Toolkit.make(
  makeReadTool("rl_list_environments", "Lists the environments that can be trained on.", none),
  makeChangeTool(
    "rl_select_environment",
    "Selects an environment by its name, with the configuration of a small run.",
    Schema.Struct({ name: Schema.NonEmptyString })
  ),
  makeReadTool("rl_get_current_config", "Shows the selected environment and its configuration.", none),
  makeChangeTool(
    "rl_edit_config",
    "Changes the configuration of the selected environment; fields that are left out stay.",
    edits
  ),
  makeChangeTool(
    "rl_test_inference",
    "Rolls out a few items of the selected environment without training, and returns their rewards. " +
      "Use it before every start.",
    none
  ),
  makeChangeTool(
    "rl_start_training",
    "Starts a training run of the selected environment in the background, and returns its run_id.",
    none
  ),
  makeReadTool(
    "rl_check_status",
    "Shows the state of a training run. It answers once in 30 minutes for each run: do other work in between.",
    runId
  ),
  makeChangeTool("rl_stop_training", "Stops a training run and keeps its records.", runId),
  makeReadTool("rl_get_results", "Shows the rewards of all steps of a training run, and its evaluation.", runId),
  makeReadTool("rl_list_runs", "Lists the training runs of this program.", none)
)

const toJsonResult = (value: object): Effect.Effect<typeof Result.Type> =>
  // The fields are numbers, strings, and lists of numbers or strings. Fields that are `undefined` are removed.
  Effect.sync(() => JSON.parse(JSON.stringify(value)) as typeof Result.Type)

const toProblem = <A>(effect: Effect.Effect<A, TrainingError>) =>
  Effect.catch(effect, ({ message }) => Problem.fail(message))

const handlers = toolkit.toLayer(
  Effect.gen(function* () {
    const service = yield* TrainingService
    const configs = new Map<string, TrainingConfig>()
    const checked = new Map<string, number>()
    const session = Effect.map(ToolContext, ({ sessionId }): string => sessionId)
    const selected = Effect.flatMap(session, (id) => {
      const config = configs.get(id)
      return config === undefined
        ? Problem.fail("no environment is selected", { hint: "call rl_list_environments, then rl_select_environment" })
        : Effect.succeed(config)
    })
    const addNotice = (value: object) =>
      toJsonResult({ ...value, ...(service.notice === "" ? {} : { notice: service.notice }) })
    const storeConfig = (config: TrainingConfig) =>
      Effect.flatMap(session, (id) => {
        configs.set(id, config)
        return toJsonResult({ config })
      })
    const renderRun = ({ run_id: id, ...run }: TrainingRun, now: number) => {
      checked.set(id, now)
      return addNotice({ run_id: id, ...run })
    }
    return {
      rl_list_environments: () =>
        Effect.flatMap(toProblem(service.environments), (environments) => toJsonResult({ environments })).pipe(
          Problem.mapToFailure
        ),
      rl_select_environment: ({ name }: { readonly name: string }) =>
        Effect.flatMap(toProblem(service.environments), (known) =>
          known.some((one) => one.name === name)
            ? storeConfig(makeDefaultConfig(name))
            : Problem.fail(`there is no environment "${name}"`, {
                hint: `there are ${known.map((one) => one.name).join(", ")}`
              })
        ).pipe(Problem.mapToFailure),
      rl_get_current_config: () =>
        Effect.flatMap(selected, (config) => toJsonResult({ config })).pipe(Problem.mapToFailure),
      rl_edit_config: (given: typeof edits.Type) =>
        Effect.flatMap(selected, (config) => storeConfig({ ...config, ...given })).pipe(Problem.mapToFailure),
      rl_test_inference: () =>
        Effect.flatMap(
          Effect.flatMap(selected, (config) => toProblem(service.test(config))),
          (summary) => addNotice(summary)
        ).pipe(Problem.mapToFailure),
      rl_start_training: () =>
        Effect.flatMap(
          Effect.flatMap(selected, (config) => toProblem(service.start(config))),
          (run) => addNotice(run)
        ).pipe(Problem.mapToFailure),
      rl_check_status: ({ run_id: id }: typeof runId.Type) =>
        Effect.flatMap(Clock.currentTimeMillis, (now) => {
          const next = (checked.get(id) ?? Number.NEGATIVE_INFINITY) + statusIntervalMillis
          return next > now
            ? toJsonResult({
                run_id: id,
                checked: false,
                next_check_in_seconds: Math.ceil((next - now) / 1_000),
                hint: "the status is told once in 30 minutes: do other work until then"
              })
            : Effect.flatMap(toProblem(service.status(id)), (run) => renderRun(run, now))
        }).pipe(Problem.mapToFailure),
      rl_stop_training: ({ run_id: id }: typeof runId.Type) =>
        Effect.flatMap(toProblem(service.stop(id)), (run) => toJsonResult(run)).pipe(Problem.mapToFailure),
      rl_get_results: ({ run_id: id }: typeof runId.Type) =>
        Effect.flatMap(toProblem(service.results(id)), (results) => addNotice(results)).pipe(Problem.mapToFailure),
      rl_list_runs: () =>
        Effect.flatMap(service.runs, (runs) =>
          toJsonResult({
            runs: runs.map(({ environment, run_id: id, status }) => ({ run_id: id, environment, status }))
          })
        ).pipe(Problem.mapToFailure)
    }
  })
)

/** The toolset `rl`. */
export const toolset = Toolset.make("rl", toolkit, handlers)
