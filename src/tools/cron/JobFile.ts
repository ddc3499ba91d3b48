/**
 * The file that stores jobs. It is read and replaced as a whole, and one process changes it at a time.
 *
 * **Details**
 *
 * `jobs.json` is accessible to its owner only. The new file is flushed to disk before it replaces the old one. An
 * unreadable entry is preserved and reported as a problem; the others work. A file that is not JSON, or was written by
 * a later version, is never overwritten.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Semaphore from "effect/Semaphore"
import * as Json from "../../base/domain/Json.ts"
import { type Lease, Leases } from "../../base/platform/Leases.ts"
import { CronStoreError, Job } from "./Job.ts"

/** Content of the file. */
export interface Content {
  readonly jobs: ReadonlyArray<Job>
  /** Entries that cannot be read. */
  readonly strange: ReadonlyArray<unknown>
  /** Problems of the file, one line each. */
  readonly problems: ReadonlyArray<string>
}

/** A file of jobs, or an in-memory substitute. */
export interface JobFile {
  readonly read: Effect.Effect<Content, CronStoreError>
  /** Changes the jobs under an exclusive lock; `undefined` for `jobs` leaves them unchanged. */
  readonly change: <A, E>(
    work: (content: Content) => Effect.Effect<readonly [result: A, jobs: ReadonlyArray<Job> | undefined], E>
  ) => Effect.Effect<A, E | CronStoreError>
}

/** Content of a missing file. */
export const nothing: Content = { jobs: [], strange: [], problems: [] }

const Document = Schema.Struct({ version: Schema.Literal(1), jobs: Schema.Array(Schema.Unknown) })
const decodeDocument = Schema.decodeUnknownOption(Document)
const decodeJob = Schema.decodeUnknownResult(Job)

const describeEntry = (entry: unknown, index: number): string =>
  Predicate.hasProperty(entry, "id") && typeof entry.id === "string" ? `the job ${entry.id}` : `entry ${index + 1}`

/** Parses the text of the file. */
export const parseContent = (path: string, text: string): Result.Result<Content, CronStoreError> => {
  const document = Option.flatMap(Json.parse(text), decodeDocument)
  if (Option.isNone(document)) {
    return Result.fail(
      new CronStoreError({
        message: `${path} cannot be read: it is no list of jobs of this version: correct it, or move it away`
      })
    )
  }
  const jobs: Array<Job> = []
  const strange: Array<unknown> = []
  const problems: Array<string> = []
  document.value.jobs.forEach((entry, index) => {
    const job = decodeJob(entry)
    if (Result.isSuccess(job)) return jobs.push(job.success)
    strange.push(entry)
    problems.push(
      `${path}: ${describeEntry(entry, index)} cannot be read and does not run: ` +
        `${job.failure.message.split("\n")[0] ?? ""}`
    )
  })
  return Result.succeed({ jobs, strange, problems })
}

/** Renders the text of the file with the given jobs. */
export const renderContent = ({ strange }: Content, jobs: ReadonlyArray<Job>): string =>
  `${JSON.stringify({ version: 1, jobs: [...jobs, ...strange] }, null, 2)}\n`

const encoder = new TextEncoder()

const toStoreError =
  (path: string, what: string) =>
  (cause: PlatformError): CronStoreError =>
    new CronStoreError({
      message:
        `${path} cannot be ${what}: ` +
        `${cause.reason._tag === "PermissionDenied" ? "permission denied" : cause.message}`,
      cause
    })

/** Name of the lease for changing the jobs of a home directory. */
const leaseName = "the list of scheduled jobs"

/** Creates the job file of a directory, which need not exist yet. Changes require the lease. */
export const make = (directory: string): Effect.Effect<JobFile, never, FileSystem.FileSystem | Leases | Path.Path> =>
  Effect.gen(function* () {
    const leases = yield* Leases
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const path = paths.join(directory, "jobs.json")
    const turn = yield* Semaphore.make(1)

    const read = fs.readFileString(path).pipe(
      Effect.catchIf(
        ({ reason }) => reason._tag === "NotFound",
        () => Effect.succeed(undefined)
      ),
      Effect.mapError(toStoreError(path, "read")),
      Effect.flatMap((text) =>
        text === undefined ? Effect.succeed(nothing) : Effect.fromResult(parseContent(path, text))
      )
    )

    const write = (content: Content, jobs: ReadonlyArray<Job>, lease: Lease) =>
      Effect.gen(function* () {
        const text = renderContent(content, jobs)
        const drafts = yield* fs.makeTempDirectoryScoped({ directory, prefix: ".draft-" })
        const draft = paths.join(drafts, "jobs.json")
        yield* Effect.scoped(
          Effect.flatMap(fs.open(draft, { flag: "wx", mode: 0o600 }), (file) =>
            Effect.andThen(file.writeAll(encoder.encode(text)), file.sync)
          )
        )
        if (!(yield* Effect.mapError(lease.isHeld, ({ message }) => new CronStoreError({ message })))) {
          return yield* new CronStoreError({
            message: `${path} was not changed: another process took its turn; try again`
          })
        }
        yield* fs.rename(draft, path)
      }).pipe(
        Effect.scoped,
        Effect.catchTag("PlatformError", (error) => Effect.fail(toStoreError(path, "written")(error)))
      )

    return {
      read,
      change: (work) => {
        const changeUnderLease = Effect.fnUntraced(function* (lease: Lease) {
          const content = yield* read
          const [result, jobs] = yield* work(content)
          if (jobs !== undefined) yield* write(content, jobs, lease)
          return result
        })
        return fs.makeDirectory(directory, { recursive: true, mode: 0o700 }).pipe(
          Effect.mapError(toStoreError(path, "written")),
          Effect.andThen(
            Effect.mapError(
              leases.during(leaseName, (lease) => Effect.result(changeUnderLease(lease))),
              ({ message }) => new CronStoreError({ message })
            )
          ),
          Effect.flatMap(Effect.fromResult),
          // Waiting for another process polls; waiting in this process does not.
          turn.withPermit
        )
      }
    }
  })

/** Creates jobs in memory that exist until the process ends. */
export const memory: Effect.Effect<JobFile> = Effect.sync(() => {
  let content = nothing
  const turn = Semaphore.makeUnsafe(1)
  return {
    read: Effect.sync(() => content),
    change: (work) =>
      turn.withPermit(
        Effect.flatMap(
          Effect.suspend(() => work(content)),
          ([result, jobs]) => {
            if (jobs !== undefined) content = { ...content, jobs }
            return Effect.succeed(result)
          }
        )
      )
  }
})
