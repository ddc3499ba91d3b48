// Retries, contexts, sub-agents, listeners and middleware of the promise facade, as plain values.
import { assert, describe, it } from "vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as AiError from "effect/ai/AiError"
import * as z from "zod"
import {
  createHermes,
  type Hermes,
  HermesError,
  type HermesOptions,
  type ModelFailure,
  tool,
  type ToolCall
} from "../../../src/kit/entry/promise.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Scripted from "../../../src/models/provider/Scripted.ts"

interface User {
  readonly user: string
}

const whoami = tool({
  name: "whoami",
  description: "Name of the user",
  readonly: true,
  input: z.object({}),
  execute: (_, { context }: ToolCall<User>) => context.user
})

const remove = tool({
  name: "remove",
  description: "Removes a thing",
  needsApproval: true,
  input: z.object({ id: z.string() }),
  execute: ({ id }) => `removed ${id}`
})

const callOf = (name: string, params: object = {}) => Scripted.complete({ toolCalls: [{ id: "c1", name, params }] })

const overloaded = Scripted.fail(new AiError.InternalProviderError({ description: "overloaded" }))

const errorOf = async (promise: Promise<unknown>): Promise<HermesError> => {
  const error: unknown = await promise.then(
    () => undefined,
    (given: unknown) => given
  )
  assert.instanceOf(error, HermesError)
  return error as HermesError
}

/** Makes a runtime on scripted turns; `calls` are its model calls so far. */
const make = <Context = unknown>(
  turns: ReadonlyArray<Scripted.Turn>,
  options: Omit<HermesOptions<Context>, "model">
) => {
  const { inspection, provider } = Effect.runSync(Scripted.make(turns))
  const hermes: Hermes<Context> = createHermes<Context>({ ...options, model: Layer.succeed(Provider, provider) })
  return { hermes, calls: () => Effect.runPromise(inspection.calls) }
}

describe("retries", () => {
  it("are limited by a number, with waits in seconds", async () => {
    const { calls, hermes } = make([overloaded, Scripted.complete("hello")], { retry: { attempts: 2, wait: 0.001 } })
    assert.strictEqual((await hermes.run("hi")).text, "hello")
    assert.lengthOf(await calls(), 2)
    await hermes.dispose()
    const other = make([overloaded, Scripted.complete("never")], { retry: { attempts: 1 } })
    assert.strictEqual((await errorOf(other.hermes.run("hi"))).tag, "AiError")
    await other.hermes.dispose()
  })

  it("are decided by a function of the failure, also for one run", async () => {
    const failures: Array<ModelFailure> = []
    const retry = (failure: ModelFailure) => {
      failures.push(failure)
      return failure.attempt < 3 ? 0 : undefined
    }
    const { hermes } = make([overloaded, overloaded, overloaded, overloaded, Scripted.complete("ok")], { retry })
    await errorOf(hermes.run("hi"))
    assert.deepStrictEqual(
      failures.map(({ attempt, elapsed, isRetryable, reason }) => [attempt, typeof elapsed, isRetryable, reason]),
      [1, 2, 3].map((attempt) => [attempt, "number", true, failures[0]?.reason])
    )
    assert.strictEqual((await hermes.run({ prompt: "hi", retry: { attempts: 2, wait: 0 } })).text, "ok")
    await hermes.dispose()
  })

  it("of a function that returns no number end the run with the name of the option", async () => {
    const { hermes } = make([overloaded], { retry: () => Number.NaN })
    const { message, tag } = await errorOf(hermes.run("hi"))
    assert.deepStrictEqual(
      [tag, message],
      ["ConfigError", "retry: the function must return a number of seconds, or undefined to stop"]
    )
    await hermes.dispose()
  })

  it("and fallbacks are checked, with each mistake", () => {
    const invalid = { model: "offline", retry: { attempts: 0, waits: 1 }, fallback: { leave: "never" } }
    assert.throws(
      () => createHermes(invalid as never),
      "retry.attempts: expected a whole number, 1 or more; retry.waits: no such option of retry; did you mean wait?; " +
        "fallback.leave: expected a function"
    )
  })
})

describe("the context of a run", () => {
  it("is read by tools, middleware, listeners and approvals, by reference, streamed too", async () => {
    const seen: Array<unknown> = []
    const context = { user: "Ann" }
    const turns = [callOf("whoami"), callOf("remove", { id: "7" }), Scripted.complete("done")]
    const { hermes } = make<User>([...turns, ...turns], {
      tools: [whoami, remove],
      approve: (_, scope) => {
        seen.push(scope.context)
        return true
      },
      on: {
        post_tool_call: ({ result, tool_name }, scope) => {
          if (tool_name === "whoami") assert.include(result, "Ann")
          seen.push(scope.context)
        }
      },
      middleware: {
        llm_request: (_, scope) => void seen.push(scope.context),
        tool_execution: async ({ next_call }, scope) => {
          seen.push(scope.context)
          return await next_call()
        },
        wrap_model_call: async ({ next_call }, scope) => {
          seen.push(scope.context)
          return await next_call()
        },
        lifecycle: { name: "count", use: { before_model: () => void seen.push(context) } }
      }
    })
    assert.strictEqual((await hermes.run({ prompt: "who?", context })).text, "done")
    const count = seen.length
    // Three model calls with three functions, two tools with two functions, one approval.
    assert.deepStrictEqual([count, seen.every((one) => one === context)], [14, true])
    for await (const event of hermes.stream({ prompt: "who?", context })) void event
    assert.deepStrictEqual([seen.length, seen.every((one) => one === context)], [28, true])
    await hermes.dispose()
  })

  it("is given to a tool that is called outside of a run", async () => {
    const { hermes } = make<User>([], { tools: [whoami] })
    assert.deepInclude(await hermes.callTool("whoami", {}, { context: { user: "Bo" } }), { output: "Bo" })
    assert.isTrue((await hermes.callTool("whoami", {})).isFailure)
    assert.isTrue((await hermes.callTool("nothing", {})).isFailure)
    await hermes.dispose()
  })
})

describe("sub-agents", () => {
  it("have their instructions, their tools and the context of the run", async () => {
    const { calls, hermes } = make<User>(
      [
        Scripted.complete({ toolCalls: [{ name: "Agent", params: { name: "clerk", message: "Who is it?" } }] }),
        callOf("whoami"),
        Scripted.complete("It is Ann."),
        Scripted.complete("Ann.")
      ],
      { agents: [{ name: "clerk", description: "Knows the user", instructions: "Be a clerk.", tools: [whoami] }] }
    )
    const { text } = await hermes.run({ prompt: "who?", context: { user: "Ann" } })
    const [first, child, childAgain, last] = await calls()
    await hermes.dispose()
    assert.strictEqual(text, "Ann.")
    const names = [first, child].map((call) => (call?.tools ?? []).map(({ name }) => name))
    assert.deepStrictEqual(names, [["Agent"], ["whoami"]])
    assert.include(JSON.stringify(child?.messages[0]), "Be a clerk.")
    assert.include(JSON.stringify(childAgain?.messages.at(-1)), "Ann")
    assert.include(JSON.stringify(last?.messages.at(-1)), "It is Ann.")
  })

  it("are checked, with the place of each mistake", () => {
    const invalid = [
      { name: "a", instruction: "x" },
      { name: "a", tools: [3], model: 7 },
      { name: "b", tools: [3], model: 7 }
    ]
    assert.throws(
      () => createHermes({ model: "offline", agents: invalid as never }),
      "agents[0].instruction: no such option of an agent; did you mean instructions?; " +
        'agents[1]: another agent has the name "a": give each its own; ' +
        "agents[2].tools[0]: expected the name of a tool, or tool({ … }); " +
        'agents[2].model: expected { provider, model, apiKey } or "provider/model"'
    )
    assert.throws(
      () => createHermes({ model: "offline", agents: [{ name: "a", model: { provider: "anthropic", model: "c" } }] }),
      "agents[0].model: no API key for anthropic. Set agents[0].model.apiKey"
    )
  })
})

describe("tools of one run", () => {
  it("are selected by names, and an unknown name is refused", async () => {
    const { calls, hermes } = make([Scripted.complete("1"), Scripted.complete("2"), Scripted.complete("3")], {
      tools: [remove, tool({ name: "look", description: "Looks", input: z.object({}), execute: () => 1 })]
    })
    await hermes.run({ prompt: "hi", tools: ["look"] })
    await hermes.run({ prompt: "hi", tools: [] })
    await hermes.run({ prompt: "hi" })
    const names = (await calls()).map(({ tools }) => (tools ?? []).map(({ name }) => name))
    assert.deepStrictEqual(names, [["look"], [], ["remove", "look"]])
    assert.strictEqual(
      (await errorOf(hermes.run({ prompt: "hi", tools: ["lok"] }))).message,
      'tools: no tool or toolset has the name "lok"; did you mean look?'
    )
    await hermes.dispose()
  })
})

describe("listeners with options", () => {
  it("are called in order, and a guard that fails closed blocks its call", async () => {
    const seen: Array<string> = []
    const guard = () => {
      throw new Error("no luck")
    }
    const { hermes } = make([callOf("look"), Scripted.complete("done")], {
      tools: [tool({ name: "look", description: "Looks", input: z.object({}), execute: () => seen.push("run") })],
      hookLimits: { answerTimeout: 5, payloadMaxChars: 1_000 },
      on: {
        pre_tool_call: { listener: guard, name: "guard", onFailure: "closed", timeout: 1 },
        post_tool_call: [() => void seen.push("first"), { listener: ({ status }) => void seen.push(status) }]
      }
    })
    await hermes.run("look")
    await hermes.dispose()
    assert.deepStrictEqual(seen, ["first", "blocked"])
  })
})

describe("other options of the facade", () => {
  it("output of the runtime types the value of each run, and a run may name another", async () => {
    const hermes = createHermes({
      model: Scripted.layer([Scripted.complete('{"n":1}'), Scripted.complete('{"value":"a"}')]),
      output: z.object({ n: z.number() })
    })
    const n: number = (await hermes.run("n?")).value.n
    const text: string = (await hermes.run({ prompt: "text?", output: z.string() })).value
    assert.deepStrictEqual([n, text], [1, "a"])
    await hermes.dispose()
  })

  it("prefill precedes each conversation, and the model of a run is checked", async () => {
    const { calls, hermes } = make([Scripted.complete("done")], {
      prefill: [
        { role: "user", content: "example" },
        { role: "assistant", content: "shown" }
      ]
    })
    await hermes.run("hi")
    const [first] = await calls()
    assert.deepStrictEqual(
      first?.messages.map(({ role }) => role),
      ["system", "user", "assistant", "user"]
    )
    assert.match(
      (await errorOf(hermes.run({ prompt: "hi", model: { provider: "anthropic", model: "claude-x" } }))).message,
      /^model: no API key for anthropic/
    )
    await hermes.dispose()
  })

  it("sessions are compacted and ended", async () => {
    const ended: Array<string> = []
    const { hermes } = make([Scripted.complete("one")], {
      on: { on_session_finalize: ({ reason, session_id }) => void ended.push(`${session_id} ${reason}`) }
    })
    await hermes.run({ prompt: "hi", sessionId: "s1" })
    assert.strictEqual((await hermes.compactSession("s1")).sessionId, "s1")
    await hermes.endSession("s1", { reason: "session_boundary" })
    assert.deepStrictEqual(ended, ["s1 session_boundary"])
    await hermes.dispose()
  })
})
