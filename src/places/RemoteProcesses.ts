/**
 * Effect's `ChildProcessSpawner` for a remote machine. The client program that connects to the machine starts the
 * processes, each with separate streams, exit code, signals and process group.
 *
 * **Details**
 *
 * The client runs one fixed script. It reads variables, directory and words from its standard input, so that they are
 * not visible in a command line. It reports the id and the process group of the process that it starts, and finally its
 * exit code, each after a random mark in the standard output, from which these reports are removed. Therefore the end
 * of a command is detected even if it leaves a process behind, and a failed client can be distinguished from a failed
 * command.
 *
 * All processes that a command starts have its mark as an environment variable. A signal is sent to the process group.
 * When the scope of a process closes, its group and all processes with its mark are killed.
 *
 * **Gotchas**
 *
 * A process that was ended by a signal has the exit code that a shell reports: 128 + the signal number. Standard
 * streams cannot be inherited.
 */
import type * as Cause from "effect/Cause"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { type PlatformError, systemError, type SystemErrorTag } from "effect/PlatformError"
import * as Queue from "effect/Queue"
import * as Redacted from "effect/Redacted"
import * as Scope from "effect/Scope"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import {
  type ChildProcessHandle,
  type ChildProcessSpawner,
  ExitCode,
  makeHandle,
  ProcessId
} from "effect/process/ChildProcessSpawner"
import * as Ids from "../base/domain/Ids.ts"
import {
  type Client,
  commandMark,
  findBytes,
  joinBytes,
  quoteWord,
  readErrors,
  type RemoteShell
} from "./RemoteShell.ts"

/** A running machine. */
export interface Machine {
  readonly client: Client
  /** Shell that holds the machine. */
  readonly shell: RemoteShell
  /**
   * Command that connects its standard streams to a port on the machine. If absent, a program on the machine is used
   * for this.
   */
  readonly tunnel?: ((port: number) => ChildProcess.StandardCommand) | undefined
}

/** Requirements for starting a command. */
interface Options {
  readonly outer: ChildProcessSpawner["Service"]
  readonly machine: Machine
  /** Creates the error for a client that ended without having started the command. */
  readonly refused: (errors: string, code: number | undefined) => PlatformError
  /** Runs when the machine is lost while a command runs. */
  readonly onLost: Effect.Effect<void>
}

const encoder = new TextEncoder()
const decoder = new TextDecoder()

/** Maximum time in which a machine must start a command. */
const startsWithin = "1 minute"
/** Maximum time in which a client must end after its command has ended. */
const clientEndsWithin = "5 seconds"

const makeFailure = (
  tag: SystemErrorTag,
  { command }: ChildProcess.StandardCommand,
  description: string
): PlatformError =>
  systemError({ _tag: tag, module: "ChildProcess", method: "spawn", pathOrDescriptor: command, description })

/** Script that reads the script to evaluate from standard input, up to the line `$1`, and evaluates it. */
const boot = [
  `n=$(printf "\\n."); n=\${n%.}; m=$1; s=`,
  `while IFS= read -r l; do [ "$l" = "$m" ] && break; s="$s$l$n"; done`,
  `eval "$s"`
].join("; ")

/** Shell code that sets `g` to the process group of the shell. */
const readGroup =
  `g=$$; if read -r l </proc/$$/stat; then l=\${l##*) }; set -- $l; g=$3; else g=$(ps -o pgid= ` +
  `-p $$ | tr -d " "); fi 2>/dev/null`

const toWords = ({ args, command, options }: ChildProcess.StandardCommand): ReadonlyArray<string> => {
  const plain = [command, ...args.map((word) => (Redacted.isRedacted(word) ? Redacted.value(word) : word))]
  return options.shell === undefined || options.shell === false ? plain : ["/bin/sh", "-c", plain.join(" ")]
}

const listDescriptors = (options: ChildProcess.CommandOptions) =>
  Object.entries(options.additionalFds ?? {}).map(([name, config]) => ({ fd: Number(name.slice(2)), config }))

/** Builds a script that runs a command and reports its progress. */
const buildScript = (command: ChildProcess.StandardCommand, mark: string, readsInput: boolean): string => {
  const buildReportLine = (text: string) => `printf '\\001%s ${text}\\n' ${mark}`
  const { cwd, env = {} } = command.options
  const list = toWords(command)
  const fds = listDescriptors(command.options)
  const variables = Object.entries(env).flatMap(([name, value]) =>
    value === undefined || !/^[A-Za-z_][A-Za-z0-9_]*$/.test(name)
      ? []
      : [`export ${name}=${quoteWord(Redacted.isRedacted(value) ? Redacted.value(value) : value)}`]
  )
  return [
    ...variables,
    `export ${commandMark}=${mark}`,
    ...(cwd === undefined ? [] : [`cd ${quoteWord(cwd)} 2>/dev/null || { ${buildReportLine("directory")}; exit 0; }`]),
    `command -v ${quoteWord(list[0] ?? "")} >/dev/null 2>&1 || { ${buildReportLine("program")}; exit 0; }`,
    ...(fds.length === 0
      ? ["d="]
      : [`d=$(mktemp -d) && mkfifo ${fds.map(({ fd }) => `"$d/${fd}"`).join(" ")} || exit 1`]),
    readGroup,
    // Signals are deferred while the command runs and not passed on to it: the shell outlives the command and reports
    // its exit code.
    "trap : HUP INT TERM",
    `${buildReportLine("started %s %s %s")} $$ "$g" "$d"`,
    [
      ...list.map(quoteWord),
      ...(readsInput ? [] : ["</dev/null"]),
      ...fds.map(({ config, fd }) => `${fd}${config.type === "input" ? "<" : ">"}"$d/${fd}"`)
    ].join(" "),
    "c=$?",
    `[ -z "$d" ] || rm -rf "$d"`,
    `${buildReportLine("ended %s")} $c`,
    "exit $c"
  ].join("\n")
}

/**
 * Builds a script that kills a process group and all processes with a mark, including those that have left the group.
 */
const buildSweepScript = (group: string, mark: string): string => `
kill -KILL -${group} 2>/dev/null
for round in 1 2 3 4 5; do
  if command -v grep >/dev/null; then found=$(grep -lsF ${commandMark}=${mark} /proc/[0-9]*/environ)
  else found=; for e in /proc/[0-9]*/environ; do if { read -r text || [ -n "$text" ]; } <"$e"; then case $text in *${commandMark}=${mark}*) found="$found $e" ;; esac; fi; done; fi
  [ -n "$found" ] || break
  for e in $found; do e=\${e#/proc/}; kill -KILL "\${e%/environ}"; done
done 2>/dev/null`

/** Reports of the script. */
type Report =
  | { readonly _tag: "Started"; readonly pid: number; readonly group: string; readonly pipes: string }
  | { readonly _tag: "Missing"; readonly what: "directory" | "program" }
  | { readonly _tag: "Ended"; readonly code: number }

const parseReport = (line: string): Report => {
  const [kind, ...rest] = line.split(" ")
  switch (kind) {
    case "started":
      return {
        _tag: "Started",
        pid: Number(rest[0]),
        group: /^\d+$/.test(rest[1] ?? "") ? (rest[1] ?? "") : (rest[0] ?? ""),
        pipes: rest[2] ?? ""
      }
    case "ended":
      return { _tag: "Ended", code: Number(rest[0]) }
    default:
      return { _tag: "Missing", what: kind === "directory" ? "directory" : "program" }
  }
}

/**
 * Removes the reports from a standard output. Text before the first report is a greeting of the machine. Pure except
 * for its buffer.
 */
const makeReader = (mark: string): ((bytes: Uint8Array) => ReadonlyArray<Uint8Array | Report>) => {
  const begin = encoder.encode(`\u0001${mark} `)
  let rest: Uint8Array = new Uint8Array(0)
  let isGreeting = true
  return (bytes) => {
    const out: Array<Uint8Array | Report> = []
    rest = joinBytes([rest, bytes])
    for (;;) {
      const at = findBytes(rest, begin, 0)
      const end = at === -1 ? -1 : rest.indexOf(0x0a, at)
      if (end === -1) {
        // The end of the buffer may contain the beginning of a report.
        const possible = at !== -1 ? at : rest.indexOf(0x01, Math.max(0, rest.length - begin.length))
        const cut = possible === -1 ? rest.length : possible
        if (!isGreeting && cut > 0) out.push(rest.slice(0, cut))
        rest = rest.slice(cut)
        return out
      }
      if (!isGreeting && at > 0) out.push(rest.slice(0, at))
      out.push(parseReport(decoder.decode(rest.subarray(at + begin.length, end))))
      isGreeting = false
      rest = rest.slice(end + 1)
    }
  }
}

/** Creates the standard input of a command, and the sink for the caller's writes. */
const makeInput = (given: ChildProcess.CommandOptions["stdin"]) => {
  const config =
    given === undefined || typeof given === "string" || Stream.isStream(given)
      ? { stream: given ?? "pipe", endOnDone: true }
      : given
  if (typeof config.stream !== "string") {
    return Effect.succeed({ reads: true, stream: config.stream, sink: Sink.drain })
  }
  if (config.stream !== "pipe") return Effect.succeed({ reads: false, stream: Stream.empty, sink: Sink.drain })
  return Effect.map(Queue.bounded<Uint8Array, Cause.Done>(16), (queue) => ({
    reads: true,
    stream: Stream.fromQueue(queue),
    sink: Sink.forEach((bytes: Uint8Array) => Queue.offer(queue, bytes)).pipe((sink) =>
      config.endOnDone === false ? sink : Sink.ensuring(sink, Queue.end(queue))
    )
  }))
}

const isPiped = (given: ChildProcess.CommandOptions["stdout"] | ChildProcess.CommandOptions["stderr"]): boolean => {
  const stream = given === undefined || typeof given === "string" || Sink.isSink(given) ? given : given.stream
  return stream === undefined || stream === "pipe"
}

/** A command on its way to the machine, and its events. */
interface StartingCommand {
  readonly started: Deferred.Deferred<Extract<Report, { _tag: "Started" }>, PlatformError>
  readonly ended: Deferred.Deferred<ExitCode, PlatformError>
  readonly stdout: Queue.Queue<Uint8Array, Cause.Done>
  readonly stderr: Queue.Queue<Uint8Array, Cause.Done>
}

/** Notes a report of the script that runs the command. */
const noteReport = (
  { ended, started }: StartingCommand,
  command: ChildProcess.StandardCommand,
  report: Report
): Effect.Effect<unknown> => {
  switch (report._tag) {
    case "Started":
      return Deferred.succeed(started, report)
    case "Missing":
      return Deferred.fail(
        started,
        makeFailure(
          "NotFound",
          command,
          report.what === "program"
            ? `${command.command} is not installed in this environment`
            : `there is no directory ${command.options.cwd}`
        )
      )
    case "Ended":
      return Deferred.succeed(ended, ExitCode(report.code))
  }
}

/** Notes the end of the client. If the script did not report an end, its shell or the machine was killed. */
const noteClientEnd = Effect.fnUntraced(function* (
  { machine: { shell }, onLost, refused }: Options,
  { ended, started }: StartingCommand,
  errors: Effect.Effect<string>,
  exit: Exit.Exit<ExitCode, unknown>
) {
  const code = Exit.isSuccess(exit) ? Number(exit.value) : undefined
  yield* Deferred.fail(started, refused(yield* errors, code))
  const isLost =
    !(yield* Deferred.isDone(ended)) &&
    (!shell.isOpen() || (yield* Effect.timeoutOption(shell.ended, "500 millis"))._tag === "Some")
  if (isLost) yield* onLost
  yield* Deferred.succeed(ended, ExitCode(code ?? 137))
})

/** Starts the client of a command, and follows its output and its reports in the background. */
const startClient = Effect.fnUntraced(function* (
  options: Options,
  command: ChildProcess.StandardCommand,
  mark: string,
  stdin: Stream.Stream<Uint8Array, PlatformError>
) {
  const starting: StartingCommand = {
    started: yield* Deferred.make<Extract<Report, { _tag: "Started" }>, PlatformError>(),
    ended: yield* Deferred.make<ExitCode, PlatformError>(),
    stdout: yield* Queue.bounded<Uint8Array, Cause.Done>(16),
    stderr: yield* Queue.bounded<Uint8Array, Cause.Done>(16)
  }
  const { stderr, stdout } = starting
  const reached = options.machine.client(boot, [mark])
  const handle = yield* options.outer.spawn(
    ChildProcess.make(reached.command, reached.args, { ...reached.options, stdin, killSignal: "SIGKILL" })
  )
  const hasErrors = isPiped(command.options.stderr)
  const errors = yield* readErrors(handle.stderr, (bytes) => (hasErrors ? Queue.offer(stderr, bytes) : Effect.void))
  yield* Effect.forkScoped(Effect.andThen(errors.ended, Queue.end(stderr)))
  const read = makeReader(mark)
  const hasOutput = isPiped(command.options.stdout)
  const notePart = (part: Uint8Array | Report): Effect.Effect<unknown> => {
    if (!(part instanceof Uint8Array)) return noteReport(starting, command, part)
    return hasOutput ? Queue.offer(stdout, part) : Effect.void
  }
  yield* Stream.runForEach(handle.stdout, (bytes) => Effect.forEach(read(bytes), notePart, { discard: true })).pipe(
    Effect.ignore,
    Effect.andThen(Queue.end(stdout)),
    Effect.andThen(Effect.exit(handle.exitCode)),
    Effect.flatMap((exit) => noteClientEnd(options, starting, errors.text, exit)),
    Effect.forkScoped
  )
  return { handle, starting }
})

/** Opens the other descriptors of a command, each through the client of its pipe. */
const openPipes = Effect.fnUntraced(function* (
  { machine: { client }, outer }: Options,
  command: ChildProcess.StandardCommand,
  pipes: string
) {
  const outputs = new Map<number, Stream.Stream<Uint8Array, PlatformError>>()
  const inputs = new Map<number, Sink.Sink<void, Uint8Array, never, PlatformError>>()
  for (const { config, fd } of listDescriptors(command.options)) {
    const through = client(`exec cat ${config.type === "input" ? ">" : "<"}"$1"`, [`${pipes}/${fd}`])
    const stream = config.type === "input" ? config.stream : undefined
    const other = yield* outer.spawn(
      ChildProcess.make(through.command, through.args, {
        ...through.options,
        ...(stream === undefined ? {} : { stdin: stream }),
        killSignal: "SIGKILL"
      })
    )
    if (config.type === "input") inputs.set(fd, other.stdin)
    else outputs.set(fd, other.stdout)
  }
  return { inputs, outputs }
})

/** Starts one command. */
export const spawn = Effect.fnUntraced(function* (
  options: Options,
  command: ChildProcess.StandardCommand
): Effect.fn.Return<ChildProcessHandle, PlatformError, Scope.Scope> {
  const { shell } = options.machine
  const mark = shell.mark + (yield* Ids.makeHex(16))
  const input = yield* makeInput(command.options.stdin)
  const header = encoder.encode(`${buildScript(command, mark, input.reads)}\n${mark}\n`)
  const { handle, starting } = yield* startClient(
    options,
    command,
    mark,
    Stream.concat(Stream.succeed(header), input.stream)
  )
  const { ended, stderr, stdout } = starting
  const { group, pid, pipes } = yield* Deferred.await(starting.started).pipe(
    Effect.timeoutOrElse({
      duration: startsWithin,
      orElse: () => Effect.fail(makeFailure("TimedOut", command, `the command was not started within ${startsWithin}`))
    })
  )
  // A lost machine has no processes left to kill.
  const end = Effect.ignore(shell.run(buildSweepScript(group, mark)))
  yield* Effect.addFinalizer(() =>
    end.pipe(Effect.andThen(Effect.timeoutOption(Effect.ignore(handle.exitCode), clientEndsWithin)))
  )
  const kill = Effect.fnUntraced(function* ({
    forceKillAfter,
    killSignal = command.options.killSignal ?? "SIGTERM"
  }: ChildProcess.KillOptions = {}) {
    yield* Effect.ignore(shell.run(`kill -${killSignal.replace("SIG", "")} -${group}`))
    const wait = Effect.ignore(Deferred.await(ended))
    yield* forceKillAfter === undefined
      ? wait
      : Effect.timeoutOption(wait, Duration.max(Duration.fromInputUnsafe(forceKillAfter), Duration.zero))
    yield* end
    yield* wait
  })
  const { inputs, outputs } = yield* openPipes(options, command, pipes)
  return makeHandle({
    pid: ProcessId(pid),
    exitCode: Deferred.await(ended),
    isRunning: Effect.map(Deferred.isDone(ended), (done) => !done),
    kill,
    stdin: input.sink,
    stdout: Stream.fromQueue(stdout),
    stderr: Stream.fromQueue(stderr),
    all: Stream.merge(Stream.fromQueue(stdout), Stream.fromQueue(stderr)),
    getInputFd: (fd) => inputs.get(fd) ?? Sink.drain,
    getOutputFd: (fd) => outputs.get(fd) ?? Stream.empty,
    // The process belongs to its client, which belongs to this program.
    unref: Effect.succeed(Effect.void)
  })
})
