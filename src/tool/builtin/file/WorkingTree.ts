/**
 * The working tree of a run, and the approvals that writes outside of it need.
 *
 * **Details**
 *
 * The tree is the repository that holds the directory of the call, else that directory; a repository that holds the user's
 * whole home is none. Paths of the file tools are judged as they really are, with symbolic links followed.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import type { ToolArguments } from "../../../middleware/Kind.ts"
import type { Concern } from "../../approval/Question.ts"
import * as Boundary from "../../danger/Boundary.ts"
import { ToolContext } from "../../ToolContext.ts"
import * as Toolset from "../../Toolset.ts"
import { ProcessEnvironment } from "../../../platform/ProcessVariables.ts"
import * as V4A from "../patch/V4A.ts"
import { canonical, expandHome, Places } from "./Places.ts"
import * as Fence from "./Fence.ts"

const systemTemporary = ["/tmp", "/var/tmp", "/dev/shm", "/private/tmp", "/private/var/tmp", "/var/folders", "/private/var/folders"]

/** Judges what calls write. */
interface WorkingTree {
  /** Concerns about the files that a call of a file tool writes. */
  readonly files: (paths: ReadonlyArray<string>) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>
  /** Concerns about the places that a command writes to. */
  readonly command: (args: ToolArguments) => Effect.Effect<ReadonlyArray<Concern>, never, ToolContext>
}

/** Over the file system, and the machine's {@link Places} where they are known. */
const make: Effect.Effect<WorkingTree, never, FileSystem.FileSystem | Path.Path> = Effect.gen(function*() {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const platform = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
  const environment = yield* ProcessEnvironment
  const places = Option.getOrUndefined(yield* Effect.serviceOption(Places))
  const home = places?.home
  const trees = new Map<string, string>()

  const real = (name: string): Effect.Effect<string> =>
    canonical(name).pipe(
      // A name that cannot be followed counts as written.
      Effect.orElseSucceed(() => name),
      Effect.provideContext(platform)
    )

  const treeOf = Effect.fnUntraced(function*(cwd: string) {
    const known = trees.get(cwd)
    if (known !== undefined) return known
    let tree = cwd
    for (let at = cwd; at !== path.dirname(at) && at !== home && !(home ?? "").startsWith(`${at}/`); at = path.dirname(at)) {
      if (yield* Effect.orElseSucceed(fs.exists(path.join(at, ".git")), () => false)) {
        tree = at
        break
      }
    }
    trees.set(cwd, tree)
    return tree
  })

  const surroundings = Effect.fnUntraced(function*(directory: string | undefined) {
    const { cwd } = yield* ToolContext
    const tree = yield* treeOf(cwd)
    const temporary = environment()["TMPDIR"]
    const at = directory === undefined ? cwd : path.resolve(cwd, expandHome(directory, home))
    return {
      cwd: at,
      roots: [tree, yield* real(tree), ...places?.safeRoots ?? []],
      temporary: [...systemTemporary, ...temporary === undefined || !path.isAbsolute(temporary) ? [] : [path.resolve(temporary), yield* real(path.resolve(temporary))]],
      home,
      agentHomes: places?.agentHomes ?? [],
      inherited: places?.inherited
    } satisfies Boundary.Surroundings
  })

  const files: WorkingTree["files"] = Effect.fnUntraced(function*(paths) {
    const around = yield* surroundings(undefined)
    const concerns: Array<Concern> = []
    for (const given of paths) {
      const literal = path.resolve(around.cwd, expandHome(given, home))
      const followed = yield* real(literal)
      // Paths that the fence refuses are not asked about: no answer would change it.
      if (places !== undefined && [literal, followed].some((name) => Fence.judgeWrite(name, places) !== undefined)) continue
      const reason = Boundary.judge(literal, around) ?? Boundary.judge(followed, around)
      if (reason !== undefined) {
        concerns.push({ key: `${reason}: ${followed}`, permanent: true, target: { kind: "path", text: followed } })
      }
    }
    return concerns
  })

  const command: WorkingTree["command"] = Effect.fnUntraced(function*({ command, workdir }) {
    if (typeof command !== "string") return []
    const around = yield* surroundings(typeof workdir === "string" ? workdir : undefined)
    return [...Boundary.reads(command, around), ...Boundary.writes(command, around)].map(({ path, reason }): Concern => ({ key: `${reason}: ${path}`, permanent: true }))
  })

  return { files, command }
})

/** A `file` toolset whose writes ask for an approval where the boundary says so. */
export const guardFiles = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, R | FileSystem.FileSystem | Path.Path> =>
  Toolset.withConcerns(toolset, Effect.map(make, ({ files }) => (tool, args) => files(writtenBy(tool, args))))

/** A `terminal` toolset whose commands do. */
export const guardCommands = <E, R>(toolset: Toolset.Toolset<E, R>): Toolset.Toolset<E, R | FileSystem.FileSystem | Path.Path> =>
  Toolset.withConcerns(toolset, Effect.map(make, ({ command }) => (tool, args) => tool === "terminal" ? command(args) : Effect.succeed([])))

/** Paths that a call of `write_file` or `patch` writes, as the model wrote them. */
const writtenBy = (tool: string, args: ToolArguments): ReadonlyArray<string> => {
  const path = typeof args["path"] === "string" ? [args["path"]] : []
  if (tool === "write_file") return path
  if (tool !== "patch") return []
  if (typeof args["patch"] !== "string") return path
  const parsed = V4A.parse(args["patch"])
  // A patch that cannot be read changes nothing.
  return Result.isFailure(parsed) ? path : [...path, ...parsed.success.flatMap(pathsOf)]
}

const pathsOf = (operation: V4A.Operation): ReadonlyArray<string> =>
  operation._tag === "Update" && operation.moveTo !== undefined ? [operation.path, operation.moveTo] : [operation.path]
