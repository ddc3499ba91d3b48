// A service that keeps its conversations in a file, limits the model calls of a user, and ends cleanly.
import { createHermes, HermesError, type ModelChoice } from "../../src/kit/entry/promise.ts"

export const createService = (model: ModelChoice, sqlite: string, limit: number) => {
  const calls = new Map<string, number>()
  const hermes = createHermes<{ readonly user: string }>({
    model,
    store: { sqlite },
    middleware: {
      llm_execution: ({ next_call }, { context: { user } }) => {
        const count = (calls.get(user) ?? 0) + 1
        calls.set(user, count)
        if (count > limit) throw Object.assign(new Error("over the limit"), { name: "ExecutionBlocked" })
        return next_call()
      }
    }
  })
  return {
    say: async (user: string, sessionId: string, prompt: string): Promise<string> => {
      try {
        return (await hermes.run({ prompt, sessionId, context: { user } })).text
      } catch (error) {
        if (error instanceof HermesError && error.tag === "ExecutionBlocked") return "Come back tomorrow."
        throw error
      }
    },
    history: hermes.readSession,
    close: hermes.dispose
  }
}
