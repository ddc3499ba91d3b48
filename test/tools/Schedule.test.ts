// Which calls of a message run side by side, why, and what becomes of the others when one fails or the run is stopped.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import * as Agent from "../../src/agent/Agent.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as Patch from "../../src/tools/builtin/Patch.ts"
import * as ReadFile from "../../src/tools/builtin/ReadFile.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as WriteFile from "../../src/tools/builtin/WriteFile.ts"
import * as Clarify from "../../src/tools/builtin/Clarify.ts"
import * as ToolSchedule from "../../src/tools/ToolSchedule.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"
import { prop } from "../support/property.ts"

const tools: Readonly<Record<string, Tool.Any>> = {
  read_file: ReadFile.tool,
  write_file: WriteFile.tool,
  patch: Patch.tool,
  terminal: TerminalTools.Terminal,
  clarify: Clarify.tool,
  quiet: Tool.make("quiet").annotate(Tool.Readonly, true),
  unsaid: Tool.make("unsaid"),
  deletes: Tool.make("deletes").annotate(Tool.Destructive, true)
}

type Call = readonly [name: string, params: unknown]

const candidates = (calls: ReadonlyArray<Call>): ReadonlyArray<ToolSchedule.Candidate> =>
  calls.flatMap(([name, params]) => {
    const tool = tools[name]
    return tool === undefined ? [] : [{ name, facts: Annotations.readFacts(tool), params }]
  })

const decide = (...calls: ReadonlyArray<Call>) => {
  const { mode, reason } = ToolSchedule.decide(candidates(calls), "/work")
  return `${mode}: ${reason}`
}

const apart = "parallel: every call is read-only or has paths of its own"

describe("whether calls run side by side", () => {
  it("T100 paths that overlap are written one after another, others side by side", () => {
    const write = (path: string): Call => ["write_file", { path, content: "" }]
    assert.match(decide(write("src"), ["patch", { path: "src/a.ts" }]), /^sequential: patch and write_file touch/)
    assert.strictEqual(decide(write("a"), write("b")), apart)
    assert.strictEqual(decide(write("src"), write("src2")), apart, "a beginning of a name is no directory of it")
    assert.match(decide(write("./x"), write("/work/x")), /^sequential: .* touch \/work\/x$/)
    assert.match(decide(write("a/../x"), write("x")), /^sequential: .* touch \/work\/x$/)
    assert.match(decide(["read_file", { path: "x" }], write("x")), /^sequential/)
    assert.match(decide(write("x"), ["read_file", { path: "x" }]), /^sequential/)
    assert.strictEqual(decide(["read_file", { path: "x" }], ["read_file", { path: "x" }]), apart)
  })

  it("T101 a question, a command, arguments that can not be read, a missing path, a single call: one after another", () => {
    const read: Call = ["read_file", { path: "a" }]
    assert.strictEqual(decide(read, ["clarify", { question: "?" }]), "sequential: clarify talks to the user")
    assert.strictEqual(
      decide(read, ["terminal", { command: "ls" }]),
      "sequential: terminal was not stated to be read-only"
    )
    assert.match(decide(read, ["write_file", "{"]), /^sequential: write_file has no path that can be compared/)
    assert.match(decide(read, ["write_file", { content: "" }]), /^sequential: write_file has no path/)
    assert.match(decide(read, ["write_file", { path: " ", content: "" }]), /^sequential: write_file has no path/)
    assert.match(decide(read, ["write_file", { path: "~/x", content: "" }]), /^sequential: write_file has no path/)
    assert.strictEqual(decide(read), "sequential: a single call")
  })

  it("what nobody said to be read-only and what deletes runs alone", () => {
    assert.strictEqual(decide(["quiet", {}], ["quiet", {}]), apart)
    assert.match(decide(["quiet", {}], ["unsaid", {}]), /^sequential: unsaid/)
    assert.match(decide(["quiet", {}], ["deletes", {}]), /^sequential: deletes/)
  })

  it("explains it in a line", () => {
    assert.strictEqual(
      ToolSchedule.explain(
        2,
        ToolSchedule.decide(
          candidates([
            ["quiet", {}],
            ["unsaid", {}]
          ]),
          "/work"
        )
      ),
      "2 calls one after another: unsaid was not stated to be read-only"
    )
  })

  const Path = Schema.Literals(["a", "a/b", "a/b/c", "./a", "b", "/work/a", "../work/b", "c/../a"])
  const Name = Schema.Literals(["read_file", "write_file", "patch", "terminal", "quiet"])

  prop("writers never share a path with anybody beside them", [Schema.Array(Schema.Tuple([Name, Path]))], ([calls]) => {
    const given = calls.map(([name, path]): Call => [name, { path }])
    if (ToolSchedule.decide(candidates(given), "/work").mode === "sequential") return
    const places = calls
      .filter(([name]) => name !== "quiet")
      .map(([name, path]) => ({ name, path: ToolSchedule.toPathComponents("/work", path) ?? [] }))
    for (const [i, one] of places.entries()) {
      for (const other of places.slice(i + 1)) {
        if (one.name === "read_file" && other.name === "read_file") continue
        assert.isFalse(
          ToolSchedule.isOverlapping(one.path, other.path),
          `${one.path.join("/")} and ${other.path.join("/")}`
        )
      }
    }
  })
})

const Nap = Tool.make("nap", {
  parameters: Schema.Struct({ seconds: Schema.Finite }),
  success: Schema.Finite
}).annotate(Tool.Readonly, true)
const Slow = Tool.make("slow", { parameters: Schema.Struct({ seconds: Schema.Finite }), success: Schema.Finite })
const Boom = Tool.make("boom", { success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Nap, Slow, Boom)

const setup = (fake: Fake.Fake) => {
  const running = { now: 0, most: 0 }
  const started = Deferred.makeUnsafe<void>()
  const sleep = ({ seconds }: { readonly seconds: number }) =>
    Effect.acquireUseRelease(
      Effect.sync(() => {
        running.most = Math.max(running.most, ++running.now)
      }),
      () => Effect.andThen(Deferred.succeed(started, undefined), Effect.as(Effect.sleep(seconds * 1000), seconds)),
      () => Effect.sync(() => void running.now--)
    )
  const handlers = toolkit.toLayer({ nap: sleep, slow: sleep, boom: () => Effect.die(new Error("it broke")) })
  const layer = Agent.layer({ cwd: "/work" }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        fake.router,
        SessionStore.layerMemory,
        ToolRegistry.layer([Toolset.make("test", toolkit, handlers)])
      )
    )
  )
  return { running, started, layer }
}

describe("a batch of calls", () => {
  it.effect("runs eight at a time, and tells why", () => {
    const fake = Fake.make(
      Fake.calls(...Array.from({ length: 20 }, (_, n) => Fake.call(`c${n}`, "nap", { seconds: 1 + n / 100 }))),
      Fake.text("done")
    )
    const { layer, running } = setup(fake)
    return Effect.gen(function* () {
      const events: Array<RunEvent> = []
      const run = Agent.run({ prompt: "go", onEvent: (more) => Effect.sync(() => void events.push(...more)) })
      const fiber = yield* Effect.forkChild(run)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).exit, "text_response")
      assert.strictEqual(running.most, ToolSchedule.maxConcurrency)
      assert.deepStrictEqual(
        events.filter(({ _tag }) => _tag === "ToolsScheduled"),
        [
          {
            _tag: "ToolsScheduled",
            calls: 20,
            mode: "parallel",
            reason: "every call is read-only or has paths of its own"
          }
        ]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("runs one after another where one of them is not known to be harmless", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "nap", { seconds: 1 }), Fake.call("c2", "slow", { seconds: 1 })),
      Fake.text("done")
    )
    const { layer, running } = setup(fake)
    return Effect.gen(function* () {
      const fiber = yield* Effect.forkChild(Agent.run({ prompt: "go" }))
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      assert.strictEqual(running.most, 1)
    }).pipe(Effect.provide(layer))
  })

  it.effect("a call that fails ends no other", () => {
    const fake = Fake.make(
      Fake.calls(
        Fake.call("c1", "nap", { seconds: 2 }),
        Fake.call("c2", "boom", {}),
        Fake.call("c3", "nap", { seconds: 1 })
      ),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      const ended: Array<unknown> = []
      const fiber = yield* Effect.forkChild(
        Agent.run({
          prompt: "go",
          onEvent: (events) =>
            Effect.sync(() =>
              ended.push(
                ...events.flatMap((event) => (event._tag === "ToolFinished" ? [[event.callId, event.status]] : []))
              )
            )
        })
      )
      yield* TestClock.adjust("2 seconds")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(ended, [
        ["c2", "error"],
        ["c3", "ok"],
        ["c1", "ok"]
      ])
    }).pipe(Effect.provide(setup(fake).layer))
  })

  for (const [how, name] of [
    ["one after another", "slow"],
    ["side by side", "nap"]
  ] as const) {
    it.effect(`T104 a batch that runs ${how} and is stopped in the middle has a result for every call`, () => {
      const fake = Fake.make(
        Fake.calls(
          Fake.call("c1", name, { seconds: 1 }),
          Fake.call("c2", name, { seconds: 60 }),
          Fake.call("c3", name, { seconds: 61 })
        )
      )
      const { layer, running, started } = setup(fake)
      return Effect.gen(function* () {
        const agent = yield* Agent.Agent
        const fiber = yield* Effect.forkChild(agent.run({ prompt: "go", sessionId: "s1" }))
        yield* Deferred.await(started)
        yield* TestClock.adjust("2 seconds")
        assert.isTrue(yield* agent.stop("s1"))
        const result = yield* Fiber.join(fiber)
        assert.strictEqual(result.exit, "interrupted_by_user")
        assert.strictEqual(running.now, 0, "nothing runs on")
        const stored = yield* (yield* SessionStore.SessionStore).messages(result.sessionId)
        const results = stored.flatMap((message) =>
          message.role === "tool"
            ? message.content.flatMap((part) =>
                part.type === "tool-result" ? [[part.id, String(part.result)] as const] : []
              )
            : []
        )
        assert.deepStrictEqual(results[0], ["c1", "1"])
        assert.deepStrictEqual(
          results.map(([id]) => id),
          ["c1", "c2", "c3"]
        )
        const { cancelledResult, mayHaveHappenedResult } = Conversation
        // A tool that only reads is not noted before it starts: repeating it changes nothing.
        assert.deepStrictEqual(
          results.slice(1).map(([, text]) => text),
          [name === "slow" ? mayHaveHappenedResult : cancelledResult, cancelledResult]
        )
      }).pipe(Effect.provide(layer))
    })
  }
})
