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
import type { PlatformError } from "effect/PlatformError"
import type * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import { getProcessOwner } from "../base/platform/CurrentProcess.ts"
import * as Digest from "../base/platform/Digest.ts"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import { CommandEnvironment } from "./CommandEnvironment.ts"
import { CallConversation, CallDirectory } from "../base/domain/CallContext.ts"
import * as RemoteEnvironment from "./RemoteEnvironment.ts"
import * as RemoteShell from "./RemoteShell.ts"
import { sortRules, type Rule, isWithin } from "./SandboxRules.ts"
import { scanTree } from "./TreeScan.ts"
import * as WorkingTree from "./WorkingTree.ts"

/** Container settings of an environment. Paths are absolute. */
export interface Options {
  /** Program of the container engine. Default: `docker`, or `podman` if `docker` is not in the search path. */
  readonly binary?: string | undefined
  readonly image: string
  /** Returns the image for a working tree, which replaces `image`. `undefined` for a tree without a separate image. */
  readonly findImage?: ((tree: string) => string | undefined) | undefined
  /** Access of commands to the working tree. With `read-only`, commands cannot write it. */
  readonly policy: "read-only" | "workspace-write"
  /**
   * Source of the working tree: `mount` mounts the tree on this machine, `copy` copies it. The copy is removed with the
   * container.
   */
  readonly workspace: "mount" | "copy"
  /** Network of the containers: `none`, or `all` for the network that the engine provides. */
  readonly network: "none" | "all"
  /** Resource limits. Absent limits default to the engine's. Memory and disk are in megabytes. */
  readonly limits: {
    readonly cpus?: number | undefined
    readonly memory?: number | undefined
    readonly disk?: number | undefined
    readonly processes: number
  }
  /** Further mounts: `source:target` or `source:target:ro`. A source without a slash is a volume of the engine. */
  readonly volumes: ReadonlyArray<string>
  /**
   * Directories on this machine that can be read at the same path in the container. Directories that do not exist are
   * skipped.
   */
  readonly readable: ReadonlyArray<string>
  /** Environment variables of every command. */
  readonly variables: Readonly<Record<string, string | Redacted.Redacted<string>>>
  /** Names of this program's variables that commands receive. */
  readonly forwarded: ReadonlyArray<string>
  /** User as which commands run. */
  readonly user: "caller" | "image"
  /** True if the home directory in the container is a volume that later sessions of the tree share. */
  readonly isPersistent: boolean
  /** Period without use after which a container is removed. */
  readonly lifetime: Duration.Duration
  /** The user's home directory. A tree that contains it is not mounted. */
  readonly home: string | undefined
  readonly hidesEnvFiles: boolean
  /** Further arguments of `run`. */
  readonly extraArguments: ReadonlyArray<string>
}

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

/** Home directory in a container. */
export const containerHome = "/home/hermes"
const ownerLabel = "hermes.owner"

/** The container engine that was found. */
export interface Engine {
  readonly program: string
  readonly kind: "docker" | "podman"
}

const makeUnavailableError = (reason: string, remedy: string): ConfigError =>
  new ConfigError({
    path: "terminal.backend",
    message:
      `terminal.backend: docker cannot be used: ${reason}. Remedy: ${remedy}, or set terminal.backend to ` +
      "sandbox or local"
  })

/** Returns the last informative line of an engine's error. */
export const takeLastLine = (text: string): string =>
  TextCut.takeHead(
    text
      .split("\n")
      .map((line) => line.trim())
      .findLast((line) => line !== "" && !/^(?:Run|See) '.*--help/.test(line)) ?? "",
    300
  )

/** Runs a command of the engine until it ends. */
export const callEngine = Effect.fnUntraced(function* (
  program: string,
  args: ReadonlyArray<string>,
  input: Stream.Stream<Uint8Array, PlatformError> | "ignore" = "ignore"
) {
  const spawner = yield* ChildProcessSpawner
  // Credential helpers and plugins of the engine also come from trusted directories.
  const env = { PATH: yield* TrustedPrograms.safePath }
  const handle = yield* spawner.spawn(
    ChildProcess.make(program, args, { stdin: input, cwd: "/", env, extendEnv: true })
  )
  const collectText = (stream: typeof handle.stdout) => Stream.mkString(Stream.decodeText(stream))
  const [output, errors, code] = yield* Effect.all(
    [collectText(handle.stdout), collectText(handle.stderr), handle.exitCode],
    { concurrency: "unbounded" }
  )
  return { output: output.trim(), errors: errors.trim(), code: Number(code) }
}, Effect.scoped)

/** Removes a container, even if its removal has already started, and waits until it is gone. */
const removeContainer = Effect.fnUntraced(function* (program: string, name: string) {
  yield* callEngine(program, ["rm", "--force", "--volumes", name])
  const isThere = Effect.map(
    callEngine(program, ["ps", "--all", "--quiet", "--filter", `name=${name}`]),
    ({ output }) => output !== ""
  )
  yield* Effect.repeat(isThere, { schedule: Schedule.spaced("100 millis"), while: (there) => there, times: 50 })
})

/** Finds the engine and checks that it answers. */
export const findEngine = Effect.fnUntraced(function* (
  binary: string | undefined
): Effect.fn.Return<Engine, ConfigError, ChildProcessSpawner> {
  for (const name of binary === undefined ? ["docker", "podman"] : [binary]) {
    const found = yield* Effect.option(TrustedPrograms.find(name))
    if (found._tag === "None") continue
    const program = found.value
    const version = yield* Effect.option(callEngine(program, ["--version"]))
    if (version._tag === "None" || version.value.code !== 0) continue
    const kind = /podman/i.test(version.value.output) ? "podman" : "docker"
    const answer = yield* Effect.result(
      callEngine(program, ["info", "--format", kind === "podman" ? "{{.Host.Arch}}" : "{{.ServerVersion}}"])
    )
    if (answer._tag === "Success" && answer.success.code === 0) return { program, kind }
    const said = answer._tag === "Success" ? takeLastLine(answer.success.errors) : answer.failure.message
    return yield* makeUnavailableError(
      `${name} does not answer: ${said}`,
      kind === "docker" ? "start the Docker daemon and make sure that you may use it" : "see `podman info`"
    )
  }
  return yield* binary === undefined
    ? makeUnavailableError("neither docker nor podman is installed", "install one of them")
    : makeUnavailableError(`${binary} cannot be run`, "name the program of Docker or Podman by terminal.docker_binary")
})

/** Builds one mount argument of `run`. */
const buildMount = (fields: Readonly<Record<string, string>>, isReadOnly: boolean) =>
  Object.values(fields).some((value) => /[,"\n]/.test(value))
    ? Effect.fail(
        RemoteEnvironment.makeUnreachableError(
          `a path with a comma, a quote or a line break cannot be mounted: ${Object.values(fields).join(" ")}`
        )
      )
    : Effect.succeed([
        "--mount",
        [
          ...Object.entries(fields).map(([name, value]) => `${name}=${value}`),
          ...(isReadOnly ? ["readonly"] : [])
        ].join(",")
      ])

const buildBind = ({ allows, path }: Rule) =>
  buildMount({ type: "bind", source: allows === "nothing" ? "/dev/null" : path, target: path }, allows !== "write")

/** Builds the mounts of the settings. A missing directory is an error, so that the engine does not create it. */
const buildVolumeMounts = Effect.fnUntraced(function* (volumes: ReadonlyArray<string>) {
  const fs = yield* FileSystem.FileSystem
  return (yield* Effect.forEach(
    volumes,
    Effect.fnUntraced(function* (volume) {
      const [source = "", target = "", mode = "rw"] = volume.split(":")
      if (!target.startsWith("/") || source === "" || !["ro", "rw"].includes(mode)) {
        return yield* RemoteEnvironment.makeUnreachableError(
          `terminal.docker_volumes: "${volume}" is not source:target or source:target:ro`
        )
      }
      if (!source.startsWith("/")) return yield* buildMount({ type: "volume", source, target }, mode === "ro")
      if (!(yield* fs.exists(source)))
        return yield* RemoteEnvironment.makeUnreachableError(
          `terminal.docker_volumes: ${source} does not exist: create it, or take it out of the setting`
        )
      return yield* buildMount({ type: "bind", source, target }, mode === "ro")
    })
  )).flat()
})

/** Returns text that identifies this process while it runs, or `undefined` if the system does not provide it. */
const readOwner = Effect.fnUntraced(
  function* (fs: FileSystem.FileSystem, pid: string) {
    const stat = yield* fs.readFileString(`/proc/${pid}/stat`)
    const boot = yield* fs.readFileString("/proc/sys/kernel/random/boot_id")
    const namespace = yield* fs.readLink("/proc/self/ns/pid")
    const startTime = stat.slice(stat.lastIndexOf(")") + 2).split(" ")[19] ?? ""
    return [boot.trim(), /\d+/.exec(namespace)?.[0] ?? "", Number.parseInt(stat, 10), startTime].join(":")
  },
  Effect.orElseSucceed(() => undefined)
)

/** Removes containers whose owning program has ended. */
const reapContainers = Effect.fnUntraced(function* ({ program }: Engine, own: string | undefined) {
  if (own === undefined) return
  const fs = yield* FileSystem.FileSystem
  const machine = own.split(":").slice(0, 2).join(":")
  const { output } = yield* callEngine(program, ["ps", "--all", "--quiet", "--filter", `label=${ownerLabel}`])
  for (const id of output.split("\n").filter((line) => line !== "")) {
    const { output: label } = yield* callEngine(program, [
      "inspect",
      "--format",
      `{{index .Config.Labels "${ownerLabel}"}}`,
      id
    ])
    const pid = label.split(":")[2] ?? ""
    if (!label.startsWith(`${machine}:`) || !/^\d+$/.test(pid) || (yield* readOwner(fs, pid)) === label) continue
    yield* callEngine(program, ["rm", "--force", id])
  }
})

/** Maximum number of processes with Podman, which also counts the user's processes outside of the container. */
const podmanProcesses = 4096

/** Returns the ulimits that this process may set: Podman requests higher limits by default, and then fails. */
const readUlimits = Effect.fnUntraced(function* (fs: FileSystem.FileSystem) {
  const text = yield* Effect.orElseSucceed(fs.readFileString("/proc/self/limits"), () => "")
  const readHardLimit = (name: string): number =>
    Number(new RegExp(`^${name}\\s+\\S+\\s+(\\d+)`, "m").exec(text)?.[1] ?? Infinity)
  return (
    [
      ["nofile", readHardLimit("Max open files")],
      ["nproc", Math.min(readHardLimit("Max processes"), podmanProcesses)]
    ] as const
  ).flatMap(([name, limit]) => (Number.isFinite(limit) ? ["--ulimit", `${name}=${limit}:${limit}`] : []))
})

const missingImage = /no such image|unable to find image|image not known|not found locally|no such object/i
const missingMount = /bind source path does not exist: (\S+)|statfs (\S+): no such file/i

/** Describes in a sentence why a container could not be started. */
const describeStartFailure = (engine: Engine, { limits }: Options, image: string, said: string): string => {
  if (missingImage.test(said))
    return `the image ${image} is not there: run \`${engine.kind} pull ${image}\`, or set terminal.docker_image`
  const path = missingMount.exec(said)
  if (path !== null) return `the container was not started: ${path[1] ?? path[2]} does not exist for ${engine.kind}`
  if (limits.disk !== undefined && /storage-opt|storage option|quota/i.test(said))
    return "terminal.container_disk: the storage of the engine has no quotas: leave it out"
  return `the container was not started: ${takeLastLine(said)}`
}

/** Time limits for looking up and for fetching an image. */
const imageTimes = { look: "10 seconds", fetch: "600 seconds" } as const

/** Ensures that the engine has an image, and fetches the image if it is missing. */
export const fetchImage = Effect.fn("Container.fetchImage")(function* (
  binary: string | undefined,
  image: string
): Effect.fn.Return<void, ConfigError, ChildProcessSpawner> {
  const makeRefusal = (reason: string) =>
    new ConfigError({ path: "image", message: `the image ${image} cannot be had: ${reason}` })
  const runWithin = (args: ReadonlyArray<string>, duration: Duration.Input) =>
    Effect.timeoutOrElse(
      Effect.mapError(callEngine(program, args), ({ message }) => makeRefusal(message)),
      {
        duration,
        orElse: () =>
          Effect.fail(
            makeRefusal(`${program} ${args[0]} took longer than ${Duration.format(Duration.fromInputUnsafe(duration))}`)
          )
      }
    )
  // A name that starts with a dash would be parsed as an option of the engine.
  if (!/^[\w][\w./:@-]*$/.test(image)) return yield* makeRefusal("this is not a valid image name")
  const { program } = yield* findEngine(binary)
  if ((yield* runWithin(["image", "inspect", "--format", "ok", image], imageTimes.look)).code === 0) return
  const fetched = yield* runWithin(["pull", image], imageTimes.fetch)
  if (fetched.code !== 0)
    return yield* makeRefusal(takeLastLine(fetched.errors) || `${program} pull ended with code ${fetched.code}`)
})

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
  const own = yield* readOwner(fs, "self")
  const caller = getProcessOwner()
  /** Number of containers that need an empty placeholder directory, by the missing path. */
  const placeholders = new Map<string, number>()
  // Containers of other programs are removed in the background, and failures are ignored.
  yield* Effect.forkScoped(Effect.ignore(reapContainers(engine, own)))

  const findTreeRules = Effect.fnUntraced(function* (tree: string) {
    if (tree === "/" || (options.home !== undefined && isWithin(options.home, tree))) {
      return yield* RemoteEnvironment.makeUnreachableError(
        `${tree} holds your home directory and is not given to a container: start in the directory of a project`
      )
    }
    const scan = yield* scanTree(tree, { home: options.home })
    if (options.workspace === "copy" || options.policy === "read-only")
      return yield* WorkingTree.listRules(tree, { ...options, scan })
    const scope = yield* Effect.scope
    const runAtEnd = (effect: Effect.Effect<void, PlatformError>) => Scope.addFinalizer(scope, Effect.ignore(effect))
    return yield* WorkingTree.listRules(
      tree,
      { ...options, scan },
      {
        // The directory stays empty until the container ends, so that no file can be placed there.
        reserved: (directory) =>
          Effect.flatMap(WorkingTree.findRuleAt("read", directory), (found) => {
            if (found.length > 0 && !placeholders.has(directory)) return Effect.succeed(found)
            const made = found.length > 0 ? Effect.void : fs.makeDirectory(directory)
            const release = Effect.suspend(() => {
              const others = (placeholders.get(directory) ?? 1) - 1
              if (others > 0) return Effect.sync(() => void placeholders.set(directory, others))
              placeholders.delete(directory)
              return Effect.flatMap(fs.readDirectory(directory), (names) =>
                names.length > 0 ? Effect.void : fs.remove(directory, { recursive: true })
              )
            })
            const held = Effect.suspend(() => {
              placeholders.set(directory, (placeholders.get(directory) ?? 0) + 1)
              return runAtEnd(release)
            })
            return made.pipe(
              Effect.andThen(held),
              // Another process created the directory first, or it cannot be created here.
              Effect.ignore,
              Effect.andThen(WorkingTree.findRuleAt("read", directory))
            )
          }),
        // A missing path cannot be mounted. A file that a command creates there is removed with the container.
        absent: (file) =>
          Effect.tap(WorkingTree.findRuleAt("read", file), (found) =>
            found.length > 0 ? Effect.void : runAtEnd(fs.remove(file, { recursive: true, force: true }))
          )
      }
    )
  })

  const buildRunArguments = Effect.fnUntraced(function* (tree: string, name: string, rules: ReadonlyArray<Rule>) {
    const { cpus, disk, memory, processes } = options.limits
    const readable = (yield* Effect.forEach(options.readable, (directory) =>
      WorkingTree.findRuleAt("read", directory)
    )).flat()
    const mounted = sortRules([...(options.workspace === "mount" ? rules : []), ...readable])
    return [
      "run",
      "--interactive",
      "--rm",
      "--pull",
      "never",
      "--name",
      name,
      "--label",
      `${ownerLabel}=${own ?? ""}`,
      "--label",
      `hermes.tree=${tree}`,
      ...(options.network === "none" ? ["--network", "none"] : []),
      "--cap-drop",
      "ALL",
      "--security-opt",
      "no-new-privileges",
      "--pids-limit",
      String(processes),
      ...(memory === undefined ? [] : ["--memory", `${memory}m`, "--memory-swap", `${memory}m`]),
      ...(cpus === undefined ? [] : ["--cpus", String(cpus)]),
      ...(disk === undefined ? [] : ["--storage-opt", `size=${disk}m`]),
      ...(options.user === "caller" && caller !== undefined ? ["--user", `${caller.uid}:${caller.gid}`] : []),
      ...(options.user === "caller" && engine.kind === "podman" && caller !== undefined && caller.uid !== 0
        ? ["--userns", "keep-id"]
        : []),
      ...(engine.kind === "podman" && !options.extraArguments.includes("--ulimit") ? yield* readUlimits(fs) : []),
      "--tmpfs",
      "/tmp:rw,exec,nosuid,nodev,mode=1777",
      "--env",
      `HOME=${containerHome}`,
      ...(options.isPersistent
        ? yield* buildMount(
            { type: "volume", source: `hermes-home-${Digest.toHex(tree, 16)}`, target: containerHome },
            false
          )
        : ["--tmpfs", `${containerHome}:rw,exec,nosuid,nodev,mode=1777`]),
      ...(yield* Effect.forEach(new Map(mounted.map((rule) => [rule.path, rule])).values(), buildBind)).flat(),
      ...(yield* buildVolumeMounts(options.volumes)),
      ...options.extraArguments,
      "--entrypoint",
      "/bin/sh",
      options.findImage?.(tree) ?? options.image
    ]
  })

  /** Copies the tree into a running container. */
  const copyTreeIn = Effect.fnUntraced(function* (tree: string, name: string, rules: ReadonlyArray<Rule>) {
    const runChecked = Effect.fnUntraced(function* (
      args: ReadonlyArray<string>,
      input?: Stream.Stream<Uint8Array, PlatformError>
    ) {
      const { code, errors } = yield* callEngine(program, args, input)
      if (code !== 0)
        return yield* RemoteEnvironment.makeUnreachableError(
          `the working tree could not be copied into the container: ${takeLastLine(errors)}`
        )
    })
    // Root can create the directory anywhere. The user of the container can then write everything in it.
    yield* runChecked(["exec", "--user", "0:0", name, "/bin/sh", "-c", 'mkdir -p "$1" && chmod 1777 "$1"', "sh", tree])
    const hidden = rules.filter(({ allows }) => allows === "nothing").map((rule) => rule.path)
    const names = (yield* fs.readDirectory(tree))
      .filter((entry) => !hidden.includes(path.join(tree, entry)))
      .map((entry) => `./${entry}`)
    if (names.length === 0) return
    const tar = yield* TrustedPrograms.find("tar")
    const excluded = hidden.map((place) => `--exclude=./${path.relative(tree, place).replace(/[\\*?[\]]/g, "\\$&")}`)
    const words = ["-C", tree, ...excluded, "-cf", "-", "--", ...names]
    const archive = outer.spawn(ChildProcess.make(tar, words, { stdin: "ignore", stderr: "ignore" }))
    yield* runChecked(
      ["exec", "--interactive", name, "tar", "-C", tree, "-xf", "-"],
      Stream.unwrap(Effect.map(archive, ({ stdout }) => stdout))
    )
  })

  const start = Effect.fnUntraced(function* (key: string) {
    const tree = key.slice(key.indexOf("\0") + 1)
    const rules = yield* findTreeRules(tree)
    const name = `hermes-${yield* Ids.makeHex(12)}`
    const run = yield* buildRunArguments(tree, name, rules)
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
    if (options.workspace === "copy") yield* copyTreeIn(tree, name, rules)
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
