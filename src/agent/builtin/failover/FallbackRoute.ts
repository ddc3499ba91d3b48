/**
 * Route and call of a fallback: the primary's route and call, overridden by the fallback's own settings.
 *
 * **Details**
 *
 * `model`, `base_url`, `api_key`, `api_type`, `provider`, `region`, `timeout`, `headers` and `query` change the route;
 * `temperature`, `max_tokens`, `stream` and `reasoning_effort` change the call; every other key becomes a field of the
 * request. A fallback inherits the keys that it does not set. The call retains its tools and messages, which each
 * protocol formats itself.
 *
 * **Gotchas**
 *
 * The primary's key, headers, query and extra fields are only sent to its own server (scheme, host and port, including
 * local servers): a fallback on another server has to set its own values. The reference implementation also sends them
 * to other servers.
 *
 * Source: `nexau.md` §2.4, `hermes-llm.md` §2.3 and §2.4.
 */
import * as Redacted from "effect/Redacted"
import * as AiError from "effect/ai/AiError"
import * as Result from "effect/Result"
import * as EndpointAddress from "../../../base/domain/EndpointAddress.ts"
import * as Json from "../../../base/domain/Json.ts"
import type { ModelCall, ReasoningEffort } from "../../../base/domain/ModelCall.ts"
import type { Route } from "../../../base/domain/Route.ts"
import type { ModelCallParams } from "../../../middleware/Middleware.ts"
import * as RouteDetection from "../../../models/routing/RouteDetection.ts"
import * as Directory from "../../../models/routing/ProviderDirectory.ts"
import type { Fallback, Fields } from "./Options.ts"

/** Settings that are not fields of the request body. */
const known = new Set([
  "name",
  "model",
  "provider",
  "base_url",
  "api_key",
  "api_type",
  "api_mode",
  "region",
  "timeout",
  "headers",
  "extra_headers",
  "default_headers",
  "query",
  "extra_body",
  "temperature",
  "max_tokens",
  "stream",
  "reasoning_effort",
  "max_retries",
  "retry_attempts",
  "context_length"
])

const efforts: ReadonlyArray<ReasoningEffort> = ["none", "minimal", "low", "medium", "high", "xhigh"]

const readText = (value: unknown): string | undefined =>
  typeof value === "string" && value.trim() !== "" ? value.trim() : undefined

const readNumber = (value: unknown): number | undefined =>
  typeof value === "number" && Number.isFinite(value) ? value : undefined

const readTexts = (value: unknown): Readonly<Record<string, string>> =>
  Json.isFields(value) ? Object.fromEntries(Object.entries(value).map(([name, field]) => [name, String(field)])) : {}

const readSecret = (value: unknown): Redacted.Redacted<string> | undefined => {
  if (Redacted.isRedacted(value)) return Redacted.make(String(Redacted.value(value)))
  const key = readText(value)
  return key === undefined ? undefined : Redacted.make(key)
}

const findServer = (provider: string | undefined, baseUrl: string | undefined): string | undefined =>
  EndpointAddress.readOrigin(
    baseUrl ?? (provider === undefined ? undefined : Directory.findProvider(provider)?.baseUrl)
  )

/** Key, headers, query and extra body, which are sent only to the primary's own server. */
type Bound = Pick<Route, "apiKey" | "headers" | "query" | "extraBody">

const readOwnFields = ({ config }: Fallback, query: Bound["query"]): Bound => {
  const headers = {
    ...readTexts(config["default_headers"]),
    ...readTexts(config["extra_headers"]),
    ...readTexts(config["headers"])
  }
  const body = {
    ...Object.fromEntries(Object.entries(config).filter(([name]) => !known.has(name))),
    ...(Json.isFields(config["extra_body"]) ? config["extra_body"] : {})
  }
  const apiKey = readSecret(config["api_key"])
  return {
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(query === undefined ? {} : { query }),
    ...(Object.keys(body).length === 0 ? {} : { extraBody: body })
  }
}

const mergeBoundFields = (inherited: Bound, own: Bound): Bound => {
  const apiKey = own.apiKey ?? inherited.apiKey
  const headers = { ...inherited.headers, ...own.headers }
  const query = { ...inherited.query, ...own.query }
  const extraBody = { ...inherited.extraBody, ...own.extraBody }
  return {
    ...(apiKey === undefined ? {} : { apiKey }),
    ...(Object.keys(headers).length === 0 ? {} : { headers }),
    ...(Object.keys(query).length === 0 ? {} : { query }),
    ...(Object.keys(extraBody).length === 0 ? {} : { extraBody })
  }
}

const makeIncompleteError = (fallback: Fallback, what: string): AiError.AiError =>
  AiError.make({
    module: "LlmFailover",
    method: fallback.name,
    reason: new AiError.InvalidRequestError({
      description: [
        `the fallback "${fallback.name}" has no ${what}, and there is none to inherit`,
        "set it in its llm_config"
      ].join(": ")
    })
  })

/**
 * Returns the provider's name: the configured name, the name for the host, or the primary's name if the address is
 * unchanged.
 */
const resolveProvider = (config: Fields, primary: Route | undefined, host: string, stays: boolean): string =>
  readText(config["provider"]) ??
  (stays ? primary?.provider : undefined) ??
  Directory.findByHost(host)?.name ??
  "custom"

const buildRoute = (fallback: Fallback, primary: Route | undefined): Result.Result<Route, AiError.AiError> => {
  const { config } = fallback
  const named = readText(config["provider"])
  const given =
    readText(config["base_url"]) ?? (named === undefined ? undefined : Directory.findProvider(named)?.baseUrl)
  const address = RouteDetection.parseAddress(given)
  const baseUrl = given === undefined ? primary?.baseUrl : address.baseUrl
  const model = readText(config["model"]) ?? primary?.model
  if (model === undefined) return Result.fail(makeIncompleteError(fallback, "model"))
  const server = findServer(primary?.provider, primary?.baseUrl)
  const stays = primary !== undefined && (given === undefined || EndpointAddress.readOrigin(given) === server)
  const provider = resolveProvider(config, primary, address.host, stays)
  const detected = named === undefined ? primary?.apiMode : undefined
  const timeout = readNumber(config["timeout"])
  const region = readText(config["region"]) ?? primary?.region
  const requestTimeoutMillis = timeout === undefined ? primary?.requestTimeoutMillis : timeout * 1_000
  const readTimeoutMillis = timeout === undefined ? primary?.readTimeoutMillis : timeout * 1_000
  return Result.succeed({
    provider,
    model,
    apiMode: fallback.apiMode ?? detected ?? RouteDetection.detectRoute({ provider: named, model, baseUrl }).apiMode,
    ...(baseUrl === undefined ? {} : { baseUrl }),
    ...(region === undefined ? {} : { region }),
    ...(requestTimeoutMillis === undefined ? {} : { requestTimeoutMillis }),
    ...(readTimeoutMillis === undefined ? {} : { readTimeoutMillis }),
    ...mergeBoundFields(
      stays ? primary : {},
      readOwnFields(fallback, { ...address.query, ...readTexts(config["query"]) })
    )
  })
}

const buildCall = ({ config }: Fallback, call: ModelCall, sameModel: boolean): ModelCall => {
  const temperature = readNumber(config["temperature"])
  const maxOutputTokens = readNumber(config["max_tokens"])
  const stream = config["stream"]
  const effort = efforts.find((effort) => effort === config["reasoning_effort"])
  const { contextWindow, ...rest } = call
  return {
    ...rest,
    // The context window only applies to the same model.
    ...(sameModel && contextWindow !== undefined ? { contextWindow } : {}),
    ...(temperature === undefined ? {} : { temperature }),
    ...(maxOutputTokens === undefined ? {} : { maxOutputTokens }),
    ...(typeof stream === "boolean" ? { stream } : {}),
    ...(effort === undefined ? {} : { reasoningEffort: effort })
  }
}

/** Creates the parameters for the fallback. The given parameters are not changed. */
export const makeParams = (
  fallback: Fallback,
  primary: Route | undefined,
  { call }: ModelCallParams
): Result.Result<ModelCallParams, AiError.AiError> =>
  Result.map(buildRoute(fallback, primary), (route) => ({
    route,
    call: buildCall(fallback, call, route.model === primary?.model)
  }))
