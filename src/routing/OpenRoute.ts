/**
 * Opens the provider that speaks a route's protocol. The protocol's module, and with it the SDK, is loaded when the
 * first route of its kind is opened.
 *
 * **Details**
 *
 * What the endpoint wants besides the protocol (attribution, tags, beta headers) is added here and nowhere else, from the
 * route alone: a switch to another route starts from nothing, so that nothing of one provider reaches the next.
 *
 * **Example** (A provider by its route)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Offline, OpenRoute } from "hermes-effect"
 *
 * const program = Effect.scoped(Effect.map(OpenRoute.open(Offline.route), ({ info }) => info.provider))
 *
 * console.log(await Effect.runPromise(program))
 * // => offline
 * ```
 *
 * Source: `hermes-llm.md` §2.1, §2.4.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type * as AiError from "effect/ai/AiError"
import { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import * as Offline from "../provider/Offline.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as Profiles from "./Profiles.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** Opens a provider; the scope closes its connections. */
export type Open = (route: Route) => Effect.Effect<Provider, AiError.AiError | ConfigError, Scope.Scope>

/** Settings that {@link make} applies to every route. */
export interface Options {
  /** `provider_routing` of the configuration. */
  readonly routing?: Profiles.ProviderRouting | undefined
}

const speak = (route: Route): ReturnType<Open> => {
  if (route.provider === "offline") return Offline.make()
  switch (route.apiMode) {
    case "chat_completions":
      return Effect.flatMap(Effect.promise(() => import("../provider/ChatCompletions.ts")), ({ make }) => make(route))
    case "codex_responses":
      return Effect.flatMap(Effect.promise(() => import("../provider/CodexResponses.ts")), ({ make }) => make(route))
    case "anthropic_messages":
      return Effect.flatMap(Effect.promise(() => import("../provider/AnthropicMessages.ts")), ({ make }) => make(route))
    case "bedrock_converse":
      return Effect.flatMap(Effect.promise(() => import("../provider/BedrockConverse.ts")), ({ make }) => make(route))
    case "language_model":
      return Effect.fail(
        new ConfigError({
          path: "model.api_mode",
          message: "a LanguageModel cannot be opened by its name: give it to the runtime as its provider"
        })
      )
  }
}

/** Makes the function that opens routes. */
export const make = (options: Options = {}): Open => (route) =>
  speak(StreamTimeout.withReadTimeout(Profiles.apply(route, options.routing)))

/** {@link make} without options. */
export const open: Open = make()
