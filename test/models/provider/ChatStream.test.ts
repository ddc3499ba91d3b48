// The state machine of streamed chat completions, without a network.
import { assert, describe, it } from "@effect/vitest"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as Assembler from "../../../src/base/domain/Assembler.ts"
import type { ContentPart, ModelResponse, StreamPart } from "../../../src/base/domain/ModelCall.ts"
import * as Decode from "../../../src/models/provider/chat/Decode.ts"
import * as Stream from "../../../src/models/provider/chat/Stream.ts"
import { prop } from "../../support/property.ts"

const context = { module: "Test", method: "test", url: "http://127.0.0.1:1/v1", model: "m" }

type Delta = Record<string, unknown>

const event = (value: unknown) => ({ event: undefined, data: JSON.stringify(value) })

const chunkOf = (delta: Delta, finish: string | null = null) => ({
  id: "c1",
  model: "m1",
  choices: [{ index: 0, delta, finish_reason: finish }]
})

const run = (chunks: ReadonlyArray<unknown>) => {
  const machine = Stream.make(context)
  const assembler = Assembler.make()
  const seen: Array<StreamPart> = []
  for (const chunk of chunks) seen.push(...machine.step([event(chunk)]))
  seen.push(...machine.end(true))
  assembler.add(seen)
  return { seen, machine, failure: machine.failure(), ...assembler.result() }
}

const deltas = (...list: ReadonlyArray<Delta>) => run([...list.map((delta) => chunkOf(delta)), chunkOf({}, "stop")])

const plain = (parts: ReadonlyArray<ContentPart>) =>
  parts.map((part) =>
    part.type === "tool-call"
      ? [part.id, part.name, part.params, part.metadata]
      : part.type === "file"
        ? [part.type]
        : [part.type, part.text, part.metadata]
  )

const decoded = (raw: unknown): ModelResponse => {
  const result = Decode.decode(raw, context)
  assert(Result.isSuccess(result))
  return result.success
}

describe("what may be the beginning of a tag", () => {
  const call = { tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: "{}" } }] }
  const kinds = (...list: ReadonlyArray<Delta>) =>
    deltas(...list).parts.map((part) => (part.type === "text" ? part.text : part.type))

  it("is text, in its place, when a tool call or a refusal follows", () => {
    assert.deepStrictEqual(kinds({ content: "<" }, call), ["<", "tool-call"])
    assert.deepStrictEqual(kinds({ content: "so <\n<thi" }, call), ["so <\n<thi", "tool-call"])
    assert.deepStrictEqual(kinds({ content: "<th" }, { refusal: "No." }), ["<thNo."])
  })
})

describe("text and reasoning", () => {
  it("each begins and ends once, and reasoning ends where text begins", () => {
    const { seen } = deltas(
      { role: "assistant", content: "" },
      { reasoning_content: "h" },
      { reasoning_content: "m" },
      { content: "a" },
      { content: "b" }
    )
    assert.deepStrictEqual(
      seen.map((part) => ("delta" in part ? `${part.type} ${part.delta}` : part.type)),
      [
        "response-metadata",
        "reasoning-start",
        "reasoning-delta h",
        "reasoning-delta m",
        "reasoning-end",
        "text-start",
        "text-delta a",
        "text-delta b",
        "text-end",
        "finish"
      ]
    )
  })

  it("reasoning under two names is read once, under different names together", () => {
    assert.deepStrictEqual(plain(deltas({ reasoning: "a", reasoning_content: "a" }).parts), [
      ["reasoning", "a", { chat_completions: { reasoning_content: true } }]
    ])
    assert.deepStrictEqual(plain(deltas({ reasoning: "a" }, { content: "x" }).parts), [
      ["reasoning", "a", {}],
      ["text", "x", {}]
    ])
  })

  it("details are put together by index, with the signature that comes last", () => {
    const { parts } = deltas(
      { reasoning: "a", reasoning_details: [{ type: "reasoning.text", index: 0, text: "a" }] },
      { reasoning: "b", reasoning_details: [{ type: "reasoning.text", index: 0, text: "b" }] },
      { reasoning_details: [{ type: "reasoning.text", index: 0, signature: "s" }] },
      { content: "x" },
      { reasoning_details: [{ type: "reasoning.encrypted", index: 1, data: "d" }] }
    )
    assert.deepStrictEqual(plain(parts), [
      [
        "reasoning",
        "ab",
        { chat_completions: { reasoning_details: [{ type: "reasoning.text", index: 0, text: "ab", signature: "s" }] } }
      ],
      ["text", "x", {}],
      [
        "reasoning",
        "",
        { chat_completions: { reasoning_details: [{ type: "reasoning.encrypted", index: 1, data: "d" }] } }
      ]
    ])
  })

  it("details alone are text to read", () => {
    assert.deepStrictEqual(
      deltas({ reasoning_details: [{ type: "reasoning.summary", summary: "sum" }] }).parts[0]?.type,
      "reasoning"
    )
  })

  it("reasoning in tags is reasoning, unless the endpoint separates it itself", () => {
    assert.deepStrictEqual(plain(deltas({ content: "<thi" }, { content: "nk>x</th" }, { content: "ink>hi" }).parts), [
      ["reasoning", "x", {}],
      ["text", "hi", {}]
    ])
    assert.deepStrictEqual(plain(deltas({ reasoning: "own" }, { content: "<think>copy</think>hi" }).parts), [
      ["reasoning", "own", {}],
      ["text", "hi", {}]
    ])
  })

  it("content in parts, as Mistral sends it", () => {
    assert.deepStrictEqual(
      plain(
        deltas(
          { content: [{ type: "thinking", thinking: [{ type: "text", text: "hm" }] }] },
          { content: [{ type: "text", text: "a" }] }
        ).parts
      ),
      [
        ["reasoning", "hm", {}],
        ["text", "a", {}]
      ]
    )
  })

  it("a refusal is text that the filter ended", () => {
    const { finishReason, parts } = deltas({ refusal: "I can " }, { refusal: "not." })
    assert.deepStrictEqual([finishReason, plain(parts)], ["content-filter", [["text", "I can not.", {}]]])
  })
})

describe("tool calls", () => {
  const fragment = (index: number | undefined, more: Delta, args?: unknown) => ({
    ...(index === undefined ? {} : { index }),
    ...more,
    ...(args === undefined
      ? {}
      : { function: { ...(more["name"] === undefined ? {} : { name: more["name"] }), arguments: args } })
  })
  const calls = (...fragments: ReadonlyArray<unknown>) =>
    plain(deltas(...fragments.map((one) => ({ tool_calls: [one] }))).parts)

  it("arguments of parallel calls may come mixed", () => {
    assert.deepStrictEqual(
      calls(
        fragment(0, { id: "a", name: "one" }, '{"x"'),
        fragment(1, { id: "b", name: "two" }, ""),
        fragment(0, {}, ":1}"),
        fragment(1, {}, '{"y":2}')
      ),
      [
        ["a", "one", { x: 1 }, {}],
        ["b", "two", { y: 2 }, {}]
      ]
    )
  })

  it("a new id on a used index is another call, an id that repeats is the same", () => {
    assert.deepStrictEqual(
      calls(
        fragment(0, { id: "a", name: "one" }, '{"x":'),
        fragment(0, { id: "a", name: "one" }, "1}"),
        fragment(0, { id: "b", name: "two" }, "{}")
      ),
      [
        ["a", "one", { x: 1 }, {}],
        ["b", "two", {}, {}]
      ]
    )
  })

  it("fragments without an index belong to their id, or to the last call", () => {
    assert.deepStrictEqual(
      calls(
        fragment(undefined, { id: "a", name: "one" }, "{"),
        fragment(undefined, { id: "b", name: "two" }, '{"y":'),
        fragment(undefined, {}, "2}"),
        fragment(undefined, { id: "a" }, "}")
      ),
      [
        ["a", "one", {}, {}],
        ["b", "two", { y: 2 }, {}]
      ]
    )
  })

  it("ids that are missing are derived, the same each time; ids given twice are told apart", () => {
    const missing = () => calls(fragment(0, { name: "one" }, "{}"), fragment(1, { name: "one" }, "{}"))
    const [first, second] = missing()
    assert.match(String(first?.[0]), /^call_[0-9a-f]{24}$/)
    assert.notStrictEqual(first?.[0], second?.[0])
    assert.deepStrictEqual(missing(), missing())
    assert.deepStrictEqual(
      calls(fragment(0, { id: "x", name: "one" }, "{}"), fragment(1, { id: "x", name: "two" }, "{}")).map(([id]) => id),
      ["x", "x_1"]
    )
  })

  it("arguments that are an object are taken, malformed ones kept as text, none are empty", () => {
    assert.deepStrictEqual(
      calls(
        fragment(0, { id: "a", name: "one" }, { x: 1 }),
        fragment(1, { id: "b", name: "two" }, '{"y": oops'),
        fragment(2, { id: "c", name: "three" }, " ")
      ),
      [
        ["a", "one", { x: 1 }, {}],
        ["b", "two", '{"y": oops', {}],
        ["c", "three", {}, {}]
      ]
    )
  })

  it("thought signatures stay with their call, and with the route of a model that is not called Gemini", () => {
    const extra_content = { google: { thought_signature: "s" } }
    assert.deepStrictEqual(calls(fragment(0, { id: "a", name: "one", extra_content }, "{}")), [
      ["a", "one", {}, { chat_completions: { extra_content, origin: "m@http://127.0.0.1:1/v1" } }]
    ])
  })

  it("arguments under another index belong to the call that has none yet", () => {
    const both = [
      ["a", "one", { x: 1 }, {}],
      ["b", "two", { y: 2 }, {}]
    ]
    const first = fragment(0, { id: "a", name: "one" }, '{"x":1}')
    const second = fragment(1, { id: "b", name: "two" }, "")
    assert.deepStrictEqual(calls(first, second, fragment(0, {}, '{"y":'), fragment(0, {}, "2}")), both)
    assert.deepStrictEqual(calls(first, second, fragment(2, {}, '{"y":'), fragment(2, {}, "2}")), both)
    const half = fragment(0, { id: "a", name: "one" }, '{"x":')
    assert.deepStrictEqual(calls(half, second, fragment(0, {}, "1}"), fragment(1, {}, '{"y":2}')), both)
  })

  it("the old form of a single call", () => {
    const [call] = plain(
      deltas({ function_call: { name: "one", arguments: '{"a"' } }, { function_call: { arguments: ":1}" } }).parts
    )
    assert.deepStrictEqual(call?.slice(1), ["one", { a: 1 }, {}])
  })
})

describe("the end", () => {
  it("finish reasons, with the quirk of calls that stop", () => {
    const reason = (word: string, delta: Delta = { content: "x" }) =>
      run([chunkOf(delta), chunkOf({}, word)]).finishReason
    assert.deepStrictEqual(
      ["stop", "length", "tool_calls", "content_filter", "eos", "max_tokens"].map((word) => reason(word)),
      ["stop", "length", "tool-calls", "content-filter", "stop", "length"]
    )
    assert.strictEqual(
      reason("stop", { tool_calls: [{ index: 0, id: "a", function: { name: "b", arguments: "" } }] }),
      "tool-calls"
    )
  })

  it("usage comes with the last chunk that has any", () => {
    const { usage } = run([
      chunkOf({ content: "a" }, "stop"),
      { choices: [], usage: { prompt_tokens: 5, completion_tokens: 2 } },
      { choices: [], usage: null }
    ])
    assert.deepInclude(usage.inputTokens, { total: 5 })
    assert.deepInclude(usage.outputTokens, { total: 2 })
  })

  it("the body of a streamed answer reads back to the same answer", () => {
    const streamed = run([
      chunkOf({ reasoning_content: "hm", reasoning_details: [{ type: "reasoning.text", text: "hm", signature: "s" }] }),
      chunkOf({ content: "Hello" }),
      chunkOf({
        tool_calls: [{ index: 0, id: "a", function: { name: "one", arguments: '{"x":1}' }, extra_content: { k: 1 } }]
      }),
      chunkOf({ tool_calls: [{ index: 1, id: "b", function: { name: "two", arguments: "{oops" } }] }),
      chunkOf({}, "tool_calls"),
      { choices: [], usage: { prompt_tokens: 5, completion_tokens: 2 } }
    ])
    const body = decoded(JSON.parse(JSON.stringify(streamed.machine.body(streamed.parts))))
    assert.deepStrictEqual(plain(body.parts), plain(streamed.parts))
    assert.deepStrictEqual(
      [body.finishReason, body.id, body.model, body.usage],
      [streamed.finishReason, "c1", "m1", streamed.usage]
    )
  })
})

const Text = Schema.String
const Answer = Schema.Struct({
  reasoning: Text,
  content: Text,
  calls: Schema.Array(
    Schema.Record(Schema.String, Schema.Union([Schema.String, Schema.Int, Schema.Boolean, Schema.Null]))
  ),
  size: Schema.Literals([1, 2, 3, 7, 100])
})

const cut = (text: string, size: number) =>
  // By characters, as models do.
  Array.from({ length: Math.ceil([...text].length / size) }, (_, i) =>
    [...text].slice(i * size, (i + 1) * size).join("")
  )

describe("any answer", () => {
  prop("is the same streamed and in one piece", [Answer], ([{ reasoning, content, calls, size }]) => {
    const tool_calls = calls.map((args, index) => ({
      index,
      id: `call_${index}`,
      type: "function",
      function: { name: `tool_${index}`, arguments: JSON.stringify(args) }
    }))
    const body = {
      id: "c1",
      model: "m1",
      choices: [
        {
          message: {
            role: "assistant",
            content,
            reasoning_content: reasoning === "" ? undefined : reasoning,
            tool_calls
          },
          finish_reason: "stop"
        }
      ]
    }
    const chunks = [
      ...cut(reasoning, size).map((reasoning_content) => chunkOf({ reasoning_content })),
      ...cut(content, size).map((content) => chunkOf({ content })),
      ...tool_calls.flatMap(({ function: { name, arguments: text }, id, index }) => [
        chunkOf({ tool_calls: [{ index, id, function: { name, arguments: "" } }] }),
        ...cut(text, size).map((piece) => chunkOf({ tool_calls: [{ index, function: { arguments: piece } }] }))
      ]),
      chunkOf({}, "stop")
    ]
    const streamed = run(chunks)
    assert.isUndefined(streamed.failure)
    const whole = decoded(JSON.parse(JSON.stringify(body)))
    assert.deepStrictEqual(plain(streamed.parts), plain(whole.parts))
    assert.strictEqual(streamed.finishReason, whole.finishReason)
  })
})
