// Each option of the facade with values that no program with type checks passes: the call works, or ends in one line.
import { assert, describe, it } from "vitest"
import * as z from "zod"
import {
  createHermes,
  HermesError,
  type HermesInput,
  type HermesOptions,
  mcpHandler,
  tool
} from "../../../src/kit/entry/promise.ts"

const circle: Record<string, unknown> = {}
circle["self"] = circle

const refuse = (): never => {
  throw new Error("a trap\nof two lines")
}
const { proxy: revoked, revoke } = Proxy.revocable({}, {})
revoke()

const hostile: ReadonlyArray<readonly [name: string, value: unknown]> = [
  ["null", null],
  ["NaN", Number.NaN],
  ["a bigint", 10n],
  ["a symbol", Symbol("s")],
  ["a list of a symbol", [Symbol("s")]],
  ["a date", new Date()],
  ["a map", new Map([[1, 2]])],
  ["no prototype", Object.assign(Object.create(null), { a: 1 })],
  ["a circle", circle],
  [
    "a getter",
    {
      get type() {
        return refuse()
      },
      get role() {
        return refuse()
      }
    }
  ],
  ["a proxy", new Proxy({}, { get: refuse, has: refuse, ownKeys: refuse, getPrototypeOf: refuse })],
  ["a revoked proxy", revoked],
  ["100 kB", "x".repeat(100_000)],
  ["an empty text", ""],
  ["holes", Object.assign([], { length: 2 })],
  ["many levels", JSON.parse("[".repeat(3_000) + "]".repeat(3_000))]
]

const options: { readonly [Name in keyof HermesOptions]-?: true } = {
  model: true,
  retry: true,
  fallback: true,
  tools: true,
  agents: true,
  delegation: true,
  output: true,
  prefill: true,
  on: true,
  hookLimits: true,
  approve: true,
  hosts: true,
  store: true,
  fetch: true,
  tenants: true,
  middleware: true,
  plugins: true,
  environment: true,
  platform: true,
  maxIterations: true,
  budget: true,
  cwd: true,
  identity: true,
  instructions: true,
  toolUseEnforcement: true,
  promptCache: true,
  promptCacheRoutes: true,
  keepTurnContext: true,
  passSessionId: true,
  stopTools: true,
  maxOutputTokens: true,
  questions: true,
  temperature: true,
  reasoningEffort: true,
  reviews: true,
  loopGuard: true,
  resultLimits: true
}

const inputs: { readonly [Name in keyof HermesInput]-?: true } = {
  prompt: true,
  history: true,
  output: true,
  model: true,
  retry: true,
  tools: true,
  context: true,
  signal: true,
  whenLeft: true,
  onEvent: true,
  onUsageAfter: true,
  sessionId: true,
  goesOn: true,
  expectedSession: true,
  openCalls: true,
  onInterrupt: true,
  source: true,
  platform: true,
  tenant: true,
  questions: true,
  systemPrompt: true,
  ephemeralSystemPrompt: true,
  cwd: true,
  stopTools: true,
  hasUnreadMessage: true,
  seed: true,
  maxIterations: true,
  budget: true,
  reasoningEffort: true,
  streaming: true,
  readsText: true
}

/** Returns what is wrong with the failure of a call; `undefined` for a call that works or fails in one line. */
const judge = async (call: () => unknown): Promise<string | undefined> => {
  try {
    await call()
    return undefined
  } catch (error) {
    if (!(error instanceof HermesError)) return `not a HermesError: ${String(error)}`
    const isGood = error.tag !== "Unexpected" && !error.message.includes("\n") && error.message.length < 500
    return isGood ? undefined : `${error.tag}: ${error.message.slice(0, 200)}`
  }
}

describe("hostile values", () => {
  for (const [name, value] of hostile)
    it(`such as ${name} are one line in each option and argument`, async () => {
      const wrong: Array<string> = []
      const check = async (place: string, call: () => unknown): Promise<void> => {
        const problem = await judge(call)
        if (problem !== undefined) wrong.push(`${place}: ${problem}`)
      }
      for (const option of Object.keys(options))
        await check(option, async () => {
          await using hermes = createHermes({ model: "offline", [option]: value } as HermesOptions)
          await hermes.run({ prompt: "Reply exactly hi", retry: { attempts: 1 } })
        })
      await using hermes = createHermes({ model: "offline" })
      for (const input of Object.keys(inputs))
        await check(`run ${input}`, () =>
          hermes.run({ prompt: "Reply exactly hi", retry: { attempts: 1 }, [input]: value } as HermesInput)
        )
      const text = { role: "user", content: [{ type: "text", text: value }] }
      const call = {
        role: "assistant",
        content: [{ type: "tool-call", toolCallId: value, toolName: "t", input: value }]
      }
      const result = { role: "tool", content: [{ type: "tool-result", toolCallId: value, output: value }] }
      for (const message of [
        value,
        { role: value, content: "x" },
        { role: "user", content: value },
        text,
        call,
        result
      ])
        await check("history", () => hermes.run({ prompt: "Reply exactly hi", history: [message] } as HermesInput))
      for (const part of [value, { type: value }, { type: "image", image: value }, { type: "file", data: value }])
        await check("part", () => hermes.run({ prompt: [part] } as HermesInput))
      // Hostile on purpose.
      const argument = value as never
      const methods = [
        () => hermes.run(argument),
        () => hermes.callTool(argument, argument, argument),
        () => hermes.stop(argument),
        () => hermes.readSession(argument),
        () => hermes.deleteSession(argument),
        () => hermes.listSessions(argument),
        () => hermes.compactSession(argument, argument),
        () => hermes.endSession("s", argument),
        () => hermes.runAll(["Reply exactly hi"], argument),
        () => hermes.runAll(argument),
        () => hermes.resume({ sessionId: "s", answers: argument }),
        () => hermes.resume({ sessionId: "s", answers: [argument] }),
        () => hermes.resume({ sessionId: "s", answers: [{ questionId: argument, answer: argument, by: argument }] }),
        () => hermes.questions(argument),
        () => hermes.activeRun(argument),
        () => hermes.watch(argument).next(),
        () => hermes.watch({ sessionId: argument, after: argument, signal: argument }).next(),
        () => hermes.watch({ sessionId: "s", after: argument }).next(),
        async () => (await mcpHandler(argument)).close(),
        async () => (await mcpHandler({ tools: argument })).close(),
        async () => (await mcpHandler({ tools: [argument] })).close(),
        async () => (await mcpHandler({ tools: [], name: argument, unattended: argument })).close(),
        () => createHermes(argument),
        () => tool(argument)
      ]
      for (const [index, method] of methods.entries()) await check(`method ${index}`, method)
      const good = { name: "t", description: "T", input: z.object({}), execute: () => 1 }
      for (const member of [...Object.keys(good), "parameters", "readonly", "needsApproval", "timeout"])
        await check(`tool ${member}`, () => tool({ ...good, [member]: value }))
      assert.deepStrictEqual(wrong, [])
    })

  it("of a tenant that is looked up never lift its limits", async () => {
    const wrong = [
      { id: "t", perDay: { tokens: "many" } },
      { id: "t", perDay: { tokens: Number.NaN } },
      { id: "t", perdya: {} },
      "t"
    ]
    for (const found of wrong) {
      // Hostile on purpose.
      await using hermes = createHermes({ model: "offline", tenants: () => found as never })
      const error = await hermes.run({ prompt: "Reply exactly hi", tenant: "t" }).catch((error: unknown) => error)
      assert.instanceOf(error, HermesError)
      assert.match(error.message, /^tenants: the function returned no valid tenant: tenant/u)
    }
  })

  it("of a batch start no more workers than inputs, and its inputs are read first", async () => {
    await using hermes = createHermes({ model: "offline" })
    const results = await hermes.runAll(["Reply exactly hi"], { concurrency: Number.MAX_SAFE_INTEGER })
    assert.deepStrictEqual(
      results.map(({ status }) => status),
      ["fulfilled"]
    )
    const inputs = function* () {
      yield "Reply exactly hi"
      throw new Error("no more")
    }
    const error = await hermes.runAll(inputs()).catch((error: unknown) => error)
    assert.deepInclude(error, { tag: "InvalidInput", message: "the inputs of the batch cannot be read: no more" })
    const text = await hermes.runAll("Reply exactly hi").catch((error: unknown) => error)
    assert.deepInclude(text, {
      tag: "InvalidInput",
      message: "the inputs of the batch are a text: give a list, such as [text]"
    })
  })
})
