import { assert, describe, it } from "@effect/vitest"
import * as WindowProbing from "../../../src/models/routing/WindowProbing.ts"

describe("StatedLimit", () => {
  /** Refusals in the words of their providers, and the limit in them. */
  const fixtures: ReadonlyArray<readonly [provider: string, message: string, limit: number | "excess" | undefined]> = [
    [
      "OpenAI",
      "This model's maximum context length is 128000 tokens. However, your messages resulted in 130512 tokens. Please reduce the length of the messages.",
      128_000
    ],
    [
      "OpenAI, with an answer",
      "This model's maximum context length is 16385 tokens. However, you requested 20100 tokens (16004 in the messages, 4096 in the completion).",
      16_385
    ],
    [
      "OpenAI Responses",
      "Your input exceeds the context window of this model. Please adjust your input and try again.",
      undefined
    ],
    ["Anthropic", "prompt is too long: 205123 tokens > 200000 maximum", 200_000],
    ["Bedrock", "Input is too long for requested model.", undefined],
    [
      "Bedrock, Claude",
      "The model returned the following errors: prompt is too long: 215000 tokens > 200000 maximum",
      200_000
    ],
    [
      "Bedrock, Llama",
      "This model's maximum context length is 8192 tokens. Please reduce the length of the prompt",
      8_192
    ],
    ["Gemini", "The input token count (1200345) exceeds the maximum number of tokens allowed (1048576).", 1_048_576],
    [
      "OpenRouter",
      "This endpoint's maximum context length is 131072 tokens. However, you requested about 204301 tokens (194301 of text input, 10000 in the output).",
      131_072
    ],
    ["DeepSeek", "This model's maximum context length is 65536 tokens. However, you requested 70011 tokens", 65_536],
    ["xAI", "This model's maximum prompt length is 131072 but the request contains 150000 tokens.", 131_072],
    [
      "Mistral",
      "Prompt contains 40961 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      32_768
    ],
    ["Groq", "Please reduce the length of the messages or completion.", undefined],
    ["Fireworks", "The prompt is too long: 40000, model maximum context length: 32767", 32_767],
    [
      "Together",
      "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`",
      8_193
    ],
    ["Hugging Face TGI", "Input validation error: `inputs` must have less than 4096 tokens. Given: 5000", 4_096],
    ["Cohere", "too many tokens: total number of tokens in the prompt cannot exceed 4081 - received 4292.", 4_081],
    ["Kimi", "Invalid request: Your request exceeded model token limit: 262144", 262_144],
    ["Z.AI", "Prompt exceeds max length", undefined],
    ["MiniMax", "invalid params, context window exceeds limit (2013)", "excess"],
    ["Alibaba", "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]", 129_024],
    ["Copilot", "prompt token count of 70000 exceeds the limit of 64000", 64_000],
    ["Novita, in Chinese", "输入超过最大长度: 32768", 32_768],
    ["vLLM", "This model's maximum context length is 32,768 tokens. However, you requested 40,000 tokens", 32_768],
    [
      "vLLM, decoder",
      "The decoder prompt (length 5000) is longer than the maximum model length of 4096. Make sure that `max_model_len` is no smaller",
      4_096
    ],
    ["llama.cpp", "the request exceeds the available context size (8192 tokens), try increasing it", 8_192],
    [
      "llama.cpp, newer",
      "request (9211 tokens) exceeds the available context size (8192 tokens), try increasing it",
      8_192
    ],
    ["Ollama", "the input length exceeds the context length", undefined],
    [
      "LM Studio",
      "Trying to keep the first 5000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens, which is not enough.",
      4_096
    ],
    ["SGLang", "The input (9000 tokens) is longer than the model's context length (8192 tokens).", 8_192],
    ["Azure", "This model's maximum context length is 8192 tokens, however you requested 10000 tokens", 8_192],
    ["nonsense", "limit of context length 12", undefined]
  ]

  for (const [provider, message, limit] of fixtures) {
    it(`${provider} is understood`, () => {
      const expected: WindowProbing.StatedLimit =
        limit === undefined
          ? { _tag: "Nothing" }
          : limit === "excess"
            ? { _tag: "Excess" }
            : { _tag: "Tokens", tokens: limit }
      assert.deepStrictEqual(WindowProbing.readStatedLimit(message), expected)
    })
  }
})
