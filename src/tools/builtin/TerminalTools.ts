/**
 * The tool `terminal`, which runs a command line in a shell: in the foreground with its output as the result, or in the
 * background under an id that the tool `process` accepts.
 *
 * **Details**
 *
 * The result contains `output`, `exit_code` and `error`, in this order. A command with a nonzero exit code is still a
 * success of the tool. `error` is set, and the call fails, only if no command was run. A command that times out returns
 * its output so far and exit code 124. A command stopped by `StopRequested` returns exit code 130.
 *
 * Checks before a command runs (approvals, dangerous commands) and redaction of its output are not part of the handler:
 * they apply to every tool.
 *
 * **Example** (An agent with a shell)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, TerminalTools } from "hermes-effect"
 *
 * const program = Agent.run({
 *   prompt: "Use the terminal tool exactly once to run 'echo hello'. Then reply with exactly the command output."
 * })
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer({ tools: [TerminalTools.toolset] })))).text)
 * // => hello
 * ```
 *
 * Source: `hermes-product.md` §2.3.
 */
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Schema from "effect/Schema"
import { CommandEnvironment, HostRequests } from "../../places/CommandEnvironment.ts"
import type { Maker } from "../../places/PseudoTerminal.ts"
import * as Annotations from "../Annotations.ts"
import * as ChangeRecording from "../ChangeRecording.ts"
import * as Danger from "../danger/Danger.ts"
import { settlePlanted } from "../approval/PlantedRequests.ts"
import { handleWallStop } from "../approval/SandboxRequests.ts"
import { ToolContext } from "../ToolContext.ts"
import * as HostApproval from "../fence/HostApproval.ts"
import * as Toolset from "../Toolset.ts"
import { expandHome } from "./file/PathRoots.ts"
import * as Fence from "./file/Fence.ts"
import * as Process from "./Process.ts"
import * as Guidance from "./terminal/Guidance.ts"
import * as TypedDeletions from "./terminal/TypedDeletions.ts"
import { ProcessRegistry } from "./terminal/ProcessRegistry.ts"
import * as Shell from "./terminal/Shell.ts"
import { TerminalSettings } from "./BuiltinSettings.ts"
import { type FinishedCommand, toExitCode, runForeground } from "./terminal/ForegroundCommand.ts"

const maxForegroundSeconds = 600

/** Parameters of the tool. */
export const Parameters = Schema.Struct({
  command: Schema.NonEmptyString.annotate({ description: "One or several lines of bash" }),
  background: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Return its session_id at once and let it run: for servers, watchers and work of more than 10 minutes. Never " +
        "with '&', nohup or setsid."
    })
  ),
  timeout: Schema.optionalKey(
    Schema.Int.check(Schema.isGreaterThanOrEqualTo(1)).annotate({
      description:
        `Seconds until a foreground command is stopped with exit_code 124. Default 180, at most ` +
        `${maxForegroundSeconds}.`
    })
  ),
  workdir: Schema.optionalKey(
    Schema.NonEmptyString.annotate({
      description: "Existing directory to run in; default: the session's working directory"
    })
  ),
  pty: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "Run on a pseudo-terminal of 80x24, for programs that need one; in the background, process types on it. " +
        "Prefer non-interactive flags."
    })
  ),
  notify_on_complete: Schema.optionalKey(
    Schema.Boolean.annotate({
      description:
        "background: tells you when the process ends, without polling. For builds and tests, not for servers."
    })
  ),
  watch_patterns: Schema.optionalKey(
    Schema.Array(Schema.NonEmptyString).annotate({
      description:
        "background: tells you when a line of output contains one of these exact texts, at most once per 15 seconds. " +
        'Choose rare texts, such as "listening on"; a process that matches all the time is no longer watched.'
    })
  )
})

/** Result for the model, with fields in this order. */
export const Result = Schema.Struct({
  output: Schema.String,
  /** Id of a background process. */
  session_id: Schema.optionalKey(Schema.String),
  pid: Schema.optionalKey(Schema.Int),
  /** Exit code. `null` in a preliminary result, because the command is still running; -1 if no command was run. */
  exit_code: Schema.NullOr(Schema.Int),
  error: Schema.NullOr(Schema.String),
  exit_code_meaning: Schema.optionalKey(Schema.String),
  pty_note: Schema.optionalKey(Schema.String),
  /** Reason why a confined environment stopped the command. */
  sandbox_note: Schema.optionalKey(Schema.String),
  /** Notice about a change of the environment: it was restarted, or it ended while the command ran. */
  environment_note: Schema.optionalKey(Schema.String),
  set_aside: Schema.optionalKey(Schema.String),
  notify_on_complete: Schema.optionalKey(Schema.Boolean),
  watch_patterns: Schema.optionalKey(Schema.Array(Schema.String)),
  hint: Schema.optionalKey(Schema.String)
})

/** See {@link Result}. */
export type Result = typeof Result.Type

const description = [
  "Runs a command line in bash; returns its output (stdout and stderr as written) and exit code. Use it for builds, " +
    "tests, git, package managers and scripts. Do not read, search or change files with it when read_file, " +
    "search_files, write_file or patch are available: they are safer and cheaper.",
  "Every call is a fresh shell: cd and variables do not carry over, so set workdir or join commands with &&. There " +
    "is no input (stdin is /dev/null) and no terminal without pty: pass flags such as -y, and do not start editors, " +
    "pagers, REPLs or password prompts. Credentials of this program are not in the environment.",
  "A foreground command must end within its timeout; what it leaves running is stopped with it. For servers and " +
    "long work pass background=true and use the process tool. Long output is cut in the middle. A non-zero exit_code " +
    "is the command's own answer: read the output before you try again."
].join("\n")

/** The tool `terminal`. */
export const Terminal = Tool.make("terminal", {
  description,
  parameters: Parameters,
  success: Result,
  failure: Result,
  failureMode: "return",
  dependencies: [ToolContext]
})
  .annotate(Tool.Readonly, false)
  .annotate(Tool.Destructive, true)
  .annotate(Annotations.OwnApproval, true)
  .annotate(Annotations.RunsPrograms, true)
  .annotate(Tool.Idempotent, false)
  .annotate(Annotations.CommandArguments, ["command"])
  .annotate(Annotations.Timeout, Duration.infinity)

const renderTooLong = (seconds: number): string =>
  `Not run: a foreground timeout is at most ${maxForegroundSeconds} s, and ${seconds} were asked for. ` +
  "Pass background=true (with notify_on_complete=true to be told of the end), or a shorter timeout."

/** Returns the result of a call whose command was not run. */
const toRefusedResult = ({ message }: Shell.NotStarted): Result => ({ output: "", exit_code: -1, error: message })

const makePtyNote = (pty: boolean | undefined, terminal: Maker | undefined) =>
  pty === true && terminal === undefined
    ? {
        pty_note:
          "There is no pseudo-terminal here; the command ran without one. It needs script (util-linux) or python3."
      }
    : {}

/** Finds the program that provides the terminal requested by a call. */
const findTerminalMaker = (
  shell: Shell.Shell,
  { pty }: typeof Parameters.Type,
  cwd: string
): Effect.Effect<Maker | undefined> => (pty === true ? shell.terminal(cwd) : Effect.undefined)

const appendMarker = (output: string, marker: string): string => (output === "" ? marker : `${output}\n${marker}`)

/** Returns the result of a command that has run. */
const toResult = (
  { outcome, output }: FinishedCommand,
  commands: ReadonlyArray<Guidance.SimpleCommand>,
  seconds: number
): Result => {
  switch (outcome._tag) {
    case "TimedOut":
      return {
        output: appendMarker(output, `[Command timed out after ${seconds} s and was stopped]`),
        exit_code: toExitCode(outcome),
        error: null
      }
    case "Stopped":
      return { output: appendMarker(output, "[Command interrupted]"), exit_code: toExitCode(outcome), error: null }
    case "Exited": {
      const { code } = outcome.exit
      const meaning = Guidance.explainExit(commands, outcome.exit)
      return { output, exit_code: code, error: null, ...(meaning === undefined ? {} : { exit_code_meaning: meaning }) }
    }
  }
}

/** Describes why a directory cannot be examined: it is missing or inaccessible, or its machine is unavailable. */
const describeWorkdirProblem = ({ reason }: PlatformError, directory: string, remedy: string): string => {
  switch (reason._tag) {
    case "PermissionDenied":
      return `workdir ${directory} cannot be entered: permission denied`
    case "Unknown":
      return `the command was not run: ${reason.description ?? `workdir ${directory} cannot be looked at`}`
    default:
      return `workdir ${directory} does not exist: ${remedy}`
  }
}

/** Services of the runtime that run commands. */
interface TerminalServices {
  readonly environment: CommandEnvironment["Service"]
  readonly shell: Shell.Shell
  /** Shell outside of the sandbox, if there is one. */
  readonly outer: Shell.Shell | undefined
  readonly registry: ProcessRegistry["Service"]
  readonly fs: FileSystem.FileSystem
  readonly path: Path.Path
}

type HandlerReturn = Effect.fn.Return<Result, Shell.NotStarted, ToolContext>

/**
 * Returns the directory in which the command runs, if it may run: `workdir` relative to the directory of the call.
 * `objection` is the reason against running, reported to the model.
 */
const admitDirectory = Effect.fnUntraced(function* (
  { environment, path, fs }: TerminalServices,
  { workdir }: typeof Parameters.Type,
  objection: string | undefined
) {
  const { cwd } = yield* ToolContext
  if (objection !== undefined) return yield* new Shell.NotStarted({ message: objection })
  const home = workdir?.startsWith("~") === true ? yield* environment.home : undefined
  const directory = path.resolve(cwd, expandHome(workdir ?? cwd, home))
  const remedy =
    workdir === undefined ? "pass a workdir that does" : `create it first, or leave it out to run in ${cwd}`
  const info = yield* fs
    .stat(directory)
    .pipe(
      Effect.mapError(
        (error) => new Shell.NotStarted({ message: describeWorkdirProblem(error, directory, remedy), cause: error })
      )
    )
  return info.type === "Directory"
    ? directory
    : yield* new Shell.NotStarted({
        message: `workdir ${directory} is not a directory: name the directory that holds it`
      })
})

/** Returns the notice of the environment as a field of a result. */
const readEnvironmentNote = (services: TerminalServices) =>
  Effect.map(services.environment.notice, (notice) => (notice === undefined ? {} : { environment_note: notice }))

const handleBackground = Effect.fnUntraced(function* (
  services: TerminalServices,
  params: typeof Parameters.Type
): HandlerReturn {
  const cwd = yield* admitDirectory(services, params, Guidance.refuseBackground(Guidance.parse(params.command)))
  const { sessionId, taskId } = yield* ToolContext
  const notify = params.notify_on_complete ?? false
  const patterns = params.watch_patterns ?? []
  const terminal = yield* findTerminalMaker(services.shell, params, cwd)
  const { id, pid } = yield* services.registry.start({
    command: params.command,
    cwd,
    terminal,
    sessionId,
    taskId,
    notifyOnComplete: notify,
    watchPatterns: patterns
  })
  return {
    output: "Background process started",
    session_id: id,
    pid,
    exit_code: 0,
    error: null,
    ...makePtyNote(params.pty, terminal),
    ...(notify ? { notify_on_complete: true } : {}),
    ...(patterns.length === 0 ? {} : { watch_patterns: patterns }),
    ...(yield* readEnvironmentNote(services)),
    hint:
      (notify ? "You are told when it ends. " : "") +
      `Check it with process(action="poll", session_id="${id}"), read it with "log", wait for its end with "wait", ` +
      'stop it with "kill".'
  }
})

const handleForeground = Effect.fnUntraced(function* (
  services: TerminalServices,
  params: typeof Parameters.Type,
  preliminary: (result: Result) => Effect.Effect<void>
): HandlerReturn {
  const { environment, outer } = services
  const { timeoutSeconds } = yield* TerminalSettings
  const seconds = params.timeout ?? Math.min(timeoutSeconds, maxForegroundSeconds)
  const commands = Guidance.parse(params.command)
  const cwd = yield* admitDirectory(
    services,
    params,
    seconds > maxForegroundSeconds ? renderTooLong(seconds) : Guidance.refuseForeground(commands)
  )
  const runIn = Effect.fnUntraced(function* (shell: Shell.Shell) {
    const terminal = yield* findTerminalMaker(shell, params, cwd)
    const ran = runForeground(environment, shell, {
      command: params.command,
      cwd,
      seconds,
      terminal,
      onProgress: (output) => preliminary({ output, exit_code: null, error: null })
    })
    const finished = yield* Danger.judge(params.command).onlyReads
      ? ran
      : ChangeRecording.observeCommand(cwd, params.command)(ran)
    return { finished, shown: { ...toResult(finished, commands, seconds), ...makePtyNote(params.pty, terminal) } }
  })
  const { finished, shown } = yield* runIn(services.shell)
  const result = { ...shown, ...(yield* readEnvironmentNote(services)), ...(yield* settlePlanted(environment)) }
  const stopped =
    toExitCode(finished.outcome) === 0 || finished.outcome._tag === "Stopped"
      ? undefined
      : yield* Effect.provideService(
          handleWallStop(environment, finished.output, (yield* HostRequests)?.refused ?? [], {
            command: params.command,
            cwd
          }),
          Path.Path,
          services.path
        )
  if (stopped === undefined) return result
  const { reason, refusal } = stopped
  if (refusal !== undefined || outer === undefined) return { ...result, sandbox_note: `${reason}. ${refusal}` }
  return {
    ...(yield* runIn(outer)).shown,
    sandbox_note: `${reason}: the command was approved to run again outside of it, and this is that result.`
  }
})

const terminal = (
  services: TerminalServices,
  params: typeof Parameters.Type,
  context: Toolkit.HandlerContext<typeof Terminal>
) =>
  Effect.mapError(
    params.background === true
      ? handleBackground(services, params)
      : handleForeground(services, params, context.preliminary),
    toRefusedResult
  )

const make = Effect.gen(function* () {
  const environment = yield* CommandEnvironment
  const services: TerminalServices = {
    environment,
    shell: yield* Shell.make,
    outer: yield* Shell.makeOutside(environment),
    registry: yield* ProcessRegistry,
    fs: yield* FileSystem.FileSystem,
    path: yield* Path.Path
  }
  return {
    terminal: (params: typeof Parameters.Type, context: Toolkit.HandlerContext<typeof Terminal>) =>
      terminal(services, params, context),
    process: yield* Process.handler
  }
})

/** Toolkit with both tools of the toolset. */
export const toolkit = Toolkit.make(Terminal, Process.Process)

/** Services of the runtime that the handlers need. */
export type Services = CommandEnvironment | ProcessRegistry | ChildProcessSpawner | FileSystem.FileSystem | Path.Path

/** Provides the handlers of {@link toolkit}. */
export const layer: Layer.Layer<
  Tool.HandlersFor<{ readonly terminal: typeof Terminal; readonly process: typeof Process.Process }>,
  never,
  Services
> = toolkit.toLayer(make)

/**
 * Selects the deletions that cannot be undone. A snapshot saves the files that a command deletes, but background
 * processes have no snapshot.
 */
const selectUncoveredLosses: Toolset.Uncovered = ({ background, command, workdir }, found) =>
  typeof command !== "string"
    ? Effect.succeed(found)
    : Effect.flatMap(ToolContext, ({ cwd }) => {
        const line =
          typeof workdir === "string" ? `cd '${workdir.replaceAll("'", String.raw`'\''`)}'\n${command}` : command
        return ChangeRecording.selectUncovered(
          line,
          cwd,
          found,
          background === true ? "it runs in the background" : undefined
        )
      })

const undoable = Toolset.withUndo(
  Toolset.make("terminal", toolkit, layer),
  Effect.succeed((tool) => (tool === "terminal" ? selectUncoveredLosses : undefined))
)

const guarded: Toolset.Toolset<never, Services> = Fence.guardCommands(
  HostApproval.guardCommands(TypedDeletions.guardInput(undoable))
)

/** The toolset `terminal`: the tools `terminal` and `process`. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | ProcessRegistry | Path.Path> =
  Toolset.inEnvironment(guarded)
