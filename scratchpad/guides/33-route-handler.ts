import {
  convertToModelMessages,
  createUIMessageStreamResponse,
  streamText,
  toUIMessageStream,
  type UIMessage
} from "ai"
import { languageModel } from "../../src/kit/entry/ai-sdk.ts"
import { createHermes } from "../../src/kit/entry/promise.ts"

// app/api/chat/route.ts. The agent is made once for the process; each chat is a session.
const model = languageModel(createHermes({ model: "offline" }))

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

// A request as `useChat` sends it.
const question = { id: "q", role: "user", parts: [{ type: "text", text: "Reply exactly hello" }] }
const body = JSON.stringify({ id: "chat-1", messages: [question] })
const response = await POST(new Request("http://localhost/api/chat", { method: "POST", body }))
console.log(/"delta":"hello"/.test(await response.text()))
// => true
