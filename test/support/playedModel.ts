// A server of chat completions whose steps follow from the last thing that the user said.
import * as Effect from "effect/Effect"
import * as HttpServer from "../models/provider/HttpServer.ts"

/** One answer of the model. */
export interface Step {
  /** A text, or the pieces that it comes in. */
  readonly text?: string | ReadonlyArray<string>
  readonly thought?: string
  readonly calls?: ReadonlyArray<readonly [name: string, args: Record<string, unknown>, id?: string]>
  /** The model says nothing more, until its client hangs up. */
  readonly hangs?: boolean
}

/** A request of a turn. */
export interface Asked {
  readonly model?: string
  readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>
  readonly tools?: ReadonlyArray<{ readonly function: { readonly name: string } }>
  readonly response_format?: { readonly type: string; readonly json_schema: { readonly schema: unknown } }
}

/**
 * Plays the steps of the first word that the user's last message has; a title for anything else. `seen` has the
 * requests of turns: titles are asked for beside them, and do not stream. The play `(summary)` is that of a compaction.
 */
export const make = (plays: Readonly<Record<string, ReadonlyArray<Step>>>) => {
  const seen: Array<Asked> = []
  let aborted = 0
  const server = HttpServer.make(({ body, url }, response) => {
    if (url.endsWith("/models")) return void HttpServer.json(response, 200, { data: [{ id: "m" }, { id: "other" }] })
    if (!url.endsWith("/chat/completions"))
      return void HttpServer.json(response, 404, { error: { message: "not here" } })
    const request: Asked & { readonly stream?: boolean } = JSON.parse(body)
    if (request.stream === true) seen.push(request)
    const at = request.messages.findLastIndex(({ role }) => role === "user")
    const asked = JSON.stringify(request.messages[at]?.content)
    const steps = plays[Object.keys(plays).find((word) => asked.includes(word)) ?? ""] ?? [{ text: "A title" }]
    const {
      calls = [],
      hangs = false,
      text,
      thought
    } = steps[request.messages.slice(at).filter(({ role }) => role === "assistant").length] ?? { text: "done" }
    // Side tasks do not stream: a summary, where it is played.
    if (request.stream !== true && plays["(summary)"] !== undefined && asked.length > 2_000) {
      return void HttpServer.json(response, 200, {
        id: "x",
        model: "m",
        object: "chat.completion",
        choices: [
          { index: 0, message: { role: "assistant", content: plays["(summary)"][0]?.text }, finish_reason: "stop" }
        ],
        usage: { prompt_tokens: 100, completion_tokens: 10 }
      })
    }
    const chunk = (delta: Record<string, unknown>, finish: string | null = null) => ({
      id: "x",
      model: "m",
      choices: [{ index: 0, delta, finish_reason: finish }]
    })
    response.writeHead(200, { "content-type": "text/event-stream" })
    response.on("close", () => {
      if (!response.writableEnded) aborted++
    })
    if (thought !== undefined) response.write(HttpServer.sse(chunk({ reasoning_content: thought })))
    if (text !== undefined)
      response.write(HttpServer.sse(...[text].flat().map((content) => chunk({ role: "assistant", content }))))
    if (hangs) return
    const toolCalls = calls.map(([name, args, id], index) => ({
      index,
      id: id ?? `${name}_${seen.length}_${index}`,
      type: "function",
      function: { name, arguments: JSON.stringify(args) }
    }))
    response.end(
      HttpServer.sse(
        ...(calls.length === 0 ? [] : [chunk({ tool_calls: toolCalls })]),
        chunk({}, calls.length === 0 ? "stop" : "tool_calls"),
        { id: "x", model: "m", choices: [], usage: { prompt_tokens: 100, completion_tokens: 10 } },
        "[DONE]"
      )
    )
  })
  return Effect.map(server, ({ requests, url }) => ({
    url,
    seen,
    aborted: () => aborted,
    /** Forgets what was asked. */
    forget: () => {
      seen.length = 0
      requests.length = 0
    }
  }))
}
