// The applications of scratchpad/apps do what they say, and the guide states how long they and their twins in other
// libraries are.
import { assert, describe, it } from "vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { existsSync, mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import { Provider } from "../src/models/provider/Provider.ts"
import * as Scripted from "../src/models/provider/Scripted.ts"
import { extract } from "../scratchpad/apps/batch.ts"
import { createChat } from "../scratchpad/apps/chat.ts"
import { change } from "../scratchpad/apps/coding.ts"
import { write } from "../scratchpad/apps/delegation.ts"
import { ask } from "../scratchpad/apps/mcp-client.ts"
import { research } from "../scratchpad/apps/research.ts"
import { createService } from "../scratchpad/apps/service.ts"
import { answer, createDesk } from "../scratchpad/apps/support-desk.ts"
import { root } from "./support/sources.ts"

// A warning of the model would be written to the console.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

/** A model that plays turns; `calls` are the requests that it got. */
const play = (turns: ReadonlyArray<Scripted.Turn>) => {
  const { inspection, provider } = Effect.runSync(Scripted.make(turns))
  return { model: Layer.succeed(Provider, provider), calls: () => Effect.runSync(inspection.calls) }
}

const call = (name: string, params: object) => Scripted.complete({ toolCalls: [{ name, params }] })

const inDirectory = async (use: (directory: string) => Promise<void>): Promise<void> => {
  const directory = mkdtempSync(join(tmpdir(), "hermes-apps-"))
  try {
    await use(directory)
  } finally {
    rmSync(directory, { recursive: true })
  }
}

describe("applications", () => {
  it("a support desk answers in a form, with the orders of its customer", async () => {
    const reply = { category: "refund", order: 7, reply: "You get your money back." }
    const { calls, model } = play([call("orders", {}), Scripted.complete(JSON.stringify(reply))])
    const desk = createDesk(model)
    assert.deepStrictEqual(await answer(desk, "Ann", "Where is it?"), reply)
    assert.include(JSON.stringify(calls()[1]?.messages.at(-1)), "Ann")
    await desk.dispose()
  })

  it("research names its sources", async () => {
    const result = { answer: "4 degrees", sources: ["https://example.com/a"] }
    const { model } = play([call("search", { words: "Oslo" }), Scripted.complete(JSON.stringify(result))])
    const found = await research(model, "How cold is it?", async (words) => [
      { url: "https://example.com/a", text: `${words}: 4 degrees` }
    ])
    assert.deepStrictEqual(found, result)
  })

  it("a coding agent changes files, and asks before a dangerous command", async () => {
    await inDirectory(async (directory) => {
      writeFileSync(join(directory, "a.txt"), "old")
      const asked: Array<string> = []
      const { model } = play([
        call("write_file", { path: "b.txt", content: "new" }),
        call("terminal", { command: "rm -rf ./a.txt" }),
        Scripted.complete("Done.")
      ])
      const text = await change(model, directory, "Replace a by b.", async (question) => asked.push(question) < 0)
      assert.deepStrictEqual([text, asked.length], ["Done.", 1])
      assert.isTrue(existsSync(join(directory, "a.txt")) && existsSync(join(directory, "b.txt")))
    })
  })

  it("a chat server streams to useChat, and an answer that is made again has its question once", async () => {
    const { calls, model } = play(["One.", "Two."].map((text) => Scripted.complete(text)))
    const chat = createChat(model)
    const messages = [{ id: "m1", role: "user", parts: [{ type: "text", text: "First." }] }]
    const post = async () => {
      const body = JSON.stringify({ id: "c1", messages })
      const response = await chat(new Request("http://localhost/chat", { method: "POST", body }))
      return await response.text()
    }
    assert.include(await post(), '"delta":"One."')
    assert.include(await post(), '"delta":"Two."')
    assert.deepStrictEqual(
      calls()[1]?.messages.map(({ role }) => role),
      ["system", "user"]
    )
  })

  it("a batch has a value or an error for each text, in order", async () => {
    const { model } = play([
      Scripted.complete('{"name":"A","total":1}'),
      ...["no", "no", "no"].map((text) => Scripted.complete(text))
    ])
    const [first, second] = await extract(model, ["a", "b"])
    const both = [first, second].map((one) => (one !== undefined && "name" in one ? one : "error"))
    assert.sameDeepMembers(both, [{ name: "A", total: 1 }, "error"])
  })

  it("a client of an MCP server calls its tools", async () => {
    const server = join(root, "scratchpad/apps/mcp-server.mjs")
    const { calls, model } = play([call("mcp_shop_price", { item: "tea" }), Scripted.complete("3 crowns.")])
    assert.strictEqual(await ask(model, server, "How much is tea?"), "3 crowns.")
    assert.include(JSON.stringify(calls()[1]?.messages.at(-1)), "tea costs 3 crowns")
  })

  it("an editor delegates to a researcher and a writer", async () => {
    const { model } = play([
      call("Agent", { name: "researcher", message: "Facts on tea." }),
      call("search", { words: "tea" }),
      Scripted.complete("Tea is warm."),
      call("Agent", { name: "writer", message: "Write: tea is warm." }),
      Scripted.complete("An article on tea."),
      Scripted.complete("An article on tea.")
    ])
    assert.strictEqual(await write(model, "tea", async (words) => `${words} is warm`), "An article on tea.")
  })

  it("a service keeps its conversations over a restart, and limits its users", async () => {
    await inDirectory(async (directory) => {
      const file = join(directory, "state.db")
      const first = createService(play([Scripted.complete("One.")]).model, file, 1)
      assert.strictEqual(await first.say("ann", "s1", "Hello."), "One.")
      assert.strictEqual(await first.say("ann", "s1", "Again."), "Come back tomorrow.")
      await first.close()
      const second = createService(play([Scripted.complete("Two.")]).model, file, 1)
      assert.strictEqual(await second.say("bo", "s1", "Hello."), "Two.")
      assert.isAtLeast((await second.history("s1"))?.length ?? 0, 4)
      await second.close()
    })
  })
})

const apps = join(root, "scratchpad/apps")

/** Number of lines that are neither blank nor comments. */
const countLines = (file: string): number =>
  readFileSync(file, "utf8")
    .split("\n")
    .filter((line) => line.trim() !== "" && !line.trim().startsWith("//")).length

describe("the table of lines in the guide", () => {
  it("has each application and its twins", () => {
    const guide = readFileSync(join(root, "scratchpad/guides/applications.md"), "utf8")
    const peers = ["ai", "langchain", "mastra", "openai-agents"]
    for (const file of readdirSync(apps).filter((name) => name.endsWith(".ts"))) {
      const name = file.replace(".ts", "")
      const counts = peers.map((peer) => countLines(join(apps, "peers", peer, `${name}.mjs`)))
      const row = `| ${[`\`${name}\``, countLines(join(apps, file)), ...counts].join(" | ")} |`
      assert.include(guide, row)
    }
  })
})
