/**
 * Opens the provider that implements a route's protocol. The protocol's module, and with it the SDK, is loaded when the
 * first route of its kind is opened.
 *
 * **Details**
 *
 * Headers and fields that the endpoint expects in addition to the protocol (attribution, tags, beta features) are added
 * only here. They depend only on the route, so that a switch to another route never sends one provider's data to the
 * next provider.
 *
 * | at | what |
 * | --- | --- |
 * | OpenRouter | app attribution; `provider_routing` as `provider` in the body; the tool streaming beta for Claude |
 * | Vercel AI Gateway | app attribution |
 * | GitHub Copilot | headers that identify the editor, and that mark the request as sent by an agent |
 * | Kimi (`api.kimi.com`) | a `user-agent` that it accepts |
 * | Qwen portal | `user-agent` and the three headers of DashScope |
 * | Nous Portal | a product tag in the body |
 *
 * A profile belongs to a host; a provider's name counts only if the host belongs to no known provider. The user's
 * settings override individual headers and fields of the profile. The headers of ChatGPT's backend depend on the token
 * and are added by its protocol; the reasoning effort is added by each protocol's request.
 *
 * **Example** (A provider by its route)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Offline } from "hermes-effect"
 * import { OpenRoute } from "hermes-effect/routing"
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
import { ConfigError } from "../../base/domain/AgentError.ts"
import type { Route } from "../../base/domain/Route.ts"
import * as Offline from "../provider/Offline.ts"
import type { Service as Provider } from "../provider/Provider.ts"
import * as RouteDetection from "./RouteDetection.ts"
import * as Directory from "./ProviderDirectory.ts"
import * as StreamTimeout from "./StreamTimeout.ts"

/** The `provider_routing` setting: the upstream providers that OpenRouter may use. */
export interface ProviderRouting {
  readonly only?: ReadonlyArray<string> | undefined
  readonly ignore?: ReadonlyArray<string> | undefined
  readonly order?: ReadonlyArray<string> | undefined
  readonly sort?: string | undefined
  readonly requireParameters?: boolean | undefined
  readonly dataCollection?: string | undefined
}

type Headers = Readonly<Record<string, string>>
type Body = Readonly<Record<string, unknown>>

interface Profile {
  readonly domain: string
  /** Provider name that selects the profile if the host is unknown. */
  readonly provider?: string
  readonly headers?: (route: Route) => Headers
  readonly body?: (routing: ProviderRouting | undefined) => Body
}

const agent = "hermes-effect/0.1.0"

const attribution: Headers = {
  "http-referer": "https://hermes-agent.nousresearch.com",
  "x-title": "Hermes Agent",
  "x-openrouter-title": "Hermes Agent",
  "x-openrouter-categories": "cli-agent"
}

const betaHeader = "x-anthropic-beta"
const toolStreaming = "fine-grained-tool-streaming-2025-05-14"

const findHeader = (headers: Headers | undefined, name: string): string | undefined =>
  Object.entries(headers ?? {}).find(([other]) => other.toLowerCase() === name)?.[1]

/** Adds the tool streaming beta to a list of requested betas, unless the list already contains it. */
const addToolStreaming = (existing: string | undefined): string => {
  const betas = (existing ?? "")
    .split(",")
    .map((beta) => beta.trim())
    .filter((beta) => beta !== "")
  return [...betas.filter((beta) => beta !== toolStreaming), toolStreaming].join(",")
}

const isClaude = (route: Route): boolean => route.model.toLowerCase().includes("claude")

const omitEmptyFields = (fields: Body): Body =>
  Object.fromEntries(
    Object.entries(fields).filter(([, value]) => value !== undefined && !(Array.isArray(value) && value.length === 0))
  )

const toRoutingBody = (routing: ProviderRouting | undefined): Body => {
  const provider = omitEmptyFields({
    only: routing?.only,
    ignore: routing?.ignore,
    order: routing?.order,
    sort: routing?.sort,
    require_parameters: routing?.requireParameters,
    data_collection: routing?.dataCollection
  })
  return Object.keys(provider).length === 0 ? {} : { provider }
}

const profiles: ReadonlyArray<Profile> = [
  { domain: "openrouter.ai", provider: "openrouter", headers: () => attribution, body: toRoutingBody },
  {
    domain: "ai-gateway.vercel.sh",
    provider: "ai-gateway",
    headers: () => ({ "http-referer": "https://hermes-agent.nousresearch.com", "x-title": "Hermes Agent" })
  },
  {
    domain: "githubcopilot.com",
    provider: "copilot",
    headers: () => ({
      "user-agent": agent,
      "editor-version": "vscode/1.104.1",
      "copilot-integration-id": "vscode-chat",
      "openai-intent": "conversation-edits",
      "x-initiator": "agent"
    })
  },
  { domain: "api.kimi.com", headers: () => ({ "user-agent": "KimiCLI/1.30.0" }) },
  {
    domain: "portal.qwen.ai",
    provider: "qwen-portal",
    headers: () => ({
      "user-agent": "QwenCode/0.10.3",
      "x-dashscope-cachecontrol": "enable",
      "x-dashscope-useragent": "QwenCode/0.10.3",
      "x-dashscope-authtype": "qwen-oauth"
    })
  },
  { domain: "nousresearch.com", provider: "nous", body: () => ({ tags: ["product=hermes-agent"] }) }
]

const findProfile = (route: Route): Profile | undefined => {
  const { host } = RouteDetection.parseAddress(route.baseUrl)
  const provider = route.provider.trim().toLowerCase()
  return (
    profiles.find(({ domain }) => RouteDetection.isUnder(host, domain)) ??
    (host === "" || RouteDetection.isLocal(host) || Directory.findByHost(host) === undefined
      ? profiles.find((profile) => profile.provider === provider)
      : undefined)
  )
}

/** Returns `base` with its headers overridden by `own`. Header names are compared case-insensitively. */
const overlayHeaders = (base: Headers, own: Headers | undefined): Headers => {
  const given = new Set(Object.keys(own ?? {}).map((name) => name.toLowerCase()))
  return { ...Object.fromEntries(Object.entries(base).filter(([name]) => !given.has(name))), ...own }
}

/** Adds the beta header without which Claude on OpenRouter does not stream tool arguments. */
const addBetas = (route: Route, headers: Headers): Headers => {
  const { [betaHeader]: _, ...others } = Object.fromEntries(
    Object.entries(headers).map(([name, value]) => [name.toLowerCase() === betaHeader ? betaHeader : name, value])
  )
  return isClaude(route) ? { ...others, [betaHeader]: addToolStreaming(findHeader(headers, betaHeader)) } : headers
}

/** Adds the headers and fields that the route's endpoint requires; see the module comment. */
export const applyProfile = (route: Route, routing?: ProviderRouting): Route => {
  const profile = findProfile(route)
  if (profile === undefined) return route
  const laid = profile.headers === undefined ? route.headers : overlayHeaders(profile.headers(route), route.headers)
  const headers = profile.provider === "openrouter" ? addBetas(route, laid ?? {}) : laid
  const body = { ...profile.body?.(routing), ...route.extraBody }
  return {
    ...route,
    ...(headers === undefined ? {} : { headers }),
    ...(Object.keys(body).length === 0 ? {} : { extraBody: body })
  }
}

/** Opens the provider of a route. Its connections are closed when the scope closes. */
export type Open = (route: Route) => Effect.Effect<Provider, AiError.AiError | ConfigError, Scope.Scope>

/** Settings that {@link make} applies to every route. */
export interface Options {
  /** The `provider_routing` setting. */
  readonly routing?: ProviderRouting | undefined
}

const openByProtocol = (route: Route): ReturnType<Open> => {
  if (route.provider === "offline") return Offline.make()
  switch (route.apiMode) {
    case "chat_completions":
      return Effect.flatMap(
        Effect.promise(() => import("../provider/ChatCompletions.ts")),
        ({ make }) => make(route)
      )
    case "codex_responses":
      return Effect.flatMap(
        Effect.promise(() => import("../provider/CodexResponses.ts")),
        ({ make }) => make(route)
      )
    case "anthropic_messages":
      return Effect.flatMap(
        Effect.promise(() => import("../provider/AnthropicMessages.ts")),
        ({ make }) => make(route)
      )
    case "bedrock_converse":
      return Effect.flatMap(
        Effect.promise(() => import("../provider/BedrockConverse.ts")),
        ({ make }) => make(route)
      )
    case "language_model":
      return Effect.fail(
        new ConfigError({
          path: "model.api_mode",
          message: "a LanguageModel cannot be opened by its name: give it to the runtime as its provider"
        })
      )
  }
}

/** Creates a function that opens routes. */
export const make =
  (options: Options = {}): Open =>
  (route) =>
    openByProtocol(StreamTimeout.addReadTimeout(applyProfile(route, options.routing)))

/** Opens routes without additional options; see {@link make}. */
export const open: Open = make()
