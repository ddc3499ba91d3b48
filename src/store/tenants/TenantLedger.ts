/**
 * Ledgers of the tenants' spending: the port `TenantLedger`, and the layers that implement it.
 *
 * **Example** (The sums of a tenant)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { TenantLedger } from "hermes-effect/tenants"
 *
 * const program = TenantLedger.TenantLedger.use((ledger) => ledger.balance("acme"))
 *
 * const { spentToday } = await Effect.runPromise(Effect.provide(program, TenantLedger.layerMemory))
 * console.log(spentToday.tokens)
 * // => 0
 * ```
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import type * as Scope from "effect/Scope"
import type { SessionStoreError } from "../../base/domain/AgentError.ts"
import { openOnce } from "../../base/platform/OpenOnce.ts"
import * as MemoryTenantLedger from "./MemoryTenantLedger.ts"
import { type Service, TenantLedger } from "./TenantLedgerPort.ts"

export * from "./TenantLedgerPort.ts"

/** Keeps the ledger in memory. */
export const layerMemory: Layer.Layer<TenantLedger> = Layer.fresh(Layer.sync(TenantLedger, MemoryTenantLedger.make))

/** Creates a ledger that is opened when it is first used. */
const layerOpened = (open: Effect.Effect<Service, SessionStoreError, Scope.Scope>): Layer.Layer<TenantLedger> =>
  Layer.effect(
    TenantLedger,
    Effect.map(openOnce(open), (opened): Service => {
      const use = <A>(body: (ledger: Service) => Effect.Effect<A, SessionStoreError>) => Effect.flatMap(opened, body)
      return {
        reserve: (request) => use(({ reserve }) => reserve(request)),
        settle: (tenant, settled) => use(({ settle }) => settle(tenant, settled)),
        renew: (ids, expiresIn) => use(({ renew }) => renew(ids, expiresIn)),
        balance: (tenant) => use(({ balance }) => balance(tenant)),
        usage: (filter) => use(({ usage }) => usage(filter)),
        enter: (tenant, id, most, expiresIn) => use(({ enter }) => enter(tenant, id, most, expiresIn)),
        leave: (id) => use(({ leave }) => leave(id)),
        readRows: use(({ readRows }) => readRows),
        addRows: (rows) => use(({ addRows }) => addRows(rows)),
        remove: (tenant) => use(({ remove }) => remove(tenant))
      }
    })
  )

/** Keeps the ledger in a SQLite file, which the processes of one machine may share. */
export const layerSqlite = ({ path }: { readonly path: string }): Layer.Layer<TenantLedger> =>
  layerOpened(
    Effect.flatMap(
      Effect.promise(() => import("./SqliteTenantLedger.ts")),
      ({ open }) => open(path)
    )
  )

/** Keeps the ledger in a Postgres database, which several machines may share. */
export const layerPostgres = (options: {
  readonly url: Redacted.Redacted
  readonly connections?: number | undefined
}): Layer.Layer<TenantLedger> =>
  layerOpened(
    Effect.flatMap(
      Effect.promise(() => import("./PostgresTenantLedger.ts")),
      ({ open }) => open(options)
    )
  )
