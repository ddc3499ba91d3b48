// A model behind a real HTTP server on the loopback, in each of the four protocols: it plays turns word for word,
// however broken.
import { encodeEventStreamMessage } from "@copilotkit/aimock"
import * as Effect from "effect/Effect"
import type * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { ServerResponse } from "node:http"
import type { ApiMode } from "../../src/base/domain/ApiMode.ts"
import type { Route } from "../../src/base/domain/Route.ts"
import * as AnthropicMessages from "../../src/models/provider/AnthropicMessages.ts"
import * as BedrockConverse from "../../src/models/provider/BedrockConverse.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as CodexResponses from "../../src/models/provider/CodexResponses.ts"
import type { Provider } from "../../src/models/provider/Provider.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"

/** A call as a model writes it: `args` is text, and need not be JSON. */
export interface WireCall {
  readonly id: string
  readonly name: string
  readonly args: string
}

/** What the model says, and the calls that it makes. */
export interface WireTurn {
  readonly text?: string
  readonly calls?: ReadonlyArray<WireCall>
  /** The output limit cut it. */
  readonly cut?: true
  /**
   * Cuts text and thoughts into the pieces that they are streamed in; without it text comes in a few words at a time.
   */
  readonly cutText?: (text: string) => ReadonlyArray<string>
  /** What it thinks before, signed as its protocol does (streamed answers only). */
  readonly thought?: string
}

export interface Protocol {
  readonly layer: (url: string) => Layer.Layer<Provider, unknown>
  /** The body of an answer in one piece. */
  readonly whole: (turn: WireTurn) => unknown
  readonly stream: (turn: WireTurn, response: ServerResponse) => void
}

const apiKey = Redacted.make("k")
const model = "m"

/** Arguments in two pieces. */
const pieces = (args: string): ReadonlyArray<string> => {
  const half = Math.ceil(args.length / 2)
  return args === "" ? [] : [args.slice(0, half), args.slice(half)].filter((piece) => piece !== "")
}

/** Text in pieces of a few words. */
const textPieces = (text: string): ReadonlyArray<string> => text.match(/[^]{1,12}/g) ?? [""]

/** What a server that parses arguments sends: the object, or the text that is none. */
const parsed = (args: string): unknown => {
  try {
    return args === "" ? {} : JSON.parse(args)
  } catch {
    return args
  }
}

const events = (response: ServerResponse, ...data: ReadonlyArray<unknown>) =>
  response.writeHead(200, { "content-type": "text/event-stream" }).end(HttpServer.sse(...data))

const chat: Protocol = {
  layer: (url) => ChatCompletions.layer({ baseUrl: `${url}/v1`, model, apiKey }),
  whole: ({ calls = [], cut, text }) => ({
    id: "c",
    model,
    choices: [
      {
        index: 0,
        message: {
          role: "assistant",
          content: text ?? null,
          ...(calls.length === 0
            ? {}
            : {
                tool_calls: calls.map(({ args, id, name }) => ({
                  id,
                  type: "function",
                  function: { name, arguments: args }
                }))
              })
        },
        finish_reason: cut ? "length" : calls.length === 0 ? "stop" : "tool_calls"
      }
    ],
    usage: { prompt_tokens: 1, completion_tokens: 1 }
  }),
  stream: ({ calls = [], cut, cutText, text, thought }, response) => {
    const chunk = (delta: object, finish_reason: string | null = null) => ({
      id: "c",
      model,
      choices: [{ index: 0, delta, finish_reason }]
    })
    events(
      response,
      chunk({ role: "assistant", content: "" }),
      ...(thought === undefined
        ? []
        : (cutText?.(thought) ?? [thought]).map((reasoning_content) => chunk({ reasoning_content }))),
      ...(text === undefined ? [] : (cutText ?? textPieces)(text).map((content) => chunk({ content }))),
      ...calls.flatMap(({ args, id, name }, index) => [
        chunk({ tool_calls: [{ index, id, type: "function", function: { name, arguments: "" } }] }),
        ...pieces(args).map((piece) => chunk({ tool_calls: [{ index, function: { arguments: piece } }] }))
      ]),
      chunk({}, cut ? "length" : calls.length === 0 ? "stop" : "tool_calls"),
      "[DONE]"
    )
  }
}

const anthropic: Protocol = {
  layer: (url) => AnthropicMessages.layer({ baseUrl: url, model: "claude-opus-4-6", apiKey }),
  whole: ({ calls = [], cut, text }) => ({
    id: "m",
    model,
    content: [
      ...(text === undefined ? [] : [{ type: "text", text }]),
      ...calls.map(({ args, id, name }) => ({ type: "tool_use", id, name, input: parsed(args) }))
    ],
    stop_reason: cut ? "max_tokens" : calls.length === 0 ? "end_turn" : "tool_use",
    usage: { input_tokens: 1, output_tokens: 1 }
  }),
  stream: ({ calls = [], cut, cutText, text, thought }, response) => {
    const blocks: ReadonlyArray<{ readonly block: object; readonly deltas: ReadonlyArray<object> }> = [
      ...(thought === undefined
        ? []
        : [
            {
              block: { type: "thinking", thinking: "", signature: "" },
              deltas: [
                ...(cutText?.(thought) ?? [thought]).map((thinking) => ({ type: "thinking_delta", thinking })),
                { type: "signature_delta", signature: `signed ${thought}` }
              ]
            }
          ]),
      ...(text === undefined
        ? []
        : [
            {
              block: { type: "text", text: "" },
              deltas: (cutText ?? textPieces)(text).map((text) => ({ type: "text_delta", text }))
            }
          ]),
      ...calls.map(({ args, id, name }) => ({
        block: { type: "tool_use", id, name, input: {} },
        deltas: pieces(args).map((piece) => ({ type: "input_json_delta", partial_json: piece }))
      }))
    ]
    events(
      response,
      { type: "message_start", message: { id: "m", model, usage: { input_tokens: 1, output_tokens: 1 } } },
      ...blocks.flatMap(({ block, deltas }, index) => [
        { type: "content_block_start", index, content_block: block },
        ...deltas.map((delta) => ({ type: "content_block_delta", index, delta })),
        { type: "content_block_stop", index }
      ]),
      {
        type: "message_delta",
        delta: { stop_reason: cut ? "max_tokens" : calls.length === 0 ? "end_turn" : "tool_use" },
        usage: { output_tokens: 1 }
      },
      { type: "message_stop" }
    )
  }
}

const outputOf = ({ calls = [], text, thought }: WireTurn): ReadonlyArray<object> => [
  ...(thought === undefined
    ? []
    : [
        {
          type: "reasoning",
          id: "rs_1",
          summary: [{ type: "summary_text", text: thought }],
          encrypted_content: `signed ${thought}`
        }
      ]),
  ...(text === undefined
    ? []
    : [{ type: "message", role: "assistant", content: [{ type: "output_text", text, annotations: [] }] }]),
  ...calls.map(({ args, id, name }) => ({
    type: "function_call",
    id: `fc_${id}`,
    call_id: id,
    name,
    arguments: args,
    status: "completed"
  }))
]

const statusOf = ({ cut }: WireTurn): object =>
  cut ? { status: "incomplete", incomplete_details: { reason: "max_output_tokens" } } : { status: "completed" }

const responses: Protocol = {
  layer: (url) => CodexResponses.layer({ baseUrl: `${url}/v1`, model: "gpt-5.1", apiKey }),
  whole: (turn) => ({
    id: "r",
    model,
    ...statusOf(turn),
    output: outputOf(turn),
    usage: { input_tokens: 1, output_tokens: 1 }
  }),
  stream: (turn, response) => {
    const items = outputOf(turn)
    events(
      response,
      { type: "response.created", response: { id: "r", model, status: "in_progress", output: [] } },
      ...items.flatMap((item, output_index) => {
        const { arguments: args, type } = item as { readonly arguments?: string; readonly type: string }
        return type === "reasoning"
          ? [{ type: "response.output_item.done", output_index, item }]
          : [
              {
                type: "response.output_item.added",
                output_index,
                item: args === undefined ? { ...item, content: [] } : { ...item, arguments: "" }
              },
              ...(args === undefined
                ? (turn.cutText ?? textPieces)(turn.text ?? "").map((delta) => ({
                    type: "response.output_text.delta",
                    output_index,
                    content_index: 0,
                    delta
                  }))
                : pieces(args).map((delta) => ({
                    type: "response.function_call_arguments.delta",
                    output_index,
                    delta
                  }))),
              { type: "response.output_item.done", output_index, item }
            ]
      }),
      {
        type: turn.cut ? "response.incomplete" : "response.completed",
        response: { id: "r", model, ...statusOf(turn), output: items, usage: { input_tokens: 1, output_tokens: 1 } }
      }
    )
  }
}

const bedrock: Protocol = {
  layer: (url) => BedrockConverse.layer({ baseUrl: url, model: "amazon.nova-pro-v1:0", apiKey }),
  whole: ({ calls = [], cut, text }) => ({
    output: {
      message: {
        role: "assistant",
        content: [
          ...(text === undefined ? [] : [{ text }]),
          ...calls.map(({ args, id, name }) => ({ toolUse: { toolUseId: id, name, input: parsed(args) } }))
        ]
      }
    },
    stopReason: cut ? "max_tokens" : calls.length === 0 ? "end_turn" : "tool_use",
    usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 },
    metrics: { latencyMs: 1 }
  }),
  stream: ({ calls = [], cut, cutText, text, thought }, response) => {
    const first = thought === undefined ? 0 : 1
    const thoughts: ReadonlyArray<readonly [string, object]> =
      thought === undefined
        ? []
        : [
            ...(cutText?.(thought) ?? [thought]).map(
              (text) => ["contentBlockDelta", { contentBlockIndex: 0, delta: { reasoningContent: { text } } }] as const
            ),
            [
              "contentBlockDelta",
              { contentBlockIndex: 0, delta: { reasoningContent: { signature: `signed ${thought}` } } }
            ],
            ["contentBlockStop", { contentBlockIndex: 0 }]
          ]
    const shown: ReadonlyArray<readonly [string, object]> =
      text === undefined
        ? []
        : [
            ...(cutText ?? textPieces)(text).map(
              (text) => ["contentBlockDelta", { contentBlockIndex: first, delta: { text } }] as const
            ),
            ["contentBlockStop", { contentBlockIndex: first }]
          ]
    const made = calls.flatMap(({ args, id, name }, at): ReadonlyArray<readonly [string, object]> => {
      const contentBlockIndex = at + first + (text === undefined ? 0 : 1)
      return [
        ["contentBlockStart", { contentBlockIndex, start: { toolUse: { toolUseId: id, name } } }],
        ...pieces(args).map(
          (input) => ["contentBlockDelta", { contentBlockIndex, delta: { toolUse: { input } } }] as const
        ),
        ["contentBlockStop", { contentBlockIndex }]
      ]
    })
    const all: ReadonlyArray<readonly [string, object]> = [
      ["messageStart", { role: "assistant" }],
      ...thoughts,
      ...shown,
      ...made,
      ["messageStop", { stopReason: cut ? "max_tokens" : calls.length === 0 ? "end_turn" : "tool_use" }],
      ["metadata", { usage: { inputTokens: 1, outputTokens: 1, totalTokens: 2 }, metrics: { latencyMs: 1 } }]
    ]
    response
      .writeHead(200, { "content-type": "application/vnd.amazon.eventstream" })
      .end(Buffer.concat(all.map(([type, payload]) => encodeEventStreamMessage(type, payload))))
  }
}

/** The four protocols by the name of their API mode. */
export const protocols = {
  chat_completions: chat,
  anthropic_messages: anthropic,
  codex_responses: responses,
  bedrock_converse: bedrock
} as const

/** Plays the turns in order, the last one again and again; in pieces where the run asks for them. */
export const serve = (protocol: Protocol, streaming: boolean, turns: ReadonlyArray<WireTurn>) =>
  Effect.gen(function* () {
    let served = 0
    const server = yield* HttpServer.make((_, response) => {
      const turn = turns[Math.min(served++, turns.length - 1)] ?? {}
      if (streaming) protocol.stream(turn, response)
      else HttpServer.json(response, 200, protocol.whole(turn))
    })
    return { server, provider: protocol.layer(server.url) }
  })

/** A streamed answer as it goes over the wire: its headers, and its events, each whole. */
export const wireEvents = (
  protocol: Protocol,
  turn: WireTurn
): { readonly type: string; readonly events: ReadonlyArray<Buffer> } => {
  let type = ""
  let body = Buffer.alloc(0)
  // The two methods that the protocols write with.
  const response = {
    writeHead: (_: number, headers: Record<string, string>) => {
      type = headers["content-type"] ?? ""
      return response
    },
    end: (data: string | Buffer) => {
      body = Buffer.from(data)
      return response
    }
  }
  protocol.stream(turn, response as unknown as ServerResponse)
  if (!type.includes("amazon")) {
    return {
      type,
      events: body
        .toString("utf8")
        .split(/(?<=\n\n)/)
        .map((event) => Buffer.from(event))
    }
  }
  const events: Array<Buffer> = []
  for (let at = 0; at < body.length; at += body.readUInt32BE(at))
    events.push(body.subarray(at, at + body.readUInt32BE(at)))
  return { type, events }
}

/** The pieces of a text that stand in what was sent, joined. */
const sentText = (text: string, sent: Buffer): string => {
  const body = sent.toString("utf8")
  let from = 0
  let told = ""
  for (const piece of textPieces(text)) {
    const at = body.indexOf(JSON.stringify(piece), from)
    if (at === -1) break
    from = at + 1
    told += piece
  }
  return told
}

/**
 * Sends a streamed answer up to the share `part` of its text or arguments, then ends the body, or loses the connection.
 * Returns the text that was sent.
 */
export const cutStream = (
  protocol: Protocol,
  turn: WireTurn,
  response: ServerResponse,
  part: number,
  how: "ended" | "lost"
): string => {
  const { events, type } = wireEvents(protocol, turn)
  const pieces = events.flatMap((event, index) => (/delta/i.test(event.toString("latin1")) ? [index] : []))
  const first = pieces[0] ?? 0
  // The last piece is never sent, so that text is missing.
  const last = pieces[Math.min(pieces.length - 3, Math.floor(pieces.length * part))] ?? first
  response.writeHead(200, { "content-type": type })
  const sent = Buffer.concat(events.slice(0, last + 1))
  if (how === "ended") response.end(sent)
  else response.write(sent, () => setTimeout(() => response.destroy(), 5))
  return sentText(turn.text ?? "", sent)
}

/** A route to a server that speaks `apiMode`. */
export const routeTo = (apiMode: ApiMode, url: string): Route => ({
  provider: apiMode === "bedrock_converse" ? "bedrock" : apiMode,
  model: "test-model",
  apiMode,
  baseUrl: apiMode === "chat_completions" || apiMode === "codex_responses" ? `${url}/v1` : url,
  apiKey,
  ...(apiMode === "bedrock_converse" ? { region: "us-east-1" } : {})
})

/** The part of `text` that a request for the rest of it has not yet; all of it where the request asks for no rest. */
export const restOf = (text: string, body: string): string => {
  if (!body.includes("The connection was lost in the middle of your answer")) return text
  for (let length = text.length; length > 0; length--) {
    if (body.includes(`"${text.slice(0, length)}"`)) return text.slice(length)
  }
  return text
}
