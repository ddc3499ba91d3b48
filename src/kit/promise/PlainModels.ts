/** Models as plain values: texts, or objects with keys. Their routes, and errors that name the options. */
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import { ConfigError } from "../../base/domain/AgentError.ts"
import { Configurable } from "../../base/domain/ApiMode.ts"
import * as Json from "../../base/domain/Json.ts"
import type { Route } from "../../base/domain/Route.ts"
import type { Provider } from "../../models/provider/Provider.ts"
import { type ModelRoute, resolveChain } from "../../models/routing/RouteChain.ts"
import { HermesError } from "./HermesError.ts"
import * as Options from "./PlainOptions.ts"
import { type HermesRetry, retryCheck, toRetryPolicy } from "./PlainPolicies.ts"

/** A provider and a model in one text, such as `ollama/qwen3`. */
export type HermesModelName = `${string}/${string}`

/**
 * A model, its provider, and one API key or several keys used in turn. Without a provider and an address, a model
 * `provider/model` names both.
 */
export interface HermesModel extends Omit<ModelRoute, "apiKey" | "retry"> {
  readonly apiKey?: string | ReadonlyArray<string> | undefined
  /** Retries with this model. Default: `retry` of the runtime. */
  readonly retry?: HermesRetry | undefined
}

/** One model, or several in order of preference. */
export type HermesModels = HermesModelName | HermesModel | ReadonlyArray<HermesModel>

/**
 * The models of a runtime in order of preference: the first is called first, and the others are fallbacks if it cannot
 * answer. `offline` is the built-in stand-in, which uses no network. `provider/model` is a model that needs no key. A
 * layer is a custom provider, such as a model of the AI SDK (`FromAiSdk.layer` of `hermes-effect/ai-sdk`).
 */
export type ModelChoice = "offline" | HermesModels | Layer.Layer<Provider>

const toRedactedKeys = (
  key: string | ReadonlyArray<string>
): Redacted.Redacted<string> | ReadonlyArray<Redacted.Redacted<string>> =>
  typeof key === "string" ? Redacted.make(key) : key.map((one) => Redacted.make(one))

const isList = (model: HermesModel | ReadonlyArray<HermesModel>): model is ReadonlyArray<HermesModel> =>
  Array.isArray(model)

/** Tests whether the option `model` is a custom provider. */
export const isProvider = (model: ModelChoice): model is Layer.Layer<Provider> => Layer.isLayer(model)

/** Names the options of `createHermes` in an error about the routes of its models. */
export const nameModelOptions = ({ message, path }: ConfigError, model: HermesModels, at = "model"): ConfigError => {
  const isInList = typeof model !== "string" && isList(model)
  const nameOption = (text: string): string =>
    text.replaceAll(/\broutes(\[\d+\])/gu, (_, index: string) => (isInList ? `${at}${index}` : at))
  return new ConfigError({ path: nameOption(path), message: nameOption(message) })
}

/** Returns a model whose provider is named on its own: `anthropic/claude-…` names both in one text. */
const nameProvider = <Model extends Pick<HermesModel, "baseUrl" | "model" | "provider">>({
  model,
  ...route
}: Model) => {
  const at = model.indexOf("/")
  return route.provider === undefined && route.baseUrl === undefined && at > 0
    ? { ...route, provider: model.slice(0, at), model: model.slice(at + 1) }
    : { ...route, model }
}

/** Converts models to routes. */
export const toRoutes = (model: HermesModels): ReadonlyArray<ModelRoute> =>
  (typeof model === "string" ? [{ model }] : isList(model) ? model : [model]).map(
    ({ apiKey, retry, ...route }: HermesModel): ModelRoute => ({
      ...nameProvider(route),
      ...(apiKey === undefined ? {} : { apiKey: toRedactedKeys(apiKey) }),
      ...(retry === undefined ? {} : { retry: toRetryPolicy(retry) })
    })
  )

/** Converts one model to the route of a run or of a sub-agent. Throws a `ConfigError` that names the option. */
export const toRoute = (model: HermesModelName | HermesModel, at: string): Route => {
  const chain = resolveChain(toRoutes(model))
  if (Result.isSuccess(chain)) return chain.success[0].route
  const { message } = nameModelOptions(chain.failure, model, at)
  throw new HermesError("ConfigError", message, { cause: chain.failure })
}

const modelOptions: Options.Checks<HermesModel> = {
  provider: Options.text,
  model: Options.makeKindCheck("a text", (model) => typeof model === "string" && model.trim() !== ""),
  apiKey: Options.makeKindCheck(
    "a key, or a list of keys",
    (key) => typeof key === "string" || (Array.isArray(key) && key.every((one) => typeof one === "string"))
  ),
  baseUrl: Options.text,
  apiMode: Options.makeChoiceCheck(Configurable.literals),
  headers: Options.fields,
  abilities: Options.fields,
  allowBrowser: Options.flag,
  retry: retryCheck
}

const isModelName = (value: unknown): value is HermesModelName => typeof value === "string" && /^[\w-]+\/./u.test(value)

const oneModel = Options.makeMembersCheck("option of a model", modelOptions, ["model"])

const expectedModel =
  '{ provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'

/** Check for the option `model` of a runtime. */
export const modelsCheck: Options.Check = (value, at) => {
  if (value === "offline" || isModelName(value) || Layer.isLayer(value)) return []
  const models: ReadonlyArray<unknown> = Array.isArray(value) ? Array.from(value) : [value]
  if (models.length === 0 || !models.every(Json.isFields)) return [`${at}: expected ${expectedModel}`]
  return models.flatMap((one, index) => oneModel(one, Array.isArray(value) ? `${at}[${index}]` : at))
}

/** Check for the option `model` of a run or of a sub-agent. */
export const modelCheck: Options.Check = (value, at) => {
  if (isModelName(value)) return []
  return Json.isFields(value)
    ? oneModel(value, at)
    : [`${at}: expected { provider, model, apiKey } or "provider/model"`]
}
