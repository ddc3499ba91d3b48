// Tool calls that a model writes as the text of its answer: they are not executed, and not an answer.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { findLeakedCall } from "../../src/agent/LeakedCalls.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { machine } from "../support/hermesInProcess.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"

const tools = ["read_file", "terminal"]

describe("a call in the text", () => {
  const leaks: ReadonlyArray<string> = [
    '<tool_call>\n{"name": "read_file", "arguments": {"path": "a"}}\n</tool_call>',
    '<tool_call>{"name":"read_file","arguments":{}}</tool_call>\n<tool_call>{"name":"terminal","arguments":{}}</tool_call>',
    "<tool_call>\n<function=read_file>\n<parameter=path>\na\n</parameter>\n</function>\n</tool_call>",
    "<tool_call>read_file\n<arg_key>path</arg_key>\n<arg_value>a</arg_value>\n</tool_call>",
    '<function=read_file>{"path": "a"}</function>',
    '<function=read_file{"path":"a"}</function>',
    '<function_calls>\n<invoke name="read_file">\n<parameter name="path">a</parameter>\n</invoke>\n</function_calls>',
    '<|python_tag|>{"name": "read_file", "parameters": {"path": "a"}}',
    '[TOOL_CALLS] [{"name": "read_file", "arguments": {"path": "a"}}]',
    '[TOOL_CALLS]read_file{"path": "a"}',
    "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>read_file\n```json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
    "<|tool_calls_section_begin|><|tool_call_begin|>functions.read_file:0<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>"
  ]
  for (const text of leaks) {
    it(`is recognized: ${text.slice(0, 40).replaceAll("\n", " ")}`, () =>
      assert.strictEqual(findLeakedCall(`\n${text}\n`, tools), "read_file"))
  }

  it("has a name of a length that providers accept, so that a long text is read in one pass", () => {
    const long = "a".repeat(200)
    const text = `<|tool_calls_section_begin|>functions.${long}:0<|tool_calls_section_end|>`
    assert.isUndefined(findLeakedCall(text, [long]))
  })

  const answers: ReadonlyArray<string> = [
    "",
    "done",
    'Hermes models write <tool_call>{"name": "read_file"}</tool_call> as text.',
    '<tool_call>{"name": "read_file", "arguments": {}}</tool_call> is the notation of Hermes models.',
    '<tool_call>{"name": "frobnicate", "arguments": {}}</tool_call>',
    "<function=frobnicate>{}</function>",
    "<html><body>read_file</body></html>",
    '[{"name": "read_file"}]',
    "<tool_call></tool_call>"
  ]
  for (const text of answers) {
    it(`is not: ${text.slice(0, 60)}`, () => assert.isUndefined(findLeakedCall(text, tools)))
  }
})

const leak: WireTurn = { text: '<tool_call>\n{"name": "read_file", "arguments": {"path": "secret.txt"}}\n</tool_call>' }

const serve = (turns: ReadonlyArray<WireTurn>) =>
  Effect.gen(function* () {
    const bodies: Array<{ readonly messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }> }> = []
    const { url } = yield* HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions")) return void HttpServer.json(response, 404, {})
      const body = JSON.parse(request.body)
      const turn = turns[Math.min(bodies.push(body), turns.length) - 1] ?? {}
      if (body.stream === true) protocols.chat_completions.stream(turn, response)
      else HttpServer.json(response, 200, protocols.chat_completions.whole(turn))
    })
    return { bodies, url: `${url}/v1` }
  })

for (const streaming of [true, false]) {
  describe(`a run whose model writes a call as text, ${streaming ? "streamed" : "not streamed"}`, () => {
    const start = Effect.fnUntraced(function* (turns: ReadonlyArray<WireTurn>) {
      const { bodies, url } = yield* serve(turns)
      const { hermes, keep, put } = yield* machine
      keep("config.yaml", JSON.stringify({ model: { provider: "custom", default: "m", base_url: url, streaming } }))
      put("secret.txt", "the secret")
      return { bodies, ended: yield* hermes(["chat", "-Q", "-q", "what is in the file?"]) }
    })

    it.live("asks again, with a message that is not stored, and executes nothing", () =>
      Effect.gen(function* () {
        const call = { calls: [{ id: "c1", name: "read_file", args: '{"path":"secret.txt"}' }] }
        const { bodies, ended } = yield* start([leak, call, { text: "it is the secret" }])
        assert.deepStrictEqual([ended.code, ended.stdout], [0, "it is the secret\n"], ended.stderr)
        assert.include(JSON.stringify(bodies[1]?.messages.at(-1)), "as text, so it was not executed")
        assert.notInclude(JSON.stringify(bodies[1]), "the secret\\n")
        assert.notInclude(JSON.stringify(bodies[2]), "<tool_call>")
      })
    )

    it.live("ends after three such answers, without showing them as an answer", () =>
      Effect.gen(function* () {
        const { bodies, ended } = yield* start([leak])
        assert.strictEqual(bodies.length, 3)
        assert.notStrictEqual(ended.code, 0)
        assert.notInclude(ended.stdout, "tool_call")
      })
    )
  })
}
