/**
 * An environment without a machine: files in memory, and commands scripted by a test.
 *
 * **Details**
 *
 * A command line is compared with the script in order, and the first match is used. A string matches the same line, or
 * the line inside `sh -c`; a regular expression matches as usual. A command without a match exits with 127, like a
 * missing program. {@link Commands} records the commands.
 *
 * **Example** (A command for the tool `terminal`)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { CommandEnvironment } from "hermes-effect"
 * import { ScriptedEnvironment } from "hermes-effect/testing"
 *
 * const environment = ScriptedEnvironment.layer({
 *   files: { "/work/a.txt": "a" },
 *   commands: [{ line: /^git status/, out: "clean\n" }]
 * })
 *
 * const program = Effect.map(CommandEnvironment.CommandEnvironment, ({ name }) => name)
 *
 * console.log(await Effect.runPromise(Effect.provide(program, environment)))
 * // => local
 * ```
 */
import * as Context from "effect/Context"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Sink from "effect/Sink"
import * as Stream from "effect/Stream"
import type * as ChildProcess from "effect/process/ChildProcess"
import * as ChildProcessSpawner from "effect/process/ChildProcessSpawner"
import { CommandEnvironment, onThisMachine, type Service } from "../../places/CommandEnvironment.ts"
import * as PortAddress from "../../places/PortAddress.ts"
import * as MemoryFiles from "./MemoryFiles.ts"

/** A command and its behavior. */
export interface ScriptedCommand {
  readonly line: string | RegExp
  readonly out?: string | undefined
  readonly err?: string | undefined
  /** Exit code. Default: 0. */
  readonly code?: number | undefined
  /** True if the command runs until it is stopped. */
  readonly hangs?: boolean | undefined
}

/** A command that was run. */
export interface CommandRun {
  readonly line: string
  readonly directory: string | undefined
}

/** The commands run so far, in the order in which they started. */
export class Commands extends Context.Service<Commands, Effect.Effect<ReadonlyArray<CommandRun>>>()(
  "hermes-effect/testing/Commands"
) {}

/** Files and commands of an environment. Both default to empty. */
export interface Options {
  readonly files?: MemoryFiles.Contents | undefined
  readonly commands?: ReadonlyArray<ScriptedCommand> | undefined
}

const formatLine = (command: ChildProcess.StandardCommand): string =>
  [
    command.command,
    ...command.args.map((word) => (Redacted.isRedacted(word) ? String(Redacted.value(word)) : String(word)))
  ].join(" ")

const isMatch = (line: string, pattern: string | RegExp): boolean => {
  const inner = / -l?c (.*)$/s.exec(line)?.[1]
  return [line, ...(inner === undefined ? [] : [inner])].some((one) =>
    typeof pattern === "string" ? one === pattern : pattern.test(one)
  )
}

const encodeText = (text: string) => (text === "" ? Stream.empty : Stream.make(new TextEncoder().encode(text)))

/** Creates a spawner that runs the commands of a script, and reports each command. */
export const makeSpawner = (
  commands: ReadonlyArray<ScriptedCommand>,
  onRun: (ran: CommandRun) => void = () => {}
): ChildProcessSpawner.ChildProcessSpawner["Service"] => {
  let processes = 0
  const startCommand = (command: ChildProcess.Command): Effect.Effect<ChildProcessSpawner.ChildProcessHandle> =>
    Effect.gen(function* () {
      if (command._tag === "PipedCommand") yield* startCommand(command.left)
      const own = command._tag === "PipedCommand" ? command.right : command
      if (own._tag === "PipedCommand") return yield* startCommand(own)
      const line = formatLine(own)
      onRun({ line, directory: own.options.cwd })
      const {
        code = 0,
        err = "",
        hangs = false,
        out = ""
      } = commands.find((one) => isMatch(line, one.line)) ?? {
        code: 127,
        err: `${own.command}: not in the script of this test\n`
      }
      const ended = yield* Deferred.make<number>()
      if (!hangs) yield* Deferred.succeed(ended, code)
      const holdUntilEnd = <A>(stream: Stream.Stream<A>): Stream.Stream<A> =>
        hangs ? Stream.concat(stream, Stream.drain(Stream.fromEffect(Deferred.await(ended)))) : stream
      return ChildProcessSpawner.makeHandle({
        pid: ChildProcessSpawner.ProcessId(++processes),
        exitCode: Effect.map(Deferred.await(ended), ChildProcessSpawner.ExitCode),
        isRunning: Effect.map(Deferred.isDone(ended), (isOver) => !isOver),
        kill: () => Effect.asVoid(Deferred.succeed(ended, 143)),
        stdin: Sink.drain,
        stdout: holdUntilEnd(encodeText(out)),
        stderr: holdUntilEnd(encodeText(err)),
        all: holdUntilEnd(encodeText(out + err)),
        getInputFd: () => Sink.drain,
        getOutputFd: () => Stream.empty,
        unref: Effect.succeed(Effect.void)
      })
    })
  return ChildProcessSpawner.make((command) =>
    Effect.acquireRelease(startCommand(command), (handle) => Effect.ignore(handle.kill()))
  )
}

/** Creates the layer of an environment for a test, which records its commands. */
export const layer = ({ commands = [], files: contents = {} }: Options = {}): Layer.Layer<
  CommandEnvironment | Commands
> =>
  Layer.effectContext(
    Effect.map(MemoryFiles.make(contents), (files) => {
      const ran: Array<CommandRun> = []
      const own = makeSpawner(commands, (one) => void ran.push(one))
      const environment: Service = {
        ...onThisMachine,
        name: "local",
        isConfined: false,
        description: undefined,
        reach: "none",
        explain: () => undefined,
        forward: PortAddress.toLocalAddress,
        trees: { place: "here", spawner: own, files },
        spawner: own,
        outside: undefined,
        files
      }
      return Context.make(CommandEnvironment, environment).pipe(
        Context.add(
          Commands,
          Effect.sync(() => [...ran])
        )
      )
    })
  )
