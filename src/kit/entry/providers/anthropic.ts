/** The provider based on the official SDK of Anthropic. */
export * as AnthropicMessages from "../../../models/provider/AnthropicMessages.ts"
