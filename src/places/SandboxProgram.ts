/**
 * Rules that protect the running program: code that a command writes to the program's files would run outside of every
 * sandbox at the next start of the program.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import { sortRules, type Rule, findRule, isWithin } from "./SandboxRules.ts"
import { findRuleAt } from "./WorkingTree.ts"

/**
 * Returns rules for the files of the program that other rules make writable. No rule is returned for a file if
 * `writable` contains the file, its directory, or a path below it.
 */
export const findRules = Effect.fnUntraced(function* (
  files: ReadonlyArray<string>,
  rules: ReadonlyArray<Rule>,
  writable: ReadonlyArray<string>
): Effect.fn.Return<ReadonlyArray<Rule>, PlatformError, FileSystem.FileSystem | Path.Path> {
  const path = yield* Path.Path
  const sorted = sortRules(rules)
  const isNamed = (file: string) => writable.some((named) => named === path.dirname(file) || named === file)
  const isWritten = (file: string) => {
    const rule = findRule(sorted, file)
    return rule?.allows === "write" && rule.source === undefined
  }
  const kept = files.filter((file) => isWritten(file) && !isNamed(file))
  const found = yield* Effect.forEach(kept, (file) => findRuleAt("read", file))
  // The tree is inside the program. Packages, and files that tools place next to them, do not belong to the program.
  const parts = files.filter((file) => path.basename(file) !== "node_modules" && !isNamed(file))
  const inside = rules.filter(
    (rule) =>
      rule.allows === "write" &&
      rule.source === undefined &&
      !isNamed(rule.path) &&
      parts.some((file) => file !== rule.path && isWithin(rule.path, file))
  )
  const all = [...found.flat(), ...inside.map(({ isFile, path }): Rule => ({ path, isFile, allows: "read" }))]
  return all.map((rule): Rule => ({ ...rule, keeps: "program" }))
})

/** Remedy for a command or a file tool that tried to change the program. */
export const remedy =
  "hermes itself is loaded from there: only terminal.sandbox.write lets it be changed, where it names that directory"

/**
 * Describes the protected files of the program, for a command that the sandbox stopped. Returns `undefined` if there
 * are no such files. Pure.
 */
export const describeKept = (rules: ReadonlyArray<Rule>): string | undefined => {
  const kept = rules.filter(({ keeps }) => keeps === "program").map(({ path }) => path)
  const [first] = kept
  if (first === undefined) return undefined
  const further = kept.length === 1 ? "" : ` and ${kept.length - 1} more places`
  return `${first}${further} cannot be written, because ${remedy}`
}
