// An agent under the AI SDK: as a language model for `generateText` and `streamText`, and as a tool.
import {
  generateText,
  jsonSchema,
  type ModelMessage,
  Output,
  simulateReadableStream,
  stepCountIs,
  streamText
} from "ai"
import { MockLanguageModelV4 } from "ai/test"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import { assert, describe, it } from "vitest"
import * as z from "zod"
import { agentTool, FromAiSdk, languageModel } from "../../../src/kit/entry/ai-sdk.ts"
import { createHermes, fromLayer, type Hermes, HermesError, tool } from "../../../src/kit/entry/promise.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

// A warning of the model would be written to the console.
Object.assign(globalThis, { AI_SDK_LOG_WARNINGS: false })

const double = tool({
  name: "double",
  description: "Doubles a number",
  input: z.object({ n: z.number() }),
  execute: ({ n }) => n * 2
})
const broken = tool({
  name: "broken",
  description: "Fails",
  input: z.object({}),
  execute: () => {
    throw new Error("no luck")
  }
})

/** A runtime that plays turns, and the requests that it got. */
const scripted = (turns: ReadonlyArray<Scripted.Turn>) => {
  const { inspection, provider } = Effect.runSync(Scripted.make(turns))
  const hermes = fromLayer(
    Runtime.layer({
      provider: Layer.succeed(Provider, provider),
      tools: [double.toolset, broken.toolset],
      retry: RetryPolicy.none
    })
  )
  const messages = async () => (await Effect.runPromise(inspection.calls)).map(({ messages }) => messages)
  return {
    hermes,
    messages,
    calls: () => Effect.runPromise(inspection.calls),
    requests: () => Effect.runPromise(inspection.requests),
    interruptions: () => Effect.runPromise(inspection.interruptions)
  }
}

const used = async <A>(hermes: Hermes, use: () => Promise<A>): Promise<A> => {
  try {
    return await use()
  } finally {
    await hermes.dispose()
  }
}

const usage = { input: 10, output: 4, cacheRead: 3, reasoning: 1 }
const twoSteps: ReadonlyArray<Scripted.Turn> = [
  Scripted.complete({
    text: "I double it.",
    reasoning: "hm",
    toolCalls: [{ name: "double", params: { n: 21 }, id: "c1" }],
    usage
  }),
  Scripted.complete({ text: "It is 42.", usage })
]

describe("languageModel", () => {
  it("generates: text of all steps, calls that the agent ran with their results, usage of the whole run", async () => {
    const { calls, hermes } = scripted(twoSteps)
    await used(hermes, async () => {
      const result = await generateText({
        model: languageModel(hermes),
        prompt: "Double 21.",
        instructions: "Be kind.",
        reasoning: "low"
      })
      assert.strictEqual(result.text, "I double it.\n\nIt is 42.")
      assert.strictEqual(result.reasoningText, "hm")
      assert.deepStrictEqual(
        result.toolCalls.map(({ dynamic, input, providerExecuted, toolName }) => ({
          dynamic,
          input,
          providerExecuted,
          toolName
        })),
        [{ dynamic: true, input: { n: 21 }, providerExecuted: true, toolName: "double" }]
      )
      assert.deepStrictEqual(
        result.toolResults.map(({ output, toolCallId }) => [toolCallId, output]),
        [["c1", 42]]
      )
      assert.deepStrictEqual(
        [result.finishReason, result.rawFinishReason, result.steps.length],
        ["stop", "text_response", 1]
      )
      assert.deepStrictEqual(
        [
          result.usage.inputTokens,
          result.usage.outputTokens,
          result.usage.inputTokenDetails.cacheReadTokens,
          result.usage.outputTokenDetails.reasoningTokens
        ],
        [26, 8, 6, 2]
      )
      const { exit, sessionId, steps } = result.providerMetadata?.["hermes"] ?? {}
      assert.deepStrictEqual([exit, steps, typeof sessionId], ["text_response", 2, "string"])
      assert.deepStrictEqual(result.warnings, [])
      const [first] = await calls()
      assert.deepStrictEqual(
        [first?.reasoningEffort, first?.messages.map(({ role }) => role)],
        ["low", ["system", "user"]]
      )
      const [system] = first?.messages ?? []
      assert.isTrue(system?.role === "system" && system.content.endsWith("\n\nBe kind."))
    })
  })

  it("streams the same in pieces, in order", async () => {
    const { hermes } = scripted(twoSteps)
    await used(hermes, async () => {
      const result = streamText({ model: languageModel(hermes), prompt: "Double 21." })
      const parts: Array<string> = []
      for await (const part of result.stream) {
        const last = parts.at(-1)
        if (last !== part.type) parts.push(part.type)
      }
      assert.deepStrictEqual(parts, [
        "start",
        "start-step",
        "reasoning-start",
        "reasoning-delta",
        "reasoning-end",
        "text-start",
        "text-delta",
        "text-end",
        "tool-input-start",
        "tool-input-delta",
        "tool-input-end",
        "tool-call",
        "tool-result",
        "text-start",
        "text-delta",
        "text-end",
        "finish-step",
        "finish"
      ])
      assert.strictEqual(await result.text, "I double it.\n\nIt is 42.")
      assert.deepStrictEqual([await result.finishReason, (await result.usage).outputTokens], ["stop", 8])
    })
  })

  it("hands on an object that a tool returned as an object, and a text as a text", async () => {
    const make = (name: string, result: unknown) =>
      tool({ name, description: name, readonly: true, input: z.object({}), execute: () => result })
    const turns = [
      Scripted.complete({
        toolCalls: [
          { name: "find", params: {}, id: "c1" },
          { name: "say", params: {}, id: "c2" }
        ]
      }),
      Scripted.complete("done")
    ]
    const provider = Scripted.layer(turns)
    const tools = [make("find", { rows: [1, 2] }), make("say", "[not JSON")].map(({ toolset }) => toolset)
    const hermes = fromLayer(Runtime.layer({ provider, tools }))
    const { toolResults } = await generateText({ model: languageModel(hermes), prompt: "go" })
    assert.deepStrictEqual(
      toolResults.map(({ output }) => output as unknown),
      [{ rows: [1, 2] }, "[not JSON"]
    )
    await hermes.dispose()
  })

  it("a tool that fails is an error of that call, and the run goes on", async () => {
    const { hermes } = scripted([
      Scripted.complete({ toolCalls: [{ name: "broken", id: "c1" }] }),
      Scripted.complete("Sorry.")
    ])
    await used(hermes, async () => {
      const { content, text } = await generateText({ model: languageModel(hermes), prompt: "Break." })
      const errors = content.flatMap((part) =>
        part.type === "tool-error" ? [[part.toolCallId, String(part.error).includes("no luck")]] : []
      )
      assert.deepStrictEqual([errors, text], [[["c1", true]], "Sorry."])
    })
  })

  it("begins a session with the conversation of the prompt, its own calls among it", async () => {
    const first = scripted(twoSteps)
    const messages: Array<ModelMessage> = [{ role: "user", content: "Double 21." }]
    await used(first.hermes, async () => {
      const { response } = await generateText({ model: languageModel(first.hermes), messages })
      messages.push(...response.messages, {
        role: "user",
        content: [
          { type: "text", text: "And this?" },
          { type: "file", mediaType: "image/png", data: new Uint8Array([1, 2]) }
        ]
      })
    })
    const second = scripted([Scripted.complete("Fine.")])
    await used(second.hermes, async () => {
      const { text } = await generateText({ model: languageModel(second.hermes), messages })
      assert.strictEqual(text, "Fine.")
      const [, ...asked] = (await second.messages())[0] ?? []
      assert.deepStrictEqual(
        asked.map((message) =>
          message.role === "system"
            ? []
            : [
                message.role,
                ...message.content.map((part) =>
                  part.type === "text"
                    ? part.text
                    : part.type === "tool-call"
                      ? [part.name, part.params]
                      : part.type === "tool-result"
                        ? part.result
                        : part.type
                )
              ]
        ),
        [
          ["user", "Double 21."],
          ["assistant", "I double it.", ["double", { n: 21 }]],
          ["tool", 42],
          ["assistant", "It is 42."],
          ["user", "And this?", "file"]
        ]
      )
    })
  })

  /** Texts of the messages of a request, without the system prompt. */
  const textsOf = (request: ReadonlyArray<Prompt.Message> | undefined) =>
    (request ?? [])
      .slice(1)
      .map(({ content }) =>
        typeof content === "string"
          ? content
          : content.map((part) => (part.type === "text" ? part.text : part.type)).join("")
      )

  const messagesOf = (result: { readonly warnings?: ReadonlyArray<object> | undefined }): ReadonlyArray<string> =>
    (result.warnings ?? []).flatMap((warning) => ("message" in warning ? [String(warning.message)] : []))

  const user = (content: string): ModelMessage => ({ role: "user", content })
  const assistant = (content: string): ModelMessage => ({ role: "assistant", content })
  const named = { providerOptions: { hermes: { sessionId: "s-1" } } }
  const sessionIn = (result: {
    readonly providerMetadata?: Readonly<Record<string, Readonly<Record<string, unknown>>>> | undefined
  }) => result.providerMetadata?.["hermes"]?.["sessionId"]

  it("goes on in a session that is named, with the last message alone, or with all that were said there", async () => {
    const { hermes, messages } = scripted(["One.", "Two.", "Three."].map((text) => Scripted.complete(text)))
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "First.", ...named })
      await generateText({ model, prompt: "Second.", ...named })
      const said = [user("First."), assistant(" One.\n"), user("Second."), assistant("Two."), user("Third.")]
      const third = await generateText({ model, messages: said, ...named })
      assert.deepStrictEqual([third.text, sessionIn(third), messagesOf(third)], ["Three.", "s-1", []])
      assert.deepStrictEqual(textsOf((await messages())[2]), ["First.", "One.", "Second.", "Two.", "Third."])
    })
  })

  it("knows a session by its texts, whatever form its calls have in the messages of the caller", async () => {
    const { hermes, messages } = scripted([...twoSteps, Scripted.complete("Bye.")])
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "Double 21.", ...named })
      const result = await generateText({
        model,
        messages: [user("Double 21."), assistant("I double it.\n\nIt is 42."), user("Bye.")],
        ...named
      })
      assert.deepStrictEqual([sessionIn(result), messagesOf(result)], ["s-1", []])
      // The call and its result are still there.
      assert.strictEqual((await messages())[2]?.filter(({ role }) => role === "tool").length, 1)
    })
  })

  it("a session that is named and not stored begins with the conversation of the prompt", async () => {
    const { hermes, messages } = scripted([Scripted.complete("Two."), Scripted.complete("Three.")])
    await used(hermes, async () => {
      const model = languageModel(hermes)
      const said = [user("First."), assistant("One."), user("Second.")]
      const result = await generateText({ model, messages: said, ...named })
      assert.deepStrictEqual([sessionIn(result), messagesOf(result)], ["s-1", []])
      assert.deepStrictEqual(textsOf((await messages())[0]), ["First.", "One.", "Second."])
      await generateText({ model, messages: [...said, assistant("Two."), user("Third.")], ...named })
      assert.deepStrictEqual(textsOf((await messages())[1]), ["First.", "One.", "Second.", "Two.", "Third."])
    })
  })

  it("an answer that is made again has its question once, in a copy that the next call goes on in", async () => {
    const { hermes, messages } = scripted(
      ["One.", "Two.", "Two again.", "Three.", "Four."].map((text) => Scripted.complete(text))
    )
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "First.", ...named })
      const before = [user("First."), assistant("One."), user("Second.")]
      await generateText({ model, messages: before, ...named })
      const again = await generateText({ model, messages: before, ...named })
      assert.strictEqual(again.text, "Two again.")
      assert.deepStrictEqual(textsOf((await messages())[2]), ["First.", "One.", "Second."])
      const id = sessionIn(again)
      assert.notStrictEqual(id, "s-1")
      assert.deepStrictEqual(messagesOf(again), [
        `session "s-1" went on behind the messages of this call: this call is answered in the session "${String(id)}" (providerMetadata.hermes.sessionId)`
      ])
      const after = [...before, assistant("Two again."), user("Third.")]
      const third = await generateText({ model, messages: after, ...named })
      assert.deepStrictEqual([sessionIn(third), messagesOf(third)], [id, []])
      // The first answer is still the one of the named session.
      const other = await generateText({ model, messages: [...before, assistant("Two."), user("Fourth.")], ...named })
      assert.deepStrictEqual([sessionIn(other), messagesOf(other)], ["s-1", []])
    })
  })

  it("the first answer is made again without its question twice; the same words later are a message", async () => {
    const { hermes, messages } = scripted(
      ["One.", "One again.", "Two.", "Three."].map((text) => Scripted.complete(text))
    )
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "First.", ...named })
      const again = await generateText({ model, prompt: "First.", ...named })
      assert.deepStrictEqual(textsOf((await messages())[1]), ["First."])
      assert.lengthOf(messagesOf(again), 1)
      const next = await generateText({
        model,
        messages: [user("First."), assistant("One again."), user("Second.")],
        ...named
      })
      assert.deepStrictEqual([sessionIn(next), messagesOf(next)], [sessionIn(again), []])
      await generateText({ model, prompt: "Go on.", ...named })
      assert.deepStrictEqual(textsOf((await messages())[3]), ["First.", "One.", "Go on."])
    })
  })

  it("an edited message is answered without what was said after it, also by another model of the same runtime", async () => {
    const { hermes, messages } = scripted(
      ["One.", "Two.", "Two edited.", "Three.", "First edited."].map((text) => Scripted.complete(text))
    )
    await used(hermes, async () => {
      const said = [user("First."), assistant("One.")]
      await generateText({ model: languageModel(hermes), prompt: "First.", ...named })
      await generateText({ model: languageModel(hermes), messages: [...said, user("Second.")], ...named })
      const edited = [...said, user("Second, edited.")]
      const second = streamText({ model: languageModel(hermes), messages: edited, ...named })
      assert.strictEqual(await second.text, "Two edited.")
      assert.deepStrictEqual(textsOf((await messages())[2]), ["First.", "One.", "Second, edited."])
      const next = [...edited, assistant("Two edited."), user("Third.")]
      await generateText({ model: languageModel(hermes), messages: next, ...named })
      assert.deepStrictEqual(textsOf((await messages())[3]), [
        "First.",
        "One.",
        "Second, edited.",
        "Two edited.",
        "Third."
      ])
      // The stored session is as it was.
      assert.lengthOf((await hermes.readSession("s-1")) ?? [], 4)
    })
  })

  it("a question whose run failed is not asked twice", async () => {
    const { hermes, messages } = scripted([
      Scripted.complete("One."),
      Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" })),
      Scripted.complete("Two.")
    ])
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "First.", ...named })
      const said = { model, messages: [user("First."), assistant("One."), user("Second.")], maxRetries: 0, ...named }
      await generateText(said).then(
        () => assert.fail("it should fail"),
        () => undefined
      )
      const result = await generateText(said)
      assert.deepStrictEqual([result.text, sessionIn(result), messagesOf(result)], ["Two.", "s-1", []])
      assert.deepStrictEqual(textsOf((await messages())[2]), ["First.", "One.", "Second."])
    })
  })

  it("messages that contradict the named session are answered in another one, with a warning, streamed too", async () => {
    const { hermes, messages } = scripted(["One.", "Two.", "Three."].map((text) => Scripted.complete(text)))
    await used(hermes, async () => {
      const model = languageModel(hermes)
      await generateText({ model, prompt: "First.", ...named })
      const said = [user("Something else."), assistant("Indeed."), user("Second.")]
      const streamed = streamText({ model, messages: said, ...named })
      assert.strictEqual(await streamed.text, "Two.")
      assert.deepStrictEqual(textsOf((await messages())[1]), ["Something else.", "Indeed.", "Second."])
      const [warning = ""] = messagesOf({ warnings: await streamed.warnings })
      assert.match(
        warning,
        /^session "s-1" has other messages than this call: this call is answered in the session "\S+" \(providerMetadata\.hermes\.sessionId\)$/
      )
      const next = await generateText({ model, messages: [...said, assistant("Two."), user("Third.")], ...named })
      assert.deepStrictEqual(messagesOf(next), [])
      assert.include(warning, String(sessionIn(next)))
    })
  })

  describe("asked for an object", () => {
    const output = Output.object({ schema: z.object({ n: z.number() }) })

    it("gives it to the engine, and warns of settings that are the agent's", async () => {
      const { calls, hermes } = scripted([Scripted.complete('{"n": 42}')])
      await used(hermes, async () => {
        const result = await generateText({
          model: languageModel(hermes),
          prompt: "Double 21.",
          temperature: 0.3,
          maxOutputTokens: 100,
          output
        })
        assert.deepStrictEqual(result.output, { n: 42 })
        assert.deepStrictEqual(
          (result.warnings ?? []).map((warning) => ("feature" in warning ? [warning.type, warning.feature] : [])),
          [
            ["unsupported", "maxOutputTokens"],
            ["unsupported", "temperature"]
          ]
        )
        const format = (await calls())[0]?.responseFormat
        assert.deepInclude(format?.type === "json" ? format.schema["properties"] : {}, { n: { type: "number" } })
      })
    })

    it("has a wrong answer corrected, and streams only the accepted one, after calls and prose too", async () => {
      const turns = [
        Scripted.complete({ text: "I double it.", toolCalls: [{ name: "double", params: { n: 21 }, id: "c1" }] }),
        Scripted.complete('Here it is: {"n": "many"}'),
        Scripted.complete('```json\n{ "n": 42 }\n```')
      ]
      const { hermes } = scripted([...turns, ...turns])
      await used(hermes, async () => {
        const generated = await generateText({ model: languageModel(hermes), prompt: "Double 21.", output })
        assert.deepStrictEqual([generated.output, generated.text], [{ n: 42 }, '{ "n": 42 }'])
        const streamed = streamText({ model: languageModel(hermes), prompt: "Double 21.", output })
        const partial: Array<unknown> = []
        for await (const value of streamed.partialOutputStream) partial.push(value)
        assert.deepStrictEqual([partial, await streamed.output], [[{ n: 42 }], { n: 42 }])
        assert.deepStrictEqual(
          (await streamed.toolCalls).map(({ toolName }) => toolName),
          ["double"]
        )
      })
    })

    it("that never fits rejects with what was tried", async () => {
      const { hermes } = scripted(["no", "{}", '{"n":"x"}'].map((text) => Scripted.complete(text)))
      await used(hermes, async () => {
        const error: unknown = await generateText({
          model: languageModel(hermes),
          prompt: "?",
          output,
          maxRetries: 0
        }).then(
          () => undefined,
          (error: unknown) => error
        )
        assert.strictEqual(error instanceof HermesError && error.tag, "InvalidOutput")
      })
    })

    it("works with lists, choices, JSON of any form, and a schema that the runtime cannot check", async () => {
      const texts = ['{"elements":[1,2]}', '{"result":"a"}', '{"x":1}', '{"a":1}']
      const { hermes } = scripted(texts.map((text) => Scripted.complete(text)))
      await used(hermes, async () => {
        const model = languageModel(hermes)
        const list = await generateText({ model, prompt: "?", output: Output.array({ element: z.number() }) })
        const choice = await generateText({ model, prompt: "?", output: Output.choice({ options: ["a", "b"] }) })
        const json = await generateText({ model, prompt: "?", output: Output.json() })
        const odd = jsonSchema<{ a: number }>({ type: "object", if: { required: ["a"] }, then: {} })
        const unchecked = await generateText({ model, prompt: "?", output: Output.object({ schema: odd }) })
        assert.deepStrictEqual(
          [list.output, choice.output, json.output, unchecked.output],
          [[1, 2], "a", { x: 1 }, { a: 1 }]
        )
        assert.deepStrictEqual(
          (unchecked.warnings ?? []).map((warning) => ("feature" in warning ? warning.feature : "")),
          ["responseFormat"]
        )
      })
    })
  })

  it("says why a run ended early, and fails with the error of one that failed", async () => {
    const { hermes } = scripted([
      Scripted.complete({ text: "cut", finishReason: "content-filter" }),
      Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" })),
      Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))
    ])
    await used(hermes, async () => {
      const model = languageModel(hermes)
      const { finishReason, rawFinishReason } = await generateText({ model, prompt: "?" })
      assert.deepStrictEqual([finishReason, rawFinishReason], ["content-filter", "content_filtered"])
      const error: unknown = await generateText({ model, prompt: "?", maxRetries: 0 }).then(
        () => undefined,
        (error: unknown) => error
      )
      assert.deepStrictEqual(error instanceof HermesError ? [error.tag, error.reason] : error, [
        "AiError",
        "AuthenticationError"
      ])
      const errors: Array<unknown> = []
      const streamed = streamText({
        model,
        prompt: "?",
        maxRetries: 0,
        onError: ({ error }) => void errors.push(error)
      })
      for await (const _ of streamed.stream);
      assert.deepStrictEqual(
        errors.map((error) => (error instanceof HermesError ? error.reason : error)),
        ["AuthenticationError"]
      )
    })
  })

  it("refuses a prompt that does not end in a message of the user", async () => {
    const { hermes } = scripted([])
    await used(hermes, async () => {
      const messages: Array<ModelMessage> = [
        { role: "user", content: "Hello." },
        { role: "assistant", content: "Hello." }
      ]
      const error: unknown = await generateText({ model: languageModel(hermes), messages, maxRetries: 0 }).then(
        () => undefined,
        (error: unknown) => error
      )
      assert.deepStrictEqual(error instanceof HermesError ? [error.tag, error.message] : error, [
        "InvalidInput",
        "the last message of the prompt has to be the user's, or answers to approvals: an agent runs its own tools"
      ])
    })
  })

  it("an aborted call interrupts the run, streamed or not", async () => {
    const { hermes, interruptions, requests } = scripted([Scripted.hang(), Scripted.hang()])
    const reached = async (count: () => Promise<number>, least: number) => {
      while ((await count()) < least) await new Promise((resolve) => setTimeout(resolve, 5))
    }
    /** Gives up once the provider was called. */
    const endAt = async (ending: AbortController, least: number) => {
      await reached(async () => (await requests()).length, least)
      ending.abort()
    }
    await used(hermes, async () => {
      const model = languageModel(hermes)
      const first = new AbortController()
      const generated = generateText({ model, prompt: "?", abortSignal: first.signal, maxRetries: 0 }).then(
        () => "",
        (error: unknown) => (error instanceof Error ? error.name : "")
      )
      await endAt(first, 1)
      assert.strictEqual(await generated, "AbortError")
      await reached(interruptions, 1)
      const second = new AbortController()
      const streamed = streamText({ model, prompt: "?", abortSignal: second.signal })
      const parts: Array<string> = []
      const ended = endAt(second, 2)
      for await (const { type } of streamed.stream) parts.push(type)
      await ended
      assert.strictEqual(parts.at(-1), "abort")
      await reached(interruptions, 2)
    })
  })
})

describe("agentTool", () => {
  const usage = {
    inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
    outputTokens: { total: 1, text: 1, reasoning: 0 }
  }
  const caller = () =>
    new MockLanguageModelV4({
      doGenerate: [
        {
          content: [{ type: "tool-call", toolCallId: "t1", toolName: "research", input: '{"task":"Double 21."}' }],
          finishReason: { unified: "tool-calls", raw: undefined },
          usage,
          warnings: []
        },
        {
          content: [{ type: "text", text: "Done." }],
          finishReason: { unified: "stop", raw: undefined },
          usage,
          warnings: []
        }
      ]
    })

  it("hands a task to the agent, and its text to the model", async () => {
    const { hermes } = scripted(twoSteps)
    await used(hermes, async () => {
      const model = caller()
      const { steps, text } = await generateText({
        model,
        prompt: "Ask.",
        tools: { research: agentTool(hermes, { description: "Doubles numbers" }) },
        stopWhen: stepCountIs(3)
      })
      assert.deepStrictEqual([text, steps[0]?.toolResults.map(({ output }) => output)], ["Done.", ["It is 42."]])
      const [offered] = model.doGenerateCalls[0]?.tools ?? []
      assert.deepStrictEqual(
        offered?.type === "function" ? [offered.name, offered.description, offered.inputSchema.required] : [],
        ["research", "Doubles numbers", ["task"]]
      )
    })
  })

  it("fails as a tool where the run fails", async () => {
    const { hermes } = scripted([Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))])
    await used(hermes, async () => {
      const { steps } = await generateText({
        model: caller(),
        prompt: "Ask.",
        tools: { research: agentTool(hermes, { description: "Doubles" }) },
        stopWhen: stepCountIs(3)
      })
      const errors = steps[0]?.content.flatMap((part) =>
        part.type === "tool-error" ? [part.error instanceof HermesError ? part.error.tag : part.error] : []
      )
      assert.deepStrictEqual(errors, ["AiError"])
    })
  })
})

describe("createHermes", () => {
  it("runs on a model of the AI SDK", async () => {
    const model = new MockLanguageModelV4({
      doStream: {
        stream: simulateReadableStream({
          chunks: [
            { type: "text-start", id: "0" },
            { type: "text-delta", id: "0", delta: "hello" },
            { type: "text-end", id: "0" },
            {
              type: "finish",
              finishReason: { unified: "stop", raw: undefined },
              usage: {
                inputTokens: { total: 1, noCache: 1, cacheRead: 0, cacheWrite: 0 },
                outputTokens: { total: 1, text: 1, reasoning: 0 }
              }
            }
          ]
        })
      }
    })
    const hermes = createHermes({ model: FromAiSdk.layer(model), instructions: "Be brief." })
    await used(hermes, async () => {
      let text = ""
      for await (const event of hermes.stream("Say hello.")) if (event._tag === "TextDelta") text += event.text
      assert.strictEqual(text, "hello")
    })
  })
})

describe("languageModel in older specifications", () => {
  const prompt = [
    {
      role: "user" as const,
      content: [
        { type: "text" as const, text: "Double 21." },
        { type: "file" as const, mediaType: "image/png", data: new Uint8Array([1, 2]) }
      ]
    }
  ]

  it("v3 has the calls and results of v4; v2 text and reasoning, one word for the end and flat usage", async () => {
    for (const specificationVersion of ["v2", "v3"] as const) {
      const { hermes, messages } = scripted(twoSteps)
      await used(hermes, async () => {
        const model = languageModel(hermes, { specificationVersion })
        assert.strictEqual(model.specificationVersion, specificationVersion)
        const { content, finishReason, usage, warnings } = await model.doGenerate({ prompt, temperature: 1 })
        const isV3 = specificationVersion === "v3"
        assert.deepStrictEqual(
          content.map(({ type }) => type),
          isV3 ? ["reasoning", "text", "tool-call", "tool-result", "text"] : ["reasoning", "text", "text"]
        )
        assert.deepStrictEqual<unknown>(finishReason, isV3 ? { unified: "stop", raw: "text_response" } : "stop")
        if (!isV3)
          assert.deepStrictEqual<unknown>(usage, {
            inputTokens: 26,
            outputTokens: 8,
            totalTokens: 34,
            reasoningTokens: 2,
            cachedInputTokens: 6
          })
        assert.deepStrictEqual(
          warnings.map(({ type }) => type),
          [isV3 ? "unsupported" : "unsupported-setting"]
        )
        const [asked] = (await messages())[0]?.filter(({ role }) => role === "user") ?? []
        assert.deepStrictEqual(asked?.role === "user" ? asked.content.map(({ type }) => type) : [], ["text", "file"])
      })
    }
  })

  it("streams end with the finish of their specification, and a failure is a part of the stream", async () => {
    for (const specificationVersion of ["v2", "v3"] as const) {
      for (const turns of [twoSteps, [Scripted.fail(new AiError.InvalidRequestError({ description: "no" }))]]) {
        const { hermes } = scripted(turns)
        await used(hermes, async () => {
          const { stream } = await languageModel(hermes, { specificationVersion }).doStream({ prompt })
          const types: Array<string> = []
          for await (const { type } of stream) types.push(type)
          assert.strictEqual(types.at(-1), turns === twoSteps ? "finish" : "error")
          if (specificationVersion === "v2") assert.notMatch(types.join(), /tool/)
        })
      }
    }
  })
})
