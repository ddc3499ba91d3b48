/**
 * Data about all providers that users may name: address, key variables, aliases, hosts. Settings use it to compare
 * routes, and routing builds its provider directory from it.
 *
 * Source: `hermes-llm.md` §2 and §5.1; addresses and variables come from the documentation of the providers.
 */
import { parseAddress, isUnder } from "../domain/EndpointAddress.ts"

/**
 * Authentication of calls: `key` requires a key, `optional` uses a key if there is one, `aws` uses the credentials of
 * the AWS SDK, `none` sends no credentials.
 */
export type Authentication = "key" | "optional" | "aws" | "none"

/** One provider. `ProviderDirectory` defines the defaults of absent fields. */
export interface Row {
  readonly displayName: string
  readonly baseUrl?: string
  readonly authentication?: Authentication
  readonly keys?: ReadonlyArray<string>
  readonly aliases?: ReadonlyArray<string>
  readonly domains?: ReadonlyArray<string>
  readonly aggregator?: boolean
  readonly families?: ReadonlyArray<string>
  readonly login?: boolean
  /** Model that is used if the settings name no model, and the environment contains a key of the provider. */
  readonly defaultModel?: string
}

/** The providers, in the order in which the environment is searched for a key if no provider is named. */
export const rows: Readonly<Record<string, Row>> = {
  openrouter: {
    displayName: "OpenRouter",
    baseUrl: "https://openrouter.ai/api/v1",
    keys: ["OPENROUTER_API_KEY"],
    defaultModel: "anthropic/claude-sonnet-4.6",
    aggregator: true
  },
  nous: {
    displayName: "Nous Portal",
    baseUrl: "https://inference-api.nousresearch.com/v1",
    keys: ["NOUS_API_KEY"],
    aliases: ["nous-portal", "nousresearch"],
    domains: ["nousresearch.com"],
    aggregator: true
  },
  anthropic: {
    displayName: "Anthropic",
    baseUrl: "https://api.anthropic.com",
    keys: ["ANTHROPIC_API_KEY", "ANTHROPIC_TOKEN", "CLAUDE_CODE_OAUTH_TOKEN"],
    defaultModel: "claude-sonnet-4-6",
    aliases: ["claude"],
    families: ["claude"]
  },
  openai: {
    displayName: "OpenAI",
    baseUrl: "https://api.openai.com/v1",
    keys: ["OPENAI_API_KEY"],
    aliases: ["gpt", "chatgpt"],
    defaultModel: "gpt-5.4",
    families: ["gpt-", "o1", "o3", "o4", "chatgpt-"]
  },
  "openai-codex": {
    displayName: "OpenAI Codex",
    baseUrl: "https://chatgpt.com/backend-api/codex",
    keys: ["CODEX_ACCESS_TOKEN"],
    aliases: ["codex"],
    login: true
  },
  gemini: {
    displayName: "Google Gemini",
    baseUrl: "https://generativelanguage.googleapis.com/v1beta/openai",
    keys: ["GEMINI_API_KEY", "GOOGLE_API_KEY"],
    defaultModel: "gemini-2.5-pro",
    aliases: ["google", "google-ai", "google-gemini", "google-ai-studio"],
    families: ["gemini", "gemma"]
  },
  xai: {
    displayName: "xAI",
    baseUrl: "https://api.x.ai/v1",
    keys: ["XAI_API_KEY"],
    defaultModel: "grok-4",
    aliases: ["x-ai", "grok"],
    families: ["grok"]
  },
  deepseek: {
    displayName: "DeepSeek",
    baseUrl: "https://api.deepseek.com/v1",
    keys: ["DEEPSEEK_API_KEY"],
    defaultModel: "deepseek-chat",
    families: ["deepseek"]
  },
  "kimi-coding": {
    displayName: "Kimi / Moonshot",
    baseUrl: "https://api.moonshot.ai/v1",
    keys: ["KIMI_API_KEY", "MOONSHOT_API_KEY"],
    defaultModel: "kimi-k2.5",
    aliases: ["kimi", "moonshot", "moonshotai"],
    domains: ["api.kimi.com", "api.moonshot.cn"],
    families: ["kimi", "moonshot"]
  },
  zai: {
    displayName: "Z.AI / GLM",
    baseUrl: "https://api.z.ai/api/paas/v4",
    keys: ["ZAI_API_KEY", "GLM_API_KEY", "Z_AI_API_KEY"],
    defaultModel: "glm-4.7",
    aliases: ["glm", "z-ai", "z.ai", "zhipu"],
    domains: ["open.bigmodel.cn"],
    families: ["glm"]
  },
  minimax: {
    displayName: "MiniMax",
    baseUrl: "https://api.minimax.io/anthropic",
    keys: ["MINIMAX_API_KEY"],
    families: ["minimax"]
  },
  "minimax-cn": {
    displayName: "MiniMax (China)",
    baseUrl: "https://api.minimaxi.com/anthropic",
    keys: ["MINIMAX_CN_API_KEY"]
  },
  alibaba: {
    displayName: "Alibaba DashScope",
    baseUrl: "https://dashscope-intl.aliyuncs.com/compatible-mode/v1",
    keys: ["DASHSCOPE_API_KEY"],
    aliases: ["dashscope", "aliyun", "qwen"],
    domains: ["dashscope.aliyuncs.com"],
    families: ["qwen"]
  },
  mistral: {
    displayName: "Mistral",
    baseUrl: "https://api.mistral.ai/v1",
    keys: ["MISTRAL_API_KEY"],
    defaultModel: "mistral-large-latest",
    aliases: ["mistralai"],
    families: ["mistral", "codestral", "magistral", "devstral"]
  },
  groq: { displayName: "Groq", baseUrl: "https://api.groq.com/openai/v1", keys: ["GROQ_API_KEY"], aggregator: true },
  together: {
    displayName: "Together AI",
    baseUrl: "https://api.together.xyz/v1",
    keys: ["TOGETHER_API_KEY"],
    aliases: ["together-ai", "togetherai"],
    aggregator: true
  },
  fireworks: {
    displayName: "Fireworks AI",
    baseUrl: "https://api.fireworks.ai/inference/v1",
    keys: ["FIREWORKS_API_KEY"],
    aliases: ["fireworks-ai"],
    aggregator: true
  },
  novita: {
    displayName: "Novita AI",
    baseUrl: "https://api.novita.ai/openai",
    keys: ["NOVITA_API_KEY"],
    aliases: ["novita-ai"],
    aggregator: true
  },
  huggingface: {
    displayName: "Hugging Face",
    baseUrl: "https://router.huggingface.co/v1",
    keys: ["HF_TOKEN"],
    aliases: ["hf"],
    aggregator: true
  },
  "opencode-zen": {
    displayName: "OpenCode Zen",
    baseUrl: "https://opencode.ai/zen/v1",
    keys: ["OPENCODE_ZEN_API_KEY"],
    aliases: ["opencode", "zen"]
  },
  "opencode-go": {
    displayName: "OpenCode Go",
    baseUrl: "https://opencode.ai/zen/go/v1",
    keys: ["OPENCODE_GO_API_KEY"]
  },
  xiaomi: {
    displayName: "Xiaomi MiMo",
    baseUrl: "https://api.xiaomimimo.com/v1",
    keys: ["XIAOMI_API_KEY"],
    aliases: ["mimo"],
    families: ["mimo"]
  },
  copilot: {
    displayName: "GitHub Copilot",
    baseUrl: "https://api.githubcopilot.com",
    keys: ["COPILOT_GITHUB_TOKEN", "GH_TOKEN", "GITHUB_TOKEN"],
    aliases: ["github", "github-copilot"]
  },
  bedrock: { displayName: "AWS Bedrock", authentication: "aws", aliases: ["aws", "aws-bedrock", "amazon-bedrock"] },
  azure: {
    displayName: "Azure OpenAI",
    keys: ["AZURE_OPENAI_API_KEY"],
    aliases: ["azure-openai"],
    domains: ["openai.azure.com"]
  },
  ollama: {
    displayName: "Ollama",
    baseUrl: "http://127.0.0.1:11434/v1",
    authentication: "optional",
    keys: ["OLLAMA_API_KEY"],
    domains: ["ollama.com"]
  },
  lmstudio: {
    displayName: "LM Studio",
    baseUrl: "http://127.0.0.1:1234/v1",
    authentication: "optional",
    keys: ["LM_API_KEY"],
    aliases: ["lm-studio"]
  },
  offline: { displayName: "Built-in offline stand-in", authentication: "none" }
}

/** An endpoint that belongs to no known provider. */
export const custom: Row = { displayName: "Custom endpoint", authentication: "optional", keys: ["OPENAI_API_KEY"] }

const names: ReadonlyMap<string, string> = new Map(
  Object.entries(rows).flatMap(([name, { aliases = [] }]) =>
    [name, ...aliases].map((other): [string, string] => [other, name])
  )
)

/**
 * Returns the canonical name of a provider: in lower case, with aliases resolved and without the prefix of named
 * endpoints.
 */
export const canonicalize = (provider: string): string => {
  const name = provider.trim().toLowerCase()
  return names.get(name) ?? (name.startsWith("custom:") ? name.slice("custom:".length).trim() : name)
}

/** Returns the default address of a provider; `undefined` if the user must set an address. */
export const findOwnAddress = (provider: string): string | undefined => {
  const name = canonicalize(provider)
  return Object.hasOwn(rows, name) ? rows[name]?.baseUrl : undefined
}

/** Returns the provider that an address belongs to: the owner of its host, or `custom`. */
export const findOwner = (baseUrl: string): string => {
  const { host } = parseAddress(baseUrl)
  const found = Object.entries(rows).find(
    ([, { authentication, baseUrl, domains = [] }]) =>
      authentication !== "optional" &&
      [parseAddress(baseUrl).host, ...domains].some((domain) => domain !== "" && isUnder(host, domain))
  )
  return found?.[0] ?? "custom"
}
