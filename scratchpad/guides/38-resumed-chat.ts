import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  streamText,
  toUIMessageStream,
  type UIMessage
} from "ai"
import { languageModel, runningModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes } from "../../src/kit/entry/promise.ts"

const hermes = createHermes({ model: "offline", store: "memory" })
// A run goes on when its page is reloaded.
const model = languageModel(hermes, { whenLeft: "continue" })

// app/api/chat/route.ts. No `abortSignal`: the end of the request does not end the run.
export const POST = async (request: Request): Promise<Response> => {
  // The body that `useChat` sends.
  const { id, messages } = (await request.json()) as { id: string; messages: Array<UIMessage> }
  const { stream } = streamText({
    model,
    messages: await convertToModelMessages(messages),
    providerOptions: { hermes: { sessionId: id } }
  })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}

// app/api/chat/[id]/stream/route.ts, which `useChat({ id, resume: true })` calls when the page is loaded.
export const GET = async (id: string): Promise<Response> => {
  const running = await runningModel(hermes, { sessionId: id })
  if (running === undefined) return new Response(null, { status: 204 })
  const { stream } = streamText({ model: running, prompt: "resumed" })
  return createUIMessageStreamResponse({ stream: toUIMessageStream({ stream }) })
}

// A page that is closed in the middle of an answer, and opened again.
const question = { id: "q", role: "user", parts: [{ type: "text", text: "Reply exactly hello" }] }
const body = JSON.stringify({ id: "chat-1", messages: [question] })
const page = await POST(new Request("http://localhost/api/chat", { method: "POST", body }))
const reader = page.body?.pipeThrough(new TextDecoderStream()).getReader()
for (let seen = ""; !seen.includes("text-delta");) seen += (await reader?.read())?.value ?? ""
await reader?.cancel()
// The run is still active, or its answer is in the session already.
const again = await GET("chat-1")
console.log(again.status === 204 || /"delta":"hello"/.test(await again.text()))
while ((await hermes.activeRun("chat-1")) !== undefined) await new Promise((resolve) => setTimeout(resolve, 10))
console.log((await hermes.readSession("chat-1"))?.length)
await hermes.dispose()
// => true
// => 2
