/** Providers over the official SDK of OpenAI: chat completions, and responses. */
export * as ChatCompletions from "../../provider/ChatCompletions.ts"
export * as CodexResponses from "../../provider/CodexResponses.ts"
