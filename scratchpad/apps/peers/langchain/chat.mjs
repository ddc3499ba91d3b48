import { MemorySaver } from "@langchain/langgraph"
import { createAgent } from "langchain"

export const createChat = (model) => {
  const agent = createAgent({ model, systemPrompt: "Be brief.", tools: [], checkpointer: new MemorySaver() })
  return async (request) => {
    const { id, messages } = await request.json()
    const last = messages
      .at(-1)
      .parts.map(({ text }) => text)
      .join("")
    const stream = await agent.stream(
      { messages: [{ role: "user", content: last }] },
      { configurable: { thread_id: id }, streamMode: "messages" }
    )
    const texts = async function* () {
      for await (const [chunk] of stream) yield new TextEncoder().encode(chunk.text)
    }
    return new Response(ReadableStream.from(texts()))
  }
}
