/**
 * The data of tenants that a runtime stores: its removal on request, and the removal of old sessions.
 *
 * **Details**
 *
 * The data of a tenant consists of its sessions with their sub-agents, run records and questions, of its memory files,
 * and of its sums and usage in the ledger.
 *
 * **Gotchas**
 *
 * Files and scheduled jobs are not part of it: `TenantRemoval` removes a tenant from all places of an application.
 *
 * **Example** (Everything about a tenant is deleted)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { TenantData } from "hermes-effect/tenants"
 *
 * export const forget = Effect.map(
 *   TenantData.removeTenant("acme"),
 *   ({ sessions, usageRows }) => `${sessions} sessions and ${usageRows} rows of usage were deleted`
 * )
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Schedule from "effect/Schedule"
import { type SessionBusy, SessionStoreError } from "../base/domain/AgentError.ts"
import type { Tenant } from "../base/domain/Tenant.ts"
import { removeConversation } from "../store/SessionChain.ts"
import { SessionMaintenance } from "../store/SessionMaintenance.ts"
import * as SessionRetention from "../store/SessionRetention.ts"
import { type Session, SessionStore } from "../store/SessionStore.ts"
import * as TenantLedger from "../store/tenants/TenantLedger.ts"

/** Data that was removed. */
export interface RemovedData {
  /** Number of sessions, with sub-agents and continuations. */
  readonly sessions: number
  /** Number of rows of usage, by day and model. */
  readonly usageRows: number
}

/** Selection of further sessions that belong to a tenant. */
type IsOfTenant = (session: Session) => boolean

const isUnrelated: IsOfTenant = () => false

/** Lists the sessions of a tenant, and those that `isAlso` selects. */
export const listSessions = (
  tenant: string,
  isAlso: IsOfTenant = isUnrelated
): Effect.Effect<ReadonlyArray<Session>, SessionStoreError, SessionStore> =>
  SessionStore.use((store) =>
    isAlso === isUnrelated
      ? store.list({ tenant, limit: Number.MAX_SAFE_INTEGER })
      : Effect.map(store.list({ limit: Number.MAX_SAFE_INTEGER }), (all) =>
          all.filter((session) => session.tenant === tenant || isAlso(session))
        )
  )

/**
 * Removes the sessions of a tenant, with those that `isAlso` selects. Fails while one of them is in use. Returns their
 * number.
 */
export const removeSessions = Effect.fnUntraced(function* (
  tenant: string,
  isAlso: IsOfTenant = isUnrelated
): Effect.fn.Return<number, SessionBusy | SessionStoreError, SessionStore> {
  const store = yield* SessionStore
  const maintenance = Option.getOrUndefined(yield* Effect.serviceOption(SessionMaintenance))
  const before = yield* listSessions(tenant, isAlso)
  for (const { id } of before) yield* removeConversation(store, id, maintenance)
  return before.length - (yield* listSessions(tenant, isAlso)).length
})

/**
 * Removes all data of a tenant: its sessions, then its sums and usage. Fails while one of its sessions is in use; the
 * data that is left is removed by another call. The memory files of a tenant are removed by `MemoryStore.removeTenant`.
 */
export const removeTenant = Effect.fnUntraced(function* (
  tenant: string,
  isAlso: IsOfTenant = isUnrelated
): Effect.fn.Return<RemovedData, SessionBusy | SessionStoreError, SessionStore | TenantLedger.TenantLedger> {
  const ledger = yield* TenantLedger.TenantLedger
  const { length: usageRows } = yield* ledger.usage({ tenant })
  const sessions = yield* removeSessions(tenant, isAlso)
  yield* ledger.remove(tenant)
  return { sessions, usageRows }
})

/**
 * Removes the sessions of a tenant that are older than it may be stored. Returns their number. Removes nothing, and
 * fails, if the age is not a number of at least 0.
 */
export const pruneSessions = ({
  id,
  retentionDays
}: Tenant): Effect.Effect<number, SessionStoreError, SessionRetention.SessionRetention> => {
  if (retentionDays === undefined || retentionDays === Infinity) return Effect.succeed(0)
  if (!(retentionDays >= 0))
    return Effect.fail(
      new SessionStoreError({
        operation: "prune",
        message: `retentionDays of tenant ${id} is not a number of at least 0: correct it where tenants are stored`
      })
    )
  return Effect.flatMap(SessionRetention.computeCutoff(retentionDays), (before) =>
    Effect.map(SessionRetention.prune({ before, tenant: id }, false), ({ removed }) => removed)
  )
}

/** Interval between two removals of old sessions. */
const pruneEvery = "1 hour"

/** Removes old sessions of tenants in the background, at the start and then every hour. */
export const layerRetention = (
  tenants: ReadonlyArray<Tenant>
): Layer.Layer<never, never, SessionRetention.SessionRetention> => {
  const limited = tenants.filter(({ retentionDays }) => retentionDays !== undefined)
  if (limited.length === 0) return Layer.empty
  const pruneAll = Effect.forEach(
    limited,
    (tenant) =>
      Effect.catch(pruneSessions(tenant), (error) =>
        Effect.logWarning(`Old sessions of tenant ${tenant.id} were not removed: ${error.message}`)
      ),
    { discard: true }
  )
  return Layer.effectDiscard(Effect.forkScoped(Effect.repeat(pruneAll, Schedule.spaced(pruneEvery))))
}
