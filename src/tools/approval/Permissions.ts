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
 * read-only.
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
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import { Environment, Home, readText } from "../../base/config/Environment.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import { Settings } from "../../base/config/Settings.ts"
import { empty, makeFolderReader, mergeRuleSets, readSection } from "./PermissionFiles.ts"
import { type KeptRules, Permissions, type Service } from "./CurrentPermissions.ts"
import type { PlacedRule, RuleSet } from "./PermissionJudgement.ts"
import * as PermissionRule from "./PermissionRule.ts"

export { type KeptRules, Permissions, type Service } from "./CurrentPermissions.ts"
export type { Judgement, PermissionCall, PlacedRule, RuleSet } from "./PermissionJudgement.ts"

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

  const readFolderRules = yield* makeFolderReader(config)

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
    const { modify } = yield* Effect.promise(() => import("../../base/config/Edit.ts"))
    yield* modify(["permissions", "allow"], (value) => {
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
