/** Tenants: limits of spending that no model call can overrun, and their ledger. */
export * as TenantLedger from "../../store/tenants/TenantLedger.ts"
export * as Tenants from "../../agent/Tenants.ts"
export * as TenantData from "../../agent/TenantData.ts"
export * as TenantRemoval from "../../agent/TenantRemoval.ts"
export * as TenantScope from "../../store/TenantScope.ts"
