/**
 * Handlers of the toolset `terminal`, in the runtime's environment and under its fences. `TerminalTools` loads this
 * module when the toolset is bound.
 */
import type * as Toolkit from "effect/ai/Toolkit"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { CommandEnvironment, HostRequests } from "../../../places/CommandEnvironment.ts"
import type { Maker } from "../../../places/PseudoTerminal.ts"
import * as ChangeRecording from "../../ChangeRecording.ts"
import * as Danger from "../../danger/Danger.ts"
import { settlePlanted } from "../../approval/PlantedRequests.ts"
import { handleWallStop } from "../../approval/SandboxRequests.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as HostApproval from "../../fence/HostApproval.ts"
import * as Toolset from "../../Toolset.ts"
import { expandHome } from "../file/PathRoots.ts"
import * as Fence from "../file/Fence.ts"
import * as Process from "../Process.ts"
import * as Guidance from "./Guidance.ts"
import * as TypedDeletions from "./TypedDeletions.ts"
import { ProcessRegistry } from "./ProcessRegistry.ts"
import * as Shell from "./Shell.ts"
import { TerminalSettings } from "../BuiltinSettings.ts"
import { type FinishedCommand, toExitCode, runForeground } from "./ForegroundCommand.ts"
import { maxForegroundSeconds, type Parameters, type Result, Terminal } from "./TerminalTool.ts"
import { type Services, toolkit } from "../TerminalTools.ts"

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

/** Provides the handlers of the toolkit. */
export const layer = toolkit.toLayer(make)

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

/** The toolset with its handlers. */
export const toolset: Toolset.Toolset<never, CommandEnvironment | ProcessRegistry | Path.Path> =
  Toolset.inEnvironment(guarded)
