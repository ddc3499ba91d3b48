/**
 * Setup shared by the clients of the official SDKs: loading the SDK, the transport and the request timeout.
 *
 * **Details**
 *
 * The constructors of the SDKs read environment variables (`OPENAI_CUSTOM_HEADERS`, `ANTHROPIC_BASE_URL`, …). Some of
 * these cannot be disabled by an option, and their values would be sent to any host that a route specifies.
 * `withoutVariables` removes them from the environment while the constructor runs. The constructor is synchronous, so
 * no other code observes the change.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as ModelTransport from "../../base/platform/ModelTransport.ts"
import * as OptionalPackage from "../../base/platform/OptionalPackage.ts"

/** Maximum delay of a timer in milliseconds. A timer with a longer delay fires immediately. */
const maxTimeoutMillis = 2_147_483_647

/** Returns the timeout in milliseconds for one request of a route. */
export const computeTimeout = (route: Route, whenAbsent: number): number =>
  Math.min(route.requestTimeoutMillis ?? whenAbsent, maxTimeoutMillis)

/** Tests whether this code runs in a web page, as the SDKs test it. */
const isWebPage = (): boolean => Reflect.has(globalThis, "window") && Reflect.has(globalThis, "document")

/** Refuses requests from a web page, whose users could read the key, unless the route permits them. */
const checkPlace = ({ allowBrowser, model }: Route): Effect.Effect<void, ConfigError> =>
  allowBrowser === true || !isWebPage()
    ? Effect.void
    : Effect.fail(
        new ConfigError({
          path: "allowBrowser",
          message:
            `model ${model} is not called from a web page, because everybody who opens the page can read its key: ` +
            "call it on a server, or set allowBrowser: true if the key belongs to the user of the page"
        })
      )

/**
 * Loads an SDK and creates a transport for it. Fails if the package is not installed, and in a web page unless
 * the route has `allowBrowser`. The connections are closed when
 * the scope closes.
 */
export const loadSdk = <Sdk>(
  route: Route,
  name: string,
  sdk: () => Promise<Sdk>
): Effect.Effect<readonly [Sdk, ModelTransport.HttpTransport], ConfigError, Scope.Scope> =>
  Effect.andThen(
    checkPlace(route),
    Effect.all(
      [
        OptionalPackage.load(`model ${route.model} needs the package`, [name], sdk),
        Effect.flatMap(ModelTransport.ModelTransport, (make) => make({ readTimeoutMillis: route.readTimeoutMillis }))
      ],
      { concurrency: 2 }
    )
  )
