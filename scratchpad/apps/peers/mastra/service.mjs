import { Agent } from "@mastra/core/agent"
import { RequestContext } from "@mastra/core/request-context"
import { LibSQLStore } from "@mastra/libsql"
import { Memory } from "@mastra/memory"

export const createService = (model, sqlite, limit) => {
  const calls = new Map()
  const storage = new LibSQLStore({ id: "service", url: `file:${sqlite}` })
  const memory = new Memory({ storage })
  const limitCalls = {
    id: "limit-calls",
    processInputStep: ({ abort, messages, requestContext }) => {
      const user = requestContext.get("user")
      const count = (calls.get(user) ?? 0) + 1
      calls.set(user, count)
      if (count > limit) abort("over the limit")
      return messages
    }
  }
  const agent = new Agent({
    id: "service",
    name: "Service",
    model,
    instructions: "Help.",
    memory,
    inputProcessors: [limitCalls]
  })
  return {
    say: async (user, sessionId, prompt) => {
      const requestContext = new RequestContext([["user", user]])
      const result = await agent.generate(prompt, {
        requestContext,
        memory: { thread: sessionId, resource: sessionId }
      })
      return result.tripwire === undefined ? result.text : "Come back tomorrow."
    },
    history: async (sessionId) => (await memory.recall({ threadId: sessionId, resourceId: sessionId })).messages,
    close: () => storage.close?.()
  }
}
