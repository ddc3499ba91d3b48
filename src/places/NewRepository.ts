/**
 * Supports commands that create a repository in the root of a working tree without one: `git init` in a sandbox.
 *
 * **Details**
 *
 * The command sees an empty `.git` in a private directory. After the command and all its processes have ended, the data
 * that git needs is copied to the tree: objects, references, the index, and the configuration lines that do not name a
 * program. Hooks other than samples, links, and files that redirect git are not copied. From then on the rules of
 * {@link WorkingTree} protect the repository.
 *
 * **Gotchas**
 *
 * A process that was already running still sees no repository. If two commands create a repository at the same time,
 * the repository of the first command to end is used.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import type * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import type * as Scope from "effect/Scope"
import type { Rule } from "./SandboxRules.ts"

const sections = /^\[(?:core|user|init|extensions|(?:remote|branch) "[\w./-]{1,200}")\]\s*$/i
const lines =
  /^\s*(?:repositoryformatversion|filemode|bare|logallrefupdates|ignorecase|precomposeunicode|symlinks|autocrlf|objectformat|refstorage|name|email|defaultbranch|fetch|merge|remote|rebase|url)\s*=\s*(?:(?!::)[^\\"#;\n])*$/i

/** Returns the lines of a configuration that do not name a program. */
const filterSettings = (config: string): string => {
  let isKept = false
  return (
    config
      .split("\n")
      .filter((line) => {
        if (/^\s*\[/.test(line)) isKept = sections.test(line)
        return isKept && (sections.test(line) || lines.test(line))
      })
      .join("\n") + "\n"
  )
}

/** Names of files that redirect git to other places, and of repositories nested in this one. */
const elsewhere = new Set([
  "config",
  "config.worktree",
  "commondir",
  "gitdir",
  "modules",
  "worktrees",
  "objects/info/alternates",
  "objects/info/http-alternates"
])

const isKept = (name: string): boolean =>
  !elsewhere.has(name) && (!name.startsWith("hooks/") || /^hooks\/[\w-]+\.sample$/.test(name))

/** Copies regular files and directories without following links. */
const copyRepository = (fs: FileSystem.FileSystem, path: Path.Path, from: string, to: string) => {
  const copyEntry = (name: string): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      const [source, target] = [path.join(from, name), path.join(to, name)]
      const { type } = yield* fs.lstat(source)
      if (type === "File") return yield* fs.copyFile(source, target)
      if (type !== "Directory") return
      if (name !== "") yield* fs.makeDirectory(target)
      const inside = (yield* fs.readDirectory(source)).map((entry) => path.join(name, entry)).filter(isKept)
      yield* Effect.forEach(inside, copyEntry, { concurrency: 8, discard: true })
    })
  return copyEntry("")
}

/** Moves a repository that a command created to its final place, unless a repository already exists there. */
const placeRepository = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  made: string,
  place: string
) {
  const parts = yield* Effect.forEach(["HEAD", "config", "objects"], (name) =>
    Effect.map(Effect.option(fs.lstat(path.join(made, name))), (found) =>
      found._tag === "Some" ? found.value.type : "none"
    )
  )
  if (parts.join() !== "File,File,Directory" || (yield* fs.readDirectory(place)).length > 0) return
  yield* copyRepository(fs, path, made, place)
  // Written last: a directory without a configuration is not a repository.
  yield* fs.writeFileString(
    path.join(place, "config"),
    filterSettings(yield* fs.readFileString(path.join(made, "config")))
  )
})

/**
 * Returns the rules for one command, in whose scope it runs: an empty read-only `.git` is replaced by a writable
 * directory. `forget` runs if a repository was created.
 */
export const prepareRules = Effect.fnUntraced(function* (
  fs: FileSystem.FileSystem,
  path: Path.Path,
  rules: ReadonlyArray<Rule>,
  { base, forget }: { readonly base: string; readonly forget: Effect.Effect<void> }
): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, Scope.Scope> {
  const place = rules.find(
    ({ allows, isAbsent, isFile, path: at, source }) =>
      allows === "read" && isAbsent !== true && isFile !== true && source === undefined && path.basename(at) === ".git"
  )
  if (place === undefined || (yield* fs.readDirectory(place.path)).length > 0) return rules
  const made = yield* fs.makeTempDirectoryScoped({ directory: base, prefix: "git-" })
  yield* Effect.addFinalizer(() =>
    placeRepository(fs, path, made, place.path).pipe(
      Effect.andThen(forget),
      Effect.catch(({ message }) =>
        Effect.logWarning(
          `the repository that a command made in ${path.dirname(place.path)} was not kept whole: ${message}`
        )
      )
    )
  )
  return rules.map((rule): Rule => (rule === place ? { ...rule, allows: "write", source: made } : rule))
})
