/**
 * An environment on another machine, over the system's `ssh`: one connection that every command and every file shares.
 *
 * **Details**
 *
 * The user's own `ssh` configuration applies (aliases, jumps, keys, host key checks), without prompts: a connection
 * that needs an answer fails with the remedy. The key agent, the display and local ports are not forwarded. The first
 * command opens the connection. It is closed after a time without use, and opened again if it broke.
 *
 * **Gotchas**
 *
 * Commands on the other machine are not confined. It needs a POSIX shell and the tools of GNU or BusyBox. A command may
 * continue to run when the connection breaks.
 *
 * **Example** (An agent that works on another machine)
 *
 * ```ts
 * import * as Duration from "effect/Duration"
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, TerminalTools } from "hermes-effect"
 * import { SshHost } from "hermes-effect/environments"
 *
 * const environment = SshHost.layer({ host: "build.example.com", user: "ada", directory: "/home/ada/project", lifetime: Duration.minutes(5) })
 *
 * export const program = Agent.run({ prompt: "Run the tests." }).pipe(
 *   Effect.provide(Runtime.layer({ environment, tools: [TerminalTools.toolset] }))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §3.
 */
import type * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import { CommandEnvironment, RemoteDirectory } from "./CommandEnvironment.ts"
import * as RemoteEnvironment from "./RemoteEnvironment.ts"
import * as RemoteShell from "./RemoteShell.ts"

/** Another machine. */
export interface Options {
  /** Name, address, or alias of the user's configuration. */
  readonly host: string
  readonly user?: string | undefined
  readonly port?: number | undefined
  /** File of a private key. */
  readonly key?: string | undefined
  /** Working directory there, absolute. Default: the user's home directory there. */
  readonly directory?: string | undefined
  /** Variables of this program that commands receive. */
  readonly forwarded?: ReadonlyArray<string> | undefined
  /** Time without use after which the connection is closed. */
  readonly lifetime: Duration.Duration
  /** Further arguments of `ssh`. */
  readonly extraArguments?: ReadonlyArray<string> | undefined
}

const makeUnavailableError = (path: string, reason: string, remedy: string): ConfigError =>
  new ConfigError({
    path,
    message: `${path}: ${reason}. Remedy: ${remedy}, or set terminal.backend to sandbox or local`
  })

/** Arguments of every connection, before the user's: the first of two takes effect. */
const fixedArguments = [
  "BatchMode=yes",
  "ConnectTimeout=10",
  "ServerAliveInterval=15",
  "ServerAliveCountMax=3",
  "ForwardAgent=no",
  "ForwardX11=no",
  "ClearAllForwardings=yes",
  "PermitLocalCommand=no",
  "RequestTTY=no",
  "RemoteCommand=none",
  "LogLevel=ERROR"
].flatMap((option) => ["-o", option])

/** Sentence about a connection that failed. */
const describeFailure = ({ host, key, port, user }: Options, errors: string): string => {
  const where = `${user === undefined ? "" : `${user}@`}${host}${port === undefined ? "" : `:${port}`}`
  const by = `ssh ${port === undefined ? "" : `-p ${port} `}${user === undefined ? "" : `${user}@`}${host}`
  if (/host key verification failed|REMOTE HOST IDENTIFICATION/i.test(errors))
    return `${where}: the key of the host is not known or has changed: check it, and connect once by \`${by}\``
  if (/permission denied/i.test(errors))
    return (
      `${where}: no key is accepted${key === undefined ? "" : ` (terminal.ssh_key: ${key})`}: set ` +
      "terminal.ssh_user and terminal.ssh_key, or load the key into your agent"
    )
  const last = TextCut.takeHead(errors.trim().split("\n").at(-1) ?? "", 300)
  return `${where} cannot be reached: ${last === "" ? "the connection was closed" : last}`
}

/** Description of another machine for the model that works there. */
export const describeHost = ({ directory = "the user's home directory there", host }: Options): string =>
  `Commands and file tools work on the machine ${host}, in ${directory}. Files of the machine that you are ` +
  "started on are not there."

/** Environment on another machine. Fails if `ssh` is not installed here. The first command connects. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const fs = yield* FileSystem.FileSystem
  const outer = yield* ChildProcessSpawner
  const { host, key, port, user } = options
  if (host === "" || host.startsWith("-") || user?.startsWith("-") === true)
    return yield* makeUnavailableError("terminal.ssh_host", `"${host}" is not the name of a host`, "name one")
  const found = yield* Effect.result(
    TrustedPrograms.find("ssh").pipe(
      Effect.tap((program) => outer.exitCode(ChildProcess.make(program, ["-V"], { stdin: "ignore" })))
    )
  )
  if (found._tag === "Failure")
    return yield* makeUnavailableError("terminal.backend", "ssh is not installed", "install the OpenSSH client")
  if (key !== undefined && !(yield* Effect.orElseSucceed(fs.exists(key), () => false)))
    return yield* makeUnavailableError("terminal.ssh_key", `there is no ${key}`, "name the file of a private key")
  const ssh = found.success
  // A ProxyCommand of the user's configuration is found in trusted directories too.
  const surroundings = { cwd: "/", env: { PATH: yield* TrustedPrograms.safePath }, extendEnv: true }

  const destination = [
    ...(port === undefined ? [] : ["-p", String(port)]),
    ...(user === undefined ? [] : ["-l", user]),
    ...(key === undefined ? [] : ["-i", key]),
    ...(options.extraArguments ?? []),
    "--",
    host
  ]
  let home = "/"

  const start = Effect.fnUntraced(
    function* () {
      // The path of a socket has to be short, and the user's directory for temporary files may not be.
      const sockets = yield* fs.makeTempDirectoryScoped({ directory: "/tmp", prefix: "hermes-ssh-" })
      const makeClient =
        (...how: ReadonlyArray<string>): RemoteShell.Client =>
        (script, words) =>
          ChildProcess.make(
            ssh,
            [
              "-S",
              `${sockets}/s`,
              ...how,
              ...fixedArguments,
              ...destination,
              ["exec", "/bin/sh", "-c", script, "hermes", ...words]
                .map((word, index) => (index < 3 ? word : RemoteShell.quoteWord(word)))
                .join(" ")
            ],
            surroundings
          )
      const shell = yield* RemoteShell.open(outer, makeClient("-o", "ControlMaster=yes", "-o", "ControlPersist=no"))
      const answer = yield* shell.run('printf %s "$HOME"')
      home = new TextDecoder().decode(answer.output)
      const tunnel = (port: number) =>
        ChildProcess.make(
          ssh,
          [
            "-S",
            `${sockets}/s`,
            "-o",
            "ControlMaster=no",
            ...fixedArguments,
            "-W",
            `localhost:${port}`,
            ...destination
          ],
          surroundings
        )
      return { client: makeClient("-o", "ControlMaster=no"), shell, tunnel }
    },
    Effect.catch((error) =>
      Effect.fail(
        error._tag === "ShellEnded"
          ? RemoteEnvironment.makeUnreachableError(describeFailure(options, error.errors))
          : error
      )
    ),
    Effect.provideService(FileSystem.FileSystem, fs)
  )

  const environment = yield* RemoteEnvironment.make({
    name: "ssh",
    isConfined: false,
    description: describeHost(options),
    explain: () => undefined,
    reach: "all",
    key: Effect.succeed(host),
    start,
    lifetime: options.lifetime,
    admitted: options.forwarded ?? [],
    variables: {},
    refused: (errors) => describeFailure(options, errors),
    notices: {
      lost:
        `The connection to ${host} broke while the command ran: it may run on there. The next command ` +
        "connects again.",
      again: (reason) =>
        reason === "idle"
          ? undefined
          : `The connection to ${host} was opened again: background processes of this session are not followed ` +
            "any more."
    }
  })
  const { directory = "~" } = options
  // A host that cannot be reached fails the command itself, which says why.
  const opened = Effect.scoped(Effect.ignore(environment.machine))
  const workingDirectory = directory.startsWith("~")
    ? Effect.map(opened, () => home + directory.slice(1))
    : Effect.succeed(directory)
  return CommandEnvironment.of({
    ...environment,
    home: Effect.map(opened, () => (home === "/" ? undefined : home)),
    directory: () =>
      Effect.flatMap(RemoteDirectory, (own) => (own === undefined ? workingDirectory : Effect.succeed(own)))
  })
})

/** {@link make} as a Layer; the connection ends with it. */
export const layer = (
  options: Options
): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem> =>
  Layer.effect(CommandEnvironment, make(options))
