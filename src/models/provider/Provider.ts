/**
 * The interface to a model through one route to one API. A provider prepares a complete request without sending it,
 * executes it, and decodes answers. Retries, fallbacks and policies are handled elsewhere.
 *
 * **Details**
 *
 * `prepare` turns a `ModelCall` into the provider's own request (its "kwargs": chat messages, Responses input, Converse
 * blocks), which middleware may inspect and rewrite. `execute` sends exactly that request. `decode` reads a raw body of
 * the provider's `apiMode`, so a wrapper can answer instead of the provider.
 *
 * **Example** (Provider and protocol)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Offline, Provider } from "hermes-effect"
 *
 * const program = Effect.map(Provider.Provider, ({ apiMode, info }) => `${info.model} speaks ${apiMode}`)
 *
 * console.log(await Effect.runPromise(Effect.provide(program, Offline.layer())))
 * // => offline speaks chat_completions
 * ```
 *
 * Source: `ARCHITECTURE.md` §5, `hermes-llm.md` §2 and §4.
 */
import * as Context from "effect/Context"
import type * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ApiMode } from "../../base/domain/ApiMode.ts"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse } from "../../base/domain/ModelCall.ts"
import type { Fetch } from "../../base/platform/ModelTransport.ts"
import type { Route, RouteInfo } from "../../base/domain/Route.ts"

/** A provider for one route. Every failure is an `AiError` with an exact reason. Interruption closes the connection. */
export interface Service {
  readonly info: RouteInfo
  readonly apiMode: ApiMode
  readonly prepare: (call: ModelCall) => Effect.Effect<ModelRequest, AiError.AiError>
  readonly execute: (request: ModelRequest, options?: ExecuteOptions) => Effect.Effect<ModelResponse, AiError.AiError>
  readonly decode: (raw: unknown) => Effect.Effect<ModelResponse, AiError.AiError>
}

/** A route for the provider of one protocol, which sets the `apiMode` and a default `provider`. */
export type RouteOptions = Omit<Route, "apiMode" | "provider"> & {
  /** Name of the provider that serves the API. */
  readonly provider?: string | undefined
  /** Sends the requests of this provider. Without this option, the transport of the context does (`ModelTransport`). */
  readonly fetch?: Fetch | undefined
}

/**
 * The provider that a run uses if no router selects between several providers.
 *
 * @see {@link Service} for its members.
 */
export class Provider extends Context.Service<Provider, Service>()("hermes-effect/provider/Provider") {}
