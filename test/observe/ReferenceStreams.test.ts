// The six kinds of streams that the examples of NVIDIA's NeMo Agent Toolkit (packages/nvidia_nat_atif, Apache-2.0) show
// with the trajectory that its converter makes of each. The streams have their structure in other words; the expected
// trajectories are what that converter returns for them, without the facts that it alone adds (`extra`).
import { assert, describe, it } from "@effect/vitest"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"

type Fields = Readonly<Record<string, unknown>>

const schema = (name: string) => ({ data_schema: { name, version: "1" } })
const openai = schema("openai/chat-completions")
const anthropic = schema("anthropic/messages")
const gemini = schema("gemini/generate-content")

const scope =
  (scope_category: "start" | "end") =>
  (category: string, uuid: string, parent_uuid: string | null, data: unknown, more: Fields = {}): Fields => ({
    kind: "scope",
    scope_category,
    category,
    uuid,
    parent_uuid,
    name: uuid,
    attributes: [],
    category_profile: null,
    metadata: null,
    data,
    ...more
  })
const start = scope("start")
const end = scope("end")

const llm = (uuid: string, model: string, request: unknown, answer: unknown, more: Fields = {}) => {
  const fields = { name: model, category_profile: { model_name: model }, ...more }
  return [start("llm", uuid, "agent", request, fields), end("llm", uuid, "agent", answer, fields)]
}
const tool = (uuid: string, name: string, tool_call_id: string, args: unknown, result: unknown) => {
  const fields = { name, category_profile: { tool_call_id } }
  return [start("tool", uuid, "agent", args, fields), end("tool", uuid, "agent", result, fields)]
}
const agent = (...inner: ReadonlyArray<Fields>): ReadonlyArray<Fields> => [
  start("agent", "agent", null, { input: "words" }, { name: "helper" }),
  ...inner,
  end("agent", "agent", null, { response: "words" }, { name: "helper" })
]

const convert = (events: ReadonlyArray<Fields>): Atif.Trajectory => {
  const lines = events.map((event, index) =>
    JSON.stringify({ atof_version: "0.1", timestamp: `2026-01-01T00:00:0${index}Z`, ...event })
  )
  const read = Atof.parse(lines.join("\n"))
  const { faults, trajectories } = AtifConvert.convert(read.events)
  assert.deepStrictEqual([read.faults, faults], [[], []])
  const [trajectory] = trajectories
  assert.strictEqual(trajectories.length, 1)
  return trajectory ?? assert.fail("there is a trajectory")
}

/** The parts of a trajectory that the reference has too, with the seconds of its steps. */
const read = (events: ReadonlyArray<Fields>) => {
  const { agent: who, session_id, steps } = convert(events)
  return {
    agent: [who.name, who.version, who.model_name],
    session_id,
    steps: steps.map((step) => [
      Number(step.timestamp?.slice(17, 19)),
      step.source,
      step.message,
      ...(step.source === "agent" ? [[step.model_name, step.llm_call_count]] : []),
      ...(step.tool_calls ?? []).map((call) => [call.tool_call_id, call.function_name, call.arguments]),
      ...(step.observation?.results ?? []).map((result) => [result.source_call_id, result.content])
    ])
  }
}

describe("streams of the reference converter", () => {
  it("opaque scopes alone: the outermost one names agent and session, and is question and answer", () => {
    const inner = (uuid: string, said: string) => [
      start("unknown", uuid, "flow", { raw: "request" }),
      end("unknown", uuid, "flow", { raw: said })
    ]
    assert.deepStrictEqual(
      read([
        start("unknown", "flow", null, { query: "2 + 2?" }, { name: "some_flow" }),
        ...inner("a", "one"),
        ...inner("b", "two"),
        end("unknown", "flow", null, { result: "4" }, { name: "some_flow" })
      ]),
      {
        agent: ["some_flow", "1.0.0", undefined],
        session_id: "flow",
        steps: [
          [0, "user", "2 + 2?"],
          [2, "system", '{"raw":"one"}'],
          [4, "system", '{"raw":"two"}'],
          [5, "agent", "4", [undefined, undefined]]
        ]
      }
    )
  })

  it("flat answers of chat completions, and a result in a wrapper", () => {
    const asked = { messages: [{ role: "user", content: "2 + 2?" }] }
    const call = { content: "", tool_calls: [{ id: "call_1", name: "add", arguments: { a: 2, b: 2 } }] }
    assert.deepStrictEqual(
      read(
        agent(
          ...llm("l1", "model-a", asked, call, openai),
          ...tool("t1", "add", "call_1", { a: 2, b: 2 }, { result: 4 }),
          ...llm("l2", "model-a", asked, { content: "It is 4" }, openai)
        )
      ),
      {
        agent: ["helper", "1.0.0", "model-a"],
        session_id: "agent",
        steps: [
          [1, "user", "2 + 2?"],
          [2, "agent", "", ["model-a", 1], ["call_1", "add", { a: 2, b: 2 }], ["call_1", "4"]],
          [6, "agent", "It is 4", ["model-a", 1]]
        ]
      }
    )
  })

  it("a mark with data is a system step with that data", () => {
    const mark = {
      kind: "mark",
      uuid: "check",
      parent_uuid: "agent",
      name: "check",
      category: "guardrail",
      data: { passed: true, rules: ["a", "b"] }
    }
    const asked = { messages: [{ role: "user", content: "hello" }] }
    assert.deepStrictEqual(read(agent(mark, ...llm("l", "model-a", asked, { content: "hi" }))).steps, [
      [1, "system", '{"passed":true,"rules":["a","b"]}'],
      [2, "user", "hello"],
      [3, "agent", "hi", ["model-a", 1]]
    ])
  })

  it("Anthropic messages", () => {
    const use = { type: "tool_use", id: "toolu_1", name: "read", input: { path: "a" } }
    const asked = { role: "user", content: "read a" }
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: "words" }
    assert.deepStrictEqual(
      read(
        agent(
          ...llm(
            "l1",
            "model-b",
            { messages: [asked] },
            { role: "assistant", content: [{ type: "text", text: "Reading." }, use] },
            anthropic
          ),
          ...tool("t1", "read", "toolu_1", { path: "a" }, { result: "words" }),
          ...llm(
            "l2",
            "model-b",
            { messages: [asked, { role: "assistant", content: [use] }, { role: "user", content: [result] }] },
            { role: "assistant", content: [{ type: "text", text: "Words." }] },
            anthropic
          )
        )
      ).steps,
      [
        [1, "user", "read a"],
        [2, "agent", "Reading.", ["model-b", 1], ["toolu_1", "read", { path: "a" }], ["toolu_1", "words"]],
        [6, "agent", "Words.", ["model-b", 1]]
      ]
    )
  })

  it("Gemini: the id of a call is its name and the index of its part", () => {
    const asked = { role: "user", parts: [{ text: "time?" }] }
    const functionCall = { name: "clock", args: { zone: "UTC" } }
    assert.deepStrictEqual(
      read(
        agent(
          ...llm(
            "l1",
            "model-c",
            { contents: [asked] },
            { candidates: [{ content: { role: "model", parts: [{ text: "A look. " }, { functionCall }] } }] },
            gemini
          ),
          ...tool("t1", "clock", "clock__1", { zone: "UTC" }, { result: "noon" }),
          ...llm(
            "l2",
            "model-c",
            {
              contents: [
                asked,
                { role: "model", parts: [{ functionCall }] },
                { role: "user", parts: [{ functionResponse: { name: "clock", response: { result: "noon" } } }] }
              ]
            },
            { candidates: [{ content: { role: "model", parts: [{ text: "Noon." }] } }] },
            gemini
          )
        )
      ).steps,
      [
        [1, "user", "time?"],
        [2, "agent", "A look. ", ["model-c", 1], ["clock__1", "clock", { zone: "UTC" }], ["clock__1", "noon"]],
        [6, "agent", "Noon.", ["model-c", 1]]
      ]
    )
  })

  it("calls of one agent with conversations of their own keep their questions", () => {
    const routed = [
      { role: "system", content: "Decide." },
      { role: "user", content: "both" }
    ]
    assert.deepStrictEqual(
      read(
        agent(
          ...llm("l1", "model-a", { messages: routed }, { content: "planned" }, openai),
          ...llm(
            "l2",
            "model-b",
            { messages: [{ role: "user", content: "code" }] },
            { content: [{ type: "text", text: "coded" }] },
            anthropic
          ),
          ...llm(
            "l3",
            "model-c",
            { contents: [{ role: "user", parts: [{ text: "sum" }] }] },
            { candidates: [{ content: { parts: [{ text: "summed" }] } }] },
            gemini
          )
        )
      ).steps,
      [
        [1, "system", "Decide."],
        [1, "user", "both"],
        [2, "agent", "planned", ["model-a", 1]],
        [3, "user", "code"],
        [4, "agent", "coded", ["model-b", 1]],
        [5, "user", "sum"],
        [6, "agent", "summed", ["model-c", 1]]
      ]
    )
  })
})
