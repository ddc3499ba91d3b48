/**
 * Linux sandbox: bubblewrap with namespaces for users, processes, mounts and the network, without new privileges or
 * capabilities. Each command has separate mounts, according to the rules. All commands of a sandbox share one network
 * namespace, so that a command can reach a server that another command started.
 */
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as Scope from "effect/Scope"
import * as Semaphore from "effect/Semaphore"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import type { ChildProcessHandle, ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import { getMachineMemory, nodePath } from "../base/platform/CurrentProcess.ts"
import * as ForwardProxy from "../base/platform/ForwardProxy.ts"
import * as SandboxNetwork from "./SandboxNetwork.ts"
import type { Rule } from "./SandboxRules.ts"
import { NotBuilt, type Site, type Wall, type WallKind } from "./SandboxWall.ts"

const programDirectories = ["/usr/bin", "/bin", "/usr/local/bin"]

/** Finds the programs that are needed to build the sandbox. */
const findPrograms = Effect.fnUntraced(function* (fs: FileSystem.FileSystem) {
  const findProgram = Effect.fnUntraced(function* (name: string) {
    for (const directory of programDirectories) {
      const isThere = yield* Effect.mapError(
        fs.exists(`${directory}/${name}`),
        ({ message }) => new NotBuilt({ reason: message, isPassing: true })
      )
      if (isThere) return `${directory}/${name}`
    }
    return yield* new NotBuilt({ reason: `${name} is not installed` })
  })
  return { bwrap: yield* findProgram("bwrap"), nsenter: yield* findProgram("nsenter") }
})

/**
 * Builds the arguments of the first process of a sandbox, which waits for the command and exits with its status.
 * bubblewrap's own first process would remain as a zombie on the machine, and the end of the command would be noticed a
 * second late.
 */
const buildInitArguments = ({
  args,
  command,
  options: { shell }
}: ChildProcess.StandardCommand): ChildProcess.StandardCommand["args"] => {
  const first = ["--as-pid-1", "--", "/bin/sh", "-c"]
  if (shell !== undefined && shell !== false) return [...first, `(${[command, ...args].join(" ")}\n); exit "$?"`]
  const [flag, script, ...rest] = args
  // A script runs in a part of the first shell, which avoids starting another program.
  return command === "/bin/sh" && flag === "-c" && typeof script === "string"
    ? [...first, `(${script}\n); exit "$?"`, ...rest]
    : [...first, '"$@"; exit "$?"', "sh", command, ...args]
}

const isolation = [
  "--unshare-user",
  "--unshare-pid",
  "--unshare-ipc",
  "--unshare-uts",
  "--unshare-cgroup-try",
  "--disable-userns",
  "--cap-drop",
  "ALL",
  "--die-with-parent"
]

/** Size of `/dev/shm` in bytes: a quarter of the memory, because the processes of a command may use the rest. */
const sharedBytes = String(Math.floor(getMachineMemory() / 4))

/** Builds the arguments that apply the rules as mounts over a read-only root. */
const buildMountArguments = (rules: ReadonlyArray<Rule>): ReadonlyArray<string> => [
  ...rules.flatMap(({ allows, isAbsent, isFile, path, source = path }) => {
    if (isAbsent === true) return []
    switch (allows) {
      case "write":
        return ["--bind", source, path]
      case "read":
        return ["--ro-bind", source, path]
      case "nothing":
        return isFile === true ? ["--ro-bind", "/dev/null", path] : ["--tmpfs", path]
    }
  }),
  // Applied last, because visible directories below a hidden directory are mounted before it becomes read-only.
  ...rules.flatMap(({ allows, isFile, path }) =>
    allows === "nothing" && isFile !== true ? ["--remount-ro", path] : []
  )
]

const HolderInfo = Schema.fromJsonString(Schema.Struct({ "child-pid": Schema.Int }))

/** Reads text from a process until the text contains `end`. */
const readTextUntil = (
  text: Stream.Stream<Uint8Array, PlatformError>,
  end: string
): Effect.Effect<string, PlatformError> =>
  text.pipe(
    Stream.decodeText(),
    Stream.scan(
      () => "",
      (before, more) => before + more
    ),
    Stream.takeUntil((said) => said.includes(end)),
    Stream.runLast,
    Effect.map((last) => (last._tag === "Some" ? last.value : ""))
  )

/** Network namespace of a sandbox. */
interface JoinedNamespace {
  /** Id of a process that is in the namespace. */
  readonly pid: number
  /** Port of the proxy inside the namespace, or `undefined` if there is no proxy. */
  readonly port: string | undefined
}

/**
 * Creates a network namespace without an external network, in which all commands of a sandbox can reach each other. One
 * process holds the namespace and is restarted if it ends. If a socket file of a proxy is given, the process forwards
 * connections to the proxy.
 */
const makeNamespace = Effect.fnUntraced(function* (
  spawner: ChildProcessSpawner["Service"],
  bwrap: string,
  socket: string | undefined
): Effect.fn.Return<Effect.Effect<JoinedNamespace, PlatformError | Schema.SchemaError>, never, Scope.Scope> {
  const scope = yield* Effect.scope
  const lock = yield* Semaphore.make(1)
  let held: { readonly handle: ChildProcessHandle; readonly joined: JoinedNamespace } | undefined
  const holder =
    socket === undefined ? ["/bin/sh", "-c", "echo ready; read -r _"] : [nodePath, "-e", ForwardProxy.carrier, socket]
  const start = Effect.gen(function* () {
    const end = yield* Deferred.make<void>()
    const handle = yield* spawner.spawn(
      ChildProcess.make(
        bwrap,
        [
          "--unshare-user",
          "--unshare-net",
          "--unshare-pid",
          "--die-with-parent",
          "--ro-bind",
          "/",
          "/",
          "--info-fd",
          "3",
          "--as-pid-1",
          "--",
          ...holder
        ],
        {
          cwd: "/",
          env: {},
          stdin: Stream.drain(Stream.fromEffect(Deferred.await(end))),
          killSignal: "SIGKILL",
          additionalFds: { fd3: { type: "output" } }
        }
      )
    )
    // The process ends when its input ends. This is faster than killing it and waiting for its children.
    yield* Effect.addFinalizer(() =>
      Effect.andThen(Deferred.succeed(end, undefined), Effect.timeoutOption(Effect.ignore(handle.exitCode), "1 second"))
    )
    const info = yield* readTextUntil(handle.getOutputFd(3), "}")
    // The namespace can only be joined after its process has started.
    const said = yield* readTextUntil(handle.stdout, "\n")
    const { "child-pid": pid } = yield* Schema.decodeEffect(HolderInfo)(info)
    held = { handle, joined: { pid, port: /^ready (\d+)/.exec(said)?.[1] } }
    return held.joined
  }).pipe(Effect.provideService(Scope.Scope, scope))
  return lock.withPermit(
    Effect.suspend(() =>
      held === undefined
        ? start
        : Effect.flatMap(
            Effect.orElseSucceed(held.handle.isRunning, () => false),
            (isRunning) => (isRunning && held !== undefined ? Effect.succeed(held.joined) : start)
          )
    )
  )
})

const make: WallKind["make"] = (files) =>
  Effect.map(findPrograms(files), ({ bwrap, nsenter }) =>
    Effect.fnUntraced(function* ({ base, network, spawner }: Site): Effect.fn.Return<Wall, NotBuilt, Scope.Scope> {
      const socket = typeof network === "string" ? undefined : `${base}/proxy`
      const proxy =
        socket === undefined || typeof network === "string"
          ? undefined
          : yield* Effect.mapError(
              SandboxNetwork.openProxy({ path: socket }, network),
              (reason) => new NotBuilt({ reason, isPassing: true })
            )
      const joined = yield* makeNamespace(spawner, bwrap, socket)
      return {
        ports: network === "all" ? "shared" : "own",
        caller: proxy?.caller ?? Effect.undefined,
        confine: Effect.fnUntraced(function* (command, { directory, rules }) {
          const net = network === "all" ? undefined : yield* joined
          const absent = rules.filter(({ isAbsent }) => isAbsent === true)
          yield* Effect.addFinalizer(() =>
            Effect.forEach(absent, ({ path }) => Effect.ignore(files.remove(path, { recursive: true, force: true })), {
              discard: true
            })
          )
          return {
            program: net === undefined ? bwrap : nsenter,
            args: [
              ...(net === undefined
                ? []
                : ["--user", "--net", "--preserve-credentials", "--target", String(net.pid), "--", bwrap]),
              ...isolation,
              "--ro-bind",
              "/",
              "/",
              "--dev",
              "/dev",
              "--size",
              sharedBytes,
              "--tmpfs",
              "/dev/shm",
              "--proc",
              "/proc",
              // `/proc/sys` is read-only, because the kernel checks the user and not the capabilities of a process:
              // root without capabilities could change settings of the machine.
              "--ro-bind-try",
              "/proc/sys",
              "/proc/sys",
              ...buildMountArguments(rules),
              // Files in this directory would use memory that does not count towards any limit.
              "--remount-ro",
              "/dev",
              "--chdir",
              directory,
              ...buildInitArguments(command)
            ],
            directory: "/",
            proxyPort: net?.port
          }
        })
      }
    })
  )

const noWrite = /read-only file system|EROFS/i
// A protected file is a mount point: it cannot be removed or renamed, and files cannot be renamed into its directory.
// The empty `.hermes`, which `git clean` tries to remove, belongs to the sandbox and is not an error.
const noMove = /^(?!.*\.hermes\b).*(?:device or resource busy|EBUSY|cross-device link|EXDEV)/im
const noNetwork =
  /could not resolve host|temporary failure in name resolution|network is unreachable|ENETUNREACH|EAI_AGAIN|ENOTFOUND/i

/** Bubblewrap sandboxes. */
export const bubblewrap: WallKind = {
  name: "bubblewrap",
  requirement: "install the package bubblewrap and allow user namespaces",
  untried: undefined,
  paths: "mounted",
  stoppedBy: (output) => {
    if (noWrite.test(output) || noMove.test(output)) return "files"
    return noNetwork.test(output) ? "network" : undefined
  },
  make
}
