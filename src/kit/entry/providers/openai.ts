/** Providers based on the official SDK of OpenAI: chat completions and responses. */
export * as ChatCompletions from "../../../models/provider/ChatCompletions.ts"
export * as CodexResponses from "../../../models/provider/CodexResponses.ts"
