/**
 * Environment on this machine in a sandbox: commands and file tools write only below the working tree and in their own
 * temporary directories, do not see credentials, and cannot use the network unless it is allowed.
 *
 * **Details**
 *
 * Sandboxes use bubblewrap on Linux (`Bubblewrap.ts`) and Seatbelt on macOS (`Seatbelt.ts`, which was not tested on a
 * real machine); both follow the same {@link SandboxRules}. Inside the working tree the following files are read-only:
 * `.git/hooks`, `.git/config` (also of nested repositories), `.hermes` and the settings of editors, shells, package
 * managers and agents, which other programs run or read later. If a command creates such a file, it is renamed when the
 * command has ended (`planted` of the environment). The files of the running program are read-only everywhere. If
 * `.git` or `.hermes` is missing, an empty directory replaces it until the sandbox ends. A repository that a command
 * creates there is stored without the parts that run programs (Linux), or cannot be created (macOS). A working tree
 * that contains the user's home directory cannot be written.
 *
 * The sandbox is tested when the layer is built. If it cannot be set up, the layer fails with a `ConfigError` that
 * names the missing part, and no command runs.
 *
 * **Gotchas**
 *
 * On Linux, stopping a command kills it at once, without the grace period of `SIGTERM` on the host. A repository that a
 * command creates below the working tree has the settings and hooks that this command wrote: the user's git runs them
 * in that repository. Later commands and file tools do not change them. The kernel is shared: the sandbox confines a
 * faulty or misled program, not an exploit of the kernel.
 *
 * **Example** (An agent whose commands write only below the working tree)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, Sandbox, TerminalTools } from "hermes-effect"
 *
 * const environment = Sandbox.layer({
 *   policy: "workspace-write",
 *   network: "none",
 *   home: "/home/ada",
 *   writable: [],
 *   hidden: ["/home/ada/.ssh"],
 *   shown: [],
 *   hidesEnvFiles: true
 * })
 *
 * export const program = Agent.run({ prompt: "Run the tests." }).pipe(
 *   Effect.provide(Runtime.layer({ environment, tools: [TerminalTools.toolset] }))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import type * as Path from "effect/Path"
import type { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import { operatingSystem } from "../base/platform/CurrentProcess.ts"
import { CommandEnvironment } from "./CommandEnvironment.ts"
import { bubblewrap } from "./Bubblewrap.ts"
import type * as SandboxNetwork from "./SandboxNetwork.ts"
import type * as SandboxPlaces from "./SandboxPlaces.ts"
import { describeTemporary, renderDescription } from "./SandboxRules.ts"
import type { WallKind } from "./SandboxWall.ts"
import { makeSeatbelt } from "./Seatbelt.ts"

/** Limits of a sandbox. Paths are absolute. */
export interface Options extends SandboxPlaces.Options {
  /**
   * Network access. `none`: commands can only reach each other. `all`: the network of this machine. Otherwise commands
   * can reach only some hosts, by HTTP through a proxy. Most programs find the proxy in their environment variables.
   */
  readonly network: "none" | "all" | SandboxNetwork.Hosts
}

/** Kind of sandbox to build. Defaults to the kind for this operating system. */
export const Wall = Context.Reference<WallKind>("hermes-effect/environment/SandboxWall", {
  defaultValue: () => (operatingSystem === "darwin" ? makeSeatbelt() : bubblewrap)
})

/** Describes the remedy if a sandbox cannot be built. */
export const describeRemedy = ({ requirement }: WallKind): string =>
  `${requirement}, or set terminal.backend to local to run commands without a sandbox`

/** Creates the error for a requested sandbox that cannot be built. `setting` is the setting that requested it. */
export const makeRefusal = (reason: string, wall: WallKind, setting = "terminal.backend"): ConfigError =>
  new ConfigError({
    path: setting,
    message: `${setting}: the sandbox cannot start: ${reason}. Remedy: ${describeRemedy(wall)}`
  })

/** Describes a sandbox for a model that works in it. */
export const describeSandbox = ({ network, policy }: Pick<Options, "network" | "policy">): Effect.Effect<string> =>
  Effect.map(Wall, (wall) =>
    renderDescription(policy, typeof network === "string" ? network : "hosts", describeTemporary(wall))
  )

/** The construction of sandboxes, which is loaded for the first one. */
const loadBuild = Effect.promise(() => import("./SandboxBuild.ts"))

/**
 * Returns the reason why this machine cannot build a sandbox, or `undefined` if it can. Starts a sandbox and ends it.
 * Fails if the test itself was not possible, for example without free descriptors or space. Such a failure says nothing
 * about the machine.
 */
export const findObstacle = (
  options: Options
): Effect.Effect<string | undefined, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(loadBuild, (build) => build.findObstacle(options))

/**
 * Creates the environment of a sandbox. If the sandbox cannot be set up, it fails with the error that `refused`
 * returns.
 */
export const make = (
  options: Options,
  refused: (reason: string, wall: WallKind) => ConfigError = (reason, wall) => makeRefusal(reason, wall)
) => Effect.flatMap(loadBuild, ({ makeEnvironment }) => makeEnvironment(options, refused))

/** Layer of {@link make}. The temporary directories and the network are removed with it. */
export const layer = (
  options: Options
): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, make(options))

/** {@link layer} for a machine that was tested before. If the sandbox can no longer be set up, each command fails. */
export const layerTried = (
  options: Options
): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(
    CommandEnvironment,
    Effect.flatMap(loadBuild, ({ makeTried }) => makeTried(options))
  )
