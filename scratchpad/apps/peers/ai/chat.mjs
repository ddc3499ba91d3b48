import { convertToModelMessages, createUIMessageStreamResponse, streamText, toUIMessageStream } from "ai"

export const createChat = (model) => async (request) => {
  const { messages } = await request.json()
  const { stream } = streamText({ model, instructions: "Be brief.", messages: await convertToModelMessages(messages) })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}
