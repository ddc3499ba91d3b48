// Bodies and streams of the Responses API, without a network.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Assembler from "../../../src/base/domain/Assembler.ts"
import type { ContentPart, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as Decode from "../../../src/models/provider/responses/Decode.ts"
import * as Stream from "../../../src/models/provider/responses/Stream.ts"

const context = { module: "Test", method: "test", url: "http://127.0.0.1:1/v1", model: "m" }

type Fields = Record<string, unknown>

const run = (events: ReadonlyArray<Fields>) => {
  const machine = Stream.make(context)
  const assembler = Assembler.make()
  const seen: Array<StreamPart> = []
  for (const event of events) {
    if (machine.over?.() === true) break
    seen.push(...machine.step([{ event: undefined, data: JSON.stringify(event) }]))
  }
  seen.push(...machine.end(false))
  assembler.add(seen)
  return { seen, machine, failure: machine.failure(), ...assembler.result() }
}

const plain = (parts: ReadonlyArray<ContentPart>) =>
  parts.map((part) =>
    part.type === "tool-call"
      ? [part.id, part.name, part.params, part.metadata]
      : part.type === "file"
        ? [part.type]
        : [part.type, part.text, part.metadata]
  )

const decode = (raw: unknown) => {
  const result = Decode.decode(raw, context)
  assert(Result.isSuccess(result), JSON.stringify(result))
  return result.success
}

const reasoning = {
  type: "reasoning",
  id: "rs_1",
  summary: [
    { type: "summary_text", text: "First." },
    { type: "summary_text", text: "Second." }
  ],
  encrypted_content: "enc"
}
const message = {
  type: "message",
  id: "msg_1",
  role: "assistant",
  status: "completed",
  phase: "commentary",
  content: [{ type: "output_text", text: "Hello there", annotations: [] }]
}
const callItem = {
  type: "function_call",
  id: "fc_1",
  call_id: "call_1",
  name: "terminal",
  arguments: '{"command":"ls"}',
  status: "completed"
}
const usage = {
  input_tokens: 100,
  input_tokens_details: { cached_tokens: 60 },
  output_tokens: 20,
  output_tokens_details: { reasoning_tokens: 5 }
}
const response = (more: Fields = {}) => ({
  id: "resp_1",
  model: "gpt-5",
  status: "completed",
  output: [reasoning, message, callItem],
  usage,
  ...more
})

const expected = [
  [
    "reasoning",
    "First.\n\nSecond.",
    { codex_responses: { id: "rs_1", encrypted_content: "enc", summary: ["First.", "Second."] } }
  ],
  ["text", "Hello there", { codex_responses: { id: "msg_1", status: "completed", phase: "commentary" } }],
  ["call_1", "terminal", { command: "ls" }, { codex_responses: { id: "fc_1" } }]
]

const events = (last: Fields): ReadonlyArray<Fields> => [
  { type: "response.created", response: { id: "resp_1", model: "gpt-5", output: [] } },
  { type: "response.output_item.added", output_index: 0, item: { type: "reasoning", id: "rs_1" } },
  { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: "Fir" },
  { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: "st." },
  { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 1, delta: "Second." },
  { type: "response.output_item.done", output_index: 0, item: reasoning },
  { type: "response.output_item.added", output_index: 1, item: { type: "message", id: "msg_1" } },
  { type: "response.output_text.delta", output_index: 1, content_index: 0, delta: "Hello " },
  { type: "response.output_text.delta", output_index: 1, content_index: 0, delta: "there" },
  { type: "response.output_item.done", output_index: 1, item: message },
  { type: "response.output_item.added", output_index: 2, item: { ...callItem, arguments: "" } },
  { type: "response.function_call_arguments.delta", output_index: 2, delta: '{"command":' },
  { type: "response.function_call_arguments.delta", output_index: 2, delta: '"ls"}' },
  { type: "response.output_item.done", output_index: 2, item: callItem },
  { type: "response.completed", response: last }
]

describe("a body", () => {
  it("gives parts with what is needed to send them back", () => {
    const answer = decode(response())
    assert.deepStrictEqual(plain(answer.parts), expected)
    assert.deepStrictEqual([answer.finishReason, answer.id, answer.model], ["tool-calls", "resp_1", "gpt-5"])
    assert.deepInclude(answer.usage.inputTokens, { uncached: 40, cacheRead: 60, total: 100 })
    assert.deepInclude(answer.usage.outputTokens, { total: 20, reasoning: 5 })
  })

  it("finish reasons", () => {
    const reason = (more: Fields) => decode(response(more)).finishReason
    assert.strictEqual(reason({ output: [message] }), "stop")
    assert.strictEqual(reason({ output: [reasoning] }), "pause")
    assert.strictEqual(reason({ output: [message], status: "incomplete" }), "pause")
    assert.strictEqual(reason({ output: [{ ...message, status: "in_progress" }] }), "pause")
    assert.strictEqual(reason({ status: "incomplete", incomplete_details: { reason: "max_output_tokens" } }), "length")
    assert.strictEqual(
      reason({ output: [message], incomplete_details: { reason: "content_filter" } }),
      "content-filter"
    )
    assert.strictEqual(
      reason({ output: [{ type: "message", content: [{ type: "refusal", refusal: "No." }] }] }),
      "content-filter"
    )
  })

  it("output_text stands in for an empty output", () => {
    assert.deepStrictEqual(plain(decode({ output: [], output_text: "hi" }).parts), [["text", "hi", {}]])
  })

  it("what is no response is a typed failure", () => {
    const tag = (raw: unknown) => {
      const result = Decode.decode(raw, context)
      return Result.isFailure(result) ? result.failure.reason._tag : "none"
    }
    assert.deepStrictEqual(
      [
        tag(response({ status: "failed", error: { code: "server_error", message: "boom" } })),
        tag(response({ status: "cancelled", output: [] })),
        tag(response({ output: [] })),
        tag(response({ output: "x" })),
        tag("<html></html>"),
        tag(undefined)
      ],
      [
        "InternalProviderError",
        "InternalProviderError",
        "InvalidResponseError",
        "InvalidResponseError",
        "InvalidResponseError",
        "InvalidResponseError"
      ]
    )
  })

  it("a call without an id gets one, the same each time", () => {
    const id = () =>
      decode(response({ output: [{ ...callItem, call_id: undefined }] })).parts.map((part) =>
        part.type === "tool-call" ? part.id : ""
      )
    assert.match(id()[0] ?? "", /^call_[0-9a-f]{24}$/)
    assert.deepStrictEqual(id(), id())
  })
})

describe("a stream", () => {
  it("gives the same answer as the body, with or without output in its last event", () => {
    for (const last of [response(), response({ output: [] }), response({ output: undefined })]) {
      const streamed = run(events(last))
      assert.deepStrictEqual(plain(streamed.parts), expected)
      assert.deepStrictEqual([streamed.finishReason, streamed.id, streamed.model], ["tool-calls", "resp_1", "gpt-5"])
      const again = decode(JSON.parse(JSON.stringify(streamed.machine.body(streamed.parts))))
      assert.deepStrictEqual(plain(again.parts), expected)
      assert.deepStrictEqual(again.usage, streamed.usage)
    }
  })

  it("pieces come as they are", () => {
    const { seen } = run(events(response()))
    assert.deepStrictEqual(
      seen.map((part) => ("delta" in part ? `${part.type} ${part.delta}` : part.type)),
      [
        "response-metadata",
        "reasoning-start",
        "reasoning-delta Fir",
        "reasoning-delta st.",
        "reasoning-delta \n\n",
        "reasoning-delta Second.",
        "reasoning-end",
        "text-start",
        "text-delta Hello ",
        "text-delta there",
        "text-end",
        "tool-params-start",
        'tool-params-delta {"command":',
        'tool-params-delta "ls"}',
        "tool-params-end",
        "tool-call",
        "finish"
      ]
    )
  })

  it("of which only the last event has anything is read from that", () => {
    const streamed = run([{ type: "response.completed", response: response() }])
    assert.deepStrictEqual(plain(streamed.parts), expected)
  })

  it("of deltas alone is put together from them", () => {
    const streamed = run([
      { type: "response.output_text.delta", output_index: 0, delta: "Hi" },
      { type: "response.completed", response: response({ output: [] }) }
    ])
    assert.deepStrictEqual(plain(streamed.parts), [["text", "Hi", {}]])
    assert.strictEqual(streamed.finishReason, "stop")
    assert.deepStrictEqual(
      plain(decode(streamed.machine.body(streamed.parts)).parts).map((part) => part[1]),
      ["Hi"]
    )
  })

  it("shows reasoning once where a server sends it twice", () => {
    const streamed = run([
      { type: "response.reasoning_text.delta", output_index: 0, content_index: 0, delta: "own" },
      { type: "response.reasoning_summary_text.delta", output_index: 0, summary_index: 0, delta: "summary" },
      { type: "response.output_item.done", output_index: 1, item: message },
      { type: "response.completed", response: response({ output: [] }) }
    ])
    assert.deepStrictEqual(
      streamed.parts.map((part) => ("text" in part ? part.text : "")),
      ["own", "Hello there"]
    )
  })

  it("that the limit cut has its call as far as it came", () => {
    const streamed = run([
      { type: "response.output_item.added", output_index: 0, item: { ...callItem, arguments: "" } },
      { type: "response.function_call_arguments.delta", output_index: 0, delta: '{"command":"l' },
      {
        type: "response.incomplete",
        response: response({ output: [], status: "incomplete", incomplete_details: { reason: "max_output_tokens" } })
      }
    ])
    assert.deepStrictEqual(plain(streamed.parts), [["call_1", "terminal", '{"command":"l', {}]])
    assert.strictEqual(streamed.finishReason, "length")
  })

  it("that fails, errs, stops or says nothing is a typed failure", () => {
    const tag = (...list: ReadonlyArray<Fields>) => run(list).failure?.reason._tag
    const [created] = events(response())
    assert(created !== undefined)
    assert.deepStrictEqual(
      [
        tag(created, {
          type: "response.failed",
          response: { status: "failed", error: { code: "rate_limit_exceeded", message: "x" } }
        }),
        tag(created, { type: "error", code: "context_length_exceeded", message: "x" }),
        tag({ error: { message: "bare" } }),
        tag(created),
        tag()
      ],
      ["RateLimitError", "InvalidRequestError", "InternalProviderError", "NetworkError", "InvalidResponseError"]
    )
  })
})
