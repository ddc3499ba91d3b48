/**
 * Finds programs of the working tree that a read-only command would start instead of the system's programs: a launcher
 * (`npx`) or the user put a directory of the tree on `PATH`, and a file in that directory has the name of the program.
 *
 * **Details**
 *
 * Searches the entries of `PATH` in order, up to the last one in the tree, so that nothing is read if the tree has no
 * entry. The first entry with a file of that name counts; an entry that cannot be read counts as one that has it.
 *
 * **Gotchas**
 *
 * Only program names that are literal in the line are looked up. A directory outside the tree belongs to the user.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { Concern } from "../approval/ApprovalRequest.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import { describeLaterRun } from "./SensitivePaths.ts"

/** Directories that the lookup of a program depends on. */
export interface Surroundings {
  /** Directory against which relative entries of `PATH` are resolved. */
  readonly cwd: string
  /** All paths of the working tree. */
  readonly trees: ReadonlyArray<string>
  readonly searchPath: string | undefined
  /** The home directory, if known. */
  readonly home: string | undefined
}

/** Returns the names of the programs that a line calls without a directory. */
const namedPrograms = (command: string): ReadonlyArray<string> =>
  Array.from(new Set(ScriptInterpreter.read(command).commands.map(({ called }) => called.text))).filter(
    (name) => name !== "" && !name.includes("/") && !name.startsWith("[")
  )

/** Returns a concern for each program of a line that a directory of the working tree provides. */
export const findConcerns = Effect.fnUntraced(function* (
  command: string,
  { cwd, home, searchPath, trees }: Surroundings
): Effect.fn.Return<ReadonlyArray<Concern>, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const entries = (searchPath ?? "").split(":").map((entry) => path.resolve(cwd, entry))
  const isWithin = (entry: string, directory: string): boolean =>
    entry === directory || entry.startsWith(`${directory}/`)
  // A write to a directory of the user's programs leads to a question, regardless of the working tree.
  const isGuarded = (entry: string): boolean =>
    home !== undefined &&
    isWithin(entry, home) &&
    describeLaterRun(`~${entry.slice(home.length)}/program`) !== undefined
  const isInTree = (entry: string): boolean => trees.some((tree) => isWithin(entry, tree)) && !isGuarded(entry)
  const last = entries.findLastIndex(isInTree)
  if (last === -1) return []
  const found = yield* Effect.forEach(namedPrograms(command), (name) =>
    Effect.map(
      Effect.findFirst(entries.slice(0, last + 1), (entry) =>
        Effect.orElseSucceed(fs.exists(path.join(entry, name)), () => true)
      ),
      (entry) => (entry._tag === "Some" && isInTree(entry.value) ? [path.join(entry.value, name)] : [])
    )
  )
  return found.flat().map((file) => ({ key: `program of the working tree: ${file}`, permanent: false }))
})
