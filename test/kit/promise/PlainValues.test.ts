// Plain values into a run and a value out of it: prompts and conversations as the AI SDK writes them, schemas of Zod,
// models by one text; a wrong value is one line that names its place.
import { assert, describe, it } from "vitest"
import * as EffectSchema from "effect/Schema"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Prompt from "effect/ai/Prompt"
import * as z from "zod"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import {
  createHermes,
  fromLayer,
  mcp,
  type Hermes,
  HermesError,
  type HermesInput
} from "../../../src/kit/entry/promise.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"

const Weather = z.object({ city: z.string(), at: z.string().transform((text) => new Date(text)) })

const fitting = '{ "city": "Oslo", "at": "2026-11-28T10:00:00Z" }'

/** Runs with a scripted model; `asked` are its calls so far. */
const withScript = async (
  texts: ReadonlyArray<string>,
  use: (hermes: Hermes, asked: () => Promise<ReadonlyArray<ModelCall>>) => Promise<void>
): Promise<void> => {
  const script = await Effect.runPromise(Scripted.make(texts.map((text) => Scripted.complete(text))))
  const hermes = fromLayer(Runtime.layer({ provider: Layer.succeed(Provider, script.provider) }))
  try {
    await use(hermes, () => Effect.runPromise(script.inspection.calls))
  } finally {
    await hermes.dispose()
  }
}

const messageOf = async (promise: Promise<unknown>): Promise<string> => {
  const error: unknown = await promise.then(
    () => undefined,
    (given: unknown) => given
  )
  assert.instanceOf(error, HermesError)
  return error instanceof HermesError ? `${error.tag}: ${error.message}` : ""
}

describe("output of the promise facade", () => {
  it("is the output of a Zod schema, checked and converted", async () => {
    await withScript([fitting], async (hermes, asked) => {
      const { value } = await hermes.run({ prompt: "weather?", output: Weather })
      const at: Date = value.at
      assert.deepStrictEqual([value.city, at], ["Oslo", new Date("2026-11-28T10:00:00Z")])
      const format = (await asked())[0]?.responseFormat
      assert.strictEqual(format?.type, "json")
    })
  })

  it("sends the messages of the schema back, and rejects with them in the end", async () => {
    await withScript(["{}", fitting], async (hermes, asked) => {
      await hermes.run({ prompt: "weather?", output: Weather })
      assert.include(JSON.stringify((await asked())[1]?.messages.at(-1)), "city")
    })
    await withScript(["{}", "{}", "{}"], async (hermes) => {
      assert.match(
        await messageOf(hermes.run({ prompt: "weather?", output: Weather })),
        /^InvalidOutput: the answer does not fit the output schema after 2 corrections: city: /
      )
    })
  })

  it("takes schemas of Effect and JSON Schemas, and wraps lists", async () => {
    await withScript(['{"value":[1,2]}', '{"n":1}', '{"value":["a"]}'], async (hermes) => {
      const list = await hermes.run({ prompt: "list", output: z.array(z.number()) })
      assert.deepStrictEqual(list.value, [1, 2])
      const own = EffectSchema.toStandardSchemaV1(EffectSchema.Struct({ n: EffectSchema.Int }))
      assert.deepStrictEqual((await hermes.run({ prompt: "own", output: own })).value, { n: 1 })
      const plain = await hermes.run({ prompt: "plain", output: { type: "array", items: { type: "string" } } })
      assert.deepStrictEqual(plain.value, ["a"])
    })
  })

  it("streams the value as it arrives", async () => {
    await withScript([fitting], async (hermes) => {
      let last: unknown
      for await (const event of hermes.stream({ prompt: "weather?", output: Weather })) {
        if (event._tag === "ValueDelta") {
          const city: string | undefined = event.value.city
          last = city
        }
      }
      assert.strictEqual(last, "Oslo")
    })
  })

  it("that no model can be told is a ConfigError", async () => {
    await withScript([], async (hermes) => {
      const byHand = { "~standard": { version: 1, vendor: "hand", validate: (value: unknown) => ({ value }) } } as const
      assert.match(
        await messageOf(hermes.run({ prompt: "x", output: byHand })),
        /^ConfigError: output: the schema has no/
      )
      assert.match(
        await messageOf(hermes.run({ prompt: "x", output: z.object({ f: z.function() as never }) })),
        /^ConfigError: output: /
      )
    })
  })
})

const png = Uint8Array.from([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])

describe("prompts and conversations as plain values", () => {
  it("takes texts, images and files as the AI SDK writes them", async () => {
    await withScript(["seen"], async (hermes, asked) => {
      const { text } = await hermes.run({
        prompt: [
          { type: "text", text: "look" },
          { type: "image", image: png },
          { type: "image", image: `data:image/png;base64,${Buffer.from(png).toString("base64")}` },
          { type: "image", image: "https://example.com/a.png", mediaType: "image/png" },
          { type: "image", image: Buffer.from(png).toString("base64") },
          { type: "file", data: png.buffer, mediaType: "application/pdf", filename: "a.pdf" }
        ]
      })
      assert.strictEqual(text, "seen")
      const sent = (await asked())[0]?.messages.at(-1)
      const types =
        sent?.role === "user" ? sent.content.map((part) => (part.type === "file" ? part.mediaType : part.type)) : []
      assert.deepStrictEqual(types, ["text", "image/png", "image/png", "image/png", "image/png", "application/pdf"])
    })
  })

  it("begins a session with a conversation of calls and results", async () => {
    await withScript(["again: 4"], async (hermes, asked) => {
      await hermes.run({
        prompt: "once more",
        history: [
          { role: "user", content: "weather?" },
          {
            role: "assistant",
            content: [
              { type: "text", text: "I look." },
              { type: "tool-call", toolCallId: "c1", toolName: "look", input: { at: "Oslo" } }
            ]
          },
          { role: "tool", content: [{ type: "tool-result", toolCallId: "c1", output: { type: "text", value: "4" } }] },
          { role: "assistant", content: "4 degrees" }
        ]
      })
      const roles = (await asked())[0]?.messages.map(({ role }) => role)
      assert.deepStrictEqual(roles, ["system", "user", "assistant", "tool", "assistant", "user"])
    })
  })

  it("names the place of a wrong value, and asks no model", async () => {
    await withScript([], async (hermes, asked) => {
      const wrong: ReadonlyArray<readonly [input: unknown, said: RegExp]> = [
        [{ prompt: [{ type: "txt", text: "a" }] }, /prompt\[0\]\.type: there is no "txt" here: did you mean text\?/],
        [{ prompt: [{ type: "text" }] }, /prompt\[0\]\.text: expected a text/],
        [{ prompt: [null] }, /prompt\[0\]: expected a part/],
        [{ prompt: [{ type: "image" }] }, /prompt\[0\]\.image: expected a https: address/],
        [{ prompt: [{ type: "image", image: "file:///etc/passwd" }] }, /prompt\[0\]\.image: expected a https: address/],
        [{ prompt: [{ type: "file", data: "AAAA" }] }, /prompt\[0\]\.mediaType: expected the type/],
        [{ prompt: "a", history: [{ role: "bot", content: "b" }] }, /history\[0\]\.role: there is no "bot" here/],
        [{ prompt: "a", history: [{ role: "system", content: "b" }] }, /history\[0\]: instructions are not part/],
        [
          { prompt: "a", history: [{ role: "tool", content: [{ type: "tool-result", toolCallId: "x", output: 1 }] }] },
          /history\[0\]\.content\[0\]\.toolCallId: no earlier message has a call "x"/
        ],
        [{ prompt: "a", history: "b" }, /history: expected a list/]
      ]
      for (const [input, said] of wrong) {
        const message = await messageOf(hermes.run(input as HermesInput))
        assert.match(message, /^InvalidInput: [^\n]+$/)
        assert.match(message, said)
      }
      assert.lengthOf(await asked(), 0)
    })
  })
})

describe("a model by one text", () => {
  it("names its provider, with a key beside it or none", async () => {
    const hermes = createHermes({ model: { model: "anthropic/claude-sonnet-4-6" } })
    assert.match(await messageOf(hermes.run("hi")), /^ConfigError: .*anthropic/i)
    await hermes.dispose()
    const local = createHermes({ model: "nowhere/x" })
    assert.match(await messageOf(local.run("hi")), /nowhere/)
    await local.dispose()
  })
})

describe("values that no program with type checks passes", () => {
  const run = (input: unknown): Promise<string> => withHermes((hermes) => messageOf(hermes.run(input as HermesInput))) // hostile on purpose

  const withHermes = async <A>(use: (hermes: Hermes) => Promise<A>): Promise<A> => {
    const hermes = createHermes({ model: "offline" })
    try {
      return await use(hermes)
    } finally {
      await hermes.dispose()
    }
  }

  it("are one line that names its place", async () => {
    const image = (data: string) => run({ prompt: [{ type: "image", image: data }] })
    assert.match(await image(`data:${";a".repeat(5_000_000)}`), /^InvalidInput: prompt\[0\]\.image: .*base64/)
    assert.match(await image("data:text/plain,hello"), /^InvalidInput: prompt\[0\]\.image: .*data: URL in base64/)
    assert.match(await run({ prompt: [{ type: 10n }] }), /^InvalidInput: prompt\[0\]\.type: /)
    const circle: Record<string, unknown> = {}
    circle["self"] = circle
    assert.match(await run({ prompt: [{ type: circle }] }), /^InvalidInput: prompt\[0\]\.type: /)
    const holes: Array<unknown> = []
    holes[1] = "text"
    assert.match(await run({ prompt: holes }), /^InvalidInput: prompt\[0\]: /)
    assert.match(
      await run({ prompt: "x", history: [{ role: 1n, content: "" }] }),
      /^InvalidInput: history\[0\]\.role: /
    )
  })

  it("in a conversation become JSON, also beside messages of Effect", async () => {
    const circle: Record<string, unknown> = { count: 10n }
    circle["self"] = circle
    await withScript(["done"], async (hermes, asked) => {
      await hermes.run({
        prompt: "go on",
        history: [
          { role: "user", content: "look" },
          Prompt.assistantMessage({
            content: [Prompt.toolCallPart({ id: "a", name: "look", params: {}, providerExecuted: false })]
          }),
          { role: "tool", content: [{ type: "tool-result", toolCallId: "a", output: circle }] }
        ]
      })
      const result = (await asked())[0]?.messages.find(({ role }) => role === "tool")
      assert.include(JSON.stringify(result), '"count":"10","self":"<circular>"')
    })
  })

  it("are refused in the settings of MCP servers", async () => {
    const start = (...servers: ReadonlyArray<unknown>) =>
      withHermesOf(servers.map((server) => mcp("one", server as Parameters<typeof mcp>[1]))) // hostile on purpose
    const withHermesOf = async (tools: ReadonlyArray<ReturnType<typeof mcp>>): Promise<string> => {
      const hermes = createHermes({ model: "offline", tools })
      try {
        return await messageOf(hermes.run("hi"))
      } finally {
        await hermes.dispose()
      }
    }
    assert.match(await start({ command: "x", url: "https://x" }), /^ConfigError: mcp\.one: has a command and a url/)
    assert.match(await start({ url: "file:///etc" }), /^ConfigError: mcp\.one: the url begins with file/)
    assert.match(await start({ command: "x", tools: { includ: [] } }), /^ConfigError: mcp\.one: .*includ/)
    const server = { command: "x", enabled: false }
    assert.throws(
      () => createHermes({ model: "offline", tools: [mcp("one", server), mcp("one", server)] }),
      /tools\[1\]: another MCP server has the name "one"/
    )
    assert.match(
      await withHermesOf([mcp("__proto__", { command: "" })]),
      /^ConfigError: mcp\.__proto__: the command is empty/
    )
  })
})
