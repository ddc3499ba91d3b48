/**
 * The part of the tenants that a run uses: the service that bounds its model calls, and the result of a run whose
 * allowance is used up. `Tenants` implements the service.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import { ConfigError, type SessionStoreError, TenantRefused } from "../base/domain/AgentError.ts"
import { SessionId } from "../base/domain/Ids.ts"
import { formatTenant } from "../base/domain/Tenant.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import { useTenantRouter } from "../models/routing/ModelRouter.ts"
import { CurrentSpending } from "../models/routing/SpendingPort.ts"
import * as TenantScope from "../store/TenantScope.ts"
import type * as TenantLedger from "../store/tenants/TenantLedgerPort.ts"
import type { RunOptions } from "./RunInput.ts"
import { makeResult, type RunState } from "./RunState.ts"
import { type AgentServices, Services } from "./Services.ts"

/** Tenants and their ledger. */
export interface Service {
  /**
   * Runs an effect for a tenant: its model calls are bounded by the tenant's limits, and it takes one of the tenant's
   * places for runs.
   */
  readonly within: <A, E, R>(
    tenant: string,
    effect: Effect.Effect<A, E, R>
  ) => Effect.Effect<A, E | TenantRefused | SessionStoreError, R>
  /**
   * Bounds the model calls of an effect that is not a run, such as a compaction or a title. It takes no place. Its
   * allowance of a run is separate.
   */
  readonly bound: Service["within"]
  /** Reads the sums of a tenant. */
  readonly balance: TenantLedger.Service["balance"]
  /** Lists usage by day and model, for figures and bills. */
  readonly usage: TenantLedger.Service["usage"]
  /** Removes the sums and the usage of a tenant. */
  readonly remove: TenantLedger.Service["remove"]
}

/** Service of the tenants of a runtime. */
export class Tenants extends Context.Service<Tenants, Service>()("hermes-effect/agent/Tenants") {}

const makeMissingError = (tenant: string): ConfigError =>
  new ConfigError({
    path: "tenant",
    message: `the run is for tenant ${formatTenant(tenant)}, and the runtime has no tenants: add its option \`tenants\``
  })

/** Creates the error for a tenant that does not exist, or that the work for another tenant names. */
export const makeUnknownTenantError = (id: string): TenantRefused =>
  new TenantRefused({ tenant: id, reason: "unknown", message: `there is no tenant ${formatTenant(id)}` })

type Bounded<A, E, R> = Effect.Effect<A, E | TenantRefused | SessionStoreError | ConfigError, R>

/** Provides the services of an agent to an effect, with the router of the tenant's own routes if it has some. */
export const provideServices = <A, E, R>(
  services: AgentServices,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | TenantRefused, Exclude<R, Services>> =>
  Effect.withFiber((fiber) => {
    const routes = fiber.getRef(CurrentSpending)?.routes
    return routes === undefined
      ? Effect.provideService(effect, Services, services)
      : useTenantRouter(services.router, routes, (router) =>
          Effect.provideService(effect, Services, { ...services, router })
        )
  })

/**
 * Returns the tenant of an operation on a session: the given one, or the tenant of the session for the owner of the
 * application, whose work on it uses the memory, the files and the limits of that tenant.
 */
const findSessionTenant = (
  { store }: Pick<AgentServices, "store">,
  given: string | undefined,
  sessionId: string | undefined
): Effect.Effect<string | undefined, SessionStoreError> =>
  Effect.withFiber((fiber) => {
    const hasTenant = given ?? fiber.getRef(TenantScope.CurrentTenant) ?? fiber.getRef(CurrentSpending)
    return hasTenant !== undefined || sessionId === undefined || sessionId === ""
      ? Effect.succeed(given)
      : Effect.map(store.get(SessionId.make(sessionId)), (found) => Option.getOrUndefined(found)?.tenant)
  })

/** Bounds an effect for a tenant, or for the tenant of the fiber, unless a run of a tenant bounds it already. */
const boundEffect = <A, E, R>(
  tenants: Service | undefined,
  kind: "within" | "bound",
  given: string | undefined,
  effect: Effect.Effect<A, E, R>
): Bounded<A, E, R> =>
  Effect.withFiber((fiber): Bounded<A, E, R> => {
    const isBounded = fiber.getRef(CurrentSpending) !== undefined
    const current = fiber.getRef(TenantScope.CurrentTenant)
    // In the work for a tenant, no other tenant exists.
    if (given !== undefined && current !== undefined && given !== current)
      return Effect.fail(makeUnknownTenantError(given))
    const tenant = given ?? (isBounded ? undefined : current)
    if (tenant === undefined) return effect
    return tenants === undefined ? Effect.fail(makeMissingError(tenant)) : tenants[kind](tenant, effect)
  })

/** Runs an effect with the services of its agent, for the tenant of a run if it has one. */
export const boundRun = <A, E, R>(
  tenants: Service | undefined,
  { sessionId, tenant }: Pick<RunOptions, "sessionId" | "tenant">,
  services: AgentServices,
  effect: Effect.Effect<A, E, R>
): Bounded<A, E, Exclude<R, Services>> => {
  const boundForTenant = (tenant: string | undefined) =>
    boundEffect(tenants, "within", tenant, provideServices(services, effect))
  return tenants === undefined
    ? boundForTenant(tenant)
    : Effect.flatMap(findSessionTenant(services, tenant, sessionId), boundForTenant)
}

/** Bounds the model calls of an operation of an agent that is not a run, if it or its session has a tenant. */
export const boundSessionOperation = <A, E, R>(
  tenants: Service | undefined,
  options: Pick<RunOptions, "sessionId" | "tenant">,
  services: AgentServices,
  effect: Effect.Effect<A, E, R>
): Bounded<A, E, Exclude<R, Services>> =>
  boundSessionWork(tenants, options, services, provideServices(services, effect))

/** Bounds the model calls of other work for a session, such as its title, if it or the session has a tenant. */
export const boundSessionWork = <A, E, R>(
  tenants: Service | undefined,
  { sessionId, tenant }: Pick<RunOptions, "sessionId" | "tenant">,
  services: Pick<AgentServices, "store">,
  effect: Effect.Effect<A, E, R>
): Bounded<A, E, R> =>
  tenants === undefined
    ? boundOperation(tenants, tenant, effect)
    : Effect.flatMap(findSessionTenant(services, tenant, sessionId), (tenant) =>
        boundOperation(tenants, tenant, effect)
      )

/** Bounds the model calls of an operation that is not a run, if it has a tenant. */
export const boundOperation = <A, E, R>(
  tenants: Service | undefined,
  tenant: string | undefined,
  effect: Effect.Effect<A, E, R>
): Bounded<A, E, R> => boundEffect(tenants, "bound", tenant, effect)

/**
 * Ends a run whose tenant has no allowance left with a result. Other refusals fail the run. A child fails, because its
 * parent can make no more calls either.
 */
export const endWithoutAllowance = <E, R>(
  run: RunState,
  effect: Effect.Effect<RunResult, E, R>
): Effect.Effect<RunResult, E, R> =>
  run.lineage !== undefined
    ? effect
    : Effect.catchCause(effect, (cause) => {
        const refused = cause.reasons
          .filter(Cause.isFailReason)
          .map(({ error }): unknown => error)
          .find((error) => error instanceof TenantRefused)
        if (refused === undefined || refused.reason !== "allowance") return Effect.failCause(cause)
        const { freeAt, message } = refused
        // The beginning of an answer whose continuation was refused is part of the result.
        const begun = run.steps.answerText + run.questions.answer.broken.shown
        const text = `${begun === "" ? "" : `${begun}\n\n`}Stopped: ${message}.`
        return Effect.succeed(makeResult(run, "budget_exhausted", text, { limit: "allowance", freeAt }))
      })
