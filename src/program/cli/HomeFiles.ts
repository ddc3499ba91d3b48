/**
 * Files of the home directory in a backup: settings, memory, skills, scripts, scheduled jobs with their outputs,
 * plugins, agent files, the history of prompts, and the contents of changed files.
 *
 * Keys and logins are left out, and so are caches, packages of plugins, and decisions about trust: those belong to one
 * machine. A link is not followed.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Ids from "../../base/domain/Ids.ts"
import type { BackedFile } from "../../store/BackupFile.ts"
import * as ChangeContents from "../../store/ChangeContents.ts"

/** Files and folders in a backup. */
const included = [
  "config.yaml",
  "SOUL.md",
  "history.jsonl",
  "memories",
  "skills",
  "scripts",
  "cron",
  "plugins",
  "agents",
  "changes"
]

/** Paths of contents of changed files. Other files of `changes/` belong to working trees of one machine. */
const changeContent = /^changes\/contents\/(?:tenants\/[a-z0-9_-]+\/)?([0-9a-f]{2})\/\1[0-9a-f]{62}$/
const changeFolder = /^changes(?:\/contents(?:\/tenants(?:\/[a-z0-9_-]+)?)?(?:\/[0-9a-f]{2})?)?$/

/** Names that are left out at any depth. */
const left = new Set([".git", "node_modules", "ticker.json"])

/** Maximum size of a file in a backup, in bytes. */
export const largestFile = 64 * 1024 ** 2

/** Tests whether a path from a backup may be written to the home directory. */
export const isAllowedPath = (path: string): boolean => {
  const parts = path.split("/")
  if (parts[0] === "changes") return changeContent.test(path)
  return (
    included.includes(parts[0] ?? "") &&
    parts.every((part) => part !== "" && part !== "." && part !== ".." && !left.has(part) && !/[\\\0:]/.test(part))
  )
}

/** A file in the home directory: its path in a backup, its size in bytes, and its mode. */
export interface HomeFile {
  readonly path: string
  readonly size: number
  readonly isExecutable: boolean
}

/** Lists the files for a backup, in the order of their paths. */
export const listFiles = Effect.fnUntraced(function* (root: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const found: Array<HomeFile> = []
  const visitPath = (path: string): Effect.Effect<void, PlatformError> =>
    Effect.gen(function* () {
      const place = paths.join(root, path)
      const isLink = yield* Effect.match(fs.readLink(place), { onFailure: () => false, onSuccess: () => true })
      if (isLink) return
      const { mode, size, type } = yield* fs.stat(place)
      const isOther = path.startsWith("changes/") && !changeContent.test(path) && !changeFolder.test(path)
      if (isOther) return
      if (type === "File") found.push({ path, size: Number(size), isExecutable: (mode & 0o100) !== 0 })
      if (type !== "Directory") return
      for (const name of (yield* fs.readDirectory(place)).toSorted()) {
        if (!left.has(name)) yield* visitPath(`${path}/${name}`)
      }
    })
  for (const name of included) {
    if (yield* fs.exists(paths.join(root, name))) yield* visitPath(name)
  }
  return found
})

/** Reads a file for a backup. */
export const readFile = Effect.fnUntraced(function* (root: string, { isExecutable, path }: HomeFile) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const file: BackedFile = { path, isExecutable, bytes: yield* fs.readFile(paths.join(root, path)) }
  return file
})

/** Compares a file of a backup with the home directory. */
export const compareFile = Effect.fnUntraced(function* (root: string, { bytes, path }: BackedFile) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const place = paths.join(root, path)
  if (!(yield* fs.exists(place))) return "missing"
  const there = yield* fs.readFile(place)
  return there.length === bytes.length && there.every((byte, index) => byte === bytes[index]) ? "same" : "different"
})

/** Tests whether a folder, or the part of its path that exists, is in the home directory, also by links. */
const isInHome = Effect.fnUntraced(function* (root: string, folder: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  let existing = folder
  while (existing !== root && !(yield* fs.exists(existing))) existing = paths.dirname(existing)
  const [top, real] = [yield* fs.realPath(root), yield* fs.realPath(existing)]
  return real === top || real.startsWith(`${top}${paths.sep}`)
})

/**
 * Writes a file of a backup. Returns false, and writes nothing, for a path that is not in a backup or leads out of the
 * home directory, also by a link. A file that is not written completely is removed.
 */
export const writeFile = Effect.fnUntraced(function* (root: string, { bytes, isExecutable, path }: BackedFile) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const place = paths.join(root, path)
  const folder = paths.dirname(place)
  if (!isAllowedPath(path) || !(yield* isInHome(root, folder))) return false
  // The name of a content is the hash of its bytes. Others are left out, because they are never read.
  if (changeContent.test(path) && paths.basename(path) !== ChangeContents.computeHash(bytes)) return true
  yield* fs.makeDirectory(folder, { recursive: true, mode: 0o700 })
  // Renaming replaces a link itself, not the file that it names.
  const draft = paths.join(folder, `.${yield* Ids.makeHex(16)}.restored`)
  yield* Effect.gen(function* () {
    yield* fs.writeFile(draft, bytes, { flag: "wx", mode: isExecutable ? 0o700 : 0o600 })
    yield* fs.rename(draft, place)
  }).pipe(Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true }))))
  return true
})
