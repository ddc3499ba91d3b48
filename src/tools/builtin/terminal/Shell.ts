/**
 * Starts a command line in a new shell, reads its output, and terminates its whole process tree when its scope closes.
 *
 * **Details**
 *
 * The shell is `/bin/bash -c` if it exists, otherwise `/bin/sh -c`. It is neither a login nor an interactive shell, so
 * that no profile slows down or changes a command. Standard error and standard output share one pipe, which preserves
 * their order. The command leads its own process group. Closing the scope sends SIGTERM to the group, SIGKILL to the
 * remaining processes after two seconds, and SIGKILL to descendants that left the group.
 *
 * A start that fails for lack of a resource is retried after 2, 4 and 8 seconds.
 *
 * Source: `hermes-product.md` §2.3, `hermes-llm.md` §19.10.
 */
import type * as Arr from "effect/Array"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as PlatformError from "effect/PlatformError"
import * as Predicate from "effect/Predicate"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { type ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as Ids from "../../../base/domain/Ids.ts"
import { ProcessPlace, type Service as Environment } from "../../../places/CommandEnvironment.ts"
import * as PseudoTerminal from "../../../places/PseudoTerminal.ts"
import * as StartedProcess from "./StartedProcess.ts"
import { TerminalSettings } from "../BuiltinSettings.ts"

/**
 * Maximum length of an argument that the system accepts (Linux `MAX_ARG_STRLEN`, including the terminating null byte).
 */
const maxCommandBytes = 128 * 1024 - 1

/** Error raised when the command was not run. */
export class NotStarted extends Schema.TaggedError<NotStarted>("hermes-effect/terminal/NotStarted")("NotStarted", {
  message: Schema.String,
  cause: Schema.optional(Schema.Defect())
}) {}

/** Command to start. */
interface Command {
  readonly command: string
  /** Absolute path of an existing directory. */
  readonly cwd: string
  readonly stdin: ChildProcess.CommandInput
  readonly onOutput: (chunks: Arr.NonEmptyReadonlyArray<Uint8Array>) => Effect.Effect<void>
  /** Maker of the terminal in which the command runs ({@link Shell.terminal}). */
  readonly terminal?: PseudoTerminal.Maker | undefined
  /** Mark of all processes that the command starts, so that none of them outlives the scope. */
  readonly mark?: string | undefined
}

/** Exit of a command. After a signal, the code is 128 + the signal's number, as in a shell. */
export interface Exit {
  readonly code: number
  readonly signal: string | undefined
}

/** A started command. */
interface RunningCommand {
  readonly pid: number
  /** Waits for the command to end and for the remaining output in the pipe. */
  readonly exit: Effect.Effect<Exit>
  /** Terminates the process tree and waits until it is gone. */
  readonly kill: Effect.Effect<void>
}

/**
 * Starts a command line in a new shell, reads its output, and terminates its whole process tree when its scope closes.
 */
export interface Shell {
  readonly start: (command: Command) => Effect.Effect<RunningCommand, NotStarted, Scope.Scope>
  /** Finds a program that provides terminals for commands in a directory, if any. */
  readonly terminal: (cwd: string) => Effect.Effect<PseudoTerminal.Maker | undefined>
}

const transientCodes = new Set(["EAGAIN", "ENOMEM", "EMFILE", "ENFILE", "EBUSY", "ETXTBSY", "EINTR"])

const readErrorCode = (error: PlatformError.PlatformError): string | undefined => {
  const { cause } = error.reason
  return Predicate.hasProperty(cause, "code") && typeof cause.code === "string" ? cause.code : undefined
}

const isTransient = (error: PlatformError.PlatformError): boolean => transientCodes.has(readErrorCode(error) ?? "")

/** Schedule for starting a command again while the system has no resources for a process: after 2, 4 and 8 seconds. */
const retries = Schedule.exponential("2 seconds").pipe(Schedule.upTo({ times: 3 }))

const toNotStarted = (error: PlatformError.PlatformError): NotStarted =>
  new NotStarted({
    message: isTransient(error)
      ? `the system cannot start a process now (${readErrorCode(error)}): end some of the running ones, then try again`
      : `the command could not be started: ${readErrorCode(error) ?? error.reason.description ?? error.message}`,
    cause: error
  })

/** Signal numbers that are equal on all supported systems. */
const signalNumbers: Readonly<Record<string, number>> = {
  SIGHUP: 1,
  SIGINT: 2,
  SIGQUIT: 3,
  SIGILL: 4,
  SIGTRAP: 5,
  SIGABRT: 6,
  SIGFPE: 8,
  SIGKILL: 9,
  SIGSEGV: 11,
  SIGPIPE: 13,
  SIGALRM: 14,
  SIGTERM: 15
}

/** The platform names the signal only in the message of the error. */
const toSignalExit = (error: PlatformError.PlatformError): Exit => {
  const text = error.reason.cause instanceof Error ? error.reason.cause.message : error.message
  const signal = /SIG[A-Z0-9]+/.exec(text)?.[0]
  return { code: 128 + (signal === undefined ? 0 : (signalNumbers[signal] ?? 0)), signal: signal ?? "a signal" }
}

const quietMillis = 100
const quietRounds = 3
const maxRounds = 20

/** Schedule of the checks for further output of a command that has ended: 20 in all. */
const rounds = Schedule.spaced(quietMillis).pipe(Schedule.upTo({ times: maxRounds - 1 }))

/**
 * Waits for the end of the output, but not for processes that inherited the pipe and outlive the command: it stops
 * waiting after a period without output.
 */
const drainOutput = (reader: Fiber.Fiber<void>, received: () => number): Effect.Effect<unknown> =>
  Effect.raceFirst(
    Fiber.await(reader),
    Effect.suspend(() => {
      let quiet = 0
      let seen = received()
      const isQuiet = Effect.sync(() => {
        quiet = received() === seen ? quiet + 1 : 0
        seen = received()
        return quiet >= quietRounds
      })
      return isQuiet.pipe(Effect.repeat({ until: (quiet) => quiet, schedule: rounds }), Effect.delay(quietMillis))
    })
  )

/** The machine of a shell, and the programs found on it. */
interface ShellHost {
  readonly spawner: ChildProcessSpawner["Service"]
  readonly fs: FileSystem.FileSystem
  /** Services for killing processes. */
  readonly taking: Context.Context<FileSystem.FileSystem>
  known: "/bin/bash" | "/bin/sh" | undefined
  maker: PseudoTerminal.Maker | undefined
}

/** Finds the program that runs commands. */
const findShell = (host: ShellHost): Effect.Effect<string> =>
  Effect.suspend(() =>
    host.known !== undefined
      ? Effect.succeed(host.known)
      : host.fs.exists("/bin/bash").pipe(
          Effect.map((exists) => {
            host.known = exists ? "/bin/bash" : "/bin/sh"
            return host.known
          }),
          // A file that cannot be examined cannot be run either; an unavailable machine may be available for the next
          // command.
          Effect.orElseSucceed(() => "/bin/sh")
        )
  )

/** Terminates a process and its children, if it still runs. */
const killTree = ({ taking }: ShellHost, handle: ChildProcessHandle): Effect.Effect<void> =>
  Effect.orElseSucceed(handle.isRunning, () => false).pipe(
    Effect.flatMap((isRunning) => (isRunning ? StartedProcess.takeDown(handle, "SIGTERM") : Effect.void)),
    Effect.provideContext(taking)
  )

const spawn = Effect.fnUntraced(function* (
  { spawner }: ShellHost,
  { cwd, mark, stdin }: Command,
  words: ReadonlyArray<string>
) {
  const settings = yield* TerminalSettings
  return yield* spawner
    .spawn(
      ChildProcess.make("/bin/sh", words, {
        cwd,
        env: yield* StartedProcess.inheritEnvironment(settings.environment, mark),
        stdin,
        stderr: "ignore",
        detached: true,
        killSignal: "SIGTERM",
        forceKillAfter: StartedProcess.forceKillAfter
      })
    )
    .pipe(
      // Node throws some system errors (E2BIG, ENOMEM) instead of reporting them.
      Effect.catchDefect((defect) =>
        Effect.fail(
          PlatformError.systemError({ _tag: "Unknown", module: "ChildProcess", method: "spawn", cause: defect })
        )
      )
    )
})

/** Returns the arguments of the outer shell for a command, unless they are too long. */
const buildWords = (command: Command, program: string): Effect.Effect<ReadonlyArray<string>, NotStarted> => {
  // The outer shell only joins the two outputs; `exec` replaces it with the command's shell, or with the program that
  // creates the terminal.
  const words =
    command.terminal === undefined
      ? ["-c", 'exec "$0" -c "$1" 2>&1', program, command.command]
      : PseudoTerminal.buildShellArguments(command.terminal, program, command.command)
  const bytes = new TextEncoder().encode(words.at(-1)).length
  return bytes <= maxCommandBytes
    ? Effect.succeed(words)
    : Effect.fail(
        new NotStarted({
          message:
            `the command is too long (${bytes} bytes, ${maxCommandBytes} at most): write it to a file and run the ` +
            "file"
        })
      )
}

/** Passes on the output of a process. Returns its exit, after which no output follows. */
const followOutput = Effect.fnUntraced(function* (handle: ChildProcessHandle, { onOutput }: Command) {
  let received = 0
  const reader = yield* Stream.runForEachArray(handle.stdout, (chunks) => {
    received += chunks.length
    return onOutput(chunks)
  }).pipe(
    // The pipe broke: the output ends here, but the exit code is still available.
    Effect.ignore,
    Effect.forkScoped
  )
  return handle.exitCode.pipe(
    Effect.map((code): Exit => ({ code, signal: undefined })),
    Effect.catch((error) => Effect.succeed(toSignalExit(error))),
    Effect.tap(drainOutput(reader, () => received))
  )
})

const start = (host: ShellHost): Shell["start"] =>
  Effect.fnUntraced(function* (command) {
    const words = yield* buildWords(command, yield* findShell(host))
    // A terminal has a separate session, which signals to the process group do not reach.
    const mark = command.mark ?? (command.terminal === undefined ? undefined : yield* Ids.makeHex(32))
    const handle = yield* spawn(host, { ...command, mark }, words).pipe(
      Effect.retry({ schedule: retries, while: isTransient }),
      Effect.mapError(toNotStarted)
    )
    if (mark !== undefined)
      yield* Effect.addFinalizer(() => Effect.provideContext(StartedProcess.killMarked(mark), host.taking))
    yield* Effect.addFinalizer(() => killTree(host, handle))
    return { pid: handle.pid, exit: yield* followOutput(handle, command), kill: killTree(host, handle) }
  })

const terminal = (host: ShellHost): Shell["terminal"] =>
  Effect.fnUntraced(function* (cwd) {
    const { environment } = yield* TerminalSettings
    // If no program was found, it is searched for again, because a command may have installed one.
    host.maker ??= yield* PseudoTerminal.findMaker({
      cwd,
      env: yield* StartedProcess.inheritEnvironment(environment, undefined)
    }).pipe(Effect.provideService(ChildProcessSpawner, host.spawner))
    return host.maker
  })

/** Creates a shell on this platform's processes. */
export const make: Effect.Effect<Shell, never, ChildProcessSpawner | FileSystem.FileSystem> = Effect.gen(function* () {
  const spawner = yield* ChildProcessSpawner
  const fs = yield* FileSystem.FileSystem
  const taking = Context.make(FileSystem.FileSystem, fs).pipe(Context.add(ProcessPlace, yield* ProcessPlace))
  const host: ShellHost = { spawner, fs, taking, known: undefined, maker: undefined }
  return { start: start(host), terminal: terminal(host) }
})

/**
 * Creates a shell outside the sandbox, for commands that the user permits; returns `undefined` if there is no sandbox.
 */
export const makeOutside = ({ outside }: Environment): Effect.Effect<Shell | undefined> =>
  outside === undefined
    ? Effect.undefined
    : make.pipe(
        Effect.provideService(ChildProcessSpawner, outside.spawner),
        Effect.provideService(FileSystem.FileSystem, outside.files)
      )
