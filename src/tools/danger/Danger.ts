/**
 * Judges shell commands before they run. Finds data that they would destroy or send away, programs that they would run,
 * settings that they would change, and commands that never run.
 *
 * **Details**
 *
 * A command is read as a shell would read it (quotes, ANSI-C quotes, braces, variables that the line itself sets,
 * `$IFS`, substitutions whose output is known, here-documents, `sudo`, `env`, `xargs`, `sh -c`, `eval`, decoded
 * pipelines), and read again with lookalike characters replaced. Rules check commands and never plain text, so that
 * prose that mentions a command (`git commit -m "rm -rf /"`) is not reported.
 *
 * The **floor** cannot be overridden by any flag, mode or approval: deletion of the root, a system directory or a home
 * directory, file systems and raw disks, fork bombs, killing every process, shutting down, and unreadable commands,
 * whose quoting does not parse or whose nesting or expansion exceeds any ordinary command.
 *
 * Pure, never throws, and takes time linear in the text.
 *
 * **Gotchas**
 *
 * This is defense in depth and not a security boundary: a script file, a binary or a value known only at run time can
 * have any effect.
 *
 * Source: `hermes-llm.md` §19.7, `hermes-product.md` §1.10.
 */
import { makeFinding, type Command, type Family, type Finding, makeFloorFinding, type Rule } from "./Command.ts"
import * as Reading from "./Reading.ts"
import * as ScriptInterpreter from "./ScriptInterpreter.ts"
import * as Explanations from "./rules/Explanations.ts"
import * as FloorRules from "./rules/FloorRules.ts"
import * as LossRules from "./rules/LossRules.ts"

// Removes disguises from a command without parsing the shell syntax: terminal escape sequences, invisible and
// compatibility characters, and letters of other scripts that resemble Latin letters.
//
// Source: `hermes-llm.md` §19.7 (normalisation before matching).

/** CSI and OSC sequences, and single escapes. */
const terminal = new RegExp(
  [
    String.raw`\u001b\[[0-?]*[ -/]*[@-~]`,
    String.raw`\u001b\][^\u0007\u001b]*(?:\u0007|\u001b\\)?`,
    String.raw`\u001b[@-Z\\-_]`
  ].join("|"),
  "g"
)
const control = new RegExp(String.raw`[\u0000-\u0008\u000b\u000c\u000e-\u001f\u007f-\u009f]`, "g")
const invisible = /[\p{Cf}\p{Default_Ignorable_Code_Point}\p{Variation_Selector}\u{115f}\u{1160}\u{3164}\u{ffa0}]/gu
const dash = /[\u2010-\u2015\u2212\ufe58\ufe63\uff0d]/g
const blank = /[\u00a0\u1680\u2000-\u200a\u2028\u2029\u202f\u205f\u3000]/g

/** Cyrillic and Greek letters, each with the Latin letter that it resembles. */
const lookalikes = new Map(
  Array.from(
    "аaеeоoрpсcуyхxіiјjѕsԁdһhԛqԝwкkмmтtвbнhгrАAВBЕEКKМMНHОOРPСCТTХXαaεeιiκkνvοoρpτtυuχxωwɡgɩiıiⅼl∕/⁄/".matchAll(
      /(.)(.)/gu
    )
  ).map(([, foreign = "", latin = ""]) => [foreign, latin] as const)
)
const lookalike = new RegExp(`[${Array.from(lookalikes.keys()).join("")}]`, "gu")

const plain = /^[\t\n\r -~]*$/

/** Normalizes a command to its visible form; returns plain ASCII text unchanged. */
const removeDisguise = (text: string): string =>
  plain.test(text)
    ? text
    : text
        .replace(terminal, "")
        .replace(control, "")
        .replace(blank, " ")
        .normalize("NFKC")
        .replace(invisible, "")
        .replace(dash, "-")
        .replace(lookalike, (char) => lookalikes.get(char) ?? char)

/** Characters that change the direction of text or are invisible, and that no language needs in a command. */
const deceptive = /[\u202a-\u202e\u2066-\u2069\u{e0001}-\u{e007f}]/u

/** Findings in a command. */
export interface Verdict {
  /** Finding that makes the command one that never runs, if any. */
  readonly floor: Finding | undefined
  /** All findings, each key once, including the floor. */
  readonly findings: ReadonlyArray<Finding>
  /** The commands that would run, each as its words; used to match globs. */
  readonly commands: ReadonlyArray<string>
  /** True if nothing was found and all commands are known to be read-only. */
  readonly onlyReads: boolean
}

/**
 * Maximum number of characters of a command. A longer command is not judged and does not run, because Linux accepts no
 * longer argument for `sh -c`.
 */
export const maxLength = 131_072

/**
 * Kinds of danger that a sandbox does not prevent: dangers to the working tree and its repository, and to remote
 * systems that a command may reach.
 */
const inside: ReadonlySet<Family> = new Set([
  "file destruction",
  "history rewriting",
  "publication",
  "database",
  "container",
  "unreadable"
])

const unknown: Finding = makeFinding("unknown", "command that is not known to only read")

/**
 * Environment of a command: a sandbox, a sandbox with full network access, or no sandbox with this rule for commands
 * that are not known to be read-only.
 */
export type Surroundings = "confined" | "connected" | "ask" | "allow"

/** Selects the findings to ask a user about; in a sandbox, only the findings that the sandbox does not prevent. */
export const selectAskedFindings = (
  { findings, onlyReads }: Verdict,
  surroundings: Surroundings
): ReadonlyArray<Finding> => {
  if (surroundings === "confined") return findings.filter(({ family }) => inside.has(family))
  if (surroundings === "connected")
    return findings.filter(({ family }) => inside.has(family) || family === "remote code")
  return findings.length > 0 || onlyReads || surroundings === "allow" ? findings : [unknown]
}

const rules: ReadonlyArray<Rule> = [...FloorRules.rules, ...LossRules.rules, ...Explanations.rules]

/** Finds the dangers of parsed commands. */
export const findDangers = (commands: ReadonlyArray<Command>): ReadonlyArray<Finding> => [
  ...commands.flatMap((command) => rules.flatMap((rule) => rule(command) ?? [])),
  ...[Explanations.findRunDownload(commands) ?? []].flat()
]

const makeUnreadableFinding = (why: string): Finding =>
  makeFloorFinding("unreadable", `command that cannot be read: ${why}`)

const buildVerdict = (line: string, findings: ReadonlyArray<Finding>, commands: ReadonlyArray<Command>): Verdict => {
  const unique = new Map<string, Finding>()
  for (const finding of findings) {
    if (!unique.has(finding.key) || finding.gravity === "floor") unique.set(finding.key, finding)
  }
  const all = Array.from(unique.values())
  return {
    floor: all.find(({ gravity }) => gravity === "floor"),
    findings: all,
    commands: commands.flatMap(({ args, program }) =>
      program === "" && args.length === 0 ? [] : [[program, ...args].join(" ")]
    ),
    onlyReads: all.length === 0 && Reading.isOnlyReading(line, commands)
  }
}

/** Judges the text of a shell command. */
export const judge = (command: string): Verdict => {
  if (command.length > maxLength) return buildVerdict(command, [makeUnreadableFinding("it is too long")], [])
  const { commands, fault } = ScriptInterpreter.read(command)
  const found = [...findDangers(commands)]
  if (fault !== undefined) found.push(makeUnreadableFinding(fault))
  const plain = removeDisguise(command)
  if (plain !== command) for (const finding of findDangers(ScriptInterpreter.read(plain).commands)) found.push(finding)
  if (deceptive.test(command)) found.push(makeFinding("encoded payload", "characters that hide or reorder text"))
  return buildVerdict(command, found, commands)
}
