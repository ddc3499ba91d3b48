import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Stream from "effect/Stream"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Boom = Tool.make("boom", { description: "Dies", success: Schema.String })
const Wait = Tool.make("wait", {
  description: "Never ends",
  parameters: Schema.Struct({ name: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Nap = Tool.make("nap", {
  description: "Sleeps",
  parameters: Schema.Struct({ seconds: Schema.Finite }),
  success: Schema.Finite
}).annotate(Tool.Readonly, true)

const toolkit = Toolkit.make(Echo, Boom, Wait, Nap)

interface Seen {
  readonly waiting: Array<string>
  readonly interrupted: Array<string>
  readonly napped: Array<number>
}

const setup = (fake: Fake.Fake) => {
  const seen: Seen = { waiting: [], interrupted: [], napped: [] }
  const started = Deferred.makeUnsafe<void>()
  const handlers = toolkit.toLayer({
    echo: ({ text }) => Effect.succeed(text),
    boom: () => Effect.die(new Error("it broke")),
    wait: ({ name }) =>
      Effect.suspend(() => {
        seen.waiting.push(name)
        return Effect.andThen(Deferred.succeed(started, undefined), Effect.never)
      }).pipe(Effect.onInterrupt(() => Effect.sync(() => seen.interrupted.push(name)))),
    nap: ({ seconds }) =>
      Effect.as(
        Effect.andThen(
          Effect.sleep(seconds * 1000),
          Effect.sync(() => seen.napped.push(seconds))
        ),
        seconds
      )
  })
  const layer = Agent.layer({ cwd: "/tmp", identity: "You are a test." }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
      )
    )
  )
  return { layer, seen, started }
}

const roles = (messages: ReadonlyArray<Prompt.Message>) => messages.map(({ role }) => role)

const results = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.isFailure, part.result]] : []))
      : []
  )

describe("Agent", () => {
  it.effect("answers without tools", () => {
    const fake = Fake.make(Fake.text("hello"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "hi" })
      assert.strictEqual(result.text, "hello")
      assert.strictEqual(result.exit, "text_response")
      assert.strictEqual(result.steps, 1)
      assert.strictEqual(result.usage.inputTokens, 10)
      const store = yield* SessionStore.SessionStore
      const stored = yield* store.messages(result.sessionId)
      assert.deepStrictEqual(roles(stored), ["user", "assistant"])
      assert.deepStrictEqual(roles(fake.asked[0]?.messages ?? []), ["system", "user"])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect(
    "goes on from the end of a stored session and stores no message; one that ends in an answer is refused",
    () => {
      const fake = Fake.make(
        Fake.calls(Fake.call("c1", "echo", { text: "a" })),
        Fake.text("done"),
        Fake.text("done again")
      )
      return Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const { sessionId } = yield* Agent.run({ prompt: "hi" })
        const stored = yield* store.messages(sessionId)
        assert.deepStrictEqual(roles(stored), ["user", "assistant", "tool", "assistant"])
        const before = stored.slice(0, 3)
        const copy = SessionId.make("copy")
        yield* store.create({
          id: copy,
          source: "test",
          provider: "fake",
          model: "fake-1",
          systemPrompt: "You are a test."
        })
        yield* store.append(copy, before)

        const result = yield* Agent.run({ prompt: "hi", sessionId: copy, goesOn: true })
        assert.strictEqual(result.text, "done again")
        assert.deepStrictEqual((yield* store.messages(copy)).slice(0, 3), before)
        assert.deepStrictEqual(roles(yield* store.messages(copy)), ["user", "assistant", "tool", "assistant"])
        assert.deepStrictEqual(roles(fake.asked[2]?.messages ?? []), ["system", "user", "assistant", "tool"])

        const refused = yield* Effect.flip(Agent.run({ prompt: "hi", sessionId: copy, goesOn: true }))
        assert.strictEqual(
          refused.message,
          "the session does not end in a message of the user or in results of tools: give a prompt"
        )
        assert.strictEqual((yield* store.messages(copy)).length, 4)
      }).pipe(Effect.provide(setup(fake).layer))
    }
  )

  it.effect("runs the tools of a step and goes on with their results in model order", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "nap", { seconds: 3 }), Fake.call("c2", "nap", { seconds: 1 })),
      Fake.text("rested")
    )
    const { layer, seen } = setup(fake)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "sleep" }))
      yield* TestClock.adjust("3 seconds")
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(result.text, "rested")
      assert.deepStrictEqual(seen.napped, [1, 3], "side by side")
      assert.deepStrictEqual(results(fake.asked[1]?.messages ?? []), [
        ["c1", false, "3"],
        ["c2", false, "1"]
      ])
      assert.strictEqual(result.usage.requestCount, 2)
    }).pipe(Effect.provide(layer))
  })

  it.effect("tells the model of unknown tools, malformed arguments and broken handlers", () => {
    const fake = Fake.make(
      // No valid call runs beside an unknown one.
      Fake.calls(Fake.call("c1", "nope", {})),
      Fake.calls(
        Fake.call("c2", "echo", "{text: a}"),
        Fake.call("c3", "echo", { text: 5 }),
        Fake.call("c4", "boom", {}),
        Fake.call("c5", "echo", { text: "fine" })
      ),
      Fake.text("ok")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.strictEqual(result.exit, "text_response")
      const [c1, c2, c3, c4, c5] = results(fake.asked[2]?.messages ?? [])
      assert.deepStrictEqual(c1, ["c1", true, "Tool 'nope' does not exist. Available tools: boom, echo, nap, wait"])
      assert.match(String(c2?.[2]), /not a JSON object/)
      assert.match(String(c3?.[2]), /text/)
      assert.match(String(c4?.[2]), /it broke/)
      assert.deepStrictEqual(c5, ["c5", false, "fine"])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("ends after the allowed model calls with one tool-less summary that is not counted", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "echo", { text: "1" })),
      Fake.calls(Fake.call("c2", "echo", { text: "2" })),
      Fake.text("so far so good")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", maxIterations: 2 })
      assert.strictEqual(result.exit, "max_iterations_reached")
      assert.strictEqual(result.text, "so far so good")
      assert.strictEqual(result.steps, 2)
      assert.strictEqual(fake.asked.length, 3)
      assert.deepStrictEqual(fake.asked[2]?.tools, [])
      const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
      assert.deepStrictEqual(roles(stored), ["user", "assistant", "tool", "assistant", "tool", "assistant"])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("still ends well when the summary fails", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "1" })), () =>
      Effect.fail(Fake.failure(new AiError.AuthenticationError({ kind: "InvalidKey" })))
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go", maxIterations: 1 })
      assert.strictEqual(result.exit, "max_iterations_reached")
      assert.match(result.text, /^Stopped after 1 model call without .* the summary failed \(/)
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("fails with the provider's error and keeps the session", () => {
    const fake = Fake.make(
      () => Effect.fail(Fake.failure(new AiError.AuthenticationError({ kind: "InvalidKey" }))),
      Fake.text("better")
    )
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Agent.run({ prompt: "go", sessionId: "s1" }))
      assert.strictEqual(error._tag, "AiError")
      const store = yield* SessionStore.SessionStore
      assert.deepStrictEqual(roles(yield* store.messages(SessionId.make("s1"))), ["user"])
      const result = yield* Agent.run({ prompt: "again", sessionId: "s1" })
      assert.strictEqual(result.text, "better")
      const sent = fake.asked[1]?.messages ?? []
      assert.deepStrictEqual(roles(sent), ["system", "user"])
      assert.lengthOf(sent[1]?.content ?? [], 2)
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("replays the stored system prompt byte for byte", () => {
    const fake = Fake.make(Fake.text("a"), Fake.text("b"))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "one", sessionId: "s1" })
      yield* TestClock.adjust("2 days")
      yield* Agent.run({ prompt: "two", sessionId: "s1", systemPrompt: "something else" })
      assert.deepStrictEqual(fake.asked[1]?.messages[0], fake.asked[0]?.messages[0])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("interruption interrupts running tools and closes their calls", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "wait", { name: "a" }), Fake.call("c2", "wait", { name: "b" })),
      Fake.text("after")
    )
    const { layer, seen, started } = setup(fake)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(started)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.hasInterrupts(exit))
      assert.sameMembers(seen.interrupted, seen.waiting)
      const stored = yield* (yield* SessionStore.SessionStore).messages(SessionId.make("s1"))
      assert.deepStrictEqual(results(stored), [
        ["c1", true, Conversation.cancelledResult],
        ["c2", true, Conversation.cancelledResult]
      ])
      const next = yield* Agent.run({ prompt: "on", sessionId: "s1" })
      assert.strictEqual(next.text, "after")
    }).pipe(Effect.provide(layer))
  })

  it.effect("stop ends a run with a result and what was said so far", () => {
    const shown = Deferred.makeUnsafe<void>()
    const fake = Fake.make((request, options) =>
      Effect.andThen(Fake.pieces("half an ")(request, options), Effect.never)
    )
    return Effect.gen(function* () {
      const agent = yield* Agent.Agent
      const fiber = yield* Effect.forkChild(
        agent.run({
          prompt: "go",
          sessionId: "s1",
          streaming: true,
          onEvent: (events) =>
            events.some(({ _tag }) => _tag === "TextDelta") ? Deferred.succeed(shown, undefined) : Effect.void
        })
      )
      yield* Deferred.await(shown)
      assert.isTrue(yield* agent.stop("s1"))
      const result = yield* Fiber.join(fiber)
      assert.strictEqual(result.exit, "interrupted_by_user")
      assert.strictEqual(result.text, "half an ")
      assert.isFalse(yield* agent.stop("s1"))
      const stored = yield* (yield* SessionStore.SessionStore).messages(SessionId.make("s1"))
      assert.strictEqual(Conversation.readText(stored[1] as Prompt.Message), "half an ")
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("refuses a second run on a busy session, and an empty prompt", () => {
    const fake = Fake.make(() => Effect.never)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }), { startImmediately: true })
      const busy = yield* Effect.flip(Agent.run({ prompt: "go", sessionId: "s1" }))
      assert.strictEqual(busy._tag, "SessionBusy")
      yield* Fiber.interrupt(fiber)
      const empty = yield* Effect.flip(Agent.run({ prompt: " \n" }))
      assert.strictEqual(empty._tag, "InvalidInput")
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("streams what happens, in order, and the deltas are the text", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.pieces("all ", "done"))
    return Effect.gen(function* () {
      const events = yield* Stream.runCollect(Agent.stream({ prompt: "go" }))
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        [
          "RunStarted",
          "StepStarted",
          "UsageReported",
          "ToolStarted",
          "ToolFinished",
          "StepFinished",
          "StepStarted",
          "TextDelta",
          "TextDelta",
          "UsageReported",
          "StepFinished",
          "RunFinished"
        ]
      )
      const deltas = events.flatMap((event: RunEvent) => (event._tag === "TextDelta" ? [event.text] : [])).join("")
      const last = events.at(-1)
      assert.isTrue(last?._tag === "RunFinished" && last.text === deltas)
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("ending the stream early interrupts the run", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "wait", { name: "a" })))
    const { layer, seen } = setup(fake)
    return Effect.gen(function* () {
      yield* Agent.stream({ prompt: "go", sessionId: "s1" }).pipe(
        Stream.takeUntil((event) => event._tag === "ToolStarted"),
        Stream.runDrain
      )
      assert.deepStrictEqual(seen.interrupted, seen.waiting)
      const stored = yield* (yield* SessionStore.SessionStore).messages(SessionId.make("s1"))
      assert.deepStrictEqual(results(stored), [["c1", true, Conversation.cancelledResult]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("an answer that the provider pauses goes on, three times at most", () => {
    const pause =
      (text: string): Fake.Turn =>
      () =>
        Effect.succeed(Fake.answer([Response.makePart("text", { text })], "pause"))
    const fake = Fake.make(pause("one "), pause("two "), Fake.text("three"), pause("on and on "))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "one two three", exit: "text_response", steps: 3 })
      const endless = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(endless, { exit: "output_truncated", steps: 4 })
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("a step sees the tools that are registered when it begins", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.text("ok"))
    const { layer } = setup(fake)
    const Late = Tool.make("late", { description: "Comes later", success: Schema.String })
    const kit = Toolkit.make(Late)
    return Effect.gen(function* () {
      const registry = yield* ToolRegistry.ToolRegistry
      yield* Agent.run({ prompt: "go" })
      const before = fake.asked[0]?.tools
      assert.strictEqual(fake.asked[1]?.tools, before, "the same array as long as nothing changed")
      yield* Effect.scoped(
        Effect.gen(function* () {
          yield* registry.register(Toolset.make("later", kit, kit.toLayer({ late: () => Effect.succeed("") })))
          yield* Agent.run({ prompt: "go" })
          assert.include(fake.asked.at(-1)?.tools.map(({ name }) => name) ?? [], "late")
        })
      )
      yield* Agent.run({ prompt: "go" })
      assert.notInclude(fake.asked.at(-1)?.tools.map(({ name }) => name) ?? [], "late")
    }).pipe(Effect.provide(layer))
  })
})
