// A chat server for `useChat` of the AI SDK: each chat is a session, and its calls of tools are shown.
import { convertToModelMessages, createUIMessageStreamResponse, streamText, toUIMessageStream } from "ai"
import type { UIMessage } from "ai"
import { languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes, type ModelChoice } from "../../src/kit/entry/promise.ts"

export const createChat = (model: ModelChoice) => {
  const agent = languageModel(createHermes({ model, instructions: "Be brief." }))
  return async (request: Request) => {
    const { id, messages: sent } = (await request.json()) as { id: string; messages: Array<UIMessage> }
    const messages = await convertToModelMessages(sent)
    const { stream } = streamText({ model: agent, messages, providerOptions: { hermes: { sessionId: id } } })
    return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
  }
}
