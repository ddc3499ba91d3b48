/**
 * Detects the protocol of a route from its provider, model and address. Detection is pure: the same input always
 * returns the same route.
 *
 * **Details**
 *
 * The rules are an ordered list; the first matching rule is used (`hermes-llm.md` §2.2). Addresses are always tested by
 * their host, never by a substring of the URL: `https://proxy.example/api.openai.com/v1` is not OpenAI.
 *
 * **Gotchas**
 *
 * A rule for "no provider" does not apply if a provider is specified: `custom` at `api.anthropic.com` uses chat
 * completions. Provider names must be canonical; `ProviderDirectory` resolves aliases.
 *
 * **Example** (Detecting the protocol from an address)
 *
 * ```ts
 * import { RouteDetection } from "hermes-effect/routing"
 *
 * const { apiMode, provider } = RouteDetection.detectRoute({ model: "claude-sonnet-4-5", baseUrl: "https://api.anthropic.com" })
 *
 * console.log(provider, apiMode)
 * // => anthropic anthropic_messages
 * ```
 */
import type { ApiMode } from "../../base/domain/ApiMode.ts"
import { type Address, parseAddress, isUnder } from "../../base/domain/EndpointAddress.ts"

export { type Address, parseAddress, isLocal, isUnder } from "../../base/domain/EndpointAddress.ts"

/** Parts of a route before its protocol is known. */
export interface Input {
  readonly provider?: string | undefined
  readonly model: string
  readonly baseUrl?: string | undefined
  readonly apiMode?: ApiMode | undefined
}

/** Result of {@link detectRoute}. */
export interface DetectedRoute {
  /** The given provider in lower case, or the provider implied by the address; `undefined` if neither is known. */
  readonly provider: string | undefined
  readonly apiMode: ApiMode
  /** The address without query, fragment and trailing slash. */
  readonly baseUrl: string | undefined
  /** The query of the address, which is sent with every request (`hermes-llm.md` §2.3). */
  readonly query: Readonly<Record<string, string>> | undefined
  /** AWS region; set only for Bedrock routes. */
  readonly region: string | undefined
}

interface Rule {
  readonly apiMode: ApiMode
  /** New name of the provider; `undefined` if the name does not change. */
  readonly provider?: string
  readonly matches: (provider: string | undefined, at: Address) => boolean
}

const isBedrockHost = (host: string): boolean => host.startsWith("bedrock-runtime.") && isUnder(host, "amazonaws.com")

const rules: ReadonlyArray<Rule> = [
  { apiMode: "codex_responses", matches: (provider) => provider === "openai-codex" },
  { apiMode: "codex_responses", matches: (provider) => provider === "xai" },
  {
    apiMode: "codex_responses",
    provider: "openai-codex",
    matches: (provider, at) =>
      provider === undefined && isUnder(at.host, "chatgpt.com") && at.path.includes("/backend-api/codex")
  },
  {
    apiMode: "codex_responses",
    provider: "xai",
    matches: (provider, at) => provider === undefined && isUnder(at.host, "api.x.ai")
  },
  {
    apiMode: "anthropic_messages",
    provider: "anthropic",
    matches: (provider, at) =>
      provider === "anthropic" || (provider === undefined && isUnder(at.host, "api.anthropic.com"))
  },
  { apiMode: "anthropic_messages", matches: (_, at) => at.path.endsWith("/anthropic") },
  { apiMode: "bedrock_converse", matches: (provider, at) => provider === "bedrock" || isBedrockHost(at.host) }
]

const parseCopilotGeneration = (model: string): number => Number(/^gpt-(\d+)/.exec(model)?.[1] ?? 0)

/** Tests whether the provider serves a model only through the Responses API. */
const needsResponses = (provider: string | undefined, model: string): boolean => {
  const name = model.toLowerCase().split("/").at(-1) ?? ""
  switch (provider) {
    case "nous":
      return false
    case "copilot":
      return parseCopilotGeneration(name) >= 5 && !name.startsWith("gpt-5-mini")
    default:
      return name.startsWith("gpt-5")
  }
}

/** Providers that pass the turn to another agent over ACP. Their protocol is never changed to the Responses API. */
const bridges = new Set(["copilot-acp"])

const chooseProtocol = (provider: string | undefined, model: string, host: string): ApiMode => {
  if (isUnder(host, "openai.azure.com") || (provider !== undefined && bridges.has(provider))) return "chat_completions"
  return host === "api.openai.com" || needsResponses(provider, model) ? "codex_responses" : "chat_completions"
}

const defaultRegion = "us-east-1"

/** Returns the region in a Bedrock host name (`bedrock-runtime.<region>.…`), or `undefined`. */
export const readHostRegion = (host: string): string | undefined => {
  const labels = host.split(".")
  return isBedrockHost(host) && labels.length >= 4 ? labels[1] : undefined
}

/** Detects protocol, address and region. */
export const detectRoute = (input: Input): DetectedRoute => {
  const at = parseAddress(input.baseUrl)
  const named = input.provider?.trim().toLowerCase()
  const provider = named === "" ? undefined : named
  const rule = input.apiMode === undefined ? rules.find((rule) => rule.matches(provider, at)) : undefined
  const apiMode = input.apiMode ?? rule?.apiMode ?? chooseProtocol(provider, input.model, at.host)
  const bedrock = provider === "bedrock" || apiMode === "bedrock_converse"
  return {
    provider: rule?.provider ?? provider,
    apiMode,
    baseUrl: at.baseUrl,
    query: at.query,
    region: bedrock ? (readHostRegion(at.host) ?? defaultRegion) : undefined
  }
}
