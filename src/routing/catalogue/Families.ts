/**
 * Abilities of model families, by a part of their id: the longest that an id contains counts. For models that nobody who
 * serves them describes.
 *
 * **Details**
 *
 * What is generally known of these models, as of the date below; it was not compared with the pages of the vendors, which
 * count. Output limits of Claude are in `provider/anthropic/OutputLimits`, since the protocol needs them.
 *
 * **Gotchas**
 *
 * An entry is a promise about every id that contains it: a new member of a family may have a larger window. Too small a
 * number compacts early; too large a one costs one refused request, which teaches the real one.
 *
 * Source: `hermes-llm.md` §10.1.
 */
import * as ModelId from "./ModelId.ts"

/** Date of the numbers. */
export const date = "2026-04-30"

/** Abilities of a model; undefined where unknown. */
export interface Abilities {
  readonly vision: boolean | undefined
  readonly reasoning: boolean | undefined
  readonly tools: boolean | undefined
  readonly caching: boolean | undefined
}

/** A family's abilities and limits. */
export interface Family extends Abilities {
  /** Tokens. */
  readonly window: number
  /** Tokens of one answer at most; undefined where the table does not know. */
  readonly output: number | undefined
}

/** Window, output and abilities: `v`ision, `r`easoning, `t`ools, `c`aching of prompts. */
type Row = readonly [window: number, output: number | undefined, abilities: string]

const rows: Readonly<Record<string, Row>> = {
  "claude": [200_000, undefined, "vtc"],
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
  "o1": [200_000, 100_000, "vrtc"],
  "o3": [200_000, 100_000, "vrtc"],
  "o4-mini": [200_000, 100_000, "vrtc"],

  "gemini": [1_048_576, 8_192, "vtc"],
  "gemini-2.5": [1_048_576, 65_536, "vrtc"],
  "gemini-3": [1_048_576, 65_536, "vrtc"],
  "gemma-3": [131_072, 8_192, "v"],
  "gemma-4": [262_144, undefined, "vrt"],

  "grok": [131_072, undefined, "t"],
  "grok-3": [131_072, undefined, "tc"],
  "grok-3-mini": [131_072, undefined, "rtc"],
  "grok-4": [256_000, undefined, "vrtc"],
  "grok-4-fast": [2_000_000, undefined, "vrtc"],
  "grok-4.1-fast": [2_000_000, undefined, "vrtc"],
  "grok-code-fast": [256_000, undefined, "rtc"],

  "deepseek": [128_000, 8_192, "tc"],
  "deepseek-reasoner": [128_000, 65_536, "rtc"],
  "deepseek-r1": [128_000, 65_536, "rt"],
  "kimi": [262_144, undefined, "tc"],
  "kimi-k2.5": [262_144, undefined, "vrtc"],
  "kimi-k2-thinking": [262_144, undefined, "rtc"],
  "glm": [131_072, undefined, "rtc"],
  "glm-4.6": [202_752, 131_072, "rtc"],
  "glm-4.7": [202_752, 131_072, "rtc"],
  "glm-5": [202_752, 131_072, "rtc"],
  "minimax": [204_800, 131_072, "rtc"],
  "mimo-v2": [262_144, undefined, "rt"],
  "mimo-v2-pro": [1_000_000, undefined, "rt"],
  "mimo-v2-omni": [262_144, undefined, "vrt"],
  "qwen": [131_072, undefined, "t"],
  "qwen3": [131_072, undefined, "rt"],
  "qwen3-coder": [262_144, 65_536, "t"],
  "qwen3-coder-plus": [1_000_000, 65_536, "tc"],
  "qwen3-max": [262_144, undefined, "tc"],
  "qwq": [131_072, undefined, "rt"],
  "llama-3": [131_072, undefined, "t"],
  "llama-4": [1_000_000, undefined, "vt"],
  "mistral": [131_072, undefined, "t"],
  "mistral-large": [262_144, undefined, "vt"],
  "mistral-medium": [131_072, undefined, "vt"],
  "magistral": [131_072, undefined, "vrt"],
  "codestral": [256_000, undefined, "t"],
  "devstral": [262_144, undefined, "t"],
  "hermes-4": [131_072, undefined, "rt"],
  "hermes-3": [131_072, undefined, "t"],

  "nova-micro": [128_000, 10_000, "tc"],
  "nova-lite": [300_000, 10_000, "vtc"],
  "nova-pro": [300_000, 10_000, "vtc"],
  "nova-premier": [1_000_000, 32_000, "vtc"],
  "titan-text": [32_000, 8_192, ""],
  "command-r": [131_072, 4_096, "t"]
}

const familyOf = ([window, output, letters]: Row): Family => ({
  window,
  output,
  vision: letters.includes("v"),
  reasoning: letters.includes("r"),
  tools: letters.includes("t"),
  caching: letters.includes("c")
})

const families: ReadonlyMap<string, Family> = new Map(
  Object.entries(rows).map(([key, row]) => [ModelId.folded(key), familyOf(row)])
)

/** The family of a model; undefined for one that is not known. */
export const of = (model: string): Family | undefined => ModelId.longestIn(families, ModelId.withoutProvider(model))
