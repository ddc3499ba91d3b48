/**
 * Action of `hermes plugins check`: checks the types, the manifest and the registrations of a plugin. The plugin is
 * registered in a temporary home directory; nothing else of it runs.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import type * as Schema from "effect/Schema"
import type { ConfigField } from "../../agent/plugin/ConfigFields.ts"
import * as Manifest from "../../agent/plugin/Manifest.ts"
import type { Contribution } from "../../agent/plugin/Plugin.ts"
import * as PluginConfig from "../../agent/plugin/PluginConfig.ts"
import * as PluginFindings from "../../agent/plugin/PluginFindings.ts"
import { RegistrationObserver } from "../../agent/plugin/RegistrationObserver.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import * as TypeCheck from "../../agent/plugin/TypeCheck.ts"
import { getWorkingDirectory } from "../../base/platform/CurrentProcess.ts"
import * as CommandSettings from "./CommandSettings.ts"
import { failed, makeSilentFailure } from "./Failure.ts"
import { findFolder, makeTrial, type PluginFolder } from "./PluginTrial.ts"
import { listScenarios } from "./PluginScenario.ts"
import { printLine } from "./ProgramOutput.ts"
import * as SafeText from "./render/SafeText.ts"

type Finding = PluginFindings.Finding

/** Characters of a message that are printed: the compiler explains a type error at any length. */
const longest = 300

/** Registrations of a plugin in a trial. */
interface DryRegistration {
  readonly registered: PluginFindings.RegisteredNames | undefined
  readonly config: ReadonlyArray<ConfigField>
  readonly findings: ReadonlyArray<Finding>
}

/** Returns the settings for a plugin: of the user's configuration, or else of its first scenario that has some. */
const findConfig = Effect.fnUntraced(function* ({ candidate, directory }: PluginFolder) {
  const loaded = Option.getOrUndefined(yield* Effect.option(CommandSettings.load))
  const own = loaded?.settings.plugins.entries[candidate.key]
  if (own !== undefined) return own
  const scenarios = Option.getOrElse(yield* Effect.option(listScenarios(directory)), () => [])
  return scenarios.find(({ scenario }) => scenario.config !== undefined)?.scenario.config ?? {}
})

const readStack = (error: unknown): string => {
  if (!(error instanceof Error)) return ""
  return [error.cause, error].map((one) => (one instanceof Error ? (one.stack ?? "") : "")).join("\n")
}

/** Registers a plugin in a temporary home directory and returns its parts and the remarks about them. */
export const registerDry = Effect.fnUntraced(function* (folder: PluginFolder) {
  const { candidate, directory, module } = folder
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const source = yield* Effect.orElseSucceed(fs.readFileString(module), () => "")
  const findings: Array<Finding> = []
  let contribution: Contribution<unknown> | undefined
  let schema: Schema.Top | undefined
  const said = new Set<string>()
  const addFinding = (message: string, stack: string): void => {
    if (said.has(message)) return
    said.add(message)
    const frame = PluginFindings.findFrame(stack, directory + paths.sep)
    const quoted = Array.from(message.matchAll(/"([^"]+)"/g), ([, name = ""]) =>
      PluginFindings.findQuotedLine(source, name)
    )
    const line = quoted.find((found) => found !== undefined) ?? 1
    findings.push({ severity: "error", message, ...(frame ?? { file: module, line }) })
  }
  const trial = yield* makeTrial(folder, { files: "link", config: yield* findConfig(folder) })
  const services = yield* Layer.build(trial.makeLayer({ withoutModel: true })).pipe(
    Effect.provideService(RegistrationObserver, {
      onContribution: (_, given, config) => {
        contribution = given
        schema = config
      },
      onWarning: (_, line, stack) => addFinding(line, stack),
      onFailure: (_, error) => addFinding(error instanceof Error ? error.message : String(error), readStack(error))
    })
  )
  const { plugins } = yield* Effect.provideContext(
    Plugins.use(({ loaded }) => loaded),
    services
  )
  const error = plugins.find(({ key }) => key === candidate.key)?.error
  if (error !== undefined && findings.length === 0) addFinding(error, "")
  for (const warning of trial.warnings().filter((line) => !folder.warnings.includes(line))) {
    const [, line] = warning.startsWith(`plugin ${candidate.key}: `) ? (/: ([^]*)$/.exec(warning) ?? []) : []
    if (line !== undefined) addFinding(line, "")
  }
  const registered = contribution === undefined ? undefined : PluginFindings.listRegistered(contribution)
  if (registered !== undefined) findings.push(...PluginFindings.checkRegistered(registered, module, source))
  return {
    registered,
    config: schema === undefined ? candidate.manifest.config.fields : PluginConfig.describeSchema(schema),
    findings
  } satisfies DryRegistration
}, Effect.scoped)

const findManifest = Effect.fnUntraced(function* (directory: string) {
  const fs = yield* FileSystem.FileSystem
  const paths = yield* Path.Path
  const [first, second] = Manifest.fileNames
  const file = paths.join(directory, first)
  return (yield* Effect.orElseSucceed(fs.exists(file), () => false)) ? file : paths.join(directory, second)
})

/** Checks a plugin completely. */
const checkPlugin = Effect.fnUntraced(function* (folder: PluginFolder) {
  const fs = yield* FileSystem.FileSystem
  const types = yield* Effect.scoped(TypeCheck.checkTypes(folder.directory, folder.module))
  const dry = yield* registerDry(folder)
  const manifest = yield* findManifest(folder.directory)
  const ofManifest = yield* PluginFindings.checkManifest(yield* fs.readFileString(manifest), manifest, dry.registered)
  const findings = [...ofManifest, ...types.findings, ...dry.findings].toSorted((a, b) =>
    a.file < b.file ? -1 : a.file > b.file ? 1 : a.line - b.line
  )
  return { ...dry, compiler: types.compiler, findings }
})

const renderRegistered = (registered: PluginFindings.RegisteredNames): ReadonlyArray<string> =>
  Object.entries(registered).flatMap(([part, names]) => {
    const texts = names.map((one: string | { readonly kind: string; readonly name: string }) =>
      typeof one === "string" ? one : `${one.name} (${one.kind})`
    )
    return texts.length === 0 ? [] : [`${part}: ${texts.join(", ")}`]
  })

/** Renders a setting of a plugin: name, type, and facts about it. */
const renderField = ({ description, fallback, isRequired, isSecret, name, type }: ConfigField): string =>
  [
    `${name}: ${type}`,
    ...(isRequired ? ["required"] : []),
    ...(isSecret ? ["secret"] : []),
    ...(fallback === undefined || isSecret ? [] : [`default ${JSON.stringify(fallback)}`]),
    ...(description === "" ? [] : [description])
  ].join(", ")

/** Checks the plugin in a folder and prints one line for each finding. */
export const checkFolder = Effect.fn("hermes plugins check")(function* (path: string | undefined, json: boolean) {
  const paths = yield* Path.Path
  const folder = yield* findFolder(path)
  const { compiler, config, findings, registered } = yield* checkPlugin(folder)
  const isGood = findings.every(({ severity }) => severity === "warning")
  if (json) {
    const { candidate, directory } = folder
    const report = {
      plugin: candidate.key,
      directory,
      ok: isGood,
      types: compiler ?? null,
      registers: registered ?? null,
      config,
      findings
    }
    yield* printLine(SafeText.toJson(report, 2))
  } else {
    const cwd = getWorkingDirectory()
    for (const { file, line, message, severity } of findings) {
      const place = paths.relative(cwd, file)
      const shown = message.length > longest ? `${message.slice(0, longest)} … (--json prints all)` : message
      yield* printLine(SafeText.toLine(`${place.startsWith("..") ? file : place}:${line}: ${severity}: ${shown}`))
    }
    for (const line of registered === undefined ? [] : renderRegistered(registered))
      yield* printLine(SafeText.toLine(line))
    for (const field of config) yield* printLine(SafeText.toLine(`config ${renderField(field)}`))
    if (isGood) {
      const typed = compiler === undefined ? "types not checked" : `types checked by ${compiler}`
      yield* printLine(SafeText.toLine(`${folder.candidate.key} is valid (${typed})`))
    }
  }
  if (!isGood) return yield* makeSilentFailure(failed)
})
