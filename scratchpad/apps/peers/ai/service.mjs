import { generateText, wrapLanguageModel } from "ai"
import { DatabaseSync } from "node:sqlite"

class OverLimit extends Error {}

export const createService = (model, sqlite, limit) => {
  const database = new DatabaseSync(sqlite)
  database.exec("CREATE TABLE IF NOT EXISTS messages (session TEXT, message TEXT)")
  const read = database.prepare("SELECT message FROM messages WHERE session = ? ORDER BY rowid")
  const append = database.prepare("INSERT INTO messages VALUES (?, ?)")
  const history = (sessionId) => read.all(sessionId).map(({ message }) => JSON.parse(message))
  const calls = new Map()
  const limited = (user) =>
    wrapLanguageModel({
      model,
      middleware: {
        wrapGenerate: ({ doGenerate }) => {
          const count = (calls.get(user) ?? 0) + 1
          calls.set(user, count)
          if (count > limit) throw new OverLimit()
          return doGenerate()
        }
      }
    })
  return {
    say: async (user, sessionId, prompt) => {
      const message = { role: "user", content: prompt }
      append.run(sessionId, JSON.stringify(message))
      try {
        const { response, text } = await generateText({ model: limited(user), messages: history(sessionId) })
        for (const one of response.messages) append.run(sessionId, JSON.stringify(one))
        return text
      } catch (error) {
        if (error instanceof OverLimit) return "Come back tomorrow."
        throw error
      }
    },
    history,
    close: () => database.close()
  }
}
