/**
 * A tenant: a customer or a team for which an application runs agents, with the limits on its spending.
 *
 * Money is counted in nanodollars (10⁻⁹ US dollars), so that sums of calls are exact integers.
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Schema from "effect/Schema"

/** Limits of one period. An absent limit does not apply. */
export interface Allowance {
  /** Maximum number of tokens that model calls read and write. */
  readonly tokens?: number | undefined
  /** Maximum cost in US dollars. */
  readonly dollars?: number | undefined
}

/** Prices that are assumed for a model whose prices are unknown, in US dollars per million tokens. */
export interface AssumedPrices {
  readonly input: number
  readonly output: number
}

/** A tenant. Absent fields impose no limit. */
export interface Tenant {
  /** Name of the tenant. It is stored with its usage, and shown in figures. */
  readonly id: string
  /** Limits of one run with its children and side tasks. */
  readonly perRun?: Allowance | undefined
  /** Limits of a day (UTC). */
  readonly perDay?: Allowance | undefined
  /** Limits of a calendar month (UTC). */
  readonly perMonth?: Allowance | undefined
  /** Maximum number of model calls that begin in a minute. Further calls wait. */
  readonly callsPerMinute?: number | undefined
  /** Maximum number of runs at the same time, over all processes that share the ledger. Further runs are refused. */
  readonly concurrentRuns?: number | undefined
  /**
   * Treatment of models without known prices if a limit in dollars applies: `refuse` (the default) makes no such call;
   * prices are assumed otherwise.
   */
  readonly unknownPrices?: "refuse" | AssumedPrices | undefined
  /**
   * Size of reservations. `bound` (the default) reserves an upper bound of each prompt, and counts the whole
   * reservation of a call whose end is not known: no call overruns a limit. An answer without reported usage counts
   * with its bytes. `estimate` reserves an estimate with a margin, which a prompt may exceed, and counts estimated
   * usage.
   */
  readonly reserve?: "bound" | "estimate" | undefined
  /** Tools and toolsets that runs of the tenant may use. If absent, the tools of the agent are permitted. */
  readonly tools?: ReadonlyArray<string> | undefined
  /**
   * Models that may be called, as `model` or `provider/model`. It applies to fallback routes and side tasks, too. If
   * absent, the models of the agent are permitted.
   */
  readonly models?: ReadonlyArray<string> | undefined
  /** Least strict permission mode of the runs. */
  readonly maxMode?: "plan" | "ask" | "edits" | "auto" | "yolo" | undefined
  /**
   * Directory to which the tools of the runs are limited: an absolute path, or `shared` for the directory of the
   * runtime. If absent, it is a directory of the tenant below `workspaces` of the tenants, if they have such a folder,
   * and the directory of the runtime otherwise.
   */
  readonly workspace?: string | undefined
  /** True if other tenants that state it, too, may have the same workspace. Defaults to false. */
  readonly sharesWorkspace?: boolean | undefined
  /** Number of days after its last activity for which a session is stored. If absent, the rule of the store applies. */
  readonly retentionDays?: number | undefined
}

/** Period whose allowance is used up. */
export const Period = Schema.Literals(["run", "day", "month"])
/** Type of {@link Period}. */
export type Period = typeof Period.Type

/** Tokens and money. */
export interface Amounts {
  readonly tokens: number
  /** Nanodollars. */
  readonly nanos: number
}

/** No tokens and no money. */
export const nothing: Amounts = { tokens: 0, nanos: 0 }

/** Number of nanodollars in a dollar. */
const nanosPerDollar = 1_000_000_000

/** Converts US dollars to nanodollars, rounded up. */
export const toNanos = (dollars: number): number => Math.ceil(dollars * nanosPerDollar - 1e-6)

/** Adds amounts. */
export const add = (a: Amounts, b: Amounts): Amounts => ({ tokens: a.tokens + b.tokens, nanos: a.nanos + b.nanos })

/** Subtracts amounts. */
export const subtractAmounts = (a: Amounts, b: Amounts): Amounts => ({
  tokens: a.tokens - b.tokens,
  nanos: a.nanos - b.nanos
})

/** Returns the UTC day of a time in milliseconds, such as `2026-11-29`. */
export const formatDay = (at: number): string => new Date(at).toISOString().slice(0, 10)

/** Returns the start of the next day or month after a time, in milliseconds. */
export const findNextStart = (period: "day" | "month", at: number): number => {
  const date = new Date(at)
  const [year, month, day] = [date.getUTCFullYear(), date.getUTCMonth(), date.getUTCDate()]
  return period === "day" ? Date.UTC(year, month, day + 1) : Date.UTC(year, month + 1, 1)
}

/** Maximum number of characters of a tenant's name in a message. */
const shownLength = 64

/** Renders the name of a tenant in a message. Long names are cut. */
export const formatTenant = (id: string): string => (id.length > shownLength ? `${id.slice(0, shownLength)}…` : id)
