import { Agent, run } from "@openai/agents"
import { DatabaseSync } from "node:sqlite"

class OverLimit extends Error {}

export const createService = (model, sqlite, limit) => {
  const database = new DatabaseSync(sqlite)
  database.exec("CREATE TABLE IF NOT EXISTS items (session TEXT, item TEXT)")
  const read = database.prepare("SELECT rowid, item FROM items WHERE session = ? ORDER BY rowid")
  const append = database.prepare("INSERT INTO items VALUES (?, ?)")
  const remove = database.prepare("DELETE FROM items WHERE rowid = ?")
  const clear = database.prepare("DELETE FROM items WHERE session = ?")
  const openSession = (id) => ({
    getSessionId: async () => id,
    getItems: async (count) =>
      read
        .all(id)
        .slice(count === undefined ? 0 : -count)
        .map(({ item }) => JSON.parse(item)),
    addItems: async (items) => items.forEach((item) => append.run(id, JSON.stringify(item))),
    popItem: async () => {
      const last = read.all(id).at(-1)
      if (last === undefined) return undefined
      remove.run(last.rowid)
      return JSON.parse(last.item)
    },
    clearSession: async () => clear.run(id)
  })
  const calls = new Map()
  const countCall = (user) => {
    const count = (calls.get(user) ?? 0) + 1
    calls.set(user, count)
    if (count > limit) throw new OverLimit()
  }
  const limited = (user) => ({
    getResponse: (request) => (countCall(user), model.getResponse(request)),
    getStreamedResponse: (request) => (countCall(user), model.getStreamedResponse(request))
  })
  return {
    say: async (user, sessionId, prompt) => {
      const agent = new Agent({ name: "Service", model: limited(user) })
      try {
        return (await run(agent, prompt, { session: openSession(sessionId) })).finalOutput
      } catch (error) {
        if (error instanceof OverLimit) return "Come back tomorrow."
        throw error
      }
    },
    history: (sessionId) => openSession(sessionId).getItems(),
    close: () => database.close()
  }
}
