/**
 * `hermes skills`: lists skills, installs them from a folder, a repository, a tarball or an npm package, and manages
 * changes proposed by reviews of conversations. Skill code is never run.
 *
 * Source: `hermes-product.md` §1.6.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import { Environment, Home } from "../../base/config/Environment.ts"
import { Settings } from "../../base/config/Settings.ts"
import * as Yaml from "../../base/config/Yaml.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { findDirectory } from "../../agent/plugin/Candidate.ts"
import * as Enablement from "../../agent/plugin/Enablement.ts"
import * as Git from "../../agent/plugin/Git.ts"
import * as SkillFile from "../../tools/prompt/SkillFile.ts"
import * as SkillInstaller from "../../tools/prompt/SkillInstaller.ts"
import type * as SkillIndex from "../../tools/prompt/SkillIndex.ts"
import type * as SkillProposals from "../../tools/prompt/SkillProposals.ts"
import type * as SkillStore from "../../tools/prompt/SkillStore.ts"
import * as ConfiguredSkills from "../../tools/ConfiguredSkills.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import * as CommandSettings from "./CommandSettings.ts"
import * as Confirm from "./Confirm.ts"
import { makeWorkFailure, makeSilentFailure, makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { discoverPlugins } from "./PluginsCommand.ts"
import { printLine, printNote, Output, renderTable, printWarnings } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const json = Flags.makeSwitch("json", "Print JSON")
const yes = Flags.makeSwitch("yes", "Do not ask", "y")
const name = Argument.String("name").pipe(Argument.withDescription("Name of a skill, or category/name"))

/** Opens the skills from the settings, from the home directory, and from the enabled plugins. No plugin code is run. */
const store = Effect.gen(function* () {
  const settings = yield* Settings
  const skills = yield* ConfiguredSkills.make(settings, { environment: yield* Environment, home: yield* Home })
  const { candidates } = yield* Effect.mapError(discoverPlugins(settings.plugins), ({ message }) =>
    makeWorkFailure(`cannot list plugins: ${message}`)
  )
  yield* skills.bring(
    candidates.flatMap((candidate) => {
      const directory = findDirectory(candidate)
      return directory !== undefined && Enablement.describeStatus(candidate, settings.plugins) === "enabled"
        ? [{ key: candidate.key, directory }]
        : []
    })
  )
  return skills
})

/** Formats the name of a skill as users write it: `tea:brew` is `brew` of the plugin `tea`. */
const formatSkillName = ({ name, path, source }: SkillIndex.Skill): string =>
  source === "plugin" ? path.replace(/^([\w.-]+)\/(?=[\w.-]+$)/, "$1:") : name

const withStoreFailure = <A, R>(self: Effect.Effect<A, SkillStore.SkillRefused, R>) =>
  Effect.mapError(self, ({ message }) => makeWorkFailure(SafeText.toLine(message)))

const toRow = ({ skill, turnedOff }: SkillStore.ListedSkill) => ({
  name: formatSkillName(skill),
  status: turnedOff ?? "available",
  category: skill.category,
  source: skill.source,
  description: skill.facts.description
})

const listSkills = Effect.fn("hermes skills list")(function* ({ json }: { readonly json: boolean }) {
  const skills = yield* store
  const rows = (yield* skills.listed).map(toRow)
  const { problems } = yield* skills.catalogue
  yield* printWarnings(problems.map(({ message, path }) => SafeText.toLine(`${path}: ${message}`)))
  if (json) return yield* printLine(SafeText.toJson(rows, 2))
  const { length: waiting } = yield* skills.proposals.list
  yield* rows.length === 0
    ? printLine("No skills. Install one with `hermes skills install`.")
    : printLine(
        renderTable(
          rows.map(({ category, description, name, source, status }) =>
            [status, name, category, source, description].map(SafeText.toLine)
          )
        )
      )
  if (waiting > 0) yield* printNote(`${waiting} proposed by reviews: see \`hermes skills proposed\``)
}, CommandSettings.provide)

const list = Command.make("list", { json }, listSkills).pipe(Command.withDescription("List skills and their state"))

/** Finds the skill with the given name. */
const findSkill = Effect.fnUntraced(function* (skills: SkillStore.Service, name: string) {
  const listed = yield* skills.listed
  const found = listed.filter(({ skill }) => [skill.path, skill.name, formatSkillName(skill)].includes(name))
  const [only] = found
  if (only === undefined)
    return yield* makeUnknownNameFailure("skill", SafeText.toLine(name), {
      known: listed.map(({ skill }) => formatSkillName(skill)),
      list: "hermes skills list"
    })
  if (found.length > 1)
    return yield* makeUsageFailure(
      `"${name}" is ambiguous: use one of ${found.map(({ skill }) => skill.path).join(", ")}`
    )
  return only.skill
})

const show = Command.make(
  "show",
  {
    name,
    file: Argument.String("file").pipe(
      Argument.withDescription("A file of the skill, relative to its directory"),
      Argument.optional
    ),
    json
  },
  Effect.fn("hermes skills show")(function* ({ file, json, name }) {
    const skills = yield* store
    const { path } = yield* findSkill(skills, name)
    const view = yield* withStoreFailure(skills.view(path, { file: Option.getOrUndefined(file) }))
    if (json) {
      return yield* printLine(
        SafeText.toJson(
          {
            ...view.skill.facts,
            name: view.skill.name,
            directory: view.skill.directory,
            files: view.files,
            missing: view.missing,
            text: view.text
          },
          2
        )
      )
    }
    yield* printLine(view.text.trimEnd())
    if (view.file !== undefined) return
    if (view.files.length > 0)
      yield* printNote(`Files in ${view.skill.directory}: ${view.files.map(SafeText.toLine).join(", ")}`)
    if (view.missing.length > 0) yield* printNote(`Not set: ${view.missing.map(SafeText.toLine).join(", ")}`)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Show the text of a skill, or a file of it"))

/** Collects the findings of a skill in its directory: problems of its files and deviations from the open format. */
const collectFindings = Effect.fnUntraced(function* (skills: SkillStore.Service, path: string) {
  const view = yield* Effect.result(skills.view(path))
  if (Result.isFailure(view)) return [view.failure.message]
  const { files, missing, skill, text } = view.success
  const parsed = SkillFile.parse(yield* Yaml.load, text)
  const found: Array<string> = Result.isFailure(parsed)
    ? [parsed.failure]
    : [...SkillFile.listRemarks(parsed.success, skill.name)]
  const { requiresTools, requiresToolsets } = skill.facts.conditions
  const [tools, toolsets] = [Toolsets.listTools("all"), Object.keys(Toolsets.catalogue)]
  const absent = [
    ...requiresTools.flatMap((name) => (tools.has(name) ? [] : [`the tool ${name}`])),
    ...requiresToolsets.flatMap((name) => (toolsets.includes(name) ? [] : [`the toolset ${name}`]))
  ]
  found.push(
    ...absent.map(
      (name) =>
        `needs ${name}, which is not built in: the skill is available only if a plugin or an MCP server provides it`
    )
  )
  found.push(
    ...SkillFile.findWarnings(text).map((warning) => `${SkillFile.fileName} ${warning}`),
    ...missing.map((variable) => `${variable} is not set`)
  )
  for (const file of files) {
    const viewed = yield* Effect.result(skills.view(path, { file }))
    if (Result.isSuccess(viewed))
      found.push(...SkillFile.findWarnings(viewed.success.text).map((warning) => `${file} ${warning}`))
    else if (!viewed.failure.message.endsWith("is not a text")) found.push(viewed.failure.message)
  }
  return found
})

const check = Command.make(
  "check",
  { name: Argument.optional(name) },
  Effect.fn("hermes skills check")(function* ({ name }) {
    const skills = yield* store
    const { problems } = yield* skills.catalogue
    const all = Option.isSome(name)
      ? [yield* findSkill(skills, name.value)]
      : (yield* skills.listed).flatMap(({ skill, turnedOff }) => (turnedOff === undefined ? [skill] : []))
    const broken = Option.isSome(name) ? [] : problems.map(({ message, path }) => `${path}: ${message}`)
    const found = yield* Effect.forEach(all, ({ path }) =>
      Effect.map(collectFindings(skills, path), (lines) => lines.map((text) => `${path}: ${text}`))
    )
    const lines = [...broken, ...found.flat()]
    yield* printLine(
      lines.length === 0 ? `${all.length} checked, nothing found` : lines.map(SafeText.toLine).join("\n")
    )
    if (broken.length > 0) return yield* makeSilentFailure(1)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Check skills: format, suspicious commands, missing variables"))

const maxListedFiles = 20

const describePlan = ({ bytes, facts, files, name, remarks, warnings }: SkillInstaller.PlannedSkill): string => {
  return [
    `${name}: ${facts.description}`,
    ...files.slice(0, maxListedFiles),
    ...(files.length > maxListedFiles ? [`and ${files.length - maxListedFiles} more`] : []),
    `${files.length} files, ${bytes} bytes`,
    ...(facts.variables.length === 0 ? [] : [`needs ${facts.variables.join(", ")}`]),
    ...[...remarks, ...warnings].map((text) => `Warning: ${text}`)
  ]
    .map(SafeText.toLine)
    .map((text, at) => (at === 0 ? text : `  ${text}`))
    .join("\n")
}

/**
 * Creates the function that clones repositories with `git`, from a URL or, if no folder has that name, from
 * `owner/repo` on GitHub.
 */
const makeCloner = (isFolder: boolean) => (source: string, directory: string) => {
  if (Git.isUrl(source)) return Git.cloneRepository(source, source, directory)
  return !isFolder && /^[A-Za-z0-9][\w-]*\/[\w.-]+$/.test(source)
    ? Git.cloneRepository(source, `https://github.com/${source}.git`, directory)
    : undefined
}

const install = Command.make(
  "install",
  {
    source: Argument.String("source").pipe(
      Argument.withDescription(
        "Folder, tarball, address of a git repository, owner/repo of GitHub, or npm:name[@version]"
      )
    ),
    only: Flags.makeTexts("only", "NAME", "Install only this skill; repeatable"),
    category: Flags.makeText("category", "NAME", "Category of the installed skills"),
    force: Flags.makeSwitch("force", "Replace skills with the same name"),
    yes
  },
  Effect.fn("hermes skills install")(
    function* ({ category, force, only, source, yes }) {
      const output = yield* Output
      if (!yes && !output.terminal.input)
        return yield* makeUsageFailure("Not a terminal. Review the skill, then pass --yes to install it.")
      const fs = yield* FileSystem.FileSystem
      const paths = yield* Path.Path
      const home = yield* Home
      yield* home.ensure
      const skills = yield* store
      const { get } = yield* Environment
      const context = yield* Effect.context<
        Effect.Services<ReturnType<typeof Git.cloneRepository>> | FileSystem.FileSystem | Path.Path
      >()
      const { download, parse } = yield* Effect.promise(() => import("../../tools/NpmPackage.ts"))
      const clone = makeCloner(
        yield* Effect.orElseSucceed(fs.exists(paths.resolve(getWorkingDirectory(), source)), () => false)
      )
      const { refused, skills: found } = yield* Effect.mapError(
        SkillInstaller.planInstallation({
          source,
          cwd: getWorkingDirectory(),
          directory: home.skills,
          clone: (source, directory) => {
            const cloned = clone(source, directory)
            return cloned === undefined ? undefined : Effect.provideContext(cloned, context)
          },
          download: (source) => {
            const wanted = parse(source)
            return wanted === undefined
              ? undefined
              : download(wanted, get).pipe(
                  Effect.tap(({ name, version }) => printNote(`${name}@${version}: its hash matches the registry`)),
                  Effect.map(({ tarball }) => tarball),
                  Effect.provideService(Output, output),
                  Effect.provideContext(context)
                )
          }
        }),
        ({ message }) => makeUsageFailure(`${SafeText.toLine(source)}: ${SafeText.toLine(message)}`)
      )
      yield* printWarnings(refused.map((message) => `left out: ${SafeText.toLine(message)}`))
      const unknown = only.find((name) => !found.some((skill) => skill.name === name))
      if (unknown !== undefined)
        return yield* makeUnknownNameFailure("skill", SafeText.toLine(unknown), {
          known: found.map(({ name }) => name),
          list: `hermes skills install ${source}`
        })
      const chosen = found.filter(({ name }) => only.length === 0 || only.includes(name))
      const there = (yield* skills.listed).filter(
        ({ skill }) => !skill.isReadOnly && chosen.some(({ name }) => name === skill.name)
      )
      const taken = there.map(({ skill }) => skill.path)
      if (taken.length > 0 && !force)
        return yield* makeUsageFailure(`already installed: ${taken.join(", ")}. Replace with --force`)
      yield* printLine(chosen.map(describePlan).join("\n\n"))
      if (taken.length > 0) yield* printNote(`Replaces ${taken.join(", ")}`)
      if (!yes && !(yield* Confirm.confirmAction(`Install ${chosen.map(({ name }) => name).join(", ")}?`)))
        return yield* makeWorkFailure("not installed")
      for (const skill of chosen) {
        const replaces = there.find((other) => other.skill.name === skill.name)?.skill.directory
        const directory = yield* withStoreFailure(
          SkillInstaller.installSkill(skill, { directory: home.skills, category, replaces })
        )
        yield* printLine(`installed ${skill.name} in ${directory}`)
      }
    },
    Effect.scoped,
    CommandSettings.provide
  )
).pipe(Command.withDescription("Show and install skills without running them"))

const remove = Command.make(
  "remove",
  { name, yes },
  Effect.fn("hermes skills remove")(function* ({ name, yes }) {
    const skills = yield* store
    const { directory, path } = yield* findSkill(skills, name)
    if (
      !yes &&
      !(yield* Confirm.requireConfirmation(
        `Remove ${directory} with all its files?`,
        `Not a terminal. Pass --yes to remove ${directory}.`
      ))
    ) {
      return yield* makeWorkFailure("not removed")
    }
    yield* skills
      .change({ action: "delete", name: path })
      .pipe(Effect.catchTag("SkillRefused", ({ message }) => Effect.fail(makeWorkFailure(SafeText.toLine(message)))))
    yield* printLine(`removed ${path} (${directory})`)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Remove a skill from your skills directory"))

/** Describes a proposed change with a line and the new text. */
const describeProposal = ({ change }: SkillProposals.Proposal): ReadonlyArray<string> => {
  const { action, name } = change
  const file = "file" in change && change.file !== undefined ? `/${change.file}` : ""
  const text = "content" in change ? change.content : "newText" in change ? change.newText : ""
  return [
    `${action} ${name}${file}`,
    ...("oldText" in change ? ["in place of:", ...change.oldText.split("\n").map((one) => `- ${one}`)] : []),
    ...(text === ""
      ? []
      : text
          .trimEnd()
          .split("\n")
          .map((one) => `${"oldText" in change ? "+" : "|"} ${one}`)),
    ...SkillFile.findWarnings(text).map((warning) => `Warning: the text ${warning}`)
  ].map(SafeText.toLine)
}

const proposed = Command.make(
  "proposed",
  { json },
  Effect.fn("hermes skills proposed")(function* ({ json }) {
    const { proposals } = yield* store
    const found = yield* proposals.list
    if (json) return yield* printLine(SafeText.toJson(found, 2))
    if (found.length === 0) return yield* printLine("No skill changes are proposed.")
    yield* printLine(
      found
        .map((one) =>
          describeProposal(one)
            .map((text, at) => (at === 0 ? `${one.id}  ${text}` : `  ${text}`))
            .join("\n")
        )
        .join("\n\n")
    )
    yield* printNote("Accept one with `hermes skills accept ID`, or dismiss it with `hermes skills dismiss ID`.")
  }, CommandSettings.provide)
).pipe(Command.withDescription("Show skill changes that reviews of conversations propose"))

const id = Argument.String("id").pipe(
  Argument.withDescription("Id of a proposal, as `hermes skills proposed` shows it")
)

/** Finds the proposal with the given id. */
const findProposal = Effect.fnUntraced(function* ({ proposals }: SkillStore.Service, id: string) {
  const all = yield* proposals.list
  const found = all.find((one) => one.id === id)
  return (
    found ??
    (yield* makeUnknownNameFailure("proposal", SafeText.toLine(id), {
      known: all.map((one) => one.id),
      list: "hermes skills proposed"
    }))
  )
})

const accept = Command.make(
  "accept",
  { id, yes },
  Effect.fn("hermes skills accept")(function* ({ id, yes }) {
    const skills = yield* store
    const one = yield* findProposal(skills, id)
    if (!yes) {
      yield* printNote(describeProposal(one).join("\n"))
      const isWanted = yield* Confirm.requireConfirmation(
        "Make this change?",
        "Not a terminal. Review `hermes skills proposed`, then pass --yes to accept it."
      )
      if (!isWanted) return yield* makeWorkFailure("not changed")
    }
    const { path } = yield* skills
      .change(one.change)
      .pipe(
        Effect.catchTag("SkillRefused", ({ message }) =>
          Effect.fail(
            makeWorkFailure(`${SafeText.toLine(message)}. Dismiss it with \`hermes skills dismiss ${one.id}\``)
          )
        )
      )
    yield* skills.proposals.remove(one.id)
    yield* printLine(`${one.change.action} ${one.change.name}: ${path}`)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Accept a proposed skill change"))

const dismiss = Command.make(
  "dismiss",
  { id },
  Effect.fn("hermes skills dismiss")(function* ({ id }) {
    const skills = yield* store
    const one = yield* findProposal(skills, id)
    yield* skills.proposals.remove(one.id)
    yield* printLine(`dismissed ${one.change.action} ${one.change.name}`)
  }, CommandSettings.provide)
).pipe(Command.withDescription("Dismiss a proposed skill change"))

/** Without a subcommand, lists the skills. */
export const command = Command.make("skills", { json }, listSkills).pipe(
  Command.withSubcommands([list, show, install, check, remove, proposed, accept, dismiss])
)
