// What a run does with answers that are no answers yet, in whole runs.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as LoopGuard from "../../src/tools/calls/LoopGuard.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Fail = Tool.make("fail", {
  description: "Fails",
  parameters: Schema.Struct({ n: Schema.optionalKey(Schema.Finite) }),
  success: Schema.String,
  failure: Schema.String,
  failureMode: "return"
})
const Todo = Tool.make("todo", { description: "Keeps a list", success: Schema.String })
const toolkit = Toolkit.make(Echo, Fail, Todo)

const setup = (fake: Fake.Fake, settings: AgentSettings = {}) => {
  const ran: Array<string> = []
  const note = <A>(name: string, value: A) =>
    Effect.sync(() => {
      ran.push(name)
      return value
    })
  const handlers = toolkit.toLayer({
    echo: ({ text }) => note(`echo ${text}`, text),
    fail: () => Effect.flatMap(note("fail", ""), () => Effect.fail("no")),
    todo: () => note("todo", "[]")
  })
  const layer = Agent.layer({ cwd: "/tmp", ...settings }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
      )
    )
  )
  return { layer, ran }
}

const said =
  (text: string, reason: Response.FinishReason, ...more: ReadonlyArray<ReturnType<typeof Fake.call>>): Fake.Turn =>
  () =>
    Effect.succeed(Fake.answer([...(text === "" ? [] : [Response.makePart("text", { text })]), ...more], reason))

const thought: Fake.Turn = () => Effect.succeed(Fake.answer([Response.makePart("reasoning", { text: "hm" })], "stop"))

const texts = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.flatMap((message) =>
    message.role === "user" || message.role === "assistant"
      ? message.content.flatMap((part) => (part.type === "text" ? [`${message.role}: ${part.text}`] : []))
      : []
  )

const stored = Effect.fnUntraced(function* (result: { readonly sessionId: string }) {
  const store = yield* SessionStore.SessionStore
  return yield* store.messages(result.sessionId as never)
})

describe("cut answers", () => {
  it.effect("a text is continued with more room, and only what the model said is stored", () => {
    const fake = Fake.make(said("one ", "length"), said("two ", "length"), said("three", "stop"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "one two three", exit: "text_response" })
      assert.deepStrictEqual(
        fake.asked.map(({ maxOutputTokens }) => maxOutputTokens),
        [undefined, 8192, 12288]
      )
      assert.match(texts(fake.asked[1]?.messages ?? []).at(-1) ?? "", /^user: Your answer was cut off/)
      assert.deepStrictEqual(texts(yield* stored(result)), [
        "user: go",
        "assistant: one ",
        "assistant: two ",
        "assistant: three"
      ])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("T118 three truncations end the run with what was said", () => {
    const fake = Fake.make(said("more ", "length"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "more more more ", exit: "output_truncated", steps: 3 })
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect(
    "T94 (the architecture decides: asked again with more room, three times at most) cut calls are never executed",
    () => {
      const cutCall = Fake.call("c1", "echo", '{"text": "a')
      const fake = Fake.make(
        said("", "tool-calls", cutCall),
        said("", "length", Fake.call("c1", "echo", { text: "half" })),
        Fake.calls(Fake.call("c1", "echo", { text: "whole" })),
        Fake.text("done")
      )
      const { layer, ran } = setup(fake)
      return Effect.gen(function* () {
        const result = yield* Effect.provide(Agent.run({ prompt: "go" }), layer)
        assert.deepInclude(result, { text: "done", exit: "text_response" })
        assert.deepStrictEqual(ran, ["echo whole"])
        assert.deepStrictEqual(
          fake.asked.map(({ messages }) => messages.length),
          [2, 2, 2, 4],
          "nothing is kept of a cut call"
        )
        const endless = setup(Fake.make(said("", "tool-calls", cutCall)))
        const partial = yield* Effect.provide(Agent.run({ prompt: "go" }), endless.layer)
        assert.deepInclude(partial, { exit: "output_truncated", steps: 3 })
        assert.deepStrictEqual(endless.ran, [])
      })
    }
  )

  it.effect("T119 an output limit that was all used for thinking ends the run with advice", () => {
    const fake = Fake.make(() =>
      Effect.succeed(Fake.answer([Response.makePart("reasoning", { text: "hm" })], "length"))
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { exit: "output_truncated", steps: 1 })
      assert.match(result.text, /reasoning effort/)
    }).pipe(Effect.provide(setup(fake).layer))
  })
})

describe("empty answers", () => {
  it.effect("T121 after tools the model is nudged once; neither the nudge nor the empty answer is stored", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), said("", "stop"), Fake.text("answer"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "answer", exit: "text_response" })
      assert.deepStrictEqual(
        texts(fake.asked[2]?.messages ?? [])
          .slice(-2)
          .map((text) => text.slice(0, 24)),
        ["assistant: (empty)", "user: Your last message "]
      )
      assert.deepStrictEqual(texts(yield* stored(result)), ["user: go", "assistant: answer"])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect("after tools the model is nudged no more than once", () => {
    const fake = Fake.make(Fake.calls(Fake.call("c1", "echo", { text: "x" })), said("", "stop"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { exit: "empty_response_exhausted", steps: 6 })
      const nudges = texts(fake.asked.at(-1)?.messages ?? []).filter((text) =>
        text.startsWith("user: Your last message")
      )
      assert.lengthOf(nudges, 1)
    }).pipe(Effect.provide(setup(fake).layer))
  })

  it.effect(
    "T122 text beside housekeeping calls alone is the answer when nothing more comes; beside others it is not",
    () => {
      const aside = Fake.make(said("All set.", "tool-calls", Fake.call("c1", "todo", {})), said("", "stop"))
      const other = Fake.make(
        said("Looking.", "tool-calls", Fake.call("c1", "echo", { text: "x" })),
        said("", "stop"),
        Fake.text("done")
      )
      return Effect.gen(function* () {
        const first = yield* Effect.provide(Agent.run({ prompt: "go" }), setup(aside).layer)
        assert.deepInclude(first, { text: "All set.", exit: "text_response", steps: 2 })
        const second = yield* Effect.provide(Agent.run({ prompt: "go" }), setup(other).layer)
        assert.deepInclude(second, { text: "done", steps: 3 })
      })
    }
  )

  it.effect("an answer of thoughts is asked to go on twice, an empty one three times, then the run says so", () => {
    const thinking = Fake.make(thought, thought, Fake.text("answer"))
    const silent = Fake.make(said("", "stop"))
    return Effect.gen(function* () {
      assert.deepInclude(yield* Effect.provide(Agent.run({ prompt: "go" }), setup(thinking).layer), { text: "answer" })
      const result = yield* Effect.provide(Agent.run({ prompt: "go" }), setup(silent).layer)
      assert.deepInclude(result, { text: "(empty)", exit: "empty_response_exhausted", steps: 4 })
    })
  })
})

describe("calls that can not be tried", () => {
  it.effect(
    "37 and T89 a typing error is repaired without asking; three steps of unknown names end the run, partial",
    () => {
      const typo = Fake.make(Fake.calls(Fake.call("c1", "Echo_tool", { text: "x" })), Fake.text("done"))
      const nonsense = Fake.make(Fake.calls(Fake.call("c1", "teleport", {})))
      return Effect.gen(function* () {
        const { layer, ran } = setup(typo)
        assert.deepInclude(yield* Effect.provide(Agent.run({ prompt: "go" }), layer), { text: "done", steps: 2 })
        assert.deepStrictEqual(ran, ["echo x"])
        const result = yield* Effect.provide(Agent.run({ prompt: "go" }), setup(nonsense).layer)
        assert.deepInclude(result, { exit: "invalid_tool_calls", steps: 3 })
      })
    }
  )

  it.effect(
    "a valid call beside an unknown one is skipped, and the count goes on; a step of valid calls starts it anew",
    () => {
      const bad = Fake.call("c1", "teleport", {})
      const good = Fake.call("c2", "echo", { text: "x" })
      const reset = setup(
        Fake.make(
          Fake.calls(bad),
          Fake.calls(bad, good),
          Fake.calls(good),
          Fake.calls(good, bad),
          Fake.calls(bad),
          Fake.text("done")
        )
      )
      const stuck = setup(Fake.make(Fake.calls(bad), Fake.calls(bad, good)))
      return Effect.gen(function* () {
        assert.deepInclude(yield* Effect.provide(Agent.run({ prompt: "go" }), reset.layer), { text: "done", steps: 6 })
        assert.deepStrictEqual(reset.ran, ["echo x"])
        assert.deepInclude(yield* Effect.provide(Agent.run({ prompt: "go" }), stuck.layer), {
          exit: "invalid_tool_calls",
          steps: 3
        })
        assert.deepStrictEqual(stuck.ran, [])
      })
    }
  )

  it.effect("a call that repeats another of the same message runs once", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "echo", { text: "x" }), Fake.call("c2", "echo", { text: "x" })),
      Fake.text("done")
    )
    const { layer, ran } = setup(fake)
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      assert.deepStrictEqual(ran, ["echo x"])
    }).pipe(Effect.provide(layer))
  })
})

describe("T107 runs that go in circles", () => {
  const failing = Fake.calls(Fake.call("c1", "fail", { n: 1 }))
  const results = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
    messages.flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [String(part.result)] : []))
        : []
    )

  it.effect(
    "the second failure of the same call carries a warning, and without hard stops the sixth still runs",
    () => {
      const fake = Fake.make(failing, failing, failing, failing, failing, failing, Fake.text("done"))
      const { layer, ran } = setup(fake)
      return Effect.gen(function* () {
        yield* Agent.run({ prompt: "go" })
        assert.strictEqual(ran.length, 6)
        const seen = results(fake.asked.at(-1)?.messages ?? [])
        assert.deepStrictEqual(
          seen.map((text) => text.includes("has failed")),
          [false, true, true, true, true, true]
        )
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("with hard stops the call after five identical failures is refused and ends the run", () => {
    const { layer, ran } = setup(Fake.make(failing), { loopGuard: { ...LoopGuard.defaults, hardStop: true } })
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { exit: "guardrail_halt", steps: 6 })
      assert.match(result.text, /failed 5 times/)
      assert.strictEqual(ran.length, 5)
    }).pipe(Effect.provide(layer))
  })

  it.effect("the same answer to the same read-only question is pointed out", () => {
    const ask = Fake.calls(Fake.call("c1", "echo", { text: "x" }))
    const fake = Fake.make(ask, ask, Fake.text("done"))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go" })
      const seen = results(fake.asked.at(-1)?.messages ?? [])
      assert.strictEqual(seen[0], "x")
      assert.match(seen[1] ?? "", /^x\n\n\[This exact call of echo has now returned the same result 2 times/)
    }).pipe(Effect.provide(setup(fake).layer))
  })
})
