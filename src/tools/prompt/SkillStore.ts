/**
 * The skills of a user: ways of working that the agent looks up when a task calls for one, in the open format of
 * agentskills.io.
 *
 * **Details**
 *
 * They are disclosed step by step: the system prompt has names and descriptions ({@link Service.block}), and
 * {@link Service.view} reads the text of a skill and its other files. Skills in the user's directory can be changed;
 * skills in external directories are read-only. A skill is offered if its system, tools and toolsets are available and
 * the settings do not disable it.
 *
 * Every change is whole or not made, under the lease of the file over all processes. A text that wants to command the
 * model against its user is not written, nor is one with a credential in it; a skill with a file `.pinned` is not
 * deleted.
 *
 * Names count in the order user, external directories, project, plugins. Skills of a project's own folder are used when
 * the folder is trusted; else a problem of the catalogue says so.
 *
 * **Example** (Skills of a directory)
 *
 * ```ts
 * import * as NodeServices from "@effect/platform-node/NodeServices"
 * import * as Effect from "effect/Effect"
 * import { mkdtempSync } from "node:fs"
 * import { tmpdir } from "node:os"
 * import { join } from "node:path"
 * import { SkillStore } from "hermes-effect/prompt"
 *
 * const home = mkdtempSync(join(tmpdir(), "skills-"))
 * const locations = { directory: join(home, "skills"), database: join(home, "state.db") }
 *
 * const program = Effect.gen(function*() {
 *   const store = yield* SkillStore.SkillStore
 *   const content = "---\nname: greet\ndescription: Greets people. Use it for greetings.\n---\nSay hello by name."
 *   yield* store.change({ action: "create", name: "greet", content })
 *   return (yield* store.view("greet")).text
 * }).pipe(
 *   Effect.provide(SkillStore.layer({ ...locations, os: "linux" })),
 *   Effect.provide(NodeServices.layer)
 * )
 *
 * console.log((await Effect.runPromise(program)).split("\n").at(-1))
 * // => Say hello by name.
 * ```
 *
 * Source: `hermes-product.md` §2.3 and §4.4, `hermes-llm.md` §6.3.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type { PlatformError } from "effect/PlatformError"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Environment from "../../base/config/Environment.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Ids from "../../base/domain/Ids.ts"
import { describeReason } from "../../base/domain/PathProblem.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as TextCut from "../../base/domain/TextCut.ts"
import * as TextHygiene from "../../base/domain/TextHygiene.ts"
import * as SkillFile from "./SkillFile.ts"
import * as SkillIndex from "./SkillIndex.ts"
import * as SkillProposals from "./SkillProposals.ts"
import * as SkillText from "./SkillText.ts"

/** Reports why a skill is not shown or not changed; nothing was changed. */
export class SkillRefused extends Schema.TaggedError<SkillRefused>("hermes-effect/prompt/SkillRefused")(
  "SkillRefused",
  { message: Schema.String }
) {}

/** Place and choice of skills. */
export interface Options {
  /** Directory of the user's own skills, absolute. */
  readonly directory: string
  /** Database that holds the leases of its writers. */
  readonly database: string
  /** Directories of further skills, absolute; they are never written. */
  readonly externalDirectories?: ReadonlyArray<string> | undefined
  /**
   * Directories of the project, asked for each time, behind those; never written. A refusal says why one is not used.
   */
  readonly projectDirectories?:
    | Effect.Effect<ReadonlyArray<Pick<SkillIndex.Source, "directory" | "refusal">>>
    | undefined
  /** File that keeps the index over processes; without one every process reads all skills. */
  readonly snapshot?: string | undefined
  /** Name of the system as Node has it: `linux`, `darwin`, `win32`. */
  readonly os: string
  /** Names of skills that are turned off. */
  readonly disabled?: ReadonlyArray<string> | undefined
  /** Replaces `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` in the text of a skill; default: true. */
  readonly templateVars?: boolean | undefined
  /** Toolsets that some tools belong to, for conditions of skills; none when absent. */
  readonly toolsetsOf?: ((tools: ReadonlySet<string>) => ReadonlySet<string>) | undefined
  /** Variables of the environment, to say which of those that a skill needs are missing. */
  readonly variable?: ((name: string) => string | undefined) | undefined
}

/** A skill's text, or the text of another file in its directory. */
export interface View {
  readonly skill: SkillIndex.Skill
  /** Path of the file in the skill's directory; absent: its `SKILL.md`. */
  readonly file?: string | undefined
  readonly text: string
  /** Files of the skill besides its `SKILL.md`, relative to its directory. */
  readonly files: ReadonlyArray<string>
  /** Variables that the skill needs and that are not set. */
  readonly missing: ReadonlyArray<string>
}

/** Choice of a text, and the session that it is read in. */
export interface ViewOptions {
  /** Relative to the skill's directory; absent: its `SKILL.md`. */
  readonly file?: string | undefined
  /** Replaces `${HERMES_SESSION_ID}`. */
  readonly session?: string | undefined
}

/** A change of one skill. Names are directory names; files are relative to the skill's directory. */
export type Change = SkillProposals.Change

/** Result of a change. */
export interface ChangeResult {
  /** Absolute path that was written or removed. */
  readonly path: string
  /** Commands in the new text that deserve a look. */
  readonly warnings: ReadonlyArray<string>
}

/** A skill, and the reason why it is not offered; undefined of one that is. */
export interface ListedSkill {
  readonly skill: SkillIndex.Skill
  readonly turnedOff: "disabled" | "other system" | undefined
}

/** The skills of a user. */
export interface Service {
  /** Every skill, also those that are not offered. */
  readonly listed: Effect.Effect<ReadonlyArray<ListedSkill>>
  /** Everything that there is for this system and is not turned off. */
  readonly catalogue: Effect.Effect<SkillIndex.Catalogue>
  /** Reads a skill, by its name, or by category and name; or a file beside its `SKILL.md`. */
  readonly view: (name: string, options?: ViewOptions) => Effect.Effect<View, SkillRefused>
  readonly change: (change: Change) => Effect.Effect<ChangeResult, ConfigError | SkillRefused>
  /** Fails as the change would now; nothing is changed. */
  readonly check: (change: Change) => Effect.Effect<void, SkillRefused>
  /** Changes that wait for the user. */
  readonly proposals: SkillProposals.Service
  /** The path that a change would write or remove, for an approval; undefined if the change names no path. */
  readonly pathOf: (name: string, category?: string) => Effect.Effect<string>
  /**
   * Adds the skills that plugins bring in `skills/` of their directories, each under its plugin's key (`/` becomes
   * `-`); they count last and are never written.
   */
  readonly bring: (plugins: ReadonlyArray<{ readonly key: string; readonly directory: string }>) => Effect.Effect<void>
  /**
   * The part of a system prompt that names the skills; undefined if there are no skills, or no skill tool is offered.
   */
  readonly block: (tools: ReadonlySet<string>) => Effect.Effect<string | undefined>
}

/** See {@link Service}. */
export class SkillStore extends Context.Service<SkillStore, Service>()("hermes-effect/prompt/SkillStore") {}

/** Tools that use the index: a prompt includes it if at least one is offered. */
const tools = ["skills_list", "skill_view", "skill_manage"]

/** Directories of a skill that hold files which may be written. */
const folders = ["references", "templates", "scripts", "assets"]

/** Place of a change, and the text that a file gets for its old one; of a removal none. */
interface ChangePlan {
  readonly path: string
  readonly edit?: (
    before: string
  ) => Effect.Effect<{ readonly text: string; readonly warnings: ReadonlyArray<string> }, SkillRefused>
}

const maxBlocks = 8
const maxLinked = 200
const maxTextChars = 100_000
const maxProblems = 5

const refuseRequest = (message: string): Effect.Effect<never, SkillRefused> =>
  Effect.fail(new SkillRefused({ message }))

const toSkillRefusal =
  (path: string) =>
  <A, R>(self: Effect.Effect<A, PlatformError, R>): Effect.Effect<A, SkillRefused, R> =>
    Effect.mapError(self, (error) => new SkillRefused({ message: `${path}: ${describeReason(error)}` }))

/** Refuses a path that does not stay in the skill's directory; else gives its parts joined by `/`. */
const toSafePath = (file: string): Effect.Effect<string, SkillRefused> => {
  const parts = file.split(/[/\\]/).filter((part) => part !== "" && part !== ".")
  return file.startsWith("/") || /^[A-Za-z]:|\0/.test(file) || parts.includes("..") || parts.length === 0
    ? refuseRequest(`"${file}" does not stay in the directory of the skill: give a path such as references/api.md`)
    : Effect.succeed(parts.join("/"))
}

/** Refuses a path that files of skills are not written to. */
const checkWritablePath = (file: string): Effect.Effect<string, SkillRefused> =>
  Effect.flatMap(toSafePath(file), (path) =>
    /^[^/]+\/./.test(path) &&
    folders.includes(path.split("/", 1)[0] ?? "") &&
    path.split("/").every((part) => /^[\w][\w.-]{0,99}$/.test(part))
      ? Effect.succeed(path)
      : refuseRequest(`"${file}" is not written: files of a skill stand in ${folders.join("/, ")}/, with plain names`)
  )

/** Refuses a text that a skill cannot have; gives the commands in it that deserve a look. */
const checkText = (text: string, file: string, added = text): Effect.Effect<ReadonlyArray<string>, SkillRefused> => {
  const found = SkillFile.findRefusals(text, file)
  if (found.length > 0)
    return refuseRequest(`not written: the text looks like an injected instruction (${found.join(", ")})`)
  if (new TextEncoder().encode(text).length > SkillFile.maxBytes)
    return refuseRequest(`not written: the text has more than ${SkillFile.maxBytes} bytes`)
  return Redaction.redactText(added) === added
    ? Effect.succeed(SkillFile.findWarnings(text))
    : refuseRequest("not written: the text has a credential in it: name a variable of the environment in its place")
}

/** Refuses a text that is not a valid `SKILL.md`; a new skill must follow the open format and contain its own name. */
const checkSkillText = Effect.fnUntraced(function* (name: string, text: string, { added = text, isNew = false } = {}) {
  const parsed = SkillFile.parse(yield* Yaml.load, text)
  if (Result.isFailure(parsed)) return yield* refuseRequest(`not written: ${parsed.failure}`)
  const [remark] = isNew ? SkillFile.listRemarks(parsed.success, name) : []
  if (remark !== undefined) return yield* refuseRequest(`not written: ${remark}`)
  return yield* checkText(text, SkillFile.fileName, added)
})

const replaceText = (
  text: string,
  { all = false, newText, oldText }: Extract<Change, { readonly action: "patch" }>
): Effect.Effect<string, SkillRefused> => {
  const count = oldText === "" ? 0 : text.split(oldText).length - 1
  if (count === 0) return refuseRequest("old_string is not in the file: view it, and give a part of it exactly")
  return count > 1 && !all
    ? refuseRequest(
        `old_string is ${count} times in the file: give more of the place that you mean, or set replace_all`
      )
    : Effect.succeed(text.split(oldText).join(newText))
}

/** The skills of a user. */
export const make = (options: Options): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const disabled = new Set(options.disabled)
    const blocks = new Map<string, { readonly signature: string; readonly text: string | undefined }>()
    let brought: ReadonlyArray<SkillIndex.Source> = []
    const everything = yield* SkillIndex.make({
      directory: options.directory,
      sources: Effect.map(options.projectDirectories ?? Effect.succeed([]), (projects) => [
        ...(options.externalDirectories ?? []).map((directory): SkillIndex.Source => ({ kind: "external", directory })),
        ...projects.map((one): SkillIndex.Source => ({ kind: "project", ...one })),
        ...brought
      ]),
      snapshot: options.snapshot
    })

    const isDisabled = ({ facts, name, path }: SkillIndex.Skill): boolean =>
      [name, path, facts.name].some((one) => disabled.has(one))

    const catalogue: Service["catalogue"] = Effect.map(everything, (found) => ({
      ...found,
      skills: found.skills.filter((skill) => SkillText.isForSystem(skill.facts, options.os) && !isDisabled(skill))
    }))

    const listed: Service["listed"] = Effect.map(everything, ({ skills }) =>
      skills.map((skill) => ({
        skill,
        turnedOff: isDisabled(skill)
          ? "disabled"
          : SkillText.isForSystem(skill.facts, options.os)
            ? undefined
            : "other system"
      }))
    )

    const findSkill = Effect.fnUntraced(function* (name: string) {
      const { problems, skills } = yield* everything
      // The contract names skills of plugins with a colon.
      const wanted = name.trim().replace(/^([\w.-]+):(?=[\w.-]+$)/, "$1/")
      const exact = skills.filter((skill) => skill.path === wanted)
      const found =
        exact.length > 0 ? exact : skills.filter((skill) => skill.name === wanted || skill.facts.name === wanted)
      const [skill] = found
      if (skill === undefined) {
        const problem = problems.find(({ path }) => paths.basename(paths.dirname(path)) === wanted)
        if (problem !== undefined)
          return yield* refuseRequest(`the skill "${wanted}" cannot be used: ${problem.path}: ${problem.message}`)
        const meant = findNearest(
          wanted,
          skills.map(({ name }) => name)
        )
        return yield* refuseRequest(
          `there is no skill "${TextCut.shorten(wanted, 80)}": ` +
            `${meant === undefined ? "list them with skills_list" : `did you mean "${meant}"?`}`
        )
      }
      if (found.length > 1)
        return yield* refuseRequest(`"${wanted}" is ambiguous: give one of ${found.map(({ path }) => path).join(", ")}`)
      if (isDisabled(skill))
        return yield* refuseRequest(`the skill "${skill.name}" is turned off by skills.disabled in the settings`)
      return skill
    })

    const listLinkedFiles = Effect.fnUntraced(function* (directory: string) {
      const files: Array<string> = []
      const queue = [""]
      for (const at of queue) {
        for (const { name, type } of (yield* Effect.orElseSucceed(
          fs.readDirectoryEntries(paths.join(directory, at)),
          () => []
        )).toSorted((a, b) => (a.name < b.name ? -1 : 1))) {
          const path = at === "" ? name : `${at}/${name}`
          if (name.startsWith(".") || path === SkillFile.fileName || files.length === maxLinked) continue
          if (type === "Directory" && queue.length < maxLinked) queue.push(path)
          if (type === "File") files.push(path)
        }
      }
      return files.toSorted()
    })

    /** The real path of something in a skill's directory; refused where a link leads out of it. */
    const resolveInsideSkill = Effect.fnUntraced(function* (skill: SkillIndex.Skill, file: string) {
      const root = yield* toSkillRefusal(skill.directory)(fs.realPath(skill.directory))
      let at = paths.join(skill.directory, file)
      // Directories that are not there yet lead nowhere.
      while (at !== skill.directory && Option.isNone(yield* Effect.option(fs.realPath(at)))) {
        if (Option.isSome(yield* Effect.option(fs.readLink(at))))
          return yield* refuseRequest(`"${file}" is a link that leads nowhere`)
        at = paths.dirname(at)
      }
      const target = paths.relative(root, yield* toSkillRefusal(at)(fs.realPath(at)))
      return target.startsWith("..") || paths.isAbsolute(target)
        ? yield* refuseRequest(`"${file}" is a link that leads out of the directory of the skill`)
        : paths.join(skill.directory, file)
    })

    /** Puts the values of its variables into the text of a `SKILL.md`. */
    const fillTemplateVariables = (
      text: string,
      file: string,
      { directory }: SkillIndex.Skill,
      session: string | undefined
    ): string =>
      options.templateVars === false || file !== SkillFile.fileName
        ? text
        : text
            .replaceAll("${HERMES_SKILL_DIR}", () => directory)
            .replaceAll("${HERMES_SESSION_ID}", (name) => session ?? name)

    const view: Service["view"] = Effect.fnUntraced(function* (name, { file, session } = {}) {
      const skill = yield* findSkill(name)
      const shown = file === undefined || file === "" ? SkillFile.fileName : yield* toSafePath(file)
      const path = yield* resolveInsideSkill(skill, shown)
      const info = yield* Effect.option(fs.stat(path))
      const files = yield* listLinkedFiles(skill.directory)
      if (Option.isNone(info) || info.value.type !== "File") {
        return yield* refuseRequest(
          `the skill "${skill.name}" has no file "${shown}": it has ` +
            `${files.length === 0 ? "no files beside SKILL.md" : files.join(", ")}`
        )
      }
      if (info.value.size > SkillFile.maxBytes)
        return yield* refuseRequest(
          `${path} is larger than ${SkillFile.maxBytes} bytes: read a part of it with read_file`
        )
      const text = yield* toSkillRefusal(path)(fs.readFileString(path))
      if (text.includes("\0")) return yield* refuseRequest(`${path} is not a text`)
      const found = SkillFile.findRefusals(text, shown)
      if (found.length > 0)
        return yield* refuseRequest(`${path} is not shown: it may contain a prompt injection (${found.join(", ")})`)
      return {
        skill,
        ...(shown === SkillFile.fileName ? {} : { file: shown }),
        text: TextCut.cutMiddle(
          TextHygiene.withoutControls(TextHygiene.toWellFormed(fillTemplateVariables(text, shown, skill, session))),
          maxTextChars
        ),
        files,
        missing: skill.facts.variables.filter((variable) => !options.variable?.(variable))
      }
    }, Effect.provideContext(context))

    /** A skill that may be changed. */
    const findOwnSkill = Effect.fnUntraced(function* (name: string) {
      const skill = yield* findSkill(name)
      if (skill.isReadOnly)
        return yield* refuseRequest(
          `the skill "${skill.name}" is in ${skill.directory}, which is read-only: create one of that name, ` +
            "which then counts"
        )
      const root = yield* toSkillRefusal(options.directory)(fs.realPath(options.directory))
      const target = paths.relative(root, yield* toSkillRefusal(skill.directory)(fs.realPath(skill.directory)))
      return target.startsWith("..") || paths.isAbsolute(target)
        ? yield* refuseRequest(`the skill "${skill.name}" is a link to a directory elsewhere: change it there`)
        : skill
    })

    const writeSkillFile = <E>(
      path: string,
      change: (before: string) => Effect.Effect<{ readonly text: string; readonly warnings: ReadonlyArray<string> }, E>
    ) =>
      Effect.gen(function* () {
        yield* toSkillRefusal(path)(fs.makeDirectory(paths.dirname(path), { recursive: true, mode: 0o700 }))
        const result = yield* Environment.updateText(options.database, path, (before) =>
          Effect.map(Effect.result(change(before)), (result) => ({
            text: Result.isSuccess(result) ? result.success.text : before,
            result
          }))
        )
        return { path, warnings: (yield* Effect.fromResult(result)).warnings }
      })

    const buildSkillPath = (name: string, category: string | undefined): string =>
      paths.join(options.directory, ...(category === undefined ? [] : category.split("/")), name)

    /** A change that may be made: the file or directory that it is of, and the text that the file gets. */
    const planChange = Effect.fnUntraced(function* (
      change: Change
    ): Effect.fn.Return<ChangePlan, SkillRefused, FileSystem.FileSystem | Path.Path> {
      if (change.action === "create") {
        const { category, content, name } = change
        if (!SkillFile.isName(name))
          return yield* refuseRequest(
            `"${TextCut.shorten(name, 80)}" is no name of a skill: use at most 64 lower-case letters, digits ` +
              "and single hyphens"
          )
        if (
          category !== undefined &&
          !category.split("/").every((part, at) => at < SkillIndex.maxDepth - 1 && SkillFile.isDirectoryName(part))
        ) {
          return yield* refuseRequest(`"${TextCut.shorten(category, 80)}" is no name of a category`)
        }
        const there = (yield* everything).skills.find((skill) => skill.name === name && !skill.isReadOnly)
        if (there !== undefined)
          return yield* refuseRequest(
            `there is a skill "${name}" already (${there.path}): change it with patch or edit`
          )
        const warnings = yield* checkSkillText(name, content, { isNew: true })
        const path = paths.join(buildSkillPath(name, category), SkillFile.fileName)
        return {
          path,
          edit: (before) =>
            before === ""
              ? Effect.succeed({ text: content, warnings })
              : refuseRequest(`there is a skill "${name}" already`)
        }
      }
      const skill = yield* findOwnSkill(change.name)
      if (change.action === "delete") {
        return (yield* toSkillRefusal(skill.directory)(fs.exists(paths.join(skill.directory, ".pinned"))))
          ? yield* refuseRequest(
              `the skill "${skill.name}" is pinned: only the user deletes it, after removing its file .pinned`
            )
          : { path: skill.directory }
      }
      const file =
        "file" in change && change.file !== undefined ? yield* checkWritablePath(change.file) : SkillFile.fileName
      const path = yield* resolveInsideSkill(skill, file)
      const isSkill = file === SkillFile.fileName
      if (change.action === "remove_file") {
        const info = yield* Effect.option(fs.stat(path))
        return Option.isNone(info) || info.value.type !== "File"
          ? yield* refuseRequest(`the skill "${skill.name}" has no file "${file}"`)
          : { path }
      }
      if (change.action === "patch") {
        return {
          path,
          edit: (before) =>
            Effect.flatMap(replaceText(before, change), (text) =>
              Effect.map(
                isSkill
                  ? checkSkillText(skill.name, text, { added: change.newText })
                  : checkText(text, file, change.newText),
                (warnings) => ({ text, warnings })
              )
            )
        }
      }
      const text = change.content
      const warnings = yield* isSkill ? checkSkillText(skill.name, text) : checkText(text, file)
      return { path, edit: () => Effect.succeed({ text, warnings }) }
    }, Effect.provideContext(context))

    const check: Service["check"] = (change) =>
      Effect.flatMap(planChange(change), ({ edit, path }) =>
        edit === undefined
          ? Effect.void
          : Effect.flatMap(
              Effect.orElseSucceed(fs.readFileString(path), () => ""),
              (before) => Effect.asVoid(edit(before))
            )
      )

    const change: Service["change"] = Effect.fnUntraced(function* (change) {
      const { edit, path } = yield* planChange(change)
      if (edit !== undefined) {
        const directory = paths.dirname(path)
        const isNew = !(yield* toSkillRefusal(directory)(fs.exists(directory)))
        return yield* Effect.onError(writeSkillFile(path, edit), () =>
          isNew ? Effect.ignore(fs.remove(directory)) : Effect.void
        )
      }
      if (change.action === "delete") {
        // Gone at once for every reader, then file by file.
        const aside = paths.join(options.directory, `.deleted-${yield* Ids.makeHex(12)}`)
        yield* toSkillRefusal(path)(Effect.andThen(fs.rename(path, aside), fs.remove(aside, { recursive: true })))
      } else yield* toSkillRefusal(path)(fs.remove(path))
      return { path, warnings: [] }
    }, Effect.provideContext(context))

    const getChangePath: Service["pathOf"] = (name, category) =>
      Effect.map(Effect.option(findSkill(name)), (skill) =>
        Option.isSome(skill) && !skill.value.isReadOnly ? skill.value.directory : buildSkillPath(name, category)
      )

    const block: Service["block"] = Effect.fnUntraced(function* (offered) {
      if (!tools.some((tool) => offered.has(tool))) return undefined
      const found = yield* catalogue
      const toolsets = options.toolsetsOf?.(offered) ?? new Set<string>()
      const key = JSON.stringify([options.directory, [...offered].toSorted(), [...toolsets].toSorted(), options.os])
      const kept = blocks.get(key)
      blocks.delete(key)
      if (kept !== undefined && kept.signature === found.signature) {
        blocks.set(key, kept)
        return kept.text
      }
      const { problems, signature } = found
      for (const { message, path } of problems.slice(0, maxProblems))
        yield* Effect.logWarning(`skill left out: ${path}: ${message}`)
      if (problems.length > maxProblems)
        yield* Effect.logWarning(`${problems.length - maxProblems} more skills left out: see \`hermes skills check\``)
      const text = SkillText.renderIndex(
        found.skills.filter(({ facts }) => SkillText.isOffered(facts.conditions, offered, toolsets)),
        found.categories
      )
      if (signature !== undefined) blocks.set(key, { signature, text })
      const [oldest] = blocks.keys()
      if (blocks.size > maxBlocks && oldest !== undefined) blocks.delete(oldest)
      return text
    })

    const bring: Service["bring"] = (plugins) =>
      Effect.sync(() => {
        brought = [
          ...brought,
          ...plugins.map(({ directory, key }): SkillIndex.Source => ({
            kind: "plugin",
            directory: paths.join(directory, "skills"),
            category: key.replaceAll("/", "-")
          }))
        ]
      })

    const proposals = Effect.provideContext(
      SkillProposals.make({ path: paths.join(options.directory, ".proposed.json"), database: options.database }),
      context
    )

    return { listed, catalogue, view, change, check, proposals: yield* proposals, pathOf: getChangePath, bring, block }
  })

/** {@link make} as a layer. */
export const layer = (options: Options): Layer.Layer<SkillStore, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(SkillStore, make(options))
