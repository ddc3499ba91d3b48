/**
 * A plugin: a named record of parts of an agent (tools, hooks, middleware, providers, commands), built by one scoped
 * Effect. In an application it is a value; on disk it is a folder whose module exports it.
 *
 * **Details**
 *
 * The requirements of `build` and of its tools, hooks and middleware are in the type of the plugin; the application
 * that loads it provides them. Resources that `build` acquires live as long as the plugin is loaded. If `build` fails,
 * dies or takes too long, no part of the plugin is registered.
 *
 * **Gotchas**
 *
 * Middleware of a plugin must not add failures, because they would not appear in the agent's type. A veto is
 * `ExecutionBlocked`, which is always part of `AgentError`.
 *
 * **Example** (A plugin as a value, and a plugin that is built)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Hooks, Plugin } from "hermes-effect"
 *
 * export const audit = Plugin.fromValue({
 *   name: "audit",
 *   hooks: [Hooks.on("post_tool_call", (event) => Effect.logInfo(`${event.tool_name}: ${event.status}`))]
 * })
 *
 * export const counting = Plugin.make({
 *   name: "counting",
 *   build: Effect.gen(function*() {
 *     let calls = 0
 *     yield* Effect.addFinalizer(() => Effect.logInfo(`${calls} tool calls`))
 *     return { hooks: [Hooks.on("pre_tool_call", () => Effect.sync(() => { calls++ }))] }
 *   })
 * })
 * ```
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-contract.md` §3.5.
 */
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import type { AiError } from "effect/ai/AiError"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { Hook } from "../../hooks/Hook.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import type * as Provider from "../../models/provider/Provider.ts"
import type { Toolset } from "../../tools/Toolset.ts"
import type { ContextEngine } from "./ContextEngines.ts"
import { contractVersion, GivenConfig } from "./GivenConfig.ts"

export type { RegisterContext } from "./RegisterContext.ts"

const TypeId = "~hermes-effect/plugin/Plugin"

/** A slash command in a conversation: `/name args`. */
export interface Command<out R = never> {
  /** Name without the slash, in lower case, with `-` for spaces. */
  readonly name: string
  readonly description?: string | undefined
  /** Argument hint for help, such as `<file>`. */
  readonly argsHint?: string | undefined
  /** Runs the command with the unparsed text after the name. A returned text is shown. */
  readonly run: (args: string) => Effect.Effect<string | void, unknown, R>
}

/** A command of the program: `hermes name …`. */
export interface CliCommand<out R = never> {
  readonly name: string
  readonly description?: string | undefined
  /** Runs the command with the words after the name. A returned number is the exit code. */
  readonly run: (args: ReadonlyArray<string>) => Effect.Effect<number | void, unknown, R>
}

/** A source of providers under a name that settings may choose. */
export interface ProviderSource<out R = never> {
  /** Name in the settings, as in `model.provider: my-cloud`. */
  readonly name: string
  readonly aliases?: ReadonlyArray<string> | undefined
  readonly open: (route: Route) => Effect.Effect<Provider.Service, AiError | ConfigError, R | Scope.Scope>
}

/** Contributions of a plugin. `R` is the services that its parts require. */
export interface Contribution<out R = never> {
  readonly tools?: ReadonlyArray<Toolset<unknown, R>> | undefined
  readonly hooks?: ReadonlyArray<Hook<R>> | undefined
  readonly middleware?: ReadonlyArray<Middleware.Any> | undefined
  readonly providers?: ReadonlyArray<ProviderSource<R>> | undefined
  /** External memories. The setting `memory.provider` names the memory that is used. */
  readonly memoryProviders?: ReadonlyArray<MemoryProvider> | undefined
  /** Engines that compact conversations. The setting `context.engine` selects the engine that is used. */
  readonly contextEngines?: ReadonlyArray<ContextEngine> | undefined
  readonly commands?: ReadonlyArray<Command<R>> | undefined
  readonly cliCommands?: ReadonlyArray<CliCommand<R>> | undefined
}

/** Identity of a plugin. A manifest next to the plugin's module has the same fields and takes precedence. */
export interface Details {
  readonly name: string
  readonly version?: string | undefined
  readonly description?: string | undefined
}

/** A plugin as a value. `R` is the set of services required to load it. */
export interface Plugin<out R = never> extends Details {
  /** Version of the plugin contract in the package that created the plugin. */
  readonly [TypeId]: number
  /** Schema of the plugin's settings, if it has any. */
  readonly config?: Schema.Top | undefined
  readonly build: Effect.Effect<Contribution<unknown>, unknown, R | Scope.Scope>
}

type OfTools<C> = C extends { readonly tools?: ReadonlyArray<Toolset<unknown, infer R>> | undefined } ? R : never
type OfHooks<C> = C extends { readonly hooks?: ReadonlyArray<Hook<infer R>> | undefined } ? R : never
type OfCommands<C> = C extends { readonly commands?: ReadonlyArray<Command<infer R>> | undefined } ? R : never
type OfCliCommands<C> = C extends { readonly cliCommands?: ReadonlyArray<CliCommand<infer R>> | undefined } ? R : never
type OfProviders<C> = C extends { readonly providers?: ReadonlyArray<ProviderSource<infer R>> | undefined } ? R : never
type MiddlewareOf<C> = C extends { readonly middleware: infer M extends ReadonlyArray<Middleware.Any> } ? M : []

/** Services that the parts of a contribution require. */
export type NeedsOf<C extends Contribution<unknown>> =
  | ("tools" extends keyof C ? OfTools<C> : never)
  | ("hooks" extends keyof C ? OfHooks<C> : never)
  | ("commands" extends keyof C ? OfCommands<C> : never)
  | ("cliCommands" extends keyof C ? OfCliCommands<C> : never)
  | ("providers" extends keyof C ? OfProviders<C> : never)
  | Middleware.Needs<MiddlewareOf<C>>

/** Accepts contributions whose middleware adds no failure, and rejects all others. */
type AddsNoFailure<C> = [Middleware.Errors<MiddlewareOf<C>>] extends [never] ? unknown : { readonly name: never }

/** The argument of `build` in a plugin with settings. */
export interface BuildContext<out Config> {
  /** Key of the plugin in the configuration. */
  readonly key: string
  /** Settings of the plugin, `plugins.entries.<key>`, decoded by its Schema. */
  readonly config: Config
}

/** A plugin with settings. `Encoded` is the type of the settings in code. */
export interface ConfigurablePlugin<out R, in Encoded> extends Plugin<R> {
  readonly config: Schema.Top
  /** Returns the plugin with these settings. An application passes it to `Runtime.layer({ plugins })`. */
  readonly withConfig: (config: Encoded) => Plugin<R>
}

type UntypedBuild = Effect.Effect<Contribution<unknown>, unknown, unknown>

interface MakeOptions extends Details {
  readonly config?: Schema.Codec<unknown, unknown>
  readonly build: UntypedBuild | ((context: BuildContext<never>) => UntypedBuild)
}

const makeConfigurable = (
  details: Details,
  config: Schema.Codec<unknown, unknown>,
  build: (context: BuildContext<never>) => UntypedBuild
): ConfigurablePlugin<unknown, unknown> => {
  const configured = Effect.gen(function* () {
    const { key = details.name, values } = yield* GivenConfig
    const { decodeSchema } = yield* Effect.promise(() => import("./PluginConfig.ts"))
    // The Schema that decodes the settings is the one from which the type of `build` follows.
    return yield* build({ key, config: (yield* decodeSchema(config, values)) as never })
  })
  const makePlugin = (build: Plugin<unknown>["build"]) => ({ [TypeId]: contractVersion, ...details, config, build })
  return {
    ...makePlugin(configured),
    withConfig: (given) =>
      makePlugin(
        Effect.updateService(configured, GivenConfig, ({ key }) => ({
          key,
          values: Predicate.isObject(given) ? { ...given } : {}
        }))
      )
  }
}

/**
 * Creates a plugin that is built by an Effect. With `config`, the Schema of its settings, `build` is a function of the
 * decoded settings.
 *
 * **Example** (A plugin with settings)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import { Plugin } from "hermes-effect"
 *
 * export const greeter = Plugin.make({
 *   name: "greeter",
 *   config: Schema.Struct({
 *     greeting: Schema.String.pipe(Schema.withDecodingDefaultKey(Effect.succeed("Hello")))
 *   }),
 *   build: ({ config }) =>
 *     Effect.succeed({
 *       commands: [{ name: "greet", run: (args: string) => Effect.succeed(`${config.greeting}, ${args}!`) }]
 *     })
 * })
 * ```
 */
export function make<A, Encoded, const C extends Contribution<unknown>, E = never, R = never>(
  options: Details & {
    readonly config: Schema.Codec<A, Encoded>
    readonly build: (context: BuildContext<A>) => Effect.Effect<C, E, R>
  } & AddsNoFailure<C>
): ConfigurablePlugin<Exclude<R | NeedsOf<C>, Scope.Scope>, Encoded>
export function make<const C extends Contribution<unknown>, E = never, R = never>(
  options: Details & { readonly build: Effect.Effect<C, E, R> } & AddsNoFailure<C>
): Plugin<Exclude<R | NeedsOf<C>, Scope.Scope>>
export function make(options: MakeOptions): Plugin<unknown> {
  const { build, config, ...details } = options
  if (config !== undefined && Predicate.isFunction(build)) return makeConfigurable(details, config, build)
  // The plugin also requires the services of the contribution's parts, which the type of `build` does not name.
  return { [TypeId]: contractVersion, ...details, build: build as Plugin<unknown>["build"] }
}

/** Creates a plugin from an existing contribution, without an Effect to build it. */
export const fromValue = <const C extends Contribution<unknown> & Partial<Details>>(
  options: Details & C & AddsNoFailure<C>
): Plugin<Exclude<NeedsOf<C>, Scope.Scope>> => {
  const { description, name, version, ...contribution } = options
  return {
    [TypeId]: contractVersion,
    name,
    version,
    description,
    // As above.
    build: Effect.succeed(contribution) as Plugin<Exclude<NeedsOf<C>, Scope.Scope>>["build"]
  }
}

/** Creates a plugin with an untyped contribution, as collected by `register(ctx)` of a module. */
export const makeUntyped = (
  details: Details & Pick<Plugin, "config">,
  build: Plugin<unknown>["build"]
): Plugin<unknown> => ({ [TypeId]: contractVersion, ...details, build })

/** Returns `true` if a value is a plugin, including plugins made by another copy of this package. */
export const isPlugin = (value: unknown): value is Plugin<unknown> =>
  Predicate.isObject(value) && Object.hasOwn(value, TypeId) && Effect.isEffect(value["build"])

/** Returns the version of the plugin contract that a plugin was made for. */
export const readContractVersion = (plugin: Plugin<unknown>): unknown => plugin[TypeId]
