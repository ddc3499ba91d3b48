/**
 * The file `SKILL.md` of a skill, in the open format of agentskills.io: YAML frontmatter between lines of `---`, then
 * Markdown.
 *
 * **Details**
 *
 * `name` and `description` are required; `license`, `compatibility`, `metadata` and `allowed-tools` are optional. In
 * addition, `platforms`, the conditions (`requires_tools`, `requires_toolsets`, `fallback_for_tools`,
 * `fallback_for_toolsets`) and the environment variables that a skill needs are read, at the top level or in
 * `metadata.hermes`.
 *
 * The text of a skill instructs a model. A file whose text tries to turn the model against its user is refused
 * ({@link findRefusals}); commands to review before a skill is installed are warnings ({@link findWarnings}).
 *
 * **Gotchas**
 *
 * This is defense in depth: a skill without a finding may still be hostile. Its scripts run under the approvals of the
 * run.
 *
 * Source: `hermes-product.md` §4.4, `hermes-llm.md` §6.2 and §6.3.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import type { Yaml } from "../../base/config/Yaml.ts"
import * as Injection from "../../base/domain/Injection.ts"
import * as Json from "../../base/domain/Json.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"

/** Name of the file. */
export const fileName = "SKILL.md"

/** Maximum size of one file of a skill, in bytes. */
export const maxBytes = 1_048_576

const maxFrontmatter = 16_000
/** Maximum number of characters of a description in the open format. */
const maxDescription = 1_024
const maxCompatibility = 500
const maxNames = 64

const Names = Schema.Array(Schema.String)

/** Tools and toolsets that determine whether a skill is offered. */
export const Conditions = Schema.Struct({
  requiresTools: Names,
  requiresToolsets: Names,
  fallbackForTools: Names,
  fallbackForToolsets: Names
})
/** See {@link Conditions}. */
export type Conditions = typeof Conditions.Type

/** Frontmatter of a skill. */
export const Facts = Schema.Struct({
  /** The name in the frontmatter; empty if absent. */
  name: Schema.String,
  description: Schema.String,
  /** Systems that the skill supports (`linux`, `macos`, `windows`); empty for all systems. */
  platforms: Names,
  conditions: Conditions,
  /** Environment variables that the skill needs. */
  variables: Names,
  license: Schema.optionalKey(Schema.String),
  compatibility: Schema.optionalKey(Schema.String)
})
/** See {@link Facts}. */
export type Facts = typeof Facts.Type

/** A parsed `SKILL.md`. */
export interface SkillFile {
  readonly facts: Facts
  /** The text after the frontmatter. */
  readonly body: string
}

/** Returns true for a name in the open format: lower-case words with hyphens between them. */
export const isName = (name: string): boolean => name.length <= maxNames && /^[a-z0-9]+(?:-[a-z0-9]+)*$/.test(name)

/** Returns true for a directory name that a skill or a category may have. */
export const isDirectoryName = (name: string): boolean =>
  /^[A-Za-z0-9][\w.-]{0,63}$/.test(name) && name !== "node_modules"

const toSingleLine = (value: unknown): string =>
  typeof value === "string" || typeof value === "number"
    ? TextHygiene.withoutControls(String(value)).replaceAll(/\s+/g, " ").trim()
    : ""

/** Reads names from a list, or from words in one text. */
const readNames = (value: unknown): ReadonlyArray<string> => {
  const items: ReadonlyArray<unknown> = Array.isArray(value)
    ? value
    : typeof value === "string"
      ? value.split(/[,\s]+/)
      : []
  return items
    .map((item) => toSingleLine(Json.isFields(item) ? item["name"] : item))
    .filter((name) => name !== "")
    .slice(0, maxNames)
}

const readMember = (value: unknown, key: string): unknown => Json.readFields(value)[key]

const readFacts = (read: unknown): Facts => {
  const own = readMember(readMember(read, "metadata"), "hermes")
  const collectNames = (key: string): ReadonlyArray<string> =>
    Array.from(
      new Set([read, readMember(read, "conditions"), own].flatMap((place) => readNames(readMember(place, key))))
    )
  const license = toSingleLine(readMember(read, "license"))
  const compatibility = toSingleLine(readMember(read, "compatibility"))
  return {
    name: toSingleLine(readMember(read, "name")),
    description: toSingleLine(readMember(read, "description")),
    platforms: collectNames("platforms").map((name) => name.toLowerCase()),
    conditions: {
      requiresTools: collectNames("requires_tools"),
      requiresToolsets: collectNames("requires_toolsets"),
      fallbackForTools: collectNames("fallback_for_tools"),
      fallbackForToolsets: collectNames("fallback_for_toolsets")
    },
    variables: Array.from(
      new Set([
        ...collectNames("required_environment_variables"),
        ...readNames(readMember(readMember(read, "prerequisites"), "env_vars"))
      ])
    ),
    ...(license === "" ? {} : { license }),
    ...(compatibility === "" ? {} : { compatibility })
  }
}

/** Parses the text of a `SKILL.md`. The failure describes the mistake and its correction. */
export const parse = (yaml: Yaml, given: string): Result.Result<SkillFile, string> => {
  if (given.includes("\0")) return Result.fail("it is not text")
  const text = given.replace(/^\ufeff/, "").replaceAll("\r\n", "\n")
  if (!text.startsWith("---\n"))
    return Result.fail("it does not begin with frontmatter: put name and description between two lines of ---")
  const end = text.slice(0, maxFrontmatter).search(/\n---[ \t]*(?:\n|$)/)
  if (end === -1)
    return Result.fail(
      `its frontmatter has no end in the first ${maxFrontmatter} characters: put --- on a line of its own behind it`
    )
  const read = yaml.parse(text.slice(4, end + 1))
  if (Result.isFailure(read)) return Result.fail(`its frontmatter cannot be read: ${read.failure}`)
  if (!Json.isFields(read.success))
    return Result.fail('its frontmatter is not a mapping: write "name: …" and "description: …"')
  const facts = readFacts(read.success)
  if (facts.description === "")
    return Result.fail("its frontmatter has no description: say what the skill does and when to use it")
  return Result.succeed({
    facts,
    body: text
      .slice(end)
      .replace(/^\n---[ \t]*\n?/, "")
      .trim()
  })
}

/** Lists deviations of a readable skill from the open format, and problems that prevent its intended use. */
export const listRemarks = ({ body, facts }: SkillFile, directory: string): ReadonlyArray<string> => [
  ...(facts.name === "" ? ["it has no name in its frontmatter"] : []),
  ...(facts.name !== "" && !isName(facts.name)
    ? [`its name "${facts.name}" is not of lower-case letters, digits and single hyphens`]
    : []),
  ...(facts.name !== "" && facts.name !== directory ? [`its name "${facts.name}" is not that of its directory`] : []),
  ...(facts.description.length > maxDescription ? [`its description has more than ${maxDescription} characters`] : []),
  ...((facts.compatibility ?? "").length > maxCompatibility
    ? [`its compatibility has more than ${maxCompatibility} characters`]
    : []),
  ...(body === "" ? ["it has no text behind the frontmatter"] : [])
]

/**
 * Returns the names of injection patterns in a file's text: attempts to command the model against its user. A file with
 * a match is not used. Hidden elements count only in Markdown: web pages have legitimate uses for them.
 */
export const findRefusals = (text: string, file = fileName): ReadonlyArray<string> =>
  Injection.scan(text, "skill").flatMap(({ id }) =>
    id === "hidden_element" && !/\.(?:md|markdown|mdx|txt)$/i.test(file) ? [] : [id]
  )

/**
 * Returns text hidden in the characters of a file. It is shown only to the user, because a model would read it as an
 * instruction.
 */
export const readHiddenText = (text: string): string | undefined =>
  Injection.scan(text, "skill").find(({ hidden }) => hidden !== undefined)?.hidden

const suspicious: ReadonlyArray<readonly [id: string, pattern: RegExp]> = [
  ["runs what it downloads", /\b(?:curl|wget)\b[^\n|]{0,400}\|\s{0,4}(?:sudo\s{1,4})?(?:ba|z|da)?sh\b/i],
  ["sends a secret", /\b(?:curl|wget|nc)\b[^\n]{0,400}?\$\{?\w{0,40}(?:KEY|TOKEN|SECRET|PASSWORD|CREDENTIAL)/i],
  ["reads credentials", /(?:\.aws\/credentials|\.ssh\/id_|\.netrc|\.pgpass|\/etc\/shadow|\.hermes\/\.env|\/\.env\b)/i],
  ["lets others in", /authorized_keys|\/dev\/tcp\/|\bnc\b[^\n]{0,80}\s-e\b/i],
  [
    "deletes whole directories",
    /\brm\s{1,4}-\w{0,6}[rf]\w{0,6}\s{1,4}(?:-\w{1,8}\s{1,4}){0,3}["']?(?:\/|~|\$\{?HOME)/i
  ],
  [
    "runs a decoded text",
    /base64\s{1,4}(?:-d|--decode|-D)\b[^\n]{0,80}\|\s{0,4}(?:ba|z|da)?sh\b|\beval\s{0,4}\(\s{0,4}(?:atob|base64)/i
  ],
  ["stays on the machine", /\bcrontab\s{1,4}-|\/etc\/cron|\bsystemctl\s{1,4}enable\b|LaunchAgents/i],
  ["hides text from readers", /<!--[^>]{0,400}?\b(?:override|system|secret|hidden)\b[^>]{0,400}?-->/i],
  ["asks for root", /\bsudo\s{1,4}\S/i]
]

/** Returns the names of commands in a file that should be reviewed before it is used. */
export const findWarnings = (text: string): ReadonlyArray<string> =>
  suspicious.flatMap(([id, pattern]) => (pattern.test(text) ? [id] : []))
