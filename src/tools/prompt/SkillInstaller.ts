/**
 * Installs skills into the user's directory from a folder, a repository, a tarball or a package, without running them.
 *
 * **Details**
 *
 * A source is first copied next to its destination, and only the copy is examined: links and special files, text that
 * tries to turn the model against its user, and a broken `SKILL.md` are refused. {@link planInstallation} lists the
 * skills to install and the commands to review; {@link installSkill} installs one skill atomically.
 *
 * A source contains one skill, or is a folder with several skills.
 *
 * Source: `hermes-product.md` §4.4.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import type * as Scope from "effect/Scope"
import * as Stream from "effect/Stream"
import * as Yaml from "../../base/config/Yaml.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as TarArchive from "../../base/domain/TarArchive.ts"
import * as SkillFile from "./SkillFile.ts"
import { SkillRefused } from "./SkillRefusal.ts"

/** Request for an installation. */
export interface Request {
  /** A folder, a tarball, or an address. */
  readonly source: string
  /** Base directory of a relative path. */
  readonly cwd: string
  /** Directory of the user's skills. */
  readonly directory: string
  /**
   * Clones the repository that the source names, or a folder that is a repository; returns `undefined` if the source is
   * not a repository.
   */
  readonly clone: (source: string, directory: string) => Effect.Effect<void, { readonly message: string }> | undefined
  /** Downloads the tarball that the source names; returns `undefined` if the source is not a tarball. */
  readonly download: (source: string) => Effect.Effect<Uint8Array, { readonly message: string }> | undefined
}

/** A skill that was checked and can be installed. */
export interface PlannedSkill {
  readonly name: string
  readonly facts: SkillFile.Facts
  /** Absolute path of the copy. */
  readonly from: string
  /** Files, relative to the skill's directory. */
  readonly files: ReadonlyArray<string>
  readonly bytes: number
  /** Commands that should be reviewed, each with its file. */
  readonly warnings: ReadonlyArray<string>
  /** Deviations from the open format. */
  readonly remarks: ReadonlyArray<string>
}

type Platform = FileSystem.FileSystem | Path.Path

const maxFiles = 2_000
const maxTotalBytes = 50_000_000
const maxSkills = 200
const maxDepth = 8

const refuseInstallation = (message: string): Effect.Effect<never, SkillRefused> =>
  Effect.fail(new SkillRefused({ message }))

const toSkillRefusal =
  (path: string) =>
  <A, R>(self: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, SkillRefused, R> =>
    Effect.mapError(self, (error) => new SkillRefused({ message: `${path}: ${describeReason(error)}` }))

interface ListedFile {
  /** Path relative to the root. */
  readonly path: string
  readonly bytes: number
}

/**
 * Lists the files of a directory without its `.git` directory; refuses links, special files, and sources that exceed
 * the limits.
 */
const listFiles = Effect.fnUntraced(function* (
  root: string
): Effect.fn.Return<ReadonlyArray<ListedFile>, SkillRefused, Platform> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const files: Array<ListedFile> = []
  let total = 0
  const queue = [""]
  for (const at of queue) {
    for (const { name, type } of yield* toSkillRefusal(root)(fs.readDirectoryEntries(paths.join(root, at)))) {
      const path = at === "" ? name : `${at}/${name}`
      if (path === ".git") continue
      if (path.split("/").length > maxDepth)
        return yield* refuseInstallation(`"${path}" is too deep: skills have at most ${maxDepth} levels`)
      if (type === "Directory") {
        queue.push(path)
        continue
      }
      if (type !== "File")
        return yield* refuseInstallation(
          `it has a ${type === "SymbolicLink" ? "symbolic link" : "special file"}, "${path}": only files and ` +
            "directories are installed"
        )
      const bytes = Number((yield* toSkillRefusal(path)(fs.stat(paths.join(root, path)))).size)
      total += bytes
      files.push({ path, bytes })
      if (files.length > maxFiles || queue.length > maxFiles || total > maxTotalBytes) {
        return yield* refuseInstallation(
          `it has more than ${maxFiles} files or ${maxTotalBytes / 1_000_000} MB: name a folder with skills alone`
        )
      }
    }
  }
  return files.toSorted((a, b) => (a.path < b.path ? -1 : 1))
})

/** Decompresses a gzip stream up to the permitted size. */
const decompressGzip = (source: string, bytes: Uint8Array): Effect.Effect<Uint8Array, SkillRefused> =>
  Effect.suspend(() => {
    let total = 0
    const parts: Array<Uint8Array> = []
    return Stream.fromReadableStream({
      evaluate: () => new Blob([Uint8Array.from(bytes)]).stream().pipeThrough(new DecompressionStream("gzip")),
      onError: () => new SkillRefused({ message: `${source} cannot be unpacked: it is damaged` })
    }).pipe(
      Stream.runForEach((part) => {
        total += part.length
        parts.push(part)
        return total > maxTotalBytes
          ? refuseInstallation(`${source} is larger than ${maxTotalBytes / 1_000_000} MB when it is unpacked`)
          : Effect.void
      }),
      Effect.map(() => {
        const whole = new Uint8Array(total)
        let at = 0
        for (const part of parts) {
          whole.set(part, at)
          at += part.length
        }
        return whole
      })
    )
  })

const unpackArchive = Effect.fnUntraced(function* (source: string, bytes: Uint8Array, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const archive = bytes[0] === 0x1f && bytes[1] === 0x8b ? yield* decompressGzip(source, bytes) : bytes
  const files = yield* Effect.mapError(
    Effect.fromResult(TarArchive.read(archive)),
    (message) => new SkillRefused({ message: `${source} cannot be unpacked: ${message}` })
  )
  yield* toSkillRefusal(source)(
    Effect.forEach(
      files,
      ({ bytes, isExecutable, path }) =>
        Effect.andThen(
          fs.makeDirectory(paths.dirname(paths.join(directory, path)), { recursive: true }),
          fs.writeFile(paths.join(directory, path), bytes, { flag: "wx", mode: isExecutable ? 0o700 : 0o600 })
        ),
      { discard: true }
    )
  )
})

/** Copies the source into `directory`. */
const fetchSource = Effect.fnUntraced(function* ({ clone, cwd, download, source }: Request, directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const cloned = clone(source, directory)
  if (cloned !== undefined) return yield* Effect.mapError(cloned, ({ message }) => new SkillRefused({ message }))
  const downloaded = download(source)
  if (downloaded !== undefined) {
    const bytes = yield* Effect.mapError(downloaded, ({ message }) => new SkillRefused({ message }))
    yield* toSkillRefusal(source)(fs.makeDirectory(directory))
    return yield* unpackArchive(source, bytes, directory)
  }
  const path = paths.resolve(cwd, source)
  const info = Option.getOrUndefined(yield* Effect.option(fs.stat(path)))
  if (info === undefined)
    return yield* refuseInstallation(
      `"${source}" is not a folder, not a tarball, and not an address of a repository (https, ssh, file) or of ` +
        "a package (npm:name)"
    )
  yield* toSkillRefusal(source)(fs.makeDirectory(directory))
  if (info.type === "File") {
    if (Number(info.size) > maxTotalBytes)
      return yield* refuseInstallation(`${source} is larger than ${maxTotalBytes / 1_000_000} MB`)
    return yield* unpackArchive(source, yield* toSkillRefusal(source)(fs.readFile(path)), directory)
  }
  for (const file of yield* listFiles(path)) {
    const target = paths.join(directory, file.path)
    yield* toSkillRefusal(source)(
      Effect.andThen(
        fs.makeDirectory(paths.dirname(target), { recursive: true }),
        fs.copyFile(paths.join(path, file.path), target)
      )
    )
  }
})

/** Checks one skill of a copy. */
const inspectSkill = Effect.fnUntraced(function* (
  root: string,
  files: ReadonlyArray<ListedFile>
): Effect.fn.Return<PlannedSkill, SkillRefused, Platform> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const warnings: Array<string> = []
  for (const { path } of files) {
    const text = yield* toSkillRefusal(path)(fs.readFileString(paths.join(root, path)))
    if (text.includes("\0")) continue
    const found = SkillFile.findRefusals(text, path)
    if (found.length > 0) {
      const hidden = SkillFile.readHiddenText(text)
      const quoted = hidden === undefined ? "" : `. Its hidden text: ${JSON.stringify(hidden)}`
      return yield* refuseInstallation(
        `${path} may contain a prompt injection (${found.join(", ")}): it is not installed${quoted}`
      )
    }
    warnings.push(...SkillFile.findWarnings(text).map((warning) => `${path} ${warning}`))
  }
  const main = files.find(({ path }) => path === SkillFile.fileName)
  if (main === undefined || main.bytes > SkillFile.maxBytes)
    return yield* refuseInstallation(`its ${SkillFile.fileName} is larger than ${SkillFile.maxBytes} bytes`)
  const parsed = SkillFile.parse(
    yield* Yaml.load,
    yield* toSkillRefusal(main.path)(fs.readFileString(paths.join(root, main.path)))
  )
  if (Result.isFailure(parsed)) return yield* refuseInstallation(`${main.path}: ${parsed.failure}`)
  const { facts } = parsed.success
  if (!SkillFile.isName(facts.name)) {
    return yield* refuseInstallation(
      `its name "${facts.name}" cannot be used: a name has at most 64 lower-case letters, digits and single hyphens`
    )
  }
  return {
    name: facts.name,
    facts,
    from: root,
    files: files.map(({ path }) => path),
    bytes: files.reduce((total, { bytes }) => total + bytes, 0),
    warnings,
    remarks: SkillFile.listRemarks(parsed.success, facts.name)
  }
})

/** Skills of a source: the skills that can be installed, and the reasons why others cannot. */
export interface InstallationPlan {
  readonly skills: ReadonlyArray<PlannedSkill>
  readonly refused: ReadonlyArray<string>
}

/** Copies a source and checks its skills; the scope removes the copies. Fails if no skill is usable. */
export const planInstallation = Effect.fn("SkillInstaller.planInstallation")(function* (
  request: Request
): Effect.fn.Return<InstallationPlan, SkillRefused, Platform | Scope.Scope> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  yield* toSkillRefusal(request.directory)(fs.makeDirectory(request.directory, { recursive: true, mode: 0o700 }))
  // The copy is inside the target directory, so that the move is atomic, and hidden, so that it is not listed as a
  // skill.
  const staging = yield* toSkillRefusal(request.directory)(
    fs.makeTempDirectoryScoped({ directory: request.directory, prefix: ".install-" })
  )
  const fetched = paths.join(staging, "new")
  yield* fetchSource(request, fetched)
  const files = yield* listFiles(fetched)
  const mains = files.filter(({ path }) => path === SkillFile.fileName || path.endsWith(`/${SkillFile.fileName}`))
  const roots = mains.some(({ path }) => path === SkillFile.fileName)
    ? [""]
    : mains.map(({ path }) => path.slice(0, -SkillFile.fileName.length - 1))
  if (roots.length === 0) return yield* refuseInstallation(`${request.source} has no ${SkillFile.fileName}`)
  if (roots.length > maxSkills)
    return yield* refuseInstallation(`${request.source} has more than ${maxSkills} skills: pass a folder with fewer`)
  const looked = yield* Effect.forEach(roots, (root) =>
    Effect.result(
      inspectSkill(
        paths.join(fetched, root),
        root === ""
          ? files
          : files.flatMap((file) =>
              file.path.startsWith(`${root}/`) ? [{ ...file, path: file.path.slice(root.length + 1) }] : []
            )
      ).pipe(Effect.mapError(({ message }) => (root === "" ? message : `${root}: ${message}`)))
    )
  )
  const skills = looked.flatMap((result) => (Result.isSuccess(result) ? [result.success] : []))
  const refused = looked.flatMap((result) => (Result.isFailure(result) ? [result.failure] : []))
  return skills.length === 0 ? yield* refuseInstallation(refused.join("; ")) : { skills, refused }
})

/** Installs a planned skill and returns its directory. `replaces` is the directory of the skill that it replaces. */
export const installSkill = Effect.fn("SkillInstaller.installSkill")(function* (
  { from, name }: PlannedSkill,
  {
    category,
    directory,
    replaces
  }: { readonly directory: string; readonly category?: string | undefined; readonly replaces?: string | undefined }
): Effect.fn.Return<string, SkillRefused, Platform> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  if (category !== undefined && !SkillFile.isDirectoryName(category))
    return yield* refuseInstallation(`"${category}" is no name of a category`)
  const target = replaces ?? paths.join(directory, ...(category === undefined ? [] : [category]), name)
  if (replaces === undefined && (yield* toSkillRefusal(target)(fs.exists(target))))
    return yield* refuseInstallation(`there is ${target} already: remove it first`)
  yield* toSkillRefusal(target)(
    Effect.uninterruptible(
      Effect.gen(function* () {
        yield* fs.makeDirectory(paths.dirname(target), { recursive: true, mode: 0o700 })
        yield* fs.remove(paths.join(from, ".git"), { recursive: true, force: true })
        if (replaces !== undefined) yield* fs.rename(replaces, `${from}.old`)
        yield* fs.rename(from, target)
      })
    )
  )
  return target
})
