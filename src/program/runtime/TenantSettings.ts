/** The tenants of the settings, and the place of their ledger. */
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Config from "../../base/config/Config.ts"
import { Environment, Home } from "../../base/config/Environment.ts"
import type { Values } from "../../base/config/Settings.ts"
import type { Tenant } from "../../base/domain/Tenant.ts"
import type { RouteSources } from "../../models/routing/ConfiguredRoutes.ts"
import type { Tenants } from "../../agent/Tenancy.ts"
import type { ResolveModels } from "../../agent/Tenants.ts"
import type { SessionRetention } from "../../store/SessionRetention.ts"
import * as TenantLedger from "../../store/tenants/TenantLedger.ts"

/** Returns the tenants of the settings with their limits, by name. */
export const readTenants = ({ tenants }: Pick<Values, "tenants">): ReadonlyArray<Tenant> =>
  Object.entries(tenants)
    .map(([id, { auxiliary: _, routes: __, sharedKeys: ___, ...limits }]) => ({ id, ...limits }))
    .toSorted((a, b) => (a.id < b.id ? -1 : 1))

const locateLedger = ({ database }: Home["Service"]): string => database.replace(/(?:\.db)?$/u, ".tenants.db")

/**
 * Makes the layer of the ledger: in the database of the cluster if the settings name one, so that several machines
 * share it, otherwise in a file beside the database of the home directory.
 */
export const makeLedgerLayer = (
  { cluster: { databaseUrl } }: Pick<LedgerSelection, "cluster">,
  home: Home["Service"]
): Layer.Layer<TenantLedger.TenantLedger> =>
  databaseUrl === undefined
    ? TenantLedger.layerSqlite({ path: locateLedger(home) })
    : TenantLedger.layerPostgres({ url: databaseUrl })

/** Settings that select a ledger. */
interface LedgerSelection extends Pick<Values, "tenants"> {
  readonly cluster: Pick<Values["cluster"], "databaseUrl">
}

/** Ledger of a command that does not load settings. */
export interface StoredLedger {
  readonly layer: Layer.Layer<TenantLedger.TenantLedger>
  /** False if there are no tenants and no ledger. */
  readonly exists: boolean
}

/** Finds the ledger for a command that does not load settings. Mistakes in settings are reported by other commands. */
export const findConfiguredLedger: Effect.Effect<StoredLedger, never, FileSystem.FileSystem | Home> = Effect.gen(
  function* () {
    const home = yield* Home
    const fs = yield* FileSystem.FileSystem
    const settings = yield* Config.load().pipe(
      Effect.map(({ settings }): LedgerSelection => settings),
      Effect.provide(Environment.layer),
      Effect.orElseSucceed((): LedgerSelection => ({ cluster: {}, tenants: {} }))
    )
    const exists =
      settings.cluster.databaseUrl === undefined
        ? yield* Effect.orElseSucceed(fs.exists(locateLedger(home)), () => true)
        : readTenants(settings).length > 0
    return { layer: makeLedgerLayer(settings, home), exists }
  }
)

/** Makes the layer that removes old sessions of tenants, which is empty if no tenant has a limit for them. */
export const makeRetentionLayer = (settings: Values): Layer.Layer<never, never, SessionRetention> => {
  const tenants = readTenants(settings)
  return tenants.every(({ retentionDays }) => retentionDays === undefined)
    ? Layer.empty
    : Layer.unwrap(
        Effect.map(
          Effect.promise(() => import("../../agent/TenantData.ts")),
          ({ layerRetention }) => layerRetention(tenants)
        )
      )
}

/** Resolves the routes of the tenants of the settings, if one has some. */
const resolveRoutes = (configured: RouteSources): Effect.Effect<ResolveModels> =>
  Object.values(configured.settings.tenants).every((tenant) =>
    [tenant.auxiliary, tenant.routes, tenant.sharedKeys].every((one) => one === undefined)
  )
    ? Effect.succeed(() => Effect.undefined)
    : Effect.flatMap(
        Effect.promise(() => import("./TenantRouteSettings.ts")),
        ({ resolveTenants }) => resolveTenants(configured)
      )

/**
 * Makes the layer of the tenants, which is empty if the settings have none. A tenant whose routes are not valid is
 * refused with the problem, which is also logged at the start. `configured` is `undefined` if a substitute answers
 * instead of models: routes are then not used.
 */
export const makeTenantsLayer = (
  settings: Values,
  home: Home["Service"],
  configured: RouteSources | undefined
): Layer.Layer<Tenants> | Layer.Layer<never> => {
  const tenants = readTenants(settings)
  if (tenants.length === 0) return Layer.empty
  return Layer.unwrap(
    Effect.gen(function* () {
      const { layerFrom } = yield* Effect.promise(() => import("../../agent/Tenants.ts"))
      const resolve = configured === undefined ? () => Effect.undefined : yield* resolveRoutes(configured)
      return layerFrom(tenants, makeLedgerLayer(settings, home), resolve, { folder: home.root, apart: [home.root] })
    })
  )
}
