// Answers without an end, over HTTP in each protocol: what is read of them is bounded, and the run ends with an exact
// exit or the model gets an exact error.
import { encodeEventStreamMessage } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { ServerResponse } from "node:http"
import * as Agent from "../../src/agent/Agent.ts"
import * as AnswerText from "../../src/base/domain/AnswerText.ts"
import { Configurable } from "../../src/base/domain/ApiMode.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, serve, type WireTurn } from "../support/wireModel.ts"

type Kind = AnswerText.Overflow
const kinds: ReadonlyArray<Kind> = ["text", "reasoning", "arguments", "calls"]

const piece = "lorem ipsum ".repeat(1_000)
const sse = (...data: ReadonlyArray<unknown>) => HttpServer.sse(...data)
const frames = (...events: ReadonlyArray<readonly [string, object]>) =>
  Buffer.concat(events.map(([type, payload]) => encodeEventStreamMessage(type, payload)))

interface Endless {
  readonly type: string
  readonly start: (kind: Kind) => string | Buffer
  /** The `n`th piece of what never ends. */
  readonly more: (kind: Kind, n: number) => string | Buffer
}

const chunk = (delta: object) => ({ id: "c", model: "m", choices: [{ index: 0, delta, finish_reason: null }] })
const opened = (index: number, id = `c${index}`) =>
  chunk({ tool_calls: [{ index, id, type: "function", function: { name: "write", arguments: "" } }] })
const block = (index: number, content_block: object) => ({ type: "content_block_start", index, content_block })
const delta = (index: number, delta: object) => ({ type: "content_block_delta", index, delta })
const toolUse = (index: number) => block(index, { type: "tool_use", id: `c${index}`, name: "write", input: {} })
const item = (index: number) => ({
  type: "response.output_item.added",
  output_index: index,
  item: { type: "function_call", id: `fc_${index}`, call_id: `c${index}`, name: "write", arguments: "" }
})
const use = (contentBlockIndex: number) =>
  [
    "contentBlockStart",
    { contentBlockIndex, start: { toolUse: { toolUseId: `c${contentBlockIndex}`, name: "write" } } }
  ] as const

const endless: Readonly<Record<Configurable, Endless>> = {
  chat_completions: {
    type: "text/event-stream",
    start: (kind) => sse(chunk({ role: "assistant" }), ...(kind === "arguments" ? [opened(0)] : [])),
    more: (kind, n) =>
      sse(
        kind === "text"
          ? chunk({ content: piece })
          : kind === "reasoning"
            ? chunk({ reasoning_content: piece })
            : kind === "calls"
              ? opened(n)
              : chunk({ tool_calls: [{ index: 0, function: { arguments: n === 0 ? '{"text":"' : piece } }] })
      )
  },
  anthropic_messages: {
    type: "text/event-stream",
    start: (kind) =>
      sse(
        { type: "message_start", message: { id: "m", model: "m", usage: { input_tokens: 1, output_tokens: 1 } } },
        ...(kind === "text"
          ? [block(0, { type: "text", text: "" })]
          : kind === "reasoning"
            ? [block(0, { type: "thinking", thinking: "" })]
            : kind === "arguments"
              ? [toolUse(0)]
              : [])
      ),
    more: (kind, n) =>
      sse(
        kind === "text"
          ? delta(0, { type: "text_delta", text: piece })
          : kind === "reasoning"
            ? delta(0, { type: "thinking_delta", thinking: piece })
            : kind === "calls"
              ? toolUse(n)
              : delta(0, { type: "input_json_delta", partial_json: n === 0 ? '{"text":"' : piece })
      )
  },
  codex_responses: {
    type: "text/event-stream",
    start: (kind) =>
      sse(
        { type: "response.created", response: { id: "r", model: "m", status: "in_progress", output: [] } },
        ...(kind === "arguments" ? [item(0)] : [])
      ),
    more: (kind, n) =>
      sse(
        kind === "text"
          ? { type: "response.output_text.delta", output_index: 0, content_index: 0, delta: piece }
          : kind === "reasoning"
            ? { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: piece }
            : kind === "calls"
              ? item(n)
              : {
                  type: "response.function_call_arguments.delta",
                  output_index: 0,
                  delta: n === 0 ? '{"text":"' : piece
                }
      )
  },
  bedrock_converse: {
    type: "application/vnd.amazon.eventstream",
    start: (kind) => frames(["messageStart", { role: "assistant" }], ...(kind === "arguments" ? [use(0)] : [])),
    more: (kind, n) =>
      frames(
        kind === "calls"
          ? use(n)
          : [
              "contentBlockDelta",
              {
                contentBlockIndex: 0,
                delta:
                  kind === "text"
                    ? { text: piece }
                    : kind === "reasoning"
                      ? { reasoningContent: { text: piece } }
                      : { toolUse: { input: n === 0 ? '{"text":"' : piece } }
              }
            ]
      )
  }
}

/** Writes until the client leaves; gives the number of bytes that the socket took. */
const pour = (response: ServerResponse, more: (n: number) => string | Buffer, wrote: (bytes: number) => void): void => {
  let n = 0
  const write = (): void => {
    while (!response.destroyed && response.socket?.destroyed === false) {
      const data = more(n++)
      wrote(data.length)
      if (!response.write(data)) return void response.once("drain", write)
    }
  }
  write()
}

const Write = Tool.make("write", {
  description: "Writes",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
})
const toolkit = Toolkit.make(Write)

/** Results of the calls that are kept of an answer beyond a bound: the first eight, or the only one. */
const told = (kind: "arguments" | "calls"): ReadonlyArray<string> =>
  Array.from(
    { length: kind === "calls" ? 8 : 1 },
    () =>
      `Not executed: the answer went beyond ${AnswerText.describeBound(kind)}. Use fewer calls with less content each, for instance by ` +
      "writing a large file in several parts."
  )

/** No endless answer makes the client read more than this. */
const mostRead = 24 * 1024 * 1024

for (const [mode, protocol] of Object.entries(protocols) as ReadonlyArray<
  [Configurable, (typeof protocols)[Configurable]]
>) {
  /** The first answers have no end, the ones after them are `done`. */
  const play = Effect.fnUntraced(function* (
    endlessAnswers: number,
    answer: (response: ServerResponse, wrote: (bytes: number) => void) => void,
    streaming = true
  ) {
    let served = 0
    let bytes = 0
    const done = { text: "done" }
    const server = yield* HttpServer.make((_, response) => {
      if (served++ >= endlessAnswers)
        return streaming ? protocol.stream(done, response) : HttpServer.json(response, 200, protocol.whole(done))
      answer(response, (more) => {
        bytes += more
      })
    })
    const ran: Array<unknown> = []
    const outputs: Array<string> = []
    const handlers = toolkit.toLayer({ write: (given) => Effect.sync(() => (ran.push(given), "ok")) })
    const onEvent = (events: ReadonlyArray<RunEvent>) =>
      Effect.sync(() => {
        for (const event of events) if (event._tag === "ToolFinished") outputs.push(event.output)
      })
    const outcome = yield* Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", streaming, onEvent })
      const messages = yield* Effect.flatMap(SessionStore, (store) => store.messages(result.sessionId))
      return { result, stored: JSON.stringify(messages).length }
    }).pipe(
      Effect.provide(
        Runtime.layer({ provider: protocol.layer(server.url), tools: [Toolset.make("test", toolkit, handlers)] })
      )
    )
    assert.isBelow(bytes, mostRead)
    assert.deepStrictEqual(ran, [])
    return { ...outcome, outputs, sent: server.requests.map(({ body }) => body.length) }
  })

  const pouring =
    (kind: Kind) =>
    (response: ServerResponse, wrote: (bytes: number) => void): void => {
      const { more, start, type } = endless[mode]
      response.writeHead(200, { "content-type": type }).write(start(kind))
      pour(response, (n) => more(kind, n), wrote)
    }

  describe(`an answer without an end: ${mode}`, () => {
    it.live("of text ends the run as output_truncated with the text up to the bound", () =>
      Effect.gen(function* () {
        const { result, sent, stored } = yield* play(Infinity, pouring("text"))
        assert.strictEqual(result.exit, "output_truncated")
        assert.strictEqual(result.text.length, AnswerText.limits.text)
        assert.isBelow(stored, AnswerText.limits.text + 10_000)
        assert.lengthOf(sent, 1)
      })
    )

    it.live("of reasoning ends the run as output_truncated, and none of it is kept", () =>
      Effect.gen(function* () {
        const { result, stored } = yield* play(Infinity, pouring("reasoning"))
        assert.strictEqual(result.exit, "output_truncated")
        assert.include(result.text, "2,000,000 characters of reasoning")
        assert.isBelow(stored, 10_000)
      })
    )

    for (const kind of ["arguments", "calls"] as const) {
      it.live(`of ${kind} is told to the model, nothing is executed, and none of it is sent again`, () =>
        Effect.gen(function* () {
          const { outputs, result, sent, stored } = yield* play(1, pouring(kind))
          assert.deepInclude(result, { exit: "text_response", text: "done" })
          assert.deepStrictEqual(outputs, told(kind))
          assert.isBelow(sent[1] ?? Infinity, (sent[0] ?? 0) + 20_000)
          assert.isBelow(stored, 20_000)
        })
      )
    }

    const whole =
      (turn: WireTurn) =>
      (response: ServerResponse): void =>
        void HttpServer.json(response, 200, protocol.whole(turn))
    const call = (index: number, text = "") => ({ id: `c${index}`, name: "write", args: JSON.stringify({ text }) })

    it.live("of text that came in one piece ends the run as output_truncated with the text up to the bound", () =>
      Effect.gen(function* () {
        const { result, sent, stored } = yield* play(
          Infinity,
          whole({ text: "x".repeat(AnswerText.limits.text + 1) }),
          false
        )
        assert.strictEqual(result.exit, "output_truncated")
        assert.strictEqual(result.text.length, AnswerText.limits.text)
        assert.isBelow(stored, AnswerText.limits.text + 10_000)
        assert.lengthOf(sent, 1)
      })
    )

    const large: Readonly<Record<"arguments" | "calls", WireTurn>> = {
      arguments: { calls: [call(0, "x".repeat(AnswerText.limits.arguments))] },
      calls: { calls: Array.from({ length: AnswerText.limits.calls + 1 }, (_, index) => call(index)) }
    }
    for (const kind of ["arguments", "calls"] as const) {
      it.live(
        `of ${kind} that came in one piece is told to the model, nothing is executed, and none of it is sent again`,
        () =>
          Effect.gen(function* () {
            const { outputs, result, sent, stored } = yield* play(1, whole(large[kind]), false)
            assert.deepInclude(result, { exit: "text_response", text: "done" })
            assert.deepStrictEqual(outputs, told(kind))
            assert.isBelow(sent[1] ?? Infinity, (sent[0] ?? 0) + 20_000)
            assert.isBelow(stored, 20_000)
          })
      )
    }

    it.live("of arguments, again and again, ends the run as invalid_tool_calls", () =>
      Effect.gen(function* () {
        const { result, sent } = yield* play(Infinity, pouring("arguments"))
        assert.strictEqual(result.exit, "invalid_tool_calls")
        assert.lengthOf(sent, 3)
      })
    )
  })
}

/** One call that no agent makes, and that nobody watches. */
const asking = Effect.fnUntraced(function* (mode: Configurable, url: string, stream: boolean) {
  const provider = yield* Effect.map(Effect.orDie(Layer.build(protocols[mode].layer(url))), Context.get(Provider))
  const request = yield* provider.prepare({
    messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "hi" })] })],
    tools: [],
    toolChoice: "auto",
    responseFormat: { type: "text" },
    stream
  })
  return yield* provider.execute(request)
})

describe("a body without an end", () => {
  for (const mode of Configurable.literals) {
    it.live(`that nobody watches is read up to the bound of a text: ${mode}`, () =>
      Effect.gen(function* () {
        const { more, start, type } = endless[mode]
        let bytes = 0
        const server = yield* HttpServer.make((_, response) => {
          response.writeHead(200, { "content-type": type }).write(start("text"))
          pour(
            response,
            (n) => more("text", n),
            (wrote) => {
              bytes += wrote
            }
          )
        })
        const { parts } = yield* asking(mode, server.url, true)
        const said = parts.reduce((length, part) => length + (part.type === "text" ? part.text.length : 0), 0)
        assert.isAbove(said, AnswerText.limits.text)
        assert.isBelow(bytes, mostRead)
      })
    )
  }

  it.live("that was not asked to stream is given up after a bounded number of bytes", () =>
    Effect.gen(function* () {
      const piece = `"${"x".repeat(64 * 1024)}",`
      let bytes = 0
      let asked = 0
      const server = yield* HttpServer.make((_, response) => {
        asked++
        response.writeHead(200, { "content-type": "application/json" }).write("[")
        pour(
          response,
          () => piece,
          (more) => {
            bytes += more
          }
        )
      })
      const error = yield* Effect.flip(asking("chat_completions", server.url, false))
      assert.include(error.reason.message, "larger than 64 MiB")
      assert.strictEqual(asked, 1)
      assert.isBelow(bytes, 80 * 1024 * 1024)
    })
  )

  it.live("a prompt that no model holds is refused before anything is stored or sent", () =>
    Effect.gen(function* () {
      const { server, provider } = yield* serve(protocols.chat_completions, false, [{ text: "done" }])
      const error = yield* Effect.flip(
        Effect.provide(Agent.run({ prompt: "x".repeat(40_000_001) }), Runtime.layer({ provider }))
      )
      assert.strictEqual(
        error instanceof Error && error.message,
        "the prompt is longer than 40,000,000 characters: put it into a file and name the file"
      )
      assert.lengthOf(server.requests, 0)
    })
  )
})

describe("the bounds of an answer", () => {
  it("are those that the words name", () => {
    assert.deepStrictEqual(kinds.map(AnswerText.describeBound), [
      "2,000,000 characters of text",
      "2,000,000 characters of reasoning",
      "1,000,000 characters of arguments",
      "128 tool calls"
    ])
  })
})
