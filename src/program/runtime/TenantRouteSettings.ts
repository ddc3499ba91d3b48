/** The routes and keys of the tenants of the settings. */
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { ResolveModels } from "../../agent/Tenants.ts"
import type * as DerivedSettings from "../../base/config/DerivedSettings.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { TenantRefused } from "../../base/domain/AgentError.ts"
import * as ConfiguredRoutes from "../../models/routing/ConfiguredRoutes.ts"
import type * as RouteKeys from "../../models/routing/RouteKeys.ts"
import * as TenantRoutes from "../../models/routing/TenantRoutes.ts"

/** Resolved routes of a tenant; `undefined` if it uses the routes and keys of the settings. */
type Resolved = Result.Result<TenantRoutes.TenantRoutes | undefined, TenantRefused>

/** Reads the keys of a route. Returns none if the route has no key, or a problem if its key cannot be read. */
const readKeys = (
  { apiKey, apiKeys, keyEnv }: DerivedSettings.TenantRoute,
  lookup: RouteKeys.Lookup
): ReadonlyArray<Redacted.Redacted<string>> | string => {
  const stated = [apiKey, apiKeys, keyEnv].filter((one) => one !== undefined)
  if (stated.length > 1) return "has more than one of api_key, api_keys and key_env: set one of them"
  const found = keyEnv === undefined ? undefined : lookup(keyEnv)
  if (keyEnv !== undefined && found === undefined) return `the variable ${keyEnv} is not set: set it to the key`
  const keys = [apiKey ?? [], apiKeys ?? [], found ?? []].flat()
  const isEmpty = keys.some((key) => Redacted.value(key).trim() === "")
  return stated.length > 0 && (keys.length === 0 || isEmpty) ? "has an empty key: set it, or leave it out" : keys
}

/** Resolves a route of a tenant. `place` is its path in the settings. */
const resolveRoute = (
  configured: ConfiguredRoutes.RouteSources,
  place: ReadonlyArray<string | number>,
  route: DerivedSettings.TenantRoute
): Result.Result<TenantRoutes.TenantRoute, string> => {
  const { apiMode, baseUrl, model, provider } = route
  const at = place
    .reduce<string>((path, part) => (typeof part === "number" ? `${path}[${part}]` : `${path}.${part}`), "")
    .slice(1)
  const keys = readKeys(route, ConfiguredRoutes.makeLookup(configured.environment))
  if (typeof keys === "string") return Result.fail(`${at}: ${keys}`)
  const sources = ConfiguredRoutes.describeSources(configured.settings.sources, place)
  const said = { provider, model, baseUrl, apiMode, ...sources }
  const [first, ...others] = keys
  const found =
    first === undefined
      ? Result.map(ConfiguredRoutes.resolveSection(configured, said), (entry) => TenantRoutes.classifyShared(entry))
      : Result.map(ConfiguredRoutes.resolveWithKeys(configured, said, [first, ...others]), (entry) => ({
          entry,
          key: "own" as const
        }))
  return Result.mapError(found, (error) => ConfiguredRoutes.relocateError(at)(error).message)
}

/** Resolves the routes of a tenant of the settings. */
export const resolveTenant = (
  configured: ConfiguredRoutes.RouteSources,
  id: string,
  { auxiliary, routes, sharedKeys }: Values["tenants"][string]
): Resolved =>
  auxiliary === undefined && routes === undefined && sharedKeys === undefined
    ? Result.succeed(undefined)
    : Result.gen(function* () {
        const toRefusal = Result.mapError((problem: string) => TenantRoutes.makeRouteError(id, problem))
        const chain: Array<TenantRoutes.TenantRoute> = []
        for (const [index, route] of (routes ?? []).entries())
          chain.push(yield* toRefusal(resolveRoute(configured, ["tenants", id, "routes", index], route)))
        const tasks = new Map<string, TenantRoutes.TenantRoute>()
        for (const [task, route] of Object.entries(auxiliary ?? {}))
          tasks.set(task, yield* toRefusal(resolveRoute(configured, ["tenants", id, "auxiliary", task], route)))
        return yield* TenantRoutes.makeTenantRoutes(id, chain, tasks, sharedKeys)
      })

/**
 * Resolves the routes of all tenants of the settings. A tenant whose routes are not valid is refused with the problem,
 * which is also logged now.
 */
export const resolveTenants = Effect.fnUntraced(function* (
  configured: ConfiguredRoutes.RouteSources
): Effect.fn.Return<ResolveModels> {
  const resolved = new Map<string, Resolved>()
  for (const [id, tenant] of Object.entries(configured.settings.tenants)) {
    const found = resolveTenant(configured, id, tenant)
    if (Result.isFailure(found)) yield* Effect.logWarning(found.failure.message)
    resolved.set(id, found)
  }
  return ({ id }) => Effect.fromResult(resolved.get(id) ?? Result.succeed(undefined))
})
