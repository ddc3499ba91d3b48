// A model server for the picture of the terminal: it streams the answers of a short programming task, one after another.
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"

interface Call {
  readonly name: string
  readonly arguments: Readonly<Record<string, unknown>>
}

/** One answer of the model. */
export interface Answer {
  readonly text: string
  readonly reasoning?: string
  readonly calls?: ReadonlyArray<Call>
  /** Status of a refusal of the provider. */
  readonly status?: number
}

/** A message of a request. */
interface WireMessage {
  readonly role: string
  readonly content: unknown
}

/** Chooses the answer to the messages of a request with tools. */
export type Choose = (messages: ReadonlyArray<WireMessage>) => Answer | undefined

const chunk = (delta: unknown, finish: string | null = null): string =>
  `data: ${JSON.stringify({ id: "1", object: "chat.completion.chunk", created: 1, model: "m", choices: [{ index: 0, delta, finish_reason: finish }] })}\n\n`

const renderAnswer = ({ calls = [], reasoning, text }: Answer): string =>
  [
    ...(reasoning === undefined ? [] : [chunk({ role: "assistant", reasoning_content: reasoning })]),
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

/** Returns the text that the user wrote last. */
const readPrompt = (messages: ReadonlyArray<WireMessage>): string => {
  const content = messages.findLast(({ role }) => role === "user")?.content
  if (typeof content === "string") return content
  return Array.isArray(content) ? content.map((part) => part.text ?? "").join("") : ""
}

const countResults = (messages: ReadonlyArray<WireMessage>): number => {
  const since = messages.findLastIndex(({ role }) => role === "user")
  return messages.slice(since).filter(({ role }) => role === "assistant").length
}

/** Plays the answers to the prompt that a key begins, one for each request of its turn. The last key counts, because a
 * failed turn leaves its prompt before the next one. */
export const playPrompts =
  (answers: Readonly<Record<string, ReadonlyArray<Answer>>>): Choose =>
  (messages) => {
    const prompt = readPrompt(messages)
    const [key] = Object.keys(answers).sort((one, other) => prompt.lastIndexOf(other) - prompt.lastIndexOf(one))
    return key === undefined || !prompt.includes(key) ? undefined : answers[key]?.[countResults(messages)]
  }

/** Plays the answers one after another, one for each result of a tool. */
export const playAnswers =
  (answers: ReadonlyArray<Answer>): Choose =>
  (messages) =>
    answers[messages.filter(({ role }) => role === "tool").length]

/** Starts the server on the loopback address. A request without tools is a side task, such as a title. */
export const startModel = (choose: Choose, sideText = "Wrong invoice total") =>
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
        const answer: Answer = tools === undefined ? { text: sideText } : (choose(messages) ?? { text: "Done." })
        if (answer.status !== undefined) {
          response.writeHead(answer.status, { "content-type": "application/json" })
          return response.end(
            JSON.stringify({ error: { message: "the request is broken", type: "invalid_request_error" } })
          )
        }
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
