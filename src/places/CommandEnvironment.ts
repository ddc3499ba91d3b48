/**
 * The place where commands run and files live, for every tool that runs commands or opens files for a model.
 *
 * **Details**
 *
 * An environment is two services of Effect: a `ChildProcessSpawner` that starts processes in it, and a `FileSystem`
 * that sees its files as those processes do. A tool takes them from {@link CommandEnvironment} by {@link provide}, so
 * that `terminal`, `execute_code` and the file tools share one view of the environment:
 *
 * - {@link layerLocal}: this machine as the user who runs the program; nothing is confined.
 * - `Sandbox.layer`: this machine in a sandbox of the operating system, which restricts reads, writes and network
 *   access.
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
import * as PortForward from "./PortForward.ts"
import type { SetAside } from "./SetAside.ts"

/** Reason for which an environment stopped a command. */
export interface Explanation {
  readonly reason: string
  /** Setting that would have let it be. */
  readonly setting: string
  /** True if the user was asked already. */
  readonly isAsked: boolean
}

/** Access to working trees for programs that only hermes starts, such as its own `git`. */
export interface TreeAccess {
  /** `here`: the trees are directories of this machine. */
  readonly place: "here" | "elsewhere"
  readonly spawner: ChildProcessSpawner["Service"]
  readonly files: FileSystem.FileSystem
}

/** Files from which something would run later, which commands made unasked. */
export interface PlantedFiles {
  /** Files that were renamed since the last call. */
  readonly take: Effect.Effect<ReadonlyArray<SetAside>>
  /** Gives a file back its name, for good. */
  readonly keep: (file: SetAside) => Effect.Effect<void, PlatformError>
}

/** The place where commands run and files live. */
export interface Service {
  /** Kind of environment, as hooks receive it (`env_type`). */
  readonly name: "local" | "sandbox" | "docker" | "ssh"
  /** True if commands cannot do all that the user can. */
  readonly isConfined: boolean
  /** Description for the model that works in it; `undefined` if there is nothing to describe. */
  readonly description: string | undefined
  /** Hosts that its commands reach: none, some, or all. */
  readonly reach: "none" | "hosts" | "all"
  /**
   * Explains the output of a failed command that the environment stopped; `undefined` for all others. `refused` are the
   * hosts that were denied to it.
   */
  readonly explain: (output: string, refused: ReadonlyArray<string>) => Explanation | undefined
  /**
   * Tells once what happened to the environment since the last call: it was started again, it ended under a command.
   */
  readonly notice: Effect.Effect<string | undefined>
  /** Maps an absolute directory of this machine to its directory in the environment. */
  readonly directory: (given: string) => Effect.Effect<string>
  /** Home directory of its commands; `undefined` if unknown. */
  readonly home: Effect.Effect<string | undefined>
  /**
   * Returns an address on this machine for a port that its commands listen on, while the scope is open. The number is
   * the same if it is free here. The port does not need a listener yet.
   */
  readonly forward: (port: number) => Effect.Effect<PortForward.Address, PlatformError, Scope.Scope>
  /** Looks at the files of its working trees for this program, around commands and not as one of them. */
  readonly trees: TreeAccess
  /** Program in it that runs JavaScript. */
  readonly node: string
  /**
   * `elsewhere`: ids of its processes mean nothing on this machine, and a process that is killed takes everything below
   * it along.
   */
  readonly processes: "here" | "elsewhere"
  /** Starts processes in it. */
  readonly spawner: ChildProcessSpawner["Service"]
  /** Processes and files outside of it, for a command that the user lets out; `undefined` if it has no outside. */
  readonly outside: Pick<Service, "spawner" | "files"> | undefined
  /** Its files, as its processes see them. */
  readonly files: FileSystem.FileSystem
  /** Files from which something would run later, where the environment renames those that commands make. */
  readonly planted?: PlantedFiles | undefined
  /**
   * Directories of this machine with the temporary files of the call's commands; `undefined` if the commands share the
   * machine's own.
   */
  readonly temporaryDirectories?: Effect.Effect<ReadonlyArray<string>, PlatformError> | undefined
}

/** The place where commands run and files live. */
export class CommandEnvironment extends Context.Service<CommandEnvironment, Service>()(
  "hermes-effect/environment/CommandEnvironment"
) {}

/** Directory on another machine that a run works in. Replaces the directory of the settings. */
export const RemoteDirectory = Context.Reference<string | undefined>("hermes-effect/environment/RemoteDirectory", {
  defaultValue: () => undefined
})

/** Place of the processes that are served: `here` they are looked for and signalled by their ids. */
export const ProcessPlace = Context.Reference<Service["processes"]>("hermes-effect/environment/ProcessPlace", {
  defaultValue: () => "here"
})

/** Facts of every environment on this machine. */
export const onThisMachine: Pick<Service, "directory" | "home" | "node" | "notice" | "processes"> = {
  notice: Effect.undefined,
  home: Effect.map(ProcessEnvironment, (variables) => variables()["HOME"]),
  directory: Effect.succeed,
  node: nodePath,
  processes: "here"
}

/** Questions about hosts that a command of a tool call wants to reach. */
export interface HostRequests {
  /** Asks whether a host may be reached; about a listed one only rules decide. */
  readonly ask: (host: string, port: number, isListed: boolean) => Effect.Effect<boolean>
  /** Hosts that were denied to commands of the call. */
  readonly refused: Set<string>
}

/**
 * Receives the questions about hosts from an environment with its own network, for the current call; `undefined` if
 * hosts are not asked about.
 */
export const HostRequests = Context.Reference<HostRequests | undefined>("hermes-effect/environment/HostRequests", {
  defaultValue: () => undefined
})

/** This machine, as the user who runs the program. */
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
        forward: PortForward.toLocalAddress,
        trees: { place: "here", spawner, files },
        spawner,
        outside: undefined,
        files
      }
    })
  )

/** Gives what is built the processes and the files of the environment in the place of this machine's. */
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
