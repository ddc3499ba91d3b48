/**
 * The route that the user's settings mean. Pure.
 *
 * **Gotchas**
 *
 * `OPENAI_BASE_URL` stands in the settings like every variable; the rules about keys need to know that it was the
 * environment that named the address, so it is left for them to find there.
 *
 * @since 0.1.0
 */
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Environment } from "../config/Environment.ts"
import type { Values } from "../config/Settings.ts"
import type { ConfigError } from "../domain/AgentError.ts"
import type { Route } from "../domain/Route.ts"
import type { Lookup } from "./RouteKeys.ts"
import * as Routes from "./Routes.ts"

/** The variables of an environment as secrets. */
export const lookup = (environment: Environment["Service"]): Lookup => (name) => {
  const value = environment.get(name)
  return value === undefined ? undefined : Redacted.make(value)
}

/** The deadline of one request: of the model, of its provider, of all. */
const timeoutSeconds = ({ network, providers }: Values, { model, provider }: Route): number | undefined => {
  const own = providers[provider]
  return own?.models[model]?.timeoutSeconds ?? own?.requestTimeoutSeconds ?? network.requestTimeoutSeconds
}

const modelSettings = (settings: Values, environment: Environment["Service"]): Routes.ModelSettings => {
  const { model } = settings
  const fromEnvironment = model.baseUrl !== undefined && model.baseUrl === environment.get("OPENAI_BASE_URL")
  const baseUrl = fromEnvironment ? undefined : model.baseUrl
  // The keys of a provider are for its own address.
  const pooled = baseUrl === undefined ? settings.credentials[model.provider]?.apiKeys[0] : undefined
  return {
    provider: model.provider,
    model: model.default,
    baseUrl,
    apiKey: model.apiKey ?? pooled,
    apiMode: model.apiMode,
    customProviders: settings.customProviders.map(({ keyEnv, ...endpoint }) => ({ ...endpoint, keyVariable: keyEnv }))
  }
}

/** See the module. */
export const resolve = (settings: Values, environment: Environment["Service"]): Result.Result<Route, ConfigError> =>
  Result.map(Routes.resolve(modelSettings(settings, environment), lookup(environment)), (route) => {
    const seconds = timeoutSeconds(settings, route)
    return seconds === undefined ? route : { ...route, requestTimeoutMillis: seconds * 1000 }
  })
