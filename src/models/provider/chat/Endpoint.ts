/**
 * Describes the differences between chat completions endpoints. Compatible endpoints differ in a few fields; this
 * module holds these differences as data and determines them once for each route.
 *
 * **Details**
 *
 * The family of a route is determined by its host, or by the provider's name if the host is unknown. Complete host
 * names are compared: `https://proxy.example/api.openai.com/v1` is not OpenAI.
 *
 * Source: `hermes-llm.md` §4.1, §14.2, §14.5.
 */
import { memoize } from "effect/Function"
import type { Route } from "../../../base/domain/Route.ts"

// Endpoints

/** Origin of a placeholder that every route gets. */
export const anyOrigin = "any"

/** Returns the name of a route in the metadata of its answers. */
export const formatOrigin = (url: string | undefined, model: string): string => `${model}@${url ?? ""}`

/** Tests for models whose thought signatures are valid at all their routes. */
export const hasSignatures = (model: string): boolean => /gemini|gemma/i.test(model)

/**
 * Group of endpoints that behave alike. `other` includes all unknown endpoints, such as local servers and custom
 * gateways.
 */
export type Family =
  | "openai"
  | "azure"
  | "copilot"
  | "openrouter"
  | "nous"
  | "gateway"
  | "gemini"
  | "deepseek"
  | "moonshot"
  | "xiaomi"
  | "novita"
  | "zai"
  | "alibaba"
  | "mistral"
  | "groq"
  | "xai"
  | "together"
  | "huggingface"
  | "ollama"
  | "other"

/** Rules for sending back the reasoning of earlier turns (`hermes-llm.md` §14.5). */
interface Replay {
  /**
   * `required` endpoints reject an assistant message without `reasoning_content`; `never` endpoints reject a message
   * that has it.
   */
  readonly content: "required" | "accepted" | "never"
  /** True if `reasoning_details` are sent back unchanged. */
  readonly details: boolean
}

/** Rules for the form of a route's requests. */
export interface Endpoint {
  readonly family: Family
  /** Model id in lower case, without the vendor prefix. */
  readonly model: string
  /** Model id in lower case, with the vendor prefix. */
  readonly fullModel: string
  readonly systemRole: "system" | "developer"
  readonly outputLimit: "max_tokens" | "max_completion_tokens"
  /** False if `temperature` must not be sent: some models accept a single value only. */
  readonly temperature: boolean
  /**
   * True if thought signatures (`extra_content`) of any route are sent back with tool calls. Signatures that came from
   * this route are always sent back; see {@link origin}.
   */
  readonly signatures: boolean
  /** Name of the route in metadata that only this route understands. */
  readonly origin: string
  /** True if the usage of a stream must be requested with `stream_options`. */
  readonly streamOptions: boolean
  /** `json_object` endpoints do not support schemas; the schema is sent as a message. */
  readonly structured: "json_schema" | "json_object"
  readonly replay: Replay
}

const hosts: ReadonlyArray<readonly [domain: string, family: Family]> = [
  ["api.openai.com", "openai"],
  ["openai.azure.com", "azure"],
  ["services.ai.azure.com", "azure"],
  ["cognitiveservices.azure.com", "azure"],
  ["githubcopilot.com", "copilot"],
  ["models.github.ai", "copilot"],
  ["openrouter.ai", "openrouter"],
  ["nousresearch.com", "nous"],
  ["ai-gateway.vercel.sh", "gateway"],
  ["generativelanguage.googleapis.com", "gemini"],
  ["api.deepseek.com", "deepseek"],
  ["moonshot.ai", "moonshot"],
  ["moonshot.cn", "moonshot"],
  ["kimi.com", "moonshot"],
  ["xiaomimimo.com", "xiaomi"],
  ["novita.ai", "novita"],
  ["z.ai", "zai"],
  ["bigmodel.cn", "zai"],
  ["aliyuncs.com", "alibaba"],
  ["mistral.ai", "mistral"],
  ["groq.com", "groq"],
  ["x.ai", "xai"],
  ["together.xyz", "together"],
  ["huggingface.co", "huggingface"],
  ["ollama.com", "ollama"]
]

/** `openai` is deliberately missing: its rules apply only to its own host. */
const providers: ReadonlyMap<string, Family> = new Map<string, Family>([
  ["azure", "azure"],
  ["copilot", "copilot"],
  ["openrouter", "openrouter"],
  ["nous", "nous"],
  ["ai-gateway", "gateway"],
  ["gemini", "gemini"],
  ["deepseek", "deepseek"],
  ["kimi-coding", "moonshot"],
  ["moonshot", "moonshot"],
  ["xiaomi", "xiaomi"],
  ["novita", "novita"],
  ["zai", "zai"],
  ["alibaba", "alibaba"],
  ["mistral", "mistral"],
  ["groq", "groq"],
  ["xai", "xai"],
  ["together", "together"],
  ["huggingface", "huggingface"],
  ["ollama", "ollama"]
])

const isWithin = (host: string, domain: string): boolean => host === domain || host.endsWith(`.${domain}`)

const findFamily = (route: Route): Family => {
  const host = route.baseUrl === undefined ? "api.openai.com" : (URL.parse(route.baseUrl)?.hostname ?? "")
  const known = hosts.find(([domain]) => isWithin(host, domain))
  return known?.[1] ?? providers.get(route.provider.trim().toLowerCase()) ?? "other"
}

const completionTokens: ReadonlySet<Family> = new Set<Family>(["openai", "azure", "copilot"])
const details: ReadonlySet<Family> = new Set<Family>(["openrouter", "nous", "gateway", "other"])
/** Families that reject an assistant message with an unknown field (status 400). */
const strict: ReadonlySet<Family> = new Set<Family>([
  "openai",
  "azure",
  "copilot",
  "gemini",
  "mistral",
  "groq",
  "xai",
  "together",
  "huggingface"
])
const echoes: ReadonlySet<Family> = new Set<Family>(["deepseek", "moonshot", "xiaomi"])

const chooseReplay = (family: Family, model: string): Replay => ({
  content: strict.has(family)
    ? "never"
    : echoes.has(family) || model.includes("deepseek") || model.startsWith("mimo")
      ? "required"
      : "accepted",
  details: details.has(family)
})

/** Tests for models that always think and accept no sampling parameters. */
const hasFixedTemperature = (model: string): boolean => /^(o\d|gpt-5|kimi-)/.test(model)

const makeEndpoint = (route: Route): Endpoint => {
  const family = findFamily(route)
  const fullModel = route.model.trim().toLowerCase()
  const model = fullModel.slice(fullModel.lastIndexOf("/") + 1)
  return {
    family,
    model,
    fullModel,
    systemRole: /gpt-5|codex/.test(model) ? "developer" : "system",
    outputLimit: completionTokens.has(family) ? "max_completion_tokens" : "max_tokens",
    temperature: !hasFixedTemperature(model),
    signatures: hasSignatures(fullModel),
    origin: formatOrigin(route.baseUrl, route.model),
    streamOptions: family !== "mistral",
    structured: family === "deepseek" ? "json_object" : "json_schema",
    replay: chooseReplay(family, model)
  }
}

/** Returns the endpoint of a route. Repeated calls return the same object. */
export const of = memoize(makeEndpoint)
