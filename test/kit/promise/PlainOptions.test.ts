// Options and inputs of programs that no compiler checked: each mistake is one typed error that names the place, and
// nothing is ignored.
import { assert, describe, it } from "vitest"
import * as z from "zod"
import { createHermes, type Hermes, HermesError, tool } from "../../../src/kit/entry/promise.ts"

const refusal = (make: () => unknown): string => {
  try {
    make()
  } catch (error) {
    assert.instanceOf(error, HermesError)
    return `${error.tag}: ${error.message}`
  }
  return "nothing was thrown"
}

const rejection = async (promise: Promise<unknown>): Promise<string> => {
  const error: unknown = await promise.then(
    () => undefined,
    (given: unknown) => given
  )
  assert.instanceOf(error, HermesError)
  return `${error.tag}: ${error.message}`
}

/** A function as a program in JavaScript calls it. */
const unchecked = (make: (...args: Array<never>) => unknown) => make as (...args: ReadonlyArray<unknown>) => unknown

const model = "offline"
const good = { name: "t", description: "T", input: z.object({}), execute: () => 1 }

describe("createHermes, unchecked", () => {
  const cases: ReadonlyArray<readonly [title: string, options: unknown, expected: string]> = [
    ["nothing", undefined, "ConfigError: createHermes takes an object of options, at least { model }"],
    ["a text", "offline", "ConfigError: createHermes takes an object of options, at least { model }"],
    [
      "no model",
      {},
      'ConfigError: model: expected { provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'
    ],
    [
      "the name of a model",
      { model: "gpt-5" },
      'ConfigError: model: expected { provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'
    ],
    [
      "the name of another library's option",
      { model: { provider: "openai", model: "m", baseURL: "http://x" } },
      "ConfigError: model.baseURL: no such option of a model; did you mean baseUrl?"
    ],
    [
      "a list with half a model",
      { model: [{ model: "m" }, { provider: "openai", apiKey: 3 }] },
      "ConfigError: model[1].model: expected a text; model[1].apiKey: expected a key, or a list of keys"
    ],
    [
      "no models",
      { model: [] },
      'ConfigError: model: expected { provider, model, apiKey }, a list of them, "provider/model", "offline", or a layer of a provider'
    ],
    [
      "a misspelt option",
      { model, instruction: "Be brief." },
      "ConfigError: instruction: no such option of createHermes; did you mean instructions?"
    ],
    ["an option of something else", { model, verbose: true }, "ConfigError: verbose: no such option of createHermes"],
    [
      "several mistakes",
      { model, verbose: true, cwd: 3 },
      "ConfigError: verbose: no such option of createHermes; cwd: expected a text"
    ],
    ["tools that are no list", { model, tools: {} }, "ConfigError: tools: expected a list"],
    [
      "no tool",
      { model, tools: [null] },
      "ConfigError: tools[0] is not a tool: make it by tool({ … }), or give a toolset of the package"
    ],
    [
      "two tools of one name",
      { model, tools: [tool(good), tool(good)] },
      'ConfigError: tools[1]: another tool has the name "t": give each its own'
    ],
    [
      "a listener that is no function",
      { model, on: { on_session_end: "log" } },
      "ConfigError: on.on_session_end: expected a function"
    ],
    [
      "a hook that does not exist",
      { model, on: { on_sesion_end: () => {} } },
      "ConfigError: on.on_sesion_end: no such hook; did you mean on_session_end?"
    ],
    ["an answer instead of a function", { model, approve: true }, "ConfigError: approve: expected a function"],
    [
      "a path as store",
      { model, store: "state.db" },
      'ConfigError: store: expected "memory", "none", { sqlite: path } or { postgres: url }'
    ],
    [
      "a number of steps as text",
      { model, maxIterations: "10" },
      "ConfigError: maxIterations: expected a whole number, 1 or more"
    ],
    ["no steps", { model, maxIterations: 0 }, "ConfigError: maxIterations: expected a whole number, 1 or more"],
    [
      "an effort that does not exist",
      { model, reasoningEffort: "max" },
      "ConfigError: reasoningEffort: expected one of none, minimal, low, medium, high, xhigh"
    ],
    [
      "an unknown limit",
      { model, budget: { dollar: 3 } },
      "ConfigError: budget.dollar: no such limit; did you mean dollars?"
    ],
    [
      "a limit that is no number",
      { model, budget: { dollars: "3" } },
      "ConfigError: budget.dollars: expected a number, 0 or more"
    ]
  ]
  for (const [title, options, expected] of cases) {
    it(`refuses ${title}`, () =>
      assert.strictEqual(
        refusal(() => unchecked(createHermes)(options)),
        expected
      ))
  }

  it("takes options that are undefined as absent", async () => {
    await using hermes = createHermes({
      model,
      instructions: undefined,
      tools: undefined,
      on: { on_session_end: undefined },
      budget: { dollars: undefined }
    })
    assert.strictEqual((await hermes.run("Reply exactly hello")).text, "hello")
  })
})

describe("a run, unchecked", () => {
  const cases: ReadonlyArray<readonly [title: string, input: unknown, expected: string]> = [
    ["nothing", undefined, "InvalidInput: the prompt is missing: give a text, or { prompt }"],
    ["another name for the prompt", { promt: "Hi" }, "InvalidInput: the prompt is missing: give a text, or { prompt }"],
    [
      "a misspelt option",
      { prompt: "Hi", sesionId: "s" },
      "InvalidInput: sesionId: no such option of a run; did you mean sessionId?"
    ],
    [
      "an id that is no text",
      { prompt: "Hi", sessionId: 7 },
      "InvalidInput: sessionId: expected a text that is not empty"
    ],
    ["no signal", { prompt: "Hi", signal: new AbortController() }, "InvalidInput: signal: expected an AbortSignal"],
    ["a listener that is no function", { prompt: "Hi", onEvent: [] }, "InvalidInput: onEvent: expected a function"],
    [
      "a wrong treatment of calls",
      { prompt: "Hi", openCalls: "ask" },
      "InvalidInput: openCalls: expected one of close, run"
    ]
  ]
  for (const [title, input, expected] of cases) {
    it(`refuses ${title}, and the runtime stays usable`, async () => {
      await using hermes: Hermes = createHermes({ model })
      const run = unchecked(hermes.run)
      assert.strictEqual(await rejection(Promise.resolve(run(input))), expected)
      assert.strictEqual(
        refusal(() => unchecked(hermes.stream)(input)),
        expected
      )
      assert.strictEqual((await hermes.run("Reply exactly hello")).text, "hello")
    })
  }
})

describe("tool, unchecked", () => {
  const cases: ReadonlyArray<readonly [title: string, options: unknown, expected: string]> = [
    ["nothing", undefined, "ConfigError: tool takes an object: { name, description, input, execute }"],
    ["no name", { ...good, name: undefined }, "ConfigError: a tool: name: expected a text"],
    ["no description", { ...good, description: undefined }, 'ConfigError: tool "t": description: expected a text'],
    ["no function", { ...good, execute: undefined }, 'ConfigError: tool "t": execute: expected a function'],
    [
      "a misspelt option",
      { ...good, needsAproval: true },
      'ConfigError: tool "t": needsAproval: no such option of a tool; did you mean needsApproval?'
    ],
    [
      "a time that is no number",
      { ...good, timeout: "3s" },
      'ConfigError: tool "t": timeout: expected a number, more than 0'
    ]
  ]
  for (const [title, options, expected] of cases) {
    it(`refuses ${title}`, () =>
      assert.strictEqual(
        refusal(() => unchecked(tool)(options)),
        expected
      ))
  }
})
