import { SqliteSaver } from "@langchain/langgraph-checkpoint-sqlite"
import { createAgent, createMiddleware } from "langchain"
import * as z from "zod"

class OverLimit extends Error {}

export const createService = (model, sqlite, limit) => {
  const calls = new Map()
  const contextSchema = z.object({ user: z.string() })
  const limitCalls = createMiddleware({
    name: "LimitCalls",
    contextSchema,
    wrapModelCall: (request, handler) => {
      const { user } = request.runtime.context
      const count = (calls.get(user) ?? 0) + 1
      calls.set(user, count)
      if (count > limit) throw new OverLimit()
      return handler(request)
    }
  })
  const checkpointer = SqliteSaver.fromConnString(sqlite)
  const agent = createAgent({ model, tools: [], contextSchema, middleware: [limitCalls], checkpointer })
  const locate = (sessionId) => ({ configurable: { thread_id: sessionId } })
  return {
    say: async (user, sessionId, prompt) => {
      try {
        const input = { messages: [{ role: "user", content: prompt }] }
        const { messages } = await agent.invoke(input, { ...locate(sessionId), context: { user } })
        return messages.at(-1).text
      } catch (error) {
        if (error instanceof OverLimit || error.cause instanceof OverLimit) return "Come back tomorrow."
        throw error
      }
    },
    history: async (sessionId) => (await agent.graph.getState(locate(sessionId))).values.messages,
    close: () => checkpointer.db.close()
  }
}
