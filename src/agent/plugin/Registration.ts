/**
 * Registers the contributions of a plugin in a runtime until the scope closes.
 *
 * Source: `hermes-contract.md` §3.5.
 */
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ConfigError } from "../../base/domain/AgentError.ts"
import * as Interruption from "../../base/domain/Interruption.ts"
import { Hooks } from "../../hooks/Hooks.ts"
import * as EntryServices from "../../middleware/EntryServices.ts"
import * as IsolatedCall from "../../base/domain/IsolatedCall.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import type { Service as MemoryProvider } from "../../base/domain/MemoryProvider.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import type { Toolset } from "../../tools/Toolset.ts"
import type { ContextEngine } from "./ContextEngines.ts"
import * as PluginAdapter from "./PluginAdapter.ts"
import * as Commands from "./Commands.ts"
import type { CliCommand, Command, Contribution, ProviderSource } from "./Plugin.ts"
import * as ProviderSources from "./ProviderSources.ts"

/** Names that are reserved for the program. */
export interface ReservedNames {
  readonly commands: ReadonlyArray<string>
  readonly cliCommands: ReadonlyArray<string>
}

/** Identity under which a plugin is registered. */
interface Registrant {
  readonly key: string
  readonly reserved: ReservedNames
  /** True if its tools may replace other tools (`plugins.entries.<key>.allow_tool_override`). */
  readonly mayOverride: boolean
  /** True if the run does not wait for its observers, unless they state a delivery. */
  readonly queuesObservers: boolean
}

/** Outcome of a registration. */
export interface RegisteredContribution {
  readonly tools: ReadonlyArray<string>
  readonly listeners: number
  readonly middleware: ReadonlyArray<Middleware.Contained>
  readonly providers: ReadonlyArray<ProviderSource>
  readonly memoryProviders: ReadonlyArray<MemoryProvider>
  readonly contextEngines: ReadonlyArray<ContextEngine>
  readonly commands: ReadonlyArray<Command>
  readonly cliCommands: ReadonlyArray<CliCommand>
}

const qualifyName = (key: string, name: string): string =>
  name === key || name.startsWith(`${key}:`) ? name : `${key}:${name}`

const registerTools = Effect.fnUntraced(function* ({ key, mayOverride }: Registrant, given: Toolset<unknown>) {
  const registry = yield* ToolRegistry
  const bound = yield* PluginAdapter.adaptToolset(given).bind
  const taken = new Set((yield* registry.list).flatMap(({ tools }) => tools.map(({ tool }) => tool.name)))
  const clashing = bound.filter(({ tool }) => taken.has(tool.name)).map(({ tool }) => tool.name)
  for (const name of clashing) {
    yield* Effect.logWarning(
      mayOverride
        ? `plugin ${key}: its tool "${name}" takes the place of another of that name, ` +
            `as plugins.entries.${key}.allow_tool_override allows`
        : `plugin ${key}: its tool "${name}" is left out, another has that name; ` +
            `plugins.entries.${key}.allow_tool_override: true allows it`
    )
  }
  const allowed = mayOverride ? bound : bound.filter(({ tool }) => !clashing.includes(tool.name))
  const toolset: Toolset = { ...given, bind: Effect.succeed(allowed) }
  yield* mayOverride ? registry.override(toolset) : registry.register(toolset)
  return allowed.map(({ tool }) => tool.name)
})

/** Time limit for a plugin to open a provider. */
const openDeadline = Duration.seconds(30)

/** Opens a provider that a plugin contributes. If it hangs or interrupts itself, it counts as unusable. */
const openWithDeadline = <A, E>(
  plugin: string,
  name: string,
  open: Effect.Effect<A, E>
): Effect.Effect<A, E | ConfigError> =>
  Effect.catchDefect(IsolatedCall.contain(open, { what: "it", deadline: openDeadline }), (defect) =>
    defect instanceof IsolatedCall.DeadlineExceeded || defect instanceof Interruption.SelfInterrupted
      ? Effect.fail(
          new ConfigError({
            path: "model.provider",
            message:
              `The provider "${name}" of plugin ${plugin} could not be opened: ${defect.message}. ` +
              "Choose another provider, or disable the plugin."
          })
        )
      : Effect.die(defect)
  )

/**
 * Registers a contribution for the lifetime of the scope. The services that its parts require are read once from the
 * context.
 */
export const registerContribution = Effect.fnUntraced(function* (
  registrant: Registrant,
  {
    cliCommands = [],
    commands = [],
    contextEngines = [],
    hooks = [],
    memoryProviders = [],
    middleware = [],
    providers = [],
    tools = []
  }: Contribution<unknown>
): Effect.fn.Return<RegisteredContribution, unknown, Hooks | ToolRegistry | Scope.Scope> {
  const { key, reserved } = registrant
  const context = yield* Effect.context<Hooks | ToolRegistry | Scope.Scope>()
  const bring = EntryServices.provideContext(context)
  const service = yield* Hooks
  const names = yield* Effect.forEach(tools, (toolset) =>
    registerTools(registrant, { ...toolset, bind: bring(toolset.bind) })
  )
  const owner = { key: {}, label: key, queuesObservers: registrant.queuesObservers }
  for (const hook of hooks) {
    const listeners = hook.listeners.map((listener) => ({
      ...listener,
      handle: (payload: object) => bring(listener.handle(payload))
    }))
    yield* service.register({ ...hook, listeners, label: qualifyName(key, hook.label), owner }, "first")
  }
  const accepted = Commands.acceptCommands(commands, reserved.commands)
  const acceptedCli = Commands.acceptCommands(cliCommands, reserved.cliCommands)
  const occupied = providers.flatMap((source) => ProviderSources.findTakenName(source) ?? [])
  const warnings = occupied.map((name) => `its provider "${name}" is ignored: the program has one of that name`)
  for (const warning of [...accepted.warnings, ...acceptedCli.warnings, ...warnings])
    yield* Effect.logWarning(`plugin ${key}: ${warning}`)
  return {
    tools: names.flat(),
    listeners: hooks.reduce((count, { listeners }) => count + listeners.length, 0),
    middleware: middleware.map((entry) => PluginAdapter.adaptMiddleware(entry, context, qualifyName(key, entry.name))),
    providers: providers
      .filter((source) => ProviderSources.findTakenName(source) === undefined)
      .map((source) => ({ ...source, open: (route) => openWithDeadline(key, source.name, bring(source.open(route))) })),
    memoryProviders,
    contextEngines,
    commands: accepted.commands.map((command) => ({ ...command, run: (args) => bring(command.run(args)) })),
    cliCommands: acceptedCli.commands.map((command) => ({ ...command, run: (args) => bring(command.run(args)) }))
  }
})
