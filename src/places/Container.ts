/**
 * Environment in Docker or Podman containers, controlled by their command line. There is one container for each
 * conversation and working tree. It is started by the first command, and removed after a period without use or with the
 * runtime.
 *
 * **Details**
 *
 * A container has no capabilities, gains no privileges, has limits for memory, processors and processes, a separate
 * `/tmp` and home directory, and no network unless the settings provide one. The working tree has its usual path: it is
 * mounted, or copied without copying changes back to this machine. In a mounted tree `.git/hooks`, `.git/config` and
 * `.hermes`, whose contents this machine may run later, are read-only, and `.env` files are empty. Files that it
 * creates belong to the caller. Only the named variables of this program are passed to it.
 *
 * The container lives as long as its client, which ends with this program, even if the program is killed. A container
 * that remains has a label with its owner. The next program that finds that the owner has ended removes the container.
 *
 * The engine is checked when the layer is built. If a part is missing, the layer fails with a `ConfigError` that states
 * it. If an image or a mount is missing, the command fails with the remedy. Images are not fetched.
 *
 * **Gotchas**
 *
 * Files outside of mounts are removed with the container, even when its lifetime ends. The next call reports the
 * removal. The kernel is shared.
 *
 * **Example** (An agent whose commands run in a container)
 *
 * ```ts
 * import * as Duration from "effect/Duration"
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, TerminalTools } from "hermes-effect"
 * import { Container } from "hermes-effect/environments"
 *
 * const environment = Container.layer({
 *   ...Container.defaults,
 *   image: "debian:12",
 *   home: "/home/ada",
 *   lifetime: Duration.minutes(5)
 * })
 *
 * export const program = Agent.run({ prompt: "Run the tests." }).pipe(
 *   Effect.provide(Runtime.layer({ environment, tools: [TerminalTools.toolset] }))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §3 and §7 ("walls").
 */
import * as Context from "effect/Context"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import type { ConfigError } from "../base/domain/AgentError.ts"
import { CallConversation, CallDirectory } from "../base/domain/CallContext.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import { CommandEnvironment } from "./CommandEnvironment.ts"
import { callEngine, findEngine, readOwner, reapContainers, removeContainer, takeLastLine } from "./ContainerEngine.ts"
import { containerHome, type Options } from "./ContainerOptions.ts"
import { buildRunArguments, describeStartFailure } from "./ContainerRun.ts"
import { copyTreeIn, makeRuleReader } from "./ContainerTree.ts"
import * as RemoteEnvironment from "./RemoteEnvironment.ts"
import * as RemoteShell from "./RemoteShell.ts"
import * as WorkingTree from "./WorkingTree.ts"

export type { Options } from "./ContainerOptions.ts"

/** Default settings: a container with limits and without a network, from which no data remain. */
export const defaults = {
  policy: "workspace-write",
  workspace: "mount",
  network: "none",
  limits: { memory: 5120, processes: 512 },
  volumes: [],
  readable: [],
  variables: {},
  forwarded: [],
  user: "caller",
  isPersistent: false,
  lifetime: Duration.minutes(5),
  hidesEnvFiles: true,
  extraArguments: []
} as const satisfies Partial<Options>

const noNetwork =
  /could not resolve host|temporary failure in name resolution|network is unreachable|bad address|ENETUNREACH|EAI_AGAIN|ENOTFOUND/i

/** Describes a container for the model that works in it. */
export const describeContainer = ({ image, network, policy, workspace }: Options): string =>
  `Commands and file tools work in a container of the image ${image}: ${
    workspace === "copy"
      ? "the working tree in it is a copy that the user does not get"
      : policy === "read-only"
        ? "the working tree can be read, and nothing that they write is kept"
        : "of what they write only the working tree is kept"
  }${network === "none" ? ", and there is no network" : ""}. Do not work around it: tell the user what needs more.`

/** Creates an environment in containers. Fails without an engine. */
export const make = Effect.fnUntraced(function* (options: Options) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const outer = yield* ChildProcessSpawner
  // Omits the other services of the context, whose scope is not the scope of a container.
  const services = Context.make(FileSystem.FileSystem, fs).pipe(
    Context.add(Path.Path, path),
    Context.add(ChildProcessSpawner, outer)
  )
  const engine = yield* findEngine(options.binary)
  const { program } = engine
  const trees = yield* WorkingTree.make(options.home)
  const owner = yield* readOwner(fs, "self")
  const readTreeRules = makeRuleReader(options)
  // Containers of other programs are removed in the background, and failures are ignored.
  yield* Effect.forkScoped(Effect.ignore(reapContainers(engine, owner)))

  const start = Effect.fnUntraced(function* (key: string) {
    const tree = key.slice(key.indexOf("\0") + 1)
    const rules = yield* readTreeRules(tree)
    const name = `hermes-${yield* Ids.makeHex(12)}`
    const run = yield* buildRunArguments(engine, options, { tree, name, rules, owner })
    // The container ends with the client that holds it. The finalizer waits for its removal.
    yield* Effect.addFinalizer(() => Effect.ignore(removeContainer(program, name)))
    const surroundings = { cwd: "/", env: { PATH: yield* TrustedPrograms.safePath }, extendEnv: true }
    const shell = yield* RemoteShell.open(outer, (script, words) =>
      ChildProcess.make(program, [...run, "-c", script, "hermes", ...words], surroundings)
    ).pipe(
      Effect.mapError(({ errors }) =>
        RemoteEnvironment.makeUnreachableError(
          describeStartFailure(engine, options, options.findImage?.(tree) ?? options.image, errors)
        )
      )
    )
    // A volume belongs to root, who makes it writable for all users in the container.
    if (options.isPersistent)
      yield* callEngine(program, ["exec", "--user", "0:0", name, "chmod", "1777", containerHome])
    if (options.workspace === "copy") yield* copyTreeIn(program, name, tree, rules)
    const client: RemoteShell.Client = (script, words) =>
      ChildProcess.make(
        program,
        ["exec", "--interactive", name, "/bin/sh", "-c", script, "hermes", ...words],
        surroundings
      )
    return { client, shell }
  }, Effect.provideContext(services))

  const environment = yield* RemoteEnvironment.make({
    name: "docker",
    isConfined: true,
    description: describeContainer(options),
    explain: (output) =>
      options.network === "none" && noNetwork.test(output)
        ? { reason: "the container has no network", setting: "terminal.sandbox.network", isAsked: false }
        : undefined,
    reach: options.network,
    key: Effect.gen(function* () {
      const directory = yield* CallDirectory
      if (directory === undefined)
        return yield* RemoteEnvironment.makeUnreachableError("there is no working directory to start a container for")
      const tree = yield* Effect.orElseSucceed(fs.realPath(yield* trees.findTreeRoot(directory)), () =>
        path.resolve(directory)
      )
      return `${(yield* CallConversation) ?? ""}\0${tree}`
    }),
    start,
    lifetime: options.lifetime,
    admitted: options.forwarded,
    variables: options.variables,
    refused: (errors) => `the container does not answer: ${takeLastLine(errors)}`,
    notices: {
      lost:
        "The container ended while the command ran: it was stopped from outside, or it ran out of memory. " +
        "The next command starts a new one.",
      again: (reason) =>
        `A new container was started, because the last one ${
          reason === "idle" ? `was not used for ${Duration.format(options.lifetime)}` : "had ended"
        }: what was installed or written outside of the mounted directories is gone, and background processes have ended.`
    }
  })
  return CommandEnvironment.of({
    ...environment,
    home: Effect.succeed(containerHome),
    // A mounted tree is a tree on this machine.
    trees: options.workspace === "mount" ? { place: "here", spawner: outer, files: fs } : environment.trees
  })
})

/** Layer of {@link make}. The containers are removed with the layer. */
export const layer = (
  options: Options
): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, make(options))
