/**
 * Applies the rules of `permissions` to one call: `deny` takes precedence over `ask`, and `ask` over `allow`.
 *
 * **Details**
 *
 * Rules come from `config.yaml` and from `.hermes/config.yaml` of the project that a call works in. Rules of a
 * project's file may ask and deny. They may allow only if the project's folder is trusted. The file is read once per
 * folder, so that a call cannot loosen the rules for the next call.
 *
 * A command line is denied or asked about if one of its commands is, at any position (`cd x && …`, `env`, `bash -c`, a
 * pipe, a substitution). A command that possibly matches, because one of its words is unknown, is asked about. A line
 * is allowed if each of its commands is allowed or known to be read-only. A path is judged as written and with its
 * links resolved: it is denied if either form is denied, and allowed only if both are allowed.
 *
 * A rule that cannot be parsed allows nothing. In `deny` and `ask` it applies to every call that is not known to be
 * read-only. In `deny` and `ask` it holds for every call that is not known to only read.
 *
 * **Example** (Rules in an application)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Layer from "effect/Layer"
 * import { Agent, Approvals, Runtime, TerminalTools } from "hermes-effect"
 * import { Permissions } from "hermes-effect/approvals"
 *
 * const settings = { allow: [], ask: [], deny: ["terminal(rm:*)"] }
 * const rules = Layer.effect(Permissions.Permissions, Permissions.fromSettings(settings))
 * const approvals = Layer.provide(Approvals.layerDeny(), rules)
 *
 * const program = Agent.run({ prompt: "Use the terminal tool exactly once to run 'cd src && rm a.txt'." })
 * const agent = Runtime.layer({ tools: [TerminalTools.toolset], approvals })
 * const { text } = await Effect.runPromise(Effect.provide(program, agent))
 *
 * console.log(text.includes("BLOCKED: the rule `terminal(rm:*)`"))
 * // => true
 * ```
 *
 * **Gotchas**
 *
 * Rules judge the text of a call. A sandbox decides what a script or a binary may do. `search_files` is judged by the
 * folder that it searches, `web` by the requested address.
 *
 * Source: `ARCHITECTURE.md` §7 (approvals, walls).
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as ConfigFile from "../../base/config/ConfigFile.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, Home, readText } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as Yaml from "../../base/config/Yaml.ts"
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

/** No rule. */
export const empty: RuleSet = { rules: [], problems: [] }

/** Rules of a program. */
export interface Service {
  /** Returns the rules for calls that work in a folder. */
  readonly of: (cwd: string | undefined) => Effect.Effect<RuleSet>
  /** Resolves the symbolic links of an absolute path. */
  readonly real: (path: string) => Effect.Effect<string>
  /** Value of `~`. */
  readonly home: string | undefined
  /** Stores permanent approvals as rules; `undefined` if nothing can be stored. */
  readonly kept?: KeptRules | undefined
}

/** Rules that permanent approvals add to `permissions.allow`. */
export interface KeptRules {
  /** File to which the rules are written. */
  readonly file: string
  /**
   * Adds rules to the current process and to the file. If the file cannot be changed, the rules hold for this process
   * only.
   */
  readonly add: (rules: ReadonlyArray<string>) => Effect.Effect<void>
}

/** Current {@link Service}. The default is `undefined`. */
export const Permissions = Context.Reference<Service | undefined>("hermes-effect/tool/approval/Permissions", {
  defaultValue: () => undefined
})

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

/** Finds the rules that decide about a call. */
export const judge = Effect.fnUntraced(function* (
  { rules }: RuleSet,
  call: PermissionCall,
  { home, real }: Pick<Service, "home" | "real">
): Effect.fn.Return<Judgement> {
  const { args, cwd, lines, tool } = call
  const workdir = typeof args["workdir"] === "string" ? args["workdir"] : "."
  const root = PermissionRule.normalizePath(cwd)
  const workPath = PermissionRule.toAbsolutePath(workdir, { folder: cwd, home })
  const directory = workPath ?? cwd
  // Outside the call's directory, a repository may have other settings, and a name may mean something else.
  const place = directory === root ? undefined : directory
  const texts = [...lines, ...call.inputs].map((line) => ({ line, ...ScriptInterpreter.read(line, place) }))
  const commands = texts.flatMap(({ commands }) => commands)
  const listSpellings = Effect.fnUntraced(function* (given: string, folder: string) {
    const path = PermissionRule.toAbsolutePath(given, { folder, home })
    if (path === undefined) return []
    const followed = yield* real(path)
    return [followed === path ? [path] : [path, followed]]
  })
  const listAllSpellings = (given: ReadonlyArray<string>, folder: string) =>
    Effect.map(
      Effect.forEach(given, (path) => listSpellings(path, folder)),
      (found) => found.flat()
    )
  const named = typeof args["path"] === "string" ? args["path"] : tool === "search_files" ? "." : undefined
  const isReader = tool === "read_file" || tool === "search_files"
  const isWriter = tool === "write_file" || tool === "patch"
  const needsPaths = isReader || isWriter || rules.some(({ pattern }) => pattern._tag === "Path")
  const listCommandPaths = (findPaths: (command: Command) => ReadonlyArray<string>) =>
    Effect.map(
      Effect.forEach(commands, (command) =>
        listAllSpellings(
          findPaths(command),
          PermissionRule.toAbsolutePath(command.cwd ?? directory, { folder: cwd, home }) ?? cwd
        )
      ),
      (found) => found.flat()
    )
  const reads = !needsPaths
    ? []
    : [
        ...(isReader && named !== undefined ? yield* listSpellings(named, cwd) : []),
        ...(yield* listCommandPaths(listSources))
      ]
  const writes = !needsPaths
    ? []
    : [
        ...(yield* listAllSpellings([...(isWriter && named !== undefined ? [named] : []), ...call.written], cwd)),
        ...(yield* listCommandPaths(listRedirectTargets))
      ]
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

/** Parses the rules of a section, with messages about rules that cannot be parsed. */
const readSection = Effect.fnUntraced(function* (
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

/** Returns the rules of settings that do not come from a file. */
export const fromSettings = (permissions: Settings["Service"]["permissions"]): Effect.Effect<Service> =>
  Effect.map(
    readSection(permissions, {
      file: { name: "permissions", folder: "/", text: Effect.succeed("") },
      folder: undefined
    }),
    (rules): Service => ({ of: () => Effect.succeed(rules), real: Effect.succeed, home: undefined })
  )

/** Returns a line for each rule of the settings that cannot be parsed. */
export const listProblems = (permissions: Settings["Service"]["permissions"]): Effect.Effect<ReadonlyArray<string>> =>
  Effect.flatMap(fromSettings(permissions), (rules) => Effect.map(rules.of(undefined), ({ problems }) => problems))

const mergeRuleSets = (sets: ReadonlyArray<RuleSet>): RuleSet => ({
  rules: sets.flatMap(({ rules }) => rules),
  problems: sets.flatMap(({ problems }) => problems)
})

/** Creates the rules of the settings and of the projects in which calls work. */
export const make: Effect.Effect<
  Service,
  never,
  Environment | FileSystem.FileSystem | FolderTrust.FolderTrust | Home | Path.Path | Settings
> = Effect.gen(function* () {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const { config } = yield* Home
  const context = yield* Effect.context<FileSystem.FileSystem | Home | Path.Path>()
  const environment = yield* Environment
  const trust = yield* FolderTrust.FolderTrust
  const { permissions } = yield* Settings
  const readFileText = (path: string): Effect.Effect<string> =>
    readText(path).pipe(
      Effect.map(Option.getOrElse(() => "")),
      Effect.orElseSucceed(() => ""),
      Effect.provideService(FileSystem.FileSystem, fs)
    )
  const hasRules = permissions.allow.length + permissions.ask.length + permissions.deny.length > 0
  let own = hasRules
    ? yield* readSection(permissions, {
        file: { name: config, folder: paths.dirname(config), text: readFileText(config) },
        folder: undefined
      })
    : empty

  const makeUnreadableSet = (name: string, folder: string, why: string): RuleSet => ({
    rules: [{ text: name, tool: "*", pattern: { _tag: "Any" }, list: "deny", source: name, folder, problem: why }],
    problems: [`${why}. Until it is corrected, every call that is not known to only read is refused.`]
  })

  const readFolderRules = Effect.fnUntraced(function* (folder: string): Effect.fn.Return<RuleSet> {
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

  const real = (path: string): Effect.Effect<string> =>
    Effect.catch(fs.realPath(path), () => {
      const folder = paths.dirname(path)
      return folder === path
        ? Effect.succeed(path)
        : Effect.map(real(folder), (followed) => paths.join(followed, paths.basename(path)))
    })

  const known = new Map<string, RuleSet>()

  const add: KeptRules["add"] = Effect.fnUntraced(function* (texts) {
    const rules = texts.flatMap((text): ReadonlyArray<PlacedRule> => {
      const parsed = PermissionRule.parse(text, "allow")
      return Result.isSuccess(parsed) ? [{ ...parsed.success, list: "allow", source: config, folder: undefined }] : []
    })
    own = mergeRuleSets([own, { rules, problems: [] }])
    for (const [folder, set] of known) known.set(folder, mergeRuleSets([{ rules, problems: [] }, set]))
    yield* Edit.modify(["permissions", "allow"], (value) => {
      const before: ReadonlyArray<unknown> = Array.isArray(value) ? value : []
      return [...before, ...texts.filter((text) => !before.includes(text))]
    }).pipe(
      Effect.provideContext(context),
      Effect.catch((error) => Effect.logWarning(`the approval holds for this process only: ${error.message}`))
    )
  })

  return {
    kept: { file: config, add },
    home: environment.get("HOME"),
    real,
    of: Effect.fnUntraced(function* (cwd) {
      if (cwd === undefined) return own
      const before = known.get(cwd)
      if (before !== undefined) return before
      const folders = Array.from(new Set([yield* trust.findOwnProject(cwd), cwd]))
      const set = mergeRuleSets([own, ...(yield* Effect.forEach(folders, readFolderRules))])
      known.set(cwd, set)
      for (const problem of set.problems) yield* Effect.logWarning(problem)
      return set
    })
  }
})

/** Provides approvals with {@link make}. */
export const layer = Layer.effect(Permissions, make)
