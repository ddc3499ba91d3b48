/**
 * The part of the tenants that a run uses: the service that bounds its model calls, and the result of a run whose
 * allowance is used up. `Tenants` implements the service.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import { ConfigError, type SessionStoreError, TenantRefused } from "../base/domain/AgentError.ts"
import type { RunResult } from "../base/domain/RunEvent.ts"
import * as TextCut from "../base/domain/TextCut.ts"
import type * as TenantLedger from "../store/tenants/TenantLedgerPort.ts"
import type { RunOptions } from "./RunInput.ts"
import { makeResult, type RunState } from "./RunState.ts"

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
  /** Reads the sums of a tenant. */
  readonly balance: TenantLedger.Service["balance"]
  /** Lists usage by day and model, for figures and bills. */
  readonly usage: TenantLedger.Service["usage"]
  /** Removes the sums and the usage of a tenant. */
  readonly remove: TenantLedger.Service["remove"]
}

/** Service of the tenants of a runtime. */
export class Tenants extends Context.Service<Tenants, Service>()("hermes-effect/agent/Tenants") {}

/** Runs an effect for the tenant of a run, if it has one. */
export const boundRun = <A, E, R>(
  tenants: Service | undefined,
  { tenant }: Pick<RunOptions, "tenant">,
  effect: Effect.Effect<A, E, R>
): Effect.Effect<A, E | TenantRefused | SessionStoreError | ConfigError, R> => {
  if (tenant === undefined) return effect
  return tenants === undefined
    ? Effect.fail(
        new ConfigError({
          path: "tenant",
          message: `the run is for tenant ${TextCut.shorten(tenant, 80)}, and the runtime has no tenants: add \`tenants\` to its options`
        })
      )
    : tenants.within(tenant, effect)
}

/**
 * Ends a run whose tenant has no allowance left with a result. Other refusals fail the run. A child fails, because its
 * parent can make no more calls either.
 */
export const endWithoutAllowance = <E, R>(
  run: RunState,
  { tenant }: Pick<RunOptions, "tenant">,
  effect: Effect.Effect<RunResult, E, R>
): Effect.Effect<RunResult, E, R> =>
  tenant === undefined
    ? effect
    : Effect.catchCause(effect, (cause) => {
        const refused = cause.reasons
          .filter(Cause.isFailReason)
          .map(({ error }): unknown => error)
          .find((error) => error instanceof TenantRefused)
        if (refused === undefined || refused.reason !== "allowance") return Effect.failCause(cause)
        const { freeAt, message } = refused
        return Effect.succeed(
          makeResult(run, "budget_exhausted", `Stopped: ${message}.`, { limit: "allowance", freeAt })
        )
      })
