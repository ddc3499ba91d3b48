/**
 * Parts that the clients of the official SDKs share: the transport, the request timeout, and construction apart from
 * the environment.
 *
 * **Details**
 *
 * The constructors of the SDKs read environment variables (`OPENAI_CUSTOM_HEADERS`, `ANTHROPIC_BASE_URL`, …). Some
 * cannot be disabled by an option, and their values would be sent to any host that the route names. `withoutVariables`
 * removes them from the environment while the constructor runs. The constructor is synchronous: no other code sees the
 * environment without them.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { HttpTransport } from "../../base/platform/HttpTransport.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"

/** A longer time would overflow a timer, which then fires at once. */
const maxTimeoutMillis = 2_147_483_647

/** Milliseconds for one request of a route. */
export const computeTimeout = (route: Route, whenAbsent: number): number =>
  Math.min(route.requestTimeoutMillis ?? whenAbsent, maxTimeoutMillis)

/** Loads an SDK, which may not be installed, and opens a transport for it. The scope closes the connections. */
export const loadSdk = <Sdk>(
  { model, readTimeoutMillis }: Route,
  name: string,
  sdk: () => Promise<Sdk>
): Effect.Effect<readonly [Sdk, HttpTransport], ConfigError, Scope.Scope> =>
  Effect.flatMap(
    Effect.all(
      [
        OptionalPackage.load(`model ${model} needs the package`, [name], sdk),
        Effect.promise(() => import("../../base/platform/HttpTransport.ts"))
      ],
      { concurrency: 2 }
    ),
    ([sdk, Transport]) =>
      Effect.map(
        Effect.acquireRelease(
          Effect.sync(() => Transport.make({ readTimeoutMillis })),
          (fetch) => Effect.sync(fetch.close)
        ),
        (fetch) => [sdk, fetch] as const
      )
  )
