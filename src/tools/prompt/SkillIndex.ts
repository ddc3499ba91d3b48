/**
 * The index of skills. Skills in several directories are read once, and read again when a file changes.
 *
 * **Details**
 *
 * A skill is a directory with a `SKILL.md`, at most {@link maxDepth} levels below one of the directories; the
 * directories in between are its category, which may have a `DESCRIPTION.md`. The first directory is the user's own:
 * its index is stored in a snapshot file across processes. The other directories are read-only and read by each
 * process. If two skills have the same name, the skill in the earlier directory is used.
 *
 * A snapshot is valid while the list of files and the time, size and inode of each file are unchanged. A file that was
 * changed in the two seconds before the snapshot is not trusted, because it may change again with the same time.
 * Otherwise all files are read again, but a file with an unchanged digest is not parsed again.
 *
 * A file that cannot be read, is not a skill, or tries to command the model against its user is listed as a problem in
 * the index; sessions begin without it.
 *
 * Source: `hermes-llm.md` §6.3.
 */
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Yaml from "../../base/config/Yaml.ts"
import * as Ids from "../../base/domain/Ids.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as SkillFile from "./SkillFile.ts"

/** Maximum number of directory levels below a directory of skills, including the skill's own directory. */
export const maxDepth = 4
const maxFiles = 2_000
const maxDescriptionFile = 16_000
const descriptionFile = "DESCRIPTION.md"

/** Time in milliseconds within which two changes of a file may have the same modification time. */
const settlingMillis = 2_000

/** Facts of one file. */
const FileRecord = Schema.Struct({
  /** Time, size and inode of the file. */
  stamp: Schema.String,
  digest: Schema.String,
  facts: Schema.optionalKey(SkillFile.Facts),
  /** Description from a `DESCRIPTION.md`. */
  description: Schema.optionalKey(Schema.String),
  /** Reason why the file is not used. */
  problem: Schema.optionalKey(Schema.String)
})
type FileRecord = typeof FileRecord.Type

const version = 1

const Snapshot = Schema.fromJsonString(
  Schema.Struct({
    version: Schema.Literal(version),
    /** Path of the directory; file paths are relative to it. */
    directory: Schema.String,
    /** Time of the snapshot, in milliseconds since the epoch. */
    taken: Schema.Finite,
    files: Schema.Record(Schema.String, FileRecord)
  })
)
type Snapshot = typeof Snapshot.Type

/** A usable skill. */
export interface Skill {
  /** Name of the skill's directory. */
  readonly name: string
  /** Directories above it, joined by `/`; `general` if there are no such directories. */
  readonly category: string
  /** Category and name, joined by `/`; only the name if it has no category. */
  readonly path: string
  /** Absolute path of the skill's directory. */
  readonly directory: string
  readonly facts: SkillFile.Facts
  /** Kind of source that the skill comes from. */
  readonly source: Source["kind"]
  /** True if the skill is not in the user's own directory. */
  readonly isReadOnly: boolean
}

/** An unused file, and the reason. */
export interface Problem {
  /** Absolute path of the file. */
  readonly path: string
  readonly message: string
}

/** All skills, categories and problems. */
export interface Catalogue {
  /**
   * Skills ordered by category and name. A skill in a later directory is omitted if its name already exists in an
   * earlier one.
   */
  readonly skills: ReadonlyArray<Skill>
  /** Descriptions of categories by name. */
  readonly categories: ReadonlyMap<string, string>
  readonly problems: ReadonlyArray<Problem>
  /** Identity of this state, equal for equal files; `undefined` if a file may still be changing. */
  readonly signature: string | undefined
}

/** A directory with skills in addition to the user's own; absolute. */
export interface Source {
  readonly kind: "user" | "external" | "project" | "plugin"
  readonly directory: string
  /** Category of skills that have no category. */
  readonly category?: string | undefined
  /** Reason why the skills in it are not used; `undefined` if they are used. */
  readonly refusal?: string | undefined
}

/** Directories that are searched for skills. */
export interface Options {
  /** Absolute path of the user's own directory. */
  readonly directory: string
  /** Further sources, in order of precedence; evaluated on each use. */
  readonly sources: Effect.Effect<ReadonlyArray<Source>>
  /** File of the snapshot of `directory`; without it, every process reads the directory. */
  readonly snapshot: string | undefined
}

type Platform = FileSystem.FileSystem | Path.Path

/** A file that was found but not read yet. */
interface FileStamp {
  readonly stamp: string
  readonly modified: number
  readonly size: number
}

interface Listing {
  readonly files: ReadonlyMap<string, FileStamp>
  readonly problems: ReadonlyArray<Problem>
}

const toFileStamp = ({ ino, mtime, size }: FileSystem.File.Info): FileStamp => {
  const modified = Option.match(mtime, { onNone: () => 0, onSome: (date) => date.getTime() })
  return { stamp: `${modified}:${size}:${Option.getOrElse(ino, () => 0n)}`, modified, size: Number(size) }
}

/** Lists the files of a directory of skills. A missing directory counts as empty. */
const listFiles = Effect.fnUntraced(function* (root: string): Effect.fn.Return<Listing, never, Platform> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const files = new Map<string, FileStamp>()
  const problems: Array<Problem> = []
  const queue: Array<{ readonly at: string; readonly depth: number }> = [{ at: "", depth: 0 }]
  let isFull = false
  // Links to a directory that was already visited would lead to cycles.
  const seen = new Set<string>()
  const isNew = ({ dev, ino }: FileSystem.File.Info): boolean => {
    if (Option.isNone(ino)) return true
    const id = `${dev}:${ino.value}`
    return !seen.has(id) && seen.add(id).has(id)
  }
  const top = yield* Effect.option(fs.stat(root))
  if (Option.isSome(top)) isNew(top.value)
  for (const { at, depth } of queue) {
    const directory = paths.join(root, at)
    const read = yield* Effect.result(fs.readDirectory(directory))
    if (Result.isFailure(read)) {
      if (read.failure.reason._tag !== "NotFound")
        problems.push({ path: directory, message: `cannot be read: ${describeReason(read.failure)}` })
      continue
    }
    const names = read.success.toSorted()
    const own = depth === 0 ? undefined : [SkillFile.fileName, descriptionFile].find((name) => names.includes(name))
    if (own !== undefined) {
      const path = at === "" ? own : `${at}/${own}`
      const info = yield* Effect.result(fs.stat(paths.join(directory, own)))
      if (Result.isFailure(info))
        problems.push({ path: paths.join(directory, own), message: `cannot be read: ${describeReason(info.failure)}` })
      else if (info.success.type !== "File")
        problems.push({ path: paths.join(directory, own), message: "is not a file" })
      else files.set(path, toFileStamp(info.success))
      if (own === SkillFile.fileName) continue
    }
    if (depth === maxDepth) continue
    for (const name of names) {
      if (!SkillFile.isDirectoryName(name)) continue
      const info = yield* Effect.option(fs.stat(paths.join(directory, name)))
      if (Option.isNone(info) || info.value.type !== "Directory" || !isNew(info.value)) continue
      if (queue.length === maxFiles) {
        // The directories found so far are still read.
        isFull = true
        break
      }
      queue.push({ at: at === "" ? name : `${at}/${name}`, depth: depth + 1 })
    }
  }
  if (isFull) problems.push({ path: root, message: `has more than ${maxFiles} directories: the rest is left out` })
  return { files, problems }
})

const computeDigest = (bytes: Uint8Array<ArrayBuffer>): Effect.Effect<string> =>
  Effect.map(
    Effect.promise(() => crypto.subtle.digest("SHA-256", bytes)),
    (digest) => Array.from(new Uint8Array(digest), (byte) => byte.toString(16).padStart(2, "0")).join("")
  )

const decoder = new TextDecoder()

const readRecord = (
  yaml: Yaml.Yaml,
  path: string,
  text: string
): Pick<FileRecord, "description" | "facts" | "problem"> => {
  const found = SkillFile.findRefusals(text)
  if (found.length > 0) return { problem: `may contain a prompt injection (${found.join(", ")}): it is not used` }
  const file = SkillFile.parse(yaml, text)
  if (!path.endsWith(`/${SkillFile.fileName}`)) {
    const description = Result.isSuccess(file)
      ? file.success.facts.description
      : (text
          .replace(/^---[\s\S]*?\n---/, "")
          .trim()
          .split("\n", 1)[0] ?? "")
    return { description: description.replace(/^#+\s{0,8}/, "") }
  }
  return Result.isFailure(file) ? { problem: file.failure } : { facts: file.success.facts }
}

/** Reads one file. */
const readFile = Effect.fnUntraced(function* (
  yaml: Yaml.Yaml,
  root: string,
  path: string,
  { size, stamp }: FileStamp,
  before: FileRecord | undefined
): Effect.fn.Return<FileRecord, never, Platform> {
  const limit = path.endsWith(`/${SkillFile.fileName}`) ? SkillFile.maxBytes : maxDescriptionFile
  if (size > limit) return { stamp, digest: "", problem: `is larger than ${limit} bytes` }
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  return yield* Effect.gen(function* () {
    const bytes = Uint8Array.from(yield* fs.readFile(paths.join(root, path)))
    const digest = yield* computeDigest(bytes)
    return before?.digest === digest
      ? { ...before, stamp }
      : { stamp, digest, ...readRecord(yaml, path, decoder.decode(bytes)) }
  }).pipe(
    Effect.catch((error: PlatformError) =>
      Effect.succeed({ stamp, digest: "", problem: `cannot be read: ${describeReason(error)}` })
    )
  )
})

const isSettled = ({ files }: Listing, taken: number): boolean =>
  Array.from(files.values()).every(({ modified }) => modified < taken - settlingMillis)

const isSame = ({ files }: Listing, snapshot: Snapshot): boolean => {
  const known = Object.entries(snapshot.files)
  return known.length === files.size && known.every(([path, { stamp }]) => files.get(path)?.stamp === stamp)
}

/** Returns the snapshot of a directory: the known snapshot if it is current, otherwise a new snapshot of its files. */
const refreshSnapshot = Effect.fnUntraced(function* (
  root: string,
  listing: Listing,
  known: Snapshot | undefined
): Effect.fn.Return<{ readonly snapshot: Snapshot; readonly isNew: boolean }, never, Platform> {
  if (known !== undefined && known.directory === root && isSame(listing, known) && isSettled(listing, known.taken)) {
    return { snapshot: known, isNew: false }
  }
  const taken = yield* Clock.currentTimeMillis
  const yaml = yield* Yaml.load
  const records = yield* Effect.forEach(
    listing.files,
    ([path, found]) =>
      Effect.map(
        readFile(yaml, root, path, found, known?.directory === root ? known.files[path] : undefined),
        (record) => [path, record] as const
      ),
    { concurrency: 8 }
  )
  return { snapshot: { version, directory: root, taken, files: Object.fromEntries(records) }, isNew: true }
})

/** Writes the snapshot file atomically. The file only saves time, so a failure to write is ignored. */
const saveSnapshot = (path: string, snapshot: Snapshot): Effect.Effect<void, never, Platform> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const text = yield* Schema.encodeEffect(Snapshot)(snapshot)
    const draft = `${path}.${yield* Ids.makeHex(12)}.tmp`
    yield* fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 })
    yield* fs.writeFileString(draft, text, { flag: "wx", mode: 0o600 }).pipe(
      Effect.andThen(fs.rename(draft, path)),
      Effect.onError(() => Effect.ignore(fs.remove(draft, { force: true })))
    )
  }).pipe(Effect.catch((error) => Effect.logDebug("the index of skills was not kept", error)))

const loadSnapshot = (path: string): Effect.Effect<Snapshot | undefined, never, Platform> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const text = yield* Effect.option(fs.readFileString(path))
    return Option.getOrUndefined(Option.flatMap(text, Schema.decodeUnknownOption(Snapshot)))
  })

const splitSkillPath = (path: string): { readonly category: string | undefined; readonly name: string } => {
  const at = path.lastIndexOf("/")
  return at === -1 ? { category: undefined, name: path } : { category: path.slice(0, at), name: path.slice(at + 1) }
}

const compareText = (a: string, b: string): number => (a < b ? -1 : a > b ? 1 : 0)

/** Combines the snapshots of all directories, the user's own first. */
const buildCatalogue = (
  paths: Path.Path,
  parts: ReadonlyArray<{ readonly source: Source; readonly listing: Listing; readonly snapshot: Snapshot }>
): Catalogue => {
  const skills = new Map<string, Skill>()
  const categories = new Map<string, string>()
  const problems: Array<Problem> = []
  for (const {
    listing,
    snapshot,
    source: { category: own, directory: root, kind, refusal }
  } of parts) {
    if (refusal !== undefined) {
      if (listing.files.size > 0) problems.push({ path: root, message: refusal })
      continue
    }
    problems.push(...listing.problems)
    const here: Array<Skill> = []
    for (const [file, { description, facts, problem }] of Object.entries(snapshot.files)) {
      const path = file.slice(0, file.lastIndexOf("/"))
      if (problem !== undefined) problems.push({ path: paths.join(root, file), message: problem })
      if (description !== undefined && !categories.has(path)) categories.set(path, description)
      if (facts === undefined) continue
      const { category = own ?? "general", name } = splitSkillPath(path)
      const named = own === undefined || path.includes("/") ? path : `${own}/${path}`
      here.push({
        name,
        category,
        path: named,
        directory: paths.join(root, path),
        facts,
        source: kind,
        isReadOnly: kind !== "user"
      })
    }
    const taken = new Set(Array.from(skills.values(), ({ name }) => name))
    for (const skill of here) {
      if (!taken.has(skill.name)) skills.set(skill.path, skill)
    }
  }
  const signature = parts.every(({ listing, snapshot }) => isSettled(listing, snapshot.taken))
    ? JSON.stringify(
        parts.map(({ listing, snapshot, source }) => [
          source,
          Object.entries(snapshot.files).map(([path, { stamp }]) => [path, stamp]),
          listing.problems
        ])
      )
    : undefined
  return {
    skills: Array.from(skills.values()).toSorted(
      (a, b) => compareText(a.category, b.category) || compareText(a.name, b.name)
    ),
    categories,
    problems,
    signature
  }
}

/** Creates a reader for the skills of several directories. It reads them again when files change. */
export const make = ({
  directory,
  snapshot: file,
  sources
}: Options): Effect.Effect<Effect.Effect<Catalogue>, never, Platform> =>
  Effect.gen(function* () {
    const context = yield* Effect.context<Platform>()
    const paths = yield* Path.Path
    const known = new Map<string, Snapshot>()
    const readSource = Effect.fnUntraced(function* (source: Source) {
      const { directory: root } = source
      const listing = yield* listFiles(root)
      const kept = root === directory ? file : undefined
      const before =
        known.get(root) ?? (kept === undefined || listing.files.size === 0 ? undefined : yield* loadSnapshot(kept))
      const { isNew, snapshot } = yield* refreshSnapshot(root, listing, before)
      known.set(root, snapshot)
      if (isNew && kept !== undefined && (listing.files.size > 0 || before !== undefined))
        yield* saveSnapshot(kept, snapshot)
      return { source, listing, snapshot }
    })
    return Effect.flatMap(sources, (further) => {
      const roots = new Map<string, Source>([[directory, { kind: "user", directory }]])
      for (const source of further) if (!roots.has(source.directory)) roots.set(source.directory, source)
      return Effect.map(Effect.forEach(roots.values(), readSource), (parts) => buildCatalogue(paths, parts))
    }).pipe(Effect.provideContext(context))
  })
