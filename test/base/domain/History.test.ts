// The messages that a route is sent, out of whatever interruptions and failures left behind.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as History from "../../../src/base/domain/History.ts"
import * as Route from "../../../src/base/domain/Route.ts"

const text = (value: string) => Prompt.textPart({ text: value })
const thought = (value: string) =>
  Prompt.reasoningPart({ text: value, options: { anthropic_messages: { signature: value } } })
const call = (id: string) => Prompt.toolCallPart({ id, name: "t", params: {}, providerExecuted: false })
const user = (value: string) => Prompt.userMessage({ content: [text(value)] })
const assistant = (...content: ReadonlyArray<Prompt.AssistantMessagePart>) => Prompt.assistantMessage({ content })
const result = (id: string) => Conversation.makeToolResult({ id, name: "t" }, { output: `r${id}`, isFailure: false })
const system = Prompt.systemMessage({ content: "s" })

const all: Route.Abilities = { thinking: "all", cacheMarks: "none", userAfterTool: true, compaction: "none" }

/** Messages as letters, with their parts in short. */
const short = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.map((message) => {
    const parts =
      typeof message.content === "string"
        ? message.content
        : message.content
            .map((part) => {
              switch (part.type) {
                case "text":
                  return part.text
                case "reasoning":
                  return `<${part.text}>`
                case "tool-call":
                  return `call ${part.id}`
                case "tool-result":
                  return `result ${part.id}`
                default:
                  return part.type
              }
            })
            .join(" | ")
    return `${message.role}: ${parts}`
  })

const sent = (messages: ReadonlyArray<Prompt.Message>, abilities = all) =>
  short(History.toSendableMessages(messages, abilities))

describe("the history stage", () => {
  it("gives a fine conversation back as it is, the same array", () => {
    const fine = [system, user("a"), assistant(thought("t"), call("1")), result("1"), assistant(text("b")), user("c")]
    assert.strictEqual(History.toSendableMessages(fine, all), fine)
  })

  it("merges neighbours of one role; pieces of one answer are joined without anything between", () => {
    assert.deepStrictEqual(
      sent([system, user("a"), user("b"), assistant(text("half of ")), assistant(text("it"), call("1")), result("1")]),
      ["system: s", "user: a | b", "assistant: half of it | call 1", "tool: result 1"]
    )
  })

  it("texts of users are trimmed, texts before calls at their end; other answers and results are as they were", () => {
    const history = [
      system,
      Prompt.userMessage({ content: [text(" \n"), text("  a\n"), text("b ")] }),
      assistant(text(" I look.\n\n"), call("1")),
      Conversation.makeToolResult({ id: "1", name: "t" }, { output: "  r\n", isFailure: false }),
      assistant(text("half of ")),
      user(" ")
    ]
    const made = History.toSendableMessages(history, all)
    assert.deepStrictEqual(short(made).slice(1, 3), ["user: a | b", "assistant:  I look. | call 1"])
    assert.strictEqual(made[3], history[3])
    assert.deepStrictEqual(short(made).slice(4), ["assistant: half of ", "user:  "])
    const again = History.toSendableMessages([...history, assistant(text("x"))], all)
    assert.isTrue(made.slice(0, 4).every((message, at) => message === again[at]))
  })

  it("what is made of the same messages is the same object", () => {
    const history = [user("a"), user("b"), assistant(text("x")), assistant(text("y"))]
    const [first, second] = [
      History.toSendableMessages(history, all),
      History.toSendableMessages([...history, user("c")], all)
    ]
    assert.isTrue(first.every((message, index) => message === second[index]))
  })

  it("answers every call once and right after it, and drops results without a call", () => {
    assert.deepStrictEqual(
      sent([user("a"), result("0"), assistant(call("1"), call("2")), result("2"), result("2"), result("9"), user("b")]),
      ["user: a", "assistant: call 1 | call 2", "tool: result 1", "tool: result 2", "user: b"]
    )
  })

  it("sends a result that stands behind a message of the user between the results of one step", () => {
    const [question, calls, first, between, second, answer] = [
      user("a"),
      assistant(call("1"), call("2")),
      result("1"),
      user("b"),
      result("2"),
      assistant(text("c"))
    ]
    assert.deepStrictEqual(History.toSendableMessages([question, calls, first, between, second, answer], all), [
      question,
      calls,
      first,
      second,
      between,
      answer
    ])
  })

  it("never sends reasoning alone, nor messages of nothing", () => {
    assert.deepStrictEqual(
      sent([user("a"), assistant(thought("t")), user("b"), assistant(thought("u"), text(" ")), user(" "), assistant()]),
      ["user: a | b"]
    )
  })

  it("begins with the user", () => {
    assert.match(sent([system, assistant(text("a")), user("b")])[1] ?? "", /^user: \(the beginning/)
  })

  it("sends a message that is marked once until the model has answered", () => {
    const nudge = History.markOnce(user("go on"))
    assert.deepStrictEqual(sent([user("a"), assistant(text("1 ")), nudge]), ["user: a", "assistant: 1 ", "user: go on"])
    assert.deepStrictEqual(sent([user("a"), assistant(text("1 ")), nudge, assistant(text("2"))]), [
      "user: a",
      "assistant: 1 2"
    ])
    const empty = History.markOnce(assistant(text("(empty)")))
    assert.deepStrictEqual(sent([user("a"), assistant(call("1")), result("1"), empty, nudge]), [
      "user: a",
      "assistant: call 1",
      "tool: result 1",
      "assistant: (empty)",
      "user: go on"
    ])
  })

  it("keeps thinking through the tool loop, of the newest answer in any case, or none of it", () => {
    const loop = [
      user("a"),
      assistant(thought("t1"), text("x")),
      user("b"),
      assistant(thought("t2"), call("1")),
      result("1"),
      assistant(thought("t3"), call("2")),
      result("2")
    ]
    const tail = ["assistant: call 1", "tool: result 1", "assistant: call 2", "tool: result 2"]
    const head = ["user: a", "assistant: x", "user: b"]
    assert.deepStrictEqual(sent(loop, { ...all, thinking: "none" }), [...head, ...tail])
    assert.deepStrictEqual(sent(loop, { ...all, thinking: "tool_loop" }), [
      ...head,
      "assistant: <t2> | call 1",
      "tool: result 1",
      "assistant: <t3> | call 2",
      "tool: result 2"
    ])
    assert.deepStrictEqual(sent([...loop, user("c")], { ...all, thinking: "tool_loop" }), [
      ...head,
      ...tail.slice(0, 2),
      "assistant: <t3> | call 2",
      "tool: result 2",
      "user: c"
    ])
  })

  it("puts an answer between a tool's result and the user where the route wants one", () => {
    assert.deepStrictEqual(
      sent([user("a"), assistant(call("1")), result("1"), user("b")], {
        ...all,
        userAfterTool: false,
        compaction: "none"
      }),
      ["user: a", "assistant: call 1", "tool: result 1", "assistant: (no answer)", "user: b"]
    )
  })
})

describe("the abilities of a route", () => {
  const of = (model: string, baseUrl?: string, apiMode: Route.Route["apiMode"] = "anthropic_messages") =>
    Route.abilities({ provider: "custom", model, baseUrl, apiMode })

  it("thinking goes back to Claude whoever serves it, not to other vendors' models behind its protocol", () => {
    for (const model of ["claude-3-7-sonnet", "claude-sonnet-4-5", "claude-haiku-4-5", "claude-opus-4-1-20250805"]) {
      assert.strictEqual(of(model, "https://gateway.example/anthropic").thinking, "tool_loop")
    }
    for (const model of [
      "anthropic/claude-opus-4.5",
      "claude-opus-4-5-20251101",
      "claude-sonnet-4-6",
      "claude-opus-5"
    ]) {
      assert.strictEqual(of(model, "https://gateway.example/anthropic").thinking, "all")
    }
    assert.strictEqual(of("us.anthropic.claude-opus-4-6-v1:0", undefined, "bedrock_converse").thinking, "all")
    assert.strictEqual(of("MiniMax-M2", "https://api.minimax.io/anthropic").thinking, "none")
    assert.strictEqual(of("any", "https://api.anthropic.com").thinking, "tool_loop")
    assert.strictEqual(of("any", "https://anthropic.com.evil.example").thinking, "none")
    assert.strictEqual(of("gpt-5", undefined, "codex_responses").thinking, "all")
  })

  it("a route may state them", () => {
    const abilities: Route.Abilities = {
      thinking: "none",
      cacheMarks: "none",
      userAfterTool: false,
      compaction: "none"
    }
    const route = { provider: "p", model: "claude-opus-4-5", apiMode: "anthropic_messages" } as const
    assert.deepStrictEqual(Route.abilities({ ...route, abilities }), abilities)
    assert.deepStrictEqual(Route.abilities({ ...route, abilities: { thinking: "all" } }), {
      ...Route.abilities(route),
      thinking: "all"
    })
  })

  it("chats are rendered by templates of which some take no user message after a result", () => {
    assert.isFalse(of("qwen3", "http://localhost/v1", "chat_completions").userAfterTool)
    for (const mode of ["anthropic_messages", "bedrock_converse", "codex_responses"] as const) {
      assert.isTrue(of("m", undefined, mode).userAfterTool)
    }
  })

  describe("arguments that a model did not write as an object", () => {
    const broken = (id: string, params: unknown) =>
      Prompt.toolCallPart({ id, name: "t", params, providerExecuted: false })
    const pairsOf = (messages: ReadonlyArray<Prompt.Message>) =>
      History.toSendableMessages(messages, all).flatMap(({ content }) =>
        typeof content === "string"
          ? []
          : content.flatMap((part) => {
              if (part.type === "tool-call") return [[part.id, part.params]]
              return part.type === "tool-result" ? [[part.id, part.result]] : []
            })
      )

    it("T §9.1 text that is no JSON object: empty, with the marker before the result that there is, or before the one that closes the call", () => {
      for (const params of ['{"a": tru', "{a: 1}", "[1]", "7", "true", [1], 7]) {
        assert.deepStrictEqual(
          pairsOf([
            user("a"),
            assistant(broken("1", params), call("2"), broken("3", params)),
            result("2"),
            result("1"),
            user("b")
          ]),
          [
            ["1", {}],
            ["2", {}],
            ["3", {}],
            ["1", `${History.corruptedArguments}\nr1`],
            ["2", "r2"],
            ["3", `${History.corruptedArguments}\n${Conversation.cancelledResult}`]
          ],
          JSON.stringify(params)
        )
      }
    })

    it("T §9.1 nothing, blanks and the text of an object are that object, without a marker", () => {
      for (const [params, args] of [
        ["", {}],
        ["  \n", {}],
        ["None", {}],
        ["null", {}],
        [null, {}],
        [' {"a":1} ', { a: 1 }]
      ] as const) {
        assert.deepStrictEqual(pairsOf([user("a"), assistant(broken("1", params)), result("1")]), [
          ["1", args],
          ["1", "r1"]
        ])
      }
    })

    it("what is made of a message is made once", () => {
      const messages = [user("a"), assistant(broken("1", "{a")), result("1"), assistant(text("b"))]
      const [first, second] = [
        History.toSendableMessages(messages, all),
        History.toSendableMessages([...messages, user("c")], all)
      ]
      assert.deepStrictEqual(
        first.map((message, index) => message === second[index]),
        [true, true, true, true]
      )
    })
  })
})
