/**
 * Which model does side tasks at which provider, when nobody names one: small, fast and cheap ones, as far as known in 2026. A provider
 * that is not here does none by itself.
 *
 * Source: `hermes-llm.md` §5.2, §5.3.
 *
 * @since 0.1.0
 */

/** For text. The order of the providers that follow Anthropic in the chain is this order. */
export const text: Readonly<Record<string, string>> = {
  openrouter: "google/gemini-3-flash-preview",
  nous: "google/gemini-3-flash-preview",
  "openai-codex": "gpt-5.1-codex-mini",
  anthropic: "claude-haiku-4-5-20251001",
  gemini: "gemini-3-flash-preview",
  zai: "glm-4.5-flash",
  "kimi-coding": "kimi-k2-turbo-preview",
  minimax: "MiniMax-M2.5",
  "minimax-cn": "MiniMax-M2.5",
  openai: "gpt-5-mini",
  deepseek: "deepseek-chat",
  xai: "grok-4-1-fast-non-reasoning",
  alibaba: "qwen-flash",
  mistral: "mistral-small-latest",
  groq: "openai/gpt-oss-20b",
  "opencode-zen": "gemini-3-flash",
  "opencode-go": "glm-5",
  xiaomi: "mimo-v2-flash"
}

/** For images, where it is another one than the main model. */
export const vision: Readonly<Record<string, string>> = {
  openrouter: "google/gemini-3-flash-preview",
  nous: "google/gemini-3-flash-preview",
  xiaomi: "mimo-v2-omni",
  zai: "glm-4.6v"
}

/** At an endpoint of the user's own that has no main model. */
export const custom = "gpt-4o-mini"

/** The model of a table for a provider. */
export const of = (table: Readonly<Record<string, string>>, provider: string): string | undefined =>
  Object.hasOwn(table, provider) ? table[provider] : undefined
