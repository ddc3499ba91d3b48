/**
 * Checks of the tenants of the settings, for `hermes doctor` and the start of `hermes serve`: directories, routes and
 * keys, prices, and names of tools. They create and change nothing, and make no network request.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Option from "effect/Option"
import * as Path from "effect/Path"
import * as Result from "effect/Result"
import { makeWorkspaces, sharedDirectory } from "../../agent/TenantWorkspaces.ts"
import { limitsMoney } from "../../agent/TenantLimits.ts"
import { Plugins } from "../../agent/plugin/Plugins.ts"
import { listTenantRoutes } from "../../base/config/DerivedSettings.ts"
import { Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { Route } from "../../base/domain/Route.ts"
import { findNearest } from "../../base/domain/Similarity.ts"
import { formatTenant, type Tenant } from "../../base/domain/Tenant.ts"
import * as Usage from "../../base/domain/Usage.ts"
import * as Catalogue from "../../models/routing/Catalogue.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import * as Pricing from "../../models/routing/Pricing.ts"
import { findNamed, type ProviderNames } from "../../models/routing/ProviderDirectory.ts"
import { locateWorkspace } from "../../store/TenantFolder.ts"
import { ToolRegistry } from "../../tools/ToolRegistry.ts"
import * as Toolsets from "../../tools/Toolsets.ts"
import { findExistingDirectory } from "./ExistingDirectory.ts"
import { resolveTenant } from "../runtime/TenantRouteSettings.ts"
import { readTenants } from "../runtime/TenantSettings.ts"

/** A fact about a tenant. A problem refuses its runs; a warning means that they cannot do what the settings say. */
export interface TenantFinding {
  readonly level: "ok" | "warning" | "problem"
  readonly tenant: string
  readonly text: string
}

type Checked = Omit<TenantFinding, "tenant">

const canWrite = (directory: string) =>
  FileSystem.FileSystem.use((fs) => Effect.isSuccess(fs.access(directory, { writable: true })))

/** Tools that run commands, which need a sandbox or a container in a workspace. */
const commandTools = ["terminal", "execute_code"]

/** Describes the commands of a tenant that are refused in its workspace; empty if the settings confine them. */
const describeCommands = ({ terminal }: Values, { tools }: Tenant): string => {
  const { backend, sandbox } = terminal
  const isConfined = sandbox.policy !== "full" && ["auto", "sandbox", "docker"].includes(backend)
  const named = commandTools.filter((tool) => {
    const [toolset = tool] = Toolsets.findByTools(new Set([tool]))
    return tools === undefined || tools.includes(tool) || tools.includes(toolset)
  })
  return isConfined || named.length === 0 ? "" : `; ${named.join(" and ")} return an error without a sandbox`
}

/** Checks a directory that hermes creates for a tenant. */
const checkDefaultPlace = Effect.fnUntraced(function* (tenant: Tenant, commands: string) {
  const { root } = yield* Home
  const place = locateWorkspace(yield* Path.Path, root, tenant.id)
  const nearest = yield* findExistingDirectory(place)
  const found: Checked = (yield* canWrite(nearest))
    ? { level: commands === "" ? "ok" : "warning", text: `works in ${place}${commands}` }
    : { level: "problem", text: `its workspace cannot be created: ${nearest} is not writable` }
  return found
})

/** Checks the workspaces of the tenants, and on request the commands in them. */
export const checkWorkspaces = Effect.fnUntraced(function* (settings: Values, withCommands: boolean) {
  const { root } = yield* Home
  const tenants = readTenants(settings)
  const workspaces = yield* makeWorkspaces({ folder: root, apart: [root], known: tenants })
  const checkNamed = Effect.fnUntraced(function* (tenant: Tenant, commands: string) {
    const found = yield* Effect.result(workspaces.resolve(tenant))
    if (Result.isFailure(found)) return { level: "problem", text: found.failure.message } satisfies Checked
    const directory = found.success?.directory
    if (directory === undefined)
      return { level: "ok", text: "shares the directory of the runtime, and is not confined" } satisfies Checked
    const isWritable = yield* canWrite(directory)
    const text = `works in ${directory}${isWritable ? "" : ", which is not writable"}${commands}`
    return { level: isWritable && commands === "" ? "ok" : "warning", text } satisfies Checked
  })
  return yield* Effect.forEach(tenants, (tenant) => {
    const commands = withCommands ? describeCommands(settings, tenant) : ""
    const isRemote = settings.terminal.backend === "ssh" && tenant.workspace !== sharedDirectory
    const checked: Effect.Effect<Checked, never, FileSystem.FileSystem | Path.Path | Home> = isRemote
      ? Effect.succeed({
          level: "problem",
          text: "its tools are refused with terminal.backend: ssh: set workspace: shared, or another backend"
        })
      : tenant.workspace === undefined
        ? checkDefaultPlace(tenant, commands)
        : checkNamed(tenant, commands)
    return Effect.map(checked, (one): TenantFinding => ({ ...one, tenant: tenant.id }))
  })
})

/** Registered toolsets and their tools, by name. */
export type KnownTools = ReadonlyArray<{ readonly toolset: string; readonly tools: ReadonlyArray<string> }>

/** The toolsets of the program, without plugins and MCP servers. */
export const builtInTools: KnownTools = Object.entries(Toolsets.catalogue).flatMap(([toolset, { includes, tools }]) =>
  includes === undefined ? [{ toolset, tools: tools ?? [] }] : []
)

/** Tests whether a name is one of a configured MCP server, whose tools are known when it is connected. */
const isOfServer = ({ mcpServers }: Values, name: string): boolean =>
  Object.keys(mcpServers).some((server) => name === `mcp-${server}` || name.startsWith(`mcp__${server}__`))

/** Finds names in the lists of tools that no tool and no toolset has. `others` says where else they may be. */
export const checkTools = (settings: Values, known: KnownTools, others = ""): ReadonlyArray<TenantFinding> => {
  const names = new Set(known.flatMap(({ tools, toolset }) => [toolset, ...tools]))
  return readTenants(settings).flatMap(({ id, tools = [] }) =>
    tools.flatMap((name): ReadonlyArray<TenantFinding> => {
      if (names.has(name) || isOfServer(settings, name)) return []
      const nearest = findNearest(name, names)
      const hint = nearest === undefined ? "`hermes tools` lists them" : `did you mean "${nearest}"?`
      const text = `tools: there is no tool and no toolset "${name}"${others}, and the name is ignored: ${hint}`
      return [{ level: "warning", tenant: id, text }]
    })
  )
}

/** Finds the routes whose provider is neither built in nor defined by a plugin. */
const checkProviders = (settings: Values, brought: ReadonlyArray<ProviderNames>): ReadonlyArray<TenantFinding> => {
  const missing = ConfiguredRoutes.findUnknownProviders(settings)
    .filter(({ name }) => findNamed(brought, name) === undefined)
    .map(({ name }) => name)
  return Object.entries(settings.tenants).flatMap(([id, tenant]) =>
    listTenantRoutes({ tenants: { [id]: tenant } }).flatMap(({ provider }): ReadonlyArray<TenantFinding> => {
      const text = `routes: unknown provider "${provider}": no plugin of plugins.enabled has it`
      return missing.includes(provider.trim().toLowerCase()) ? [{ level: "problem", tenant: id, text }] : []
    })
  )
}

/** Logs what a running server knows: unusable workspaces, missing providers, and tools that do not exist. */
export const warnAboutTenants = Effect.fnUntraced(function* (settings: Values) {
  const { providers } = yield* Plugins.use(({ loaded }) => loaded)
  const sets = yield* ToolRegistry.use(({ list }) => list)
  const known = sets.map(({ tools, toolset }) => ({ toolset, tools: tools.map(({ tool }) => tool.name) }))
  const found = [
    ...(yield* checkWorkspaces(settings, false)),
    // Without plugins, the routes were checked when they were read.
    ...(settings.plugins.enabled.length === 0 ? [] : checkProviders(settings, providers)),
    ...checkTools(settings, known)
  ]
  for (const { level, tenant, text } of found)
    if (level !== "ok") yield* Effect.logWarning(`tenant ${formatTenant(tenant)}: ${text}`)
})

/** Tests whether the price of a route is unknown. Prices that an endpoint lists count as known. */
const isPriceUnknown = (settings: Values, route: Route): Effect.Effect<boolean> =>
  Pricing.findBillingMode(route) === "official_models_api"
    ? Effect.succeed(false)
    : Effect.map(
        Catalogue.makeBundled(settings.model).cost(route, { ...Usage.zero, inputTokens: 1, outputTokens: 1 }),
        ({ amount }) => amount === undefined
      )

/** Finds the routes without a price of a tenant that has a limit in dollars and refuses unknown prices. */
const checkPrices = Effect.fnUntraced(function* (settings: Values, tenant: Tenant, routes: ReadonlyArray<Route>) {
  const isRefused = limitsMoney(tenant) && (tenant.unknownPrices ?? "refuse") === "refuse"
  const unknown = isRefused ? yield* Effect.filter(routes, (route) => isPriceUnknown(settings, route)) : []
  return unknown.map(({ model, provider }): TenantFinding => ({
    level: "problem",
    tenant: tenant.id,
    text:
      `the price of ${model} of ${provider} is unknown, and the tenant has a limit in dollars: set unknown_prices, ` +
      "or model.price of the main model"
  }))
})

/** Checks the routes, keys and prices of the tenants. */
export const checkRoutes = Effect.fnUntraced(function* (configured: ConfiguredRoutes.RouteSources) {
  const { settings } = configured
  const main = Result.map(ConfiguredRoutes.resolveChain(configured), ({ entries }) => entries.map(({ route }) => route))
  const found = yield* Effect.forEach(readTenants(settings), (tenant) => {
    const values = Option.fromUndefinedOr(settings.tenants[tenant.id])
    const resolved = Option.match(values, {
      onNone: () => Result.succeed(undefined),
      onSome: (one) => resolveTenant(configured, tenant.id, one)
    })
    if (Result.isFailure(resolved))
      return Effect.succeed<ReadonlyArray<TenantFinding>>([
        { level: "problem", tenant: tenant.id, text: resolved.failure.message }
      ])
    const { chain = [], tasks = new Map() } = resolved.success ?? {}
    const own = [...chain, ...tasks.values()].map(({ entry }) => entry.route)
    const shared = chain.length === 0 && Result.isSuccess(main) ? main.success : []
    return checkPrices(settings, tenant, [...own, ...shared])
  })
  return found.flat()
})
