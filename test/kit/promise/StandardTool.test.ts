// Tools of functions at their edges: what a schema may do, and what a function may return and throw. None of it fails
// the run.
import { assert, describe, it } from "vitest"
import type { StandardSchemaV1 } from "effect/StandardSchema"
import * as z from "zod"
import { createHermes, fromLayer, HermesError, tool } from "../../../src/kit/entry/promise.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"
import * as Runtime from "../../../src/program/Runtime.ts"

interface Ended {
  readonly status: string
  readonly output: string
}

/** The end of one call of a tool, in a run that goes on behind it. */
const called = async (made: ReturnType<typeof tool>, params: unknown = {}): Promise<Ended> => {
  const ends: Array<Ended> = []
  const told: Array<unknown> = []
  await using hermes = fromLayer(
    Runtime.layer({
      provider: Scripted.layer([Scripted.complete({ toolCalls: [{ name: "t", params }] }), Scripted.complete("Done.")]),
      tools: [made.toolset],
      hooks: [Hooks.fromPlain("post_tool_call", (event) => void told.push(event["result"]))]
    })
  )
  const { text } = await hermes.run({
    prompt: "Go.",
    onEvent: (event) =>
      event._tag === "ToolFinished" ? void ends.push({ status: event.status, output: event.output }) : undefined
  })
  assert.deepStrictEqual([text, ends.length, told.length], ["Done.", 1, 1])
  return ends[0] ?? { status: "none", output: "" }
}

const returning = (output: unknown) =>
  called(tool({ name: "t", description: "Returns", input: z.object({}), execute: () => output }))
const throwing = (error: unknown) => {
  const execute = async () => {
    throw error
  }
  return called(tool({ name: "t", description: "Throws", input: z.object({}), execute }))
}

const standard = <Output>(
  validate: (value: unknown) => StandardSchemaV1.Result<Output> | Promise<StandardSchemaV1.Result<Output>>
): StandardSchemaV1<unknown, Output> => ({ "~standard": { version: 1, vendor: "test", validate } })
const byHand = <Output>(
  input: StandardSchemaV1<unknown, Output>,
  execute: (args: Output) => unknown = (args) => args
) => tool({ name: "t", description: "By hand", input, parameters: { type: "object" }, execute })

describe("a schema", () => {
  it("may take its time, and change the arguments", async () => {
    const input = standard(async (value) => {
      await Promise.resolve()
      return { value: { seen: value } }
    })
    assert.deepStrictEqual(await called(byHand(input), { a: 1 }), { status: "ok", output: '{"seen":{"a":1}}' })
    const zod = z.object({
      n: z
        .number()
        .refine(async (n) => n > 1, "too small")
        .transform(async (n) => n * 2)
    })
    const made = tool({
      name: "t",
      description: "By Zod",
      input: zod,
      parameters: { type: "object" },
      execute: ({ n }) => n
    })
    assert.deepStrictEqual(await called(made, { n: 2 }), { status: "ok", output: "4" })
    assert.match((await called(made, { n: 1 })).output, /do not fit: n: too small\. Call it again/)
  })

  it.each([undefined, null, 3, "fits"])(
    "that gives %j instead of a result is told to the model, and the run goes on",
    async (result) => {
      // Schemas by hand may return anything.
      const input = standard(() => result as never)
      assert.deepStrictEqual(await called(byHand(input)), {
        status: "error",
        output: '{"error":"Error executing tool \'t\': its schema failed: it returned neither a value nor issues"}'
      })
    }
  )

  it("names each place that does not fit, with paths of keys, of segments and of none", async () => {
    const input = standard(() => ({
      issues: [{ message: "no list", path: ["a", { key: 0 }] }, { message: "no good" }]
    }))
    assert.deepStrictEqual(await called(byHand(input)), {
      status: "error",
      output:
        '{"error":"The arguments of \'t\' do not fit: a.0: no list; no good. Call it again with arguments that fit."}'
    })
    assert.match(
      (await called(byHand(standard(() => ({ issues: [] }))))).output,
      /do not fit: its schema gives no reason/
    )
  })

  it("that throws is a fault of the tool, and not of the arguments", async () => {
    const broken = (): never => {
      throw new Error("no such rule")
    }
    for (const input of [standard(broken), standard(async () => broken())]) {
      assert.deepStrictEqual(await called(byHand(input)), {
        status: "error",
        output: '{"error":"Error executing tool \'t\': its schema failed: no such rule"}'
      })
    }
  })

  it("that never ends is ended with the time of its tool", async () => {
    const input = standard(() => new Promise<never>(() => undefined))
    const endless = tool({
      name: "t",
      description: "Never ends",
      input,
      parameters: { type: "object" },
      timeout: 0.05,
      execute: () => 1
    })
    assert.match((await called(endless)).output, /timed out after 0\.05s/)
  })

  it("may be a function that has the standard", async () => {
    const input = Object.assign(
      () => undefined,
      standard((value) => ({ value }))
    )
    assert.strictEqual(
      (
        await called(
          tool({ name: "t", description: "As ArkType", input, parameters: { type: "object" }, execute: () => "ok" })
        )
      ).output,
      "ok"
    )
  })

  it("that cannot say what it wants is refused when the tool is made, with its reason", () => {
    const made =
      (input: StandardSchemaV1, name = "t") =>
      (): unknown =>
        tool({ name, description: "Wrong", input, execute: () => 1 })
    const wanted = "give the JSON Schema of an object as parameters"
    const cases: ReadonlyArray<readonly [() => unknown, string]> = [
      [
        made(z.object({ at: z.date() })),
        `tool "t": its schema has no JSON Schema (Date cannot be represented in JSON Schema): ${wanted}`
      ],
      // Neither is a schema: the program is not type-checked.
      [made({} as never), 'tool "t": input must be a schema of Zod, ArkType, Valibot or Effect'],
      [made(undefined as never), 'tool "t": input must be a schema of Zod, ArkType, Valibot or Effect'],
      [
        made(z.object({}), "odd name"),
        'tool "odd name": its name is not 1 to 64 letters, digits, _ or -: no model API takes another one'
      ]
    ]
    for (const [make, message] of cases) {
      try {
        make()
        assert.fail(`not refused: ${message}`)
      } catch (error) {
        assert.instanceOf(error, HermesError)
        assert.deepStrictEqual([error.tag, error.message], ["ConfigError", message])
      }
    }
  })
})

describe("what a function returns", () => {
  const cyclic: Record<string, unknown> = { a: 1 }
  cyclic["self"] = cyclic
  const unreadable = Object.defineProperty({}, "x", { enumerable: true, get: () => assert.fail("read") })
  const proxy = new Proxy({}, { ownKeys: () => assert.fail("listed") })

  const cases: ReadonlyArray<readonly [what: string, output: unknown, text: string]> = [
    ["text", "text", "text"],
    ["nothing", undefined, "null"],
    ["null", null, "null"],
    ["a bigint", 10n, "10"],
    ["a bigint inside", { n: 12345678901234567890n }, '{"n":"12345678901234567890"}'],
    ["no number", [Number.NaN, -0], "[null,0]"],
    ["a cycle", cyclic, '{"a":1,"self":"<circular>"}'],
    ["one object twice", [{ a: 1 }, { a: 1 }], '[{"a":1},{"a":1}]'],
    ["dates", { at: new Date(0) }, '{"at":"1970-01-01T00:00:00.000Z"}'],
    [
      "a map",
      new Map<unknown, unknown>([
        ["a", new Set([1])],
        [2, "b"]
      ]),
      '{"2":"b","a":[1]}'
    ],
    ["an address", { at: new URL("http://127.0.0.1/x") }, '{"at":"http://127.0.0.1/x"}'],
    ["an error", { error: new RangeError("too far") }, '{"error":{"name":"RangeError","message":"too far"}}'],
    ["bytes", { bytes: new Uint8Array(3) }, '{"bytes":"<3 bytes>"}'],
    [
      "bytes of Node",
      { bytes: Buffer.from("abc"), raw: new ArrayBuffer(2) },
      '{"bytes":"<3 bytes>","raw":"<2 bytes>"}'
    ],
    ["functions inside", { a: 1, f: () => 1 }, '{"a":1}'],
    ["a getter that throws", { inner: unreadable }, '{"inner":"<unreadable>"}'],
    ["a proxy that throws", [proxy], '["<unreadable>"]'],
    [
      "an instance",
      new (class {
        a = 1
      })(),
      '{"a":1}'
    ]
  ]
  for (const [what, output, text] of cases) {
    it(`reaches the model as JSON: ${what}`, async () =>
      assert.deepStrictEqual(await returning(output), { status: "ok", output: text }))
  }
})

describe("what a function throws", () => {
  const cases: ReadonlyArray<readonly [what: string, error: unknown, message: string]> = [
    ["an error", new Error("no such thing"), "no such thing"],
    ["an error without a message", new TypeError(), "TypeError"],
    ["text", "gone", "gone"],
    ["nothing", undefined, "undefined"],
    ["an object", { code: 5 }, '{"code":5}'],
    ["an object without a prototype", Object.create(null), "{}"],
    ["a bigint", 5n, "5"]
  ]
  for (const [what, error, message] of cases) {
    it(`is an error result for the model: ${what}`, async () => {
      const { output, status } = await throwing(error)
      assert.deepStrictEqual([status, JSON.parse(output)], ["error", { error: `Error executing tool 't': ${message}` }])
    })
  }
})

describe("the one error", () => {
  it("can be told by its class and its tag, and be written down without its cause", async () => {
    await using hermes = createHermes({ model: { provider: "anthropic", model: "claude-sonnet-4-6" } })
    const error: unknown = await hermes.run("Go.").catch((given: unknown) => given)
    assert.isTrue(error instanceof HermesError && error instanceof Error)
    if (!(error instanceof HermesError)) return
    const message = "model: no API key for anthropic. Set model.apiKey"
    assert.deepStrictEqual([error.tag, error._tag, error.message], ["ConfigError", "ConfigError", message])
    assert.deepStrictEqual(JSON.parse(JSON.stringify({ error })), {
      error: { name: "HermesError", tag: "ConfigError", message }
    })
    assert.strictEqual(structuredClone(error).message, message)
    assert.isDefined(error.cause)
    assert.match(error.stack ?? "", /HermesError: model: no API key/)
  })

  it("names the option of a list of models by its place in the list", async () => {
    const first = { provider: "anthropic", model: "claude-sonnet-4-6", apiKey: "k" }
    for (const [second, message] of [
      [{ provider: "openai", model: "gpt-5" }, /^model\[1\]: no API key for openai\. Set model\[1\]\.apiKey$/u],
      [first, /^model\[1\] repeats model\[0\], anthropic \(claude-sonnet-4-6\), with the same key\. Remove it$/u]
    ] as const) {
      await using hermes = createHermes({ model: [first, second] })
      const error: unknown = await hermes.run("Go.").catch((given: unknown) => given)
      assert.match(error instanceof HermesError ? error.message : "", message)
    }
  })

  it("is what a listener throws, with that as its cause", async () => {
    await using hermes = createHermes({ model: "offline" })
    const thrown = new Error("the listener broke")
    const fails = (): never => {
      throw thrown
    }
    for (const onEvent of [fails, async () => fails()]) {
      const error: unknown = await hermes.run({ prompt: "Reply exactly a", onEvent }).catch((given: unknown) => given)
      assert.instanceOf(error, HermesError)
      assert.deepStrictEqual([error.tag, error.message, error.cause], ["Unexpected", "the listener broke", thrown])
    }
  })

  it("says what is wrong with settings and input that are not type-checked", async () => {
    const given = (value: unknown): never => value as never
    const settings: ReadonlyArray<readonly [unknown, string]> = [
      [
        {},
        'model: expected { provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'
      ],
      [
        { model: "gpt-5" },
        'model: expected { provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'
      ],
      [
        { model: "offline", tools: [{}] },
        "tools[0] is not a tool: make it by tool({ … }), or give a toolset of the package"
      ]
    ]
    for (const [options, message] of settings) assert.throws(() => createHermes(given(options)), message)
    await using hermes = createHermes({ model: "offline" })
    for (const input of [undefined, null, 5, {}, { prompt: 5 }, { prompt: "" }]) {
      const error: unknown = await hermes.run(given(input)).catch((thrown: unknown) => thrown)
      assert.instanceOf(error, HermesError)
      assert.strictEqual(error.tag, "InvalidInput")
    }
  })
})
