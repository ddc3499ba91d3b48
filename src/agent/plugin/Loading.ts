/**
 * Loads plugins, each in its own scope. If a plugin fails to load, its registrations are removed, and the others
 * continue.
 *
 * **Details**
 *
 * A plugin has {@link deadline} in total to import, build and bind its tools. A slower plugin is abandoned, and its
 * later registrations are removed immediately. When its scope closes, it has {@link unloadDeadline} to clean up.
 *
 * **Gotchas**
 *
 * A module that never yields while it is imported blocks the program: JavaScript has no way to stop it.
 *
 * Source: `hermes-contract.md` §3.4, `ARCHITECTURE.md` §5.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Scope from "effect/Scope"
import { Environment, HiddenVariables, ProcessVariables } from "../../base/config/Environment.ts"
import { isSecretName } from "../../base/domain/CredentialNames.ts"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import type { Hooks } from "../../hooks/Hooks.ts"
import * as IsolatedCall from "../../base/domain/IsolatedCall.ts"
import * as Faults from "../../middleware/Faults.ts"
import * as Frozen from "../../middleware/Frozen.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { ContextEngine } from "./ContextEngines.ts"
import { type Candidate, findDirectory, type Source } from "./Candidate.ts"
import * as Commands from "./Commands.ts"
import * as Contributions from "./Contributions.ts"
import * as Enablement from "./Enablement.ts"
import type { MessageInjection } from "./MessageInjection.ts"
import * as Manifest from "./Manifest.ts"
import * as Opening from "./Opening.ts"
import type { CliCommand, Command, ProviderSource } from "./Plugin.ts"
import * as PluginConfig from "./PluginConfig.ts"
import { PluginError } from "./PluginError.ts"
import type { Host } from "./RegisterContext.ts"
import * as Registration from "./Registration.ts"
import type { PluginToolAccess } from "./PluginToolAccess.ts"
import { RegistrationObserver } from "./RegistrationObserver.ts"

/** Time limit for loading one plugin. */
const deadline = Duration.seconds(10)

/** Time limit for a plugin to clean up. */
const unloadDeadline = Duration.seconds(10)

/** State of a plugin, loaded or not. */
export interface PluginInfo {
  readonly name: string
  readonly key: string
  readonly kind: Manifest.Kind
  readonly version: string
  readonly description: string
  readonly source: Source
  /** Path of the plugin on disk, `undefined` for code of the program or of an application. */
  readonly path: string | undefined
  readonly enabled: boolean
  readonly tools: number
  readonly hooks: number
  readonly middleware: number
  readonly commands: number
  /** Reason why the plugin is not loaded. */
  readonly error: string | undefined
}

/** Contributions of all loaded plugins of a runtime. The plugins' tools and hooks are already registered. */
export interface LoadedPlugins {
  /** By key. */
  readonly plugins: ReadonlyArray<PluginInfo>
  /** Middleware in load order. It is outermost in the stack of an agent. */
  readonly middleware: ReadonlyArray<Middleware.Contained>
  readonly providers: ReadonlyArray<ProviderSource>
  readonly memoryProviders: ReadonlyArray<MemoryProvider>
  readonly contextEngines: ReadonlyArray<ContextEngine>
  readonly commands: ReadonlyArray<Command>
  readonly cliCommands: ReadonlyArray<CliCommand>
}

/** Options for loading plugins. */
interface Options {
  readonly lists: Enablement.Lists
  /** Value of `plugins.entries` in the configuration: the settings of each plugin, by key. */
  readonly entries: Readonly<Record<string, Readonly<Record<string, unknown>>>>
  readonly reserved: Registration.ReservedNames
  readonly injection: MessageInjection
  readonly toolAccess: PluginToolAccess
  /** Number of times that plugins were loaded before; see `importModule`. */
  readonly generation: number
}

type Services = Hooks | ToolRegistry | FileSystem.FileSystem | Path.Path | Scope.Scope

const nothing: Registration.RegisteredContribution = {
  tools: [],
  listeners: 0,
  middleware: [],
  providers: [],
  memoryProviders: [],
  contextEngines: [],
  commands: [],
  cliCommands: []
}

interface Outcome {
  readonly info: PluginInfo
  readonly registered: Registration.RegisteredContribution
}

const makeOutcome = (
  candidate: Candidate,
  enabled: boolean,
  error: string | undefined,
  registered: Registration.RegisteredContribution = nothing
): Outcome => ({
  registered,
  info: {
    name: candidate.name,
    key: candidate.key,
    kind: candidate.kind,
    version: candidate.manifest.version,
    description: candidate.manifest.description,
    source: candidate.source,
    path: findDirectory(candidate),
    enabled,
    tools: registered.tools.length,
    hooks: registered.listeners,
    middleware: registered.middleware.length,
    commands: registered.commands.length + registered.cliCommands.length,
    error
  }
})

/** Creates the host of a plugin. It reports each fault of the plugin once. */
const makeHost = Effect.fnUntraced(function* (
  { key }: Candidate,
  config: Host["config"],
  { toolAccess, injection }: Pick<Options, "toolAccess" | "injection">
) {
  const run = Effect.runForkWith(yield* Effect.context<never>())
  const observer = yield* RegistrationObserver
  const said = new Set<string>()
  const warnOnce = (line: string): void => {
    if (said.has(line)) return
    said.add(line)
    observer?.onWarning(key, line, new Error().stack ?? "")
    run(Effect.logWarning(`plugin ${key}: ${line}`))
  }
  const injectMessage: Host["inject"] = (content, role) => {
    const taken = injection.inject(content, role)
    if (!taken) warnOnce("injectMessage needs a conversation in a terminal; its messages are dropped")
    return taken
  }
  return {
    config: Frozen.copy(config),
    warn: warnOnce,
    inject: injectMessage,
    dispatch: toolAccess.call,
    complete: toolAccess.complete
  } satisfies Host
})

/** Limits on the source files of a plugin that are examined in addition to its module. */
const sourceFiles = { depth: 3, count: 64, bytes: 256 * 1024 } as const

const isSource = (name: string): boolean => /\.[cm]?[jt]s$/.test(name) && !name.endsWith(".d.ts")

/** Lists the source files below a directory, except files of packages. */
const listSourceFiles = (
  directory: string,
  depth: number
): Effect.Effect<ReadonlyArray<string>, never, FileSystem.FileSystem | Path.Path> =>
  Effect.gen(function* () {
    const fs = yield* FileSystem.FileSystem
    const paths = yield* Path.Path
    const names = (yield* fs.readDirectory(directory))
      .filter((name) => !name.startsWith(".") && name !== "node_modules")
      .sort()
    const found: Array<string> = []
    for (const name of names) {
      if (found.length >= sourceFiles.count) break
      const path = paths.join(directory, name)
      if (isSource(name)) found.push(path)
      else if (depth > 1 && paths.extname(name) === "") found.push(...(yield* listSourceFiles(path, depth - 1)))
    }
    return found.slice(0, sourceFiles.count)
    // A path that is not a directory, or cannot be read, has no source files.
  }).pipe(Effect.orElseSucceed(() => []))

/** Extracts the names of variables that a source reads, in any of the ways in which code accesses `process.env`. */
const extractVariableNames = (source: string): ReadonlyArray<string> =>
  /\benv\b/.test(source) ? (source.match(/(?<![\w$])[A-Za-z_]\w{2,127}(?![\w$])/g) ?? []) : []

/** Variables of the process and of `.env`, if it exists. */
const environment = Effect.map(Effect.serviceOption(Environment), (found) =>
  Option.isSome(found) ? found.value.get : (): string | undefined => undefined
)

/**
 * Finds secrets that are set and that the code of a plugin on disk mentions without declaring them in its manifest. For
 * the plugin they are unset, both if they are hidden and if they are in `.env`.
 */
const findUndeclaredVariables = Effect.fnUntraced(function* ({ manifest, origin }: Candidate) {
  const hidden = yield* HiddenVariables
  if (origin._tag === "Value" || !hidden.isProgram) return []
  const variables = yield* ProcessVariables
  const get = yield* environment
  const isKept = (name: string): boolean =>
    hidden.isHidden(name) || (variables[name] === undefined && isSecretName(name) && get(name) !== undefined)
  const fs = yield* FileSystem.FileSystem
  const declared = new Set(manifest.requiresEnv.map(({ name }) => name))
  const files = [
    ...(origin.module === undefined ? [] : [origin.module]),
    ...(yield* listSourceFiles(origin.directory, sourceFiles.depth))
  ]
  const named = yield* Effect.forEach(Array.from(new Set(files)), (file) =>
    fs.stat(file).pipe(
      Effect.flatMap(({ size }) => (Number(size) > sourceFiles.bytes ? Effect.succeed("") : fs.readFileString(file))),
      Effect.map(extractVariableNames),
      Effect.orElseSucceed(() => [])
    )
  )
  return Array.from(new Set(named.flat()))
    .filter((name) => !declared.has(name) && isKept(name))
    .sort()
})

/** Loads a plugin in its scope, with all steps. */
const loadCandidate = Effect.fnUntraced(function* (
  candidate: Candidate,
  { toolAccess, entries, generation, injection, reserved }: Options
): Effect.fn.Return<Registration.RegisteredContribution, unknown, Services> {
  const { key } = candidate
  const given = Object.hasOwn(entries, key) ? (entries[key] ?? {}) : {}
  const config = yield* PluginConfig.decodeDeclared(candidate.manifest, given)
  const host = yield* makeHost(candidate, config, { toolAccess, injection })
  // Code from disk reads `process.env`, which contains the variables declared in its manifest and no other secrets.
  yield* (yield* HiddenVariables).lend(
    candidate.manifest.requiresEnv.map(({ name }) => name),
    yield* environment
  )
  for (const name of yield* findUndeclaredVariables(candidate)) {
    host.warn(
      `its code names ${name}, which is set but kept out of process.env because it holds a secret. ` +
        `If the plugin needs it, add it to requires_env in ${Manifest.fileNames[0]}.`
    )
  }
  const plugin = yield* Opening.openPlugin(candidate, host, generation)
  // The loader provides the services in a plugin's type. A plugin from disk has no known type, and fails if a service
  // is missing.
  const build = plugin.build as Effect.Effect<unknown, unknown, Scope.Scope>
  const built = yield* Effect.provideService(build, PluginConfig.GivenConfig, { key, values: config })
  const read = Contributions.readContribution(built)
  if (read._tag === "Wrong") return yield* new PluginError({ plugin: key, message: read.message })
  for (const warning of read.warnings) host.warn(warning)
  ;(yield* RegistrationObserver)?.onContribution(key, read.contribution, plugin.config)
  const mayOverride = candidate.source === "bundled" || given["allow_tool_override"] === true
  const queuesObservers = candidate.origin._tag !== "Value"
  return yield* Registration.registerContribution({ key, reserved, mayOverride, queuesObservers }, read.contribution)
})

const runUnloadWithDeadline = (work: Effect.Effect<void>): Effect.Effect<void> =>
  Effect.asVoid(IsolatedCall.attemptInterruptibly(work, unloadDeadline))

/** Describes a failure, in one line without secrets. */
const describeFailure = (cause: Cause.Cause<unknown>): string => {
  if (Cause.hasInterruptsOnly(cause)) return "it interrupted itself"
  const line = Faults.describeError(Cause.squash(cause)).replaceAll(/\s+/g, " ").trim()
  return Redaction.redactStart(line, 500)
}

/** Loads one plugin, or returns the reason for its failure. */
const loadOne = Effect.fnUntraced(function* (candidate: Candidate, options: Options) {
  const scope = yield* Scope.make()
  yield* Effect.addFinalizer((exit) => runUnloadWithDeadline(Scope.close(scope, exit)))
  const loading = loadCandidate(candidate, options).pipe(
    Effect.catchIf(
      (error) => error instanceof PluginConfig.InvalidConfig,
      (error) =>
        Effect.flatMap(PluginConfig.locateProblem(candidate.key, error), (message) =>
          Effect.fail(new PluginError({ plugin: candidate.key, message }))
        )
    ),
    Effect.provideService(Scope.Scope, scope)
  )
  const exit = yield* IsolatedCall.attemptInterruptibly(loading, deadline)
  if (exit !== undefined && Exit.isSuccess(exit)) return makeOutcome(candidate, true, undefined, exit.value)
  const observer = yield* RegistrationObserver
  if (exit !== undefined) observer?.onFailure(candidate.key, Cause.squash(exit.cause))
  const error = exit === undefined ? `it was not ready after ${Duration.format(deadline)}` : describeFailure(exit.cause)
  yield* runUnloadWithDeadline(Scope.close(scope, exit ?? Exit.void))
  yield* Effect.logWarning(`plugin ${candidate.key} is not loaded: ${error}`)
  return makeOutcome(candidate, false, error)
})

const summarizePlugin = ({
  enabled,
  error,
  hooks,
  key,
  middleware,
  path = "in the program",
  source,
  tools
}: PluginInfo): string =>
  `plugin ${key} (${source}, ${path}): ` +
  (enabled && error === undefined
    ? `${tools} tools, ${hooks} hooks, ${middleware} middleware`
    : (error ?? "left to others"))

/** Loads the enabled plugins in the given order. */
export const loadAll = Effect.fnUntraced(function* (
  candidates: ReadonlyArray<Candidate>,
  options: Options
): Effect.fn.Return<LoadedPlugins, never, Services> {
  const outcomes = yield* Effect.forEach(candidates, (candidate) => {
    const decision = Enablement.decideLoading(candidate, options.lists)
    return decision._tag === "Load"
      ? loadOne(candidate, options)
      : Effect.succeed(makeOutcome(candidate, decision.enabled, decision.reason))
  })
  for (const { info } of outcomes) yield* Effect.logDebug(summarizePlugin(info))
  const collectParts = <A>(
    part: (registered: Registration.RegisteredContribution) => ReadonlyArray<A>
  ): ReadonlyArray<A> => outcomes.flatMap(({ registered }) => part(registered))
  return {
    plugins: outcomes.map(({ info }) => info).toSorted((a, b) => (a.key < b.key ? -1 : 1)),
    middleware: collectParts(({ middleware }) => middleware),
    providers: collectParts(({ providers }) => providers),
    memoryProviders: collectParts(({ memoryProviders }) => memoryProviders),
    contextEngines: collectParts(({ contextEngines }) => contextEngines),
    commands: Commands.dropDuplicates(collectParts(({ commands }) => commands)),
    cliCommands: Commands.dropDuplicates(collectParts(({ cliCommands }) => cliCommands))
  }
})
