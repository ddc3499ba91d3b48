/**
 * Windows and prices that users and lists of models state, in the terms of the catalogue. Pure.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */
import * as BigDecimal from "effect/BigDecimal"
import * as RouteStatement from "../../config/RouteStatement.ts"
import type { Values } from "../../config/Settings.ts"
import * as EndpointAddress from "../../domain/EndpointAddress.ts"
import type { Route } from "../../domain/Route.ts"
import * as Pricing from "../Pricing.ts"
import * as Directory from "../ProviderDirectory.ts"
import * as ModelId from "./ModelId.ts"
import type * as ModelList from "./ModelList.ts"

type Asked = Pick<Route, "provider" | "model" | "baseUrl">

/** Returns whether a route is at the provider and address that the section names; a plugin's provider has names only the plugin knows. */
const isThere = ({ baseUrl, provider }: Values["model"], route: Asked): boolean => {
  const isNamed = provider === "auto" || provider === "custom" || Directory.find(provider) !== undefined
  const own = { provider, baseUrl: EndpointAddress.address(baseUrl).baseUrl }
  const other = { provider: isNamed ? route.provider : undefined, baseUrl: baseUrl === undefined ? undefined : route.baseUrl }
  return !RouteStatement.superseded(own, other).includes("contextLength")
}

/** Returns whether a route is the main model's: its model, under any form of its id, where the section says that it is served. */
export const isMain = (section: Values["model"], route: Asked): boolean => {
  const { default: main } = section
  const { model } = route
  return main !== undefined && (main === model || ModelId.bare(main) === model || ModelId.withoutProvider(main) === model) && isThere(section, route)
}

/** The window that the user names for a route: of the main model, or of a model of a named endpoint. */
export const window = ({ customProviders, model }: Pick<Values, "model" | "customProviders">, route: Asked): number | undefined => {
  const name = route.provider.startsWith("custom:") ? route.provider.slice("custom:".length) : undefined
  const endpoint = customProviders.find((endpoint) =>
    endpoint.name.trim().toLowerCase() === name || (name === undefined && endpoint.baseUrl === route.baseUrl))
  const own = endpoint !== undefined && Object.hasOwn(endpoint.models, route.model) ? endpoint.models[route.model] : undefined
  return (isMain(model, route) ? model.contextLength : undefined) ?? own?.contextLength
}

const perMillion = (price: string | undefined): BigDecimal.BigDecimal | undefined => {
  const decimal = Pricing.decimal(price)
  return decimal === undefined ? undefined : BigDecimal.make(decimal.value, decimal.scale - 6)
}

/** The price that a list of models names. */
export const price = (listed: ModelList.Listed | undefined, url: string | undefined): Pricing.Pricing | undefined => {
  const prices = listed?.prices
  return prices === undefined ? undefined : {
    input: perMillion(prices.input),
    output: perMillion(prices.output),
    cacheRead: perMillion(prices.cacheRead),
    cacheWrite: perMillion(prices.cacheWrite),
    request: Pricing.decimal(prices.request),
    source: "provider_models_api",
    url,
    version: undefined
  }
}
