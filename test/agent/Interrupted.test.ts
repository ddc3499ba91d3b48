// What is told of tool calls that were cut: by an interrupt, a stop, a budget, or the end of the process.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import {
  makeAssistantMessage,
  makeToolCalls,
  makeNewSession,
  buildToolResult,
  makeUserMessage
} from "../support/sessionStoreConformance.ts"

const hang = (name: string) =>
  Tool.make(name, { parameters: Schema.Struct({ path: Schema.String }), success: Schema.String })
const Write = hang("write").annotate(Annotations.PathArguments, ["path"])
const Look = hang("look").annotate(Tool.Readonly, true)
const Browse = hang("browse").annotate(Tool.Readonly, true).annotate(Tool.OpenWorld, true)
const toolkit = Toolkit.make(Write, Look, Browse)

const setup = (fake: Fake.Fake, expected: number) => {
  const started: Array<string> = []
  const allStarted = Deferred.makeUnsafe<void>()
  const run = ({ path }: { readonly path: string }) =>
    Effect.suspend(() => {
      started.push(path)
      return Effect.andThen(
        started.length === expected ? Deferred.succeed(allStarted, undefined) : Effect.void,
        Effect.never
      )
    })
  const agent = () => Layer.fresh(Agent.layer({ cwd: "/tmp", identity: "You are a test." }))
  const layer = agent().pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, toolkit.toLayer({ write: run, look: run, browse: run }))])
      )
    )
  )
  return { agent, allStarted, layer, started }
}

const id = SessionId.make("s1")

const results = (messages: ReadonlyArray<Prompt.Message>) =>
  messages.flatMap((message) =>
    message.role === "tool"
      ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result]] : []))
      : []
  )

const stored = SessionStore.SessionStore.use((store) => Effect.map(store.messages(id), results))

describe("a call that was cut", () => {
  it.effect("may have happened when it had begun, and did not when it waited for its turn", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "write", { path: "same" }), Fake.call("c2", "write", { path: "same/below" }))
    )
    const { allStarted, layer, started } = setup(fake, 1)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(allStarted)
      const store = yield* SessionStore.SessionStore
      assert.deepStrictEqual(yield* store.begun(id), new Set(["c1"]))
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(started, ["same"])
      assert.deepStrictEqual(yield* stored, [
        ["c1", Conversation.mayHaveHappenedResult],
        ["c2", Conversation.cancelledResult]
      ])
      assert.deepStrictEqual(yield* store.begun(id), new Set())
    }).pipe(Effect.provide(layer))
  })

  it.effect(
    "is told so by every one of those that ran side by side, those that only read on this machine aside",
    () => {
      const fake = Fake.make(
        Fake.calls(
          Fake.call("c1", "write", { path: "a" }),
          Fake.call("c2", "look", { path: "b" }),
          Fake.call("c3", "browse", { path: "c" }),
          Fake.call("c4", "write", { path: "d" })
        )
      )
      const { allStarted, layer } = setup(fake, 4)
      return Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const fiber = yield* Effect.forkChild(agent.run({ prompt: "go", sessionId: "s1" }))
        yield* Deferred.await(allStarted)
        assert.isTrue(yield* agent.stop("s1"))
        assert.strictEqual((yield* Fiber.join(fiber)).exit, "interrupted_by_user")
        const told = [
          ["c1", Conversation.mayHaveHappenedResult],
          ["c2", Conversation.cancelledResult],
          ["c3", Conversation.mayHaveHappenedResult],
          ["c4", Conversation.mayHaveHappenedResult]
        ]
        assert.deepStrictEqual(yield* stored, told)
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("of a run whose time is over is told to the model in the summary call", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "write", { path: "a" })), Fake.text("summary"))
    const { allStarted, layer } = setup(fake, 1)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1", budget: { seconds: 60 } }))
      yield* Deferred.await(allStarted)
      yield* TestClock.adjust("61 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(results(fake.asked[1]?.messages ?? []), [["c1", Conversation.mayHaveHappenedResult]])
    }).pipe(Effect.provide(layer))
  })
})

describe("a session whose process died", () => {
  it.effect("is resumed with the truth about each open call, which is stored once and stays", () => {
    const fake = Fake.make(Fake.text("looked"))
    return Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      yield* store.create(makeNewSession("s1"))
      yield* store.append(id, [makeUserMessage("go"), makeToolCalls("c1", "c2", "c3")])
      yield* store.begin(id, ["c1", "c2"])
      yield* store.append(id, [buildToolResult("c2", "done")])
      const told = [
        ["c1", Conversation.mayHaveHappenedResult],
        ["c2", "done"],
        ["c3", Conversation.cancelledResult]
      ]
      for (const prompt of ["go on", "and again"]) yield* Agent.run({ prompt, sessionId: "s1" })
      for (const { messages } of fake.asked) assert.deepStrictEqual(results(messages), told)
      assert.deepStrictEqual(
        (yield* store.messages(id)).map(({ role }) => role),
        ["user", "assistant", "tool", "tool", "tool", "user", "assistant", "user", "assistant"]
      )
      assert.deepStrictEqual(yield* store.begun(id), new Set())
    }).pipe(Effect.provide(setup(fake, 0).layer))
  })

  it.effect("tells nothing of an earlier call that had the same id", () => {
    const fake = Fake.make(Fake.text("ok"))
    return Effect.gen(function* () {
      const store = yield* SessionStore.SessionStore
      yield* store.create(makeNewSession("s1"))
      yield* store.append(id, [makeUserMessage("go"), makeToolCalls("call_1_0")])
      yield* store.begin(id, ["call_1_0"])
      yield* store.append(id, [
        buildToolResult("call_1_0", "done"),
        makeAssistantMessage("fine"),
        makeUserMessage("go"),
        makeToolCalls("call_1_0")
      ])
      yield* Agent.run({ prompt: "go on", sessionId: "s1" })
      assert.deepStrictEqual(results(fake.asked[0]?.messages ?? []), [
        ["call_1_0", "done"],
        ["call_1_0", Conversation.cancelledResult]
      ])
    }).pipe(Effect.provide(setup(fake, 0).layer))
  })
})

describe("a session", () => {
  it.effect("has one run at a time, whichever agent over its store is asked", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "write", { path: "a" })))
    const { agent, allStarted, layer } = setup(fake, 1)
    return Effect.gen(function* () {
      const other = yield* Effect.provide(Agent.Agent, agent())
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go", sessionId: "s1" }))
      yield* Deferred.await(allStarted)
      const busy = yield* Effect.flip(other.run({ prompt: "me too", sessionId: "s1" }))
      assert.deepStrictEqual(
        [busy._tag, busy.message],
        ["SessionBusy", "session s1 is busy: wait for its run to end, or stop it"]
      )
      assert.deepStrictEqual(
        (yield* (yield* SessionStore.SessionStore).messages(id)).map(({ role }) => role),
        ["user", "assistant"]
      )
      yield* Fiber.interrupt(fiber)
    }).pipe(Effect.provide(layer))
  })
})
