import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Logger from "effect/Logger"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import * as Persistence from "effect/persistence/Persistence"
import { mkdtempSync, readdirSync, readFileSync, rmSync, writeFileSync } from "node:fs"
import { tmpdir } from "node:os"
import { join } from "node:path"
import * as Agent from "../../src/agent/Agent.ts"
import * as BudgetReminder from "../../src/agent/builtin/BudgetReminder.ts"
import * as AgentEvents from "../../src/agent/builtin/AgentEvents.ts"
import * as Logging from "../../src/agent/builtin/Logging.ts"
import * as LongToolOutput from "../../src/agent/builtin/LongToolOutput.ts"
import * as PiiRedaction from "../../src/agent/builtin/PiiRedaction.ts"
import * as Reminder from "../../src/agent/builtin/Reminder.ts"
import * as ResponseCache from "../../src/agent/builtin/ResponseCache.ts"
import * as RuntimeEnvironment from "../../src/agent/builtin/RuntimeEnvironment.ts"
import * as Timing from "../../src/agent/builtin/Timing.ts"
import * as ToolFilter from "../../src/agent/builtin/ToolFilter.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Fake from "../support/fakeModel.ts"
import { play, results, textOf, texts } from "../support/lifecycle.ts"

const callEcho = Fake.calls(Fake.call("c1", "echo", { i: 1 }))

const folder = Effect.acquireRelease(
  Effect.sync(() => mkdtempSync(join(tmpdir(), "hermes-outputs-"))),
  (path) => Effect.sync(() => rmSync(path, { recursive: true, force: true }))
)

/** The result that the model reads of a tool whose output is this. */
const cut = (output: unknown, options: LongToolOutput.Options, before: ReadonlyArray<Middleware.Contained> = []) =>
  Effect.gen(function* () {
    const { fake, program } = play([callEcho, Fake.text("x")], [LongToolOutput.make(options), ...before], { output })
    yield* program
    return String(results(fake.asked[1]?.messages)[0])
  })

const logged = <A, E, R>(effect: Effect.Effect<A, E, R>) => {
  const lines: Array<string> = []
  const logger = Logger.make(
    ({ message }) => void lines.push(Array.isArray(message) ? message.join(" ") : String(message))
  )
  return Effect.map(Effect.provide(effect, Logger.layer([logger])), () => lines)
}

const long = Array.from({ length: 100 }, (_, n) => `line ${n + 1}`).join("\n")

describe("nexau long tool output", () => {
  it.effect("T77 a result of exactly the limit is unchanged", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* cut("x".repeat(100), { maxOutputChars: 100, tempDir: null }), "x".repeat(100))
      assert.include(yield* cut("x".repeat(101), { maxOutputChars: 100, tempDir: null }), "the output was truncated")
    })
  )

  it.effect("T79 lines only: the first ten, a marker with 85, the last five", () =>
    Effect.gen(function* () {
      const text = yield* cut(long, {
        maxOutputChars: 500,
        headLines: 10,
        tailLines: 5,
        headChars: 0,
        tailChars: 0,
        tempDir: null
      })
      const lines = long.split("\n")
      assert.isTrue(
        text.startsWith(
          `${lines.slice(0, 10).join("\n")}\n\n... [85 lines omitted] ...\n${lines.slice(95).join("\n")}\n\n[LongToolOutput`
        ),
        text
      )
    })
  )

  it.effect("T80, T95 the file holds the whole text, its path is in the hint, and two calls have two files", () =>
    Effect.gen(function* () {
      const tempDir = yield* folder
      const both = Fake.calls(
        Fake.call("call_00000001", "echo", { n: 1 }),
        Fake.call("call_00000002", "echo", { n: 2 })
      )
      const { fake, program } = play([both, Fake.text("x")], [LongToolOutput.make({ maxOutputChars: 100, tempDir })], {
        output: long
      })
      yield* program
      const files = readdirSync(tempDir).map((name) => join(tempDir, name))
      assert.strictEqual(files.length, 2)
      for (const file of files) {
        assert.strictEqual(readFileSync(file, "utf8"), long)
        assert.isTrue(results(fake.asked[1]?.messages).some((text) => String(text).includes(file)))
      }
    })
  )

  it.effect("T82, T83 tools in the bypass list, and LoadSkill whatever the list, are never cut or saved", () =>
    Effect.gen(function* () {
      const tempDir = yield* folder
      assert.strictEqual(yield* cut(long, { maxOutputChars: 100, tempDir, bypassToolNames: ["echo"] }), long)
      assert.deepStrictEqual(readdirSync(tempDir), [])
    })
  )

  for (const [what, makeDirectory] of Object.entries({
    hangs: () => Effect.never,
    breaks: () => Effect.die(new Error("no such disk"))
  })) {
    it.effect(`a disk that ${what}: each result is cut all the same, and the run waits at most ten seconds`, () =>
      Effect.gen(function* () {
        const both = Fake.calls(Fake.call("c1", "echo", { n: 1 }), Fake.call("c2", "echo", { n: 2 }))
        const { fake, program } = play(
          [both, both, Fake.text("x")],
          [LongToolOutput.make({ maxOutputChars: 100, tempDir: "/nowhere" })],
          { output: long }
        )
        const files = FileSystem.makeNoop({ makeDirectory })
        const started = yield* Clock.currentTimeMillis
        const fiber = yield* Effect.forkChild(logged(Effect.provideService(program, FileSystem.FileSystem, files)), {
          startImmediately: true
        })
        // A disk that breaks is not waited for: its run ends without the clock.
        const steps = what === "hangs" ? 100 : 0
        for (let step = 0; step < steps && fiber.pollUnsafe() === undefined; step++) {
          yield* TestClock.withLive(Effect.sleep("20 millis"))
          if (fiber.pollUnsafe() === undefined) yield* TestClock.adjust("1 second")
        }
        const lines = yield* Fiber.join(fiber)
        // Four results one after another would take forty seconds.
        assert.isAtMost((yield* Clock.currentTimeMillis) - started, what === "hangs" ? 39_000 : 0)
        const seen = results(fake.asked[2]?.messages).map(String)
        assert.lengthOf(seen, 4)
        for (const text of seen) {
          assert.isBelow(text.length, 400)
          assert.include(text, "could not be saved")
        }
        assert.include(lines.join("\n"), what === "hangs" ? "it took longer than 10s" : "no such disk")
        assert.notInclude(lines.join("\n"), "set aside")
      })
    )
  }

  it.effect("T85 an object without content or result becomes its cut JSON, and the file parses back", () =>
    Effect.gen(function* () {
      const tempDir = yield* folder
      const given = { rows: Array.from({ length: 100 }, (_, n) => `row ${n}`) }
      const made: unknown = JSON.parse(yield* cut(given, { maxOutputChars: 200, tempDir }))
      assert.deepStrictEqual(Object.keys(made as object), ["content"])
      const [file = ""] = readdirSync(tempDir)
      assert.deepStrictEqual(JSON.parse(readFileSync(join(tempDir, file), "utf8")), given)
    })
  )

  it.effect("T86 a huge returnDisplay does not count", () =>
    Effect.gen(function* () {
      const given = { returnDisplay: long, content: "short" }
      assert.deepStrictEqual(JSON.parse(yield* cut(given, { maxOutputChars: 200, tempDir: null })), given)
    })
  )

  it.effect("T88, T89 the text for the model is the one that counts where it was set", () =>
    Effect.gen(function* () {
      const sets = (llmToolOutput: string) =>
        Middleware.lifecycle({ name: "llm", afterTool: () => Middleware.withModifications({ llmToolOutput }) })
      assert.include(yield* cut("short", { maxOutputChars: 100, tempDir: null }, [sets(long)]), "truncated")
      assert.strictEqual(yield* cut(long, { maxOutputChars: 100, tempDir: null }, [sets("short")]), "short")
    })
  )

  it.effect("T91, T92 few huge lines are bounded, and max_output_chars alone is accepted", () =>
    Effect.gen(function* () {
      const huge = Array.from({ length: 3 }, () => "y".repeat(5000)).join("\n")
      for (const options of [{ maxOutputChars: 100 }, { maxOutputChars: 100, headChars: 0, tailChars: 0 }]) {
        assert.isBelow((yield* cut(huge, { ...options, tempDir: null })).length, 500)
      }
      assert.isTrue(Result.isSuccess(LongToolOutput.fromUnknown({ max_output_chars: 5000 })))
    })
  )

  it.effect("T94 a cut inside of an emoji leaves no half of it", () =>
    Effect.gen(function* () {
      for (let size = 100; size < 104; size++) {
        const text = yield* cut("😀".repeat(200), { maxOutputChars: size, headLines: 0, tailLines: 0, tempDir: null })
        assert.isTrue(text.isWellFormed())
      }
    })
  )

  it.effect("a file that cannot be written: the result is cut all the same, and says so", () =>
    Effect.gen(function* () {
      const path = yield* folder
      writeFileSync(join(path, "file"), "")
      const text = yield* cut(long, { maxOutputChars: 100, tempDir: join(path, "file", "below") })
      assert.isBelow(text.length, 500)
      assert.include(text, "could not be saved")
    })
  )

  it.effect("a secret in a saved result is masked", () =>
    Effect.gen(function* () {
      const tempDir = yield* folder
      const key = `sk-ant-api03-${"a1B2".repeat(12)}`
      yield* cut(`${long} ${key}`, { maxOutputChars: 100, tempDir })
      const [file = ""] = readdirSync(tempDir)
      assert.notInclude(readFileSync(join(tempDir, file), "utf8"), key)
    })
  )

  it("T127 wrong parameters are one line with the field", () => {
    const message = (given: unknown) => {
      const result = LongToolOutput.fromUnknown(given)
      return Result.isFailure(result) ? result.failure.message : ""
    }
    assert.match(message({ max_output_chars: "many" }), /^long-tool-output\.maxOutputChars: /)
    assert.match(message({ max_outputs: 1 }), /maxOutputs/)
    assert.match(
      message({ max_output_chars: 10, head_chars: 8, tail_chars: 8 }),
      /16 together, more than max_output_chars \(10\)/
    )
  })
})

describe("nexau other built-ins", () => {
  it.effect("T121, T122 Logging without parameters logs model and tool calls; previews are cut with a mark", () =>
    Effect.gen(function* () {
      const { program } = play([callEcho, Fake.text("x")], [Logging.make({})], { output: "z".repeat(50) })
      const lines = yield* logged(program)
      assert.strictEqual(lines.filter((line) => line.startsWith("model call with")).length, 2)
      assert.isTrue(lines.some((line) => line.startsWith("tool echo ended")))
      const short = yield* logged(
        play([callEcho, Fake.text("x")], [Logging.make({ toolLogger: "t", toolPreviewChars: 10 })], {
          output: "z".repeat(50)
        }).program
      )
      assert.isTrue(
        short.some((line) => line.includes(`output ${"z".repeat(10)}… [50 characters]`)),
        short.join("\n")
      )
      assert.isFalse(short.some((line) => line.startsWith("model call")))
    })
  )

  it.effect("ToolFilter removes calls, and refuses a name that was repaired after it", () =>
    Effect.gen(function* () {
      const { program, reached } = play([callEcho, Fake.text("x")], [ToolFilter.make({ deny: ["echo"] })])
      yield* program
      const repaired = play(
        [Fake.calls(Fake.call("c1", "Echo", {})), Fake.text("x")],
        [ToolFilter.make({ deny: ["echo"] })]
      )
      yield* repaired.program
      assert.deepStrictEqual([reached, repaired.reached], [[], []])
      assert.include(String(results(repaired.fake.asked[1]?.messages)[0]), "may not be called here")
    })
  )

  it.effect("ToolFilter with feedback goes on", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [callEcho, Fake.text("x")],
        [ToolFilter.make({ allow: [], feedback: "use no tools" })]
      )
      assert.strictEqual(textOf((yield* program).exit), "x")
      assert.strictEqual(texts(fake.asked[1]?.messages).at(-1), "use no tools")
    })
  )

  it.effect("T23 BudgetReminder hints from the second call on, hardens, and is never stored", () =>
    Effect.gen(function* () {
      const { fake, program } = play(
        [callEcho, Fake.calls(Fake.call("c2", "echo", { i: 2 })), Fake.text("x")],
        [BudgetReminder.make({ maxContextTokens: 1000 })],
        { maxIterations: 3 }
      )
      const { stored } = yield* program
      const hints = fake.asked.map(({ messages }) => texts(messages).join("").split("<budget>").length - 1)
      assert.deepStrictEqual(hints, [0, 1, 1])
      assert.include(texts(fake.asked[1]?.messages).join(""), "Only 2 iterations are left")
      assert.include(texts(fake.asked[2]?.messages).join(""), "This is your last iteration")
      assert.match(texts(fake.asked[2]?.messages).join(""), /Only \d+ tokens are left/)
      assert.notInclude(stored.map(Conversation.readText).join(""), "budget")
    })
  )

  it.effect("Reminder is in every n-th call", () =>
    Effect.gen(function* () {
      const turns = [callEcho, Fake.calls(Fake.call("c2", "echo", { i: 2 })), Fake.text("x")]
      const { fake, program } = play(turns, [Reminder.make({ text: "stay within budget", every: 2 })])
      yield* program
      assert.deepStrictEqual(
        fake.asked.map(({ messages }) => texts(messages).join("").includes("stay within budget")),
        [true, false, true]
      )
    })
  )

  it.effect("Timing logs one line per run, and slow calls at once", () =>
    Effect.gen(function* () {
      const lines = yield* logged(play([callEcho, Fake.text("x")], [Timing.make()]).program)
      assert.strictEqual(
        lines.filter((line) => /ended \(SUCCESS\) after \d+ ms: model 2× \d+ ms, echo 1× \d+ ms$/.test(line)).length,
        1,
        lines.join("\n")
      )
    })
  )

  it.effect("T34 Events placed first carry what the others left, and no secret", () =>
    Effect.gen(function* () {
      const events: Array<AgentEvents.Event> = []
      const key = `sk-ant-api03-${"a1B2".repeat(12)}`
      const masks = Middleware.lifecycle({
        name: "m",
        afterAgent: () => Middleware.withModifications({ agentResponse: "[redacted]" })
      })
      yield* play(
        [callEcho, Fake.text("x")],
        [AgentEvents.make({ emit: (event) => Effect.sync(() => void events.push(event)) }), masks],
        { output: { key } }
      ).program
      assert.deepStrictEqual(
        events.map(({ type }) => type),
        ["RUN_STARTED", "USAGE_UPDATE", "TOOL_CALL_RESULT", "USAGE_UPDATE", "RUN_FINISHED"]
      )
      assert.notInclude(JSON.stringify(events), key)
      const last = events.at(-1)
      assert.strictEqual(last?.type === "RUN_FINISHED" ? last.result : "", "[redacted]")
    })
  )

  it.effect("RuntimeEnvironment adds the place to the system prompt once; the stored prompt stays", () =>
    Effect.gen(function* () {
      const place = RuntimeEnvironment.make({ operatingSystem: "Debian 12", shell: "bash" })
      const { fake, program } = play([Fake.text("x")], [place, place])
      yield* program
      const system = fake.asked[0]?.messages[0]
      const content = system?.role === "system" ? system.content : ""
      assert.isTrue(
        content.endsWith("# Runtime environment\nWorking directory: /tmp\nOperating system: Debian 12\nShell: bash"),
        content
      )
      assert.strictEqual(content.split("# Runtime environment").length, 2)
    })
  )

  it.effect("ResponseCache answers the same call once from the provider; a secret is not kept", () =>
    Effect.gen(function* () {
      const secret = `sk-ant-api03-${"a1B2".repeat(12)}`
      for (const [said, calls] of [
        ["fine", 1],
        [`key ${secret}`, 2]
      ] as const) {
        const fake = Fake.make(Fake.text(said))
        const layer = Agent.layer({ cwd: "/tmp", middleware: [ResponseCache.make()] }).pipe(
          Layer.provideMerge(
            Layer.mergeAll(fake.router, SessionStore.layerMemory, ToolRegistry.layer([]), Persistence.layerMemory)
          )
        )
        const program = Effect.all([Agent.run({ prompt: "hello" }), Agent.run({ prompt: "hello" })])
        const [first, second] = yield* Effect.provide(program, layer)
        assert.deepStrictEqual([second.text, second.model, fake.asked.length], [first.text, first.model, calls])
        if (calls === 1) assert.strictEqual(second.usage.inputTokens, 0)
      }
    })
  )

  it.effect("PiiRedaction masks input before the store, tool results and answers", () =>
    Effect.gen(function* () {
      const { fake, program } = play([callEcho, Fake.text("write to bob@example.org")], [PiiRedaction.make()], {
        prompt: "I am ada@example.org, card 4111 1111 1111 1111, not 4111 1111 1111 1112",
        output: { from: "eve@example.org" }
      })
      const { exit, stored } = yield* program
      assert.strictEqual(
        stored.map(Conversation.readText)[0],
        "I am [EMAIL], card [CREDIT_CARD], not 4111 1111 1111 1112"
      )
      assert.deepStrictEqual(results(fake.asked[1]?.messages), ['{"from":"[EMAIL]"}'])
      assert.strictEqual(textOf(exit), "write to [EMAIL]")
      assert.notInclude(JSON.stringify([fake.asked.map(({ messages }) => messages), stored]), "@example.org")
    })
  )

  it("PiiRedaction refuses a pattern that is not a regular expression", () => {
    assert.throws(() => PiiRedaction.make({ patterns: { x: "(" } }), /pii-redaction\.patterns/)
  })
})
