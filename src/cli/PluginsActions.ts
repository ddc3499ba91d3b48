/**
 * Actions of `hermes plugins`. None of them runs code of a plugin.
 *
 * Source: `hermes-contract.md` §3.6.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Prompt from "effect/cli/Prompt"
import * as Config from "../config/Config.ts"
import * as Edit from "../config/Edit.ts"
import { Environment } from "../config/Environment.ts"
import { Home } from "../config/Home.ts"
import { bundled } from "../observability/Bundled.ts"
import { type Candidate, directoryOf } from "../plugin/Candidate.ts"
import * as Discovery from "../plugin/Discovery.ts"
import * as Enablement from "../plugin/Enablement.ts"
import * as Git from "../plugin/Git.ts"
import * as Installer from "../plugin/Installer.ts"
import { notDone, unknownName, usage } from "./Failure.ts"
import * as Flags from "./Flags.ts"
import { workingDirectory } from "./internal/machine.ts"
import { line, note, Output } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

const surroundings = Layer.provideMerge(Environment.layer, Home.layer)

/** A plugin that is here, and what the configuration makes of it. */
interface ListedPlugin {
  readonly candidate: Candidate
  readonly status: Enablement.Status
}

/** Everything that is here. */
const known = Effect.fnUntraced(function*(flags: Flags.Globals) {
  const home = yield* Home
  const environment = yield* Environment
  const { settings: { plugins } } = yield* Config.load(Flags.configOptions(flags))
  const found = yield* Discovery.discover({
    bundled,
    user: home.plugins,
    cwd: workingDirectory(),
    packages: plugins.packages,
    variable: environment.get
  }).pipe(Effect.mapError(({ message }) => notDone(`cannot list plugins: ${message}`)))
  for (const warning of found.warnings) yield* note(`Warning: ${SafeText.line(warning)}`)
  return found.candidates.map((candidate): ListedPlugin => ({ candidate, status: Enablement.status(candidate, plugins) }))
})

/** The plugin of a name; several with one name are told apart by their keys. */
const one = Effect.fnUntraced(function*(flags: Flags.Globals, name: string) {
  const all = yield* known(flags)
  const named = all.filter(({ candidate }) => candidate.names.includes(name))
  const found = named.find(({ candidate }) => candidate.key === name) ?? named[0]
  if (found === undefined) {
    const names = all.flatMap(({ candidate }) => candidate.names.map(SafeText.line))
    return yield* unknownName("plugin", SafeText.line(name), { known: names, list: "hermes plugins list" })
  }
  if (named.length > 1 && found.candidate.key !== name) {
    return yield* usage(`"${name}" is ambiguous (${named.map(({ candidate }) => candidate.key).join(", ")}): pass the key`)
  }
  return found
})

const listed = ({ candidate: { key, manifest, source }, status }: ListedPlugin) => ({
  name: key,
  status,
  version: manifest.version,
  description: manifest.description,
  source
})

const columns = (row: ReturnType<typeof listed>): ReadonlyArray<string> =>
  [row.status, row.name, row.version, row.source, row.description].map(SafeText.line)

const table = (rows: ReadonlyArray<ReadonlyArray<string>>): string => {
  const width = (column: number): number => Math.max(...rows.map((row) => row[column]?.length ?? 0))
  return rows.map((row) => row.map((cell, column) => cell.padEnd(width(column))).join("  ").trimEnd()).join("\n")
}

/** Filters and format of a list. */
export interface Listing {
  readonly enabled: boolean
  readonly user: boolean
  readonly withoutBundled: boolean
  readonly plain: boolean
  readonly json: boolean
}

const wanted = ({ enabled, user, withoutBundled }: Listing) => ({ candidate: { source }, status }: ListedPlugin): boolean =>
  (!enabled || status === "enabled") && (!user || source === "user" || source === "git") &&
  (!withoutBundled || source !== "bundled")

/** Prints those that are here. */
export const list = Effect.fn("hermes plugins list")(function*(flags: Flags.Globals, listing: Listing) {
  const rows = (yield* known(flags)).filter(wanted(listing)).map(listed)
  if (listing.json) return yield* line(SafeText.json(rows, 2))
  if (listing.plain) return yield* rows.length === 0 ? Effect.void : line(rows.map((row) => columns(row).join("\t")).join("\n"))
  yield* rows.length === 0
    ? line("No plugins. Install one with `hermes plugins install`.")
    : line(table(rows.map(columns)))
}, Effect.provide(surroundings))

/** Prints what is known of one. */
export const info = Effect.fn("hermes plugins info")(function*(
  flags: Flags.Globals,
  { json, name }: { readonly json: boolean; readonly name: string }
) {
  const found = yield* one(flags, name)
  const { candidate } = found
  const { manifest } = candidate
  const { get } = yield* Environment
  const facts = {
    ...listed(found),
    kind: candidate.kind,
    author: manifest.author,
    path: directoryOf(candidate) ?? null,
    requires_env: manifest.requiresEnv.map((variable) => ({ ...variable, set: get(variable.name) !== undefined })),
    provides_tools: manifest.providesTools,
    provides_hooks: manifest.providesHooks
  }
  if (json) return yield* line(SafeText.json(facts, 2))
  const variables = facts.requires_env.map(({ name, set }) => `${name} (${set ? "set" : "not set"})`)
  const rows = Object.entries({ ...facts, requires_env: variables }).flatMap(([key, value]) => {
    const text = SafeText.line(typeof value === "string" ? value : value?.join(", ") ?? "")
    return text === "" ? [] : [[key, text]]
  })
  yield* line(table(rows))
}, Effect.provide(surroundings))

const texts = (value: unknown): ReadonlyArray<string> =>
  Array.isArray(value) ? value.filter((item): item is string => typeof item === "string") : []

type ListName = "enabled" | "disabled"

/** Puts a name into one list and takes it out of the other; whether the first changed. */
const move = Effect.fnUntraced(function*(name: string, to: ListName, from: ListName) {
  let isNew = false
  const into = yield* Edit.modify(["plugins", to], (value) => {
    const names = texts(value)
    isNew = !names.includes(name)
    return isNew ? [...names, name].toSorted() : value ?? []
  })
  const out = yield* Edit.modify(["plugins", from], (value) =>
    texts(value).includes(name) ? texts(value).filter((other) => other !== name) : value)
  for (const warning of [...into.warnings, ...out.warnings]) yield* note(`Warning: ${warning}`)
  return isNew
})

interface Named {
  readonly name: string
}

const enabling = Effect.fnUntraced(function*(flags: Flags.Globals, name: string) {
  const isNew = yield* move(name, "enabled", "disabled")
  yield* line(isNew ? `enabled ${name}; it takes effect in the next session` : `${name} is already enabled`)
  const { candidate, status } = yield* one(flags, name)
  if (status === "disabled") {
    yield* note(`Warning: ${candidate.key} stays disabled: plugins.disabled lists it under another name (${candidate.names.join(", ")})`)
  }
})

/** Enables one by the name that was given. */
export const enable = Effect.fn("hermes plugins enable")(function*(flags: Flags.Globals, { name }: Named) {
  yield* one(flags, name)
  yield* enabling(flags, name)
}, Effect.provide(surroundings))

/** Disables one by the name that was given. */
export const disable = Effect.fn("hermes plugins disable")(function*(flags: Flags.Globals, { name }: Named) {
  yield* one(flags, name)
  const isNew = yield* move(name, "disabled", "enabled")
  yield* line(isNew ? `disabled ${name}; it takes effect in the next session` : `${name} is already disabled`)
}, Effect.provide(surroundings))

const confirmed = (name: string) =>
  Effect.flatMap(Output, ({ terminal }) =>
    terminal.input
      // Somebody who leaves the question has not said yes.
      ? Effect.orElseSucceed(Prompt.run(Prompt.Confirm({ message: `Enable ${name} now?`, initial: false })), () => false)
      : Effect.succeed(false))

/** Installs one. */
export const install = Effect.fn("hermes plugins install")(function*(
  flags: Flags.Globals,
  asked: { readonly source: string; readonly force: boolean; readonly enable: boolean; readonly withoutEnabling: boolean }
) {
  if (asked.enable && asked.withoutEnabling) return yield* usage("--enable and --no-enable exclude each other: use one of them")
  const home = yield* Home
  yield* home.ensure
  const { get } = yield* Environment
  const { directory, manifest, name, warnings } = yield* Installer.install({
    source: asked.source,
    force: asked.force,
    cwd: workingDirectory(),
    plugins: home.plugins
  })
  for (const warning of warnings) yield* note(`Warning: ${SafeText.line(warning)}`)
  yield* line(`installed ${name} in ${directory}`)
  for (const variable of manifest.requiresEnv.filter(({ name }) => get(name) === undefined)) {
    yield* note(SafeText.line(`It needs ${variable.name}${variable.description === undefined ? "" : ` (${variable.description})`}: set it in ${home.env}`))
  }
  const isWanted = asked.enable || (!asked.withoutEnabling && (yield* confirmed(name)))
  yield* isWanted ? enabling(flags, name) : line(`not enabled: enable it with \`hermes plugins enable ${name}\``)
}, Effect.scoped, Effect.provide(surroundings))

/** Updates one that is a checkout. */
export const update = Effect.fn("hermes plugins update")(function*(flags: Flags.Globals, { name }: Named) {
  const { candidate } = yield* one(flags, name)
  const directory = directoryOf(candidate)
  if (candidate.source !== "git" || directory === undefined) {
    return yield* usage(`${candidate.key} was not installed from git: reinstall it with --force`)
  }
  const { after, before } = yield* Git.update(candidate.key, directory)
  yield* line(after === before ? `${candidate.key} is up to date` : `updated ${candidate.key}: ${before.slice(0, 8)} → ${after.slice(0, 8)}`)
}, Effect.provide(surroundings))

/** Removes one, and what the configuration says of it. */
export const remove = Effect.fn("hermes plugins remove")(function*(flags: Flags.Globals, { name }: Named) {
  const { candidate } = yield* one(flags, name)
  const directory = yield* Installer.remove(candidate)
  // Another plugin that gets this name one day is another plugin.
  for (const entry of candidate.names) {
    yield* Edit.modify(["plugins", "enabled"], (value) =>
      texts(value).includes(entry) ? texts(value).filter((other) => other !== entry) : value)
  }
  yield* line(`removed ${candidate.key} (${directory})`)
}, Effect.provide(surroundings))
