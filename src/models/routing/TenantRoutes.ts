/**
 * Routes and keys that belong to a tenant, and their resolution.
 *
 * **Details**
 *
 * A route with a key is the tenant's: its pool, rate limits, circuit and learnt facts are not shared. A route without
 * a key uses the key that the runtime has for the same provider and address. A tenant that has a key uses no
 * key of the runtime, unless `sharedKeys` permits it.
 *
 * **Gotchas**
 *
 * A key that is present but empty, such as the value of a variable that is not set, is an error. It never selects the
 * runtime's key.
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { type ConfigError, TenantRefused } from "../../base/domain/AgentError.ts"
import { formatTenant } from "../../base/domain/Tenant.ts"
import * as Digest from "../../base/platform/Digest.ts"
import { listKeys, type ModelRoute, resolveEntry } from "./RouteChain.ts"
import type { ChainEntry } from "./RoutedModelRouter.ts"
import { noKey } from "./RouteKeys.ts"
import * as Routes from "./Routes.ts"

/** Models of a tenant, with its keys. Absent fields select the models and keys of the runtime. */
export interface TenantModels {
  /** The default route of the tenant's runs, followed by its fallbacks. They replace the routes of the runtime. */
  readonly routes?: ReadonlyArray<ModelRoute> | undefined
  /**
   * Routes of side tasks by the name of the task, such as `title` or `compression`; `default` applies to all others.
   * Side tasks without a route use the routes of the runs.
   */
  readonly auxiliary?: Readonly<Record<string, ModelRoute>> | undefined
  /**
   * Use of the runtime's keys. With `fallback`, the routes of the runtime are tried after the tenant's own ones, and a
   * run may select them. The default, `never`, applies to tenants with a key of their own.
   */
  readonly sharedKeys?: "never" | "fallback" | undefined
}

/** A resolved route of a tenant. */
export interface TenantRoute {
  readonly entry: ChainEntry
  /** Owner of the route's key: the tenant, the runtime, or `none` if its endpoint needs no key. */
  readonly key: "own" | "shared" | "none"
}

/** The resolved routes of a tenant. */
export interface TenantRoutes {
  readonly tenant: string
  /** Identifies the routes and keys by a digest. It changes with every key. */
  readonly identity: string
  /** If empty, the routes of the runtime are used. */
  readonly chain: ReadonlyArray<TenantRoute>
  /** Routes of side tasks by task. */
  readonly tasks: ReadonlyMap<string, TenantRoute>
  readonly hasOwnKeys: boolean
  /** True if calls may use keys of the runtime. */
  readonly mayShareKeys: boolean
  /** True if the routes of the runtime are tried after the tenant's routes. */
  readonly appendsShared: boolean
}

/** Creates the error for routes that cannot be used. */
export const makeRouteError = (tenant: string, problem: string): TenantRefused =>
  new TenantRefused({ tenant, reason: "route", message: `tenant ${formatTenant(tenant)}: ${problem}` })

const emptyKey = "is empty: set the key, or leave the field out to use the key of the runtime"

/** Describes the problem with the keys of a route, which a lookup may return in another form than its type says. */
const findKeyProblem = (route: ModelRoute): string | undefined => {
  const { apiKey: keys } = route
  if (keys === undefined) return Object.hasOwn(route, "apiKey") ? emptyKey : undefined
  const all: ReadonlyArray<unknown> = Array.isArray(keys) ? keys : [keys]
  if (!all.every((key) => Redacted.isRedacted(key) && typeof Redacted.value(key) === "string"))
    return "must be a Redacted text, or a list of them"
  const isBlank = all.some((key) => Redacted.isRedacted(key) && String(Redacted.value(key)).trim() === "")
  return all.length === 0 || isBlank ? emptyKey : undefined
}

/** Placeholder of the runtime's key while the other fields of a route are resolved. */
const undecided = Redacted.make("undecided")

/** Classifies a route that was resolved without a key of the tenant, by the key that it uses. */
export const classifyShared = (entry: ChainEntry): TenantRoute => {
  const { apiKey, apiMode } = entry.route
  // The SDK of Bedrock finds the credentials of the machine.
  const isShared =
    apiMode === "bedrock_converse" || (apiKey !== undefined && Redacted.value(apiKey) !== Redacted.value(noKey))
  return { entry, key: isShared ? "shared" : "none" }
}

/** Resolves a route that has no key. */
const resolveWithoutKey = (route: ModelRoute): Result.Result<TenantRoute, ConfigError> => {
  const found = resolveEntry(route, 0)
  if (Result.isSuccess(found)) return Result.succeed(classifyShared({ ...found.success, credentials: [] }))
  if (!found.failure.path.endsWith(".apiKey")) return Result.fail(found.failure)
  return Result.map(
    resolveEntry({ ...route, apiKey: undecided }, 0),
    ({ route: { apiKey: _, ...resolved }, ...entry }) => ({
      entry: { ...entry, route: resolved, credentials: [] },
      key: "shared"
    })
  )
}

const resolveOne = (tenant: string, at: string, route: ModelRoute): Result.Result<TenantRoute, TenantRefused> => {
  const problem = findKeyProblem(route)
  if (problem !== undefined) return Result.fail(makeRouteError(tenant, `${at}.apiKey ${problem}`))
  const found: Result.Result<TenantRoute, ConfigError> =
    listKeys(route).length === 0
      ? resolveWithoutKey(route)
      : Result.map(resolveEntry(route, 0), (entry): TenantRoute => ({ entry, key: "own" }))
  return Result.mapError(found, ({ message }) => makeRouteError(tenant, message.replaceAll("routes[0]", at)))
}

const describeRoute = ({ entry: { credentials = [], route }, key }: TenantRoute) => {
  const { apiKey, ...rest } = route
  const keys = [...(apiKey === undefined ? [] : [apiKey]), ...credentials.map((one) => one.key)]
  return [key, Object.entries(rest).toSorted(([a], [b]) => (a < b ? -1 : 1)), keys.map((one) => Redacted.value(one))]
}

/** Creates the routes of a tenant from resolved ones. */
export const makeTenantRoutes = (
  tenant: string,
  chain: ReadonlyArray<TenantRoute>,
  tasks: ReadonlyMap<string, TenantRoute>,
  sharedKeys: TenantModels["sharedKeys"]
): Result.Result<TenantRoutes, TenantRefused> => {
  const all = [...chain, ...tasks.values()]
  const hasOwnKeys = all.some(({ key }) => key === "own")
  const mayShareKeys = sharedKeys === "fallback" || (sharedKeys === undefined && !hasOwnKeys)
  const shared = all.find(({ key }) => key === "shared")
  if (shared !== undefined && !mayShareKeys) {
    const { model, provider } = shared.entry.route
    return Result.fail(
      makeRouteError(tenant, `its route to ${provider} (${model}) has no key: add one, or set sharedKeys to fallback`)
    )
  }
  if (chain.length === 0 && !mayShareKeys)
    return Result.fail(
      makeRouteError(tenant, "it has no routes for its runs: add routes, or set sharedKeys to fallback")
    )
  const identity = Digest.toHex(
    JSON.stringify([
      tenant,
      mayShareKeys,
      sharedKeys,
      chain.map(describeRoute),
      Array.from(tasks, ([name, one]) => [name, describeRoute(one)])
    ]),
    64
  )
  return Result.succeed({
    tenant,
    identity,
    chain,
    tasks,
    hasOwnKeys,
    mayShareKeys,
    appendsShared: sharedKeys === "fallback"
  })
}

const isFields = (value: unknown): boolean => typeof value === "object" && value !== null

const choices: ReadonlyArray<unknown> = [undefined, "never", "fallback"]

/** Resolves the models of a tenant; `undefined` without models. Fails with the first field that is not valid. */
export const resolveModels = (
  tenant: string,
  { auxiliary = {}, routes = [], sharedKeys }: TenantModels
): Result.Result<TenantRoutes, TenantRefused> =>
  Result.gen(function* () {
    if (!choices.includes(sharedKeys))
      return yield* Result.fail(makeRouteError(tenant, "sharedKeys must be never or fallback"))
    const chain: Array<TenantRoute> = []
    if (
      !Array.isArray(routes) ||
      !routes.every(isFields) ||
      !isFields(auxiliary) ||
      !Object.values(auxiliary).every(isFields)
    )
      return yield* Result.fail(
        makeRouteError(tenant, "routes must be a list of routes, and auxiliary a record of them")
      )
    for (const [index, route] of routes.entries()) {
      const found = yield* resolveOne(tenant, `routes[${index}]`, route)
      if (!chain.some((other) => Routes.isSame(other.entry.route, found.entry.route))) chain.push(found)
    }
    const tasks = new Map<string, TenantRoute>()
    for (const [task, route] of Object.entries(auxiliary))
      tasks.set(task, yield* resolveOne(tenant, `auxiliary.${task}`, route))
    return yield* makeTenantRoutes(tenant, chain, tasks, sharedKeys)
  })
