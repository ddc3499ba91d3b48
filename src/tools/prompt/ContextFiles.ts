/**
 * Instructions in the user's files: project files (`AGENTS.md` and similar), and `SOUL.md` in the agent's home.
 *
 * **Details**
 *
 * One kind of project file is read, the first that exists: `.hermes.md` or `HERMES.md` from the working directory up to
 * the root of its repository; `AGENTS.md` of the repository's root and of each directory down to the working directory,
 * the nearest last; `CLAUDE.md`, and `.cursorrules` with `.cursor/rules/*.mdc`, of the working directory. `AGENTS.md`
 * files below the working directory are named, not read: the model reads them when it works there.
 *
 * For a text of more than {@link longest} characters, only the beginning and the end are shown. A text that looks like
 * an injected instruction, and a file that cannot be read, is replaced with a notice that names the problem. A link in
 * a project that points outside it is not followed, because its target would be sent to a model.
 *
 * Source: `hermes-llm.md` §6.2, §6.4 and §19.4.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { CurrentWorkspace, isInWorkspace } from "../../base/domain/CallContext.ts"
import * as Injection from "../../base/domain/Injection.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"

/** Maximum number of characters of one file in a prompt. */
const longest = 20_000
const headChars = 0.7 * longest
const tailChars = 0.2 * longest

/** Maximum size of a file that is read, in bytes. */
const maxBytes = 4_000_000
const maxAncestors = 64

/** A file as shown to a model. */
export interface ContextFile {
  /** Displayed name, relative to the root of the project. */
  readonly name: string
  readonly text: string
  /** True if `text` is a notice that explains why the file's own text is not shown. */
  readonly isNotice: boolean
  /**
   * Text hidden in the characters of the file. It is shown only to the user, because a model would read it as an
   * instruction.
   */
  readonly hidden?: string | undefined
}

/** The instructions of a project. */
export interface ProjectContext {
  readonly files: ReadonlyArray<ContextFile>
  /** `AGENTS.md` files below the working directory, relative to it. */
  readonly nested: ReadonlyArray<string>
}

/** Shortens a text to the length available in a prompt: its beginning and its end, with a note between them. */
const shortenText = (name: string, text: string): string =>
  text.length <= longest
    ? text
    : [
        text.slice(0, headChars).toWellFormed(),
        `[… ${name} is cut: the first ${headChars} and the last ${tailChars} of ${text.length} characters are ` +
          "shown. Read the file for the rest. …]",
        text.slice(-tailChars).toWellFormed()
      ].join("\n\n")

const stripFrontmatter = (text: string): string => text.replace(/^---\r?\n[\s\S]*?\r?\n---[ \t]*(?:\r?\n|$)/, "")

/** Number of characters of a text that is screened at once, which takes a few milliseconds. */
const screenedAtOnce = 262_144

/** Screens a text. Lets other fibers run meanwhile if it is long. */
const screenText = (name: string, text: string) =>
  text.length <= screenedAtOnce
    ? Effect.sync(() => Injection.screenContextFile(name, text))
    : Effect.gen(function* () {
        const steps = Injection.screenContextFileInSteps(name, text)
        for (;;) {
          const step = steps.next()
          if (step.done === true) return step.value
          yield* Effect.yieldNow
        }
      })

/** Returns the file's text in the form that is sent to the model, or `undefined` if it is empty. */
const toContextFile = Effect.fnUntraced(function* (name: string, raw: string) {
  const text = TextHygiene.stripFences(
    TextHygiene.withoutControls(TextHygiene.toWellFormed(raw.replace(/^\ufeff/, "")))
  ).trim()
  if (text === "") return undefined
  const judged = yield* screenText(name, text)
  const hidden = judged.findings.find((finding) => finding.hidden !== undefined)?.hidden
  const file: ContextFile = {
    name,
    text: shortenText(name, judged.text),
    isNotice: judged.findings.length > 0,
    ...(hidden === undefined ? {} : { hidden })
  }
  return file
})

const makeNotice = (name: string, why: string): ContextFile => ({
  name,
  text: `[${name} was not loaded: ${why}]`,
  isNotice: true
})

const isMissing = ({ reason }: PlatformError): boolean => reason._tag === "NotFound" || reason._tag === "BadResource"

/** Reads one file; returns `undefined` if the file does not exist or is empty. */
const readContextFile = Effect.fnUntraced(function* (
  path: string,
  name: string,
  within: string | undefined
): Effect.fn.Return<ContextFile | undefined, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  return yield* Effect.gen(function* () {
    const { size, type } = yield* fs.stat(path)
    if (type !== "File") return undefined
    if (within !== undefined) {
      const target = paths.relative(yield* fs.realPath(within), yield* fs.realPath(path))
      if (target.startsWith("..") || paths.isAbsolute(target))
        return makeNotice(name, "it is a link that leads out of the project")
    }
    if (size > maxBytes) return makeNotice(name, `it is larger than ${maxBytes / 1_000_000} MB`)
    const text = yield* fs.readFileString(path)
    return text.includes("\0")
      ? makeNotice(name, "it is not text")
      : yield* toContextFile(name, /\.hermes\.md$|HERMES\.md$|\.mdc$/.test(name) ? stripFrontmatter(text) : text)
  }).pipe(
    Effect.catchTag("PlatformError", (error) =>
      Effect.succeed(isMissing(error) ? undefined : makeNotice(name, describeReason(error)))
    )
  )
})

const isExistingPath = (path: string): Effect.Effect<boolean, never, FileSystem.FileSystem> =>
  Effect.flatMap(FileSystem.FileSystem, (fs) => Effect.orElseSucceed(fs.exists(path), () => false))

/**
 * Returns the directories from the root of the repository down to `cwd`; only `cwd` outside a repository. Directories
 * outside of the workspace of a tenant are not read.
 */
const listAncestors = Effect.fnUntraced(function* (cwd: string) {
  const paths = yield* Path.Path
  const workspace = yield* CurrentWorkspace
  const up: Array<string> = []
  for (let at = cwd; up.length < maxAncestors; at = paths.dirname(at)) {
    if (workspace !== undefined && !isInWorkspace(workspace, at)) break
    up.unshift(at)
    if (yield* isExistingPath(paths.join(at, ".git"))) return up
    if (paths.dirname(at) === at) break
  }
  return [cwd]
})

const maxNested = 20
const maxDirectories = 200
const maxDepth = 3
const passedOver = /^\.|^(?:node_modules|vendor|dist|build|target|out|venv|__pycache__)$/

/** Finds `AGENTS.md` files below a directory, with a limited search. */
const findNestedFiles = Effect.fnUntraced(function* (cwd: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const found: Array<string> = []
  const queue: Array<{ readonly at: string; readonly depth: number }> = [{ at: cwd, depth: 0 }]
  for (const { at, depth } of queue) {
    if (found.length === maxNested) break
    const names = (yield* Effect.orElseSucceed(fs.readDirectory(at), () => [])).toSorted()
    if (depth > 0 && names.includes("AGENTS.md")) found.push(paths.relative(cwd, paths.join(at, "AGENTS.md")))
    if (depth === maxDepth) continue
    for (const name of names) {
      if (queue.length === maxDirectories) break
      if (passedOver.test(name) || name.includes(".")) continue
      queue.push({ at: paths.join(at, name), depth: depth + 1 })
    }
  }
  return found
})

/** Reads the first existing file of several names in a directory. */
const readFirstFile = Effect.fnUntraced(function* (directory: string, names: ReadonlyArray<string>, root: string) {
  const paths = yield* Path.Path
  for (const name of names) {
    const path = paths.join(directory, name)
    const file = yield* readContextFile(path, paths.relative(root, path), root)
    if (file !== undefined) return file
  }
  return undefined
})

const readCursorRules = Effect.fnUntraced(function* (cwd: string, root: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const directory = paths.join(cwd, ".cursor", "rules")
  const rules = (yield* Effect.orElseSucceed(fs.readDirectory(directory), () => []))
    .filter((name) => name.endsWith(".mdc"))
    .toSorted()
  const files = yield* Effect.forEach(
    [paths.join(cwd, ".cursorrules"), ...rules.map((name) => paths.join(directory, name))],
    (path) => readContextFile(path, paths.relative(root, path), root)
  )
  return files.flatMap((file) => file ?? [])
})

/** Reads the instructions of the project that a working directory belongs to. */
export const readProjectContext = Effect.fnUntraced(function* (
  cwd: string
): Effect.fn.Return<ProjectContext, never, FileSystem.FileSystem | Path.Path> {
  const paths = yield* Path.Path
  const directories = yield* listAncestors(cwd)
  const root = directories[0] ?? cwd
  for (const directory of directories.toReversed()) {
    const own = yield* readFirstFile(directory, [".hermes.md", "HERMES.md"], root)
    if (own !== undefined) return { files: [own], nested: [] }
  }
  const agents = yield* Effect.forEach(directories, (directory) =>
    readFirstFile(directory, ["AGENTS.md", "agents.md"], root)
  )
  const files = agents.flatMap((file) => file ?? [])
  const nested =
    directories.length > 1 || (yield* isExistingPath(paths.join(cwd, ".git"))) ? yield* findNestedFiles(cwd) : []
  if (files.length > 0) return { files, nested }
  const claude = yield* readFirstFile(cwd, ["CLAUDE.md", "claude.md"], root)
  return { files: claude === undefined ? yield* readCursorRules(cwd, root) : [claude], nested }
})

/**
 * Reads `SOUL.md` of the agent's home directory, which replaces the built-in identity; returns `undefined` if it does
 * not exist.
 */
export const readSoul = (
  home: string
): Effect.Effect<ContextFile | undefined, never, FileSystem.FileSystem | Path.Path> =>
  Effect.flatMap(Path.Path, (paths) => readContextFile(paths.join(home, "SOUL.md"), "SOUL.md", undefined))

/** Renders a project's instructions as a part of a system prompt; returns `undefined` without instructions. */
export const renderProjectContext = ({ files, nested }: ProjectContext): string | undefined => {
  if (files.length === 0 && nested.length === 0) return undefined
  return [
    "# Project instructions\n\nThe project keeps these instructions for agents. Follow them; where they " +
      "disagree, the later one holds, and the user's own words hold above all.",
    ...files.map(({ name, text }) => `## ${name}\n\n${text}`),
    ...(nested.length === 0
      ? []
      : [
          "More instructions are in the files below. Read one before you work in its directory.\n" +
            `${nested.map((name) => `- ${name}`).join("\n")}`
        ])
  ].join("\n\n")
}
