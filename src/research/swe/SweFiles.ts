/** Files of a run of tasks: their names, and the predictions for harnesses. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as RowJournal from "../batch/RowJournal.ts"

/** Absolute paths of the files of a run. */
export interface Files {
  readonly results: string
  readonly predictions: string
  readonly failed: string
  /** List of the tasks of the run, so that a task without a result also counts in a comparison (`SweAttempts`). */
  readonly tasks: string
  /** Page with the attempts of the run. */
  readonly page: string
  /** Store for the sessions of the tasks, separate from the user's sessions. */
  readonly sessions: string
  /** Key of the names of tasks that runners of a cluster execute. */
  readonly cluster: string
}

/** Returns the paths of a results file and of the files that accompany it. */
export const nameFiles = (results: string): Files => {
  const stem = results.replace(/\.jsonl$/, "")
  return {
    results,
    predictions: `${stem}.predictions.jsonl`,
    failed: `${stem}.failed.jsonl`,
    tasks: `${stem}.tasks.json`,
    page: `${stem}.report.html`,
    sessions: `${stem}.sessions.db`,
    cluster: `${stem}.cluster.json`
  }
}

/** Makes the error of a file that cannot be written. */
export const toWriteError = (path: string) => (error: Parameters<typeof describeReason>[0]) =>
  new RowJournal.JournalError({ path, message: `${path} cannot be written: ${describeReason(error)}`, canResume: true })

/** Returns the path of the predictions of the attempts with a number. */
export const namePredictions = ({ predictions }: Pick<Files, "predictions">, run: number): string =>
  run === 1 ? predictions : predictions.replace(/\.predictions\.jsonl$/, `.run-${run}.predictions.jsonl`)

/** Patch of an attempt at a task. */
interface Prediction {
  readonly id: string
  readonly model: string
  readonly patch: string
  readonly run: number
}

/** Writes the predictions of all rows atomically, in a file for each number of an attempt. */
export const writePredictions = Effect.fnUntraced(function* (
  files: Files,
  rows: ReadonlyArray<Prediction>,
  runs: number
) {
  const fs = yield* FileSystem.FileSystem
  for (let run = 1; run <= runs; run++) {
    const path = namePredictions(files, run)
    const lines = rows.flatMap(({ id, model, patch, run: number }) =>
      number === run ? `${JSON.stringify({ instance_id: id, model_name_or_path: model, model_patch: patch })}\n` : []
    )
    yield* fs
      .writeFileString(`${path}.new`, lines.join(""), { mode: 0o600 })
      .pipe(Effect.andThen(fs.rename(`${path}.new`, path)), Effect.mapError(toWriteError(path)))
  }
})
