import { Agent } from "@mastra/core/agent"

export const createChat = (model) => {
  const agent = new Agent({ id: "chat", name: "Chat", model, instructions: "Be brief." })
  return async (request) => {
    const { messages } = await request.json()
    const { textStream } = await agent.stream(messages)
    return new Response(textStream.pipeThrough(new TextEncoderStream()))
  }
}
