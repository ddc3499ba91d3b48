/** `hermes trace convert`: writes the trajectories of a trace to stdout, files or an archive. */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import * as Stream from "effect/Stream"
import * as Command from "effect/cli/Command"
import { Home } from "../../base/config/Environment.ts"
import * as Atif from "../../observe/Atif.ts"
import * as AtifWriter from "../../observe/AtifWriter.ts"
import * as Trace from "../../observe/Trace.ts"
import * as SessionExport from "../../store/SessionExport.ts"
import { makeWorkFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { printJson, printLine, printWarnings } from "./ProgramOutput.ts"
import { source, fileTemplate, loadTrace, loadContinuations, writePictures } from "./TraceSource.ts"

/** Returns every trajectory of a document, with child trajectories as separate documents. */
const flattenTrajectory = (trajectory: Atif.Trajectory): ReadonlyArray<Atif.Trajectory> => [
  trajectory,
  ...(trajectory.subagent_trajectories ?? []).flatMap(flattenTrajectory)
]

/** Destination of trajectories: stdout, a file for a single one, a directory or an archive. */
type Destination =
  | { readonly kind: "stdout" }
  | { readonly kind: "archive" | "directory" | "file"; readonly path: string }

const findDestination = Effect.fnUntraced(function* (
  output: string | undefined
): Effect.fn.Return<Destination, never, FileSystem.FileSystem> {
  if (output === undefined) return { kind: "stdout" }
  const fs = yield* FileSystem.FileSystem
  const isDirectory = yield* Effect.orElseSucceed(
    Effect.map(fs.stat(output), ({ type }) => type === "Directory"),
    () => false
  )
  return { kind: isDirectory ? "directory" : SessionExport.isArchive(output) ? "archive" : "file", path: output }
})

/** Selects the trajectories of a session, including child trajectories. */
const selectTrajectories = (
  trajectories: ReadonlyArray<Atif.Trajectory>,
  session: string | undefined
): ReadonlyArray<Atif.Trajectory> =>
  session === undefined
    ? trajectories
    : trajectories
        .flatMap(flattenTrajectory)
        .filter(({ session_id: id, trajectory_id: other }) => id === session || other === session)

/** Explains that a file or stdout cannot contain several trajectories. */
const describeSeveral = (source: string, wanted: ReadonlyArray<Atif.Trajectory>): string => {
  const sessions = wanted.map(({ session_id: id }) => id)
  if (new Set(sessions).size === 1)
    return (
      `${source} holds session ${sessions[0] ?? ""} in ${wanted.length} parts: name an existing directory by ` +
      "--output, or a .tar.gz file"
    )
  return (
    `${source} holds ${wanted.length} sessions: name one by --session, or an existing directory or a .tar.gz file ` +
    `by --output (${sessions.slice(0, 5).join(", ")}${wanted.length > 5 ? ", …" : ""})`
  )
}

/** Writes trajectories and their pictures to an archive. */
const writeTrajectoryArchive = Effect.fnUntraced(function* (
  path: string,
  trajectories: ReadonlyArray<Atif.Trajectory>,
  pictures: ReadonlyMap<string, Uint8Array>
) {
  const changedAt = yield* Clock.currentTimeMillis
  const contents = [
    ...AtifWriter.nameSegments(fileTemplate, trajectories).map(({ name, trajectory }) => ({
      name,
      content: AtifWriter.render(trajectory),
      changedAt
    })),
    ...Array.from(pictures, ([name, content]) => ({ name, content, changedAt }))
  ]
  const bytes = yield* Stream.mkUint8Array(SessionExport.writeArchive(Stream.fromIterable(contents)))
  yield* OutputFile.write(path, bytes)
  yield* printLine(path)
})

/** Writes trajectories to a directory or, for a single one, to a file. Pictures are stored next to them. */
const writeTrajectoryFiles = Effect.fnUntraced(function* (
  { kind, path }: Exclude<Destination, { readonly kind: "stdout" }>,
  trajectories: readonly [Atif.Trajectory, ...ReadonlyArray<Atif.Trajectory>],
  pictures: ReadonlyMap<string, Uint8Array>
) {
  const paths = yield* Path.Path
  yield* writePictures(kind === "directory" ? path : paths.dirname(path), trajectories, pictures)
  const files =
    kind === "directory"
      ? AtifWriter.nameSegments(fileTemplate, trajectories).map(({ name, trajectory }) => ({
          file: paths.join(path, name),
          trajectory
        }))
      : [{ file: path, trajectory: trajectories[0] }]
  for (const { file, trajectory } of files) {
    yield* OutputFile.write(file, AtifWriter.render(trajectory))
    yield* printLine(file)
  }
})

/** Writes the trajectory of a trace. */
export const convert = Command.make(
  "convert",
  {
    source,
    session: Flags.makeText("session", "ID", "Only this session"),
    output: Flags.makeText(
      "output",
      "PATH",
      "Output file, or directory or .tar.gz file for several; default: stdout",
      "o"
    ),
    agentName: Flags.makeText("agent-name", "NAME", "Agent name, if the events have none")
  },
  Effect.fn("hermes trace convert")(function* ({ agentName, output, session, source }) {
    const pictures = AtifWriter.makePictureCollector()
    // Pictures are stored in files next to the document, so a document on stdout cannot include them.
    const { next, trace } = yield* loadTrace(source, output === undefined ? undefined : pictures.place)
    const { faults, trajectories } = Trace.toTrajectories(trace, { agentName })
    yield* printWarnings(faults.map(({ message }) => `${source}: ${message}`))
    const wanted = selectTrajectories(trajectories, session)
    const [first, ...more] = wanted
    if (first === undefined) {
      const known = trajectories.map(({ session_id: id }) => id).join(", ")
      return yield* session === undefined
        ? makeWorkFailure(`${source} is empty: it has no trace`)
        : makeUsageFailure(`${source} does not contain session ${session}: it has ${known}`)
    }
    const destination = yield* findDestination(output)
    const holdsSeveral = destination.kind === "directory" || destination.kind === "archive"
    if (more.length > 0 && !holdsSeveral) return yield* makeUsageFailure(describeSeveral(source, wanted))
    if (destination.kind === "stdout") return yield* printJson(`${AtifWriter.render(first).trimEnd()}\n`)
    const rest = session === undefined && holdsSeveral ? yield* loadContinuations(next, pictures.place) : []
    const all = [first, ...more, ...rest] as const
    return yield* destination.kind === "archive"
      ? writeTrajectoryArchive(destination.path, all, pictures.found)
      : writeTrajectoryFiles(destination, all, pictures.found)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Convert to an ATIF trajectory"))
