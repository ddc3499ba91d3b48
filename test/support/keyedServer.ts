// A chat server on the loopback that counts which key made which call, and answers each key in its own way.
import * as Effect from "effect/Effect"
import type { ServerResponse } from "node:http"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { webServer } from "./webServer.ts"

/** A call as the server has read it. */
export interface KeyedCall {
  readonly key: string
  readonly model: string
  readonly stream: boolean
  readonly cacheKey: unknown
  readonly body: string
}

/** Answer to a key: a text, the status of a refusal, or a function that answers itself. */
export type KeyedAnswer = string | number | ((call: KeyedCall, response: ServerResponse) => void)

const usage = { prompt_tokens: 10, completion_tokens: 2, total_tokens: 12 }

export const answerText = ({ model, stream }: KeyedCall, response: ServerResponse, text: string): void => {
  const base = { id: "c", model, object: stream ? "chat.completion.chunk" : "chat.completion" }
  if (!stream) {
    const message = { role: "assistant", content: text }
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ ...base, choices: [{ index: 0, message, finish_reason: "stop" }], usage }))
    return
  }
  response
    .writeHead(200, { "content-type": "text/event-stream" })
    .end(
      HttpServer.sse(
        { ...base, choices: [{ index: 0, delta: { role: "assistant", content: text }, finish_reason: null }] },
        { ...base, choices: [{ index: 0, delta: {}, finish_reason: "stop" }] },
        { ...base, choices: [], usage },
        "[DONE]"
      )
    )
}

/** Answers with a call of a tool. */
export const answerCall = (
  { model, stream }: KeyedCall,
  response: ServerResponse,
  name: string,
  args: unknown
): void => {
  const call = { id: "call_1", type: "function", function: { name, arguments: JSON.stringify(args) } }
  const base = { id: "c", model, object: stream ? "chat.completion.chunk" : "chat.completion" }
  if (!stream) {
    const message = { role: "assistant", content: null, tool_calls: [call] }
    response
      .writeHead(200, { "content-type": "application/json" })
      .end(JSON.stringify({ ...base, choices: [{ index: 0, message, finish_reason: "tool_calls" }], usage }))
    return
  }
  const delta = { role: "assistant", tool_calls: [{ index: 0, ...call }] }
  response
    .writeHead(200, { "content-type": "text/event-stream" })
    .end(
      HttpServer.sse(
        { ...base, choices: [{ index: 0, delta, finish_reason: null }] },
        { ...base, choices: [{ index: 0, delta: {}, finish_reason: "tool_calls" }] },
        { ...base, choices: [], usage },
        "[DONE]"
      )
    )
}

/** Starts the server. `answers` may change while it runs; a key without an answer is refused with 401. */
export const keyedServer = (answers: Record<string, KeyedAnswer>) =>
  Effect.gen(function* () {
    const calls: Array<KeyedCall> = []
    const url = yield* webServer((request, response, body) => {
      if (request.url?.endsWith("/chat/completions") !== true) {
        response.writeHead(404).end()
        return
      }
      const fields = JSON.parse(body) as { model: string; stream?: boolean; prompt_cache_key?: unknown }
      const call: KeyedCall = {
        key: String(request.headers.authorization ?? "").replace(/^Bearer /, ""),
        model: fields.model,
        stream: fields.stream === true,
        cacheKey: fields.prompt_cache_key,
        body
      }
      calls.push(call)
      const answer = answers[call.key] ?? 401
      if (typeof answer === "function") answer(call, response)
      else if (typeof answer === "string") answerText(call, response, answer)
      else {
        const error = { error: { message: `HTTP ${answer} for the key ${call.key}`, type: "error", code: null } }
        response.writeHead(answer, { "content-type": "application/json" }).end(JSON.stringify(error))
      }
    })
    /** Counts the calls by key and model. */
    const count = (): Readonly<Record<string, number>> => {
      const counts: Record<string, number> = {}
      for (const { key, model } of calls) counts[`${key} ${model}`] = (counts[`${key} ${model}`] ?? 0) + 1
      return counts
    }
    return { url: `${url}/v1`, calls, count }
  })
