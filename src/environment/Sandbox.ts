/**
 * An environment on this machine behind a wall: commands and file tools write below the working tree and in temporary directories of
 * their own only, do not see credentials, and reach no network unless it is given.
 *
 * **Details**
 *
 * The wall is bubblewrap on Linux (`Bubblewrap.ts`) and Seatbelt on macOS (`Seatbelt.ts`, which was not tried on a real machine); both
 * follow the same {@link SandboxRules}. What is fixed inside of the working tree is read-only: `.git/hooks`, `.git/config` (of
 * repositories below it too) and `.hermes`, from which something runs later. Where there is no `.git` or `.hermes`, an empty directory stands until the sandbox ends; a
 * repository that a command makes there is kept without what runs programs (Linux), or cannot be made (macOS). A working tree that holds the user's home directory cannot be written.
 *
 * The wall is tried when the layer is built: where it does not stand, the layer fails with a `ConfigError` that says what is missing,
 * and nothing runs.
 *
 * **Gotchas**
 *
 * On Linux a command that is stopped is killed at once, without the time that `SIGTERM` gives it on the host. A repository that a command
 * makes below the working tree has the settings and hooks that this command gave it: git of the user runs them there. Later commands and
 * file tools do not change them. The kernel is shared: this holds a program that goes astray or was talked into something, not an
 * exploit of the kernel.
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
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../domain/AgentError.ts"
import * as TextCut from "../domain/TextCut.ts"
import { removeEmptyDirectory } from "../platform/HeldPath.ts"
import { nodePath, operatingSystem } from "../platform/CurrentProcess.ts"
import * as PermissionMode from "../config/PermissionMode.ts"
import { CallConversation, CallDirectory, CommandEnvironment, onThisMachine, type Service as Environment } from "./CommandEnvironment.ts"
import { bubblewrap } from "./Bubblewrap.ts"
import * as PortForward from "./PortForward.ts"
import * as NewRepository from "./NewRepository.ts"
import * as SandboxFiles from "./SandboxFiles.ts"
import * as SandboxNetwork from "./SandboxNetwork.ts"
import { described, ordered, type Rule, within } from "./SandboxRules.ts"
import { NotBuilt, type WallKind } from "./SandboxWall.ts"
import { seatbelt } from "./Seatbelt.ts"
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

/** The wall of the sandboxes that are built; that of this operating system. */
export const Wall = Context.Reference<WallKind>("hermes-effect/environment/SandboxWall", {
  defaultValue: () => operatingSystem === "darwin" ? seatbelt() : bubblewrap
})

/** Remedy where a sandbox cannot be built. */
export const remedyOf = ({ requirement }: WallKind): string => `${requirement}, or set terminal.backend to local to run commands without a sandbox`

/** The error of a sandbox that was asked for and cannot be built; `setting` asked for it. */
export const refusal = (reason: string, wall: WallKind, setting = "terminal.backend"): ConfigError =>
  new ConfigError({ path: setting, message: `${setting}: the sandbox cannot start: ${reason}. Remedy: ${remedyOf(wall)}` })

/** Variables that name sockets and directories that are not in the sandbox. */
const unset = Object.fromEntries(
  ["SSH_AUTH_SOCK", "SSH_AGENT_PID", "DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR", "DISPLAY", "WAYLAND_DISPLAY", "DOCKER_HOST"].map((name) => [name, undefined])
)

/**
 * Time for which a look at the files holds: looking costs as much as starting a command. The user makes what a rule is about, and
 * seldom; a command cannot change it.
 */
const rulesMillis = 1000

/** Temporary files of one conversation. */
interface Temporary {
  /** Directory for them, as commands see it. */
  readonly directory: string
  readonly rules: ReadonlyArray<Rule>
}

/** Directories for temporary files, of each conversation its own, so that two see nothing of each other: at the usual paths where they can stand there. */
const makeTemporary = Effect.fnUntraced(function*(base: string, paths: WallKind["paths"]) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const numbers = new Map<string | undefined, number>()
  return Effect.gen(function*() {
    const conversation = yield* CallConversation
    const number = numbers.get(conversation) ?? numbers.size
    numbers.set(conversation, number)
    const root = path.join(base, String(number))
    const at = { tmp: path.join(root, "tmp"), varTmp: path.join(root, "var-tmp") }
    const made = paths === "mounted" ? [at.tmp, at.varTmp] : [at.tmp]
    yield* Effect.forEach(made, (directory) => fs.makeDirectory(directory, { mode: 0o700, recursive: true }), { discard: true })
    const temporary: Temporary = paths === "mounted"
      ? { directory: "/tmp", rules: [{ path: "/tmp", source: at.tmp, allows: "write" }, { path: "/var/tmp", source: at.varTmp, allows: "write" }] }
      : { directory: at.tmp, rules: [{ path: base, allows: "nothing" }, { path: at.tmp, allows: "write" }] }
    return temporary
  })
})

/** Rules of the calls from each directory, for the files that exist now. */
const makeRules = Effect.fnUntraced(function*(options: Options, temporary: Effect.Effect<Temporary, PlatformError>) {
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

  const scope = yield* Effect.scope
  /** Repositories below each tree: looked for once more after each command, while nobody waits for it. */
  const inner = new Map<string, Fiber.Fiber<ReadonlyArray<string>>>()
  let running = 0

  const lookInto = (tree: string) =>
    Effect.tap(Effect.forkIn(Effect.provideContext(WorkingTree.nestedIn(tree), services), scope), (fiber) => Effect.sync(() => void inner.set(tree, fiber)))

  const nestedOf = Effect.fnUntraced(function*(tree: string) {
    const known = inner.get(tree)
    // A command that runs may make one at any time.
    return yield* Fiber.join(known === undefined || running > 0 ? yield* lookInto(tree) : known)
  })

  const ofTree = Effect.fnUntraced(function*(directory: string) {
    const tree = yield* Effect.orElseSucceed(fs.realPath(yield* trees.rootOf(directory)), () => directory)
    if (tree === "/") return []
    // It is seen even where a home directory lies in /tmp, which is another one inside.
    if (options.home !== undefined && within(options.home, tree)) return yield* present("read")(tree)
    const nested = options.policy === "read-only" ? [] : yield* nestedOf(tree)
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
    return ordered([...(yield* temporary).rules, ...lists.flat()])
  })

  const known = new Map<string, { readonly until: number; readonly list: ReadonlyArray<Rule> }>()
  const forget = Effect.sync(() => known.clear())
  /** The life of a command that may make repositories, until the scope ends. */
  const whileRunning = Effect.acquireRelease(
    Effect.sync(() => void running++),
    () =>
      Effect.suspend(() => {
        running--
        return Effect.andThen(forget, Effect.forEach([...inner.keys()], lookInto, { discard: true }))
      })
  )
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
  return { forget, rules, whileRunning }
})

/** Explains the output of a command that this sandbox stopped; `refused` are the hosts that its proxy kept it from. */
const explained = ({ network, policy }: Options, wall: WallKind): Environment["explain"] => (output, refused) => {
  if (refused.length > 0) return { reason: `the sandbox did not let ${refused.join(", ")} be reached`, setting: "terminal.sandbox.hosts", isAsked: true }
  const part = wall.stoppedBy(output)
  if (part === "files") {
    const places = policy === "read-only" ? `in ${temporaryOf(wall)} only` : `below the working tree and in ${temporaryOf(wall)} only`
    return { reason: `the sandbox lets commands write ${places}`, setting: "terminal.sandbox.write", isAsked: false }
  }
  if (network === "all" || part === undefined) return undefined
  const reason = network === "none" ? "the sandbox has no network" : "the sandbox lets hosts be reached by HTTP through its proxy only"
  return { reason, setting: "terminal.sandbox.network", isAsked: false }
}

/** Directory of temporary files, for people and models. */
const temporaryOf = ({ paths }: WallKind): string => paths === "mounted" ? "/tmp" : "$TMPDIR"

/** Description of a sandbox for a model that works in it. */
export const description = ({ network, policy }: Pick<Options, "network" | "policy">): Effect.Effect<string> =>
  Effect.map(Wall, (wall) => described(policy, typeof network === "string" ? network : "hosts", temporaryOf(wall)))

/** Environment of a sandbox; nothing is started before the first command. */
const build = Effect.fnUntraced(function*(options: Options) {
  const host = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const outer = yield* ChildProcessSpawner
  const kind = yield* Wall
  const raise = yield* kind.make(host)
  const base = yield* host.makeTempDirectoryScoped({ prefix: "hermes-sandbox-" }).pipe(Effect.flatMap(host.realPath))
  const { network } = options
  const wall = yield* raise({ spawner: outer, base, network })
  const temporary = yield* makeTemporary(base, kind.paths)
  const { forget, rules, whileRunning } = yield* makeRules(options, temporary)
  /** Rules for commands of an agent that plans. */
  const readOnly = yield* makeRules({ ...options, policy: "read-only" }, temporary)

  const rulesFor = Effect.fnUntraced(function*(policy: Options["policy"]) {
    if (policy === "read-only") return yield* readOnly.rules
    const list = yield* rules
    yield* whileRunning
    return kind.paths === "mounted" ? yield* NewRepository.inPlace(host, path, list, { base, forget }) : list
  })

  const confined = Effect.fnUntraced(function*(command: ChildProcess.StandardCommand) {
    const policy = (yield* PermissionMode.current) === "plan" ? "read-only" : options.policy
    const { directory: tmp } = yield* temporary
    const directory = command.options.cwd ?? (yield* CallDirectory) ?? tmp
    const start = yield* wall.confine(command, { rules: yield* rulesFor(policy), directory })
    const { shell: _, ...kept } = command.options
    return ChildProcess.make(start.program, start.args, {
      ...kept,
      cwd: start.directory,
      ...kept.env === undefined ? { extendEnv: true } : {},
      env: {
        ...kept.env,
        ...unset,
        ...SandboxNetwork.variables(start.proxyPort, start.proxyPort === undefined ? undefined : yield* wall.caller),
        // The shell of macOS takes its own for here-documents.
        ...kind.paths === "mounted" ? {} : { TMPPREFIX: path.join(tmp, "zsh") },
        TMPDIR: tmp,
        HERMES_SANDBOX: policy
      }
    })
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

  const environment = CommandEnvironment.of({
    ...onThisMachine,
    name: "sandbox",
    isConfined: true,
    description: yield* description(options),
    explain: explained(options, kind),
    reach: typeof network === "string" ? network : "hosts",
    forward: (port) =>
      wall.ports === "shared"
        ? PortForward.direct(port)
        : PortForward.carried(port, spawner.spawn(ChildProcess.make(nodePath, ["-e", PortForward.carrier, String(port)], { env: {} }))),
    trees: { place: "here", spawner: outer, files: host },
    spawner,
    outside: { spawner: outer, files: host },
    files: SandboxFiles.make(host, path, rules, Effect.map(temporary, ({ directory }) => directory))
  })
  return { base, environment }
}, Effect.catchTag("PlatformError", ({ message }) => new NotBuilt({ reason: message })))

/** Runs a command behind the wall; fails with the reason where the wall does not stand. */
const tried = Effect.fnUntraced(function*({ spawner }: Environment, script: string, words: ReadonlyArray<string>) {
  const handle = yield* spawner.spawn(ChildProcess.make("/bin/sh", ["-c", script, "sh", ...words], { env: { PATH: "/usr/bin:/bin" }, stdin: "ignore" }))
  const [said, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stderr)), handle.exitCode], { concurrency: 2 })
  if (code !== 0) return yield* new NotBuilt({ reason: TextCut.head(said.trim(), 200) })
}, Effect.scoped, Effect.catchTag("PlatformError", ({ message }) => new NotBuilt({ reason: message })))

/** Reads what a file tool wrote (`$1`), and cannot write or read what only this program may (`$2`). */
const trial = [
  `cat "$1" >/dev/null || exit`,
  `if cat "$2" >/dev/null 2>&1; then echo "a command read what is hidden" >&2; exit 1; fi`,
  `if (: > "$2") 2>/dev/null; then echo "a command wrote outside of it" >&2; exit 1; fi`
].join("\n")

/** Tries a wall from both sides, once for a machine. */
const triedWhole = Effect.fnUntraced(function*({ base, environment }: Effect.Success<ReturnType<typeof build>>) {
  const fs = yield* FileSystem.FileSystem
  const inside = yield* environment.files.makeTempFileScoped()
  yield* fs.writeFileString(`${base}/outside`, "hidden")
  yield* tried(environment, trial, [inside, `${base}/outside`])
}, Effect.scoped, Effect.catchTag("PlatformError", ({ message }) => new NotBuilt({ reason: message })))

/** The reason why this machine cannot build a sandbox; undefined where it can. Starts one, and ends it. */
export const obstacle = (options: Options): Effect.Effect<string | undefined, never, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Effect.scoped(Effect.flatMap(build(options), triedWhole)).pipe(
    Effect.as(undefined),
    Effect.catchTag("NotBuilt", ({ reason }) => Effect.succeed(reason))
  )

const failingWith = (refused: (reason: string, wall: WallKind) => ConfigError) => ({ reason }: NotBuilt): Effect.Effect<never, ConfigError> =>
  Effect.flatMap(Wall, (wall) => Effect.fail(refused(reason, wall)))

/** Environment of a sandbox; it fails with what `refused` makes of the reason where the wall does not stand. */
export const make = (options: Options, refused: (reason: string, wall: WallKind) => ConfigError = (reason, wall) => refusal(reason, wall)) =>
  build(options).pipe(
    Effect.map(({ environment }) => environment),
    Effect.tap((environment) => tried(environment, "exit 0", [])),
    Effect.catchTag("NotBuilt", failingWith(refused))
  )

/** {@link make} as a Layer; the temporary directories and the network end with it. */
export const layer = (options: Options): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, make(options))

/** {@link layer} on a machine that was tried before: a wall that does not stand any more fails each command. */
export const layerTried = (options: Options): Layer.Layer<CommandEnvironment, ConfigError, ChildProcessSpawner | FileSystem.FileSystem | Path.Path> =>
  Layer.effect(CommandEnvironment, build(options).pipe(
    Effect.map(({ environment }) => environment),
    Effect.catchTag("NotBuilt", failingWith((reason, wall) => refusal(reason, wall)))
  ))
