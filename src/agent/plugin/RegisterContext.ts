/**
 * Argument of `register(ctx)` in a plugin module: the plain-function API of plugins, with the contract's names.
 * Registrations are collected and take effect only if `register` succeeds.
 *
 * **Details**
 *
 * Every member has a camelCase and a snake_case name. Callbacks receive one frozen object with the contract's fields
 * and may return values, promises or Effects. An unknown kind or an invalid callback causes a warning that names the
 * nearest valid one; a part that this runtime does not support causes a warning too. An unusable tool is an error,
 * because the plugin would be incomplete without it.
 *
 * **Gotchas**
 *
 * In the program, `process.env` does not contain variables with secrets. A plugin can read only the secrets, including
 * values of `.env`, that `requires_env` of its manifest names. Loading logs a warning for a variable that the code
 * names but the manifest does not. Processes that the plugin starts without an explicit environment inherit its secrets
 * too.
 *
 * Source: the middleware document, the observer document ("Contract"), `hermes-contract.md` §1.1, §2.1 and §3.5.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { findNearest } from "../../base/domain/Similarity.ts"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import * as Hook from "../../hooks/Hook.ts"
import { type Registrable, registrable } from "../../middleware/Kind.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as Plain from "../../middleware/Plain.ts"
import type { CallOf } from "../../middleware/PlainCall.ts"
import * as PlainLifecycle from "../../middleware/PlainLifecycle.ts"
import * as ContextEngines from "./ContextEngines.ts"
import type { Candidate } from "./Candidate.ts"
import type { Manifest } from "./Manifest.ts"
import * as PlainMemory from "./PlainMemory.ts"
import * as PlainProvider from "./PlainProvider.ts"
import * as PlainTool from "./PlainTool.ts"
import type { CliCommand, Command, Contribution, ProviderSource } from "./Plugin.ts"

/** Options of a callback. */
export interface CallbackOptions {
  /** Meaning of a failure. `"closed"` is for a policy: if it fails, the call is rejected. */
  readonly onFailure?: "open" | "closed" | undefined
}

/** Options of a hook. */
export interface HookOptions extends CallbackOptions {
  /**
   * Delivery of events to an observer. By default, the run does not wait: the events of a plugin's observers are
   * handled in order, in one queue of the plugin. `"queued"` uses a separate queue, and `"inline"` lets the
   * run wait for each event, for at most 5 s.
   */
  readonly delivery?: "inline" | "queued" | undefined
  /** Maximum number of waiting events. Defaults to 1024. */
  readonly capacity?: number | undefined
}

/** Help text of a command. */
export interface CommandOptions {
  readonly description?: string | undefined
  readonly argsHint?: string | undefined
}

/** Members of the `register(ctx)` argument. Each member also has a snake_case name, which is the contract's. */
export interface Members {
  readonly registerMiddleware: <const Kind extends string>(
    kind: Kind,
    callback: (call: CallOf<Kind>) => unknown,
    options?: CallbackOptions
  ) => void
  /**
   * Registers methods for the phases of a run, in either spelling: an object, or a class or function that creates an
   * object for each run. A method receives one frozen object with fields in snake_case, and returns the fields that it
   * changes.
   */
  readonly registerLifecycle: (
    methods: PlainLifecycle.PlainLifecycleSource,
    options?: CallbackOptions & { readonly name?: string | undefined }
  ) => void
  readonly registerHook: <const Name extends string>(
    name: Name,
    callback: (event: Hook.EventOf<Name>) => unknown,
    options?: HookOptions
  ) => void
  readonly registerTool: (tool: PlainTool.PlainTool) => void
  readonly registerCommand: (
    name: string,
    handler: (args: string) => unknown,
    description?: string | CommandOptions,
    argsHint?: string
  ) => void
  readonly registerCliCommand: (
    name: string,
    handler: (args: ReadonlyArray<string>) => unknown,
    options?: CommandOptions
  ) => void
  /**
   * Registers a provider. `open` returns a provider, or a promise or an Effect of a provider. A plain provider is
   * `{ execute }`; see {@link PlainProvider.PlainProvider}.
   */
  readonly registerProvider: (source: PlainProvider.PlainSource) => void
  /** Registers an external memory. The setting `memory.provider` names the memory that is used. */
  readonly registerMemoryProvider: (provider: PlainMemory.PlainMemory) => void
  /**
   * Registers an engine that compacts conversations, at most one per plugin. The setting `context.engine` names the
   * engine that is used.
   */
  readonly registerContextEngine: (engine: ContextEngines.PlainContextEngine) => void
  /** Sends text to the conversation in a terminal. Returns `false` if there is no such conversation. */
  readonly injectMessage: (content: string, role?: string) => boolean
  /**
   * Calls a tool as a model would, with approvals and hooks, and returns the text of its result. `extra` may contain
   * `session_id` and `cwd`. Not available while `register` runs.
   */
  readonly dispatchTool: (name: string, args?: unknown, extra?: unknown) => Promise<string>
  /** Registers a callback that runs when the plugin is unloaded. */
  readonly onUnload: (callback: () => unknown) => void
}

type Snake<Name extends string> = Name extends `${infer Letter}${infer Rest}`
  ? Letter extends Lowercase<Letter>
    ? `${Letter}${Snake<Rest>}`
    : `_${Lowercase<Letter>}${Snake<Rest>}`
  : ""

type Aliases = { readonly [Name in keyof Members as Snake<Name>]: Members[Name] }

/** The argument of `register(ctx)` of a plugin module. `Config` is the type of its settings. */
export interface RegisterContext<out Config = Readonly<Record<string, unknown>>> extends Members, Aliases {
  readonly key: string
  readonly manifest: Manifest
  /**
   * Value of `plugins.entries.<key>` in the configuration. If the manifest or the module declares settings, they were
   * checked, and defaults were applied.
   */
  readonly config: Config
  /**
   * Model for side tasks of plugins. `options` may contain `system` and `max_tokens`. Not available while `register`
   * runs.
   */
  readonly llm: { readonly complete: (prompt: string, options?: unknown) => Promise<string> }
}

/** Functions that the runtime provides to a plugin. */
export interface Host {
  readonly config: Readonly<Record<string, unknown>>
  /** Receives warnings. */
  readonly warn: (line: string) => void
  readonly inject: (content: string, role: string) => boolean
  readonly dispatch: (name: string, args: unknown, extra: unknown) => Promise<string>
  readonly complete: (prompt: unknown, options: unknown) => Promise<string>
}

/** Collects the registrations of a plugin until registration ends. */
export interface Collector {
  readonly context: RegisterContext
  /** Ends registration and returns the contribution. Nothing can be registered afterwards. */
  readonly finish: () => Contribution<unknown>
  readonly unload: ReadonlyArray<() => unknown>
}

/** Members of the contract that this runtime does not support. */
const unsupported = [
  "register_skill",
  "register_auxiliary_task",
  "register_platform",
  "register_image_gen_provider",
  "register_video_gen_provider",
  "register_web_search_provider",
  "register_browser_provider",
  "register_tts_provider",
  "register_transcription_provider",
  "register_dashboard_auth_provider"
]

const makeMiddleware: {
  readonly [K in Registrable]: (options: Middleware.Registration, callback: Plain.Callback) => Middleware.Any
} = {
  llm_request: Plain.llmRequest,
  llm_execution: Plain.llmExecution,
  tool_request: Plain.toolRequest,
  tool_execution: Plain.toolExecution,
  wrap_model_call: Plain.wrapModelCall,
  wrap_tool_call: Plain.wrapToolCall
}

const isRegistrable = (kind: string): kind is Registrable => registrable.some((known) => known === kind)

const suggestName = (word: string, known: ReadonlyArray<string>): string => {
  const meant = findNearest(word, known)
  return meant === undefined ? "" : `, did you mean ${meant}?`
}

const toCamelCase = (name: string): string => name.replaceAll(/_([a-z])/g, (_, letter: string) => letter.toUpperCase())
const toSnakeCase = (name: string): string => name.replaceAll(/[A-Z]/g, (letter) => `_${letter.toLowerCase()}`)

const readOnFailure = (options: unknown): "open" | "closed" =>
  Predicate.isObject(options) && (options["onFailure"] === "closed" || options["on_failure"] === "closed")
    ? "closed"
    : "open"

const readCommandOptions = (given: unknown, argsHint: unknown): CommandOptions =>
  Predicate.isObject(given)
    ? {
        description: PlainMemory.readText(given["description"]) ?? PlainMemory.readText(given["help"]),
        argsHint: PlainMemory.readText(given["argsHint"]) ?? PlainMemory.readText(given["args_hint"])
      }
    : { description: PlainMemory.readText(given), argsHint: PlainMemory.readText(argsHint) }

/** The registrations of one plugin. */
interface Registrations {
  readonly key: string
  readonly warn: (line: string) => void
  readonly hooks: Array<Hook.Hook>
  readonly middleware: Array<Middleware.Any>
  readonly tools: Array<NonNullable<Contribution<unknown>["tools"]>[number]>
  readonly commands: Array<Command>
  readonly cliCommands: Array<CliCommand>
  readonly providers: Array<ProviderSource<unknown>>
  readonly memoryProviders: Array<MemoryProvider>
  readonly contextEngines: Array<ContextEngines.ContextEngine>
  readonly unload: Array<() => unknown>
  isOpen: boolean
}

const formatLabel = ({ key }: Registrations, callback: { readonly name: string }): string =>
  callback.name === "" ? key : `${key}:${callback.name}`

/** Creates a member that only works until `register` returns. */
const guardRegistration =
  <Args extends ReadonlyArray<unknown>>(
    registrations: Registrations,
    member: string,
    run: (registrations: Registrations, ...args: Args) => void
  ) =>
  (...args: Args): void => {
    if (!registrations.isOpen)
      throw new Error(`${member} of plugin ${registrations.key} was called after register() had returned`)
    run(registrations, ...args)
  }

const hasCallback = ({ warn }: Registrations, what: string, callback: unknown): boolean => {
  if (Predicate.isFunction(callback)) return true
  warn(`${what} is ignored: its callback is not a function`)
  return false
}

const registerMiddleware = (
  registrations: Registrations,
  kind: string,
  callback: Plain.Callback,
  options?: CallbackOptions
): void => {
  if (!isRegistrable(kind)) {
    registrations.warn(
      `no middleware is of kind "${kind}"${suggestName(kind, registrable)} ` +
        `(known kinds: ${registrable.toSorted().join(", ")}); it is never called`
    )
  } else if (hasCallback(registrations, `middleware ${kind}`, callback)) {
    const label = formatLabel(registrations, callback)
    registrations.middleware.push(makeMiddleware[kind]({ name: label, onFailure: readOnFailure(options) }, callback))
  }
}

const registerLifecycle = ({ key, middleware }: Registrations, methods: unknown, options?: unknown): void => {
  const found = PlainLifecycle.findName(methods, options)
  const name = found === undefined ? key : `${key}:${found}`
  middleware.push(PlainLifecycle.make({ name, onFailure: readOnFailure(options) }, methods))
}

const registerHook = (
  registrations: Registrations,
  name: string,
  callback: Plain.Callback,
  options?: HookOptions
): void => {
  if (!hasCallback(registrations, `hook ${name}`, callback)) return
  const { hooks, warn } = registrations
  const label = formatLabel(registrations, callback)
  const delivery: unknown = options?.delivery
  if (delivery !== undefined && delivery !== "inline" && delivery !== "queued") {
    warn(`delivery of hook ${name} is "inline" or "queued"; it is inline now`)
  } else if (delivery === "queued") {
    if (!Hook.canAnswer(name)) {
      hooks.push(Hook.fromPlain(name, callback, { label, mode: "queued", capacity: options?.capacity }))
      return
    }
    warn(`hook ${name} may answer, so that it cannot be queued: the run waits for it`)
  }
  // This is the only hook whose failure can refuse a call.
  hooks.push(
    name === "pre_tool_call"
      ? Hook.fromPlain(name, callback, { label, onFailure: readOnFailure(options) })
      : Hook.fromPlain(name, callback, { label, ...(delivery === undefined ? {} : { mode: "inline" }) })
  )
}

const registerTool = ({ key, tools }: Registrations, tool: unknown): void =>
  void tools.push(PlainTool.makeToolset(PlainTool.readPlainTool(tool), key))

const registerCommand = (
  registrations: Registrations,
  name: string,
  handler: (args: string) => unknown,
  description?: unknown,
  argsHint?: unknown
): void => {
  if (!hasCallback(registrations, `command ${name}`, handler)) return
  const run: Command["run"] = (args) =>
    Effect.map(
      PlainMemory.runPlain(() => handler(args)),
      (value) => (typeof value === "string" ? value : undefined)
    )
  registrations.commands.push({ name, ...readCommandOptions(description, argsHint), run })
}

const registerCliCommand = (
  registrations: Registrations,
  name: string,
  handler: (args: ReadonlyArray<string>) => unknown,
  options?: unknown
): void => {
  if (!hasCallback(registrations, `CLI command ${name}`, handler)) return
  const run: CliCommand["run"] = (args) =>
    Effect.map(
      PlainMemory.runPlain(() => handler(args)),
      (value) => (typeof value === "number" ? value : undefined)
    )
  const { description } = readCommandOptions(options, undefined)
  registrations.cliCommands.push({ name, description, run })
}

const registerProvider = ({ providers, warn }: Registrations, source: PlainProvider.PlainSource): void => {
  if (PlainMemory.readText(source.name) !== undefined && Predicate.isFunction(source.open))
    providers.push(PlainProvider.makeSource(source))
  else warn("registerProvider takes { name, open }; it is ignored")
}

const registerMemoryProvider = ({ memoryProviders, warn }: Registrations, provider: unknown): void => {
  const read = PlainMemory.readMemoryProvider(provider)
  if (read === undefined)
    warn(
      "registerMemoryProvider must be given { name, prefetch, sync_turn?, system_prompt_block?, on_pre_compress?, " +
        "on_memory_write?, on_session_end? }; it is ignored"
    )
  else memoryProviders.push(read)
}

const registerContextEngine = ({ contextEngines, warn }: Registrations, engine: unknown): void => {
  const read = ContextEngines.readEngine(engine, PlainMemory.runPlain)
  if (read === undefined)
    warn(
      "registerContextEngine must be given { name, compress, threshold? } with a threshold above 0 and up to 1; " +
        "it is ignored"
    )
  else if (contextEngines.length > 0) warn(`its context engine "${read.name}" is ignored: a plugin has one`)
  else contextEngines.push(read)
}

const onUnload = (registrations: Registrations, callback: () => unknown): void => {
  if (hasCallback(registrations, "onUnload", callback)) registrations.unload.push(callback)
}

const makeRegistrations = (key: string, warn: Registrations["warn"]): Registrations => ({
  key,
  warn,
  hooks: [],
  middleware: [],
  tools: [],
  commands: [],
  cliCommands: [],
  providers: [],
  memoryProviders: [],
  contextEngines: [],
  unload: [],
  isOpen: true
})

const makeMembers = (registrations: Registrations, host: Host) => ({
  registerMiddleware: guardRegistration(registrations, "registerMiddleware", registerMiddleware),
  registerLifecycle: guardRegistration(registrations, "registerLifecycle", registerLifecycle),
  registerHook: guardRegistration(registrations, "registerHook", registerHook),
  registerTool: guardRegistration(registrations, "registerTool", registerTool),
  registerCommand: guardRegistration(registrations, "registerCommand", registerCommand),
  registerCliCommand: guardRegistration(registrations, "registerCliCommand", registerCliCommand),
  registerProvider: guardRegistration(registrations, "registerProvider", registerProvider),
  registerMemoryProvider: guardRegistration(registrations, "registerMemoryProvider", registerMemoryProvider),
  registerContextEngine: guardRegistration(registrations, "registerContextEngine", registerContextEngine),
  injectMessage: (content: string, role: string = "user"): boolean => host.inject(content, role),
  dispatchTool: (name: string, args?: unknown, extra?: unknown): Promise<string> => host.dispatch(name, args, extra),
  onUnload: guardRegistration(registrations, "onUnload", onUnload)
})

/** Creates the context of one plugin. */
export const make = ({ key, manifest }: Pick<Candidate, "key" | "manifest">, host: Host): Collector => {
  const registrations = makeRegistrations(key, host.warn)
  const members = makeMembers(registrations, host)
  const strangers = unsupported.flatMap((name) => {
    const warnUnsupported = () => host.warn(`${name} is ignored: this runtime has no place for it`)
    return [
      [name, warnUnsupported],
      [toCamelCase(name), warnUnsupported]
    ] as const
  })
  const aliases = Object.entries(members).map(([name, member]) => [toSnakeCase(name), member] as const)
  const context = Object.freeze({
    ...Object.fromEntries([...strangers, ...aliases]),
    ...members,
    key,
    manifest,
    config: host.config,
    llm: Object.freeze({ complete: (prompt: unknown, options?: unknown) => host.complete(prompt, options) })
  })
  return {
    // Return values of callbacks are checked when the callbacks run, regardless of their types. Every member has its
    // alias.
    context: context as unknown as RegisterContext,
    unload: registrations.unload,
    finish: () => {
      registrations.isOpen = false
      const { cliCommands, commands, contextEngines, hooks, memoryProviders, middleware, providers, tools } =
        registrations
      return { tools, hooks, middleware, providers, memoryProviders, contextEngines, commands, cliCommands }
    }
  }
}
