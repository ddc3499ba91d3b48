/**
 * Accounts of the runs that are under way, so that what is spent beside their own model calls (titles, summaries, images
 * described, commands judged, what MCP servers ask) is in their sums and counts for their budgets.
 *
 * **Details**
 *
 * A run opens the account of its session and closes it when it ends. A side task is charged to the session that it works for; where
 * no run of that session is under way, only the session's stored sums grow.
 *
 * Source: `hermes-llm.md` §12, §18.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Cost from "../domain/Cost.ts"
import type { RouteInfo } from "../domain/Route.ts"
import type * as Usage from "../domain/Usage.ts"

/** Usage and cost of a side task. */
export interface Entry {
  readonly task: string
  readonly route: RouteInfo
  readonly usage: Usage.Usage
  readonly cost: Cost.Cost
}

/** Takes an entry into the sums of a run. */
export type Charge = (entry: Entry) => Effect.Effect<void>

/** Accounts of runs, by session. */
export interface Service {
  /** Runs an effect while its session has an account. */
  readonly during: <A, E, R>(sessionId: string, charge: Charge, effect: Effect.Effect<A, E, R>) => Effect.Effect<A, E, R>
  /** Returns the account of a session; undefined where no run of it is under way. */
  readonly of: (sessionId: string) => Charge | undefined
}

/** The accounts of a runtime. */
export class UsageAccounts extends Context.Service<UsageAccounts, Service>()("hermes-effect/routing/UsageAccounts") {
  /** Accounts of a runtime's own. */
  static readonly layer: Layer.Layer<UsageAccounts> = Layer.fresh(Layer.sync(UsageAccounts, () => make()))
}

/** No accounts yet. */
export const make = (): Service => {
  const accounts = new Map<string, Charge>()
  return {
    during: (sessionId, charge, effect) =>
      Effect.suspend(() => {
        accounts.set(sessionId, charge)
        return Effect.ensuring(effect, Effect.sync(() => {
          if (accounts.get(sessionId) === charge) accounts.delete(sessionId)
        }))
      }),
    of: (sessionId) => accounts.get(sessionId)
  }
}
