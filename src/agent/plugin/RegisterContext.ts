/**
 * Argument of `register(ctx)` of a plugin module: the plain-function API of plugins, with the contract's names.
 * Registrations are collected and take effect only if `register` succeeds.
 *
 * **Details**
 *
 * Every member has a camelCase and a snake_case name. Callbacks get one frozen object with the contract's fields and
 * may return values, promises or Effects. An unknown kind or an invalid callback causes a warning that names the
 * nearest valid one; a part that this runtime does not support causes a warning too. An unusable tool is an error,
 * because the plugin would be incomplete without it.
 *
 * **Gotchas**
 *
 * In the program, `process.env` does not contain variables with secrets. A plugin can read only the secrets, including
 * values of `.env`, that `requires_env` of its manifest names. Loading warns about a variable that its code names but
 * the manifest does not. Processes that it starts without an explicit environment inherit them too.
 *
 * Source: the middleware document, the observer document ("Contract"), `hermes-contract.md` §1.1, §2.1 and §3.5.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { findNearest } from "../../base/domain/Similarity.ts"
import * as Frozen from "../../middleware/Frozen.ts"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import * as Hook from "../../hooks/Hook.ts"
import { type Registrable, registrable } from "../../middleware/Kind.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as Plain from "../../middleware/Plain.ts"
import type { CallOf } from "../../middleware/PlainCall.ts"
import * as PlainLifecycle from "../../middleware/PlainLifecycle.ts"
import * as PlainReturn from "../../middleware/PlainReturn.ts"
import * as ContextEngines from "./ContextEngines.ts"
import type { Candidate } from "./Candidate.ts"
import type { Manifest } from "./Manifest.ts"
import * as PlainProvider from "./PlainProvider.ts"
import * as PlainTool from "./PlainTool.ts"
import type { CliCommand, Command, Contribution, ProviderSource } from "./Plugin.ts"

/** Options of a callback. */
export interface CallbackOptions {
  /** `"closed"` for a policy: its failure is a refusal. */
  readonly onFailure?: "open" | "closed" | undefined
}

/** Options of a hook. */
export interface HookOptions extends CallbackOptions {
  /** `"queued"` for an observer that the run does not wait for: its events wait in a queue and are handled in order. */
  readonly delivery?: "inline" | "queued" | undefined
  /** Events that wait at most; 1024 when absent. */
  readonly capacity?: number | undefined
}

/** Help of a command. */
export interface CommandOptions {
  readonly description?: string | undefined
  readonly argsHint?: string | undefined
}

/** Members of the `register(ctx)` argument; each member has its snake_case name too, which is the contract's. */
export interface Members {
  readonly registerMiddleware: <const Kind extends string>(
    kind: Kind,
    callback: (call: CallOf<Kind>) => unknown,
    options?: CallbackOptions
  ) => void
  /**
   * Registers methods for the phases of a run, in either spelling: an object, a class or a function that makes one for
   * each run. A method gets one frozen object with fields in snake_case, and gives the fields that it changes.
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
   * `open` gives a provider, a promise or an Effect of one; a plain one is `{ execute }`, see
   * {@link PlainProvider.PlainProvider}.
   */
  readonly registerProvider: (source: PlainProvider.PlainSource) => void
  /** An external memory; the setting `memory.provider` names the one that is used. */
  readonly registerMemoryProvider: (provider: PlainMemory) => void
  /**
   * Engine that makes conversations smaller, one of a plugin; the setting `context.engine` names the one that is used.
   */
  readonly registerContextEngine: (engine: ContextEngines.PlainContextEngine) => void
  /** Sends text to the conversation in a terminal. Returns `false` without one. */
  readonly injectMessage: (content: string, role?: string) => boolean
  /**
   * Calls a tool like a model, including approvals and hooks, and returns the text of its result. `extra` may contain
   * `session_id` and `cwd`. Not available while `register` runs.
   */
  readonly dispatchTool: (name: string, args?: unknown, extra?: unknown) => Promise<string>
  /** Called when the plugin goes. */
  readonly onUnload: (callback: () => unknown) => void
}

type Snake<Name extends string> = Name extends `${infer Letter}${infer Rest}`
  ? Letter extends Lowercase<Letter>
    ? `${Letter}${Snake<Rest>}`
    : `_${Lowercase<Letter>}${Snake<Rest>}`
  : ""

type Aliases = { readonly [Name in keyof Members as Snake<Name>]: Members[Name] }

/** The argument of `register(ctx)` of a plugin module. */
export interface RegisterContext extends Members, Aliases {
  readonly key: string
  readonly manifest: Manifest
  /** `plugins.entries.<key>` of the configuration. */
  readonly config: Readonly<Record<string, unknown>>
  /** The model for side tasks of plugins; `options` may hold `system` and `max_tokens`. Not while `register` runs. */
  readonly llm: { readonly complete: (prompt: string, options?: unknown) => Promise<string> }
}

/**
 * An external memory of plain functions, under the contract's names too (`sync_turn`, …). They may return values,
 * promises or Effects.
 */
export interface PlainMemory {
  readonly name: string
  /** Text that fits to a message. */
  readonly prefetch: (text: string, ids: { readonly session_id: string; readonly turn_id: string }) => unknown
  readonly syncTurn?: (
    text: string,
    answer: string,
    ids: { readonly session_id: string; readonly turn_id: string }
  ) => unknown
  readonly systemPromptBlock?: () => unknown
  readonly onPreCompress?: (messages: ReadonlyArray<unknown>, ids: { readonly session_id: string }) => unknown
  /** `action` is add, replace or remove, `target` memory or user; `content` is the new entry, "" of a removal. */
  readonly onMemoryWrite?: (
    action: string,
    target: string,
    content: string,
    ids: { readonly session_id: string }
  ) => unknown
  readonly onSessionEnd?: (messages: ReadonlyArray<unknown>, ids: { readonly session_id: string }) => unknown
}

/** Functions that the runtime lends to a plugin. */
export interface Host {
  readonly config: Readonly<Record<string, unknown>>
  /** Receives warnings. `inject` returns `false` if no conversation accepts messages. */
  readonly warn: (line: string) => void
  readonly inject: (content: string, role: string) => boolean
  readonly dispatch: (name: string, args: unknown, extra: unknown) => Promise<string>
  readonly complete: (prompt: unknown, options: unknown) => Promise<string>
}

/** Contributions registered so far, and the end of registration. */
export interface Collector {
  readonly context: RegisterContext
  /** From now on nothing can be registered. */
  readonly finish: () => Contribution<unknown>
  readonly unload: ReadonlyArray<() => unknown>
}

/** Members of the contract that need what this runtime does not have. */
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

const readText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim() : undefined

const readCommandOptions = (given: unknown, argsHint: unknown): CommandOptions =>
  Predicate.isObject(given)
    ? {
        description: readText(given["description"]) ?? readText(given["help"]),
        argsHint: readText(given["argsHint"]) ?? readText(given["args_hint"])
      }
    : { description: readText(given), argsHint: readText(argsHint) }

/** Runs a plain function as an Effect. An exception becomes the failure. */
const runPlain = (run: () => unknown): Effect.Effect<unknown, unknown> =>
  // The type of a returned Effect is unknown. Its services are provided as they were when the plugin was loaded.
  Effect.mapError(PlainReturn.call(run), ({ error }) => error) as Effect.Effect<unknown, unknown>

/** Reads a memory of plain functions as a provider. Returns `undefined` if it is not a memory. */
const readMemoryProvider = (given: unknown): MemoryProvider | undefined => {
  if (!Predicate.isObject(given)) return undefined
  const name = readText(given["name"])
  /** A member by one of its names, called as a method. */
  const findMethod = (...names: ReadonlyArray<string>) => {
    const found = names.find((one) => Predicate.isFunction(given[one]))
    return found === undefined
      ? undefined
      : (...args: ReadonlyArray<unknown>) => runPlain(() => Reflect.apply(Object(given[found]), given, args))
  }
  const asText = Effect.map((value: unknown) => (typeof value === "string" ? value : undefined))
  const prefetch = findMethod("prefetch")
  const sync = findMethod("syncTurn", "sync_turn")
  const block = findMethod("systemPromptBlock", "system_prompt_block")
  const compacting = findMethod("onPreCompress", "on_pre_compress")
  const written = findMethod("onMemoryWrite", "on_memory_write")
  const ended = findMethod("onSessionEnd", "on_session_end")
  if (name === undefined || prefetch === undefined) return undefined
  const toPlainIds = ({ sessionId, turnId }: { readonly sessionId: string; readonly turnId: string }) =>
    Object.freeze({ session_id: sessionId, turn_id: turnId })
  const ofSession = (tell: typeof compacting): MemoryProvider["ended"] =>
    tell === undefined
      ? undefined
      : ({ messages, sessionId }) =>
          Effect.asVoid(tell(Frozen.copy(messages), Object.freeze({ session_id: sessionId })))
  return {
    name,
    prefetch: (turn) => asText(prefetch(turn.text, toPlainIds(turn))),
    sync: sync === undefined ? undefined : (turn) => Effect.asVoid(sync(turn.text, turn.answer, toPlainIds(turn))),
    systemPrompt: block === undefined ? undefined : Effect.suspend(() => asText(block())),
    compacting: ofSession(compacting),
    ended: ofSession(ended),
    written:
      written === undefined
        ? undefined
        : ({ action, content = "", sessionId, target }) =>
            Effect.asVoid(written(action, target, content, Object.freeze({ session_id: sessionId })))
  }
}

/** The context of one plugin. */
export const make = ({ key, manifest }: Pick<Candidate, "key" | "manifest">, host: Host): Collector => {
  const { warn } = host
  const hooks: Array<Hook.Hook> = []
  const middleware: Array<Middleware.Any> = []
  const tools: Array<NonNullable<Contribution<unknown>["tools"]>[number]> = []
  const commands: Array<Command> = []
  const cliCommands: Array<CliCommand> = []
  const providers: Array<ProviderSource<unknown>> = []
  const memoryProviders: Array<MemoryProvider> = []
  const contextEngines: Array<ContextEngines.ContextEngine> = []
  const unload: Array<() => unknown> = []
  let open = true

  const formatLabel = (callback: { readonly name: string }): string =>
    callback.name === "" ? key : `${key}:${callback.name}`

  /** A member that works until `register` is done, and whose callback is one. */
  const guardRegistration =
    <Args extends ReadonlyArray<unknown>>(member: string, run: (...args: Args) => void) =>
    (...args: Args): void => {
      if (!open) throw new Error(`${member} of plugin ${key} was called after register() had returned`)
      run(...args)
    }

  const hasCallback = (what: string, callback: unknown): boolean => {
    if (Predicate.isFunction(callback)) return true
    warn(`${what} is ignored: its callback is no function`)
    return false
  }

  const members = {
    registerMiddleware: guardRegistration(
      "registerMiddleware",
      (kind: string, callback: Plain.Callback, options?: CallbackOptions) => {
        if (!isRegistrable(kind)) {
          warn(
            `no middleware is of kind "${kind}"${suggestName(kind, registrable)} ` +
              `(known kinds: ${registrable.toSorted().join(", ")}); it is never called`
          )
        } else if (hasCallback(`middleware ${kind}`, callback)) {
          middleware.push(
            makeMiddleware[kind]({ name: formatLabel(callback), onFailure: readOnFailure(options) }, callback)
          )
        }
      }
    ),
    registerLifecycle: guardRegistration("registerLifecycle", (methods: unknown, options?: unknown) => {
      const name = PlainLifecycle.findName(methods, options)
      middleware.push(
        PlainLifecycle.make(
          { name: name === undefined ? key : `${key}:${name}`, onFailure: readOnFailure(options) },
          methods
        )
      )
    }),
    registerHook: guardRegistration("registerHook", (name: string, callback: Plain.Callback, options?: HookOptions) => {
      if (!hasCallback(`hook ${name}`, callback)) return
      const label = formatLabel(callback)
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
      // The one hook whose failure can be a refusal.
      hooks.push(
        name === "pre_tool_call"
          ? Hook.fromPlain(name, callback, { label, onFailure: readOnFailure(options) })
          : Hook.fromPlain(name, callback, { label })
      )
    }),
    registerTool: guardRegistration("registerTool", (tool: unknown) => {
      tools.push(PlainTool.makeToolset(PlainTool.readPlainTool(tool), key))
    }),
    registerCommand: guardRegistration(
      "registerCommand",
      (name: string, handler: (args: string) => unknown, description?: unknown, argsHint?: unknown) => {
        if (!hasCallback(`command ${name}`, handler)) return
        const run: Command["run"] = (args) =>
          Effect.map(
            runPlain(() => handler(args)),
            (value) => (typeof value === "string" ? value : undefined)
          )
        commands.push({ name, ...readCommandOptions(description, argsHint), run })
      }
    ),
    registerCliCommand: guardRegistration(
      "registerCliCommand",
      (name: string, handler: (args: ReadonlyArray<string>) => unknown, options?: unknown) => {
        if (!hasCallback(`CLI command ${name}`, handler)) return
        const run: CliCommand["run"] = (args) =>
          Effect.map(
            runPlain(() => handler(args)),
            (value) => (typeof value === "number" ? value : undefined)
          )
        cliCommands.push({ name, description: readCommandOptions(options, undefined).description, run })
      }
    ),
    registerProvider: guardRegistration("registerProvider", (source: PlainProvider.PlainSource) => {
      if (readText(source.name) !== undefined && Predicate.isFunction(source.open))
        providers.push(PlainProvider.makeSource(source))
      else warn("registerProvider takes { name, open }; it is ignored")
    }),
    registerMemoryProvider: guardRegistration("registerMemoryProvider", (provider: unknown) => {
      const read = readMemoryProvider(provider)
      if (read === undefined)
        warn(
          "registerMemoryProvider takes { name, prefetch, sync_turn?, system_prompt_block?, on_pre_compress?, on_memory_write?, on_session_end? }; it is ignored"
        )
      else memoryProviders.push(read)
    }),
    registerContextEngine: guardRegistration("registerContextEngine", (engine: unknown) => {
      const read = ContextEngines.readEngine(engine, runPlain)
      if (read === undefined)
        warn(
          "registerContextEngine takes { name, compress, threshold? } with a threshold above 0 and up to 1; it is ignored"
        )
      else if (contextEngines.length > 0) warn(`its context engine "${read.name}" is ignored: a plugin has one`)
      else contextEngines.push(read)
    }),
    injectMessage: (content: string, role: string = "user"): boolean => host.inject(content, role),
    dispatchTool: (name: string, args?: unknown, extra?: unknown): Promise<string> => host.dispatch(name, args, extra),
    onUnload: guardRegistration("onUnload", (callback: () => unknown) => {
      if (hasCallback("onUnload", callback)) unload.push(callback)
    })
  }

  const strangers = unsupported.flatMap((name) => {
    const warnUnsupported = () => warn(`${name} is ignored: this runtime has no place for it`)
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
    // Whatever the types of a callback say, it gets what its kind gives; every member has its alias.
    context: context as unknown as RegisterContext,
    unload,
    finish: () => {
      open = false
      return { tools, hooks, middleware, providers, memoryProviders, contextEngines, commands, cliCommands }
    }
  }
}
