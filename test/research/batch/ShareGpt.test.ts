import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as RowRecord from "../../../src/research/batch/RowRecord.ts"
import * as ShareGpt from "../../../src/research/batch/ShareGpt.ts"

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
          '<tool_call>\n{"name":"terminal","arguments":{"command":"ls"}}\n</tool_call>',
          '<tool_call>\n{"name":"terminal","arguments":{}}\n</tool_call>'
        ].join("\n")
      },
      {
        from: "tool",
        value: [
          '<tool_response>\n{"tool_call_id":"a","name":"terminal","content":{"output":"1"}}\n</tool_response>',
          '<tool_response>\n{"tool_call_id":"b","name":"terminal","content":"plain text"}\n</tool_response>'
        ].join("\n")
      },
      { from: "gpt", value: "<think>hm</think>One." }
    ])
    assert.deepStrictEqual(turns.flatMap(ShareGpt.parseCalls), [
      { name: "terminal", arguments: { command: "ls" } },
      { name: "terminal", arguments: {} }
    ])
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
      '<tools>\n[{"name":"terminal","description":"Runs","parameters":{"type":"object"},"required":null}]\n</tools>'
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
