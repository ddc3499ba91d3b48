/**
 * Action of `hermes swe evaluate`: scores patches without calling a model.
 *
 * Source: `hermes-product.md` §5.3.
 */
import * as Effect from "effect/Effect"
import * as Json from "../../base/domain/Json.ts"
import { CommandEnvironment } from "../../places/CommandEnvironment.ts"
import * as SweEvaluation from "../../research/swe/SweEvaluation.ts"
import * as SwePool from "../../research/swe/SwePool.ts"
import type * as SweTask from "../../research/swe/SweTask.ts"
import * as TestReport from "../../research/swe/TestReport.ts"
import * as WorkingCopy from "../../research/swe/WorkingCopy.ts"
import { surroundings } from "./CommandSettings.ts"
import { makeUsageFailure } from "./Failure.ts"
import { Output, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import * as RunnerCommand from "./RunnerCommand.ts"
import * as RunnerRuntime from "./RunnerRuntime.ts"
import type { EvaluateFlags } from "./SweCommand.ts"
import * as SweTaskFlags from "./SweTaskFlags.ts"
import * as SweText from "./SweText.ts"

/** Reads the patches of a predictions file, by the ids of their tasks. */
const readPredictions = Effect.fnUntraced(function* (path: string | undefined) {
  if (path === undefined) return yield* makeUsageFailure("pass the patches with --predictions PATH")
  const { rows } = yield* RunnerCommand.readDataset(path, { required: ["instance_id"], idField: "instance_id" })
  yield* printWarnings(
    rows.flatMap(({ fields, file, line }) =>
      fields["model_patch"] === undefined && fields["patch"] === undefined
        ? [`${file} line ${line}: "model_patch" is missing; its patch is empty`]
        : []
    )
  )
  return new Map(
    rows.map(({ fields, id }) => [
      id,
      {
        patch: Json.readString(fields["model_patch"] ?? fields["patch"]) ?? "",
        model: Json.readString(fields["model_name_or_path"]) ?? ""
      }
    ])
  )
})

type Predictions = Effect.Success<ReturnType<typeof readPredictions>>

const scoreTask = Effect.fnUntraced(function* (
  task: SweTask.SweTask,
  { model, patch }: { readonly model: string; readonly patch: string },
  environment: CommandEnvironment["Service"]
): Effect.fn.Return<SwePool.ScoredRow, never, WorkingCopy.Needs> {
  const evaluated =
    task.check === undefined
      ? undefined
      : yield* Effect.provideService(
          SweEvaluation.evaluatePatch(task, task.check, patch),
          CommandEnvironment,
          environment
        )
  const score = evaluated?.score ?? TestReport.makeUnresolvedScore({ failToPass: [], passToPass: [] })
  return {
    ...SwePool.makeEmptyRow(task.id, "no_prediction", evaluated?.detail ?? ""),
    model,
    patch,
    status: evaluated?.status,
    kind: SwePool.classifyStatus(evaluated?.status),
    failToPass: score.failToPass,
    passToPass: score.passToPass,
    seconds: evaluated?.seconds ?? 0
  }
})

/** Scores tasks, and prints a line on stderr for each finished task. */
const scoreTasks = Effect.fnUntraced(function* (
  tasks: ReadonlyArray<SweTask.SweTask>,
  predictions: Predictions,
  environment: CommandEnvironment["Service"],
  concurrency: number
) {
  const output = yield* Output
  let ended = 0
  return yield* Effect.forEach(
    tasks,
    (task) =>
      scoreTask(task, predictions.get(task.id) ?? { model: "", patch: "" }, environment).pipe(
        Effect.tap(({ status }) => {
          ended++
          return output.err(`[${ended}/${tasks.length}] ${SafeText.toLine(task.id)}: ${SweText.formatStatus(status)}\n`)
        })
      ),
    { concurrency }
  )
})

/** Evaluates patches. */
export const evaluate = Effect.fn("hermes swe evaluate")(
  function* (flags: EvaluateFlags) {
    const settings = yield* RunnerRuntime.loadSettings(SweTaskFlags.toSettingsFlags(flags))
    yield* WorkingCopy.removeAbandoned()
    const tasks = yield* SweTaskFlags.loadTasks(flags, settings)
    const predictions = yield* readPredictions(flags.predictions)
    const unknown = Array.from(predictions.keys()).filter((id) => !tasks.some((task) => task.id === id))
    yield* printWarnings(
      unknown.map((id) => `${SafeText.toLine(id)} is not a task of ${flags.promptsFile ?? ""} and is left out`)
    )
    const wanted = tasks.filter(({ id }) => predictions.has(id))
    if (wanted.length === 0) return yield* makeUsageFailure("no prediction matches a task: check instance_id")
    const folder = wanted.find(({ check }) => check?.folder !== undefined)
    if (folder !== undefined)
      return yield* makeUsageFailure(
        `task ${folder.id} is a folder, and its tests check more than a patch: use \`hermes lab swe run\``
      )
    const environment = yield* RunnerRuntime.openEnvironment(settings)
    const scored = yield* scoreTasks(wanted, predictions, environment, flags.workers ?? 4)
    const byId = new Map(scored.map((row) => [row.id, row]))
    const rows = tasks.flatMap(
      (task) => byId.get(task.id) ?? SwePool.makeUnresolvedRow(task, "no_prediction", "no prediction was given") ?? []
    )
    yield* RunnerCommand.printResult(
      flags.json,
      () => ({ ...SweText.toTotalsJson(rows), rows: rows.map(SweText.toRowJson) }),
      () => [SweText.renderRows(rows), "", SweText.formatTotals(rows)].join("\n")
    )
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
