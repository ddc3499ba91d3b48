// The runtime without Effect: promises, iterators, signals, tools by Standard Schema, one error.
import { assert, describe, it } from "vitest"
import * as EffectSchema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import { createServer } from "node:http"
import type { AddressInfo } from "node:net"
import { mkdtempSync, rmSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as z from "zod"
import { createHermes, fromLayer, type Hermes, HermesError, tool } from "../../../src/kit/entry/promise.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as FileTools from "../../../src/tools/builtin/FileTools.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const errorOf = async (promise: Promise<unknown>): Promise<HermesError> => {
  const error: unknown = await promise.then(
    () => undefined,
    (given: unknown) => given
  )
  assert.instanceOf(error, HermesError)
  return error
}

const all = async (stream: AsyncIterable<unknown>): Promise<void> => {
  for await (const _ of stream);
}

const withHermes = async (hermes: Hermes, use: (hermes: Hermes) => Promise<void>): Promise<void> => {
  try {
    await use(hermes)
  } finally {
    await hermes.dispose()
  }
}

const scripted = (turns: ReadonlyArray<Scripted.Turn>, tools: ReadonlyArray<ReturnType<typeof tool>> = []) =>
  fromLayer(
    Runtime.layer({
      provider: Scripted.layer(turns),
      tools: tools.map(({ toolset }) => toolset),
      retry: RetryPolicy.none
    })
  )

describe("createHermes", () => {
  it("runs, streams, tells listeners and goes on with a session that it kept", async () => {
    const directory = mkdtempSync(join(tmpdir(), "hermes-promise-"))
    const told: Array<string> = []
    const options = {
      model: "offline",
      store: { sqlite: join(directory, "state.db") },
      cwd: directory,
      tools: [FileTools.toolset],
      on: { on_session_end: async () => void told.push("end") }
    } as const
    let sessionId = ""
    await withHermes(createHermes(options), async (hermes) => {
      const events: Array<string> = []
      const result = await hermes.run({
        prompt: "Reply exactly hello",
        onEvent: async ({ _tag }) => void events.push(_tag)
      })
      sessionId = result.sessionId
      assert.strictEqual(result.text, "hello")
      assert.strictEqual(events.at(-1), "RunFinished")
      assert.deepStrictEqual(told, ["end"])
    })
    await withHermes(createHermes(options), async (hermes) => {
      let text = ""
      let steps = 0
      for await (const event of hermes.stream({ prompt: "Reply exactly again", sessionId })) {
        if (event._tag === "TextDelta") text += event.text
        if (event._tag === "RunFinished") steps = event.steps
      }
      assert.deepStrictEqual([text, steps], ["again", 1])
    })
    rmSync(directory, { recursive: true, force: true })
  })

  it("asks a model with its key over HTTP", async () => {
    const keys: Array<string | undefined> = []
    const server = createServer((request, response) => {
      if (request.url?.endsWith("/chat/completions")) keys.push(request.headers.authorization)
      response.writeHead(200, { "content-type": "application/json" })
      response.end(
        JSON.stringify({
          id: "c",
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "from the model" }, finish_reason: "stop" }],
          usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
        })
      )
    })
    await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve))
    // A TCP server that listens has an AddressInfo.
    const { port } = server.address() as AddressInfo
    try {
      const model = {
        provider: "custom",
        model: "m",
        baseUrl: `http://127.0.0.1:${port}/v1`,
        apiKey: ["first", "second"]
      }
      await withHermes(createHermes({ model: [model] }), async (hermes) => {
        assert.strictEqual((await hermes.run({ prompt: "Hello?", streaming: false })).text, "from the model")
        assert.deepStrictEqual(keys, ["Bearer first"])
      })
    } finally {
      server.close()
    }
  })

  it("rejects with one error that has the tag, a message and the cause", async () => {
    await withHermes(createHermes({ model: { provider: "anthropic", model: "claude-sonnet-4-6" } }), async (hermes) => {
      const error = await errorOf(hermes.run("Hello?"))
      assert.deepStrictEqual([error.name, error.tag, error.reason], ["HermesError", "ConfigError", undefined])
      assert.match(error.message, /apiKey/)
    })
    await withHermes(
      scripted([
        Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" })),
        Scripted.fail(new AiError.AuthenticationError({ kind: "InvalidKey" }))
      ]),
      async (hermes) => {
        const run = await errorOf(hermes.run("Hello?"))
        assert.deepStrictEqual(
          [run.tag, run.reason, AiError.isAiError(run.cause)],
          ["AiError", "AuthenticationError", true]
        )
        const stream = await errorOf(all(hermes.stream("Hello?")))
        assert.deepStrictEqual([stream.tag, stream.reason], ["AiError", "AuthenticationError"])
      }
    )
    await withHermes(createHermes({ model: "offline" }), async (hermes) => {
      assert.strictEqual((await errorOf(hermes.run(""))).tag, "InvalidInput")
    })
  })

  it("ends runs by their signal, by leaving the loop, and by dispose", async () => {
    const hanging = Array.from({ length: 6 }, () => Scripted.hang({ pieces: ["It ", "is "] }))
    const reason = new Error("enough")
    await withHermes(createHermes({ model: "offline" }), async (quick) => {
      await quick.run("Reply exactly ready")
      const events: Array<string> = []
      const never = await errorOf(
        quick.run({
          prompt: "Reply exactly hello",
          signal: AbortSignal.abort(reason),
          onEvent: ({ _tag }) => void events.push(_tag)
        })
      )
      assert.deepStrictEqual([never.tag, never.cause, events], ["Aborted", reason, []])
    })
    const hermes = scripted(hanging)
    const early = await errorOf(hermes.run({ prompt: "Wait.", signal: AbortSignal.abort(reason) }))
    assert.deepStrictEqual([early.tag, early.cause], ["Aborted", reason])

    const aborting = new AbortController()
    const run = hermes.run({
      prompt: "Wait.",
      signal: aborting.signal,
      streaming: true,
      onEvent: ({ _tag }) => (_tag === "TextDelta" ? aborting.abort(reason) : undefined)
    })
    assert.strictEqual((await errorOf(run)).tag, "Aborted")

    const second = new AbortController()
    const seen: Array<string> = []
    const streamed = (async () => {
      for await (const event of hermes.stream({ prompt: "Wait.", signal: second.signal })) {
        seen.push(event._tag)
        if (event._tag === "TextDelta") second.abort(reason)
      }
    })()
    const error = await errorOf(streamed)
    assert.deepStrictEqual([error.tag, error.cause], ["Aborted", reason])
    assert.include(seen, "TextDelta")

    for await (const event of hermes.stream({ prompt: "Wait.", sessionId: "left" }))
      if (event._tag === "TextDelta") break
    // The session is free again: its run has ended.
    for await (const event of hermes.stream({ prompt: "Wait.", sessionId: "left" }))
      if (event._tag === "TextDelta") break

    const left = hermes.run({
      prompt: "Wait.",
      streaming: true,
      onEvent: ({ _tag }) => (_tag === "TextDelta" ? void hermes.dispose() : undefined)
    })
    assert.strictEqual((await errorOf(left)).tag, "Aborted")
  })
})

describe("tools by Standard Schema", () => {
  const calling = (params: unknown) => [
    Scripted.complete({ toolCalls: [{ name: "t", params }] }),
    Scripted.complete("Done.")
  ]

  const outcome = async (
    made: ReturnType<typeof tool>,
    params: unknown
  ): Promise<readonly [status: string, preview: string]> => {
    const seen: Array<readonly [string, string]> = []
    await withHermes(scripted(calling(params), [made]), async (hermes) => {
      await hermes.run({
        prompt: "Do it.",
        onEvent: (event) =>
          event._tag === "ToolFinished" ? void seen.push([event.status, JSON.stringify(event)]) : undefined
      })
    })
    return seen[0] ?? ["none", ""]
  }

  it("check arguments before the function, which gets what the schema makes of them", async () => {
    const got: Array<unknown> = []
    const zod = tool({
      name: "t",
      description: "By Zod",
      input: z.object({ n: z.number(), at: z.string().transform((text) => text.length) }),
      execute: ({ at, n }, { cwd }) => (got.push([n, at, cwd.startsWith("/")]), { sum: n + at })
    })
    const [status] = await outcome(zod, { n: 1, at: "abc" })
    assert.strictEqual(status, "ok")
    const [refused, text] = await outcome(zod, { n: "one", at: "abc" })
    assert.strictEqual(refused, "error")
    assert.match(text, /The arguments of 't' do not fit: n: /)

    const effect = tool({
      name: "t",
      description: "By Effect",
      input: EffectSchema.toStandardSchemaV1(EffectSchema.Struct({ n: EffectSchema.Finite })),
      parameters: { type: "object", properties: { n: { type: "number" } } },
      execute: async ({ n }) => void got.push(n),
      readonly: true
    })
    assert.strictEqual((await outcome(effect, { n: 2 }))[0], "ok")
    assert.deepStrictEqual(got, [[1, 3, true], 2])
  })

  it("are failures that a model can read where the function throws, and end with their call", async () => {
    const [status, text] = await outcome(
      tool({
        name: "t",
        description: "Throws",
        input: z.object({}),
        execute: () => Promise.reject(new Error("no such thing"))
      }),
      {}
    )
    assert.strictEqual(status, "error")
    assert.match(text, /no such thing/)
    let aborted = false
    const endless = tool({
      name: "t",
      description: "Never ends",
      input: z.object({}),
      timeout: 0.05,
      execute: (_, { signal }) => new Promise(() => signal.addEventListener("abort", () => (aborted = true)))
    })
    assert.strictEqual((await outcome(endless, {}))[0], "error")
    assert.isTrue(aborted)
  })

  it("are asked about where they say so", async () => {
    const ran: Array<string> = []
    const risky = tool({
      name: "t",
      description: "Risky",
      input: z.object({}),
      needsApproval: true,
      execute: () => void ran.push("ran")
    })
    assert.strictEqual((await outcome(risky, {}))[0], "blocked")
    assert.deepStrictEqual(ran, [])
  })

  it("without a JSON Schema are refused in one line when they are made", () => {
    const bare = { "~standard": { version: 1, vendor: "bare", validate: (value: unknown) => ({ value }) } } as const
    for (const [input, what] of [
      [bare, "its schema has no JSON Schema"],
      [z.string(), "its arguments are not an object"]
    ] as const) {
      assert.throws(
        () => tool({ name: "t", description: "", input, execute: () => 1 }),
        `tool "t": ${what}: give the JSON Schema of an object as parameters`
      )
    }
    assert.isDefined(
      tool({ name: "t", description: "", input: bare, parameters: { type: "object" }, execute: () => 1 })
    )
  })
})

describe("a result", () => {
  const weather = tool({
    name: "weather",
    description: "Weather",
    input: z.object({ city: z.string() }),
    readonly: true,
    execute: async ({ city }) => ({ city, at: new Date(0) })
  })
  const turns = [
    Scripted.complete({ toolCalls: [{ name: "weather", params: { city: "Oslo" } }] }),
    Scripted.complete("ok")
  ]

  it("has its calls with values, and its messages in the form of a history", async () => {
    await withHermes(scripted([...turns, ...turns], [weather]), async (hermes) => {
      const { calls, messages, stepUsage } = await hermes.run("Hello?")
      assert.deepStrictEqual(
        calls.map(({ name, params, result, status }) => [name, params, result, status]),
        [["weather", { city: "Oslo" }, { city: "Oslo", at: "1970-01-01T00:00:00.000Z" }, "ok"]]
      )
      assert.deepStrictEqual(
        messages.map(({ content, role }) => [role, typeof content === "string" ? content : content[0]?.type]),
        [
          ["user", "text"],
          ["assistant", "tool-call"],
          ["tool", "tool-result"],
          ["assistant", "text"]
        ]
      )
      assert.lengthOf(stepUsage, 2)
      const seen: Array<unknown> = []
      const onEvent = (event: RunEvent): void => void (event._tag === "RunFinished" && seen.push(event))
      for await (const event of hermes.stream({ prompt: "Again?", history: messages, onEvent })) {
        if (event._tag === "ToolFinished") seen.push(event.result)
        if (event._tag === "RunFinished") seen.push(event.messages.map(({ role }) => role))
      }
      assert.deepInclude(seen, { city: "Oslo", at: "1970-01-01T00:00:00.000Z" })
      assert.deepInclude(seen, ["user", "assistant", "tool", "assistant"])
    })
  })
})
