import { Agent, MemorySession, run } from "@openai/agents"

export const createChat = (model) => {
  const agent = new Agent({ name: "Chat", model, instructions: "Be brief." })
  const sessions = new Map()
  return async (request) => {
    const { id, messages } = await request.json()
    if (!sessions.has(id)) sessions.set(id, new MemorySession({ sessionId: id }))
    const last = messages
      .at(-1)
      .parts.map(({ text }) => text)
      .join("")
    const result = await run(agent, last, { stream: true, session: sessions.get(id) })
    return new Response(result.toTextStream().pipeThrough(new TextEncoderStream()))
  }
}
