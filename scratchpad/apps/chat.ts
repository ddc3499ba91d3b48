// A chat server for `useChat` of the AI SDK: each chat is a session, and its calls of tools are shown.
import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  streamText,
  toUIMessageStream,
  type UIMessage
} from "ai"
import { languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes, type HermesOptions } from "../../src/kit/entry/promise.ts"

export const createChat = (model: HermesOptions["model"]) => {
  const agent = languageModel(createHermes({ model, instructions: "Be brief." }))
  return async (request: Request): Promise<Response> => {
    // The body is what useChat sends.
    const { id, messages } = (await request.json()) as { id: string; messages: Array<UIMessage> }
    const { stream } = streamText({
      model: agent,
      messages: await convertToModelMessages(messages),
      providerOptions: { hermes: { sessionId: id } }
    })
    return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
  }
}
