/**
 * The scope of a cluster: in the work for a tenant, only the runs of that tenant exist.
 *
 * **Details**
 *
 * A run that is submitted in the work for a tenant belongs to that tenant, on whichever runner. All other runs are
 * treated as missing ones, with the same errors. Without a tenant, as for the owner of the application, all runs exist.
 *
 * **Gotchas**
 *
 * Ids of runs are unique over all tenants. A submission with the id of another tenant's run fails.
 */
import * as Effect from "effect/Effect"
import { CurrentTenant } from "../../store/TenantScope.ts"
import { ClusterError, type Service } from "./Cluster.ts"

/** Creates the error for a run that does not exist. */
export const makeUnknownRunError = (id: string): ClusterError =>
  new ClusterError({ message: `there is no run ${id}: check its id` })

/** Creates the error for a message to a session without a running turn. */
export const makeIdleError = (sessionId: string): ClusterError =>
  new ClusterError({ message: `session ${sessionId} has no running turn: submit the text as a turn of it` })

/**
 * Limits a cluster to the runs of the tenant for which a fiber works. `findRunning` returns the id of the running turn
 * of a session.
 */
export const scopeCluster = (
  cluster: Service,
  findRunning: (sessionId: string) => Effect.Effect<string | undefined, ClusterError>
): Service => {
  const findOwn = (tenant: string | undefined, id: string) =>
    Effect.map(cluster.find(id), (run) => (tenant === undefined || run?.tenant === tenant ? run : undefined))
  /** Runs an operation on a run, which fails for a run of another tenant. */
  const guardRun = <A>(id: string, effect: Effect.Effect<A, ClusterError>): Effect.Effect<A, ClusterError> =>
    Effect.flatMap(CurrentTenant, (tenant) =>
      tenant === undefined
        ? effect
        : Effect.flatMap(findOwn(tenant, id), (run) =>
            run === undefined ? Effect.fail(makeUnknownRunError(id)) : effect
          )
    )
  const { counts, failures, outcomes, suspended } = cluster
  // Each member is listed, so that a new one does not compile without its limit.
  return {
    counts,
    failures,
    outcomes,
    suspended,
    find: (id) => Effect.flatMap(CurrentTenant, (tenant) => findOwn(tenant, id)),
    submit: (request) =>
      Effect.flatMap(CurrentTenant, (tenant) => {
        if (tenant === undefined) return cluster.submit(request)
        if (request.tenant !== undefined && request.tenant !== tenant)
          return Effect.fail(new ClusterError({ message: `there is no tenant ${request.tenant}` }))
        return cluster.submit({ ...request, tenant })
      }),
    cancel: (id) => guardRun(id, cluster.cancel(id)),
    retry: (id) => guardRun(id, cluster.retry(id)),
    resume: (id) =>
      Effect.flatMap(CurrentTenant, (tenant) =>
        // An unknown run is not continued either.
        Effect.flatMap(findOwn(tenant, id), (run) => (run === undefined ? Effect.void : cluster.resume(id)))
      ),
    steer: (sessionId, text) =>
      Effect.flatMap(CurrentTenant, (tenant) => {
        if (tenant === undefined) return cluster.steer(sessionId, text)
        const isOwn = Effect.flatMap(findRunning(sessionId), (id) =>
          id === undefined ? Effect.succeed(false) : Effect.map(findOwn(tenant, id), (run) => run !== undefined)
        )
        return Effect.flatMap(isOwn, (own) =>
          own ? cluster.steer(sessionId, text) : Effect.fail(makeIdleError(sessionId))
        )
      }),
    removeTenant: (removed, sessions) =>
      Effect.flatMap(CurrentTenant, (tenant) => {
        if (tenant !== undefined && tenant !== removed) return Effect.succeed(0)
        // A tenant may name sessions of others.
        return cluster.removeTenant(removed, tenant === undefined ? sessions : [])
      })
  }
}
