/**
 * The state of a router's routes, for those who look into it: `hermes doctor`, `/status`, side tasks.
 *
 * @since 0.1.0
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type { RouteInfo } from "../domain/Route.ts"
import type { KeyState } from "./CredentialPool.ts"

/** What may be shown of a route of the chain. */
export interface RouteStatus {
  readonly route: RouteInfo
  readonly keys: ReadonlyArray<KeyState>
  readonly breaker: "Closed" | "Open" | "HalfOpen"
}

/** The state of a router's chain, for those who look into it. */
export class RouterStatus extends Context.Service<RouterStatus, {
  readonly routes: Effect.Effect<ReadonlyArray<RouteStatus>>
}>()("hermes-effect/routing/RouterStatus") {}
