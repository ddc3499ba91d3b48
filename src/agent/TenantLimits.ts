/** Limits of tenants: their validity, and the numbers that the ledger compares. */
import * as Effect from "effect/Effect"
import * as PermissionMode from "../base/config/PermissionMode.ts"
import { TenantRefused } from "../base/domain/AgentError.ts"
import { formatTenant, type Tenant, toNanos } from "../base/domain/Tenant.ts"
import type * as TenantLedger from "../store/tenants/TenantLedger.ts"

const isLimit = (value: number | undefined): boolean => value === undefined || value >= 0

const isList = (value: unknown): boolean => value === undefined || Array.isArray(value)

const isMode = (value: unknown): boolean => value === undefined || PermissionMode.all.some((mode) => mode === value)

/**
 * Describes the first limit of a tenant that is not of its type or is less than 0, for a lookup that returns such a
 * value.
 */
const findInvalidLimit = (tenant: Tenant): string | undefined => {
  const { callsPerMinute, concurrentRuns, perDay, perMonth, perRun, unknownPrices } = tenant
  const prices = typeof unknownPrices === "object" ? [unknownPrices.input, unknownPrices.output] : []
  const limits: ReadonlyArray<readonly [name: string, isValid: boolean]> = [
    // Stores replace halves of surrogate pairs, so that different names would be one.
    ["id", !/\p{Surrogate}|\0/u.test(tenant.id)],
    ...Object.entries({ perRun, perDay, perMonth }).flatMap(([name, allowance]) => [
      [`${name}.tokens`, isLimit(allowance?.tokens)] as const,
      [`${name}.dollars`, isLimit(allowance?.dollars)] as const
    ]),
    ["callsPerMinute", callsPerMinute === undefined || callsPerMinute >= 1],
    ["concurrentRuns", isLimit(concurrentRuns)],
    ["retentionDays", isLimit(tenant.retentionDays)],
    ["unknownPrices", prices.every((price) => Number.isFinite(price) && price >= 0)],
    ["tools", isList(tenant.tools)],
    ["models", isList(tenant.models)],
    ["maxMode", isMode(tenant.maxMode)]
  ]
  return limits.find(([, isValid]) => !isValid)?.[0]
}

/** Fails if a limit of a tenant is not valid. */
export const checkLimits = (tenant: Tenant): Effect.Effect<Tenant, TenantRefused> => {
  const invalid = findInvalidLimit(tenant)
  return invalid === undefined
    ? Effect.succeed(tenant)
    : Effect.fail(
        new TenantRefused({
          tenant: tenant.id,
          reason: "limits",
          message:
            `${invalid === "id" ? "the id" : `the limit ${invalid}`} of tenant ${formatTenant(tenant.id)} is not valid: ` +
            "correct it where tenants are stored"
        })
      )
}

/** Returns a whole number of units of a limit; `undefined` for an infinite one. */
const toWhole = (limit: number | undefined): number | undefined =>
  limit === undefined || limit === Infinity ? undefined : Math.floor(limit)

const toNanosLimit = (dollars: number | undefined): number | undefined =>
  dollars === undefined || dollars === Infinity ? undefined : toNanos(dollars)

/** Returns the limits of a tenant's periods. */
export const toLimits = ({ callsPerMinute, perDay, perMonth }: Tenant): TenantLedger.Limits => ({
  dayTokens: toWhole(perDay?.tokens),
  dayNanos: toNanosLimit(perDay?.dollars),
  monthTokens: toWhole(perMonth?.tokens),
  monthNanos: toNanosLimit(perMonth?.dollars),
  callsPerMinute: toWhole(callsPerMinute)
})

/** Tests whether a tenant has a limit in money. */
export const limitsMoney = ({ perDay, perMonth, perRun }: Tenant): boolean =>
  [perDay, perMonth, perRun].some((allowance) => allowance?.dollars !== undefined)
