/**
 * Environment on another machine, through the system's `ssh`. All commands and file operations share one connection.
 *
 * **Details**
 *
 * The user's own `ssh` configuration applies (aliases, jumps, keys, host key checks), without prompts: a connection
 * that needs an answer fails with the remedy. The key agent, the display and local ports are not forwarded. The first
 * command opens the connection. The connection is closed after a period without use, and opened again if it was lost.
 *
 * **Gotchas**
 *
 * Commands on the other machine are not confined. The machine needs a POSIX shell and the GNU or BusyBox tools. A
 * command may continue to run when the connection breaks.
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

/** Connection settings for another machine. */
export interface Options {
  /** Host name, address, or alias in the user's `ssh` configuration. */
  readonly host: string
  readonly user?: string | undefined
  readonly port?: number | undefined
  /** Path of a private key file. */
  readonly key?: string | undefined
  /** Absolute working directory on the other machine. Defaults to the user's home directory there. */
  readonly directory?: string | undefined
  /** Names of this program's variables that commands receive. */
  readonly forwarded?: ReadonlyArray<string> | undefined
  /** Period without use after which the connection is closed. */
  readonly lifetime: Duration.Duration
  /** Further arguments of `ssh`. */
  readonly extraArguments?: ReadonlyArray<string> | undefined
}

const makeUnavailableError = (path: string, reason: string, remedy: string): ConfigError =>
  new ConfigError({
    path,
    message: `${path}: ${reason}. Remedy: ${remedy}, or set terminal.backend to sandbox or local`
  })

/**
 * Arguments of every connection. They precede the user's arguments, because the first value of an option takes effect.
 */
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

/** Describes a failed connection in a sentence. */
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

/** Describes the other machine for the model that works on it. */
export const describeHost = ({ directory = "the user's home directory there", host }: Options): string =>
  `Commands and file tools work on the machine ${host}, in ${directory}. Files of the machine that you are ` +
  "started are not there."

/** Finds `ssh` on this machine. Fails if it is not installed, or if an option is unusable. */
const findSsh = Effect.fnUntraced(function* ({ host, key, user }: Options) {
  const fs = yield* FileSystem.FileSystem
  const outer = yield* ChildProcessSpawner
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
  return found.success
})

/** The host, and the arguments of `ssh` that select it. */
const listDestination = ({ extraArguments = [], host, key, port, user }: Options): ReadonlyArray<string> => [
  ...(port === undefined ? [] : ["-p", String(port)]),
  ...(user === undefined ? [] : ["-l", user]),
  ...(key === undefined ? [] : ["-i", key]),
  ...extraArguments,
  "--",
  host
]

/** A host that is reached by `ssh`. */
interface ReachedHost {
  readonly options: Options
  readonly fs: FileSystem.FileSystem
  readonly outer: ChildProcessSpawner["Service"]
  readonly ssh: string
  readonly surroundings: ChildProcess.CommandOptions
  /** The user's home directory there, `/` before the first connection. */
  home: string
}

/** Creates a client for scripts over the connection of a socket. */
const makeClient =
  ({ options, ssh, surroundings }: ReachedHost, socket: string, ...how: ReadonlyArray<string>): RemoteShell.Client =>
  (script, words) => {
    const quoted = [script, "hermes", ...words].map((word) => RemoteShell.quoteWord(word))
    const line = ["exec", "/bin/sh", "-c", ...quoted].join(" ")
    const destination = listDestination(options)
    return ChildProcess.make(ssh, ["-S", socket, ...how, ...fixedArguments, ...destination, line], surroundings)
  }

/** Connects to the host. The connection is closed with the scope. */
const connectHost = Effect.fnUntraced(
  function* (host: ReachedHost) {
    const { options, outer, ssh, surroundings } = host
    // The path of a socket has to be short, and the user's temporary directory may have a long path.
    const sockets = yield* host.fs.makeTempDirectoryScoped({ directory: "/tmp", prefix: "hermes-ssh-" })
    const socket = `${sockets}/s`
    const master = makeClient(host, socket, "-o", "ControlMaster=yes", "-o", "ControlPersist=no")
    const shell = yield* RemoteShell.open(outer, master)
    const answer = yield* shell.run('printf %s "$HOME"')
    host.home = new TextDecoder().decode(answer.output)
    const shared = ["-o", "ControlMaster=no"]
    const tunnel = (port: number) => {
      const through = ["-W", `localhost:${port}`, ...listDestination(options)]
      return ChildProcess.make(ssh, ["-S", socket, ...shared, ...fixedArguments, ...through], surroundings)
    }
    return { client: makeClient(host, socket, ...shared), shell, tunnel }
  },
  (connected, { fs, options }) =>
    connected.pipe(
      Effect.catch((error) =>
        Effect.fail(
          error._tag === "ShellEnded"
            ? RemoteEnvironment.makeUnreachableError(describeFailure(options, error.errors))
            : error
        )
      ),
      Effect.provideService(FileSystem.FileSystem, fs)
    )
)

/**
 * Creates the environment on another machine. Fails if `ssh` is not installed on this machine. The first command opens
 * the connection.
 */
export const make = Effect.fnUntraced(function* (options: Options) {
  const { host } = options
  const reached: ReachedHost = {
    options,
    fs: yield* FileSystem.FileSystem,
    outer: yield* ChildProcessSpawner,
    ssh: yield* findSsh(options),
    // A ProxyCommand in the user's configuration is also looked up in trusted directories.
    surroundings: { cwd: "/", env: { PATH: yield* TrustedPrograms.safePath }, extendEnv: true },
    home: "/"
  }

  const environment = yield* RemoteEnvironment.make({
    name: "ssh",
    isConfined: false,
    description: describeHost(options),
    explain: () => undefined,
    reach: "all",
    key: Effect.succeed(host),
    start: () => connectHost(reached),
    lifetime: options.lifetime,
    admitted: options.forwarded ?? [],
    variables: {},
    refused: (errors) => describeFailure(options, errors),
    notices: {
      lost:
        `The connection to ${host} broke while the command ran: it may still be running there. The next command ` +
        "connects again.",
      again: (reason) =>
        reason === "idle"
          ? undefined
          : `The connection to ${host} was opened again: background processes of this session are not followed ` +
            "any more."
    }
  })
  const { directory = "~" } = options
  // If the host cannot be reached, the command itself fails with the reason.
  const opened = Effect.scoped(Effect.ignore(environment.machine))
  const workingDirectory = directory.startsWith("~")
    ? Effect.map(opened, () => reached.home + directory.slice(1))
    : Effect.succeed(directory)
  return CommandEnvironment.of({
    ...environment,
    home: Effect.map(opened, () => (reached.home === "/" ? undefined : reached.home)),
    directory: () =>
      Effect.flatMap(RemoteDirectory, (own) => (own === undefined ? workingDirectory : Effect.succeed(own)))
  })
})

/** Layer of {@link make}. The connection is closed with it. */
export const layer = (
  options: Options
): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem> =>
  Layer.effect(CommandEnvironment, make(options))
