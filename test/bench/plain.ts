// The base of the ratios: the same loop by hand on the plain SDK.
import OpenAI from "openai"

const tools: Array<OpenAI.Chat.Completions.ChatCompletionTool> = [{
  type: "function",
  function: {
    name: "echo",
    description: "Echo the text back",
    parameters: { type: "object", properties: { text: { type: "string" } }, required: ["text"], additionalProperties: false }
  }
}]

type Messages = Array<OpenAI.Chat.Completions.ChatCompletionMessageParam>

/** A runner of the plain loop. */
export const make = (url: string, system: string, prompt: string) => {
  const client = new OpenAI({ apiKey: "x", baseURL: url })
  const start = (): Messages => [{ role: "system", content: system }, { role: "user", content: prompt }]

  const runLoop = async (model: string): Promise<string> => {
    const messages = start()
    for (;;) {
      const completion = await client.chat.completions.create({ model, messages, tools })
      const message = completion.choices[0]?.message
      if (message === undefined) throw new Error("no answer")
      messages.push(message)
      if (message.tool_calls === undefined || message.tool_calls.length === 0) return message.content ?? ""
      for (const call of message.tool_calls) {
        if (call.type !== "function") continue
        const { text } = JSON.parse(call.function.arguments) as { text: string }
        messages.push({ role: "tool", tool_call_id: call.id, content: text })
      }
    }
  }

  const runStream = async (model: string, onDelta: (text: string) => void): Promise<void> => {
    const events = await client.chat.completions.create({ model, messages: start(), stream: true })
    for await (const event of events) {
      const text = event.choices[0]?.delta.content
      if (text) onDelta(text)
    }
  }

  return { runLoop, runStream }
}
