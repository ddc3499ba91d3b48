// Streams that others write, as their public documents describe them: opaque ones, those of OpenAI, Anthropic and
// Gemini clients, of NeMo Relay, and several in one. Each is converted without losing a message.
import { assert, describe, it } from "@effect/vitest"
import * as AtifCheck from "../../src/observe/AtifCheck.ts"
import type * as Atif from "../../src/observe/Atif.ts"
import * as AtifConvert from "../../src/observe/AtifConvert.ts"
import * as Atof from "../../src/observe/Atof.ts"
import * as AtifSchema from "./support/atifSchema.ts"

type Fields = Readonly<Record<string, unknown>>

/** Lines of a stream, a second apart. */
const stream = () => {
  const lines: Array<string> = []
  const put = (event: Fields): void => {
    lines.push(
      JSON.stringify({
        atof_version: "0.1",
        timestamp: `2026-01-01T00:00:${String(lines.length).padStart(2, "0")}Z`,
        ...event
      })
    )
  }
  const half =
    (scope_category: "start" | "end") =>
    (uuid: string, parent_uuid: string | null, category: string, more: Fields = {}): void =>
      put({
        kind: "scope",
        scope_category,
        uuid,
        parent_uuid,
        category,
        name: uuid,
        attributes: [],
        category_profile: null,
        ...more
      })
  return {
    lines,
    put,
    start: half("start"),
    end: half("end"),
    mark: (uuid: string, parent_uuid: string, more: Fields): void =>
      put({ kind: "mark", uuid, parent_uuid, name: uuid, ...more })
  }
}

const schemas = {
  openai: { name: "openai/chat-completions", version: "1" },
  anthropic: { name: "anthropic/messages", version: "1" },
  gemini: { name: "gemini/generate-content", version: "1" }
}

/** The trajectory of lines and what was found in them. */
const read = ({ lines }: Pick<ReturnType<typeof stream>, "lines">) => {
  const { events, faults } = Atof.parse(lines.join("\n"))
  const converted = AtifConvert.convert(events)
  const [trajectory] = converted.trajectories
  assert.strictEqual(converted.trajectories.length, 1)
  if (trajectory === undefined) return assert.fail("there is a trajectory")
  assert.deepStrictEqual(
    AtifCheck.check(JSON.parse(JSON.stringify(trajectory))).filter(({ severity }) => severity === "error"),
    []
  )
  assert.deepStrictEqual(AtifSchema.errors(JSON.parse(JSON.stringify(trajectory))), [])
  return { trajectory, faults: [...faults, ...converted.faults].map(({ message }) => message) }
}

/** What somebody said, called and got in each step. */
const told = ({ steps }: Atif.Trajectory) =>
  steps.map(({ message, model_name: model, observation, reasoning_content: thought, source, tool_calls: calls }) => ({
    source,
    message,
    ...(model === undefined ? {} : { model }),
    ...(thought === undefined ? {} : { thought }),
    ...(calls === undefined
      ? {}
      : { calls: calls?.map((one) => [one.tool_call_id, one.function_name, one.arguments]) }),
    ...(observation === undefined
      ? {}
      : { results: observation?.results.map((one) => [one.source_call_id, one.content]) })
  }))

const model = (name: string) => ({ category_profile: { model_name: name } })

describe("a stream of another writer", () => {
  it("opaque scopes: question and answer of the root, and every payload inside", () => {
    const s = stream()
    s.start("root", null, "unknown", { data: { raw_query: "What is 3 + 4?" } })
    s.start("inner", "root", "unknown", { data: { prompt: "add" } })
    s.end("inner", "root", "unknown", { data: { reply: [7] } })
    s.end("root", null, "unknown", { data: { raw_result: "It is 7" } })
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.deepStrictEqual(told(trajectory), [
      { source: "user", message: "What is 3 + 4?" },
      { source: "system", message: '{"reply":[7]}' },
      { source: "agent", message: "It is 7" }
    ])
    assert.deepStrictEqual(trajectory.steps[1]?.extra, {
      event: "inner",
      category: "unknown",
      input: { prompt: "add" },
      data: { reply: [7] }
    })
  })

  it("flat answers of chat completions, and results that are objects", () => {
    const s = stream()
    s.start("calculator", null, "agent", { data: { input: "What is 3 + 4?" } })
    s.start("llm-1", "calculator", "llm", {
      ...model("gpt-4.1"),
      data_schema: schemas.openai,
      data: { messages: [{ role: "user", content: "What is 3 + 4?" }] }
    })
    s.end("llm-1", "calculator", "llm", {
      ...model("gpt-4.1"),
      data: { content: "", tool_calls: [{ id: "call_a", name: "add", arguments: { a: 3, b: 4 } }] }
    })
    s.start("tool-1", "calculator", "tool", {
      name: "add",
      attributes: ["remote"],
      category_profile: { tool_call_id: "call_a" },
      data: { a: 3, b: 4 }
    })
    s.end("tool-1", "calculator", "tool", {
      name: "add",
      attributes: ["remote"],
      category_profile: { tool_call_id: "call_a" },
      data: { result: 7 }
    })
    s.end("calculator", null, "agent", { data: "3 + 4 = 7" })
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.deepStrictEqual(told(trajectory), [
      { source: "user", message: "What is 3 + 4?" },
      {
        source: "agent",
        message: "",
        model: "gpt-4.1",
        calls: [["call_a", "add", { a: 3, b: 4 }]],
        results: [["call_a", "7"]]
      }
    ])
  })

  it("marks: of a role the words of that role, any other as it is", () => {
    const s = stream()
    s.start("agent", null, "agent")
    s.mark("input_check", "agent", { category: "guardrail", data: { passed: true, policies: ["pii"] } })
    s.mark("asked", "agent", { data: { role: "user", message: "hello" } })
    s.mark("said", "agent", { data: { role: "agent", content: "hi" } })
    s.end("agent", null, "agent")
    const { trajectory } = read(s)
    assert.deepStrictEqual(told(trajectory), [
      { source: "system", message: '{"passed":true,"policies":["pii"]}' },
      { source: "user", message: "hello" },
      { source: "agent", message: "hi" }
    ])
    assert.deepStrictEqual(trajectory.steps[0]?.extra?.["data"], { passed: true, policies: ["pii"] })
  })

  it("Anthropic messages: blocks, thinking, and results that only the next request has", () => {
    const s = stream()
    const first = { role: "user", content: "Summarise a.txt" }
    const use = { type: "tool_use", id: "toolu_1", name: "read_file", input: { path: "a.txt" } }
    s.start("agent", null, "agent")
    s.start("llm-1", "agent", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: { system: "be short", messages: [first] }
    })
    s.end("llm-1", "agent", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: {
        content: [{ type: "thinking", thinking: "look" }, { type: "text", text: "I read it." }, use],
        stop_reason: "tool_use",
        usage: { input_tokens: 5, output_tokens: 2 }
      }
    })
    const result = { type: "tool_result", tool_use_id: "toolu_1", content: [{ type: "text", text: "words" }] }
    s.start("llm-2", "agent", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: { messages: [first, { role: "assistant", content: [use] }, { role: "user", content: [result] }] }
    })
    s.end("llm-2", "agent", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: { content: [{ type: "text", text: "Words." }] }
    })
    s.end("agent", null, "agent")
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.deepStrictEqual(told(trajectory), [
      { source: "system", message: "be short" },
      { source: "user", message: "Summarise a.txt" },
      {
        source: "agent",
        message: "I read it.",
        model: "claude",
        thought: "look",
        calls: [["toolu_1", "read_file", { path: "a.txt" }]],
        results: [["toolu_1", "words"]]
      },
      { source: "agent", message: "Words.", model: "claude" }
    ])
  })

  it("Gemini generateContent: contents, parts, calls without ids, thoughts, usage", () => {
    const s = stream()
    const contents = [
      {
        role: "user",
        parts: [
          { text: "What time is it in Rome" },
          { text: "and in Oslo?" },
          { fileData: { mimeType: "image/png", fileUri: "https://pictures.test/map.png" } }
        ]
      }
    ]
    const functionCall = (city: string) => ({ functionCall: { name: "get_time", args: { city } } })
    const gemini = { ...model("gemini-2.0-flash"), data_schema: schemas.gemini }
    s.start("clock", null, "agent")
    s.start("llm-1", "clock", "llm", {
      ...gemini,
      data: {
        systemInstruction: { parts: [{ text: "be exact" }] },
        contents,
        tools: [{ functionDeclarations: [{ name: "get_time" }] }]
      }
    })
    s.end("llm-1", "clock", "llm", {
      ...gemini,
      data: {
        candidates: [
          {
            content: {
              role: "model",
              parts: [{ text: "two clocks", thought: true }, functionCall("Rome"), functionCall("Oslo")]
            },
            finishReason: "STOP"
          }
        ],
        usageMetadata: {
          promptTokenCount: 9,
          candidatesTokenCount: 4,
          thoughtsTokenCount: 2,
          cachedContentTokenCount: 1,
          totalTokenCount: 15
        }
      }
    })
    s.start("tool-1", "clock", "tool", {
      name: "get_time",
      category_profile: { tool_call_id: "get_time__0" },
      data: { city: "Rome" }
    })
    s.end("tool-1", "clock", "tool", {
      name: "get_time",
      category_profile: { tool_call_id: "get_time__0" },
      data: "12:00"
    })
    s.start("llm-2", "clock", "llm", {
      ...gemini,
      data: {
        contents: [
          ...contents,
          { role: "model", parts: [functionCall("Rome"), functionCall("Oslo")] },
          {
            role: "user",
            parts: [
              { functionResponse: { name: "get_time", response: { result: "12:00" } } },
              { functionResponse: { name: "get_time", response: { result: "12:00 too" } } }
            ]
          }
        ]
      }
    })
    s.end("llm-2", "clock", "llm", {
      ...gemini,
      data: {
        candidates: [
          { content: { role: "model", parts: [{ text: "Noon," }, { text: "in both." }] }, finishReason: "STOP" }
        ]
      }
    })
    s.end("clock", null, "agent")
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.deepStrictEqual(told(trajectory), [
      { source: "system", message: "be exact" },
      {
        source: "user",
        message: [
          { type: "text", text: "What time is it in Rome" },
          { type: "text", text: "and in Oslo?" },
          { type: "image", source: { media_type: "image/png", path: "https://pictures.test/map.png" } }
        ]
      },
      {
        source: "agent",
        message: "",
        model: "gemini-2.0-flash",
        thought: "two clocks",
        calls: [
          ["get_time__1", "get_time", { city: "Rome" }],
          ["get_time__2", "get_time", { city: "Oslo" }]
        ],
        results: [
          ["get_time__1", "12:00"],
          ["get_time__2", "12:00 too"]
        ]
      },
      { source: "agent", message: "Noon,\nin both.", model: "gemini-2.0-flash" }
    ])
    assert.deepStrictEqual(trajectory.steps[2]?.metrics, {
      prompt_tokens: 9,
      completion_tokens: 6,
      cached_tokens: 1,
      extra: { reasoning_tokens: 2 }
    })
  })

  it("three providers in one stream, each read by its own form", () => {
    const s = stream()
    s.start("router", null, "agent")
    s.start("a", "router", "llm", {
      ...model("gpt"),
      data_schema: schemas.openai,
      data: { messages: [{ role: "user", content: "one" }] }
    })
    s.end("a", "router", "llm", {
      ...model("gpt"),
      data_schema: schemas.openai,
      data: { choices: [{ message: { role: "assistant", content: "by gpt" } }] }
    })
    s.start("b", "router", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: {
        messages: [
          { role: "user", content: "one" },
          { role: "user", content: "two" }
        ]
      }
    })
    s.end("b", "router", "llm", {
      ...model("claude"),
      data_schema: schemas.anthropic,
      data: { content: [{ type: "text", text: "by claude" }] }
    })
    s.start("c", "router", "llm", {
      ...model("gemini"),
      data_schema: schemas.gemini,
      data: { contents: ["one", "two", "three"].map((text) => ({ role: "user", parts: [{ text }] })) }
    })
    s.end("c", "router", "llm", {
      ...model("gemini"),
      data_schema: schemas.gemini,
      data: { candidates: [{ content: { parts: [{ text: "by gemini" }] } }] }
    })
    s.end("router", null, "agent")
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.deepStrictEqual(
      told(trajectory).map(({ message, model, source }) => [source, message, model]),
      [
        ["user", "one", undefined],
        ["agent", "by gpt", "gpt"],
        ["user", "two", undefined],
        ["agent", "by claude", "claude"],
        ["user", "three", undefined],
        ["agent", "by gemini", "gemini"]
      ]
    )
  })

  it("NeMo Relay: a request beside its headers, an answer as it is printed, scopes under a root that is never told", () => {
    const s = stream()
    const hidden = "00000000-root"
    s.start("agent", hidden, "agent", { metadata: { session_id: "S1" } })
    s.start("llm", "agent", "llm", {
      ...model("m"),
      data: { headers: {}, content: { messages: [{ role: "user", content: "do it" }], model: "m" } }
    })
    s.end("llm", "agent", "llm", {
      ...model("m"),
      data: { assistant_message: { role: "assistant", content: "done", tool_calls: [] }, finish_reason: "stop" }
    })
    s.mark("llm.chunk", "llm", { data: { delta: "do" } })
    s.end("agent", hidden, "agent")
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [])
    assert.strictEqual(trajectory.session_id, "S1")
    assert.deepStrictEqual(told(trajectory), [
      { source: "user", message: "do it" },
      { source: "agent", message: "done", model: "m" }
    ])
  })

  it("what cannot be read is named by its line, and is kept", () => {
    const s = stream()
    s.start("agent", null, "agent")
    s.start("llm-1", "agent", "llm", { ...model("m"), data_schema: schemas.gemini, data: { question: "hello" } })
    s.end("llm-1", "agent", "llm", { ...model("m"), data_schema: schemas.gemini, data: { reply: "hi" } })
    s.lines.push('{"kind":"ScopeStart","uuid":"old"}', "not json")
    s.put({
      kind: "scope",
      scope_category: "end",
      uuid: "agent",
      parent_uuid: null,
      category: "agent",
      name: "agent",
      attributes: []
    })
    const { faults, trajectory } = read(s)
    assert.deepStrictEqual(faults, [
      "line 4: kind must be scope or mark",
      "line 5: not JSON; the file was cut or is damaged",
      "line 2: its data is not what gemini/generate-content has at the start of a call; it is kept as it is",
      "line 3: its data is not what gemini/generate-content has at the end of a call; it is kept as it is"
    ])
    assert.deepStrictEqual(
      trajectory.steps.map(({ extra }) => extra?.["data"]),
      [{ question: "hello" }, { reply: "hi" }]
    )
  })
})
