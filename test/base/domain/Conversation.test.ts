import { assert, describe, it } from "@effect/vitest"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { prop } from "../../support/property.ts"

// A script of a conversation in which anything may be missing, doubled, merged or out of place.
const Index = Schema.Literals([0, 1, 2])
const Turn = Schema.Union([
  Schema.Struct({ kind: Schema.Literal("user") }),
  Schema.Struct({ kind: Schema.Literal("assistant"), calls: Schema.Literals([0, 1, 2, 3]) }),
  Schema.Struct({ kind: Schema.Literal("tool"), results: Schema.NonEmptyArray(Index).check(Schema.isMaxLength(4)) }),
  Schema.Struct({ kind: Schema.Literal("stray") })
])
const Script = Schema.Array(Turn).check(Schema.isMaxLength(12))

const result = (id: string, output: string) =>
  Prompt.toolResultPart({ id, name: "tool", isFailure: false, result: output, providerExecuted: false })

const play = (script: typeof Script.Type): ReadonlyArray<Prompt.Message> => {
  let step = 0
  let serial = 0
  return script.map((turn): Prompt.Message => {
    switch (turn.kind) {
      case "user":
        return Prompt.userMessage({ content: [Prompt.textPart({ text: `user ${serial++}` })] })
      case "assistant":
        step++
        return Prompt.assistantMessage({
          content: [
            Prompt.textPart({ text: `step ${step}` }),
            ...Array.from({ length: turn.calls }, (_, index) =>
              Prompt.toolCallPart({ id: `${step}-${index}`, name: "tool", params: {}, providerExecuted: false })
            )
          ]
        })
      case "tool":
        return Prompt.toolMessage({ content: turn.results.map((index) => result(`${step}-${index}`, `r${serial++}`)) })
      case "stray":
        return Prompt.toolMessage({ content: [result("nobody-asked", "stray")] })
    }
  })
}

const resultIds = (message: Prompt.Message): ReadonlyArray<string> =>
  message.role === "tool" ? message.content.flatMap((part) => (part.type === "tool-result" ? [part.id] : [])) : []

/** The ids answered right after the message at `index`, in order. */
const answeredAfter = (messages: ReadonlyArray<Prompt.Message>, index: number): ReadonlyArray<string> => {
  const end = messages.findIndex((message, at) => at > index && message.role !== "tool")
  return messages.slice(index + 1, end === -1 ? undefined : end).flatMap(resultIds)
}

describe("closeOpenCalls", () => {
  prop(
    "answers every call exactly once, right after it and in model order",
    { script: Script },
    ({ script }) => {
      const closed = Conversation.closeOpenCalls(play(script))
      closed.forEach((message, index) => {
        if (message.role === "tool") return
        assert.deepStrictEqual(
          answeredAfter(closed, index),
          Conversation.listToolCalls(message).map((call) => call.id)
        )
      })
    },
    { arbitrary: { runs: 500 } }
  )

  prop("keeps everything that is no tool message, in its order", { script: Script }, ({ script }) => {
    const messages = play(script)
    const spoken = (list: ReadonlyArray<Prompt.Message>) => list.filter((message) => message.role !== "tool")
    assert.deepStrictEqual(spoken(Conversation.closeOpenCalls(messages)), spoken(messages))
  })

  prop(
    "keeps the first result before the next answer, and cancels a call without one",
    { script: Script },
    ({ script }) => {
      const messages = play(script)
      const answeredBeforeNext = (index: number): ReadonlyArray<string> => {
        const end = messages.findIndex((message, at) => at > index && message.role === "assistant")
        return messages.slice(index + 1, end === -1 ? undefined : end).flatMap(resultIds)
      }
      const closed = Conversation.closeOpenCalls(messages)
      const parts = (list: ReadonlyArray<Prompt.Message>) =>
        list
          .flatMap((message) => (message.role === "tool" ? message.content : []))
          .filter((part) => part.type === "tool-result")
      const reachable = messages.flatMap((message, index) =>
        Conversation.listToolCalls(message).map((call) => ({
          id: call.id,
          answered: answeredBeforeNext(index).includes(call.id)
        }))
      )
      for (const { id, answered } of reachable) {
        const kept = parts(closed).find((part) => part.id === id)
        const first = parts(messages).find((part) => part.id === id)
        assert.strictEqual(kept?.result, answered ? first?.result : Conversation.cancelledResult)
        assert.strictEqual(kept?.isFailure, !answered)
      }
    }
  )

  prop(
    "a run that goes on from a session has the same, after any number of rejected messages and runs before it",
    { script: Script, rejected: Schema.Array(Index) },
    ({ rejected, script }) => {
      const messages = [...play(script)]
      for (const index of rejected) messages.splice(3 * index + 1, 0, Conversation.makeRejection("no"))
      for (let length = 0; length <= messages.length; length++) {
        const some = messages.slice(0, length)
        assert.deepStrictEqual(
          Conversation.resume(some),
          Conversation.closeOpenCalls(Conversation.withoutRejected(some))
        )
      }
    }
  )

  prop("done twice does nothing more, and returns the same messages", { script: Script }, ({ script }) => {
    const once = Conversation.closeOpenCalls(play(script))
    const twice = Conversation.closeOpenCalls(once)
    assert.strictEqual(twice.length, once.length)
    twice.forEach((message, index) => assert.strictEqual(message, once[index]))
  })

  it("splits a message that holds results of several calls when they are not exactly the calls", () => {
    const assistant = Prompt.assistantMessage({
      content: ["a", "b"].map((id) => Prompt.toolCallPart({ id, name: "tool", params: {}, providerExecuted: false }))
    })
    const swapped = Prompt.toolMessage({ content: [result("b", "second"), result("a", "first")] })
    assert.deepStrictEqual(Conversation.closeOpenCalls([assistant, swapped]), [
      assistant,
      Prompt.toolMessage({ content: [result("a", "first")] }),
      Prompt.toolMessage({ content: [result("b", "second")] })
    ])
    const fine = Prompt.toolMessage({ content: [result("a", "first"), result("b", "second")] })
    assert.strictEqual(Conversation.closeOpenCalls([assistant, fine])[1], fine)
  })

  it("takes results from behind a message that the user sent while tools ran, which then follows all of them", () => {
    const assistant = Prompt.assistantMessage({
      content: ["a", "b"].map((id) => Prompt.toolCallPart({ id, name: "tool", params: {}, providerExecuted: false }))
    })
    const first = Prompt.toolMessage({ content: [result("a", "first")] })
    const second = Prompt.toolMessage({ content: [result("b", "second")] })
    const user = Prompt.userMessage({ content: [Prompt.textPart({ text: "look into src too" })] })
    assert.deepStrictEqual(Conversation.closeOpenCalls([assistant, first, user, second]), [
      assistant,
      first,
      second,
      user
    ])
    assert.deepStrictEqual(
      Conversation.listOpenCalls([assistant, first, user]).map(({ id }) => id),
      ["b"]
    )
    assert.deepStrictEqual(Conversation.listOpenCalls([assistant, first, user, second]), [])
  })

  it("leaves calls that the provider executed alone", () => {
    const assistant = Prompt.assistantMessage({
      content: [Prompt.toolCallPart({ id: "web", name: "web_search", params: {}, providerExecuted: true })]
    })
    assert.deepStrictEqual(Conversation.closeOpenCalls([assistant]), [assistant])
  })
})

describe("text", () => {
  it("is what somebody wrote, whoever it was", () => {
    const text = Prompt.textPart({ text: "hello " })
    const more = Prompt.textPart({ text: "you" })
    const image = Prompt.filePart({ mediaType: "image/png", data: "AAAA" })
    assert.deepStrictEqual(
      [
        Prompt.systemMessage({ content: "rules" }),
        Prompt.userMessage({ content: [text, image, more] }),
        Prompt.assistantMessage({ content: [Prompt.reasoningPart({ text: "hm" }), text, more] }),
        Prompt.toolMessage({ content: [result("a", "x")] })
      ].map(Conversation.readText),
      ["rules", "hello you", "hello you", ""]
    )
  })
})
