// A server for inference on the loopback that answers as vLLM does: with the token ids of prompt and answer. Its
// tokenizer has a token for each character and each border of a message, so that an answer that comes back is the
// tokens that were sampled.
import * as Effect from "effect/Effect"
import type { Scope } from "effect/Scope"
import type { ServerResponse } from "node:http"
import * as HttpServer from "../models/provider/HttpServer.ts"

type Fields = Readonly<Record<string, unknown>>

export interface Answer {
  readonly content?: string
  readonly calls?: ReadonlyArray<{ readonly name: string; readonly args: unknown }>
}

export interface Options {
  /** The answer to a request; `undefined` leaves it open. */
  readonly answer: (body: Fields, index: number) => Answer | undefined
  /** Without ids it answers as a hosted API does. */
  readonly withoutIds?: boolean
  /** Sees each response before it is sent; true when it answered itself. */
  readonly before?: (body: Fields, response: ServerResponse) => boolean
}

const border = 1_000

const charsOf = (text: unknown): ReadonlyArray<number> =>
  Array.from(
    typeof text === "string" ? text : text === undefined || text === null ? "" : JSON.stringify(text),
    (char) => char.codePointAt(0) ?? 0
  )

const callText = (calls: unknown): string =>
  Array.isArray(calls)
    ? calls
        .map(
          (call: { readonly function?: { readonly name?: string; readonly arguments?: string } }) =>
            `<${call.function?.name}:${call.function?.arguments}>`
        )
        .join("")
    : ""

const roles = ["system", "user", "assistant", "tool", "developer"]

/** Tokens of a message: its role, its characters, its end. */
const tokensOf = ({ content, role, tool_calls: calls }: Fields): ReadonlyArray<number> => [
  border + roles.indexOf(String(role)),
  ...charsOf(content),
  ...charsOf(callText(calls)),
  border + 9
]

export const toolCalls = (answer: Answer, index: number) =>
  (answer.calls ?? []).map(({ args, name }, at) => ({
    id: `call_${index}_${at}`,
    type: "function",
    function: { name, arguments: JSON.stringify(args) }
  }))

/** The body of an answer. */
const bodyOf = (request: Fields, answer: Answer, index: number, withoutIds: boolean) => {
  const messages = Array.isArray(request["messages"]) ? (request["messages"] as ReadonlyArray<Fields>) : []
  const calls = toolCalls(answer, index)
  const message = {
    role: "assistant",
    content: answer.content ?? null,
    ...(calls.length === 0 ? {} : { tool_calls: calls })
  }
  const prompt = [...messages.flatMap(tokensOf), border + 2]
  const tokens = tokensOf(message).slice(1)
  return {
    id: `chatcmpl-${index}`,
    object: "chat.completion",
    created: 1,
    model: request["model"],
    choices: [
      {
        index: 0,
        message,
        finish_reason: calls.length === 0 ? "stop" : "tool_calls",
        stop_reason: null,
        ...(request["logprobs"] === true
          ? {
              logprobs: {
                content: tokens.map((token) => ({
                  token: String.fromCodePoint(token),
                  logprob: -token / 10_000,
                  bytes: null,
                  top_logprobs: []
                }))
              }
            }
          : {}),
        ...(withoutIds ? {} : { token_ids: tokens })
      }
    ],
    ...(withoutIds ? {} : { prompt_token_ids: prompt }),
    usage: {
      prompt_tokens: prompt.length,
      completion_tokens: tokens.length,
      total_tokens: prompt.length + tokens.length
    }
  }
}

/** Starts the server for a test. `bodies` are the requests for answers that came. */
export const make = ({
  answer,
  before,
  withoutIds = false
}: Options): Effect.Effect<
  {
    readonly url: string
    readonly bodies: ReadonlyArray<Fields>
    readonly headers: ReadonlyArray<HttpServer.Received["headers"]>
  },
  never,
  Scope
> => {
  const bodies: Array<Fields> = []
  const headers: Array<HttpServer.Received["headers"]> = []
  return Effect.map(
    HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions"))
        return void HttpServer.json(response, 404, { error: { message: "nothing here" } })
      const body = JSON.parse(request.body) as Fields
      const index = bodies.push(body) - 1
      headers.push(request.headers)
      if (before?.(body, response) === true) return
      const said = answer(body, index)
      if (said !== undefined) HttpServer.json(response, 200, bodyOf(body, said, index, withoutIds))
    }),
    ({ url }) => ({ url: `${url}/v1`, bodies, headers })
  )
}
