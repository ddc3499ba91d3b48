/**
 * Tenants of an application: the lookup of their limits, and the ledger that keeps them.
 *
 * **Details**
 *
 * A run with a `tenant` reserves the largest cost of each model call before the call, and settles it afterwards
 * (`models/routing/Spending`). This includes the calls of children, side tasks, retries and answers that broke off.
 * Nothing else has to be checked: calls in flight cannot overrun a limit. If an allowance leaves no room for a call,
 * the run ends with exit `budget_exhausted`, limit `allowance` and the time at which the allowance is free again.
 *
 * Ends of calls are written with the next reservation of the tenant, or after a second. Calls that follow one another
 * fast share a reservation, so that most of them need no statement of the store.
 *
 * **Gotchas**
 *
 * If the ledger cannot be read or written, no model call is made.
 *
 * **Example** (A tenant with a daily allowance)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, Runtime, Scripted } from "hermes-effect"
 * import { Tenants } from "hermes-effect/tenants"
 *
 * const tenants = Tenants.layerFrom([{ id: "acme", perDay: { tokens: 100 } }])
 * const runtime = Runtime.layer({ provider: Scripted.layer([Scripted.complete("Hello")]), tenants })
 *
 * const program = Agent.run({ prompt: "Say hello", tenant: "acme" }).pipe(
 *   Effect.map(({ exit, limit }) => `${exit}: ${limit}`)
 * )
 *
 * console.log(await Effect.runPromise(Effect.provide(program, runtime)))
 * // => budget_exhausted: allowance
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import { TenantRefused } from "../base/domain/AgentError.ts"
import { CurrentWorkspace } from "../base/domain/CallContext.ts"
import * as Ids from "../base/domain/Ids.ts"
import * as Secrets from "../base/domain/Secrets.ts"
import { formatTenant, type Tenant as Limits } from "../base/domain/Tenant.ts"
import * as Spending from "../models/routing/SpendingPort.ts"
import type { TenantModels, TenantRoutes } from "../models/routing/TenantRoutes.ts"
import { CurrentTenant } from "../store/TenantScope.ts"
import * as TenantLedger from "../store/tenants/TenantLedger.ts"
import { AllowedTools } from "../tools/ToolRegistry.ts"
import { makeUnknownTenantError, type Service, Tenants } from "./Tenancy.ts"
import { checkLimits } from "./TenantLimits.ts"
import * as TenantLedgerWriter from "./TenantLedgerWriter.ts"
import * as TenantSpending from "./TenantSpending.ts"
import type { Options as WorkspaceOptions } from "./TenantWorkspaces.ts"

export type { Allowance, AssumedPrices } from "../base/domain/Tenant.ts"
export type { ModelRoute } from "../models/routing/RouteChain.ts"
export type { TenantModels } from "../models/routing/TenantRoutes.ts"
export { CurrentTenant } from "../store/TenantScope.ts"
export { type Service, Tenants } from "./Tenancy.ts"

/** A tenant: its limits, and its models and keys. */
export interface Tenant extends Limits, TenantModels {}

/**
 * Finds a tenant by its id; `undefined` if it is unknown. It is called for each run, so that another key is used from
 * the next run on.
 */
export type Lookup<R = never> = (id: string) => Effect.Effect<Tenant | undefined, never, R>

/** Resolves the models of a tenant; `undefined` if it uses the models and keys of the runtime. */
export type ResolveModels = (tenant: Tenant) => Effect.Effect<TenantRoutes | undefined, TenantRefused>

const resolveModels: ResolveModels = (tenant) =>
  tenant.routes === undefined && tenant.auxiliary === undefined && tenant.sharedKeys === undefined
    ? Effect.undefined
    : Effect.flatMap(
        Effect.promise(() => import("../models/routing/TenantRoutes.ts")),
        ({ resolveModels }) => Effect.fromResult(resolveModels(tenant.id, tenant))
      )

/** Hides the keys of a tenant in everything that the effect writes, and in the other output of the process. */
const hideKeys = <A, E, R>(routes: TenantRoutes | undefined, effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  routes?.hasOwnKeys === true
    ? Effect.updateService(effect, Secrets.Secrets, (registry) =>
        Secrets.extendRegistry(registry, [...routes.chain, ...routes.tasks.values()])
      )
    : effect

/** Reports once that a second tenant without a workspace works in the directory of the runtime. */
const makeSharingReport = () => {
  const tenants = new Set<string>()
  return ({ id }: Tenant): Effect.Effect<undefined> => {
    if (tenants.size > 1 || tenants.has(id)) return Effect.undefined
    tenants.add(id)
    if (tenants.size === 1) return Effect.undefined
    const [first = "", second = ""] = Array.from(tenants, formatTenant)
    const message =
      `Tenants ${first} and ${second} have no workspace, so that their tools work in the directory of the runtime ` +
      "and reach the files of each other: set `workspaces`, or `workspace` of each tenant (`shared` states that they " +
      "share it)"
    return Effect.as(Effect.logWarning(message), undefined)
  }
}

/** Finds the workspace of a tenant. The code for workspaces is loaded when the first tenant has one. */
const loadWorkspaces = Effect.fnUntraced(function* (options: WorkspaceOptions) {
  const loaded = yield* Effect.cached(
    Effect.flatMap(
      Effect.promise(() => import("./TenantWorkspaces.ts")),
      ({ makeWorkspaces }) => makeWorkspaces(options)
    )
  )
  const reportSharing = makeSharingReport()
  return (tenant: Tenant) =>
    tenant.workspace === undefined && options.folder === undefined
      ? reportSharing(tenant)
      : Effect.flatMap(loaded, ({ resolve }) => resolve(tenant))
})

/** Creates the tenants over a ledger. */
export const make = Effect.fnUntraced(function* <R = never>(
  lookup: Lookup<R>,
  resolve: ResolveModels = resolveModels,
  workspaces: WorkspaceOptions = {}
): Effect.fn.Return<Service, never, TenantLedger.TenantLedger | Scope.Scope | R> {
  const ledger = yield* TenantLedger.TenantLedger
  const services = yield* Effect.context<R>()
  const writer = yield* TenantLedgerWriter.makeLedgerWriter(ledger)
  const findWorkspace = yield* loadWorkspaces(workspaces)

  const findTenant = (id: string) =>
    Effect.flatMap(Effect.provide(lookup(id), services), (tenant) =>
      tenant === undefined ? Effect.fail(makeUnknownTenantError(id)) : checkLimits(tenant)
    )

  const enter = ({ id: tenant }: Tenant, runs: number) =>
    Effect.gen(function* () {
      const id = yield* Ids.makeHex(TenantLedgerWriter.idLength)
      const isFree = yield* ledger.enter(tenant, id, runs, TenantLedgerWriter.expiresIn)
      if (isFree) return yield* writer.holdPlace(id)
      return yield* new TenantRefused({
        tenant,
        reason: "busy",
        message: `tenant ${formatTenant(tenant)} has ${runs} runs at the same time already: try again when one ends`
      })
    })

  const leave = (place: TenantLedgerWriter.Held): Effect.Effect<void> =>
    Effect.suspend(() => {
      writer.releasePlace(place)
      return Effect.catch(ledger.leave(place.id), (error) => Effect.logWarning(error.message))
    })

  const holdPlace = <A, E, R>(tenant: Tenant, effect: Effect.Effect<A, E, R>) =>
    tenant.concurrentRuns === undefined
      ? effect
      : Effect.acquireUseRelease(enter(tenant, tenant.concurrentRuns), () => effect, leave)

  const boundCalls = <A, E, R>(
    tenant: Tenant,
    effect: Effect.Effect<A, E, R>
  ): Effect.Effect<A, E | TenantRefused, R> =>
    Effect.flatMap(Effect.all([resolve(tenant), findWorkspace(tenant)]), ([routes, workspace]) =>
      hideKeys(routes, effect).pipe(
        Effect.provideService(Spending.CurrentSpending, TenantSpending.makeSpending(tenant, ledger, writer, routes)),
        Effect.provideService(AllowedTools, tenant.tools),
        Effect.provideService(PermissionMode.LoosestMode, tenant.maxMode),
        Effect.provideService(CurrentWorkspace, workspace),
        Effect.provideService(CurrentTenant, tenant.id)
      )
    )

  return {
    within: (id, effect) => Effect.flatMap(findTenant(id), (tenant) => holdPlace(tenant, boundCalls(tenant, effect))),
    bound: (id, effect) => Effect.flatMap(findTenant(id), (tenant) => boundCalls(tenant, effect)),
    balance: (tenant) => Effect.andThen(writer.flush(tenant), ledger.balance(tenant)),
    usage: (filter) =>
      Effect.andThen(
        filter?.tenant === undefined ? writer.flushAll : writer.flush(filter.tenant),
        ledger.usage(filter)
      ),
    remove: (tenant) => Effect.andThen(writer.flush(tenant), ledger.remove(tenant))
  }
})

/** Options of {@link layer}. */
export interface Options<R = never> {
  readonly lookup: Lookup<R>
  /** Ledger of the spending. Defaults to one in memory. */
  readonly ledger?: Layer.Layer<TenantLedger.TenantLedger> | undefined
  /**
   * Folder in which each tenant without a `workspace` gets a directory for its files. By default the tools of such
   * tenants work in the directory of the runtime, with the files of each other.
   */
  readonly workspaces?: string | undefined
}

/** Provides the tenants that an application looks up, for example in its own database. */
export const layer = <R = never>({
  ledger = TenantLedger.layerMemory,
  lookup,
  workspaces
}: Options<R>): Layer.Layer<Tenants, never, R> =>
  Layer.provide(Layer.effect(Tenants, make(lookup, undefined, { folder: workspaces })), ledger)

/**
 * Provides the tenants of a list. `resolve` resolves their models; by default, as they are stated. `workspaces` names
 * the places of their workspaces.
 */
export const layerFrom = (
  tenants: ReadonlyArray<Tenant>,
  ledger: Layer.Layer<TenantLedger.TenantLedger> = TenantLedger.layerMemory,
  resolve?: ResolveModels,
  workspaces?: Omit<WorkspaceOptions, "known">
): Layer.Layer<Tenants> => {
  const byId = new Map(tenants.map((tenant) => [tenant.id, tenant]))
  return Layer.provide(
    Layer.effect(
      Tenants,
      make((id) => Effect.sync(() => byId.get(id)), resolve, { ...workspaces, known: tenants })
    ),
    ledger
  )
}
