// Tool calls in the texts of models, in the forms that their documentation and the parsers of vLLM and SGLang describe.
import { assert, describe, it } from "@effect/vitest"
import * as ToolCallParser from "../../../src/research/rollout/ToolCallParser.ts"

interface Case {
  readonly parser: keyof typeof ToolCallParser.parsers
  readonly what: string
  readonly text: string
  readonly content: string
  readonly calls: ReadonlyArray<readonly [name: string, args: unknown, id?: string]>
}

const weather = {
  type: "function",
  function: {
    name: "get_weather",
    parameters: {
      type: "object",
      properties: {
        city: { type: "string" },
        days: { type: "integer" },
        zip: { type: "string" },
        detail: { type: "object" }
      }
    }
  }
}

const cases: ReadonlyArray<Case> = [
  {
    parser: "hermes",
    what: "two calls behind a text",
    text: 'Let me look.\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</tool_call>\n<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
    content: "Let me look.",
    calls: [
      ["get_weather", { city: "Paris" }],
      ["get_weather", { city: "Rome" }]
    ]
  },
  {
    parser: "hermes",
    what: "a last call that is whole and not closed",
    text: '<tool_call>{"name": "get_weather", "arguments": {"city": "</b>"}}',
    content: "",
    calls: [["get_weather", { city: "</b>" }]]
  },
  {
    parser: "hermes",
    what: "a call that was cut",
    text: '<tool_call>{"name": "get_weather", "arg',
    content: '<tool_call>{"name": "get_weather", "arg',
    calls: []
  },
  {
    parser: "hermes",
    what: "a text without a call",
    text: " Paris is sunny. ",
    content: " Paris is sunny. ",
    calls: []
  },
  {
    parser: "qwen",
    what: "arguments as text",
    text: '<tool_call>\n{"name": "get_weather", "arguments": "{\\"city\\": \\"Paris\\"}"}\n</tool_call>',
    content: "",
    calls: [["get_weather", { city: "Paris" }]]
  },
  {
    parser: "longcat",
    what: "JSON",
    text: '<longcat_tool_call>\n{"name": "get_weather", "arguments": {"city": "Paris"}}\n</longcat_tool_call>',
    content: "",
    calls: [["get_weather", { city: "Paris" }]]
  },
  {
    parser: "longcat",
    what: "keys and values",
    text: "Let me help.\n<longcat_tool_call>get_weather\n<longcat_arg_key>city</longcat_arg_key>\n<longcat_arg_value>Paris</longcat_arg_value>\n</longcat_tool_call>",
    content: "Let me help.",
    calls: [["get_weather", { city: "Paris" }]]
  },
  {
    parser: "mistral",
    what: "a list",
    text: '[TOOL_CALLS][{"name": "add", "arguments": {"a": 3.5, "b": 4}}, {"name": "get_weather", "arguments": {"city": "San [Jose]"}}]',
    content: "",
    calls: [
      ["add", { a: 3.5, b: 4 }],
      ["get_weather", { city: "San [Jose]" }]
    ]
  },
  {
    parser: "mistral",
    what: "a marker for each call, with and without [ARGS]",
    text: 'Hi.[TOOL_CALLS]add{"a": 3.5, "b": 4}[TOOL_CALLS]get_weather[ARGS]{"city": "Paris"}',
    content: "Hi.",
    calls: [
      ["add", { a: 3.5, b: 4 }],
      ["get_weather", { city: "Paris" }]
    ]
  },
  {
    parser: "llama3_json",
    what: "two calls with a separator",
    text: '<|python_tag|>{"name": "add", "parameters": {"a": 1}}; {"name": "add", "arguments": {"a": {"deep": "};"}}}',
    content: "",
    calls: [
      ["add", { a: 1 }],
      ["add", { a: { deep: "};" } }]
    ]
  },
  {
    parser: "llama3_json",
    what: "JSON that is no call",
    text: '{"city": "Paris"}',
    content: '{"city": "Paris"}',
    calls: []
  },
  {
    parser: "qwen3_coder",
    what: "values in the types of the schema",
    text: 'Sure.\n<tool_call>\n<function=get_weather>\n<parameter=city>\nDallas\nTX\n</parameter>\n<parameter=days>\n3\n</parameter>\n<parameter=zip>\n01234\n</parameter>\n<parameter=detail>\n{"rain": true}\n</parameter>\n</function>\n</tool_call>',
    content: "Sure.",
    calls: [["get_weather", { city: "Dallas\nTX", days: 3, zip: "01234", detail: { rain: true } }]]
  },
  {
    parser: "deepseek",
    what: "V3: kind, name, fence",
    text: '<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"city": "Tokyo"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>',
    content: "",
    calls: [["get_weather", { city: "Tokyo" }]]
  },
  {
    parser: "deepseek",
    what: "V3.1: name and JSON, two calls",
    text: 'One moment.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "北京"}<｜tool▁call▁end｜><｜tool▁call▁begin｜>get_weather<｜tool▁sep｜>{"city": "杭州"}<｜tool▁call▁end｜><｜tool▁calls▁end｜><｜end▁of▁sentence｜>',
    content: "One moment.",
    calls: [
      ["get_weather", { city: "北京" }],
      ["get_weather", { city: "杭州" }]
    ]
  },
  {
    parser: "kimi",
    what: "ids of the model",
    text: '<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0<|tool_call_argument_begin|>{"city": "Tokyo"}<|tool_call_end|><|tool_call_begin|>functions.add:1<|tool_call_argument_begin|>{"a": 1}<|tool_call_end|><|tool_calls_section_end|>',
    content: "",
    calls: [
      ["get_weather", { city: "Tokyo" }, "functions.get_weather:0"],
      ["add", { a: 1 }, "functions.add:1"]
    ]
  },
  {
    parser: "glm",
    what: "a line for each key and value (4.5)",
    text: "Checking.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Paris</arg_value>\n<arg_key>days</arg_key>\n<arg_value>2</arg_value>\n</tool_call>",
    content: "Checking.",
    calls: [["get_weather", { city: "Paris", days: 2 }]]
  },
  {
    parser: "glm",
    what: "one line, no arguments (4.7)",
    text: "<tool_call>list_files</tool_call>",
    content: "",
    calls: [["list_files", {}]]
  }
]

describe("ToolCallParser", () => {
  for (const { calls, content, parser, text, what } of cases) {
    it(`${parser}: ${what}`, () => {
      const parsed = ToolCallParser.parsers[parser](text, [weather])
      assert.strictEqual(parsed.content, content)
      assert.deepStrictEqual(
        parsed.calls.map(({ arguments: args, id, name }) =>
          id === undefined ? [name, JSON.parse(args)] : [name, JSON.parse(args), id]
        ),
        calls.map((call) => Array.from(call))
      )
    })
  }

  it("the names of other servers' parsers are understood, and no name of Object", () => {
    assert.strictEqual(ToolCallParser.find("deepseek_v3_1"), ToolCallParser.parsers.deepseek)
    assert.strictEqual(ToolCallParser.find("glm47"), ToolCallParser.parsers.glm)
    assert.isUndefined(ToolCallParser.find("toString"))
  })

  it("thousands of marks that nothing closes are no call", () => {
    const open = '<tool_call><function=<parameter=a><｜tool▁call▁begin｜>[TOOL_CALLS]{"name":'.repeat(2_000)
    for (const parse of Object.values(ToolCallParser.parsers)) assert.strictEqual(parse(open, []).calls.length, 0)
  })
})
