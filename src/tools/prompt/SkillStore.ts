/**
 * The skills of a user: procedures that the agent reads when a task requires them, in the open format of
 * agentskills.io.
 *
 * **Details**
 *
 * Skills are disclosed in steps: the system prompt has names and descriptions ({@link Service.block}), and
 * {@link Service.view} reads the text of a skill and its other files. Skills in the user's directory can be changed;
 * skills in external directories are read-only. A skill is offered if its system, tools and toolsets are available and
 * the settings do not disable it.
 *
 * Every change is atomic, under the file's lease across all processes. A text that tries to command the model against
 * its user or contains a credential is not written; a skill with a file `.pinned` is not deleted.
 *
 * Names take precedence in the order user, external directories, project, plugins. Skills of a project's own folder are
 * used only if the folder is trusted; otherwise the catalogue lists a problem.
 *
 * **Example** (Skills in a directory)
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
import { ConfigError } from "../../base/domain/AgentError.ts"
import { CurrentTenant } from "../../store/TenantScope.ts"
import * as SkillIndex from "./SkillIndex.ts"
import { applyChange, checkChange } from "./SkillChange.ts"
import * as SkillProposals from "./SkillProposals.ts"
import { refuseRequest, type SkillRefused } from "./SkillRefusal.ts"
import { buildSkillPath, findSkill, type SkillShelf, viewSkill } from "./SkillShelf.ts"
import * as SkillText from "./SkillText.ts"

export { SkillRefused } from "./SkillRefusal.ts"

/** Location and selection of skills. */
export interface Options {
  /** Directory of the user's own skills, absolute. */
  readonly directory: string
  /** Database that holds the leases of its writers. */
  readonly database: string
  /** Absolute paths of directories with further skills; they are never written. */
  readonly externalDirectories?: ReadonlyArray<string> | undefined
  /**
   * Directories of the project, read on each use and searched after the others; they are never written. A refusal
   * states why a directory is not used. A refusal says why one is not used.
   */
  readonly projectDirectories?:
    | Effect.Effect<ReadonlyArray<Pick<SkillIndex.Source, "directory" | "refusal">>>
    | undefined
  /** File that shares the index between processes; without it, every process reads all skills. */
  readonly snapshot?: string | undefined
  /** Name of the operating system as in Node: `linux`, `darwin`, `win32`. */
  readonly os: string
  /** Names of disabled skills. */
  readonly disabled?: ReadonlyArray<string> | undefined
  /** Replaces `${HERMES_SKILL_DIR}` and `${HERMES_SESSION_ID}` in the text of a skill; default: true. */
  readonly templateVars?: boolean | undefined
  /** Returns the toolsets that some tools belong to, for conditions of skills. By default, there are no toolsets. */
  readonly getToolsets?: ((tools: ReadonlySet<string>) => ReadonlySet<string>) | undefined
  /** Reads an environment variable, to determine the missing variables of a skill. */
  readonly variable?: ((name: string) => string | undefined) | undefined
}

/** A skill's text, or the text of another file in its directory. */
export interface View {
  readonly skill: SkillIndex.Skill
  /** Path of the file in the skill's directory; `undefined` for its `SKILL.md`. */
  readonly file?: string | undefined
  readonly text: string
  /** Files of the skill other than its `SKILL.md`, relative to its directory. */
  readonly files: ReadonlyArray<string>
  /** Environment variables that the skill needs and that are not set. */
  readonly missing: ReadonlyArray<string>
}

/** Selection of a text, and the session that reads it. */
export interface ViewOptions {
  /** Path relative to the skill's directory; the default is its `SKILL.md`. */
  readonly file?: string | undefined
  /** Session id that replaces `${HERMES_SESSION_ID}`. */
  readonly session?: string | undefined
}

/** A change of one skill. Names are directory names; files are relative to the skill's directory. */
export type Change = SkillProposals.Change

/** Result of a change. */
export interface ChangeResult {
  /** Absolute path of the written or removed file. */
  readonly path: string
  /** Commands in the new text that should be reviewed. */
  readonly warnings: ReadonlyArray<string>
}

/** A skill, and the reason why it is not offered; `undefined` if it is offered. */
export interface ListedSkill {
  readonly skill: SkillIndex.Skill
  readonly turnedOff: "disabled" | "other system" | undefined
}

/** The skills of a user. */
export interface Service {
  /** Every skill, including skills that are not offered. */
  readonly listed: Effect.Effect<ReadonlyArray<ListedSkill>>
  /** All enabled skills for this system. */
  readonly catalogue: Effect.Effect<SkillIndex.Catalogue>
  /** Reads a skill by its name, or by category and name, or a file in the directory of its `SKILL.md`. */
  readonly view: (name: string, options?: ViewOptions) => Effect.Effect<View, SkillRefused>
  readonly change: (change: Change) => Effect.Effect<ChangeResult, ConfigError | SkillRefused>
  /** Fails in the same way as the change would, without changing anything. */
  readonly check: (change: Change) => Effect.Effect<void, SkillRefused>
  /** Changes that wait for the user's approval. */
  readonly proposals: SkillProposals.Service
  /** Returns the path that a change would write or remove, for an approval; `undefined` if the change names no path. */
  readonly getPath: (name: string, category?: string) => Effect.Effect<string>
  /**
   * Adds the skills in the `skills/` directories of plugins, each under its plugin's key (`/` becomes `-`). They have
   * the lowest precedence and are never written.
   */
  readonly bring: (plugins: ReadonlyArray<{ readonly key: string; readonly directory: string }>) => Effect.Effect<void>
  /**
   * Renders the part of a system prompt that names the skills; `undefined` if there are no skills, or no skill tool is
   * offered.
   */
  readonly block: (tools: ReadonlySet<string>) => Effect.Effect<string | undefined>
}

/** See {@link Service}. */
export class SkillStore extends Context.Service<SkillStore, Service>()("hermes-effect/prompt/SkillStore") {}

/** Tools that use the index: a prompt includes it if at least one is offered. */
const tools = ["skills_list", "skill_view", "skill_manage"]

const maxBlocks = 8
const maxProblems = 5

/** Caches the parts of system prompts by the offered tools while the skills are unchanged. */
const makeBlocks = (options: Options, catalogue: Service["catalogue"]): Service["block"] => {
  const blocks = new Map<string, { readonly signature: string; readonly text: string | undefined }>()
  return Effect.fnUntraced(function* (offered) {
    if (!tools.some((tool) => offered.has(tool))) return undefined
    const found = yield* catalogue
    const toolsets = options.getToolsets?.(offered) ?? new Set<string>()
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
}

/** Returns the skills of plugins as sources of the index. */
const toPluginSources = (
  paths: Path.Path,
  plugins: Parameters<Service["bring"]>[0]
): ReadonlyArray<SkillIndex.Source> =>
  plugins.map(({ directory, key }): SkillIndex.Source => ({
    kind: "plugin",
    directory: paths.join(directory, "skills"),
    category: key.replaceAll("/", "-")
  }))

const ownedMessage = "skills belong to the owner of the application, and are not changed in the work for a tenant"

/** Refuses a change of skills within the work for a tenant, because all tenants share them. */
const requireOwner = <A, E>(effect: Effect.Effect<A, E>): Effect.Effect<A, E | SkillRefused> =>
  Effect.flatMap(CurrentTenant, (tenant): Effect.Effect<A, E | SkillRefused> =>
    tenant === undefined ? effect : refuseRequest(ownedMessage)
  )

/** Limits the proposals to the owner, because they may show the conversation of a tenant. */
const scopeProposals = (proposals: SkillProposals.Service): SkillProposals.Service => ({
  list: Effect.flatMap(CurrentTenant, (tenant) => (tenant === undefined ? proposals.list : Effect.succeed([]))),
  add: (change) =>
    Effect.flatMap(CurrentTenant, (tenant) =>
      tenant === undefined
        ? proposals.add(change)
        : Effect.fail(new ConfigError({ path: "tenant", message: ownedMessage }))
    ),
  remove: (id) =>
    Effect.flatMap(CurrentTenant, (tenant) => (tenant === undefined ? proposals.remove(id) : Effect.succeed(false)))
})

/** Creates the skill store of a user. */
export const make = (options: Options): Effect.Effect<Service, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const context = yield* Effect.context<FileSystem.FileSystem | Path.Path>()
    const disabled = new Set(options.disabled)
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
    const isForSystem = (skill: SkillIndex.Skill): boolean => SkillText.isForSystem(skill.facts, options.os)
    const shelf: SkillShelf = { fs, paths, options, everything, isDisabled }
    const proposals = SkillProposals.make({
      path: paths.join(options.directory, ".proposed.json"),
      database: options.database
    })
    const catalogue: Service["catalogue"] = Effect.map(everything, (found) => ({
      ...found,
      skills: found.skills.filter((skill) => isForSystem(skill) && !isDisabled(skill))
    }))
    return {
      listed: Effect.map(everything, ({ skills }) =>
        skills.map((skill) => ({
          skill,
          turnedOff: isDisabled(skill) ? "disabled" : isForSystem(skill) ? undefined : "other system"
        }))
      ),
      catalogue,
      view: (name, view) => Effect.provideContext(viewSkill(shelf, name, view), context),
      change: (change) => requireOwner(Effect.provideContext(applyChange(shelf, change), context)),
      check: (change) => requireOwner(Effect.provideContext(checkChange(shelf, change), context)),
      proposals: scopeProposals(yield* Effect.provideContext(proposals, context)),
      getPath: (name, category) =>
        Effect.map(Effect.option(findSkill(shelf, name)), (skill) =>
          Option.isSome(skill) && !skill.value.isReadOnly
            ? skill.value.directory
            : buildSkillPath(shelf, name, category)
        ),
      bring: (plugins) =>
        Effect.sync(() => {
          brought = [...brought, ...toPluginSources(paths, plugins)]
        }),
      block: makeBlocks(options, catalogue)
    }
  })

/** Provides {@link make} as a Layer. */
export const layer = (options: Options): Layer.Layer<SkillStore, never, FileSystem.FileSystem | Path.Path> =>
  Layer.effect(SkillStore, make(options))
