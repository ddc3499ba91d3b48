/**
 * Texts that show skills to a model (their index in a system prompt, one skill in a message), and the conditions under
 * which a skill is shown.
 *
 * Source: `hermes-llm.md` §6.3.
 */
import * as TextCut from "../../base/domain/TextCut.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"
import type * as SkillFile from "./SkillFile.ts"
import type * as SkillIndex from "./SkillIndex.ts"

/** Lengths to which descriptions are cut, in characters. The index uses the first with which it fits its budget. */
const descriptionLengths = [300, 120, 40] as const

/** Maximum length of the index in a system prompt, in characters. */
const maxIndex = 40_000

const systems: Readonly<Record<string, ReadonlyArray<string>>> = {
  darwin: ["macos", "darwin", "mac", "osx"],
  linux: ["linux"],
  win32: ["windows", "win32", "win"]
}

/** Returns true if a skill supports a system, as named by Node. */
export const isForSystem = ({ platforms }: SkillFile.Facts, os: string): boolean =>
  platforms.length === 0 || platforms.some((name) => name === os || (systems[os] ?? []).includes(name))

/** Returns true if a skill's conditions hold for these tools and toolsets. */
export const isOffered = (
  { fallbackForTools, fallbackForToolsets, requiresTools, requiresToolsets }: SkillFile.Conditions,
  offered: ReadonlySet<string>,
  toolsets: ReadonlySet<string>
): boolean =>
  requiresTools.every((tool) => offered.has(tool)) &&
  requiresToolsets.every((toolset) => toolsets.has(toolset)) &&
  !fallbackForTools.some((tool) => offered.has(tool)) &&
  !fallbackForToolsets.some((toolset) => toolsets.has(toolset))

/** Formats text from a file as one line of a prompt that cannot close the surrounding markup. */
const toInlineText = (text: string, length: number = descriptionLengths[0]): string =>
  TextCut.shorten(
    TextHygiene.stripFences(TextHygiene.withoutControls(text))
      .replaceAll(/\s+/g, " ")
      .replaceAll("<", "‹")
      .replaceAll(">", "›")
      .trim(),
    length
  )

/** Lists categories and their skills, with descriptions of at most `length` characters. */
const listSkills = (
  skills: ReadonlyArray<SkillIndex.Skill>,
  categories: ReadonlyMap<string, string>,
  length: number
): ReadonlyArray<string> =>
  Array.from(Map.groupBy(skills, ({ category }) => category)).flatMap(([category, members]) => {
    const description = categories.get(category) ?? ""
    return [
      `${toInlineText(category)}:${description === "" ? "" : ` ${toInlineText(description, length)}`}`,
      ...members.map(({ facts, name }) => `  - ${toInlineText(name)}: ${toInlineText(facts.description, length)}`)
    ]
  })

const countChars = (lines: ReadonlyArray<string>): number => lines.reduce((sum, line) => sum + line.length + 1, 0)

/** Cuts a list to the budget of the index, and names the number of skills that are left out. */
const cutList = (lines: ReadonlyArray<string>): ReadonlyArray<string> => {
  let chars = 0
  const end = lines.findIndex((line) => {
    chars += line.length + 1
    return chars > maxIndex
  })
  if (end === -1) return lines
  const left = lines.slice(end).filter((line) => line.startsWith("  - ")).length
  return [...lines.slice(0, end), `(${left} more skills are not listed here: find them with skills_list)`]
}

/**
 * Renders the part of a system prompt that lists some skills; returns `undefined` without skills. A list that exceeds
 * {@link maxIndex} has shorter descriptions, and if it is still too long, it ends early.
 */
export const renderIndex = (
  skills: ReadonlyArray<SkillIndex.Skill>,
  categories: ReadonlyMap<string, string>
): string | undefined => {
  if (skills.length === 0) return undefined
  const length = descriptionLengths.find((length) => countChars(listSkills(skills, categories, length)) <= maxIndex)
  const lines = cutList(listSkills(skills, categories, length ?? descriptionLengths[2]))
  return [
    "# Skills\n\nA skill says how a kind of task is done here. Before you start, look for one below that fits " +
      "the task, even partly: load it with `skill_view` and follow it. The user's own words override it.",
    `<available_skills>\n${lines.join("\n")}\n</available_skills>`
  ].join("\n\n")
}

/** Renders a skill as a user message, for a skill that the user selected. */
export const renderMessage = ({
  missing,
  skill,
  text
}: {
  readonly missing: ReadonlyArray<string>
  readonly skill: SkillIndex.Skill
  readonly text: string
}): string =>
  [
    `<skill name="${skill.name}" directory="${skill.directory.replaceAll('"', "'")}">`,
    ...(missing.length === 0 ? [] : [`[These variables that the skill needs are not set: ${missing.join(", ")}]`]),
    text.replaceAll(/<(\/?)skill\b/gi, "‹$1skill"),
    "</skill>"
  ].join("\n")
