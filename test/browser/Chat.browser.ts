// `useChat` in a real browser over an agent: one call is approved and one denied, and the page is loaded again in the
// middle of the answer.
import { afterAll, assert, beforeAll, describe, it } from "@effect/vitest"
import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  streamText,
  toUIMessageStream,
  type UIMessage
} from "ai"
import { MockLanguageModelV4 } from "ai/test"
import { createServer, type IncomingMessage, type ServerResponse } from "node:http"
import type { AddressInfo } from "node:net"
import { join } from "node:path"
import { Readable } from "node:stream"
import type { ReadableStream as NodeStream } from "node:stream/web"
import type { Browser } from "playwright-core"
import { rolldown } from "rolldown"
import * as z from "zod"
import { FromAiSdk, languageModel, runningModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes, tool } from "../../src/kit/entry/promise.ts"
import * as Browsers from "./browser.ts"

const usage = {
  inputTokens: { total: 20, noCache: 20, cacheRead: 0, cacheWrite: 0 },
  outputTokens: { total: 4, text: 4, reasoning: 0 }
}

const removed: Array<string> = []
const gate = Promise.withResolvers<void>()

const makeCall = (id: string, name: string) =>
  ({ type: "tool-call", toolCallId: id, toolName: "remove", input: JSON.stringify({ name }) }) as const
const finish = (unified: "stop" | "tool-calls") =>
  ({ type: "finish", finishReason: { unified, raw: unified }, usage }) as const

/** A model that calls a tool twice, and then says what happened, the second half behind the gate. */
const model = new MockLanguageModelV4({
  doStream: async ({ prompt }) => ({
    stream: ReadableStream.from(
      (async function* () {
        if (!prompt.some(({ role }) => role === "tool")) {
          yield makeCall("call_a", "a.txt")
          yield makeCall("call_b", "b.txt")
          yield finish("tool-calls")
          return
        }
        yield { type: "text-start", id: "0" } as const
        yield { type: "text-delta", id: "0", delta: "I removed a.txt " } as const
        await gate.promise
        yield { type: "text-delta", id: "0", delta: "and kept b.txt." } as const
        yield { type: "text-end", id: "0" } as const
        yield finish("stop")
      })()
    )
  })
})

const hermes = createHermes({
  model: FromAiSdk.layer(model),
  store: "memory",
  questions: { unanswered: "suspend" },
  tools: [
    tool({
      name: "remove",
      description: "Removes a file",
      input: z.object({ name: z.string() }),
      needsApproval: true,
      execute: ({ name }) => {
        removed.push(name)
        return { removed: name }
      }
    })
  ]
})

/** The messages that the application stores. */
let stored: Array<UIMessage> = []
/** Requests of the page. */
const requests: Array<string> = []
let script = ""

const answerChat = async (request: Request): Promise<Response> => {
  const { id, messages } = (await request.json()) as { id: string; messages: Array<UIMessage> }
  stored = messages
  const { stream } = streamText({
    model: languageModel(hermes, { whenLeft: "continue" }),
    messages: await convertToModelMessages(messages),
    providerOptions: { hermes: { sessionId: id } }
  })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}

const resumeChat = async (id: string): Promise<Response> => {
  const running = await runningModel(hermes, { sessionId: id })
  if (running === undefined) return new Response(null, { status: 204 })
  const { stream } = streamText({ model: running, prompt: "resumed" })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}

const page =
  '<!doctype html><title>Chat</title><link rel="icon" href="data:,"><body><script type="module" src="/page.js"></script>'

const answer = async (request: Request, path: string): Promise<Response> => {
  if (path === "/") return new Response(page, { headers: { "content-type": "text/html" } })
  if (path === "/page.js") return new Response(script, { headers: { "content-type": "text/javascript" } })
  if (path === "/messages") return Response.json(stored)
  const response = path === "/api/chat" ? await answerChat(request) : await resumeChat("chat-1")
  requests.push(`${request.method} ${path} ${response.status}`)
  return response
}

const handle = async (request: IncomingMessage, response: ServerResponse): Promise<void> => {
  const path = request.url ?? "/"
  const { method = "GET" } = request
  const body = method === "POST" ? { body: await new Response(Readable.toWeb(request) as ReadableStream).text() } : {}
  const answered = await answer(new Request(`http://localhost${path}`, { method, ...body }), path)
  response.writeHead(answered.status, Object.fromEntries(answered.headers))
  // Types of the same stream in two libraries. A page that leaves cancels it.
  const stream = answered.body === null ? undefined : Readable.fromWeb(answered.body as NodeStream)
  if (stream === undefined) return void response.end()
  stream.on("error", () => response.destroy())
  response.on("close", () => stream.destroy())
  stream.pipe(response)
}

const server = createServer((request, response) => void handle(request, response))
let browser: Browser
let url = ""

beforeAll(async () => {
  const bundle = await rolldown({
    input: join(import.meta.dirname, "chat/chatPage.js"),
    platform: "browser",
    tsconfig: false,
    logLevel: "silent",
    transform: { define: { "process.env.NODE_ENV": '"production"' } }
  })
  const { output } = await bundle.generate({ format: "esm", codeSplitting: false })
  script = output[0].code
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
  // A server that listens on a port has an address.
  url = `http://127.0.0.1:${(server.address() as AddressInfo).port}/`
  browser = await Browsers.launch()
})

afterAll(async () => {
  await browser?.close()
  server.closeAllConnections()
  server.close()
  await hermes.dispose()
})

describe("a chat in a browser", () => {
  it("approves one call, denies another, and has its whole answer behind a reload", async () => {
    const { complaints, page } = await Browsers.open(browser, url, { from: url })
    await page.locator("input").fill("Remove a.txt and b.txt")
    await page.locator("input").press("Enter")
    const asked = page.locator("section[data-state=approval-requested]")
    await asked.nth(1).waitFor()
    assert.strictEqual(await asked.count(), 2)
    await page.locator("section", { hasText: "a.txt" }).getByText("Approve").click()
    await page.locator("section", { hasText: "b.txt" }).getByText("Deny").click()
    const text = page.locator("article[data-role=assistant] p")
    await text.getByText("I removed a.txt").waitFor()
    assert.deepStrictEqual(removed, ["a.txt"])

    await page.reload()
    await text.getByText("I removed a.txt").waitFor()
    assert.strictEqual(await page.locator("main").getAttribute("data-status"), "streaming")
    gate.resolve()
    await text.getByText("I removed a.txt and kept b.txt.").waitFor()
    await page.locator("main[data-status=ready]").waitFor()
    assert.deepStrictEqual(await text.allTextContents(), ["I removed a.txt and kept b.txt."])
    assert.strictEqual(await page.locator("article").count(), 2)
    const states = await page.evaluate(`Array.from(document.querySelectorAll("section"), (one) => one.dataset.state)`)
    assert.deepStrictEqual(states, ["output-available", "output-error"])
    assert.deepStrictEqual(removed, ["a.txt"])
    assert.strictEqual(requests.at(-1), "GET /api/chat/chat-1/stream 200")
    // The first page may ask for a stream before or after its first message.
    assert.deepStrictEqual(requests.toSorted(), [
      "GET /api/chat/chat-1/stream 200",
      "GET /api/chat/chat-1/stream 204",
      "POST /api/chat 200",
      "POST /api/chat 200"
    ])
    assert.deepStrictEqual(complaints, [])

    // Nothing is active any more.
    await page.reload()
    await page.locator("section").first().waitFor()
    assert.strictEqual(requests.at(-1), "GET /api/chat/chat-1/stream 204")
    await page.close()
  })
})
