/** `hermes trace`: shows the events of a run from an event file, a trajectory, or a stored session. */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Scope from "effect/Scope"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Flag from "effect/cli/Flag"
import * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { Home } from "../../base/config/Environment.ts"
import * as Json from "../../base/domain/Json.ts"
import * as Atif from "../../observe/Atif.ts"
import * as AtifCheck from "../../observe/AtifCheck.ts"
import * as Atof from "../../observe/Atof.ts"
import * as Trace from "../../observe/Trace.ts"
import * as Pool from "../../observe/trace/Pool.ts"
import * as TraceStats from "../../observe/TraceStats.ts"
import * as TraceView from "../../observe/TraceView.ts"
import { Outlives } from "../../base/platform/ChildProcesses.ts"
import * as TrustedPrograms from "../../base/platform/TrustedPrograms.ts"
import { failed, makeWorkFailure, makeSilentFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import * as OutputFile from "./OutputFile.ts"
import { printLine, printNote, Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"
import { convert } from "./TraceConvert.ts"
import { source, loadTrace, readTextFile } from "./TraceSource.ts"

const json = Flags.makeSwitch("json", "Print JSON")

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
