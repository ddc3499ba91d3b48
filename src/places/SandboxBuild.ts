/**
 * Builds the environment of a sandbox and tests it. `Sandbox` loads this module when a sandbox is built.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner, make as makeSpawner } from "effect/process/ChildProcessSpawner"
import { ConfigError } from "../base/domain/AgentError.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import { nodePath } from "../base/platform/CurrentProcess.ts"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import { CommandEnvironment, onThisMachine, type Service as Environment } from "./CommandEnvironment.ts"
import { CallDirectory } from "../base/domain/CallContext.ts"
import * as ProcessIdentity from "../base/platform/ProcessIdentity.ts"
import * as PortAddress from "./PortAddress.ts"
import * as PortForward from "./PortForward.ts"
import * as NewRepository from "./NewRepository.ts"
import * as SandboxFiles from "./SandboxFiles.ts"
import * as SandboxNetwork from "./SandboxNetwork.ts"
import * as SandboxPlaces from "./SandboxPlaces.ts"
import * as SandboxProgram from "./SandboxProgram.ts"
import { NotBuilt, type WallKind } from "./SandboxWall.ts"
import * as SharedCaches from "./SharedCaches.ts"

import { describeSandbox, makeRefusal, type Options, Wall } from "./Sandbox.ts"
import { describeTemporary } from "./SandboxRules.ts"

/** Variables that refer to sockets and directories outside of the sandbox. */
const unset = Object.fromEntries(
  [
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "DBUS_SESSION_BUS_ADDRESS",
    "XDG_RUNTIME_DIR",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DOCKER_HOST"
  ].map((name) => [name, undefined])
)

/**
 * Creates a function that explains the output of a command that this sandbox stopped. `refused` lists the hosts to
 * which its proxy denied access.
 */
const makeExplainer =
  ({ network, policy }: Options, wall: WallKind, describeProgram: () => string | undefined): Environment["explain"] =>
  (output, refused) => {
    if (refused.length > 0)
      return {
        reason: `the sandbox did not let ${refused.join(", ")} be reached`,
        setting: "terminal.sandbox.hosts",
        isAsked: true
      }
    const part = wall.stoppedBy(output)
    if (part === "files") {
      const places =
        policy === "read-only"
          ? `in ${describeTemporary(wall)} only`
          : `below the working tree and in ${describeTemporary(wall)} only`
      const program = describeProgram()
      const further = program === undefined ? "" : `; ${program}`
      const reason = `the sandbox lets commands write ${places}${further}`
      return { reason, setting: "terminal.sandbox.write", isAsked: false }
    }
    if (network === "all" || part === undefined) return undefined
    const reason =
      network === "none"
        ? "the sandbox has no network"
        : "the sandbox lets hosts be reached by HTTP through its proxy only"
    return { reason, setting: "terminal.sandbox.network", isAsked: false }
  }

const basePrefix = "hermes-sandbox-"

/** Parts of a sandbox. */
interface SandboxParts extends Effect.Success<ReturnType<typeof SandboxPlaces.makeRules>> {
  readonly options: Options
  readonly host: FileSystem.FileSystem
  readonly path: Path.Path
  readonly kind: WallKind
  readonly wall: Effect.Success<ReturnType<Effect.Success<ReturnType<WallKind["make"]>>>>
  /** Directory of the sandbox. */
  readonly base: string
  readonly temporary: Effect.Effect<SandboxPlaces.TemporaryDirectory, PlatformError>
  /** Rules for runs in the mode `plan`. */
  readonly readOnly: Effect.Success<ReturnType<typeof SandboxPlaces.makeRules>>
  /** Description of the protected program files under the rules of the last command. */
  keptProgram: string | undefined
}

/** Returns the rules for a command, and watches its tree while it runs. */
const findRules = Effect.fnUntraced(function* (
  { readOnly, caughtUp, rules, whileRunning, kind, host, path, base, forget }: SandboxParts,
  policy: Options["policy"]
) {
  if (policy === "read-only") return yield* readOnly.rules
  yield* caughtUp
  const list = yield* rules
  yield* whileRunning
  return kind.paths === "mounted" ? yield* NewRepository.prepareRules(host, path, list, { base, forget }) : list
})

const confineCommand = Effect.fnUntraced(function* (parts: SandboxParts, command: ChildProcess.StandardCommand) {
  const { wall } = parts
  const policy = (yield* PermissionMode.current) === "plan" ? "read-only" : parts.options.policy
  const { directory: tmp } = yield* parts.temporary
  const directory = command.options.cwd ?? (yield* CallDirectory) ?? tmp
  const bounds = yield* findRules(parts, policy)
  parts.keptProgram = SandboxProgram.describeKept(bounds)
  const start = yield* wall.confine(command, { rules: bounds, directory })
  const { shell: _, ...kept } = command.options
  return ChildProcess.make(start.program, start.args, {
    ...kept,
    cwd: start.directory,
    ...(kept.env === undefined ? { extendEnv: true } : {}),
    env: {
      ...kept.env,
      ...unset,
      ...(policy === "read-only" ? {} : SharedCaches.omitGiven(yield* parts.cacheVariables, kept.env)),
      ...SandboxNetwork.buildVariables(start.proxyPort, start.proxyPort === undefined ? undefined : yield* wall.caller),
      // The shell of macOS uses its own temporary directory for here-documents.
      ...(parts.kind.paths === "mounted" ? {} : { TMPPREFIX: parts.path.join(tmp, "zsh") }),
      TMPDIR: tmp,
      HERMES_SANDBOX: policy
    }
  })
})

const confinePipeline = (
  parts: SandboxParts,
  command: ChildProcess.Command
): Effect.Effect<ChildProcess.Command, PlatformError | Schema.SchemaError, Scope.Scope> =>
  command._tag === "StandardCommand"
    ? confineCommand(parts, command)
    : Effect.map(
        Effect.all([confinePipeline(parts, command.left), confinePipeline(parts, command.right)]),
        ([left, right]) => ChildProcess.pipeTo(left, right, command.options)
      )

/** Creates the parts of a sandbox: its directory, its wall and its rules. */
const makeParts = Effect.fnUntraced(function* (options: Options, outer: ChildProcessSpawner["Service"]) {
  const host = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const kind = yield* Wall
  const raise = yield* kind.make(host)
  const base = yield* host.makeTempDirectoryScoped({ prefix: basePrefix }).pipe(Effect.flatMap(host.realPath))
  yield* ProcessIdentity.markAsOwn(base)
  yield* Effect.forkScoped(ProcessIdentity.removeAbandoned(path.dirname(base), basePrefix))
  const wall = yield* raise({ spawner: outer, base, network: options.network })
  const temporary = yield* SandboxPlaces.makeTemporary(base, kind.paths)
  const parts: SandboxParts = {
    ...(yield* SandboxPlaces.makeRules(options, temporary, kind.paths)),
    readOnly: yield* SandboxPlaces.makeRules({ ...options, policy: "read-only" }, temporary, kind.paths),
    options,
    host,
    path,
    kind,
    wall,
    base,
    temporary,
    keptProgram: undefined
  }
  return parts
})

/** Builds the environment of a sandbox. No process is started before the first command. */
const buildSandbox = Effect.fnUntraced(
  function* (options: Options) {
    const outer = yield* ChildProcessSpawner
    const parts = yield* makeParts(options, outer)
    const { base, forget, host, kind, path, readOnly, rules, temporary, wall, watch } = parts
    const { network } = options
    const spawner = makeSpawner((command) =>
      confinePipeline(parts, command).pipe(
        // The process that holds the network sent output that bubblewrap never sends: the sandbox is broken.
        Effect.catchTag("SchemaError", (error) => Effect.die(error)),
        Effect.flatMap(outer.spawn)
      )
    )
    const environment = CommandEnvironment.of({
      ...onThisMachine,
      name: "sandbox",
      isConfined: true,
      description: yield* describeSandbox(options),
      explain: makeExplainer(options, kind, () => parts.keptProgram),
      reach: typeof network === "string" ? network : "hosts",
      forward: (port) =>
        wall.ports === "shared"
          ? PortAddress.toLocalAddress(port)
          : PortForward.carryConnections(
              port,
              spawner.spawn(ChildProcess.make(nodePath, ["-e", PortForward.carrier, String(port)], { env: {} }))
            ),
      trees: { place: "here", spawner: outer, files: host },
      spawner,
      outside: { spawner: outer, files: host },
      files: SandboxFiles.make({
        host,
        path,
        rules,
        temporary: Effect.map(temporary, ({ directory }) => directory),
        admitWrite: watch.admit
      }),
      temporaryDirectories: Effect.map(temporary, ({ sources }) => sources),
      planted: { take: watch.takeSetAside, keep: watch.keep }
    })
    return { base, environment, forgetRules: Effect.andThen(forget, readOnly.forget) }
  },
  Effect.catchTag(["PlatformError", "NotMarked"], ({ message }) => new NotBuilt({ reason: message, isPassing: true }))
)

type BuiltSandbox = Effect.Success<ReturnType<typeof buildSandbox>>

/**
 * Returns true if the output of a trial shows that a shared resource was exhausted: descriptors, processes, memory or
 * space.
 */
const isExhaustion = (output: string): boolean =>
  /too many open files|resource temporarily unavailable|cannot allocate memory|cannot fork|\b(?:EMFILE|ENFILE|EAGAIN|ENOMEM)\b/i.test(
    output
  )

/** Creates the error for a sandbox that could not be tested. */
const makeUntriedError = (reason: string): ConfigError =>
  new ConfigError({
    path: "terminal.backend",
    message:
      `terminal.backend: the sandbox could not be tried: ${reason}. Nothing runs without it: free files, ` +
      "processes or space " +
      "(ulimit -a, df) and start again, or set terminal.backend to local to run commands without a sandbox"
  })

/**
 * Returns true if bubblewrap found no mount point. A file of another program, such as a socket, was removed after it
 * was listed; the next start lists the files again.
 */
const isFileGone = ({ reason }: NotBuilt): boolean => /^bwrap: Can't (?:create file at|mkdir parents for) /.test(reason)

const runOnce = Effect.fnUntraced(
  function* ({ environment: { spawner } }: BuiltSandbox, script: string, words: ReadonlyArray<string>) {
    const handle = yield* spawner.spawn(
      ChildProcess.make("/bin/sh", ["-c", script, "sh", ...words], { env: { PATH: "/usr/bin:/bin" }, stdin: "ignore" })
    )
    const [said, code] = yield* Effect.all([Stream.mkString(Stream.decodeText(handle.stderr)), handle.exitCode], {
      concurrency: 2
    })
    if (code !== 0)
      return yield* new NotBuilt({ reason: TextCut.takeHead(said.trim(), 200), isPassing: isExhaustion(said) })
  },
  Effect.scoped,
  Effect.catchTag("PlatformError", ({ message }) => new NotBuilt({ reason: message, isPassing: true }))
)

/**
 * Runs a command in the sandbox; fails with the reason if the sandbox cannot be built. The start is repeated with new
 * rules if a file of another program was removed in the meantime.
 */
const tryCommand = (sandbox: BuiltSandbox, script: string, words: ReadonlyArray<string>) =>
  runOnce(sandbox, script, words).pipe(
    Effect.tapError(() => sandbox.forgetRules),
    Effect.retry({ times: 3, while: isFileGone })
  )

/**
 * Script that can read a file written by a file tool (`$1`), and that cannot read or write a file that is reserved for
 * this program (`$2`).
 */
const trial = [
  `cat "$1" >/dev/null || exit`,
  `if cat "$2" >/dev/null 2>&1; then echo "a command read what is hidden" >&2; exit 1; fi`,
  `if (: > "$2") 2>/dev/null; then echo "a command wrote outside of it" >&2; exit 1; fi`
].join("\n")

/** Tests a sandbox from inside and outside, once per machine. */
const trySandbox = Effect.fnUntraced(
  function* (sandbox: BuiltSandbox) {
    const { base, environment } = sandbox
    const fs = yield* FileSystem.FileSystem
    const inside = yield* environment.files.makeTempFileScoped()
    yield* fs.writeFileString(`${base}/outside`, "hidden")
    yield* tryCommand(sandbox, trial, [inside, `${base}/outside`])
  },
  Effect.scoped,
  Effect.catchTag("PlatformError", ({ message }) => new NotBuilt({ reason: message, isPassing: true }))
)

/** See `Sandbox.findObstacle`. */
export const findObstacle = (options: Options) =>
  Effect.scoped(Effect.flatMap(buildSandbox(options), trySandbox)).pipe(
    Effect.as(undefined),
    Effect.catchTag("NotBuilt", ({ isPassing, reason }) =>
      isPassing === true ? Effect.fail(makeUntriedError(reason)) : Effect.succeed(reason)
    )
  )

const failWith =
  (refused: (reason: string, wall: WallKind) => ConfigError) =>
  ({ reason }: NotBuilt): Effect.Effect<never, ConfigError> =>
    Effect.flatMap(Wall, (wall) => Effect.fail(refused(reason, wall)))

/** See `Sandbox.make`. */
export const makeEnvironment = (options: Options, refused: (reason: string, wall: WallKind) => ConfigError) =>
  buildSandbox(options).pipe(
    Effect.tap((sandbox) => tryCommand(sandbox, "exit 0", [])),
    Effect.map(({ environment }) => environment),
    Effect.catchTag("NotBuilt", failWith(refused))
  )

/** See `Sandbox.layerTried`. */
export const makeTried = (options: Options) =>
  buildSandbox(options).pipe(
    Effect.map(({ environment }) => environment),
    Effect.catchTag(
      "NotBuilt",
      failWith((reason, wall) => makeRefusal(reason, wall))
    )
  )
