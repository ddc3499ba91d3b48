/**
 * Rules of `permissions`: `terminal(npm test:*)`, `write_file(src/**)`, `web(example.com)`,
 * `mcp__github__create_issue`. Contains the parser, and the match of one rule with one command, path, host or tool.
 *
 * **Details**
 *
 * | rule | matches |
 * | --- | --- |
 * | `terminal(npm test)` | this command with these words and no more |
 * | `terminal(npm test:*)`, `terminal(npm test *)` | commands that begin with these words |
 * | `read_file(src/**)` | files that `read_file` and `search_files` look at |
 * | `write_file(/srv/site/*)` | files that `write_file` and `patch` change; `patch(…)` is that tool alone |
 * | `web(example.com)`, `web(*.example.com)`, `web(localhost:8080)` | hosts, their subdomains, one port |
 * | `mcp__github`, `mcp__github__*`, `mcp__github__search` | tools of a server, one of them |
 * | `execute_code` | every call of the tool; `*` is every tool, in `ask` and `deny` |
 *
 * A path is absolute, below `~`, or below the project folder. `*` and `?` match within a name, `**` matches any number
 * of folders. In `ask` and `deny` rules, flags between the words do not matter (`git -C lib push` is `git push`), and a
 * word that is known only at run time matches any word. In `allow` rules, a command must be written out: by the same
 * name, without redirections to files and without variables.
 *
 * Pure, never throws.
 *
 * **Example** (Parsing a rule)
 *
 * ```ts
 * import * as Result from "effect/Result"
 * import { PermissionRule } from "hermes-effect/approvals"
 *
 * const rule = PermissionRule.parse("terminal(npm test:*)", "allow")
 *
 * console.log(Result.isSuccess(rule) ? rule.success.tool : rule.failure)
 * // => terminal
 * ```
 *
 * Source: `ARCHITECTURE.md` §7 (approvals).
 */
import * as Result from "effect/Result"
import { type Command, toProgramName, listRedirectTargets } from "../danger/Command.ts"

/** Lists of rules. A `deny` rule takes precedence over an `ask` rule, and an `ask` rule over an `allow` rule. */
export type List = "deny" | "ask" | "allow"

/** The calls of a tool that a rule matches. */
export type Pattern =
  | { readonly _tag: "Any" }
  | { readonly _tag: "Command"; readonly words: ReadonlyArray<string>; readonly isPrefix: boolean }
  | { readonly _tag: "Path"; readonly glob: string }
  | { readonly _tag: "Host"; readonly host: string; readonly port: string | undefined; readonly isBelow: boolean }

/** A rule: a tool, and the pattern of its calls. */
export interface Rule {
  /** The text as written in the file. */
  readonly text: string
  readonly tool: string
  readonly pattern: Pattern
}

/** Forms of a rule, for error messages. */
export const forms =
  "TOOL, terminal(COMMAND), terminal(WORDS:*), read_file(PATH), write_file(PATH), web(HOST) or mcp__SERVER__TOOL"

/** Names of the same tools in other agents. */
const foreign: Readonly<Record<string, string>> = {
  Bash: "terminal",
  Shell: "terminal",
  Read: "read_file",
  Glob: "search_files",
  Grep: "search_files",
  Edit: "write_file",
  MultiEdit: "write_file",
  Write: "write_file",
  WebFetch: "web",
  WebSearch: "web_search",
  bash: "terminal",
  shell: "terminal"
}

const pathTools: ReadonlySet<string> = new Set(["read_file", "search_files", "write_file", "patch"])
const toolName = /^[A-Za-z_][\w.-]{0,127}$/
const serverTools = /^mcp__[\w.-]{1,127}__\*$/
const hostName = /^(\*\.)?([a-z0-9](?:[a-z0-9.-]{0,251}[a-z0-9])?|\[[0-9a-f:.]+\])(?::(\d{1,5}))?$/
const longest = 1_000

const failRule = (why: string): Result.Result<never, string> => Result.fail(`${why}; expected ${forms}`)

const parseCommandPattern = (given: string): Result.Result<Pattern, string> => {
  if (given === "*" || given === ":*") return Result.succeed({ _tag: "Any" })
  const isPrefix = /(?::| )\*$/.test(given)
  const words = (isPrefix ? given.slice(0, -2) : given).trim().split(/ +/)
  if (words[0] === "" || words[0] === undefined) return failRule("it names no command")
  if (words.some((word) => word.includes("*"))) return failRule("a * stands only at the end of a command, as :*")
  if (/["'`$;&|<>\\\n]/.test(given))
    return failRule("it holds a character of the shell, and one rule stands for one command in plain words")
  return Result.succeed({ _tag: "Command", words, isPrefix })
}

const parsePathPattern = (given: string): Result.Result<Pattern, string> =>
  /[[\]{}\n]/.test(given) ? failRule("a path knows *, ** and ? only") : Result.succeed({ _tag: "Path", glob: given })

const parseHostPattern = (given: string): Result.Result<Pattern, string> => {
  const [, below, host, port] = hostName.exec(given.toLowerCase()) ?? []
  return host === undefined
    ? failRule("it names no host (example.com, *.example.com, example.com:8080)")
    : Result.succeed({ _tag: "Host", host, port, isBelow: below !== undefined })
}

const parsePattern = (tool: string, given: string): Result.Result<Pattern, string> => {
  if (tool === "terminal") return parseCommandPattern(given)
  if (pathTools.has(tool)) return parsePathPattern(given)
  return tool === "web" ? parseHostPattern(given) : failRule(`${tool} takes no pattern`)
}

/** Parses a rule of a list. The failure states the error and the expected form. */
export const parse = (given: string, list: List): Result.Result<Rule, string> => {
  const text = given.trim()
  if (text.length > longest) return failRule(`it has more than ${longest} characters`)
  if (text === "*")
    return list === "allow"
      ? failRule("* allows every tool, which is the mode yolo")
      : Result.succeed({ text, tool: "*", pattern: { _tag: "Any" } })
  const [, tool = "", inside] = /^([^()\s]+)(?:\((.*)\))?$/s.exec(text) ?? []
  const meant = Object.hasOwn(foreign, tool) ? foreign[tool] : undefined
  if (meant !== undefined) return failRule(`${tool} is called ${meant} here`)
  const [begun = ""] = /^[^()\s]+(?=\()/.exec(text) ?? []
  if (tool === "" && toolName.test(begun))
    return failRule(text.includes(")") ? "it has text behind its brackets" : "its bracket is not closed")
  if (/^[\w.-]+\s+\(/.test(text)) return failRule("it has a space before its bracket")
  if (!toolName.test(tool) && !serverTools.test(tool)) return failRule("it does not begin with the name of a tool")
  if (inside === undefined) return Result.succeed({ text, tool, pattern: { _tag: "Any" } })
  if (inside.trim() === "") return failRule("nothing stands between its brackets")
  return Result.map(parsePattern(tool, inside.trim()), (pattern) => ({ text, tool, pattern }))
}

/**
 * Returns true if a rule applies to calls of this tool: the rule names the tool, its server, or a tool with the same
 * effect on files.
 */
export const isAboutTool = ({ tool }: Rule, called: string): boolean => {
  if (tool === "*" || tool === called) return true
  if (tool === "write_file") return called === "patch"
  if (tool === "read_file") return called === "search_files"
  if (tool === "web") return called === "web_extract" || called === "web_search"
  if (!tool.startsWith("mcp__")) return false
  const server = tool.endsWith("__*")
    ? tool.slice(0, -1)
    : tool.slice("mcp__".length).includes("__")
      ? undefined
      : `${tool}__`
  return server !== undefined && called.startsWith(server)
}

/** Returns an absolute path without `.`, `..` and double slashes. */
export const normalizePath = (path: string): string => {
  const parts: Array<string> = []
  for (const part of path.split("/")) {
    if (part === "..") parts.pop()
    else if (part !== "" && part !== ".") parts.push(part)
  }
  return `/${parts.join("/")}`
}

/** Absolute directories against which the path of a rule is resolved. */
export interface PathBase {
  /** Directory for relative paths. */
  readonly folder: string
  /** Value of `~`. */
  readonly home: string | undefined
}

/** Returns the absolute form of a path; `undefined` if the path is below an unknown directory. */
export const toAbsolutePath = (given: string, { folder, home }: PathBase): string | undefined => {
  if (given === "~" || given.startsWith("~/"))
    return home === undefined ? undefined : normalizePath(`${home}/${given.slice(2)}`)
  return normalizePath(given.startsWith("/") ? given : `${folder}/${given}`)
}

const toNamePattern = (glob: string): RegExp =>
  new RegExp(
    `^${glob
      .replaceAll(/[.+^${}()|[\]\\]/g, String.raw`\$&`)
      .replaceAll(/\*+/g, "[^/]*")
      .replaceAll("?", "[^/]")}$`,
    "u"
  )

/** Returns true if an absolute path matches the glob. */
export const isPathMatch = (glob: string, base: PathBase, path: string): boolean => {
  const pattern = toAbsolutePath(glob, base)
  if (pattern === undefined) return false
  const names = pattern.split("/").slice(1)
  const parts = normalizePath(path).split("/").slice(1)
  /** Positions in the path at which the next name of the glob may match. */
  let places: ReadonlySet<number> = new Set([0])
  for (const name of names) {
    const next = new Set<number>()
    const isAny = name === "**"
    const test = isAny ? undefined : toNamePattern(name)
    for (const place of places) {
      if (isAny) for (let at = place; at <= parts.length; at++) next.add(at)
      else if (place < parts.length && test?.test(parts[place] ?? "") === true) next.add(place + 1)
    }
    places = next
  }
  return places.has(parts.length)
}

/** Returns true if a host, with its port if it is not a standard port, matches the pattern. */
export const isHostMatch = (
  { host, isBelow, port }: Extract<Pattern, { readonly _tag: "Host" }>,
  list: List,
  given: string
): boolean => {
  const [, name = "", at] = /^(.*?)(?::(\d+))?$/.exec(given.toLowerCase().replace(/\.(?=:\d+$|$)/, "")) ?? []
  // A rule without a port allows only the standard ports and denies all ports.
  if (
    port === undefined
      ? list === "allow" && at !== undefined
      : port !== (at ?? port) || (at === undefined && port !== "80" && port !== "443")
  )
    return false
  return isBelow ? name.endsWith(`.${host}`) : name === host
}

/** Certainty that a command matches a pattern. */
export type Certainty = "no" | "perhaps" | "yes"

const isOpen = ({ commands, glob, text, unknown }: Command["called"]): boolean =>
  unknown || commands.length > 0 || (glob && /^[*?[]/.test(text))

/** Tests whether a `deny` or `ask` rule matches a command. */
export const matchCommand = (
  { isPrefix, words: [name = "", ...words] }: Extract<Pattern, { readonly _tag: "Command" }>,
  { called, fields, program }: Command
): Certainty => {
  if (called.text === "" && !called.unknown && called.commands.length === 0) return "no"
  const wanted = toProgramName(name)
  if (program !== wanted && toProgramName(called.text) !== wanted) return isOpen(called) ? "perhaps" : "no"
  /** Possible counts of rule words matched before the next argument; `-1` expects the value of a flag. */
  let found: ReadonlySet<number> = new Set([0])
  for (const { text } of fields) {
    const next = new Set<number>()
    for (const at of found) {
      if (at === words.length) {
        if (isPrefix) return "yes"
        continue
      }
      if (at < 0) next.add(-at - 1)
      else if (text === words[at]) next.add(at + 1)
      if (at >= 0 && isPrefix && text.startsWith("-")) next.add(at).add(-at - 1)
    }
    found = next
  }
  if (found.has(words.length)) return "yes"
  return fields.some(isOpen) ? "perhaps" : "no"
}

/** Programs that run another program without changing its effect. */
const transparent: ReadonlySet<string> = new Set(["time", "timeout", "nice", "ionice", "stdbuf", "command", "builtin"])

const isPlain = (command: Command): boolean =>
  command.assignments.length === 0 &&
  listRedirectTargets(command).every((path) => path === "/dev/null") &&
  command.redirects.every(
    ({ operator, target }) => operator.includes(">") || operator.startsWith("<<") || target.text === "/dev/null"
  )

/**
 * Returns true if a command is completely literal and a rule allows it. `wrappers` are programs that rules allow to run
 * it.
 */
export const isCommandAllowed = (
  { isPrefix, words: [name, ...words] }: Extract<Pattern, { readonly _tag: "Command" }>,
  command: Command,
  wrappers: ReadonlySet<string>
): boolean => {
  const { called, fields } = command
  if (called.text !== name || [called, ...fields].some(isOpen) || called.glob || !isPlain(command)) return false
  if (
    !command.wrappers.every(
      (wrapper) =>
        transparent.has(wrapper) || (wrappers.has(wrapper) && !/^(?:xargs|parallel|find|fd|watch)$/.test(wrapper))
    )
  )
    return false
  return (
    words.every((word, index) => fields[index]?.text === word && fields[index]?.glob !== true) &&
    (isPrefix || fields.length === words.length)
  )
}
