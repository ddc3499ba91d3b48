/** Judges one call by the rules of `permissions`. */
import * as Effect from "effect/Effect"
import type { ToolArguments } from "../../middleware/Kind.ts"
import { type Command, listRedirectTargets } from "../danger/Command.ts"
import * as Reading from "../danger/Reading.ts"
import { listSources } from "../danger/rules/Explanations.ts"
import * as ScriptInterpreter from "../danger/ScriptInterpreter.ts"
import * as PermissionRule from "./PermissionRule.ts"
import type { List } from "./PermissionRule.ts"

/** A rule and its location. */
export interface PlacedRule extends PermissionRule.Rule {
  readonly list: List
  /** The file and line of the rule. */
  readonly source: string
  /** Folder for the relative paths in the rule. The default is the working directory of a call. */
  readonly folder: string | undefined
  /** Reason why the rule cannot be parsed. Such a rule applies to every call that is not known to be read-only. */
  readonly problem?: string | undefined
}

/** Rules for the calls of one folder. */
export interface RuleSet {
  readonly rules: ReadonlyArray<PlacedRule>
  /** Messages for the user about rules that cannot be parsed and files without an effect. */
  readonly problems: ReadonlyArray<string>
}

/** Paths on the machine of a call. */
export interface CallPaths {
  /** Resolves the symbolic links of an absolute path. */
  readonly real: (path: string) => Effect.Effect<string>
  /** Value of `~`. */
  readonly home: string | undefined
}

/** A command line and its parsed commands. */
interface ReadLine {
  readonly line: string
  readonly commands: ReadonlyArray<Command>
}

/** Commands, paths and hosts that a call concerns. */
interface Subject {
  readonly tool: string
  readonly texts: ReadonlyArray<ReadLine>
  readonly commands: ReadonlyArray<Command>
  /** True if the call was understood completely, so that a rule may allow it. */
  readonly isClear: boolean
  /** Each path that the call reads, in both forms: as written, and with links resolved. */
  readonly reads: ReadonlyArray<ReadonlyArray<string>>
  readonly writes: ReadonlyArray<ReadonlyArray<string>>
  readonly hosts: ReadonlyArray<string>
  readonly cwd: string
  readonly home: string | undefined
}

/** The properties of a call that rules check. */
export interface PermissionCall {
  readonly tool: string
  readonly args: ToolArguments
  /** Command lines for a shell, and input typed into a program. */
  readonly lines: ReadonlyArray<string>
  readonly inputs: ReadonlyArray<string>
  /** Files that the call writes although its arguments do not name them. */
  readonly written: ReadonlyArray<string>
  readonly hosts: ReadonlyArray<string>
  readonly cwd: string
  /** True if the call is known to be read-only. */
  readonly onlyReads: boolean
}

/** Rules that decide about a call. */
export interface Judgement {
  readonly denied: PlacedRule | undefined
  readonly asked: PlacedRule | undefined
  /** The first rule that allows the call. */
  readonly allowed: PlacedRule | undefined
}

const isBelow = ({ fields }: Command): boolean =>
  fields.length === 1 &&
  fields.every(
    ({ commands, glob, text, unknown }) =>
      !unknown && !glob && commands.length === 0 && !/^[-/~]|^$|(?:^|\/)\.\.(?:\/|$)/.test(text)
  )

const isMove = ({ program }: Command): boolean => /^(?:cd|pushd|popd|chdir)$/.test(program)

/**
 * Variable names that are safe to assign in a line: no program reads them from its environment, in contrast to
 * `http_proxy`.
 */
const counter = /^[a-z]{1,6}$/

/** Returns true if a command does not change a variable that another program of the line may read. */
const setsCounters = ({ assignments, called, fields, program }: Command): boolean =>
  (called.text !== "" || assignments.every(([name]) => counter.test(name))) &&
  (program !== "read" || fields.every(({ text }) => text.startsWith("-") || counter.test(text)))

/** Finds the first rule that allows the commands of a line. Commands that no rule allows must be read-only. */
const findAllowing = (rules: ReadonlyArray<PlacedRule>, { commands, line }: ReadLine): PlacedRule | undefined => {
  const isComputed = Reading.computesValues(line)
  const isLooking = Reading.makeLookTest(line, commands)
  const wrappers = new Set(
    rules.flatMap(({ pattern }) => (pattern._tag === "Command" ? pattern.words.slice(0, 1) : []))
  )
  let first: PlacedRule | undefined
  for (const command of commands) {
    const rule = rules.find(
      ({ pattern }) =>
        pattern._tag === "Any" ||
        (pattern._tag === "Command" && !isComputed && PermissionRule.isCommandAllowed(pattern, command, wrappers))
    )
    const isBeside = isLooking(command) && setsCounters(command) && (!isMove(command) || isBelow(command))
    if (rule === undefined && !isBeside) return undefined
    first ??= rule
  }
  return first
}

/** Finds the rule that allows the command lines of a call. Each line must be allowed by a rule or be read-only. */
const findAllowingAll = (rules: ReadonlyArray<PlacedRule>, texts: ReadonlyArray<ReadLine>): PlacedRule | undefined => {
  const found = texts.map((text) => findAllowing(rules, text))
  const isComplete = texts.every(
    (text, index) => found[index] !== undefined || Reading.isOnlyReading(text.line, text.commands)
  )
  return isComplete ? found.find((rule) => rule !== undefined) : undefined
}

const isCommands = ({ commands, tool }: Subject): boolean => tool === "terminal" || commands.length > 0

const selectPaths = (rule: PlacedRule, { reads, writes }: Subject): ReadonlyArray<ReadonlyArray<string>> =>
  rule.tool === "read_file" || rule.tool === "search_files" ? reads : writes

/** Returns how certainly a rule of `deny` or `ask` matches a call. */
const matchRule = (rule: PlacedRule, subject: Subject, onlyReads: boolean): PermissionRule.Certainty => {
  const { commands, cwd, home, hosts, tool } = subject
  const isOfWeb = rule.tool === "web" && hosts.length > 0 && !isCommands(subject)
  if (rule.problem !== undefined) return onlyReads ? "no" : "yes"
  const { pattern } = rule
  switch (pattern._tag) {
    case "Any":
      return isOfWeb || PermissionRule.isAboutTool(rule, tool) || (rule.tool === "terminal" && commands.length > 0)
        ? "yes"
        : "no"
    case "Command": {
      const findHostRule = commands.map((command) => PermissionRule.matchCommand(pattern, command))
      return findHostRule.includes("yes") ? "yes" : findHostRule.includes("perhaps") ? "perhaps" : "no"
    }
    case "Path": {
      if (!isCommands(subject) && !PermissionRule.isAboutTool(rule, tool)) return "no"
      const base = { folder: rule.folder ?? cwd, home }
      return selectPaths(rule, subject).some((spellings) =>
        spellings.some((path) => PermissionRule.isPathMatch(pattern.glob, base, path))
      )
        ? "yes"
        : "no"
    }
    case "Host":
      return hosts.some((host) => PermissionRule.isHostMatch(pattern, rule.list, host)) ? "yes" : "no"
  }
}

const findAllowRule = (rules: ReadonlyArray<PlacedRule>, subject: Subject): PlacedRule | undefined => {
  const { cwd, home, hosts, isClear, reads, tool, writes } = subject
  const own = rules.filter((rule) => rule.list === "allow" && PermissionRule.isAboutTool(rule, tool))
  if (own.length === 0) return undefined
  if (isCommands(subject)) return isClear && tool === "terminal" ? findAllowingAll(own, subject.texts) : undefined
  const whole = own.find(({ pattern }) => pattern._tag === "Any")
  if (whole !== undefined) return whole
  const paths = [...reads, ...writes].map((spellings) =>
    own.find(
      ({ folder, pattern }) =>
        pattern._tag === "Path" &&
        spellings.every((path) => PermissionRule.isPathMatch(pattern.glob, { folder: folder ?? cwd, home }, path))
    )
  )
  const places = [
    ...paths,
    ...hosts.map((host) =>
      own.find(({ pattern }) => pattern._tag === "Host" && PermissionRule.isHostMatch(pattern, "allow", host))
    )
  ]
  return places.every((rule) => rule !== undefined) ? places[0] : undefined
}

/** Finds the rules that decide about a host that a command reaches. */
export const judgeHost = ({ rules }: RuleSet, host: string): Judgement => {
  const findMatchingRule = (list: List): PlacedRule | undefined =>
    rules.find(
      (rule) =>
        rule.list === list &&
        (rule.problem !== undefined ||
          (rule.tool === "web" &&
            (rule.pattern._tag === "Any" ||
              (rule.pattern._tag === "Host" && PermissionRule.isHostMatch(rule.pattern, list, host)))))
    )
  return { denied: findMatchingRule("deny"), asked: findMatchingRule("ask"), allowed: findMatchingRule("allow") }
}

/** A call that is judged, and its commands. */
interface CallReading {
  readonly call: PermissionCall
  readonly paths: CallPaths
  /** Directory in which commands run. */
  readonly directory: string
  readonly commands: ReadonlyArray<Command>
}

/** Lists the spellings of each path: as it is written, and with links followed. */
const listSpellings = Effect.fnUntraced(function* (
  { home, real }: CallPaths,
  given: ReadonlyArray<string>,
  folder: string
) {
  const found = yield* Effect.forEach(given, (one) => {
    const path = PermissionRule.toAbsolutePath(one, { folder, home })
    if (path === undefined) return Effect.succeed([])
    return Effect.map(real(path), (followed) => [followed === path ? [path] : [path, followed]])
  })
  return found.flat()
})

/** Lists the paths of the commands of a call. */
const listCommandPaths = Effect.fnUntraced(function* (
  { call, commands, directory, paths }: CallReading,
  findPaths: (command: Command) => ReadonlyArray<string>
) {
  const toFolder = ({ cwd = directory }: Command): string =>
    PermissionRule.toAbsolutePath(cwd, { folder: call.cwd, home: paths.home }) ?? call.cwd
  const found = yield* Effect.forEach(commands, (command) =>
    listSpellings(paths, findPaths(command), toFolder(command))
  )
  return found.flat()
})

/** Lists the paths that a call reads and writes. */
const listCallPaths = Effect.fnUntraced(function* (reading: CallReading) {
  const { call, paths } = reading
  const { args, cwd, tool } = call
  const named = typeof args["path"] === "string" ? args["path"] : tool === "search_files" ? "." : undefined
  const own = named === undefined ? [] : [named]
  const [read, written] = [readers.has(tool) ? own : [], writers.has(tool) ? own : []]
  return {
    reads: [...(yield* listSpellings(paths, read, cwd)), ...(yield* listCommandPaths(reading, listSources))],
    writes: [
      ...(yield* listSpellings(paths, [...written, ...call.written], cwd)),
      ...(yield* listCommandPaths(reading, listRedirectTargets))
    ]
  }
})

/** Tools whose argument `path` is read or written. */
const readers = new Set(["read_file", "search_files"])
const writers = new Set(["write_file", "patch"])

/** Finds the rules that decide about a call. */
export const judge = Effect.fnUntraced(function* (
  { rules }: RuleSet,
  call: PermissionCall,
  paths: CallPaths
): Effect.fn.Return<Judgement> {
  const { args, cwd, lines, tool } = call
  const { home } = paths
  const workdir = typeof args["workdir"] === "string" ? args["workdir"] : "."
  const root = PermissionRule.normalizePath(cwd)
  const workPath = PermissionRule.toAbsolutePath(workdir, { folder: cwd, home })
  const directory = workPath ?? cwd
  // Outside the call's directory, a repository may have other settings, and a name may mean something else.
  const place = directory === root ? undefined : directory
  const texts = [...lines, ...call.inputs].map((line) => ({ line, ...ScriptInterpreter.read(line, place) }))
  const commands = texts.flatMap(({ commands }) => commands)
  const needsPaths = readers.has(tool) || writers.has(tool) || rules.some(({ pattern }) => pattern._tag === "Path")
  const { reads, writes } = needsPaths
    ? yield* listCallPaths({ call, paths, directory, commands })
    : { reads: [], writes: [] }
  const isInside = workPath !== undefined && (workPath === root || workPath.startsWith(`${root}/`))
  const isClear =
    isInside && call.inputs.length === 0 && texts.every(({ fault, line }) => fault === undefined && !/[$`]/.test(line))
  const subject: Subject = { tool, texts, commands, isClear, reads, writes, hosts: call.hosts, cwd, home }
  const findRule = (list: List, certainty: PermissionRule.Certainty): PlacedRule | undefined =>
    rules.find((rule) => rule.list === list && matchRule(rule, subject, call.onlyReads) === certainty)
  return {
    denied: findRule("deny", "yes"),
    asked: findRule("ask", "yes") ?? findRule("deny", "perhaps") ?? findRule("ask", "perhaps"),
    allowed: findAllowRule(rules, subject)
  }
})
