/** Tenants as plain values: a list, or a function of the application that looks one up. */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Tenants from "../../agent/Tenants.ts"
import * as PermissionMode from "../../base/config/PermissionMode.ts"
import type { Allowance, AssumedPrices, Tenant } from "../../base/domain/Tenant.ts"
import * as Json from "../../base/domain/Json.ts"
import type { TenantModels } from "../../models/routing/TenantRoutes.ts"
import * as TenantLedger from "../../store/tenants/TenantLedger.ts"
import { HermesError } from "./HermesError.ts"
import {
  type HermesModel,
  type HermesModelName,
  type HermesModels,
  modelCheck,
  modelsCheck,
  toRoutes
} from "./PlainModels.ts"
import * as Options from "./PlainOptions.ts"

/**
 * Tenants of a runtime. A function is called for each run with the id of its tenant, for example to read a database; it
 * returns `undefined` for an unknown tenant.
 */
export type HermesTenants =
  | ReadonlyArray<HermesTenant>
  | ((id: string) => HermesTenant | undefined | Promise<HermesTenant | undefined>)

/** A tenant: its limits, and its models and keys. */
export interface HermesTenant extends Tenant, Pick<TenantModels, "sharedKeys"> {
  /**
   * Models of its runs in order of preference. A model without `apiKey` uses the key of the runtime for its provider.
   * Default: the models of the runtime.
   */
  readonly model?: HermesModels | undefined
  /** Models of its side tasks by task, such as `title`; `default` applies to the tasks without one. */
  readonly auxiliary?: Readonly<Record<string, HermesModelName | HermesModel>> | undefined
}

/** Store whose place the ledger of the tenants shares. */
type LedgerStore = "memory" | "none" | { readonly sqlite: string } | { readonly postgres: string } | undefined

const allowance: Options.Checks<Allowance> = { tokens: Options.amount, dollars: Options.amount }
const checkAllowance = Options.makeMembersCheck("limit of an allowance", allowance)

const prices: Options.Checks<AssumedPrices> = { input: Options.amount, output: Options.amount }
const checkPrices = Options.makeMembersCheck("price", prices, ["input", "output"])

const checkAuxiliary: Options.Check = (value, at) =>
  Json.isFields(value)
    ? Object.entries(value).flatMap(([task, model]) => modelCheck(model, `${at}.${task}`))
    : [`${at}: expected models by the name of the task`]

const checkModels: Options.Check = (value, at) =>
  value === "offline" || Layer.isLayer(value)
    ? [`${at}: expected { provider, model, apiKey }, a list of them, or "provider/model"`]
    : modelsCheck(value, at)

const tenant: Options.Checks<HermesTenant> = {
  id: Options.name,
  perRun: checkAllowance,
  perDay: checkAllowance,
  perMonth: checkAllowance,
  callsPerMinute: Options.count,
  concurrentRuns: Options.count,
  unknownPrices: (value, at) => (value === "refuse" ? [] : checkPrices(value, at)),
  tools: Options.names,
  models: Options.names,
  maxMode: Options.makeChoiceCheck(PermissionMode.all),
  workspace: Options.text,
  sharesWorkspace: Options.flag,
  retentionDays: Options.count,
  reserve: Options.makeChoiceCheck(["bound", "estimate"]),
  model: checkModels,
  auxiliary: checkAuxiliary,
  sharedKeys: Options.makeChoiceCheck(["never", "fallback"])
}
const checkTenant = Options.makeMembersCheck("option of a tenant", tenant, ["id"])

/** Checks the option `tenants`. */
export const tenantsCheck: Options.Check = (value, at) => {
  if (typeof value === "function") return []
  if (!Array.isArray(value)) return [`${at} is not a list of tenants or a function that looks one up`]
  return value.flatMap((one: unknown, index) => checkTenant(one, `${at}[${index}]`))
}

/** Ledger in the place of the store: a table of its database, or memory. */
const makeLedger = (store: LedgerStore): Layer.Layer<TenantLedger.TenantLedger> => {
  if (store === undefined || typeof store === "string") return TenantLedger.layerMemory
  return "postgres" in store
    ? TenantLedger.layerPostgres({ url: Redacted.make(store.postgres) })
    : TenantLedger.layerSqlite({ path: store.sqlite === ":memory:" ? store.sqlite : `${store.sqlite}.tenants` })
}

/**
 * Converts models to routes. A key that is `undefined`, such as the value of a variable that is not set, stays present,
 * so that it does not select the key of the runtime.
 */
const toTenantRoutes = (model: HermesModels): ReadonlyArray<Tenants.ModelRoute> => {
  const given: ReadonlyArray<unknown> = Array.isArray(model) ? model : [model]
  return toRoutes(model).map((route, index) => {
    const one = given[index]
    return Json.isFields(one) && Object.hasOwn(one, "apiKey") ? { apiKey: undefined, ...route } : route
  })
}

/** Converts a tenant to the form of the library. */
const toTenant = ({ auxiliary, model, ...tenant }: HermesTenant): Tenants.Tenant => ({
  ...tenant,
  ...(model === undefined ? {} : { routes: toTenantRoutes(model) }),
  ...(auxiliary === undefined
    ? {}
    : {
        auxiliary: Object.fromEntries(
          Object.entries(auxiliary).flatMap(([task, one]) => toTenantRoutes(one).map((route) => [task, route]))
        )
      })
})

/** Calls the lookup of the application. A tenant whose limits cannot be read would have none, and is an error. */
const findTenant = async (
  lookup: Exclude<HermesTenants, ReadonlyArray<HermesTenant>>,
  id: string
): Promise<Tenants.Tenant | undefined> => {
  const found = await lookup(id)
  if (found === undefined) return undefined
  return Options.readPlainly("ConfigError", "the tenant of `tenants`", () => {
    const problems = checkTenant(found, "tenant")
    if (problems.length === 0) return toTenant(found)
    throw new HermesError("ConfigError", `tenants: the function returned no valid tenant: ${problems.join("; ")}`)
  })
}

/** Makes the layer of the tenants. A lookup that fails is a defect of the application, and rejects the run. */
export const toTenants = (tenants: HermesTenants, store: LedgerStore): Layer.Layer<Tenants.Tenants> =>
  typeof tenants === "function"
    ? Tenants.layer({ lookup: (id) => Effect.promise(() => findTenant(tenants, id)), ledger: makeLedger(store) })
    : Tenants.layerFrom(tenants.map(toTenant), makeLedger(store))
