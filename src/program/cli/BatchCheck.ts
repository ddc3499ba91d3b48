/**
 * Action of `hermes batch check`: finds rows that a trainer would drop.
 *
 * Exit code 0: the trainer accepts all rows. Exit code 1: it drops some of them.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Json from "../../base/domain/Json.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as BatchFiles from "../../research/batch/BatchFiles.ts"
import * as ShareGpt from "../../research/batch/ShareGpt.ts"
import * as TrainerRules from "../../research/batch/TrainerRules.ts"
import * as BatchReports from "./BatchReports.ts"
import { failed, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { formatCount } from "./RunnerCommand.ts"

/** Maximum number of rows that are reported individually. */
const shownRows = 20

/** A row that a trainer drops. */
interface DroppedRow {
  readonly row: string
  readonly line: number
  readonly reason: string
}

/** Finds the file of trajectories by its path, or by the directory or name of a run. */
const findFile = Effect.fnUntraced(function* (reference: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const path = paths.resolve(getWorkingDirectory(), reference)
  const isFile = yield* Effect.orElseSucceed(
    Effect.map(fs.stat(path), ({ type }) => type === "File"),
    () => false
  )
  return isFile ? path : paths.join(yield* BatchReports.findRunDirectory(reference), BatchFiles.names.trajectories)
})

const checkLine = (text: string, line: number, trainer: TrainerRules.Trainer): DroppedRow | undefined => {
  const value = Option.getOrUndefined(Json.parse(text))
  const fields = Json.readFields(value)
  const row = Json.readWord(fields["row_id"] ?? fields["id"]) || `line ${line}`
  if (!Json.isFields(value)) return { row, line, reason: "it is not a JSON object" }
  const turns = ShareGpt.read(fields["conversations"])
  const reason =
    turns === undefined
      ? '"conversations" is not a list of turns of system, human, gpt and tool'
      : TrainerRules.findProblem(turns, trainer)
  return reason === undefined ? undefined : { row, line, reason }
}

/** Checks the rows of a file. */
export const checkTrajectories = Effect.fn("hermes batch check")(function* ({
  json,
  trainer,
  trajectories
}: {
  readonly trajectories: string
  readonly trainer: TrainerRules.Trainer | undefined
  readonly json: boolean
}) {
  if (trainer === undefined)
    return yield* makeUsageFailure(`name the trainer: --for ${TrainerRules.trainers.join(", --for ")}`)
  const fs = yield* FileSystem.FileSystem
  const file = yield* findFile(trajectories)
  const text = yield* Effect.mapError(fs.readFileString(file), ({ message }) => makeUsageFailure(message))
  const lines = text.split("\n").flatMap((one, index) => (one.trim() === "" ? [] : [{ text: one, line: index + 1 }]))
  const dropped = lines.flatMap((one) => checkLine(one.text, one.line, trainer) ?? [])
  const settings = TrainerRules.describeSettings(trainer, file)
  if (json) yield* printLine(SafeText.toJson({ file, trainer, rows: lines.length, dropped, settings }, 2))
  else {
    const left = dropped.length - shownRows
    const accepted = lines.length - dropped.length
    const shown = [
      `${formatCount(lines.length, "row")}: ${trainer} accepts ${accepted}, drops ${dropped.length}`,
      ...dropped.slice(0, shownRows).map(({ line, reason, row }) => `line ${line}, row ${row}: ${reason}`),
      ...(left > 0 ? [`… and ${formatCount(left, "more row")}: --json lists all`] : []),
      settings
    ]
    yield* printLine(shown.map(SafeText.toLine).join("\n"))
  }
  if (dropped.length > 0) return yield* makeSilentFailure(failed)
})
