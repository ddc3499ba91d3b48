/**
 * An environment on this machine behind a wall: commands and file tools write below the working tree and in temporary directories of
 * their own only, do not see credentials, and reach no network unless it is given.
 *
 * **Details**
 *
 * The wall is bubblewrap (Linux): namespaces for users, processes, mounts and the network, no new privileges, no capabilities. Each
 * command is started in mounts of its own that follow {@link SandboxRules}; all of them share one network namespace, so that a command
 * reaches the server that another one started. What is fixed inside of the working tree is read-only: `.git/hooks`, `.git/config` (of
 * repositories below it too) and `.hermes`, from which something runs later. Where there is no `.git` or `.hermes`, an empty directory stands until the sandbox ends; a
 * repository that a command makes there is kept without what runs programs. A working tree that holds the user's home directory cannot be written.
 *
 * The wall is tried when the layer is built: where it does not stand, the layer fails with a `ConfigError` that says what is missing,
 * and nothing runs.
 *
 * **Gotchas**
 *
 * A command that is stopped is killed at once, without the time that `SIGTERM` gives it on the host. Repositories that commands make
 * below the working tree are its ordinary files: what a command put there runs when the user runs git in them. The kernel is shared: this holds a program that goes astray or was talked into
 * something, not an exploit of the kernel.
 *
 * **Example** (An agent whose commands write below the working tree only)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, Sandbox, Terminal } from "hermes-effect"
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
 *   Effect.provide(Runtime.layer({ environment, tools: [Terminal.toolset] }))
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../domain/AgentError.ts"
import * as TextCut from "../domain/TextCut.ts"
import { removeEmptyDirectory } from "../platform/HeldPath.ts"
import { nodePath } from "../platform/CurrentProcess.ts"
import * as PermissionMode from "../config/PermissionMode.ts"
import { CallConversation, CallDirectory, CommandEnvironment, onThisMachine, type Service as Environment } from "./CommandEnvironment.ts"
import * as PortForward from "./PortForward.ts"
import * as NewRepository from "./NewRepository.ts"
import * as SandboxFiles from "./SandboxFiles.ts"
import * as SandboxNetwork from "./SandboxNetwork.ts"
import { described, mounts, ordered, type Rule, within } from "./SandboxRules.ts"
import * as WorkingTree from "./WorkingTree.ts"

/** Bounds of a sandbox. Paths are absolute. */
export interface Options {
  /**
   * `read-only`: nothing but temporary files is written; `workspace-write`: the working tree of the call is written too, unless its run is
   * in the mode `plan`.
   */
  readonly policy: "read-only" | "workspace-write"
  /**
   * `none`: commands reach each other and nothing else; `all`: the network of this machine; else some hosts, by HTTP and through a proxy,
   * which most programs find in their environment.
   */
  readonly network: "none" | "all" | SandboxNetwork.Hosts
  /** The user's home directory. A tree that holds it is not written. */
  readonly home: string | undefined
  /** Directories that are written besides: caches of package managers. Those that do not exist are left out. */
  readonly writable: ReadonlyArray<string>
  /** Files and directories that are not seen. Those that do not exist are left out. */
  readonly hidden: ReadonlyArray<string>
  /** Directories below hidden ones that can be read. */
  readonly shown: ReadonlyArray<string>
  /** True: the `.env` files of the working tree are hidden too. */
  readonly hidesEnvFiles: boolean
}

/** Remedy where a sandbox cannot be built. */
export const remedy = "install the package bubblewrap and allow user namespaces, or set terminal.backend to local to run commands without a sandbox"

/** A wall that does not stand. */
class NotBuilt extends Schema.TaggedError<NotBuilt>()("NotBuilt", { reason: Schema.String }) {}

/** The error of a sandbox that was asked for and cannot be built; `setting` asked for it. */
export const refusal = (reason: string, setting = "terminal.backend"): ConfigError =>
  new ConfigError({ path: setting, message: `${setting}: the sandbox cannot start: ${reason}. Remedy: ${remedy}` })

const unavailable = (reason: string): NotBuilt => new NotBuilt({ reason })

const programDirectories = ["/usr/bin", "/bin", "/usr/local/bin"]

/** Variables that name sockets and directories that are not in the sandbox. */
const unset = ["SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "DOCKER_HOST"]

/**
 * First process of a sandbox: waits for the command and ends as it does. bubblewrap's own first process would stay a zombie of the
 * machine's, and the end of the command with it unnoticed for a second.
 */
const init = ({ args, command, options: { shell } }: ChildProcess.StandardCommand): ChildProcess.StandardCommand["args"] => {
  const first = ["--as-pid-1", "--", "/bin/sh", "-c"]
  if (shell !== undefined && shell !== false) return [...first, `(${[command, ...args].join(" ")}\n); exit "$?"`]
  const [flag, script, ...rest] = args
  // A script runs in a part of the first shell: one program less is started.
  return command === "/bin/sh" && flag === "-c" && typeof script === "string"
    ? [...first, `(${script}\n); exit "$?"`, ...rest]
    : [...first, "\"$@\"; exit \"$?\"", "sh", command, ...args]
}

const isolation = ["--unshare-user", "--unshare-pid", "--unshare-ipc", "--unshare-uts", "--unshare-cgroup-try", "--disable-userns", "--cap-drop", "ALL", "--die-with-parent"]

/** Finds the programs that build the wall. */
const findPrograms = Effect.fnUntraced(function*(fs: FileSystem.FileSystem) {
  const find = Effect.fnUntraced(function*(name: string) {
    for (const directory of programDirectories) {
      if (yield* Effect.orElseSucceed(fs.exists(`${directory}/${name}`), () => false)) return `${directory}/${name}`
    }
    return yield* unavailable(`${name} is not installed`)
  })
  return { bwrap: yield* find("bwrap"), nsenter: yield* find("nsenter") }
})

/**
 * Time for which a look at the files holds: looking costs as much as starting a command. The user makes what a rule is about, and
 * seldom; a command cannot change it.
 */
const rulesMillis = 1000

/** Directories of this machine that stand for those of temporary files in a sandbox: of each conversation its own, so that two see nothing of each other. */
const makeTemporary = Effect.fnUntraced(function*(base: string) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const numbers = new Map<string | undefined, number>()
  return Effect.gen(function*() {
    const conversation = yield* CallConversation
    const number = numbers.get(conversation) ?? numbers.size
    numbers.set(conversation, number)
    const root = path.join(base, String(number))
    const places = [{ path: "/tmp", source: path.join(root, "tmp") }, { path: "/var/tmp", source: path.join(root, "var-tmp") }]
    yield* Effect.forEach(places, ({ source }) => fs.makeDirectory(source, { mode: 0o700, recursive: true }), { discard: true })
    return places.map((place): Rule => ({ ...place, allows: "write" }))
  })
})

/** Rules of the calls from each directory, for the files that exist now. */
const makeRules = Effect.fnUntraced(function*(options: Options, temporary: Effect.Effect<ReadonlyArray<Rule>, PlatformError>) {
  const fs = yield* FileSystem.FileSystem
  const services = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const trees = yield* WorkingTree.make(options.home)

  const present = (allows: Rule["allows"]) => (named: string) => Effect.provideContext(WorkingTree.ruleAt(allows, named), services)

  const placeholders = new Set<string>()
  yield* Effect.addFinalizer(() => Effect.forEach(placeholders, (placeholder) =>
    // Whoever put something there keeps it.
    Effect.ignore(removeEmptyDirectory(placeholder)), { discard: true }))

  /** Takes an empty `.git` or `.hermes` as one of its own: a sandbox that was killed left it. */
  const forgotten = (directory: string): Effect.Effect<void> =>
    /\/\.(?:git|hermes)$/.test(directory)
      ? Effect.ignore(Effect.map(fs.readDirectory(directory), (names) => void (names.length === 0 && placeholders.add(directory))))
      : Effect.void

  /** A directory that is never written; where there is none an empty one stands in its place until the sandbox ends. */
  const reserved = (directory: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
    Effect.flatMap(Effect.andThen(forgotten(directory), present("read")(directory)), (found) =>
      found.length > 0 || options.policy === "read-only" ? Effect.succeed(found) : fs.makeDirectory(directory).pipe(
        Effect.tap(Effect.sync(() => placeholders.add(directory))),
        // Somebody else was first, or nobody can make one here.
        Effect.ignore,
        Effect.andThen(present("read")(directory))
      ))

  const absent = (file: string): Effect.Effect<ReadonlyArray<Rule>, PlatformError> =>
    Effect.map(present("read")(file), (found) => found.length > 0 ? found : [{ path: file, allows: "read", isAbsent: true }])

  /** Repositories below each tree that were there before its first command: what commands make is theirs. */
  const inner = new Map<string, ReadonlyArray<string>>()

  const ofTree = Effect.fnUntraced(function*(directory: string) {
    const tree = yield* Effect.orElseSucceed(fs.realPath(yield* trees.rootOf(directory)), () => directory)
    if (tree === "/") return []
    // It is seen even where a home directory lies in /tmp, which is another one inside.
    if (options.home !== undefined && within(options.home, tree)) return yield* present("read")(tree)
    const nested = inner.get(tree) ?? (options.policy === "read-only" ? [] : yield* WorkingTree.nestedIn(tree))
    inner.set(tree, nested)
    return yield* WorkingTree.rulesOf(tree, { ...options, nested }, { reserved, absent })
  }, Effect.provideContext(services))

  /** The program of execute_code and of the network, where the directories for temporary files would hide it. */
  const hiddenPrograms = ["/tmp", "/var/tmp"].some((path) => within(nodePath, path)) ? [nodePath] : []

  const found = Effect.fnUntraced(function*(directory: string | undefined) {
    const lists = yield* Effect.all([
      directory === undefined ? Effect.succeed([]) : ofTree(directory),
      Effect.map(Effect.forEach(options.policy === "read-only" ? [] : options.writable, present("write")), (list) => list.flat()),
      // Sockets of services: a container daemon's gives away the machine.
      Effect.map(Effect.forEach(["/run", ...options.hidden], present("nothing")), (list) => list.flat()),
      Effect.map(Effect.forEach([...options.shown, ...hiddenPrograms], present("read")), (list) => list.flat())
    ], { concurrency: "unbounded" })
    return ordered([...yield* temporary, ...lists.flat()])
  })

  const known = new Map<string, { readonly until: number; readonly list: ReadonlyArray<Rule> }>()
  const forget = Effect.sync(() => known.clear())
  const rules = Effect.gen(function*() {
    const directory = yield* CallDirectory
    const now = yield* Clock.currentTimeMillis
    const key = `${(yield* CallConversation) ?? ""}\0${directory ?? ""}`
    const last = known.get(key)
    if (last !== undefined && now < last.until) return last.list
    const list = yield* found(directory)
    known.set(key, { until: now + rulesMillis, list })
    return list
  })
  return { forget, rules }
})

const noWrite = /read-only file system|EROFS/i
const noNetwork = /could not resolve host|temporary failure in name resolution|network is unreachable|ENETUNREACH|EAI_AGAIN|ENOTFOUND/i

/** Explains the output of a command that this sandbox stopped; `refused` are the hosts that its proxy kept it from. */
const explained = ({ network, policy }: Options): Environment["explain"] => (output, refused) => {
  if (refused.length > 0) return { reason: `the sandbox did not let ${refused.join(", ")} be reached`, setting: "terminal.sandbox.hosts", isAsked: true }
  if (noWrite.test(output)) {
    const places = policy === "read-only" ? "in /tmp only" : "below the working tree and in /tmp only"
    return { reason: `the sandbox lets commands write ${places}`, setting: "terminal.sandbox.write", isAsked: false }
  }
  if (network === "all" || !noNetwork.test(output)) return undefined
  const reason = network === "none" ? "the sandbox has no network" : "the sandbox lets hosts be reached by HTTP through its proxy only"
  return { reason, setting: "terminal.sandbox.network", isAsked: false }
}

/** Environment of a sandbox; nothing is started before the first command. */
const build = Effect.fnUntraced(function*(options: Options) {
  const host = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const outer = yield* ChildProcessSpawner
  const programs = yield* findPrograms(host)
  const base = yield* host.makeTempDirectoryScoped({ prefix: "hermes-sandbox-" }).pipe(Effect.flatMap(host.realPath))
  const temporary = yield* makeTemporary(base)
  const { forget, rules } = yield* makeRules(options, temporary)
  /** Rules for commands of an agent that plans. */
  const readOnly = yield* makeRules({ ...options, policy: "read-only" }, temporary)
  const { network } = options
  const proxy = typeof network === "string" ? undefined : yield* Effect.mapError(SandboxNetwork.proxy(path.join(base, "proxy"), network), unavailable)
  const joined = yield* SandboxNetwork.make(outer, programs.bwrap, proxy?.socket)

  const confined = Effect.fnUntraced(function*(command: ChildProcess.StandardCommand) {
    const policy = (yield* PermissionMode.current) === "plan" ? "read-only" : options.policy
    const list = policy === "read-only" ? yield* readOnly.rules : yield* NewRepository.inPlace(host, path, yield* rules, { base, forget })
    const cwd = command.options.cwd ?? (yield* CallDirectory) ?? "/tmp"
    const namespace = network === "all" ? undefined : yield* joined
    const caller = proxy === undefined ? undefined : yield* proxy.caller
    const entered = namespace === undefined ? [] : ["--user", "--net", "--preserve-credentials", "--target", String(namespace.pid), "--", programs.bwrap]
    const { shell: _, ...kept } = command.options
    const absent = list.filter(({ isAbsent }) => isAbsent === true)
    yield* Effect.addFinalizer(() => Effect.forEach(absent, ({ path }) => Effect.ignore(host.remove(path, { recursive: true, force: true })), { discard: true }))
    return ChildProcess.make(namespace === undefined ? programs.bwrap : programs.nsenter, [
      ...entered,
      ...isolation,
      "--ro-bind", "/", "/", "--dev", "/dev", "--proc", "/proc",
      ...mounts(list),
      ...unset.flatMap((name) => ["--unsetenv", name]),
      ...SandboxNetwork.variables(namespace?.port, caller),
      "--setenv", "TMPDIR", "/tmp", "--setenv", "HERMES_SANDBOX", policy,
      "--chdir", cwd, ...init(command)
    ], { ...kept, cwd: "/" })
  })

  const inside = (command: ChildProcess.Command): Effect.Effect<ChildProcess.Command, PlatformError | Schema.SchemaError, Scope.Scope> =>
    command._tag === "StandardCommand"
      ? confined(command)
      : Effect.map(Effect.all([inside(command.left), inside(command.right)]), ([left, right]) => ChildProcess.pipeTo(left, right, command.options))

  const spawner = makeSpawner((command) =>
    inside(command).pipe(
      // The process that holds the network said something else than bubblewrap does: the wall is broken.
      Effect.catchTag("SchemaError", (error) => Effect.die(error)),
      Effect.flatMap(outer.spawn)
    ))

  return CommandEnvironment.of({
    ...onThisMachine,
    name: "sandbox",
    isConfined: true,
    description: described(options.policy, typeof network === "string" ? network : "hosts"),
    explain: explained(options),
    reach: typeof network === "string" ? network : "hosts",
    forward: (port) =>
      network === "all"
        ? PortForward.direct(port)
        : PortForward.carried(port, spawner.spawn(ChildProcess.make(nodePath, ["-e", PortForward.carrier, String(port)], { env: {} }))),
    trees: { place: "here", spawner: outer, files: host },
    spawner,
    outside: { spawner: outer, files: host },
    files: SandboxFiles.make(host, path, rules)
  })
}, Effect.catchTag("PlatformError", ({ message }) => Effect.fail(unavailable(message))))

/** Runs a command behind the wall; fails with the reason where the wall does not stand. */
const tried = Effect.fnUntraced(function*({ spawner }: Environment) {
  const handle = yield* spawner.spawn(ChildProcess.make("/bin/sh", ["-c", "exit 0"], { env: {}, stdin: "ignore" }))
  const [said, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stderr)), handle.exitCode], { concurrency: 2 })
  if (code !== 0) return yield* unavailable(TextCut.head(said.trim(), 200))
}, Effect.scoped, Effect.catchTag("PlatformError", ({ message }) => Effect.fail(unavailable(message))))

/** The reason why this machine cannot build a sandbox; undefined where it can. Starts one, and ends it. */
export const obstacle = (options: Options): Effect.Effect<string | undefined, never, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Effect.scoped(Effect.flatMap(build(options), tried)).pipe(
    Effect.as(undefined),
    Effect.catchTag("NotBuilt", ({ reason }) => Effect.succeed(reason))
  )

/** Environment of a sandbox; it fails with what `refused` makes of the reason where the wall does not stand. */
export const make = (options: Options, refused: (reason: string) => ConfigError = refusal) =>
  Effect.tap(build(options), tried).pipe(Effect.mapError(({ reason }) => refused(reason)))

/** {@link make} as a Layer; the temporary directories and the network end with it. */
export const layer = (options: Options): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, make(options))

/** {@link layer} on a machine that was tried before: a wall that does not stand any more fails each command. */
export const layerTried = (options: Options): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, Effect.mapError(build(options), ({ reason }) => refusal(reason)))
