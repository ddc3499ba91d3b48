/** The working tree of a container: the rules of a mounted tree, and the copy of a tree. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as ChildProcess from "effect/process/ChildProcess"
import { ChildProcessSpawner } from "effect/process/ChildProcessSpawner"
import * as TrustedPrograms from "../base/platform/TrustedPrograms.ts"
import { callEngine, takeLastLine } from "./ContainerEngine.ts"
import type { Options } from "./ContainerOptions.ts"
import * as RemoteEnvironment from "./RemoteEnvironment.ts"
import { isWithin, type Rule } from "./SandboxRules.ts"
import { scanTree } from "./TreeScan.ts"
import * as WorkingTree from "./WorkingTree.ts"

/**
 * Makes the reader of a tree's rules for containers of one program. Placeholders that a mount needs are removed when
 * the last container that needs them ends.
 */
export const makeRuleReader = (options: Options) => {
  /** Number of containers that need an empty placeholder directory, by the missing path. */
  const placeholders = new Map<string, number>()

  const releasePlaceholder = (fs: FileSystem.FileSystem, directory: string) =>
    Effect.suspend(() => {
      const others = (placeholders.get(directory) ?? 1) - 1
      if (others > 0) return Effect.sync(() => void placeholders.set(directory, others))
      placeholders.delete(directory)
      return Effect.flatMap(fs.readDirectory(directory), (names) =>
        names.length > 0 ? Effect.void : fs.remove(directory, { recursive: true })
      )
    })

  /** Rules of paths that do not exist. Their mount points end with the scope of the container. */
  const makeMissingPaths = Effect.fnUntraced(function* () {
    const fs = yield* FileSystem.FileSystem
    const scope = yield* Effect.scope
    const runAtEnd = (effect: Effect.Effect<void, PlatformError>) => Scope.addFinalizer(scope, Effect.ignore(effect))
    return {
      // The directory stays empty until the container ends, so that no file can be placed there.
      reserved: (directory: string) =>
        Effect.flatMap(WorkingTree.findRuleAt("read", directory), (found) => {
          if (found.length > 0 && !placeholders.has(directory)) return Effect.succeed(found)
          const made = found.length > 0 ? Effect.void : fs.makeDirectory(directory)
          const held = Effect.suspend(() => {
            placeholders.set(directory, (placeholders.get(directory) ?? 0) + 1)
            return runAtEnd(releasePlaceholder(fs, directory))
          })
          return made.pipe(
            Effect.andThen(held),
            // Another process created the directory first, or it cannot be created here.
            Effect.ignore,
            Effect.andThen(WorkingTree.findRuleAt("read", directory))
          )
        }),
      // A missing path cannot be mounted. A file that a command creates there is removed with the container.
      absent: (file: string) =>
        Effect.tap(WorkingTree.findRuleAt("read", file), (found) =>
          found.length > 0 ? Effect.void : runAtEnd(fs.remove(file, { recursive: true, force: true }))
        )
    }
  })

  return Effect.fnUntraced(function* (tree: string) {
    if (tree === "/" || (options.home !== undefined && isWithin(options.home, tree))) {
      return yield* RemoteEnvironment.makeUnreachableError(
        `${tree} holds your home directory and is not given to a container: start in the directory of a project`
      )
    }
    const scan = yield* scanTree(tree, { home: options.home })
    return options.workspace === "copy" || options.policy === "read-only"
      ? yield* WorkingTree.listRules(tree, { ...options, scan })
      : yield* WorkingTree.listRules(tree, { ...options, scan }, yield* makeMissingPaths())
  })
}

/** Copies a tree into the running container `name`, without the files that its rules hide. */
export const copyTreeIn = Effect.fnUntraced(function* (
  program: string,
  name: string,
  tree: string,
  rules: ReadonlyArray<Rule>
) {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const spawner = yield* ChildProcessSpawner
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
  const archive = spawner.spawn(ChildProcess.make(tar, words, { stdin: "ignore", stderr: "ignore" }))
  yield* runChecked(
    ["exec", "--interactive", name, "tar", "-C", tree, "-xf", "-"],
    Stream.unwrap(Effect.map(archive, ({ stdout }) => stdout))
  )
})
