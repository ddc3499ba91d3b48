/** Reads the rules of `permissions` from the settings of a program and from the files of projects. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as ConfigFile from "../../base/config/ConfigFile.ts"
import { readText } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import type { PlacedRule, RuleSet } from "./PermissionJudgement.ts"
import * as PermissionRule from "./PermissionRule.ts"

/** No rule. */
export const empty: RuleSet = { rules: [], problems: [] }

/** Parses the rules of a section, with messages about rules that cannot be parsed. */
export const readSection = Effect.fnUntraced(function* (
  section: Readonly<Record<string, unknown>>,
  { file, folder }: { readonly file: ConfigFile.ConfigFile; readonly folder: string | undefined }
): Effect.fn.Return<RuleSet> {
  const rules: Array<PlacedRule> = []
  const problems: Array<string> = []
  const text = yield* file.text
  const findLine = text === "" ? undefined : (yield* Yaml.load).findLine
  for (const list of ["deny", "ask", "allow"] as const) {
    const given = section[list] ?? []
    const entries: ReadonlyArray<unknown> = Array.isArray(given) ? given : [given]
    for (const [index, entry] of entries.entries()) {
      const path = ["permissions", list, ...(Array.isArray(given) ? [index] : [])]
      const source = findLine === undefined ? file.name : `${file.name} line ${findLine(text, path)}`
      const parsed = typeof entry === "string" && Array.isArray(given) ? PermissionRule.parse(entry, list) : undefined
      if (parsed?._tag === "Success") {
        rules.push({ ...parsed.success, list, source, folder })
        continue
      }
      const shown = JSON.stringify(entry)
      const why = parsed === undefined ? `expected a list of rules: ${PermissionRule.forms}` : parsed.failure
      const effect =
        list === "allow"
          ? "It allows nothing"
          : "Until it is corrected, every call that is not known to only read is " +
            `${list === "deny" ? "refused" : "asked about"}`
      problems.push((yield* ConfigFile.makeError(file, path, `${shown} is not a rule: ${why}. ${effect}.`)).message)
      if (list !== "allow")
        rules.push({ text: shown, tool: "*", pattern: { _tag: "Any" }, list, source, folder, problem: why })
    }
  }
  return { rules, problems }
})

/** Joins sets of rules in the given order. */
export const mergeRuleSets = (sets: ReadonlyArray<RuleSet>): RuleSet => ({
  rules: sets.flatMap(({ rules }) => rules),
  problems: sets.flatMap(({ problems }) => problems)
})

/** Returns a set that denies every call that is not known to be read-only, because a file cannot be read. */
const makeUnreadableSet = (name: string, folder: string, why: string): RuleSet => ({
  rules: [{ text: name, tool: "*", pattern: { _tag: "Any" }, list: "deny", source: name, folder, problem: why }],
  problems: [`${why}. Until it is corrected, every call that is not known to only read is refused.`]
})

/** Makes the reader of the rules in the file of a project. `config` is the user's file, which is not a project's. */
export const makeFolderReader = Effect.fnUntraced(function* (config: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const trust = yield* FolderTrust.FolderTrust

  return Effect.fnUntraced(function* (folder: string): Effect.fn.Return<RuleSet> {
    const name = paths.join(folder, ".hermes", "config.yaml")
    if (name === config) return empty
    const text = yield* Effect.result(Effect.provideService(readText(name), FileSystem.FileSystem, fs))
    if (text._tag === "Failure")
      return makeUnreadableSet(name, folder, `${name} cannot be read: ${text.failure.message}`)
    if (Option.isNone(text.success)) return empty
    const content = text.success.value
    const tree = yield* Effect.result(Yaml.read(content, name))
    if (tree._tag === "Failure") return makeUnreadableSet(name, folder, tree.failure.message)
    const value: unknown = tree.success ?? {}
    if (typeof value !== "object" || value === null || Array.isArray(value))
      return makeUnreadableSet(name, folder, `${name}: expected a mapping with "permissions"`)
    const others = Object.keys(value).filter((key) => key !== "permissions")
    const section: unknown = Reflect.get(value, "permissions") ?? {}
    if (typeof section !== "object" || section === null || Array.isArray(section))
      return makeUnreadableSet(name, folder, `${name}: permissions: expected the lists deny, ask and allow`)
    const unknown = Object.keys(section).filter((key) => !["deny", "ask", "allow"].includes(key))
    if (unknown.length > 0)
      return makeUnreadableSet(
        name,
        folder,
        `${name}: permissions has the lists deny, ask and allow, and no "${unknown[0]}"`
      )
    const found = yield* readSection({ ...section }, { file: { name, folder, text: Effect.succeed(content) }, folder })
    const ignored =
      others.length === 0
        ? []
        : [`${name}: only "permissions" has an effect in the file of a project; ignored: ${others.join(", ")}`]
    const isTrusted = found.rules.every(({ list }) => list !== "allow") || (yield* trust.isTrusted(folder))
    if (isTrusted) return { rules: found.rules, problems: [...found.problems, ...ignored] }
    const remedy =
      `${name}: what it allows has no effect, because its folder is not trusted. Look at it, then run ` +
      `\`${FolderTrust.renderRemedy(yield* trust.findOwnProject(folder))}\``
    return {
      rules: found.rules.filter(({ list }) => list !== "allow"),
      problems: [...found.problems, ...ignored, remedy]
    }
  })
})
