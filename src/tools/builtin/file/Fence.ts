/**
 * Decides, from an absolute path, which files the tools may access: credential stores and endless devices are not read;
 * system trees, shell start-up files and the agent's own secrets are not written. {@link Targets} is the only
 * conversion of a path written by a model to a path that a tool may access: it expands `~`, resolves against the call's
 * directory, normalizes, follows symbolic links and checks the result.
 *
 * **Details**
 *
 * A path is judged twice, as written and with symbolic links followed. It is refused if either form is refused. The
 * comparison ignores case, because some file systems do. If versions of the specification differ, the stricter one
 * applies: project `.env` files are not read, and the session database and the agent's configuration are neither read
 * nor written. `/usr/src` and `/usr/local/src` remain writable because containers often have their projects there.
 *
 * Writes outside the working tree of a run need an approval. The tree is the repository that contains the directory of
 * the call, or else that directory; a repository that contains the user's whole home does not count. Paths of the file
 * tools are checked after symbolic links are followed. An environment that confines writes itself needs no approvals:
 * writes outside the tree fail there.
 *
 * **Gotchas**
 *
 * These checks are defense in depth and not a security boundary: a shell that the agent may use can still reach these
 * files, and a link may change between the decision and the access. The tables cover POSIX systems.
 *
 * Source: `hermes-llm.md` §19.6, the usage document ("block writes to system paths").
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import { makeUnifiedDiff } from "../../../base/domain/FileChange.ts"
import * as Redaction from "../../../base/domain/Redaction.ts"
import type { ToolArguments } from "../../../middleware/Kind.ts"
import { CommandEnvironment, type Service as EnvironmentService } from "../../../places/CommandEnvironment.ts"
import * as WorkingTrees from "../../../places/WorkingTree.ts"
import { CurrentWorkspace } from "../../../base/domain/CallContext.ts"
import { ProcessEnvironment } from "../../../base/platform/ProcessVariables.ts"
import { credentialDirectories, credentialFiles, isOwnSecret, isPlainSecret } from "../../fence/SensitivePaths.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Toolset from "../../Toolset.ts"
import type { Concern } from "../../approval/ApprovalRequest.ts"
import * as Boundary from "../../fence/Boundary.ts"
import * as Danger from "../../danger/Danger.ts"
import * as RepositorySettings from "../../fence/RepositorySettings.ts"
import * as TreePrograms from "../../fence/TreePrograms.ts"
import * as V4A from "../patch/V4A.ts"
import { toCanonicalPath, expandHome, PathRoots, type Service as PathRootsService } from "./PathRoots.ts"
import * as Problem from "./Problem.ts"
import * as WorkspaceFence from "./WorkspaceFence.ts"
import { type Access, type Denial, isWithin } from "./WorkspaceFence.ts"

const systemTrees = [
  "/bin",
  "/boot",
  "/dev",
  "/etc",
  "/lib",
  "/lib32",
  "/lib64",
  "/proc",
  "/sbin",
  "/sys",
  "/usr",
  "/private/etc",
  "/private/var",
  "/system",
  "/library",
  "/var/db",
  "/var/lib/dpkg",
  "/var/spool/cron"
]
const systemFiles = ["/var/run/docker.sock", "/run/docker.sock"]
const writableInside = ["/usr/src", "/usr/local/src", "/private/var/folders", "/private/var/tmp", "/dev/shm"]

const startupFiles = [
  ".bash_login",
  ".bash_logout",
  ".bash_profile",
  ".bashrc",
  ".config/fish/config.fish",
  ".profile",
  ".zlogin",
  ".zprofile",
  ".zshenv",
  ".zshrc"
]
/** Files in a credential directory that contain no secrets. */
const publicFile = /(^|\/)(config|known_hosts[^/]*|authorized_keys|[^/]+\.pub)$/
/** Files with settings below the agent's home directory. */
const agentSettings = ["config.yaml", "config.yml"]
/** Directories below the agent's home directory whose files run unattended in scheduled jobs. */
const agentUnattended = ["cron", "scripts"]

/**
 * Files in `/proc` that describe or contain the memory of a process. Memory and environment of a process count as
 * secrets of the machine.
 */
const processMaps = /^\/proc\/[^/]+\/(?:task\/[^/]+\/)?(?:maps|pagemap)$/
const endlessPaths = [
  String.raw`dev\/(zero|full|u?random|stdin|stdout|stderr|tty[^/]*|console|ptmx|pts\/.*|fd\/.*)`,
  String.raw`proc\/(kmsg|kcore|[^/]+\/fd\/[0-2])`,
  String.raw`sys\/.*\/trace_pipe(_raw)?`
].join("|")
const endlessDevice = new RegExp(String.raw`^\/(${endlessPaths})$`)

/** Returns a home directory in the form used to compare paths, without a trailing slash. */
const foldHome = (home: string): string => (home === "/" ? "" : home).toLowerCase()

const askTheUser = "Ask the user for the one value that you need."

const isCredential = (path: string, places: PathRootsService): boolean =>
  isPlainSecret(path) ||
  processMaps.test(path) ||
  places.agentHomes.some(
    (home) => isWithin(path, foldHome(home)) && isOwnSecret(path.slice(foldHome(home).length + 1))
  ) ||
  places.homes.some((home) => {
    const root = foldHome(home)
    return (
      credentialFiles.some((name) => path === `${root}/${name}`) ||
      (credentialDirectories.some((name) => isWithin(path, `${root}/${name}`)) &&
        !(isWithin(path, `${root}/.ssh`) && publicFile.test(path)))
    )
  })

/** Refuses to read `path` (absolute, normalized, with `/` as separator); returns `undefined` if it may be read. */
export const judgeRead = (path: string, places: PathRootsService): Denial | undefined => {
  const key = path.toLowerCase()
  if (endlessDevice.test(key)) {
    return { reason: "it is a device that never ends or waits for input", advice: "Read a regular file." }
  }
  return isCredential(key, places) ? { reason: "it holds credentials", advice: askTheUser } : undefined
}

/** Refuses to write `path` (absolute, normalized, with `/` as separator); returns `undefined` if it may be written. */
export const judgeWrite = (path: string, places: PathRootsService): Denial | undefined => {
  const key = path.toLowerCase()
  const useTerminal = "If the change is really wanted, make it with the terminal, where the user can approve it."
  if (
    systemFiles.includes(key) ||
    (systemTrees.some((root) => isWithin(key, root)) && !writableInside.some((root) => isWithin(key, root)))
  ) {
    return { reason: "it belongs to the system", advice: useTerminal }
  }
  if (places.agentHomes.some((home) => agentSettings.some((name) => key === `${foldHome(home)}/${name}`))) {
    return { reason: "it is the agent's own configuration", advice: "Tell the user to run `hermes config set`." }
  }
  if (isCredential(key, places)) return { reason: "it holds credentials", advice: "Ask the user to change it." }
  for (const home of places.homes.map(foldHome)) {
    if (credentialDirectories.some((name) => isWithin(key, `${home}/${name}`))) {
      return { reason: "it controls how credentials are used", advice: "Ask the user to change it." }
    }
    if (startupFiles.some((name) => key === `${home}/${name}`)) {
      return { reason: "it runs whenever a shell starts", advice: useTerminal }
    }
  }
  if (places.agentHomes.some((home) => agentUnattended.some((name) => isWithin(key, `${foldHome(home)}/${name}`)))) {
    return { reason: "scheduled jobs run from it unattended", advice: `Use cronjob for the jobs. ${useTerminal}` }
  }
  if (places.agentHomes.some((home) => isWithin(key, foldHome(home)))) {
    return {
      reason: "it is in the home directory of hermes, which only its own commands and tools change",
      advice: "Use the tool that keeps it (memory, skills, cronjob), or tell the user which `hermes` command to run."
    }
  }
  if (places.safeRoots.length > 0 && !places.safeRoots.some((root) => isWithin(key, root.toLowerCase()))) {
    return {
      reason: "writes are confined by HERMES_WRITE_SAFE_ROOT",
      advice: `Write below ${places.safeRoots.join(" or ")}.`
    }
  }
  return undefined
}

const maxPathChars = 4_096

/** Returns a context with only the file system and its paths, so that a call uses its own services otherwise. */
const platformOfFiles = Effect.gen(function* () {
  return Context.make(FileSystem.FileSystem, yield* FileSystem.FileSystem).pipe(
    Context.add(Path.Path, yield* Path.Path)
  )
})

/** Resolves `~` of a path to the home directory on the machine that has the file. */
const makeHomeResolver =
  ({ home: remote, processes }: EnvironmentService, home: string | undefined) =>
  (given: string): Effect.Effect<string | undefined> =>
    processes === "elsewhere" && given.startsWith("~") ? remote : Effect.succeed(home)

/** A file that a tool may access. */
export interface Target {
  /** Path as the model wrote it. */
  readonly given: string
  /** Absolute, normalized path. */
  readonly path: string
  /** Absolute path with symbolic links followed. This path is opened, written and recorded. */
  readonly real: string
}

type Resolved<A> = Effect.Effect<A, Problem.Problem | PlatformError, ToolContext>

/** Converts paths that a model wrote to paths that a tool may access. */
interface Service {
  /** Returns the file that a path refers to, or the refusal. */
  readonly resolve: (given: string, access: Access) => Resolved<Target>
  /**
   * Returns a function that refuses to read files at resolved paths below one that may be read. It returns `undefined`
   * for a file that may be read.
   */
  readonly readJudge: Effect.Effect<(real: string) => Denial | undefined>
}

/** Converts paths that a model wrote to paths that a tool may access. */
export class Targets extends Context.Service<Targets, Service>()("hermes-effect/tool/Targets") {
  /** Uses the file system and the machine's {@link PathRoots}. */
  static readonly layer: Layer.Layer<
    Targets,
    never,
    CommandEnvironment | FileSystem.FileSystem | Path.Path | PathRoots
  > = Layer.effect(
    Targets,
    Effect.gen(function* () {
      const path = yield* Path.Path
      const places = yield* PathRoots
      const environment = yield* CommandEnvironment
      // On another machine, the user's home directory is a different one.
      const around =
        environment.processes === "here"
          ? Effect.succeed(places)
          : Effect.map(environment.home, (home): PathRootsService =>
              home === undefined ? places : { ...places, home, homes: [...places.homes, home] }
            )
      const files = yield* platformOfFiles

      const readFence = WorkspaceFence.readFence(places, environment.isConfined)
      const toSlashPath = (name: string): string => (path.sep === "/" ? name : name.replaceAll(path.sep, "/"))
      const judgeAccess = (places: PathRootsService, name: string, access: Access): Denial | undefined =>
        (access === "write" ? undefined : judgeRead(toSlashPath(name), places)) ??
        (access === "read" ? undefined : judgeWrite(toSlashPath(name), places))

      const resolve: Service["resolve"] = Effect.fnUntraced(function* (given, access) {
        if (given.trim() === "") return yield* Problem.fail("the path is empty")
        if (given.length > maxPathChars) return yield* Problem.fail(`the path has more than ${maxPathChars} characters`)
        if (given.includes("\0")) return yield* Problem.fail("the path has a NUL character in it")
        const { cwd } = yield* ToolContext
        const machine = yield* around
        const literal = path.resolve(cwd, expandHome(given, machine.home))
        const refuseAccess = ({ reason, advice }: Denial) =>
          Problem.fail(`${given} is not ${access === "read" ? "read" : "written"}: ${reason}`, { hint: advice })
        const fence = yield* readFence
        const judgeName = (name: string): Denial | undefined =>
          judgeAccess(fence.selectPlaces(machine, toSlashPath(name)), name, access) ??
          fence.judgePath(toSlashPath(name), access)
        const denied = judgeName(literal)
        if (denied !== undefined) return yield* refuseAccess(denied)
        const real = yield* Effect.provideContext(toCanonicalPath(literal), files)
        const deniedReal = real === literal ? undefined : judgeName(real)
        if (deniedReal !== undefined) return yield* refuseAccess(deniedReal)
        return { given, path: literal, real }
      })

      return {
        resolve,
        readJudge: Effect.map(readFence, ({ judgePath, selectPlaces }) => (real) => {
          const name = toSlashPath(real)
          return judgeRead(name, selectPlaces(places, name)) ?? judgePath(name, "read")
        })
      }
    })
  )
}

const systemTemporary = [
  "/tmp",
  "/var/tmp",
  "/dev/shm",
  "/private/tmp",
  "/private/var/tmp",
  "/var/folders",
  "/private/var/folders"
]

/** Maximum size in bytes of a file that is compared for the preview in a question. */
const maxPreviewBytes = 1024 * 1024

/** Judges the files that calls write. */
interface WorkingTree {
  /** Concerns about the files that a call of a file tool writes. */
  readonly files: (tool: string, args: ToolArguments) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>
  /**
   * Concerns about a command that reads secrets of hermes, even in another home directory, and about git commands that
   * only appear to be read-only.
   */
  readonly command: (args: ToolArguments) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>
}

/** Creates the working tree from the file system and, if known, the machine's {@link PathRoots}. */
const makeWorkingTree: Effect.Effect<WorkingTree, never, CommandEnvironment | FileSystem.FileSystem | Path.Path> =
  Effect.gen(function* () {
    const environmentOfCalls = yield* CommandEnvironment
    const { isConfined } = environmentOfCalls
    const path = yield* Path.Path
    const platform = yield* platformOfFiles
    const environment = yield* ProcessEnvironment
    const places = Option.getOrUndefined(yield* Effect.serviceOption(PathRoots))
    const home = places?.home
    const homeFor = makeHomeResolver(environmentOfCalls, home)
    const trees = yield* WorkingTrees.make(home)

    const followLinks = (name: string): Effect.Effect<string> =>
      toCanonicalPath(name).pipe(
        // A path that cannot be resolved is used as written.
        Effect.orElseSucceed(() => name),
        Effect.provideContext(platform)
      )

    const readSurroundings = Effect.fnUntraced(function* (directory: string | undefined) {
      const { cwd } = yield* ToolContext
      // File tools refuse paths outside of a workspace, and commands are confined to it.
      const workspace = yield* CurrentWorkspace
      const tree = yield* trees.findTreeRoot(cwd)
      const temporary = environment()["TMPDIR"]
      const at = directory === undefined ? cwd : path.resolve(cwd, expandHome(directory, yield* homeFor(directory)))
      return {
        cwd: at,
        // A sandbox already confines writes to the working tree: approving a write that it blocks would have no effect.
        roots:
          isConfined || workspace !== undefined
            ? ["/"]
            : [tree, yield* followLinks(tree), ...(places?.safeRoots ?? [])],
        temporary: [
          ...systemTemporary,
          ...(temporary === undefined || !path.isAbsolute(temporary)
            ? []
            : [path.resolve(temporary), yield* followLinks(path.resolve(temporary))])
        ],
        home,
        agentHomes: workspace === undefined ? (places?.agentHomes ?? []) : [],
        inherited: places?.inherited
      } satisfies Boundary.Surroundings
    })

    /** Renders the difference that a call of a file tool would make. An unreadable or large file counts as empty. */
    const renderPreview = Effect.fnUntraced(function* (tool: string, args: ToolArguments, file: string) {
      const { content, new_string: replacement, old_string: replaced, patch, path: name } = args
      const shown = typeof name === "string" ? name : file
      if (tool === "patch" && typeof patch === "string") return Redaction.redactText(`${patch}\n`)
      if (tool === "patch")
        return typeof replaced === "string" && typeof replacement === "string"
          ? Redaction.redactText(makeUnifiedDiff(shown, `${replaced}\n`, `${replacement}\n`))
          : undefined
      if (typeof content !== "string") return undefined
      const before = yield* Effect.gen(function* () {
        if (places !== undefined && judgeRead(file, places) !== undefined) return undefined
        const fs = yield* FileSystem.FileSystem
        return Number((yield* fs.stat(file)).size) > maxPreviewBytes ? undefined : yield* fs.readFileString(file)
      }).pipe(
        Effect.orElseSucceed(() => undefined),
        Effect.provideContext(platform)
      )
      return Redaction.redactText(makeUnifiedDiff(shown, before, content))
    })

    const files: WorkingTree["files"] = Effect.fnUntraced(function* (tool, args) {
      const paths = listWrittenPaths(tool, args)
      const around = yield* readSurroundings(undefined)
      const concerns: Array<Concern> = []
      for (const given of paths) {
        const literal = path.resolve(around.cwd, expandHome(given, yield* homeFor(given)))
        const followed = yield* followLinks(literal)
        // The user is not asked about paths that the rules refuse, because no answer could allow them.
        if (places !== undefined && [literal, followed].some((name) => judgeWrite(name, places) !== undefined)) continue
        const reason = Boundary.judge(literal, around) ?? Boundary.judge(followed, around)
        if (reason !== undefined) {
          const preview = yield* renderPreview(tool, args, followed)
          concerns.push({
            key: `${reason}: ${followed}`,
            permanent: true,
            target: { kind: "path", text: followed },
            ...(preview === undefined ? {} : { preview })
          })
        }
      }
      return concerns
    })

    const command: WorkingTree["command"] = Effect.fnUntraced(function* ({ command, workdir }) {
      // In a sandbox, secrets cannot be read.
      if (typeof command !== "string" || isConfined) return []
      const around = yield* readSurroundings(typeof workdir === "string" ? workdir : undefined)
      const secrets = Boundary.listSecretReads(command, around).map(({ path, reason }): Concern => ({
        key: `${reason}: ${path}`,
        permanent: true
      }))
      // The user is asked about any other command, or has approved it.
      if (!Danger.judge(command).onlyReads) return secrets
      const lookup = { cwd: around.cwd, trees: around.roots, home: around.home, searchPath: environment()["PATH"] }
      const settings = yield* Effect.provideContext(
        RepositorySettings.findCommandConcerns(command, around.cwd),
        platform
      )
      return [
        ...secrets,
        ...settings,
        ...(yield* Effect.provideContext(TreePrograms.findConcerns(command, lookup), platform))
      ]
    })

    return { files, command }
  })

/** Creates a `file` toolset that asks for an approval of writes outside the working tree. */
export const guardFiles = <E, R>(
  toolset: Toolset.Toolset<E, R>
): Toolset.Toolset<E, R | CommandEnvironment | FileSystem.FileSystem | Path.Path> =>
  Toolset.withConcerns(
    toolset,
    Effect.map(makeWorkingTree, ({ files }) => files)
  )

/** Creates a `terminal` toolset that asks for an approval of commands with such concerns. */
export const guardCommands = <E, R>(
  toolset: Toolset.Toolset<E, R>
): Toolset.Toolset<E, R | CommandEnvironment | FileSystem.FileSystem | Path.Path> =>
  Toolset.withConcerns(
    toolset,
    Effect.map(
      makeWorkingTree,
      ({ command }) =>
        (tool, args) =>
          tool === "terminal" ? command(args) : Effect.succeed([])
    )
  )

/** Returns the paths that a call of a file tool writes, as given. */
export const listWrittenPaths = (tool: string, args: ToolArguments): ReadonlyArray<string> => {
  const path = typeof args["path"] === "string" ? [args["path"]] : []
  if (tool === "write_file") return path
  if (tool !== "patch") return []
  if (typeof args["patch"] !== "string") return path
  const parsed = V4A.parse(args["patch"])
  // A patch that cannot be parsed changes nothing.
  return Result.isFailure(parsed) ? path : [...path, ...parsed.success.flatMap(listPaths)]
}

const listPaths = (operation: V4A.Operation): ReadonlyArray<string> =>
  operation._tag === "Update" && operation.moveTo !== undefined ? [operation.path, operation.moveTo] : [operation.path]
