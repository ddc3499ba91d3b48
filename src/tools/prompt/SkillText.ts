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

const maxShownDescription = 300

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
const toInlineText = (text: string): string =>
  TextCut.shorten(
    TextHygiene.stripFences(TextHygiene.withoutControls(text))
      .replaceAll(/\s+/g, " ")
      .replaceAll("<", "‹")
      .replaceAll(">", "›")
      .trim(),
    maxShownDescription
  )

/** Renders the part of a system prompt that lists some skills; returns `undefined` without skills. */
export const renderIndex = (
  skills: ReadonlyArray<SkillIndex.Skill>,
  categories: ReadonlyMap<string, string>
): string | undefined => {
  if (skills.length === 0) return undefined
  const named = Array.from(new Set(skills.map(({ category }) => category)))
  const lines = named.flatMap((category) => {
    const description = categories.get(category) ?? ""
    return [
      `${toInlineText(category)}:${description === "" ? "" : ` ${toInlineText(description)}`}`,
      ...skills
        .filter((skill) => skill.category === category)
        .map(({ facts, name }) => `  - ${toInlineText(name)}: ${toInlineText(facts.description)}`)
    ]
  })
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
