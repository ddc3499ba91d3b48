// Runs the twins of the applications with models that play turns, and prints what they return: `node run.mjs [PEER …]`.
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { fileURLToPath } from "node:url"

const here = fileURLToPath(new URL(".", import.meta.url))
const call = (name, args) => ({ name, args })

/** A model of specification v4 or v3 of the AI SDK. */
const playAiSdk = async (turns, version) => {
  const { [`MockLanguageModelV${version}`]: Model, simulateReadableStream } = await import("ai/test")
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 }
  }
  let at = 0
  const nextTurn = () => {
    const turn = turns[at++]
    if (turn === undefined) throw new Error("no more turns")
    const isText = typeof turn === "string"
    const id = `c${at}`
    const part = isText
      ? { type: "text", text: turn }
      : { type: "tool-call", toolCallId: id, toolName: turn.name, input: JSON.stringify(turn.args) }
    const finishReason = { unified: isText ? "stop" : "tool-calls", raw: undefined }
    const parts = isText
      ? [
          { type: "text-start", id },
          { type: "text-delta", id, delta: turn },
          { type: "text-end", id }
        ]
      : [part]
    return { part, finishReason, parts }
  }
  return new Model({
    doGenerate: async () => {
      const { finishReason, part } = nextTurn()
      return { content: [part], finishReason, usage, warnings: [] }
    },
    doStream: async () => {
      const { finishReason, parts } = nextTurn()
      const chunks = [{ type: "stream-start", warnings: [] }, ...parts, { type: "finish", finishReason, usage }]
      return { stream: simulateReadableStream({ chunks }) }
    }
  })
}

/** LangChain asks a model that it does not know for a value by a tool, whose name is numbered. */
const playLangChain = async (turns) => {
  const { AIMessage, fakeModel } = await import("langchain")
  const model = fakeModel()
  let valueTool = ""
  const bindTools = model.bindTools.bind(model)
  model.bindTools = (tools, options) => {
    const names = tools.map((one) => one.name ?? one.function?.name)
    valueTool = names.find((name) => name.startsWith("extract-")) ?? valueTool
    return bindTools(tools, options)
  }
  for (const turn of turns) {
    model.respond(() => {
      if (typeof turn === "string") return new AIMessage(turn)
      const name = turn.name === "value" ? valueTool : turn.name
      return new AIMessage({ content: "", tool_calls: [{ name, args: turn.args, id: `call-${name}` }] })
    })
  }
  return model
}

const playOpenAi = async (turns) => {
  const { Usage } = await import("@openai/agents")
  let at = 0
  const nextResponse = () => {
    const turn = turns[at++]
    if (turn === undefined) throw new Error("no more turns")
    const output =
      typeof turn === "string"
        ? {
            type: "message",
            id: `m${at}`,
            role: "assistant",
            status: "completed",
            content: [{ type: "output_text", text: turn }]
          }
        : {
            type: "function_call",
            callId: `c${at}`,
            name: turn.name,
            arguments: JSON.stringify(turn.args),
            status: "completed"
          }
    return { usage: new Usage(), output: [output], text: turn }
  }
  return {
    getResponse: async () => nextResponse(),
    getStreamedResponse: async function* () {
      const { output, text } = nextResponse()
      if (typeof text === "string") yield { type: "output_text_delta", delta: text }
      const usage = { inputTokens: 1, outputTokens: 1, totalTokens: 2 }
      yield { type: "response_done", response: { id: `r${at}`, usage, output } }
    }
  }
}

const players = {
  ai: (turns) => playAiSdk(turns, 4),
  langchain: playLangChain,
  mastra: (turns) => playAiSdk(turns, 3),
  "openai-agents": playOpenAi
}

const load = (peer, name) => import(`./${peer}/${name}.mjs`)

/** Plays one application. `play` makes its model, and `object` a turn with a value. */
const scenarios = {
  "support-desk": async (peer, play, object) => {
    const { answer, createDesk } = await load(peer, "support-desk")
    const reply = { category: "refund", order: 7, reply: "You get your money back." }
    return await answer(createDesk(await play([call("orders", {}), object(reply)])), "Ann", "Where is it?")
  },
  research: async (peer, play, object) => {
    const { research } = await load(peer, "research")
    const result = { answer: "4 degrees", sources: ["https://example.com/a"] }
    const model = await play([call("search", { words: "Oslo" }), object(result)])
    return await research(model, "How cold?", async () => [{ url: "https://example.com/a", text: "4 degrees" }])
  },
  coding: async (peer, play) => {
    const { change } = await load(peer, "coding")
    const directory = mkdtempSync(join(tmpdir(), "peers-"))
    const write = call("write_file", { path: "b.txt", content: "new" })
    const model = await play([write, call("terminal", { command: "rm a.txt" }), "Done."])
    const text = await change(model, directory, "Replace a by b.", async () => false)
    rmSync(directory, { recursive: true })
    return text
  },
  chat: async (peer, play) => {
    const { createChat } = await load(peer, "chat")
    const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "First." }] }]
    const body = JSON.stringify({ id: "c1", messages })
    const chat = createChat(await play(["One."]))
    const response = await chat(new Request("http://localhost/chat", { method: "POST", body }))
    return (await response.text()).replaceAll(/\s+/g, " ").slice(0, 120)
  },
  batch: async (peer, play, object) => {
    const { extract } = await load(peer, "batch")
    return await extract(await play([object({ name: "A", total: 1 }), object({ name: "B", total: 2 })]), ["a", "b"])
  },
  "mcp-client": async (peer, play) => {
    const { ask } = await load(peer, "mcp-client")
    const name = peer === "mastra" ? "shop_price" : "price"
    const model = await play([call(name, { item: "tea" }), "3 crowns."])
    return await ask(model, join(here, "../mcp-server.mjs"), "How much is tea?")
  },
  delegation: async (peer, play) => {
    const { write } = await load(peer, "delegation")
    const key = { ai: "message", langchain: "message", mastra: "prompt", "openai-agents": "input" }[peer]
    const ask = (name, text) => call(peer === "mastra" ? `agent-${name}` : name, { [key]: text })
    const facts = [ask("researcher", "Facts."), call("search", { words: "tea" }), "Tea is warm."]
    const model = await play([...facts, ask("writer", "Write."), "An article.", "An article."])
    return await write(model, "tea", async (words) => `${words} is warm`)
  },
  service: async (peer, play) => {
    const { createService } = await load(peer, "service")
    const directory = mkdtempSync(join(tmpdir(), "peers-"))
    const file = join(directory, "state.db")
    const first = createService(await play(["One."]), file, 1)
    const said = [await first.say("ann", "s1", "Hello."), await first.say("ann", "s1", "Again.")]
    await first.close()
    const second = createService(await play(["Two."]), file, 1)
    said.push(await second.say("bo", "s1", "Hello."), (await second.history("s1")).length)
    await second.close()
    rmSync(directory, { recursive: true })
    return said
  }
}

const [...named] = process.argv.slice(2)
for (const peer of named.length === 0 ? Object.keys(players) : named) {
  const object = (value) => (peer === "langchain" ? call("value", value) : JSON.stringify(value))
  for (const [name, run] of Object.entries(scenarios)) {
    const result = await run(peer, players[peer], object).catch((error) => `FAILED ${error.stack ?? error}`)
    console.log(peer, name, String(JSON.stringify(result)).slice(0, 400))
  }
}
process.exit(0)
