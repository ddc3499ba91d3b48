/**
 * Finds settings of repositories that make git run a program in commands that appear to be read-only: file monitors,
 * pagers, textconv, filters, diff drivers, includes, a hook for each refresh of the index. `git status` enters
 * submodules, whose settings count too.
 *
 * **Details**
 *
 * A repository is found as git finds it: from a directory upward, as a `.git` directory or file, or a directory that is
 * a bare repository. Its configuration is read without regard to sections: a key that runs a program in some section
 * counts in all of them, so that unusual syntax cannot hide it. The user's global settings are not judged.
 *
 * **Gotchas**
 *
 * An unreadable repository counts as one with such a setting. Git does not enter a repository that the index does not
 * name, so such a repository is not checked.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { Concern } from "../approval/ApprovalRequest.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"

/** Keys of programs that git runs when it reads files. An unusual object format changes the layout of the index. */
const local = [
  "fsmonitor",
  "pager",
  "textconv",
  "clean",
  "smudge",
  "process",
  "external",
  "command",
  "program",
  "promisor",
  "partialclone",
  "path",
  "alternaterefscommand",
  "objectformat"
]
/** Keys of further programs that git runs when it contacts other machines. */
const remote = ["sshcommand", "helper", "askpass", "gitproxy", "vcs", "uploadpack", "receivepack", "proxy"]

const makeKeyPattern = (names: ReadonlyArray<string>): RegExp =>
  new RegExp(String.raw`(?:^|\])[ \t]*(${names.join("|")})[ \t]*(?:=[ \t]*([^\n]*))?$`, "gim")
const keys = { looking: makeKeyPattern(local), all: makeKeyPattern([...local, ...remote]) }
const section = /^\s*\[\s*(include|includeif|pager)\b/im
const hooksPath = /(?:^|\])[ \t]*hookspath[ \t]*=[ \t]*"?([^"\n#;]*)/im

/** Returns true for values that run no program, or only a program that the user installed for git. */
const isHarmless = (name: string, value = ""): boolean =>
  (name === "fsmonitor" && /^(?:true|false)\s*$/i.test(value)) ||
  (name === "objectformat" && /^sha1\s*$/i.test(value)) ||
  /^"?git-lfs (?:clean|smudge|filter-process)\b[^;&|$`\n]*$/.test(value)

/**
 * Returns the configuration key that runs a program, in a read-only command or in any command; `undefined` if there is
 * no such key.
 */
export const findProgramKey = (config: string, by: keyof typeof keys): string | undefined => {
  const text = config.replaceAll("\r", "")
  const found = Array.from(text.matchAll(keys[by])).find(
    ([, name = "", value]) => !isHarmless(name.toLowerCase(), value)
  )
  return found?.[1]?.toLowerCase() ?? section.exec(text)?.[1]?.toLowerCase()
}

/** Maximum size of an index that is examined, in bytes. */
const maxIndex = 64 * 1024 * 1024
const gitlink = 0o160000

/** Returns the paths of submodules in a git index; `undefined` if it cannot be read. */
export const readSubmodules = (index: Uint8Array): ReadonlyArray<string> | undefined => {
  const view = new DataView(index.buffer, index.byteOffset, index.byteLength)
  const decodeRange = (from: number, to: number) => new TextDecoder().decode(index.subarray(from, to))
  if (index.length < 12 || index.length > maxIndex || decodeRange(0, 4) !== "DIRC") return undefined
  const version = view.getUint32(4)
  const count = view.getUint32(8)
  if (version < 2 || version > 4) return undefined
  const found: Array<string> = []
  let at = 12
  let last = ""
  for (let entry = 0; entry < count; entry++) {
    if (at + 62 > index.length) return undefined
    const isLink = (view.getUint32(at + 24) & 0o170000) === gitlink
    let name = at + ((view.getUint16(at + 60) & 0x4000) !== 0 && version > 2 ? 64 : 62)
    let kept = 0
    if (version === 4) {
      let byte = index[name++] ?? 0
      kept = byte & 0x7f
      while (byte >= 0x80) {
        byte = index[name++] ?? 0
        kept = ((kept + 1) << 7) | (byte & 0x7f)
      }
    }
    const end = index.indexOf(0, name)
    if (end === -1) return undefined
    // Only the compressed format needs the text of entries that are not submodules.
    if (version === 4) last = last.slice(0, last.length - kept) + decodeRange(name, end)
    if (isLink) found.push(version === 4 ? last : decodeRange(name, end))
    at = version === 4 ? end + 1 : at + Math.floor((end - at + 8) / 8) * 8
  }
  // The rest of a split index is in another file.
  return decodeRange(at, at + 4) === "link" ? undefined : found
}

/** A repository: the location of its files, and the root of its working tree. */
interface Repository {
  readonly root: string
  readonly directory: string
  readonly common: string
}

const maxSubmodules = 64

/**
 * Finds reasons why git, run in a directory, would run programs from a repository's settings: in a read-only command
 * or, if `own` is the root of a tree whose settings a sandbox protected, in any command in a repository below it.
 */
export const findReasons = Effect.fnUntraced(function* (
  cwd: string,
  own?: string
): Effect.fn.Return<ReadonlyArray<string>, never, FileSystem.FileSystem | Path.Path> {
  const fs = yield* FileSystem.FileSystem
  const path = yield* Path.Path
  const hasFile = (name: string) => Effect.orElseSucceed(fs.exists(name), () => true)
  const readText = (name: string) =>
    Effect.flatMap(hasFile(name), (is) => (is ? fs.readFileString(name) : Effect.succeed("")))

  const findRepository = Effect.fnUntraced(function* (root: string) {
    const dot = path.join(root, ".git")
    if (!(yield* hasFile(dot))) {
      const parts = yield* Effect.forEach(["HEAD", "objects", "refs"], (name) => hasFile(path.join(root, name)))
      return parts.every(Boolean) ? { root, directory: root, common: root } : undefined
    }
    const isFile = (yield* fs.stat(dot)).type === "File"
    const directory = isFile ? path.resolve(root, /^gitdir: (.+)$/m.exec(yield* readText(dot))?.[1] ?? ".git") : dot
    const common = (yield* readText(path.join(directory, "commondir"))).trim()
    return { root, directory, common: common === "" ? directory : path.resolve(directory, common) }
  })

  const findSettingReasons = Effect.fnUntraced(function* ({ common, directory, root }: Repository) {
    const configs = [
      yield* readText(path.join(common, "config")),
      yield* readText(path.join(directory, "config.worktree"))
    ]
    const name = configs
      .map((config) => findProgramKey(config, own === undefined ? "looking" : "all"))
      .find((found) => found !== undefined)
    if (name !== undefined) return [`${name} in the settings of ${root}`]
    const hooks = configs.map((config) => hooksPath.exec(config)?.[1]?.trim()).find((found) => found !== undefined)
    const hook = path.join(
      hooks === undefined ? path.join(common, "hooks") : path.resolve(root, hooks),
      "post-index-change"
    )
    return (yield* hasFile(hook)) ? [hook] : []
  })

  let looked = 0
  const findReasonsBelow = (repository: Repository): Effect.Effect<ReadonlyArray<string>> =>
    Effect.gen(function* () {
      const found = repository.root === own ? [] : yield* findSettingReasons(repository)
      if (found.length > 0) return found
      const index = path.join(repository.directory, "index")
      const places = (yield* hasFile(index)) ? readSubmodules(yield* fs.readFile(index)) : []
      if (places === undefined) return [`the index of ${repository.root}, which cannot be read`]
      looked += places.length
      if (looked > maxSubmodules) return [`${looked} submodules of ${repository.root}`]
      const inner = yield* Effect.forEach(places, (place) =>
        Effect.flatMap(findRepository(path.join(repository.root, place)), (next) =>
          next === undefined ? Effect.succeed([]) : findReasonsBelow(next)
        )
      )
      return inner.flat()
    }).pipe(Effect.orElseSucceed(() => [`the repository ${repository.root}, which cannot be read`]))

  for (let directory = path.resolve(cwd); ; directory = path.dirname(directory)) {
    const repository = yield* Effect.orElseSucceed(findRepository(directory), () => "closed" as const)
    if (repository === "closed") return [`the repository ${directory}, which cannot be read`]
    if (repository !== undefined) return yield* findReasonsBelow(repository)
    if (directory === path.dirname(directory)) return []
  }
})

/** Returns true if a command line contains git, by its name or inside quotes that only a shell removes. */
const runsGit = (command: string): boolean =>
  /\bgit\b/.test(command) || ScriptInterpreter.read(command).commands.some(({ program }) => program === "git")

const toConcerns = (found: ReadonlyArray<string>): ReadonlyArray<Concern> =>
  found.map((reason) => ({ key: `git that runs a program: ${reason}`, permanent: false }))

/** Like {@link findReasons}, for a command line that contains git. */
export const findCommandConcerns = (
  command: string,
  cwd: string,
  own?: string
): Effect.Effect<ReadonlyArray<Concern>, never, FileSystem.FileSystem | Path.Path> =>
  runsGit(command) ? Effect.map(findReasons(cwd, own), toConcerns) : Effect.succeed([])
