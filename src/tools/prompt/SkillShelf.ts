/**
 * Reads the directories of skills: finds a skill by name, resolves paths inside it, and returns its text.
 */
import * as Effect from "effect/Effect"
import type * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import type * as Path from "effect/Path"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"
import * as SkillFile from "./SkillFile.ts"
import type * as SkillIndex from "./SkillIndex.ts"
import { refuseRequest, toSafePath, toSkillRefusal } from "./SkillRefusal.ts"

/** The skills of a user, and the file system that contains them. */
export interface SkillShelf {
  readonly fs: FileSystem.FileSystem
  readonly paths: Path.Path
  readonly options: {
    /** Directory of the user's own skills, absolute. */
    readonly directory: string
    /** Database that holds the leases of its writers. */
    readonly database: string
    readonly templateVars?: boolean | undefined
    readonly variable?: ((name: string) => string | undefined) | undefined
  }
  /** Every skill, including disabled skills. */
  readonly everything: Effect.Effect<SkillIndex.Catalogue>
  readonly isDisabled: (skill: SkillIndex.Skill) => boolean
}

const maxLinked = 200
const maxTextChars = 100_000

/** Refuses the name of a skill that does not exist or cannot be read, and suggests the nearest name. */
const refuseUnknownSkill = ({ paths }: SkillShelf, { problems, skills }: SkillIndex.Catalogue, wanted: string) => {
  const problem = problems.find(({ path }) => paths.basename(paths.dirname(path)) === wanted)
  if (problem !== undefined)
    return refuseRequest(`the skill "${wanted}" cannot be used: ${problem.path}: ${problem.message}`)
  const meant = findNearest(
    wanted,
    skills.map(({ name }) => name)
  )
  return refuseRequest(
    `there is no skill "${TextCut.shorten(wanted, 80)}": ` +
      `${meant === undefined ? "list them with skills_list" : `did you mean "${meant}"?`}`
  )
}

/**
 * Finds a skill by its name, or by category and name. Refuses a name that is unknown, ambiguous or disabled. Refuses a
 * name that is unknown, ambiguous or turned off.
 */
export const findSkill = Effect.fnUntraced(function* (shelf: SkillShelf, name: string) {
  const catalogue = yield* shelf.everything
  const { skills } = catalogue
  // The contract names skills of plugins with a colon.
  const wanted = name.trim().replace(/^([\w.-]+):(?=[\w.-]+$)/, "$1/")
  const exact = skills.filter((skill) => skill.path === wanted)
  const found =
    exact.length > 0 ? exact : skills.filter((skill) => skill.name === wanted || skill.facts.name === wanted)
  const [skill] = found
  if (skill === undefined) return yield* refuseUnknownSkill(shelf, catalogue, wanted)
  if (found.length > 1)
    return yield* refuseRequest(`"${wanted}" is ambiguous: give one of ${found.map(({ path }) => path).join(", ")}`)
  if (shelf.isDisabled(skill))
    return yield* refuseRequest(`the skill "${skill.name}" is turned off by skills.disabled in the settings`)
  return skill
})

/** Lists the files of a skill other than its `SKILL.md`, relative to its directory and limited in number. */
const listLinkedFiles = Effect.fnUntraced(function* ({ fs, paths }: SkillShelf, directory: string) {
  const files: Array<string> = []
  const queue = [""]
  for (const at of queue) {
    for (const { name, type } of (yield* Effect.orElseSucceed(
      fs.readDirectoryEntries(paths.join(directory, at)),
      () => []
    )).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
      const path = at === "" ? name : `${at}/${name}`
      if (name.startsWith(".") || path === SkillFile.fileName || files.length === maxLinked) continue
      if (type === "Directory" && queue.length < maxLinked) queue.push(path)
      if (type === "File") files.push(path)
    }
  }
  return files.toSorted()
})

/** Returns the real path of a file in a skill's directory; fails if a link leads outside it. */
export const resolveInsideSkill = Effect.fnUntraced(function* (
  { fs, paths }: SkillShelf,
  skill: SkillIndex.Skill,
  file: string
) {
  const root = yield* toSkillRefusal(skill.directory)(fs.realPath(skill.directory))
  let at = paths.join(skill.directory, file)
  // Directories that do not exist yet contain no links.
  while (at !== skill.directory && Option.isNone(yield* Effect.option(fs.realPath(at)))) {
    if (Option.isSome(yield* Effect.option(fs.readLink(at))))
      return yield* refuseRequest(`"${file}" is a link that leads nowhere`)
    at = paths.dirname(at)
  }
  const target = paths.relative(root, yield* toSkillRefusal(at)(fs.realPath(at)))
  return target.startsWith("..") || paths.isAbsolute(target)
    ? yield* refuseRequest(`"${file}" is a link that leads out of the directory of the skill`)
    : paths.join(skill.directory, file)
})

/** Substitutes the variables in the text of a `SKILL.md`. */
const fillTemplateVariables = (
  { options }: SkillShelf,
  text: string,
  file: string,
  { directory }: SkillIndex.Skill,
  session: string | undefined
): string =>
  options.templateVars === false || file !== SkillFile.fileName
    ? text
    : text
        .replaceAll("${HERMES_SKILL_DIR}", () => directory)
        .replaceAll("${HERMES_SESSION_ID}", (name) => session ?? name)

/** Reads the text of a skill or of a file in its directory. */
export const viewSkill = Effect.fnUntraced(function* (
  shelf: SkillShelf,
  name: string,
  { file, session }: { readonly file?: string | undefined; readonly session?: string | undefined } = {}
) {
  const { fs, options } = shelf
  const skill = yield* findSkill(shelf, name)
  const shown = file === undefined || file === "" ? SkillFile.fileName : yield* toSafePath(file)
  const path = yield* resolveInsideSkill(shelf, skill, shown)
  const info = yield* Effect.option(fs.stat(path))
  const files = yield* listLinkedFiles(shelf, skill.directory)
  if (Option.isNone(info) || info.value.type !== "File") {
    return yield* refuseRequest(
      `the skill "${skill.name}" has no file "${shown}": it has ` +
        `${files.length === 0 ? "no files except SKILL.md" : files.join(", ")}`
    )
  }
  if (info.value.size > SkillFile.maxBytes)
    return yield* refuseRequest(`${path} is larger than ${SkillFile.maxBytes} bytes: read a part of it with read_file`)
  const text = yield* toSkillRefusal(path)(fs.readFileString(path))
  if (text.includes("\0")) return yield* refuseRequest(`${path} is not a text`)
  const found = SkillFile.findRefusals(text, shown)
  if (found.length > 0)
    return yield* refuseRequest(`${path} is not shown: it may contain a prompt injection (${found.join(", ")})`)
  return {
    skill,
    ...(shown === SkillFile.fileName ? {} : { file: shown }),
    text: TextCut.cutMiddle(
      TextHygiene.withoutControls(TextHygiene.toWellFormed(fillTemplateVariables(shelf, text, shown, skill, session))),
      maxTextChars
    ),
    files,
    missing: skill.facts.variables.filter((variable) => !options.variable?.(variable))
  }
})

/** Finds a skill that may be changed; refuses a skill that is read-only or a link to another location. */
export const findOwnSkill = Effect.fnUntraced(function* (shelf: SkillShelf, name: string) {
  const { fs, options, paths } = shelf
  const skill = yield* findSkill(shelf, name)
  if (skill.isReadOnly)
    return yield* refuseRequest(
      `the skill "${skill.name}" is in ${skill.directory}, which is read-only: create one of that name, ` +
        "which then counts"
    )
  const root = yield* toSkillRefusal(options.directory)(fs.realPath(options.directory))
  const target = paths.relative(root, yield* toSkillRefusal(skill.directory)(fs.realPath(skill.directory)))
  return target.startsWith("..") || paths.isAbsolute(target)
    ? yield* refuseRequest(`the skill "${skill.name}" is a link to a directory elsewhere: change it there`)
    : skill
})

/** Returns the directory of a new skill. */
export const buildSkillPath = ({ options, paths }: SkillShelf, name: string, category: string | undefined): string =>
  paths.join(options.directory, ...(category === undefined ? [] : category.split("/")), name)
