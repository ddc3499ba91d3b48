/**
 * `hermes plugins`: lists and manages plugins. Code of a plugin that is not enabled runs only in `check` and `test`.
 *
 * The file also contains two parts of other commands: program commands provided by plugins (`hermes name …`, searched
 * only if the program has no command of that name and the user has enabled plugins), and the notice about plugins that
 * `--ignore-user-config` excludes.
 *
 * Source: `hermes-contract.md` §3.5 (`register_cli_command`) and §3.6, the NeMo Relay document, `hermes-product.md`
 * §1.1.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Argument from "effect/cli/Argument"
import * as Command from "effect/cli/Command"
import * as Config from "../../base/config/Config.ts"
import * as Edit from "../../base/config/Edit.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import { bundled } from "../../observe/Bundled.ts"
import { type Candidate, findDirectory } from "../../agent/plugin/Candidate.ts"
import { normalizeName } from "../../agent/plugin/Commands.ts"
import * as Discovery from "../../agent/plugin/Discovery.ts"
import * as Enablement from "../../agent/plugin/Enablement.ts"
import * as Installer from "../../agent/plugin/Installer.ts"
import * as PluginTemplate from "../../agent/plugin/PluginTemplate.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import { load, surroundings, selectTexts } from "./CommandSettings.ts"
import { confirmAction, requirePackageConsent } from "./Confirm.ts"
import { makeWorkFailure, makeUnknownNameFailure, makeUsageFailure } from "./Failure.ts"
import * as FolderTrust from "../../base/config/FolderTrust.ts"
import * as Flags from "./Flags.ts"
import * as PluginContents from "./PluginContents.ts"
import * as PluginSettings from "./PluginSettings.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import { Program } from "./Program.ts"
import { printLine, printNote, Output, renderTable, printWarnings } from "./ProgramOutput.ts"
import * as RecordedHealth from "./RecordedHealth.ts"
import * as SafeText from "./render/SafeText.ts"

const name = Argument.String("name").pipe(
  Argument.withDescription("Plugin key such as observability/nemo_relay, or its name")
)
const json = Flags.makeSwitch("json", "Print JSON")

/** Finds the installed plugins according to the plugin settings. */
export const discoverPlugins = Effect.fnUntraced(function* ({ packages }: Values["plugins"]) {
  const home = yield* Home
  const { get } = yield* Environment
  return yield* Discovery.discover({
    bundled,
    user: home.plugins,
    cwd: getWorkingDirectory(),
    trust: yield* FolderTrust.make,
    packages,
    variable: get
  })
})

/** An installed plugin and its status in the configuration. */
interface ListedPlugin {
  readonly candidate: Candidate
  readonly status: Enablement.Status
}

/** All installed plugins with their status. */
const known = Effect.gen(function* () {
  const {
    settings: { plugins }
  } = yield* load
  const found = yield* Effect.mapError(discoverPlugins(plugins), ({ message }) =>
    makeWorkFailure(`cannot list plugins: ${message}`)
  )
  yield* printWarnings(found.warnings.map(SafeText.toLine))
  return found.candidates.map((candidate): ListedPlugin => ({
    candidate,
    status: Enablement.describeStatus(candidate, plugins)
  }))
})

/** Finds the plugin with the given name. Plugins with the same name are distinguished by their keys. */
const findPlugin = Effect.fnUntraced(function* (name: string) {
  const all = yield* known
  const named = all.filter(({ candidate }) => candidate.names.includes(name))
  const found = named.find(({ candidate }) => candidate.key === name) ?? named[0]
  if (found === undefined) {
    const names = all.flatMap(({ candidate }) => candidate.names.map(SafeText.toLine))
    return yield* makeUnknownNameFailure("plugin", SafeText.toLine(name), { known: names, list: "hermes plugins list" })
  }
  if (named.length > 1 && found.candidate.key !== name) {
    return yield* makeUsageFailure(
      `"${name}" is ambiguous (${named.map(({ candidate }) => candidate.key).join(", ")}): pass the key`
    )
  }
  return found
})

const toListRow = ({ candidate: { key, manifest, source }, status }: ListedPlugin) => ({
  name: key,
  status,
  version: manifest.version,
  description: manifest.description,
  source
})

/** Adds the health of a plugin's middleware, if recent runs called it. */
const addHealth =
  (recorded: Effect.Success<typeof RecordedHealth.readHealth>) =>
  <Row extends { readonly name: string }>(row: Row): Row & { readonly health?: RecordedHealth.HealthCounts } => {
    const health = RecordedHealth.sumHealth(recorded, RecordedHealth.belongsTo(row.name))
    return health === undefined ? row : { ...row, health }
  }

const toHealthColumns = ({ health }: { readonly health?: RecordedHealth.HealthCounts }): ReadonlyArray<string> =>
  health === undefined ? [] : [RecordedHealth.formatHealth(health)]

const toColumns = (row: ReturnType<typeof toListRow>): ReadonlyArray<string> =>
  [row.status, row.name, row.version, row.source, row.description].map(SafeText.toLine)

const listFlags = {
  enabled: Flags.makeSwitch("enabled", "Only enabled plugins"),
  user: Flags.makeSwitch("user", "Only plugins in your plugins directory"),
  withoutBundled: Flags.makeSwitch("no-bundled", "Exclude built-in plugins"),
  plain: Flags.makeSwitch("plain", "One line per plugin, columns separated by tabs"),
  json
}

type Listing = Flags.Parsed<typeof listFlags>

const makeListFilter =
  ({ enabled, user, withoutBundled }: Listing) =>
  ({ candidate: { source }, status }: ListedPlugin): boolean =>
    (!enabled || status === "enabled") &&
    (!user || source === "user" || source === "git") &&
    (!withoutBundled || source !== "bundled")

/** Prints the installed plugins. */
const listPlugins = Effect.fn("hermes plugins list")(function* (listing: Listing) {
  const rows = (yield* known)
    .filter(makeListFilter(listing))
    .map(toListRow)
    .map(addHealth(yield* RecordedHealth.readHealth))
  if (listing.json) return yield* printLine(SafeText.toJson(rows, 2))
  if (listing.plain)
    return yield* rows.length === 0 ? Effect.void : printLine(rows.map((row) => toColumns(row).join("\t")).join("\n"))
  yield* rows.length === 0
    ? printLine("No plugins. Install one with `hermes plugins install`.")
    : printLine(renderTable(rows.map((row) => [...toColumns(row), ...toHealthColumns(row)])))
}, Effect.provide(surroundings))

const list = Command.make("list", listFlags, listPlugins).pipe(Command.withDescription("List plugins and their state"))

/** Prints the details of a plugin. */
const info = Command.make(
  "info",
  { name, json },
  Effect.fn("hermes plugins info")(
    function* ({ json, name }) {
      const found = yield* findPlugin(name)
      const { candidate } = found
      const { manifest } = candidate
      const { get } = yield* Environment
      const { settings } = yield* load
      // A plugin that is not enabled does not run.
      const contents =
        found.status === "enabled" ? yield* PluginContents.collectContents(settings, candidate) : undefined
      const { health, ...row } = addHealth(yield* RecordedHealth.readHealth)(toListRow(found))
      const facts = {
        ...row,
        kind: candidate.kind,
        author: manifest.author,
        path: findDirectory(candidate) ?? null,
        requires_env: manifest.requiresEnv.map((variable) => ({ ...variable, set: get(variable.name) !== undefined })),
        provides_tools: manifest.providesTools,
        provides_hooks: manifest.providesHooks,
        config: yield* PluginSettings.listSettings(candidate, found.status),
        ...(contents ?? { hooks: null, middleware: null, error: null })
      }
      if (json) return yield* printLine(SafeText.toJson(health === undefined ? facts : { ...facts, health }, 2))
      const registered = contents === undefined ? {} : PluginContents.describeContents(contents)
      const variables = facts.requires_env.map(({ name, set }) => `${name} (${set ? "set" : "not set"})`)
      const config = facts.config.map(PluginSettings.renderSetting)
      const shown = {
        ...facts,
        requires_env: variables,
        config,
        ...registered,
        health: toHealthColumns({ ...(health && { health }) })
      }
      const rows = Object.entries(shown).flatMap(([key, value]) => {
        const text = SafeText.toLine(typeof value === "string" ? value : (value?.join(", ") ?? ""))
        return text === "" ? [] : [[key, text]]
      })
      yield* printLine(renderTable(rows))
    },
    Effect.scoped,
    Effect.provide(FolderTrust.layer),
    Effect.provide(surroundings)
  )
).pipe(Command.withDescription("Show the details of a plugin; one that is not enabled does not run"))

type ListName = "enabled" | "disabled"

/** Adds a name to one list and removes it from the other. Returns true if the first list changed. */
const moveName = Effect.fnUntraced(function* (name: string, to: ListName, from: ListName) {
  let isNew = false
  const into = yield* Edit.modify(["plugins", to], (value) => {
    const names = selectTexts(value)
    isNew = !names.includes(name)
    return isNew ? [...names, name].toSorted() : (value ?? [])
  })
  const out = yield* Edit.modify(["plugins", from], (value) =>
    selectTexts(value).includes(name) ? selectTexts(value).filter((other) => other !== name) : value
  )
  yield* printWarnings([...into.warnings, ...out.warnings])
  return isNew
})

const enablePlugin = Effect.fnUntraced(function* (name: string) {
  const isNew = yield* moveName(name, "enabled", "disabled")
  yield* printLine(isNew ? `enabled ${name}; it takes effect in the next session` : `${name} is already enabled`)
  const { candidate, status } = yield* findPlugin(name)
  if (status === "disabled") {
    yield* printNote(
      `Warning: ${candidate.key} stays disabled: plugins.disabled lists it under another name ` +
        `(${candidate.names.join(", ")})`
    )
  }
})

/** Enables the plugin with the given name. */
const enable = Command.make(
  "enable",
  { name },
  Effect.fn("hermes plugins enable")(function* ({ name }) {
    yield* findPlugin(name)
    yield* enablePlugin(name)
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Enable a plugin from the next session"))

/** Disables the plugin with the given name. */
const disable = Command.make(
  "disable",
  { name },
  Effect.fn("hermes plugins disable")(function* ({ name }) {
    yield* findPlugin(name)
    const isNew = yield* moveName(name, "disabled", "enabled")
    yield* printLine(isNew ? `disabled ${name}; it takes effect in the next session` : `${name} is already disabled`)
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Disable a plugin (overrides every enable)"))

/** Installs a plugin. */
const install = Command.make(
  "install",
  {
    source: Argument.String("source").pipe(
      Argument.withDescription("Folder, address of a git repository, or owner/repo of GitHub")
    ),
    force: Flags.makeSwitch("force", "Replace a plugin with the same name"),
    enable: Flags.makeSwitch("enable", "Enable the plugin after installing it"),
    withDependencies: Flags.withDependencies,
    withoutEnabling: Flags.makeSwitch("no-enable", "Do not ask to enable the plugin")
  },
  Effect.fn("hermes plugins install")(
    function* (asked) {
      if (asked.enable && asked.withoutEnabling)
        return yield* makeUsageFailure("--enable and --no-enable cannot be combined")
      const home = yield* Home
      yield* home.ensure
      const { get } = yield* Environment
      const { terminal } = yield* Output
      const { directory, manifest, name, warnings } = yield* Installer.installPlugin(
        { source: asked.source, force: asked.force, cwd: getWorkingDirectory(), plugins: home.plugins },
        requirePackageConsent(asked.withDependencies)
      )
      yield* printWarnings(warnings.map(SafeText.toLine))
      yield* printLine(`installed ${name} in ${directory}`)
      for (const variable of manifest.requiresEnv.filter(({ name }) => get(name) === undefined)) {
        yield* printNote(
          SafeText.toLine(
            `It needs ${variable.name}${variable.description === undefined ? "" : ` (${variable.description})`}: ` +
              `set it in ${home.env}`
          )
        )
      }
      const isWanted =
        asked.enable || (!asked.withoutEnabling && terminal.input && (yield* confirmAction(`Enable ${name} now?`)))
      yield* isWanted ? enablePlugin(name) : printLine(`not enabled: enable it with \`hermes plugins enable ${name}\``)
    },
    Effect.scoped,
    Effect.provide(surroundings)
  )
).pipe(Command.withDescription("Install a plugin into your plugins directory; none of its code is run"))

/** Creates a new plugin. */
const create = Command.make(
  "new",
  {
    name: Argument.String("name").pipe(Argument.withDescription("Name in lower case with hyphens, such as my-plugin")),
    tool: Flags.makeSwitch("tool", "Write a tool"),
    middleware: Flags.makeSwitch("middleware", "Write middleware"),
    provider: Flags.makeSwitch("model-provider", "Write a provider of models; also --provider"),
    plain: Flags.makeSwitch("plain", "Write plain functions in JavaScript instead of typed Effects")
  },
  Effect.fn("hermes plugins new")(
    function* ({ middleware, name, plain, provider, tool }) {
      const home = yield* Home
      yield* home.ensure
      const parts = [
        ...(tool ? (["tool"] as const) : []),
        ...(middleware ? (["middleware"] as const) : []),
        ...(provider ? (["provider"] as const) : [])
      ]
      const directory = yield* PluginTemplate.createPlugin(name, home.plugins, { parts, isPlain: plain })
      yield* printLine(`wrote ${name} in ${directory}`)
      yield* printLine(
        `edit ${plain ? "index.js" : "index.ts"}, check it with \`hermes plugins check ${name}\`, test it with ` +
          `\`hermes plugins test ${name}\`, then enable it with \`hermes plugins enable ${name}\``
      )
    },
    Effect.scoped,
    Effect.provide(surroundings)
  )
).pipe(Command.withDescription("Create a plugin in your plugins directory, with a tool and middleware by default"))

const folder = Argument.String("path").pipe(
  Argument.withDescription("Folder of a plugin, or the name of an installed plugin; default: the current folder"),
  Argument.optional,
  Argument.map(Option.getOrUndefined)
)

/** Checks a plugin. */
const check = Command.make("check", { path: folder, json }, ({ json, path }) =>
  Effect.flatMap(
    Effect.promise(() => import("./PluginCheck.ts")),
    ({ checkFolder }) => checkFolder(path, json)
  ).pipe(Effect.scoped, Effect.provide(surroundings))
).pipe(Command.withDescription("Check the types, the manifest and the registrations of a plugin"))

/** Tests a plugin. */
const test = Command.make("test", { path: folder, json }, ({ json, path }) =>
  Effect.flatMap(
    Effect.promise(() => import("./PluginTest.ts")),
    ({ testFolder }) => testFolder(path, json)
  ).pipe(Effect.scoped, Effect.provide(surroundings))
).pipe(Command.withDescription("Run the scenarios of a plugin, streamed and not, without a model"))

/** Updates a plugin that is a Git checkout. */
const update = Command.make(
  "update",
  { name, withDependencies: Flags.withDependencies },
  Effect.fn("hermes plugins update")(function* ({ name, withDependencies }) {
    const { candidate } = yield* findPlugin(name)
    const directory = findDirectory(candidate)
    if (candidate.source !== "git" || directory === undefined) {
      return yield* makeUsageFailure(`${candidate.key} was not installed from git: reinstall it with --force`)
    }
    const consent = requirePackageConsent(withDependencies)
    const { after, before } = yield* Installer.updatePlugin(candidate.key, directory, consent)
    yield* printLine(
      after === before
        ? `${candidate.key} is up to date`
        : `updated ${candidate.key}: ${before.slice(0, 8)} → ${after.slice(0, 8)}`
    )
  }, Effect.provide(surroundings))
).pipe(Command.withDescription("Update a plugin installed from git"))

/** Removes a plugin and its entries in the configuration. */
const removePlugin = Effect.fn("hermes plugins remove")(function* ({ name }: { readonly name: string }) {
  const { candidate } = yield* findPlugin(name)
  const directory = yield* Installer.removePlugin(candidate)
  // A plugin that is later installed under this name is a different plugin, so the entries are removed.
  for (const entry of candidate.names) {
    yield* Edit.modify(["plugins", "enabled"], (value) =>
      selectTexts(value).includes(entry) ? selectTexts(value).filter((other) => other !== entry) : value
    )
  }
  yield* printLine(`removed ${candidate.key} (${directory})`)
}, Effect.provide(surroundings))

const remove = Command.make("remove", { name }, removePlugin).pipe(
  Command.withDescription("Remove a plugin from your plugins directory")
)

/** Without a subcommand, lists the plugins. */
export const command = Command.make("plugins", listFlags, listPlugins).pipe(
  Command.withSubcommands([list, info, enable, disable, install, create, check, test, update, remove])
)

const category = "observability/"

const lost = Effect.gen(function* () {
  const {
    settings: { plugins }
  } = yield* Config.load()
  const { candidates } = yield* discoverPlugins(plugins)
  return candidates.filter(
    (candidate) => candidate.key.startsWith(category) && Enablement.decideLoading(candidate, plugins)._tag === "Load"
  )
}).pipe(Effect.provide(surroundings))

/** Prints a warning to stderr that names the excluded plugins that export telemetry. */
export const warnAboutIgnoredPlugins = lost.pipe(
  // The configuration file is ignored, possibly because it cannot be read.
  Effect.orElseSucceed(() => []),
  Effect.flatMap((candidates) =>
    candidates.length === 0
      ? Effect.void
      : printNote(
          `Warning: --ignore-user-config leaves out ${candidates.map(({ key }) => key).join(", ")}: ` +
            "this run is not exported; enable them in the config.yaml of another HERMES_HOME"
        )
  )
)

/** Runs a plugin command and returns its exit code, or `undefined` if no plugin provides it. */
export const run = Effect.fnUntraced(
  function* (word: string, args: ReadonlyArray<string>, reserved: ReadonlyArray<string>) {
    const program = yield* Program
    // Errors in the settings are reported by the commands that need the settings.
    const loaded = yield* Effect.option(Config.load())
    if (Option.isNone(loaded) || loaded.value.settings.plugins.enabled.length === 0) return undefined
    const { settings } = loaded.value
    const names = { reserved: { commands: [], cliCommands: reserved } }
    // The output of the plugin's command is the answer.
    yield* (yield* Output).masked
    // A command may call the configured model. A command that calls no model runs without one.
    const runtime = yield* Effect.catchTag(Layer.build(program.layer(settings, names)), "ConfigError", () =>
      Layer.build(program.layer(settings, { ...names, withoutModel: true }))
    )
    return yield* Effect.gen(function* () {
      const { cliCommands } = yield* Plugins.use(({ loaded }) => loaded)
      const command = cliCommands.find(({ name }) => name === normalizeName(word))
      return command === undefined ? undefined : ((yield* command.run(args)) ?? 0)
    }).pipe(Effect.provideContext(runtime))
  },
  Effect.scoped,
  Effect.provide(surroundings)
)
