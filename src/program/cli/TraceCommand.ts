/** `hermes trace`: shows the events of a run from an event file, a trajectory, or a stored session. */
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { Home } from "../../base/config/Environment.ts"
import { SessionNotFound, type SessionStoreError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Atif from "../../observe/Atif.ts"
import * as AtifCheck from "../../observe/AtifCheck.ts"
import * as FromRuns from "../../observe/atif/FromRuns.ts"
import type { Pictures } from "../../observe/atif/RunContent.ts"
import * as StoredRuns from "../../observe/StoredRuns.ts"
import * as AtifWriter from "../../observe/AtifWriter.ts"
import * as Atof from "../../observe/Atof.ts"
import * as Trace from "../../observe/Trace.ts"
import * as Pool from "../../observe/trace/Pool.ts"
import * as TraceStats from "../../observe/TraceStats.ts"
import * as TraceView from "../../observe/TraceView.ts"
import * as SessionChain from "../../store/SessionChain.ts"
import * as SessionExport from "../../store/SessionExport.ts"
import * as Unread from "../../store/Unread.ts"
import { Outlives } from "../../base/platform/ChildProcesses.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import {
  failed,
  type Failure,
  makeWorkFailure,
  makeSilentFailure,
  toUnwritableFailure,
  makeUsageFailure
} from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { printJson, printLine, printNote, Output, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { forReading, withStoredSession } from "./SessionChoice.ts"

const source = Argument.String("trace").pipe(
  Argument.withDescription("ATOF or ATIF file, or a session: id, id prefix, title, or latest (of this folder)")
)
const json = Flags.makeSwitch("json", "Print JSON")

/** A trace and its display name. */
interface NamedTrace {
  readonly name: string
  readonly trace: Trace.Trace
  /** Session that continues the stored session. */
  readonly next?: string | undefined
}

/** Name template for the files of converted trajectories. */
const fileTemplate = "trajectory-{session_id}.json"

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
const readTextFile = Effect.fnUntraced(function* (
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

/** Loads a trace. Lines of a stream that cannot be read are reported, and the other lines are used. */
const loadTrace = Effect.fn("TraceCommand.loadTrace")(function* (
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
const loadContinuations = Effect.fnUntraced(function* (first: string | undefined, pictures: Pictures) {
  const found: Array<Atif.Trajectory> = []
  for (let id = first; id !== undefined;) {
    const { next, trajectory } = yield* readSessionTrajectory(id, pictures)
    if (trajectory !== undefined) found.push(trajectory)
    id = next
  }
  return found
})

/** Time in which a program must report that it cannot open the page. */
const patience = Duration.seconds(3)

/** Programs on Linux, macOS and Windows that open a page in the browser. */
const browsers = ["xdg-open", "open", "explorer.exe"]

const openWithProgram = Effect.fnUntraced(function* (name: string, path: string) {
  const spawner = yield* ChildProcessSpawner.ChildProcessSpawner
  const program = yield* TrustedPrograms.find(name)
  const command = ChildProcess.make(program, [path], {
    stdin: "ignore",
    stdout: "ignore",
    stderr: "ignore",
    detached: true,
    // `xdg-open` is a script that looks up a browser by its name.
    env: { PATH: yield* TrustedPrograms.safePath },
    extendEnv: true
  })
  // The scope is never closed, because closing it would end the browser.
  const handle = yield* Scope.provide(spawner.spawn(command), yield* Scope.make()).pipe(
    Effect.provideService(Outlives, true)
  )
  yield* Effect.asVoid(handle.unref)
  return yield* Effect.timeoutOrElse(
    Effect.map(handle.exitCode, (code) => code === 0),
    { duration: patience, orElse: () => Effect.succeed(true) }
  )
})

/**
 * Shows a file in the browser. Tries the programs in turn and returns true if one of them opened the file. A program
 * that fails within {@link patience} did not open it; a program that is still running then is the browser itself, and
 * outlives this command.
 */
export const open = Effect.fn("TraceCommand.open")(function* (
  path: string,
  programs: ReadonlyArray<string> = browsers
) {
  for (const program of programs) {
    // A missing program is not a failure of the command: the next program is tried.
    if (yield* Effect.orElseSucceed(openWithProgram(program, path), () => false)) return true
  }
  return false
})

/** Writes the pictures that the documents in a directory reference. */
const writePictures = Effect.fnUntraced(function* (
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

/** Returns every trajectory of a document, with child trajectories as separate documents. */
const flattenTrajectory = (trajectory: Atif.Trajectory): ReadonlyArray<Atif.Trajectory> => [
  trajectory,
  ...(trajectory.subagent_trajectories ?? []).flatMap(flattenTrajectory)
]

/** Writes the trajectory of a trace. */
const convert = Command.make(
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
    const wanted =
      session === undefined
        ? trajectories
        : trajectories
            .flatMap(flattenTrajectory)
            .filter(({ session_id: id, trajectory_id: other }) => id === session || other === session)
    const [first, ...more] = wanted
    if (first === undefined) {
      const known = trajectories.map(({ session_id: id }) => id).join(", ")
      return yield* session === undefined
        ? makeWorkFailure(`${source} is empty: it has no trace`)
        : makeUsageFailure(`${source} does not contain session ${session}: it has ${known}`)
    }
    const paths = yield* Path.Path
    const fs = yield* FileSystem.FileSystem
    const isDirectory =
      output !== undefined &&
      (yield* Effect.orElseSucceed(
        Effect.map(fs.stat(output), ({ type }) => type === "Directory"),
        () => false
      ))
    const isArchive = output !== undefined && !isDirectory && SessionExport.isArchive(output)
    if (more.length > 0 && !isDirectory && !isArchive) {
      return yield* makeUsageFailure(
        new Set(wanted.map(({ session_id: id }) => id)).size === 1
          ? `${source} holds session ${first.session_id} in ${wanted.length} parts: name an existing ` +
              "directory by --output, or a .tar.gz file"
          : `${source} holds ${wanted.length} sessions: name one by --session, or an existing directory or a .tar.gz file by --output (${wanted
              .slice(0, 5)
              .map(({ session_id: id }) => id)
              .join(", ")}${wanted.length > 5 ? ", …" : ""})`
      )
    }
    if (output === undefined) return yield* printJson(`${AtifWriter.render(first).trimEnd()}\n`)
    const rest =
      session === undefined && (isDirectory || isArchive) ? yield* loadContinuations(next, pictures.place) : []
    const all = [...wanted, ...rest]
    const files = AtifWriter.nameSegments(fileTemplate, all)
    if (isArchive) {
      const changedAt = yield* Clock.currentTimeMillis
      const contents = [
        ...files.map(({ name, trajectory }) => ({ name, content: AtifWriter.render(trajectory), changedAt })),
        ...Array.from(pictures.found, ([name, content]) => ({ name, content, changedAt }))
      ]
      const bytes = yield* Stream.mkUint8Array(SessionExport.writeArchive(Stream.fromIterable(contents)))
      yield* OutputFile.write(output, bytes)
      return yield* printLine(output)
    }
    yield* writePictures(isDirectory ? output : paths.dirname(output), all, pictures.found)
    if (!isDirectory)
      return yield* Effect.andThen(OutputFile.write(output, AtifWriter.render(first)), printLine(output))
    for (const { name, trajectory } of files) {
      const path = paths.join(output, name)
      yield* OutputFile.write(path, AtifWriter.render(trajectory))
      yield* printLine(path)
    }
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Convert to an ATIF trajectory"))

const findAbsentImages = Effect.fnUntraced(function* (file: string, value: unknown) {
  const decoded = Atif.decode(value)
  if (Result.isFailure(decoded)) return []
  const paths = yield* Path.Path
  const fs = yield* FileSystem.FileSystem
  const found = yield* Effect.forEach(AtifCheck.listLocalImages(decoded.success), (image) =>
    Effect.map(
      Effect.orElseSucceed(fs.exists(paths.resolve(paths.dirname(file), image)), () => false),
      (isThere): ReadonlyArray<AtifCheck.Issue> =>
        isThere ? [] : [{ severity: "error", path: image, message: "image not found" }]
    )
  )
  return found.flat()
})

const validateFile = Effect.fnUntraced(function* (file: string) {
  const text = yield* readTextFile(file)
  if (text === undefined) return yield* makeUsageFailure(`${file}: file not found`)
  const value = Option.getOrUndefined(Json.parse(text))
  const isEvent = typeof value === "object" && value !== null && "kind" in value
  const isDocument = value !== undefined ? !isEvent : text.trimStart().startsWith("{\n")
  if (!isDocument) return { file, format: "ATOF", issues: Atof.check(Atof.parse(text)) }
  const issues: ReadonlyArray<AtifCheck.Issue> =
    value === undefined
      ? [{ severity: "error", path: "", message: "not JSON; the file is incomplete or damaged" }]
      : [...AtifCheck.check(value), ...(yield* findAbsentImages(file, value))]
  return { file, format: "ATIF", issues }
})

/** Validates files. Fails if one of them has an error. */
const validate = Command.make(
  "validate",
  { files: Argument.String("file").pipe(Argument.withDescription("ATIF or ATOF files"), Argument.atLeast(1)), json },
  Effect.fn("hermes trace validate")(function* ({ files, json }) {
    const all = yield* Effect.forEach(files, validateFile)
    if (json)
      yield* printLine(
        SafeText.toJson(
          all.map((one) => ({ ...one, valid: AtifCheck.isSound(one.issues) })),
          2
        )
      )
    else {
      for (const { file, format, issues } of all) {
        for (const { message, path, severity } of issues)
          yield* printLine(`${file}: ${severity}: ${path === "" ? "" : `${path}: `}${message}`)
        if (AtifCheck.isSound(issues)) yield* printLine(`${file}: valid ${format}`)
      }
    }
    if (!all.every(({ issues }) => AtifCheck.isSound(issues))) return yield* makeSilentFailure(failed)
  })
).pipe(Command.withDescription("Check files against their format"))

const formatDuration = (millis: number): string =>
  millis < 1000 ? `${Math.round(millis)} ms` : `${(millis / 1000).toFixed(1)} s`

const renderShares = (title: string, shares: ReadonlyArray<TraceStats.Share>): ReadonlyArray<string> =>
  shares.map(
    ({ count, failed, millis, name, tokens }, index) =>
      `${(index === 0 ? title : "").padEnd(12)}${name}  ` +
      `${count}${failed > 0 ? `, ${failed} failed` : ""}${millis > 0 ? `, ${formatDuration(millis)}` : ""}${tokens > 0 ? `, ${tokens} tokens` : ""}`
  )

const renderStats = (name: string, stats: TraceStats.Stats): string =>
  [
    name,
    `agents      ${stats.agents}`,
    `turns       ${stats.turns}`,
    `model calls ${stats.modelCalls}${stats.failedModelCalls > 0 ? `, ${stats.failedModelCalls} failed` : ""}`,
    `tool calls  ${stats.toolCalls}${stats.failedToolCalls > 0 ? `, ${stats.failedToolCalls} failed` : ""}`,
    ...(stats.approvals > 0 ? [`approvals   ${stats.approvals}`] : []),
    `tokens      ${stats.promptTokens} in (${stats.cachedTokens} cached), ${stats.completionTokens} out`,
    ...(stats.costUsd === undefined ? [] : [`cost        $${stats.costUsd.toFixed(4)}`]),
    ...(stats.millis > 0 ? [`time        ${formatDuration(stats.millis)}`] : []),
    ...renderShares("models", stats.models),
    ...renderShares("tools", stats.tools)
  ].join("\n")

/** Prints statistics of a trace. */
const stats = Command.make(
  "stats",
  { source, json },
  Effect.fn("hermes trace stats")(function* ({ json, source }) {
    const { name, trace } = yield* loadTrace(source)
    const found = TraceStats.computeStats(Trace.buildRows(trace, Pool.make()))
    yield* printLine(json ? SafeText.toJson(found, 2) : renderStats(name, found))
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Show calls, tokens, cost, time and errors"))

/** Writes an HTML page for one trace, or for the difference between two traces. */
const view = Command.make(
  "view",
  {
    source,
    other: Argument.optional(Argument.String("other").pipe(Argument.withDescription("Trace to compare with"))),
    output: Flags.makeText("output", "PATH", "Output page; default: a temporary file", "o")
  },
  Effect.fn("hermes trace view")(function* ({ other, output, source }) {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const runs = yield* Effect.forEach([source, ...Option.toArray(other)], (one) => loadTrace(one))
    const page = yield* TraceView.renderPage(runs)
    const path =
      output ??
      paths.join(
        yield* Effect.mapError(fs.makeTempDirectory({ prefix: "hermes-trace-" }), (error) =>
          makeWorkFailure(`no temporary directory: ${error.message}: pass a file with --output`)
        ),
        "trace.html"
      )
    yield* OutputFile.write(path, page)
    yield* printLine(paths.resolve(path))
    if (output !== undefined) return
    const { terminal } = yield* Output
    if (!terminal.input || !(yield* open(path))) yield* printNote(`Open it in a browser: file://${paths.resolve(path)}`)
  }, Effect.provide(Home.layer))
).pipe(Command.withDescription("Write a page that shows a trace, or compares two"))

const serve = Command.make(
  "serve",
  {
    port: Flags.takeLast(Flag.Int("port").pipe(Flag.withMetavar("N")), "Port on 127.0.0.1; default: any free port"),
    write: Flags.makeSwitch("write", "Allow replays, scores, notes and messages to running turns; default: read-only")
  },
  (flags) =>
    Effect.flatMap(
      Effect.promise(() => import("./TraceServe.ts")),
      ({ serve }) => serve(flags)
    )
).pipe(Command.withDescription("Serve the studio, which shows all sessions live in a local browser, until Ctrl+C"))

/** The command `hermes trace`. */
export const command = Command.make("trace").pipe(Command.withSubcommands([serve, convert, validate, stats, view]))
