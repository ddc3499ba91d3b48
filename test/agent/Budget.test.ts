import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Budget from "../../src/agent/Budget.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Nap = Tool.make("nap", {
  description: "Sleeps",
  parameters: Schema.Struct({ seconds: Schema.Finite }),
  success: Schema.Finite
}).annotate(Tool.Readonly, true)
const Code = Tool.make("execute_code", { description: "Stands in for scripts", success: Schema.String })

const toolkit = Toolkit.make(Echo, Nap, Code)
const handlers = toolkit.toLayer({
  echo: ({ text }) => Effect.succeed(text),
  nap: ({ seconds }) => Effect.as(Effect.sleep(seconds * 1000), seconds),
  execute_code: () => Effect.succeed("ran")
})

const setup = (fake: Fake.Fake, settings: AgentSettings = {}, router = fake.router) =>
  Agent.layer({ cwd: "/tmp", identity: "You are a test.", ...settings }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers), Delegate.toolset])
      )
    )
  )

/** The same turns from a model whose price is known: 0.000175 dollars for each answer. */
const priced = ({ provider }: Fake.Fake) =>
  ModelRouter.layer.pipe(
    Layer.provide(
      Layer.succeed(Provider, {
        ...provider,
        info: { provider: "anthropic", model: "claude-opus-4.6", apiMode: "anthropic_messages", baseUrl: undefined }
      })
    )
  )

const echo = (id: string) => Fake.call(id, "echo", { text: id })

const textOf = (message: Prompt.Message | undefined): string =>
  message === undefined || typeof message.content === "string"
    ? String(message?.content)
    : message.content.map((part) => (part.type === "text" ? part.text : part.type)).join("")

const results = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) =>
          part.type === "tool-result" ? [[part.id, String(part.result)] as const] : []
        )
      : []
  )

describe("the budget of a run", () => {
  it.effect("tokens: no step begins when they are used up, and the last word is a summary without tools", () => {
    // A call of the fake model takes 15 tokens.
    const fake = Fake.make(Fake.calls(echo("c1")), Fake.calls(echo("c2")), Fake.text("what I found"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { tokens: 30 } })
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "tokens", text: "what I found", steps: 2 })
      assert.strictEqual(result.usage.requestCount, 3)
      assert.deepStrictEqual(fake.asked[2]?.tools, [])
      assert.match(textOf(fake.asked[2]?.messages.at(-1)), /^The number of tokens for this request is used up/)
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("a run that answers in the step that uses everything up is a completed one", () => {
    const fake = Fake.make(Fake.text("done"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { tokens: 1 } })
      assert.deepInclude(result, { exit: "text_response", text: "done" })
      assert.notProperty(result, "limit")
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("money: no step begins when it is spent", () => {
    const fake = Fake.make(Fake.calls(echo("c1")), Fake.calls(echo("c2")), Fake.text("all spent"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { dollars: 0.00035 } })
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "cost", text: "all spent", steps: 2 })
      assert.strictEqual(result.cost.usd, 0.000525)
    }).pipe(Effect.provide(setup(fake, {}, priced(fake))))
  })

  it.effect("money: what has no price does not count, and the user is told so once", () => {
    const fake = Fake.make(Fake.calls(echo("c1")), Fake.text("done"))
    return Effect.gen(function* () {
      const events: Array<RunEvent> = []
      const onEvent = (more: ReadonlyArray<RunEvent>) => Effect.sync(() => void events.push(...more))
      const result = yield* Agent.run({ prompt: "go", budget: { dollars: 0.00000001 }, onEvent })
      assert.deepInclude(result, { exit: "text_response", text: "done" })
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "Notice" ? [event.message] : [])),
        ["The price of fake-1 is unknown: its calls do not count towards the money limit of this run"]
      )
      events.length = 0
      yield* Agent.run({ prompt: "go", onEvent })
      assert.isFalse(
        events.some(({ _tag }) => _tag === "Notice"),
        "no limit, no notice"
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("tool calls: those above the limit are not run, and the run ends with their step", () => {
    const fake = Fake.make(Fake.calls(echo("c1"), echo("c2"), echo("c3")), Fake.text("two of three"))
    return Effect.gen(function* () {
      const events: Array<RunEvent> = []
      const result = yield* Agent.run({
        prompt: "go",
        budget: { toolCalls: 2 },
        onEvent: (more) => Effect.sync(() => void events.push(...more))
      })
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "tool_calls", text: "two of three", steps: 1 })
      const [c1, c2, c3] = results(fake.asked[1]?.messages ?? [])
      assert.deepStrictEqual(
        [c1, c2],
        [
          ["c1", "c1"],
          ["c2", "c2"]
        ]
      )
      assert.match(String(c3?.[1]), /not run: the tool calls of this request are used up/)
      assert.sameDeepMembers(
        events.flatMap((event) => (event._tag === "ToolFinished" ? [[event.callId, event.status]] : [])),
        [
          ["c1", "ok"],
          ["c2", "ok"],
          ["c3", "cancelled"]
        ]
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("tool calls: a model that stops in time is a completed run", () => {
    const fake = Fake.make(Fake.calls(echo("c1"), echo("c2")), Fake.text("done"))
    return Effect.gen(function* () {
      assert.deepInclude(yield* Agent.run({ prompt: "go", budget: { toolCalls: 2 } }), {
        exit: "text_response",
        text: "done"
      })
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("time: cuts a step that is under way, keeps what was done, and closes every call", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "nap", { seconds: 2 }), Fake.call("c2", "nap", { seconds: 100 })),
      Fake.text("one nap")
    )
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "sleep", budget: { seconds: 10 } }))
      yield* TestClock.adjust("10 seconds")
      const result = yield* Fiber.join(fiber)
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "time", text: "one nap", steps: 1 })
      const [c1, c2] = results(fake.asked[1]?.messages ?? [])
      assert.deepStrictEqual(c1, ["c1", "2"])
      assert.match(String(c2?.[1]), /cancelled/i)
      const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
      assert.deepStrictEqual(
        stored.map(({ role }) => role),
        ["user", "assistant", "tool", "tool", "assistant"]
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("time: cuts an answer that is streaming, and keeps its text", () => {
    const fake = Fake.make(
      (request, options) => Effect.andThen(Fake.pieces("half an ", "answer")(request, options), Effect.never),
      Fake.text("the rest in short")
    )
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "talk", budget: { seconds: 10 }, streaming: true }))
      yield* TestClock.adjust("10 seconds")
      const result = yield* Fiber.join(fiber)
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "time", text: "the rest in short" })
      assert.deepStrictEqual((yield* (yield* SessionStore.SessionStore).messages(result.sessionId)).map(textOf), [
        "talk",
        "half an answer",
        "the rest in short"
      ])
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("time: the model is told once when four fifths are gone, and the transcript is not", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "nap", { seconds: 79 })),
      Fake.calls(Fake.call("c2", "nap", { seconds: 2 })),
      Fake.calls(Fake.call("c3", "nap", { seconds: 2 })),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "sleep", budget: { seconds: 100 } }))
      yield* TestClock.adjust("90 seconds")
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(result.exit, "text_response")
      const told = fake.asked.map(
        ({ messages }) => messages.filter((message) => /seconds are left/.test(textOf(message))).length
      )
      assert.deepStrictEqual(told, [0, 0, 1, 1])
      assert.match(textOf(fake.asked[2]?.messages.at(-1)), /About 19 seconds are left/)
      const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
      assert.deepStrictEqual(
        stored.filter((message) => /seconds are left/.test(textOf(message))),
        []
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("time: a summary that takes too long is left out", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "nap", { seconds: 100 })), () => Effect.never)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "sleep", budget: { seconds: 10 } }))
      yield* TestClock.adjust("10 seconds")
      yield* TestClock.adjust("30 seconds")
      const result = yield* Fiber.join(fiber)
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "time" })
      assert.match(result.text, /the time for the request is used up, and the summary took too long/)
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("T106 a round of execute_code alone is not counted; one with another tool is", () => {
    const code = (id: string) => Fake.call(id, "execute_code", {})
    const alone = Fake.make(Fake.calls(code("c1")), Fake.calls(code("c2")), Fake.text("done"))
    const mixed = Fake.make(Fake.calls(code("c1"), echo("c2")), Fake.calls(code("c3")), Fake.text("summary"))
    return Effect.gen(function* () {
      const first = yield* Agent.run({ prompt: "go", maxIterations: 2 }).pipe(Effect.provide(setup(alone)))
      assert.deepInclude(first, { exit: "text_response", text: "done", steps: 3 })
      const second = yield* Agent.run({ prompt: "go", maxIterations: 1 }).pipe(Effect.provide(setup(mixed)))
      assert.deepInclude(second, { exit: "max_iterations_reached", limit: "iterations", steps: 1 })
    })
  })

  it.effect("scripts that are run for ever end too: there are as many refunds as model calls", () => {
    let count = 0
    const fake = Fake.make((request, options) =>
      request["messages"] === undefined
        ? Effect.die("no request")
        : Fake.calls(Fake.call(`c${count++}`, "execute_code", {}))(request, options)
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", maxIterations: 3 })
      assert.deepInclude(result, { exit: "max_iterations_reached", steps: 6 })
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("T151 three calls with tools, then one without; the run is not a completed one", () => {
    let count = 0
    const fake = Fake.make(...Array.from({ length: 3 }, () => Fake.calls(echo(`c${count++}`))), Fake.text("summary"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", maxIterations: 3 })
      assert.deepInclude(result, { exit: "max_iterations_reached", text: "summary", steps: 3 })
      assert.deepStrictEqual(
        fake.asked.map(({ tools }) => tools.length > 0),
        [true, true, true, false]
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("T152 a summary that is blank twice is replaced by a fixed text, after one more try", () => {
    const fake = Fake.make(Fake.calls(echo("c1")), Fake.text("  "), Fake.text(""))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", maxIterations: 1 })
      assert.strictEqual(fake.asked.length, 3)
      assert.strictEqual(
        result.text,
        "Stopped after 1 model call without a final answer: the number of model calls for the request is used up. " +
          "Raise agent.max_turns (--max-turns), or continue the session."
      )
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("T152 a blank summary is asked for once more", () => {
    const fake = Fake.make(Fake.calls(echo("c1")), Fake.text(" "), Fake.text("second try"))
    return Effect.gen(function* () {
      assert.strictEqual((yield* Agent.run({ prompt: "go", maxIterations: 1 })).text, "second try")
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("the limits of an agent hold for its runs, and a run may have others", () => {
    const fake = () => Fake.make(Fake.calls(echo("c1")), Fake.text("summary"))
    const own = fake()
    const other = fake()
    return Effect.gen(function* () {
      const settings = { budget: { tokens: 15 } }
      assert.deepInclude(yield* Effect.provide(Agent.run({ prompt: "go" }), setup(own, settings)), { limit: "tokens" })
      assert.deepInclude(
        yield* Effect.provide(Agent.run({ prompt: "go", budget: { tokens: 1000 } }), setup(other, settings)),
        { exit: "text_response" }
      )
    })
  })

  it.effect("what children use counts for the parent, and ends them and it", () => {
    const delegate = Fake.call("d1", "delegate_task", { goal: "look around" })
    // Parent 15, child 15 and 15: 45 of 45.
    const fake = Fake.make(
      Fake.calls(delegate),
      Fake.calls(echo("c1")),
      Fake.calls(echo("c2")),
      Fake.text("child's summary"),
      Fake.text("parent's summary")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { tokens: 45 } })
      assert.deepInclude(result, { exit: "budget_exhausted", limit: "tokens", text: "parent's summary", steps: 1 })
      assert.strictEqual(result.usage.requestCount, 5)
      const report = String(results(fake.asked[4]?.messages ?? [])[0]?.[1])
      assert.include(report, '"exit_reason":"budget_exhausted"')
      assert.include(report, '"status":"partial"')
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("tool calls of children count for the parent", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("d1", "delegate_task", { goal: "look around" })),
      Fake.calls(echo("c1")),
      Fake.calls(echo("c2")),
      Fake.text("child's summary"),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { toolCalls: 2 } })
      assert.deepInclude(result, { exit: "text_response", text: "done" })
      assert.match(results(fake.asked[3]?.messages ?? []).at(-1)?.[1] ?? "", /not run/)
      assert.include(String(results(fake.asked[4]?.messages ?? [])[0]?.[1]), '"exit_reason":"budget_exhausted"')
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect("children have their parent's limits, not those of the agent that it goes beyond", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("d1", "delegate_task", { goal: "look around" })),
      Fake.calls(echo("c1")),
      Fake.text("child is done"),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", budget: { tokens: 1000 } })
      assert.strictEqual(result.exit, "text_response")
      assert.include(String(results(fake.asked[3]?.messages ?? [])[0]?.[1]), '"exit_reason":"completed"')
    }).pipe(Effect.provide(setup(fake, { budget: { tokens: 15 } })))
  })

  it.effect("the summary has the usual room for its answer, whatever the last step was given", () => {
    const cut: Fake.Turn = () => Effect.succeed(Fake.answer([Response.makePart("text", { text: "half" })], "length"))
    const fake = Fake.make(cut, Fake.text("summary"))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go", maxIterations: 1 })
      assert.isUndefined(fake.asked[1]?.maxOutputTokens)
    }).pipe(Effect.provide(setup(fake)))
  })

  it.effect(
    "time: calls that were closed with the step are not closed again when the run is stopped in its summary",
    () => {
      const fake = Fake.make(Fake.calls(Fake.call("c1", "nap", { seconds: 100 })), () => Effect.never)
      return Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const fiber = yield* Effect.forkChild(agent.run({ prompt: "sleep", sessionId: "s1", budget: { seconds: 10 } }))
        yield* TestClock.adjust("11 seconds")
        assert.isTrue(yield* agent.stop("s1"))
        const result = yield* Fiber.join(fiber)
        const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
        assert.deepStrictEqual(
          stored.map(({ role }) => role),
          ["user", "assistant", "tool"]
        )
      }).pipe(Effect.provide(setup(fake)))
    }
  )

  it.effect("model calls of children are their own", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("d1", "delegate_task", { goal: "look around" })),
      Fake.calls(echo("c1")),
      Fake.calls(echo("c2")),
      Fake.text("child is done"),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      assert.deepInclude(yield* Agent.run({ prompt: "go", maxIterations: 2 }), {
        exit: "text_response",
        text: "done",
        steps: 2
      })
    }).pipe(Effect.provide(setup(fake)))
  })
})

describe("Budget", () => {
  const ledger = (limits: Budget.Limits, startedAt = 0, parent?: Budget.Budget) =>
    Budget.make({ iterations: 9, limits, parent, startedAt })

  it("has the time of whoever runs out first", () => {
    const parent = ledger({ seconds: 10 })
    assert.strictEqual(Budget.computeMillisLeft(ledger({ seconds: 100 }, 1_000, parent), 4_000), 6_000)
    assert.strictEqual(Budget.computeMillisLeft(ledger({ seconds: 2 }, 1_000, parent), 2_000), 1_000)
    assert.strictEqual(Budget.computeMillisLeft(ledger({}, 1_000, parent), 10_500), -500)
    assert.isUndefined(Budget.computeMillisLeft(ledger({}), 5))
  })

  it("takes each limit of a run before that of the agent", () => {
    const agent = { tokens: 1, dollars: 2, seconds: 3, toolCalls: 4 }
    assert.deepStrictEqual(Budget.merge(agent, undefined), agent)
    assert.deepStrictEqual(Budget.merge(undefined, agent), agent)
    assert.deepStrictEqual(Budget.merge(agent, { seconds: 30 }), { ...agent, seconds: 30 })
  })

  it("names a remedy for every limit that a setting can raise", () => {
    for (const limit of ["iterations", "tokens", "cost", "time", "tool_calls"] as const) {
      assert.match(Budget.getWording(limit).remedy, /^raise agent\.\w+/)
    }
  })
})
