/**
 * Files of jobs in the home directory: the scripts that jobs run, and the outputs that their runs write.
 *
 * **Details**
 *
 * Each run writes a file `cron/output/<job>/<time>.md`. Only its owner can read the file, and it contains no secrets.
 * The last {@link keptOutputs} outputs of each job are retained.
 *
 * Source: `hermes-product.md` §2.5 and §4.4.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import * as Json from "../../base/domain/Json.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { CronStoreError } from "../../tools/cron/Job.ts"
import * as JobSchedule from "../../tools/cron/JobSchedule.ts"

/** Error raised when a job cannot run. The message states the remedy. No model call was made. */
export class JobBlocked extends Schema.TaggedError<JobBlocked>("hermes-effect/runner/JobBlocked")("JobBlocked", {
  message: Schema.String
}) {}

/** Number of outputs that are retained for each job. */
export const keptOutputs = 50

const divider = "\n\n---\n\n"

/** Directories for files of jobs. The directories need not exist. */
export interface Places {
  readonly scripts: string
  /** Directory that contains the jobs. */
  readonly cron: string
}

/** Contents of the output file of a run. */
interface Record {
  readonly jobId: string
  readonly began: number
  /** Facts about the run, one per line. */
  readonly facts: ReadonlyArray<readonly [name: string, value: string]>
  readonly body: string
}

const toOneLine = (text: string): string => text.replaceAll(/[\p{Cc}\p{Cf}]+/gu, " ")

/** Returns the real path of a script, which must be inside the scripts directory. */
export const findScript = Effect.fnUntraced(function* ({ scripts }: Places, name: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const missing = new JobBlocked({
    message: `script "${name}" not found in ${scripts}: put it there, or change the job`
  })
  const root = yield* Effect.mapError(fs.realPath(scripts), () => missing)
  const path = yield* Effect.mapError(fs.realPath(paths.join(scripts, name)), () => missing)
  const isFile = yield* Effect.match(fs.stat(path), {
    onFailure: () => false,
    onSuccess: ({ type }) => type === "File"
  })
  if (!path.startsWith(`${root}${paths.sep}`)) {
    return yield* new JobBlocked({ message: `the script "${name}" lies outside of ${scripts}: move it there` })
  }
  return isFile ? path : yield* missing
})

/** Checks that a job can work in its directory. */
export const checkWorkdir = Effect.fnUntraced(function* (path: string) {
  const fs = yield* FileSystem.FileSystem
  const isThere = yield* Effect.match(fs.stat(path), {
    onFailure: () => false,
    onSuccess: ({ type }) => type === "Directory"
  })
  if (!isThere)
    return yield* new JobBlocked({
      message: `the working directory ${path} does not exist: create it, or change the job`
    })
})

const toStoreError =
  (path: string) =>
  (cause: PlatformError): CronStoreError =>
    new CronStoreError({ message: `${path} cannot be written: ${cause.message}`, cause })

/** Writes the result of a run to a file, and returns the path. */
export const writeOutput = Effect.fnUntraced(function* ({ cron }: Places, { began, body, facts, jobId }: Record) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const directory = paths.join(cron, "output", jobId)
  const path = paths.join(directory, `${JobSchedule.toIso(began).replaceAll(":", "-")}.md`)
  const head = facts.map(([name, value]) => `- ${name}: ${toOneLine(value)}`).join("\n")
  yield* Effect.gen(function* () {
    yield* fs.makeDirectory(directory, { recursive: true, mode: 0o700 })
    yield* fs.writeFileString(path, Redaction.redactText(`${head}${divider}${body}\n`), { mode: 0o600 })
    const old = (yield* fs.readDirectory(directory))
      .filter((name) => name.endsWith(".md"))
      .toSorted()
      .slice(0, -keptOutputs)
    yield* Effect.forEach(old, (name) => fs.remove(paths.join(directory, name), { force: true }), { discard: true })
  }).pipe(Effect.mapError(toStoreError(path)))
  return path
})

/** Records the time of a check for due jobs. */
export const recordLook = Effect.fnUntraced(function* ({ cron }: Places, now: number) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const path = paths.join(cron, "ticker.json")
  yield* fs
    .makeDirectory(cron, { recursive: true, mode: 0o700 })
    .pipe(
      Effect.andThen(fs.writeFileString(path, `${JSON.stringify({ at: JobSchedule.toIso(now) })}\n`, { mode: 0o600 })),
      Effect.mapError(toStoreError(path))
    )
})

/** Returns the time of the last check for due jobs, or `undefined` if there was no check yet. */
export const readLastLook = Effect.fnUntraced(function* ({ cron }: Places) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const text = yield* Effect.option(fs.readFileString(paths.join(cron, "ticker.json")))
  const note = Option.flatMap(text, Json.parse)
  return Option.isSome(note) && Predicate.hasProperty(note.value, "at") && typeof note.value.at === "string"
    ? JobSchedule.toMillis(note.value.at)
    : undefined
})

/** Returns the body of an output file, or `undefined` if the file cannot be read. */
export const readBody = (path: string): Effect.Effect<string | undefined, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) =>
    Effect.match(fs.readFileString(path), {
      onFailure: () => undefined,
      onSuccess: (text) => text.slice(Math.max(0, text.indexOf(divider) + divider.length)).trimEnd()
    })
  )
