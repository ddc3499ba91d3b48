/**
 * Rules of a sandbox: an ordered list of paths with the access that its processes have. Pure.
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

/** Rule for a path and everything below it. */
export interface Rule {
  /** Absolute and real: without symbolic links. */
  readonly path: string
  readonly allows: "write" | "read" | "nothing"
  /** Directory of the host that is visible at `path`; `path` itself when absent. */
  readonly source?: string | undefined
  /** True for one file. */
  readonly isFile?: boolean | undefined
  /**
   * True for a missing path that must stay missing. It cannot be mounted, so a file that a command creates there is
   * removed with the command.
   */
  readonly isAbsent?: boolean | undefined
  /**
   * Reason of a rule to read: `later` for files from which something runs later, which file tools write with a
   * question; `program` for the running program.
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
 * Directories between a protected path and the writable one that contains it: each is mounted, because a mount cannot
 * be renamed.
 */
const findAnchors = (rules: ReadonlyArray<Rule>): ReadonlyArray<Rule> =>
  rules.flatMap(({ allows, path }) => {
    if (allows === "write") return []
    const above = rules.findLast((rule) => rule.path !== path && isWithin(path, rule.path))
    // A path with another source on the host is mounted anew, regardless of renames.
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

/** The rules in the order in which they apply: a later one wins. */
export const sortRules = (rules: ReadonlyArray<Rule>): ReadonlyArray<Rule> => {
  const list = sorted(rules)
  const added = new Map(findAnchors(list).map((rule) => [rule.path, rule]))
  return sorted([...list, ...added.values()])
}

/** True when `path` is `root` or below it. */
export const isWithin = (path: string, root: string): boolean =>
  root === "/" || path === root || path.startsWith(`${root}/`)

/** Returns the rule for a path; `undefined` if no rule applies, and the path may be read. */
export const findRule = (rules: ReadonlyArray<Rule>, path: string): Rule | undefined =>
  rules.findLast((rule) => isWithin(path, rule.path))

/** Path on the host of a path in the sandbox. */
export const toHostPath = (rules: ReadonlyArray<Rule>, path: string): string => {
  const rule = findRule(rules, path)
  return rule?.source === undefined ? path : rule.source + path.slice(rule.path.length)
}

/** Path in the sandbox of a path on the host. */
export const toSandboxPath = (rules: ReadonlyArray<Rule>, path: string): string => {
  const rule = rules.findLast(({ source }) => source !== undefined && isWithin(path, source))
  return rule?.source === undefined ? path : rule.path + path.slice(rule.source.length)
}

/**
 * Description of a sandbox for the model that works in it; `temporary` is how its commands name the directory of
 * temporary files.
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
