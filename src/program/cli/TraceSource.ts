/** Traces and trajectories that the commands of `hermes trace` read, and the pictures that they write. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Argument from "effect/cli/Argument"
import { Home } from "../../base/config/Environment.ts"
import { SessionNotFound, type SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Atif from "../../observe/Atif.ts"
import * as AtifCheck from "../../observe/AtifCheck.ts"
import type { Pictures } from "../../observe/atif/RunContent.ts"
import * as Trace from "../../observe/Trace.ts"
import { type Failure, makeWorkFailure, toUnwritableFailure, makeUsageFailure } from "./Failure.ts"
import * as OutputFile from "./OutputFile.ts"
import { Output, printWarnings } from "./ProgramOutput.ts"
import * as FromRuns from "../../observe/atif/FromRuns.ts"
import * as StoredRuns from "../../observe/StoredRuns.ts"
import * as AtifWriter from "../../observe/AtifWriter.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import * as Unread from "../../store/Unread.ts"
import { forReading, withStoredSession } from "./SessionChoice.ts"

/** A trace and its display name. */
export interface NamedTrace {
  readonly name: string
  readonly trace: Trace.Trace
  /** Session that continues the stored session. */
  readonly next?: string | undefined
}

/**
 * Reads the trajectory of a stored session, with its pictures in place. Unreadable entries are reported, and the other
 * entries are used.
 */
const readSessionTrajectory = (reference: string, pictures: Pictures | undefined) =>
  withStoredSession(
    reference,
    (session) =>
      Effect.gen(function* () {
        const runs = yield* StoredRuns.read(session)
        const unread = yield* StoredRuns.countUnread(session.id, runs)
        for (const notice of Unread.renderNotices(unread, `the run record of ${session.id}`))
          yield* Effect.logWarning(notice)
        const trajectory = FromRuns.buildTrajectory(runs, session.id, { pictures })
        const next = yield* SessionChain.findNext(session)
        return {
          session,
          next: next?.id,
          trajectory:
            trajectory === undefined || next === undefined
              ? trajectory
              : { ...trajectory, continued_trajectory_ref: AtifWriter.formatFileName(fileTemplate, next.id) }
        }
      }),
    forReading
  )

/** Reads the text of a file, or `undefined` if it does not exist. */
export const readTextFile = Effect.fnUntraced(function* (
  path: string
): Effect.fn.Return<string | undefined, Failure, FileSystem.FileSystem> {
  const fs = yield* FileSystem.FileSystem
  return yield* fs.readFileString(path).pipe(
    Effect.catchIf(
      (error) => error.reason._tag === "NotFound",
      () => Effect.succeed(undefined)
    ),
    Effect.mapError((error) => makeUsageFailure(`cannot read ${path}: ${error.message}`))
  )
})

export const source = Argument.String("trace").pipe(
  Argument.withDescription("ATOF or ATIF file, or a session: id, id prefix, title, or latest (of this folder)")
)

/** Name template for the files of converted trajectories. */
export const fileTemplate = "trajectory-{session_id}.json"

/** Loads a trace. Lines of a stream that cannot be read are reported, and the other lines are used. */
export const loadTrace = Effect.fn("TraceCommand.loadTrace")(function* (
  reference: string,
  pictures?: Pictures
): Effect.fn.Return<
  NamedTrace,
  Failure | SessionNotFound | SessionStoreError,
  FileSystem.FileSystem | Home | Output | Path.Path
> {
  const text = yield* readTextFile(reference)
  if (text === undefined) {
    const { next, session, trajectory } = yield* readSessionTrajectory(reference, pictures)
    if (trajectory === undefined) {
      return yield* makeWorkFailure(`session ${session.id} is empty: it has no trace`)
    }
    return { name: session.title ?? session.id, trace: Trace.fromTrajectory(trajectory), next }
  }
  const trace = Trace.parse(text)
  if (Result.isFailure(trace)) return yield* makeUsageFailure(`${reference}: ${trace.failure.message}`)
  if (trace.success._tag === "Events") {
    yield* printWarnings(trace.success.faults.map(({ message }) => `${reference}: ${message}`))
  } else if (trace.success.notice !== undefined) yield* printWarnings([`${reference}: ${trace.success.notice}`])
  return { name: reference.split(/[/\\]/u).at(-1) ?? reference, trace: trace.success }
})

/** Loads the trajectories of the sessions that continue a stored session, in order. */
export const loadContinuations = Effect.fnUntraced(function* (first: string | undefined, pictures: Pictures) {
  const found: Array<Atif.Trajectory> = []
  for (let id = first; id !== undefined;) {
    const { next, trajectory } = yield* readSessionTrajectory(id, pictures)
    if (trajectory !== undefined) found.push(trajectory)
    id = next
  }
  return found
})

/** Writes the pictures that the documents in a directory reference. */
export const writePictures = Effect.fnUntraced(function* (
  directory: string,
  trajectories: ReadonlyArray<Atif.Trajectory>,
  found: ReadonlyMap<string, Uint8Array>
) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  for (const name of new Set(trajectories.flatMap(AtifCheck.listLocalImages))) {
    const bytes = found.get(name)
    if (bytes === undefined) continue
    const path = paths.join(directory, name)
    yield* Effect.mapError(
      fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }),
      toUnwritableFailure(path)
    )
    yield* OutputFile.write(path, bytes)
  }
})
