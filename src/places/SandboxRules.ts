/**
 * Rules of a sandbox: an ordered list of paths, each with the access that the sandbox's processes have. Pure.
 *
 * **Details**
 *
 * The rule with the longest matching path applies; of two rules for the same path, the stricter one. A path without a
 * rule may be read. The list defines both the mounts of the sandbox, in their order, and the checks of the file tools.
 *
 * Source: `ARCHITECTURE.md` §7 ("walls").
 */
import * as Arr from "effect/Array"
import * as Order from "effect/Order"
import type { WallKind } from "./SandboxWall.ts"

/** Rule for a path and all files below it. */
export interface Rule {
  /** Absolute real path, without symbolic links. */
  readonly path: string
  readonly allows: "write" | "read" | "nothing"
  /** Directory of the host that is visible at `path`. Defaults to `path`. */
  readonly source?: string | undefined
  /** True for a rule that applies to a single file. */
  readonly isFile?: boolean | undefined
  /**
   * True for a missing path that must stay missing. It cannot be mounted, so a file that a command creates there is
   * removed with the command.
   */
  readonly isAbsent?: boolean | undefined
  /**
   * Reason of a read-only rule: `later` for files that other programs run later, which file tools write only after
   * asking the user; `program` for the running program.
   */
  readonly keeps?: "later" | "program" | undefined
}

const strictness: Readonly<Record<Rule["allows"], number>> = { write: 0, read: 1, nothing: 2 }

const countDepth = (path: string): number => (path === "/" ? 0 : path.split("/").length - 1)

const sorted = Arr.sortBy(
  Order.mapInput(Order.Number, ({ path }: Rule) => countDepth(path)),
  Order.mapInput(Order.Number, ({ allows }: Rule) => strictness[allows])
)

/**
 * Finds the directories between a protected path and the writable directory that contains it. Each is mounted, because
 * a mount point cannot be renamed.
 */
const findAnchors = (rules: ReadonlyArray<Rule>): ReadonlyArray<Rule> =>
  rules.flatMap(({ allows, path }) => {
    if (allows === "write") return []
    const above = rules.findLast((rule) => rule.path !== path && isWithin(path, rule.path))
    // A path with another source on the host has a separate mount, regardless of renames.
    if (above?.allows !== "write" || above.source !== undefined) return []
    const between = path
      .slice(above.path.length + 1)
      .split("/")
      .slice(0, -1)
    return between.map((_, index): Rule => {
      const below = `/${between.slice(0, index + 1).join("/")}`
      return { path: above.path + below, allows: "write" }
    })
  })

/** Sorts rules in the order in which they apply: a later rule takes precedence. */
export const sortRules = (rules: ReadonlyArray<Rule>): ReadonlyArray<Rule> => {
  const list = sorted(rules)
  const added = new Map(findAnchors(list).map((rule) => [rule.path, rule]))
  return sorted([...list, ...added.values()])
}

/** Returns true if `path` is `root` or below it. */
export const isWithin = (path: string, root: string): boolean =>
  root === "/" || path === root || path.startsWith(`${root}/`)

/** Returns the rule for a path, or `undefined` if no rule applies and the path may be read. */
export const findRule = (rules: ReadonlyArray<Rule>, path: string): Rule | undefined =>
  rules.findLast((rule) => isWithin(path, rule.path))

/** Converts a path in the sandbox to a path on the host. */
export const toHostPath = (rules: ReadonlyArray<Rule>, path: string): string => {
  const rule = findRule(rules, path)
  return rule?.source === undefined ? path : rule.source + path.slice(rule.path.length)
}

/** Converts a path on the host to a path in the sandbox. */
export const toSandboxPath = (rules: ReadonlyArray<Rule>, path: string): string => {
  const rule = rules.findLast(({ source }) => source !== undefined && isWithin(path, source))
  return rule?.source === undefined ? path : rule.path + path.slice(rule.source.length)
}

/** Returns the name of the temporary directory, for people and models. */
export const describeTemporary = ({ paths }: WallKind): string => (paths === "mounted" ? "/tmp" : "$TMPDIR")

/**
 * Describes a sandbox for the model that works in it. `temporary` is the name of the temporary directory in its
 * commands.
 */
export const renderDescription = (
  policy: "read-only" | "workspace-write",
  network: "none" | "hosts" | "all",
  temporary: string
): string =>
  `Commands and file tools work in a sandbox: ${
    policy === "read-only"
      ? `nothing but ${temporary} can be written`
      : `only the working tree and ${temporary} can be written`
  }, credentials cannot be read${
    {
      none: ", and commands reach each other by the network but nothing else",
      hosts: ", and hosts are reached through an HTTP proxy, each with the consent of the user",
      all: ""
    }[network]
  }. Do not work around it: tell the user what needs more.`
