// A model server for the benchmark, in a process of its own: chat completions, whole or streamed. The model's name is
// the script: `loop-<k>` asks for k tool calls one after another, `fanout-<n>` for n at once, `stream-<n>` sends n
// deltas in one burst, `trickle-<n>` each in a write of its own, `children-<n>-<k>` delegates n tasks at once to
// children that call k tools each, `gate-<n>` never answers. What is posted to any other address is taken, as a
// collector of telemetry does.
import { createServer, type ServerResponse } from "node:http"

interface Body {
  readonly model: string
  readonly stream?: boolean
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content?: unknown }>
}

/** The prompt of every run of the benchmark; a child has a goal instead. */
const prompt = "Go."

const usage = { prompt_tokens: 100, completion_tokens: 10, total_tokens: 110 }

const toolCall = (number: number, index = 0) => ({
  index,
  id: `call_${number}`,
  type: "function",
  function: { name: "echo", arguments: JSON.stringify({ text: `text ${number}` }) }
})

interface Message {
  readonly role: "assistant"
  readonly content: string | null
  readonly tool_calls?: ReadonlyArray<ReturnType<typeof toolCall>>
}

const next = ({ messages, model }: Body): Message => {
  const [kind, count, ofChild] = model.split("-")
  const results = messages.filter(({ role }) => role === "tool").length
  const isChild = kind === "children" && !messages.some(({ content, role }) => role === "user" && content === prompt)
  const wanted = Number(isChild ? ofChild : count)
  if (kind === "children" && !isChild) {
    if (results > 0) return { role: "assistant", content: "done: 1 tool results seen." }
    const tasks = Array.from({ length: wanted }, (_, index) => ({ goal: `Task ${index}.` }))
    return {
      role: "assistant",
      content: null,
      tool_calls: [{ ...toolCall(0), function: { name: "delegate_task", arguments: JSON.stringify({ tasks }) } }]
    }
  }
  if (kind === "stream" || kind === "trickle" || results >= wanted) {
    return { role: "assistant", content: `done: ${results} tool results seen.` }
  }
  const calls =
    kind === "fanout" ? Array.from({ length: wanted }, (_, index) => toolCall(index, index)) : [toolCall(results)]
  return { role: "assistant", content: null, tool_calls: calls }
}

const envelope = (model: string) => ({ id: "chatcmpl-1", created: 1, model })

const whole = (response: ServerResponse, body: Body): void => {
  const message = next(body)
  const finish_reason = message.tool_calls === undefined ? "stop" : "tool_calls"
  response.setHeader("content-type", "application/json")
  response.end(
    JSON.stringify({
      ...envelope(body.model),
      object: "chat.completion",
      choices: [{ index: 0, message, finish_reason }],
      usage
    })
  )
}

const streamed = (response: ServerResponse, body: Body): void => {
  response.setHeader("content-type", "text/event-stream")
  const chunk = (delta: object, finish_reason: string | null = null): string =>
    `data: ${JSON.stringify({
      ...envelope(body.model),
      object: "chat.completion.chunk",
      choices: [{ index: 0, delta, finish_reason }]
    })}\n\n`
  const message = next(body)
  const isTrickle = body.model.startsWith("trickle-")
  const deltas =
    isTrickle || body.model.startsWith("stream-")
      ? Array.from({ length: Number(body.model.split("-")[1]) }, (_, index) =>
          chunk({ content: `word${index % 1000} ` })
        )
      : [chunk(message.tool_calls === undefined ? { content: message.content } : { tool_calls: message.tool_calls })]
  const last = chunk({}, message.tool_calls === undefined ? "stop" : "tool_calls")
  const counted = `data: ${JSON.stringify({ ...envelope(body.model), choices: [], usage })}\n\n`
  const all = [chunk({ role: "assistant", content: "" }), ...deltas, last, counted, "data: [DONE]\n\n"]
  if (!isTrickle) return void response.end(all.join(""))
  const write = (index: number): void => {
    const text = all[index]
    if (text === undefined) return void response.end()
    response.write(text)
    setTimeout(write, 1, index + 1)
  }
  write(0)
}

/** Milliseconds that a model takes for an answer; `npm run bench:batch` sets it. */
const delay = Number(process.env["BENCH_DELAY_MS"] ?? 0)

const server = createServer((request, response) => {
  const chunks: Array<Buffer> = []
  request.on("data", (chunk: Buffer) => chunks.push(chunk))
  request.on("end", () => {
    if (request.url?.endsWith("/chat/completions") !== true)
      return void response.setHeader("content-type", "application/json").end("{}")
    const body = JSON.parse(Buffer.concat(chunks).toString()) as Body
    if (body.model.startsWith("gate-")) return
    const answer = () => (body.stream === true ? streamed(response, body) : whole(response, body))
    if (delay === 0) answer()
    else setTimeout(answer, delay)
  })
})

server.listen(0, "127.0.0.1", () => {
  const address = server.address()
  if (typeof address === "object" && address !== null) process.send?.({ port: address.port })
})
process.on("disconnect", () => process.exit(0))
