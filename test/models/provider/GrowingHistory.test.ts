// The work on a request besides its bytes: a step reads the messages that are new in the conversation, and none of the
// earlier ones.
import { assert, describe, it } from "@effect/vitest"
import * as Prompt from "effect/ai/Prompt"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import * as History from "../../../src/base/domain/History.ts"
import type { ModelCall, ModelRequest } from "../../../src/base/domain/ModelCall.ts"
import * as Route from "../../../src/base/domain/Route.ts"
import * as Anthropic from "../../../src/models/provider/anthropic/Request.ts"
import * as Bedrock from "../../../src/models/provider/bedrock/Request.ts"
import * as Messages from "../../../src/models/provider/chat/Messages.ts"
import * as Chat from "../../../src/models/provider/chat/Request.ts"
import * as Responses from "../../../src/models/provider/responses/Request.ts"
import * as CallTokens from "../../../src/models/routing/CallTokens.ts"
import { call, terminal } from "./Ask.ts"

const routeOf = (apiMode: Route.Route["apiMode"], model: string): Route.Route => ({
  provider: "custom",
  model,
  apiMode,
  baseUrl: "http://127.0.0.1:1"
})

const chat = routeOf("chat_completions", "test-model")
const responses = routeOf("codex_responses", "test-model")
const claude = routeOf("anthropic_messages", "claude-sonnet-4-5")
const bedrock = routeOf("bedrock_converse", "anthropic.claude-sonnet-4-5")

const protocols: ReadonlyArray<readonly [Route.Route, (call: ModelCall) => ModelRequest]> = [
  [chat, (call) => Chat.prepare(call, chat)],
  [responses, (call) => Responses.prepare(call, responses)],
  [claude, Anthropic.make(claude)],
  [bedrock, Bedrock.make(bedrock)]
]

/** A conversation whose messages count how often they are read. */
const counted = () => {
  const messages: Array<Prompt.Message> = []
  const originals: Array<Prompt.Message> = []
  let reads = 0
  const add = (message: Prompt.Message): void => {
    originals.push(message)
    messages.push(
      new Proxy(message, {
        get: (target, name) => {
          if (name === "role" || name === "content" || name === "options") reads++
          return Reflect.get(target, name)
        }
      })
    )
  }
  add(Prompt.systemMessage({ content: "You are an agent." }))
  add(Prompt.userMessage({ content: [Prompt.textPart({ text: "Go on until it is done." })] }))
  return {
    messages,
    add,
    reads: () => reads,
    /** Makes the messages from here on other objects, as the store decodes them for the next run. */
    decode: (from: number) => {
      messages.length = from
      for (const message of originals.splice(from))
        add(Object.create(Object.getPrototypeOf(message), Object.getOwnPropertyDescriptors(message)))
    },
    step: (number: number) => {
      const id = `call_${number}`
      add(
        Prompt.assistantMessage({
          content: [
            Prompt.reasoningPart({
              text: "I look at it.",
              options: {
                codex_responses: { encrypted_content: `thought ${number}` },
                anthropic_messages: { signature: `signature ${number}` },
                bedrock_converse: { signature: `signature ${number}` }
              }
            }),
            Prompt.textPart({ text: `Step ${number}.` }),
            Prompt.toolCallPart({
              id,
              name: "terminal",
              params: { command: `echo ${number}` },
              providerExecuted: false
            })
          ]
        })
      )
      add(Conversation.makeToolResult({ id, name: "terminal" }, { output: `${number}`, isFailure: false }))
    }
  }
}

/** Reads of messages that each step of a session of `steps` steps takes. */
const readsOfSteps = (
  steps: number,
  request: (messages: ReadonlyArray<Prompt.Message>) => unknown
): ReadonlyArray<number> => {
  const { messages, reads, step } = counted()
  return Array.from({ length: steps }, (_, number) => {
    step(number)
    const before = reads()
    request(messages)
    return reads() - before
  })
}

describe("the cost of a request in a long session", () => {
  for (const [route, prepare] of protocols) {
    it(`${route.apiMode}: step 2,000 reads as many messages as step 20`, () => {
      const counts = readsOfSteps(2_000, (messages) =>
        prepare(call("", { messages: History.toSendableMessages(messages, Route.abilities(route)), tools: [terminal] }))
      )
      assert.strictEqual(counts[1_999], counts[19])
    })
  }

  for (const [route, prepare] of protocols) {
    it(`${route.apiMode}: run 500 of a session reads as many messages as run 20, and sends what is made of them at once`, () => {
      const { add, decode, messages, reads, step } = counted()
      const request = (messages: ReadonlyArray<Prompt.Message>): ModelRequest =>
        prepare(call("", { messages: History.toSendableMessages(messages, Route.abilities(route)), tools: [terminal] }))
      const counts = Array.from({ length: 500 }, (_, run) => {
        const before = messages.length
        const start = reads()
        add(Prompt.userMessage({ content: [Prompt.textPart({ text: `And ${run}?` })] }))
        request(messages)
        step(2 * run)
        request(messages)
        step(2 * run + 1)
        const last = request(messages)
        const count = reads() - start
        if (run % 100 === 99)
          assert.deepStrictEqual(
            last,
            request([Prompt.systemMessage({ content: "You are an agent." }), ...messages.slice(1)])
          )
        decode(before)
        return count
      })
      assert.strictEqual(counts[499], counts[20])
    })
  }

  it("the estimated tokens: step 2,000 reads as many messages as step 20", () => {
    const counts = readsOfSteps(2_000, (messages) => CallTokens.estimateTokens({ messages }))
    assert.strictEqual(counts[1_999], counts[19])
  })

  for (const [route, prepare] of protocols) {
    it(`${route.apiMode}: requests of a session that grew are those of one that is read at once`, () => {
      const request = (messages: ReadonlyArray<Prompt.Message>): ModelRequest =>
        prepare(call("", { messages: History.toSendableMessages(messages, Route.abilities(route)), tools: [terminal] }))
      const { messages, step } = counted()
      for (let number = 0; number < 30; number++) {
        step(number)
        if (number % 7 === 3)
          messages.push(Prompt.userMessage({ content: [Prompt.textPart({ text: `And ${number}?` })] }))
        if (number === 20) messages.splice(4, 6)
        const [first, ...rest] = messages
        // Another first message begins another conversation.
        const atOnce = [
          first?.role === "system"
            ? Prompt.systemMessage({ content: first.content })
            : Prompt.systemMessage({ content: "" }),
          ...rest
        ]
        assert.deepStrictEqual(request(messages), request(atOnce))
      }
    })
  }
})

describe("the JSON of a request of chat completions", () => {
  const said = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
  const first = [
    said("one"),
    Prompt.assistantMessage({ content: [Prompt.textPart({ text: `two "${"x".repeat(9_000)}\u2028` })] }),
    said("")
  ]

  it("is what JSON.stringify makes of it, also when it is sent again, and of members that are no JSON", () => {
    for (const messages of [first, first, [...first, said("three")], first.slice(1)]) {
      const request = {
        ...Chat.prepare({ ...call("x"), messages }, chat),
        left_out: undefined,
        nothing: null,
        'a "name"': [undefined]
      }
      assert.strictEqual(Messages.stringifyBody(request), JSON.stringify(request))
    }
  })

  it("is what JSON.stringify makes of it where other things are among the messages", () => {
    const { messages } = Chat.prepare({ ...call("x"), messages: [said("kept")] }, chat)
    assert(Array.isArray(messages))
    const [message] = messages
    for (const other of ["text", 1, null, undefined, [message]]) {
      for (const list of [[other], [other, message], [message, other], [message, other, message], [message], []]) {
        assert.strictEqual(Messages.stringifyBody({ messages: list }), JSON.stringify({ messages: list }))
      }
    }
  })

  it("has the messages that middleware put there, and keeps the text of those of the conversation", () => {
    const { messages } = Chat.prepare({ ...call("x"), messages: [said("kept")] }, chat)
    assert(Array.isArray(messages))
    const [message] = messages
    let written = 0
    const counting = { ...message, toJSON: () => `written ${++written}` }
    assert.strictEqual(
      Messages.stringifyBody({ messages: [counting, message] }),
      `{"messages":["written 1",${JSON.stringify(message)}]}`
    )
    assert.strictEqual(
      Messages.stringifyBody({ messages: [counting, message] }),
      `{"messages":["written 2",${JSON.stringify(message)}]}`
    )
    const kept = `{"messages":[{"role":"user","content":"kept"}]}`
    for (let sent = 0; sent < 2; sent++) assert.strictEqual(Messages.stringifyBody({ messages: [message] }), kept)
    message.content = "a message that was converted never changes"
    assert.strictEqual(Messages.stringifyBody({ messages: [message] }), kept)
  })
})
