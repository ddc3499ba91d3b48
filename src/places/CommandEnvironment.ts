/**
 * Environment in which commands run and files are stored, for every tool that runs commands or opens files for a model.
 *
 * **Details**
 *
 * An environment is two services of Effect: a `ChildProcessSpawner` that starts processes in it, and a `FileSystem`
 * with the same files that those processes see. A tool gets them from {@link CommandEnvironment} with {@link provide},
 * so that `terminal`, `execute_code` and the file tools share one view of the environment:
 *
 * - {@link layerLocal}: this machine as the user who runs the program; commands are not confined.
 * - `Sandbox.layer`: this machine in an operating system sandbox, which restricts reads, writes and network access.
 * - `Container.layer`: a container of Docker or Podman with the working tree in it.
 * - `SshHost.layer`: another machine, over the system's `ssh`.
 *
 * **Example** (An agent whose tools work in a sandbox)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { CommandEnvironment } from "hermes-effect"
 *
 * const program = Effect.map(CommandEnvironment.CommandEnvironment, ({ name }) => name)
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 and §7.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { nodePath } from "../base/platform/CurrentProcess.ts"
import { ProcessEnvironment } from "../base/platform/ProcessVariables.ts"
import * as PortAddress from "./PortAddress.ts"
import type { SetAside } from "./SetAside.ts"

/** Explanation of why an environment stopped a command. */
export interface Explanation {
  readonly reason: string
  /** Setting with which the action would have been allowed. */
  readonly setting: string
  /** True if the user was already asked. */
  readonly isAsked: boolean
}

/** Access to working trees for programs that only hermes starts, such as its internal `git` commands. */
export interface TreeAccess {
  /** Location of the trees. With `here`, they are directories on this machine. */
  readonly place: "here" | "elsewhere"
  readonly spawner: ChildProcessSpawner["Service"]
  readonly files: FileSystem.FileSystem
}

/** Files that the user's programs would run later, and that commands created without approval. */
export interface PlantedFiles {
  /** Files that were renamed since the last call. */
  readonly take: Effect.Effect<ReadonlyArray<SetAside>>
  /** Permanently restores the name of a file. */
  readonly keep: (file: SetAside) => Effect.Effect<void, PlatformError>
}

/** An environment in which commands run and files are stored. */
export interface Service {
  /** Kind of environment, as hooks receive it (`env_type`). */
  readonly name: "local" | "sandbox" | "docker" | "ssh"
  /** True if commands in the environment have fewer rights than the user. */
  readonly isConfined: boolean
  /** Description for the model that works in the environment, `undefined` if there is nothing to describe. */
  readonly description: string | undefined
  /** Hosts that commands in the environment can reach: none, some, or all. */
  readonly reach: "none" | "hosts" | "all"
  /**
   * Explains the output of a failed command that the environment stopped. Returns `undefined` for other commands.
   * `refused` lists the hosts to which the command was denied access.
   */
  readonly explain: (output: string, refused: ReadonlyArray<string>) => Explanation | undefined
  /**
   * Returns a notice about an event in the environment since the last call, such as a restart, or its end during a
   * command. Each event is reported once.
   */
  readonly notice: Effect.Effect<string | undefined>
  /** Maps an absolute directory on this machine to its directory in the environment. */
  readonly directory: (given: string) => Effect.Effect<string>
  /** Home directory of commands in the environment, or `undefined` if unknown. */
  readonly home: Effect.Effect<string | undefined>
  /**
   * Returns an address on this machine for a port on which commands in the environment listen. It is valid while the
   * scope is open. The port number is the same if it is free on this machine. The port does not need a listener yet.
   */
  readonly forward: (port: number) => Effect.Effect<PortAddress.Address, PlatformError, Scope.Scope>
  /**
   * Gives this program access to the files of the working trees in the environment, before and after commands and
   * independently of them.
   */
  readonly trees: TreeAccess
  /** Program in the environment that runs JavaScript. */
  readonly node: string
  /**
   * Location of the processes. With `elsewhere`, their ids are meaningless on this machine, and killing a process also
   * kills all its descendants.
   */
  readonly processes: "here" | "elsewhere"
  /** Starts processes in the environment. */
  readonly spawner: ChildProcessSpawner["Service"]
  /**
   * Processes and files outside of the environment, for a command that the user allows to run unconfined. `undefined`
   * if commands cannot run outside of the environment.
   */
  readonly outside: Pick<Service, "spawner" | "files"> | undefined
  /** Files of the environment, as its processes see them. */
  readonly files: FileSystem.FileSystem
  /**
   * Files that the user's programs would run later, if the environment renames such files after commands created them.
   */
  readonly planted?: PlantedFiles | undefined
  /**
   * Directories on this machine with the temporary files of the call's commands, `undefined` if the commands use the
   * machine's own.
   */
  readonly temporaryDirectories?: Effect.Effect<ReadonlyArray<string>, PlatformError> | undefined
}

/** Environment in which commands run and files are stored. */
export class CommandEnvironment extends Context.Service<CommandEnvironment, Service>()(
  "hermes-effect/environment/CommandEnvironment"
) {}

/** Directory on another machine in which a run works. It is used instead of the directory in the settings. */
export const RemoteDirectory = Context.Reference<string | undefined>("hermes-effect/environment/RemoteDirectory", {
  defaultValue: () => undefined
})

/** Location of the served processes. With `here`, they are looked up and signalled by their ids. */
export const ProcessPlace = Context.Reference<Service["processes"]>("hermes-effect/environment/ProcessPlace", {
  defaultValue: () => "here"
})

/** Properties of every environment on this machine. */
export const onThisMachine: Pick<Service, "directory" | "home" | "node" | "notice" | "processes"> = {
  notice: Effect.undefined,
  home: Effect.map(ProcessEnvironment, (variables) => variables()["HOME"]),
  directory: Effect.succeed,
  node: nodePath,
  processes: "here"
}

/** Handler for requests to reach hosts, made by the commands of a tool call. */
export interface HostRequests {
  /** Asks if a host may be reached. For a listed host, only the rules decide. */
  readonly ask: (host: string, port: number, isListed: boolean) => Effect.Effect<boolean>
  /** Hosts to which commands of the call were denied access. */
  readonly refused: Set<string>
}

/**
 * Receives the requests to reach hosts from an environment with its own network, for the current call. `undefined` if
 * the user is not asked about hosts.
 */
export const HostRequests = Context.Reference<HostRequests | undefined>("hermes-effect/environment/HostRequests", {
  defaultValue: () => undefined
})

/** Layer with this machine as the environment. Commands run as the user who runs the program. */
export const layerLocal: Layer.Layer<CommandEnvironment, never, ChildProcessSpawner | FileSystem.FileSystem> =
  Layer.effect(
    CommandEnvironment,
    Effect.gen(function* () {
      const spawner = yield* ChildProcessSpawner
      const files = yield* FileSystem.FileSystem
      return {
        ...onThisMachine,
        name: "local",
        isConfined: false,
        description: undefined,
        reach: "all",
        explain: () => undefined,
        forward: PortAddress.toLocalAddress,
        trees: { place: "here", spawner, files },
        spawner,
        outside: undefined,
        files
      }
    })
  )

/** Provides the processes and files of the environment instead of those on this machine. */
export const provide = <A, E, R>(
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E, CommandEnvironment | Exclude<R, ChildProcessSpawner | FileSystem.FileSystem>> =>
  Effect.flatMap(CommandEnvironment, ({ files, processes, spawner }) =>
    Effect.provideContext(
      effect,
      Context.make(ChildProcessSpawner, spawner).pipe(
        Context.add(FileSystem.FileSystem, files),
        Context.add(ProcessPlace, processes)
      )
    )
  )
