/** The provider over the official SDK of Anthropic. */
export * as AnthropicMessages from "../../provider/AnthropicMessages.ts"
