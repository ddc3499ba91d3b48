// A model server for the picture of the terminal: it streams the answers of a short programming task, one after another.
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

interface Call {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

interface Answer {
  readonly text: string
  readonly calls?: ReadonlyArray<Call>
}

const chunk = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`

const renderAnswer = ({ calls = [], text }: Answer): string =>
  [
    ...text.split(/(?<= )/).map((part) => chunk({ role: "assistant", content: part })),
    ...calls.map((call, index) =>
      chunk({
        tool_calls: [
          {
            index,
            id: `call_${index}_${call.name}`,
            type: "function",
            function: { name: call.name, arguments: JSON.stringify(call.arguments) }
          }
        ]
      })
    ),
    chunk({}, calls.length > 0 ? "tool_calls" : "stop"),
    `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [], usage: { prompt_tokens: 6120, completion_tokens: 210, total_tokens: 6330, prompt_tokens_details: { cached_tokens: 5632 } } })}\n\n`,
    "data: [DONE]\n\n"
  ].join("")

/** Starts the server on the loopback address. A request without tools is a side task, such as a title. */
export const startModel = (answers: ReadonlyArray<Answer>) =>
  new Promise<{ readonly url: string; readonly close: () => void }>((resolve) => {
    const server = createServer((request, response) => {
      let body = ""
      request.on("data", (part: Buffer) => {
        body += part.toString()
      })
      request.on("end", () => {
        if (request.method === "GET") {
          response.writeHead(200, { "content-type": "application/json" })
          return response.end(JSON.stringify({ data: [{ id: "m", context_length: 200_000 }] }))
        }
        const { messages = [], stream, tools } = JSON.parse(body)
        const results = messages.filter(({ role }: { readonly role: string }) => role === "tool").length
        const answer = tools === undefined ? { text: "Wrong invoice total" } : (answers[results] ?? { text: "Done." })
        if (stream !== true) {
          response.writeHead(200, { "content-type": "application/json" })
          return response.end(
            JSON.stringify({
              id: "1",
              object: "chat.completion",
              created: 1,
              model: "m",
              choices: [{ index: 0, message: { role: "assistant", content: answer.text }, finish_reason: "stop" }]
            })
          )
        }
        response.writeHead(200, { "content-type": "text/event-stream" })
        return response.end(renderAnswer(answer))
      })
    })
    server.listen(0, "127.0.0.1", () => {
      // A server that listens on a port has an address of this type.
      const { port } = server.address() as AddressInfo
      resolve({ url: `http://127.0.0.1:${port}/v1`, close: () => server.close() })
    })
  })
