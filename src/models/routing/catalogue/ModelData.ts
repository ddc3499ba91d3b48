/**
 * Tables of windows, output limits, capabilities and prices of models. `ModelTables` looks them up.
 *
 * **Details**
 *
 * The numbers are generally known values at the date below; they were not checked against the vendors' pages, which are
 * authoritative. Output limits of Claude are in `models/provider/ModelAbilities`, since the protocol needs them.
 *
 * Prices are in US dollars per million tokens. They are for estimates, not for billing, and are strings, so that they
 * are never converted to binary fractions. A dash marks a price that the vendor does not publish. If a price depends on
 * the length of the prompt (Gemini Pro, Sonnet above 200 000 tokens), the lower price is listed.
 *
 * Source: `hermes-llm.md` §10.1, §12.3.
 */

/** Date of the values, which serves as the version of the tables. */
export const date = "2026-04-30"

/**
 * Window, output limit and capabilities of a model family. The letters are `v` for vision, `r` for reasoning, `t` for
 * tools and `c` for prompt caching.
 */
export type FamilyRow = readonly [window: number, output: number | undefined, abilities: string]

/**
 * Families by a part of their model ids. An entry applies to every id that contains it, although a new member of a
 * family may have a larger window. If the listed window is too small, conversations are compacted early; if it is too
 * large, one request is refused, from which the actual window is learned.
 */
export const families: Readonly<Record<string, FamilyRow>> = {
  claude: [200_000, undefined, "vtc"],
  "claude-opus-4": [200_000, undefined, "vrtc"],
  "claude-opus-4.6": [1_000_000, undefined, "vrtc"],
  "claude-opus-4.7": [1_000_000, undefined, "vrtc"],
  "claude-sonnet-4": [200_000, undefined, "vrtc"],
  "claude-sonnet-4.6": [1_000_000, undefined, "vrtc"],
  "claude-haiku-4.5": [200_000, undefined, "vrtc"],
  "claude-3-7-sonnet": [200_000, undefined, "vrtc"],

  "gpt-5": [400_000, 128_000, "vrtc"],
  "gpt-5-chat": [128_000, 16_384, "vtc"],
  "gpt-5.1-chat": [128_000, 16_384, "vtc"],
  "gpt-5.4": [1_050_000, 128_000, "vrtc"],
  "gpt-5.4-mini": [400_000, 128_000, "vrtc"],
  "gpt-5.4-nano": [400_000, 128_000, "vrtc"],
  "gpt-5.3-codex-spark": [128_000, 128_000, "rtc"],
  "gpt-4.1": [1_047_576, 32_768, "vtc"],
  "gpt-4o": [128_000, 16_384, "vtc"],
  "gpt-4-turbo": [128_000, 4_096, "vt"],
  "gpt-4": [8_192, 8_192, "t"],
  "gpt-3.5": [16_385, 4_096, "t"],
  "gpt-oss": [131_072, 131_072, "rt"],
  "chatgpt-4o": [128_000, 16_384, "v"],
  o1: [200_000, 100_000, "vrtc"],
  o3: [200_000, 100_000, "vrtc"],
  "o4-mini": [200_000, 100_000, "vrtc"],

  gemini: [1_048_576, 8_192, "vtc"],
  "gemini-2.5": [1_048_576, 65_536, "vrtc"],
  "gemini-3": [1_048_576, 65_536, "vrtc"],
  "gemma-3": [131_072, 8_192, "v"],
  "gemma-4": [262_144, undefined, "vrt"],

  grok: [131_072, undefined, "t"],
  "grok-3": [131_072, undefined, "tc"],
  "grok-3-mini": [131_072, undefined, "rtc"],
  "grok-4": [256_000, undefined, "vrtc"],
  "grok-4-fast": [2_000_000, undefined, "vrtc"],
  "grok-4.1-fast": [2_000_000, undefined, "vrtc"],
  "grok-code-fast": [256_000, undefined, "rtc"],

  deepseek: [128_000, 8_192, "tc"],
  "deepseek-reasoner": [128_000, 65_536, "rtc"],
  "deepseek-r1": [128_000, 65_536, "rt"],
  kimi: [262_144, undefined, "tc"],
  "kimi-k2.5": [262_144, undefined, "vrtc"],
  "kimi-k2-thinking": [262_144, undefined, "rtc"],
  glm: [131_072, undefined, "rtc"],
  "glm-4.6": [202_752, 131_072, "rtc"],
  "glm-4.7": [202_752, 131_072, "rtc"],
  "glm-5": [202_752, 131_072, "rtc"],
  minimax: [204_800, 131_072, "rtc"],
  "mimo-v2": [262_144, undefined, "rt"],
  "mimo-v2-pro": [1_000_000, undefined, "rt"],
  "mimo-v2-omni": [262_144, undefined, "vrt"],
  qwen: [131_072, undefined, "t"],
  qwen3: [131_072, undefined, "rt"],
  "qwen3-coder": [262_144, 65_536, "t"],
  "qwen3-coder-plus": [1_000_000, 65_536, "tc"],
  "qwen3-max": [262_144, undefined, "tc"],
  qwq: [131_072, undefined, "rt"],
  "llama-3": [131_072, undefined, "t"],
  "llama-4": [1_000_000, undefined, "vt"],
  mistral: [131_072, undefined, "t"],
  "mistral-large": [262_144, undefined, "vt"],
  "mistral-medium": [131_072, undefined, "vt"],
  magistral: [131_072, undefined, "vrt"],
  codestral: [256_000, undefined, "t"],
  devstral: [262_144, undefined, "t"],
  "hermes-4": [131_072, undefined, "rt"],
  "hermes-3": [131_072, undefined, "t"],

  "nova-micro": [128_000, 10_000, "tc"],
  "nova-lite": [300_000, 10_000, "vtc"],
  "nova-pro": [300_000, 10_000, "vtc"],
  "nova-premier": [1_000_000, 32_000, "vtc"],
  "titan-text": [32_000, 8_192, ""],
  "command-r": [131_072, 4_096, "t"]
}

/**
 * Prices of a provider by exact model id without date: uncached input, output, input read from the prompt cache, input
 * written to the prompt cache.
 */
export interface PriceTable {
  readonly url: string
  readonly rows: Readonly<Record<string, string>>
}

const anthropic: PriceTable = {
  url: "https://platform.claude.com/docs/en/about-claude/pricing",
  rows: {
    "claude-opus-4.7": "5 25 0.50 6.25",
    "claude-opus-4.6": "5 25 0.50 6.25",
    "claude-opus-4.5": "5 25 0.50 6.25",
    "claude-opus-4.1": "15 75 1.50 18.75",
    "claude-opus-4": "15 75 1.50 18.75",
    "claude-3-opus": "15 75 1.50 18.75",
    "claude-sonnet-4.6": "3 15 0.30 3.75",
    "claude-sonnet-4.5": "3 15 0.30 3.75",
    "claude-sonnet-4": "3 15 0.30 3.75",
    "claude-3-7-sonnet": "3 15 0.30 3.75",
    "claude-3-5-sonnet": "3 15 0.30 3.75",
    "claude-haiku-4.5": "1 5 0.10 1.25",
    "claude-3-5-haiku": "0.80 4 0.08 1",
    "claude-3-haiku": "0.25 1.25 0.03 0.30"
  }
}

/** Prices by provider. */
export const prices: Readonly<Record<string, PriceTable>> = {
  anthropic,
  openai: {
    url: "https://platform.openai.com/docs/pricing",
    rows: {
      "gpt-5.4": "2.50 15 0.25 -",
      "gpt-5.2": "1.75 14 0.175 -",
      "gpt-5.1": "1.25 10 0.125 -",
      "gpt-5": "1.25 10 0.125 -",
      "gpt-5-mini": "0.25 2 0.025 -",
      "gpt-5-nano": "0.05 0.40 0.005 -",
      "gpt-5.1-codex": "1.25 10 0.125 -",
      "gpt-5-codex": "1.25 10 0.125 -",
      "gpt-4.1": "2 8 0.50 -",
      "gpt-4.1-mini": "0.40 1.60 0.10 -",
      "gpt-4.1-nano": "0.10 0.40 0.025 -",
      "gpt-4o": "2.50 10 1.25 -",
      "gpt-4o-mini": "0.15 0.60 0.075 -",
      o1: "15 60 7.50 -",
      o3: "2 8 0.50 -",
      "o3-mini": "1.10 4.40 0.55 -",
      "o4-mini": "1.10 4.40 0.275 -"
    }
  },
  google: {
    url: "https://ai.google.dev/gemini-api/docs/pricing",
    rows: {
      "gemini-3-pro-preview": "2 12 0.20 -",
      "gemini-3-flash-preview": "0.50 3 0.05 -",
      "gemini-2.5-pro": "1.25 10 0.125 -",
      "gemini-2.5-flash": "0.30 2.50 0.03 -",
      "gemini-2.5-flash-lite": "0.10 0.40 0.01 -",
      "gemini-2.0-flash": "0.10 0.40 0.025 -"
    }
  },
  deepseek: {
    url: "https://api-docs.deepseek.com/quick_start/pricing",
    rows: { "deepseek-chat": "0.28 0.42 0.028 -", "deepseek-reasoner": "0.28 0.42 0.028 -" }
  },
  minimax: {
    url: "https://platform.minimax.io/docs/guides/pricing",
    rows: { "minimax-m2": "0.30 1.20 0.03 0.375", "minimax-m2.5": "0.30 1.20 0.03 0.375" }
  },
  bedrock: {
    url: "https://aws.amazon.com/bedrock/pricing/",
    rows: {
      ...anthropic.rows,
      "nova-pro": "0.80 3.20 0.20 -",
      "nova-lite": "0.06 0.24 0.015 -",
      "nova-micro": "0.035 0.14 0.00875 -"
    }
  }
}

/** Providers that use the price table of another provider. */
export const sharedPrices: Readonly<Record<string, string>> = { gemini: "google", "minimax-cn": "minimax" }
