import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as RowRecord from "../../../src/research/batch/RowRecord.ts"
import * as ShareGpt from "../../../src/research/batch/ShareGpt.ts"
import * as TrainerRules from "../../../src/research/batch/TrainerRules.ts"

const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const assistant = (...content: ReadonlyArray<Prompt.AssistantMessagePart>) => Prompt.assistantMessage({ content })
const call = (id: string, params: unknown) =>
  Prompt.toolCallPart({ id, name: "terminal", params, providerExecuted: false })

describe("ShareGpt", () => {
  it("reasoning, text and calls of an answer are one turn; results in a row are one turn", () => {
    const turns = ShareGpt.toTurns([
      Prompt.systemMessage({ content: "the real system prompt" }),
      user("count"),
      assistant(
        Prompt.reasoningPart({ text: "two commands" }),
        Prompt.textPart({ text: "I look." }),
        call("a", { command: "ls" }),
        call("b", "{broken")
      ),
      Prompt.toolMessage({
        content: [
          Conversation.makeToolResult({ id: "a", name: "terminal" }, { output: '{"output":"1"}', isFailure: false })
        ].flatMap(({ content }) => content)
      }),
      Prompt.toolMessage({
        content: [
          Conversation.makeToolResult({ id: "b", name: "terminal" }, { output: "plain text", isFailure: false })
        ].flatMap(({ content }) => content)
      }),
      assistant(Prompt.textPart({ text: "<REASONING_SCRATCHPAD>hm</REASONING_SCRATCHPAD>One." }))
    ])
    assert.deepStrictEqual(turns, [
      { from: "human", value: "count" },
      {
        from: "gpt",
        value: [
          "<think>\ntwo commands\n</think>",
          "I look.",
          '<tool_call>\n{"name": "terminal", "arguments": {"command": "ls"}}\n</tool_call>',
          '<tool_call>\n{"name": "terminal", "arguments": {}}\n</tool_call>'
        ].join("\n")
      },
      {
        from: "tool",
        value: [
          '<tool_response>\n{"tool_call_id": "a", "name": "terminal", "content": {"output": "1"}}\n</tool_response>',
          '<tool_response>\n{"tool_call_id": "b", "name": "terminal", "content": "plain text"}\n</tool_response>'
        ].join("\n")
      },
      { from: "gpt", value: "<think>hm</think>One." }
    ])
    assert.deepStrictEqual(turns.flatMap(ShareGpt.parseCalls), [
      { name: "terminal", arguments: { command: "ls" } },
      { name: "terminal", arguments: {} }
    ])
  })

  it("turns are those of the original, byte for byte", () => {
    const turn = (...content: ReadonlyArray<Prompt.AssistantMessagePart>) =>
      ShareGpt.toTurns([user("q"), assistant(...content)])[1]?.value
    const text = (value: string) => Prompt.textPart({ text: value })
    const thought = (value: string) => Prompt.reasoningPart({ text: value })
    // Values of the original's converter for the same messages.
    assert.strictEqual(turn(text("Hi.")), "<think>\n</think>\nHi.")
    assert.strictEqual(turn(thought("a\n"), text("Hi.\n")), "<think>\na\n\n</think>\nHi.")
    assert.strictEqual(turn(text("")), "<think>\n</think>")
    assert.strictEqual(turn(thought("only")), "<think>\nonly\n</think>")
    assert.strictEqual(
      turn(text("I look.\n"), call("a", { n: [1, "é\n", { x: null, y: true }] })),
      '<think>\n</think>\nI look.\n\n<tool_call>\n{"name": "terminal", "arguments": {"n": [1, "é\\n", {"x": null, "y": true}]}}\n</tool_call>'
    )
    assert.strictEqual(
      turn(thought("t"), call("a", {})),
      '<think>\nt\n</think>\n<tool_call>\n{"name": "terminal", "arguments": {}}\n</tool_call>'
    )
    const results = Prompt.toolMessage({
      content: ["12", "[1, 2]", ' {"a": 1}', "{broken"].flatMap(
        (output, index) =>
          Conversation.makeToolResult({ id: `c${index}`, name: "terminal" }, { output, isFailure: false }).content
      )
    })
    const blocks = ['"12"', "[1, 2]", '{"a": 1}', '"{broken"'].map(
      (content, index) =>
        `<tool_response>\n{"tool_call_id": "c${index}", "name": "terminal", "content": ${content}}\n</tool_response>`
    )
    assert.strictEqual(ShareGpt.toTurns([results])[0]?.value, blocks.join("\n"))
  })

  it("an answer of several messages is one turn", () => {
    const text = (value: string) => Prompt.textPart({ text: value })
    const thought = (value: string) => Prompt.reasoningPart({ text: value })
    const answers = (...messages: ReadonlyArray<Prompt.AssistantMessage>) => {
      const turns = ShareGpt.toTurns([user("q"), ...messages])
      assert.deepStrictEqual(
        turns.map(({ from }) => from),
        ["human", "gpt"]
      )
      return turns[1]?.value
    }
    // Continued in the middle of a word, after thinking alone, after an empty answer, and after an announcement.
    assert.strictEqual(answers(assistant(text("Hel")), assistant(text("lo."))), "<think>\n</think>\nHello.")
    assert.strictEqual(
      answers(assistant(thought("hm")), assistant(thought("so"), text("Yes."))),
      "<think>\nhm\nso\n</think>\nYes."
    )
    assert.strictEqual(answers(assistant(text("")), assistant(text("Yes."))), "<think>\n</think>\nYes.")
    assert.strictEqual(
      answers(assistant(text("I look.")), assistant(call("a", {}))),
      '<think>\n</think>\nI look.\n\n<tool_call>\n{"name": "terminal", "arguments": {}}\n</tool_call>'
    )
    // Each of these rows has a form that trainers accept.
    for (const trainer of TrainerRules.trainers)
      assert.isUndefined(
        TrainerRules.findProblem(ShareGpt.toConversations([user("q"), assistant(), assistant(text("a"))], []), trainer)
      )
  })

  it("trainers drop rows whose turns do not alternate", () => {
    const turns = (...names: ReadonlyArray<ShareGpt.Turn["from"]>) => names.map((from) => ({ from, value: from }))
    const find = TrainerRules.findProblem
    for (const trainer of TrainerRules.trainers) {
      assert.isUndefined(find(turns("system", "human", "gpt", "tool", "gpt"), trainer))
      assert.isDefined(find(turns("human", "gpt", "gpt"), trainer))
      assert.isDefined(find(turns("human"), trainer))
      assert.isDefined(find([], trainer))
    }
    assert.strictEqual(
      find(turns("system", "human", "tool", "gpt"), "llama-factory"),
      "turn 3 is tool, but gpt is expected"
    )
    assert.strictEqual(
      find(turns("human", "gpt", "human"), "llama-factory"),
      "the last turn is human, but gpt is expected"
    )
    assert.strictEqual(find(turns("human", "gpt", "human"), "trl"), "the last turn is human, but gpt is expected")
    assert.strictEqual(find([{ from: "human", value: " " }, ...turns("gpt")], "axolotl"), "turn 1 (human) is empty")
  })

  it("the system turn holds the tools, and pictures are named", () => {
    const [system, human] = ShareGpt.toConversations(
      [
        Prompt.userMessage({
          content: [
            Prompt.textPart({ text: "see" }),
            Prompt.filePart({ mediaType: "image/png", data: new Uint8Array([1]) })
          ]
        })
      ],
      [{ name: "terminal", description: "Runs", parameters: { type: "object" } }]
    )
    assert.include(
      system?.value,
      '<tools>\n[{"name": "terminal", "description": "Runs", "parameters": {"type": "object"}, "required": null}]\n</tools>'
    )
    assert.strictEqual(human?.value, "see\n[screenshot]")
  })

  it("a result is a failure by its error, its success, or no content; another exit code is none", () => {
    for (const bad of ["", "  ", null, undefined, "Error: no such file", '{"error":"x"}', { success: false }])
      assert.isTrue(RowRecord.isFailure(bad), JSON.stringify(bad))
    for (const good of [
      "fine",
      '{"error":null,"exit_code":2}',
      { output: "", exit_code: 127, error: null },
      { success: true },
      "0"
    ])
      assert.isFalse(RowRecord.isFailure(good), JSON.stringify(good))
  })
})
