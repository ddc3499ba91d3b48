// The base of the ratios: the same loop by hand on the plain SDK.
import OpenAI from "openai"

export type Message = OpenAI.Chat.Completions.ChatCompletionMessageParam
type Answer = OpenAI.Chat.Completions.ChatCompletionMessage

const tools: Array<OpenAI.Chat.Completions.ChatCompletionTool> = [
  {
    type: "function",
    function: {
      name: "echo",
      description: "Echo the text back",
      parameters: {
        type: "object",
        properties: { text: { type: "string" } },
        required: ["text"],
        additionalProperties: false
      }
    }
  }
]

/** The messages that a run begins with. */
export const start = (system: string, prompt: string): Array<Message> => [
  { role: "system", content: system },
  { role: "user", content: prompt }
]

/** Asks for an answer, whole or in pieces. */
export const ask = async (
  client: OpenAI,
  model: string,
  messages: Array<Message>,
  streamed: boolean
): Promise<Answer> => {
  if (!streamed) {
    const completion = await client.chat.completions.create({ model, messages, tools })
    const message = completion.choices[0]?.message
    if (message === undefined) throw new Error("no answer")
    return message
  }
  const calls: Array<{ id: string; type: "function"; function: { name: string; arguments: string } }> = []
  let content = ""
  for await (const { choices } of await client.chat.completions.create({
    model,
    messages,
    tools,
    stream: true,
    stream_options: { include_usage: true }
  })) {
    const delta = choices[0]?.delta
    content += delta?.content ?? ""
    for (const { function: part, id, index } of delta?.tool_calls ?? []) {
      const call = (calls[index] ??= { id: "", type: "function", function: { name: "", arguments: "" } })
      call.id += id ?? ""
      call.function.name += part?.name ?? ""
      call.function.arguments += part?.arguments ?? ""
    }
  }
  return {
    role: "assistant",
    refusal: null,
    content: content === "" ? null : content,
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
}

/** Runs the calls of an answer and appends both; returns the final text where there are none. */
export const act = (messages: Array<Message>, message: Answer): string | undefined => {
  messages.push(message)
  if (message.tool_calls === undefined || message.tool_calls.length === 0) return message.content ?? ""
  for (const call of message.tool_calls) {
    if (call.type !== "function") continue
    const { text } = JSON.parse(call.function.arguments) as { text: string }
    messages.push({ role: "tool", tool_call_id: call.id, content: text })
  }
  return undefined
}

/** Streams one answer, piece by piece. */
export const stream = async (
  client: OpenAI,
  model: string,
  messages: Array<Message>,
  onDelta: (text: string) => void
): Promise<void> => {
  const events = await client.chat.completions.create({ model, messages, stream: true })
  for await (const event of events) {
    const text = event.choices[0]?.delta.content
    if (text) onDelta(text)
  }
}

/** A runner of the plain loop. */
export const make = (url: string, system: string, prompt: string) => {
  const client = new OpenAI({ apiKey: "x", baseURL: url })
  const run = async (model: string, streamed: boolean): Promise<string> => {
    const messages = start(system, prompt)
    for (;;) {
      const text = act(messages, await ask(client, model, messages, streamed))
      if (text !== undefined) return text
    }
  }
  const openSession = async (k: number): Promise<unknown> => {
    const messages = start(system, prompt)
    while (act(messages, await ask(client, `loop-${k}`, messages, false)) === undefined);
    return messages
  }
  return {
    openSession,
    /** Each prompt of a session with all that was said before. */
    runSession: async (prompts: number, onPrompt: (index: number) => void): Promise<void> => {
      const messages: Array<Message> = [{ role: "system", content: system }]
      for (let index = 0; index < prompts; index++) {
        onPrompt(index)
        messages.push({ role: "user", content: prompt })
        act(messages, await ask(client, "loop-0", messages, false))
      }
    },
    /** Loops side by side: who has no children makes so many. */
    runChildren: (n: number, k: number): Promise<unknown> =>
      Promise.all(Array.from({ length: n }, () => run(`loop-${k}`, false))),
    runGate: () => run("gate-1", false),
    runLoop: (k: number) => run(`loop-${k}`, false),
    runFanout: (n: number) => run(`fanout-${n}`, false),
    runLoopStream: (k: number) => run(`loop-${k}`, true),
    runStream: (n: number, onDelta: (text: string) => void, kind: "stream" | "trickle" = "stream") =>
      stream(client, `${kind}-${n}`, start(system, prompt), onDelta)
  }
}
