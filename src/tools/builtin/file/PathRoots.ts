/**
 * The directories of this machine that the path rules refer to: the user's home, the agent's home, and the roots that
 * writes are confined to, if any.
 *
 * **Details**
 *
 * Each directory is stored both as named and with symbolic links resolved, so that all spellings of a path are judged
 * alike.
 *
 * **Example** (Restricting file tools to one directory)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { PathRoots } from "hermes-effect/tools/files"
 *
 * const confined = PathRoots.layer({ home: "/home/ada", safeRoots: ["/home/ada/project"] })
 *
 * const program = Effect.map(PathRoots.PathRoots, ({ safeRoots }) => safeRoots)
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Layer.provide(confined, NodeServices.layer))))
 * // => [ '/home/ada/project' ]
 * ```
 *
 * Source: `hermes-llm.md` §19.6.
 */
import * as Config from "effect/Config"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Problem from "./Problem.ts"

// Resolves a path: follows symbolic links and `..` as far as the path exists, and uses the rest as written. A link
// whose target does not exist yet resolves to its target, because a write through the link would create it there.

/** Replaces a leading `~` with the home directory. Returns the path unchanged if no home directory is known. */
export const expandHome = (name: string, home: string | undefined): string =>
  home !== undefined && /^~(?:\/|$)/.test(name) ? home + name.slice(1) : name

const maxLinks = 40

const isMissing = (error: PlatformError): boolean => error.reason._tag === "NotFound"

/** Returns the real path of an absolute, normalized path, whether or not it exists. */
export const toCanonicalPath: (
  path: string,
  links?: number
) => Effect.Effect<string, Problem.Problem | PlatformError, FileSystem.FileSystem | Path.Path> = Effect.fnUntraced(
  function* (target, links = maxLinks) {
    const fs = yield* FileSystem.FileSystem
    const path = yield* Path.Path
    const real = yield* Effect.result(fs.realPath(target))
    if (real._tag === "Success") return real.success
    if (!isMissing(real.failure)) return yield* real.failure
    const parent = path.dirname(target)
    if (parent === target) return target
    if (links === 0) return yield* Problem.fail(`too many symbolic links: ${target}`)
    const link = yield* Effect.result(fs.readLink(target))
    const directory = yield* toCanonicalPath(parent, links)
    return link._tag === "Success"
      ? yield* toCanonicalPath(path.resolve(directory, link.success), links - 1)
      : path.join(directory, path.basename(target))
  }
)

/** The directories of this machine that the path rules refer to. */
export interface Service {
  /** Home directory that replaces `~`. */
  readonly home: string | undefined
  readonly homes: ReadonlyArray<string>
  readonly agentHomes: ReadonlyArray<string>
  /** Directories outside of which writes are refused; empty if there is no such limit. */
  readonly safeRoots: ReadonlyArray<string>
  /**
   * Roots of the run that started this program; writes outside them require a question. `undefined` if the user started
   * the program.
   */
  readonly inherited?: ReadonlyArray<string> | undefined
}

/** Absolute paths of the directories to use as path roots. */
export interface NamedDirectories {
  readonly home?: string | undefined
  readonly agentHome?: string | undefined
  readonly safeRoots?: ReadonlyArray<string> | undefined
  readonly inherited?: ReadonlyArray<string> | undefined
}

/** The directories of this machine that the path rules refer to. */
export class PathRoots extends Context.Service<PathRoots, Service>()("hermes-effect/tool/Places") {}

/** Creates path roots from named directories. A path that cannot be resolved (no permission) is used as written. */
export const make = Effect.fnUntraced(function* ({ home, agentHome, inherited, safeRoots = [] }: NamedDirectories) {
  const path = yield* Path.Path
  const listBothForms = Effect.fnUntraced(function* (name: string) {
    const literal = path.resolve(name)
    const real = yield* Effect.orElseSucceed(toCanonicalPath(literal), () => literal)
    return literal === real ? [literal] : [literal, real]
  })
  const listAllForms = (names: ReadonlyArray<string | undefined>) =>
    Effect.map(
      Effect.forEach(
        names.filter((name) => name !== undefined),
        listBothForms
      ),
      (lists) => lists.flat()
    )
  return PathRoots.of({
    home,
    homes: yield* listAllForms([home]),
    agentHomes: yield* listAllForms([agentHome]),
    safeRoots: yield* listAllForms(safeRoots),
    ...(inherited === undefined ? {} : { inherited: yield* listAllForms(inherited) })
  })
})

/** Provides path roots from named directories. */
export const layer = (named: NamedDirectories): Layer.Layer<PathRoots, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(PathRoots, make(named))

/** Provides path roots from `HOME`, `HERMES_HOME` and `HERMES_WRITE_SAFE_ROOT`. */
export const layerConfig: Layer.Layer<PathRoots, Config.ConfigError, FileSystem.FileSystem | Path.Path> = Layer.effect(
  PathRoots,
  Effect.gen(function* () {
    const readVariable = (name: string) => Effect.map(Config.option(Config.String(name)), Option.getOrUndefined)
    const path = yield* Path.Path
    const home = (yield* readVariable("HOME")) ?? (yield* readVariable("USERPROFILE"))
    const agentHome =
      (yield* readVariable("HERMES_HOME")) ?? (home === undefined ? undefined : path.join(home, ".hermes"))
    const roots = (yield* readVariable("HERMES_WRITE_SAFE_ROOT")) ?? ""
    const separator = path.sep === "\\" ? ";" : ":"
    return yield* make({ home, agentHome, safeRoots: roots.split(separator).filter((root) => root !== "") })
  })
)
