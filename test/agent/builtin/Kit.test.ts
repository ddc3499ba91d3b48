// The kit of ready middleware: retries, timeouts, rate limits, audit, approvals; and the built-ins that are part of it.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as RateLimiter from "effect/persistence/RateLimiter"
import { readFileSync, statSync } from "node:fs"
import { join } from "node:path"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"
import { Agent, Approvals, type Middleware, Runtime, Toolset } from "../../../src/index.ts"
import {
  Approve,
  Audit,
  BuiltinMiddleware,
  PiiRedaction,
  RateLimit,
  ResponseCache,
  Retry,
  Timeout
} from "../../../src/kit/entry/middleware.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Fake from "../../support/fakeModel.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { running } from "../../support/movingClock.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import * as S from "../../models/routing/support.ts"

const Work = Tool.make("work", {
  parameters: Schema.Struct({ n: Schema.Finite }),
  success: Schema.String,
  failure: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Work)

type Handler = (n: number, call: number) => Effect.Effect<string, string>

/** A run whose model calls `work` with each number in one answer, and then says "done". */
const play = <R>(
  middleware: ReadonlyArray<Middleware.Any>,
  options: {
    readonly turns?: ReadonlyArray<Fake.Turn>
    readonly numbers?: ReadonlyArray<number>
    readonly handler?: Handler
    readonly approvals?: typeof Approvals.layerDeny extends () => infer L ? L : never
  } = {},
  services: Layer.Layer<R> = Layer.empty as Layer.Layer<R>
) => {
  const { handler = (n) => Effect.succeed(`did ${n}`), numbers = [1] } = options
  let calls = 0
  const fake = Fake.make(
    ...(options.turns ?? [Fake.calls(...numbers.map((n) => Fake.call(`c${n}`, "work", { n }))), Fake.text("done")])
  )
  const work = Toolset.make("work", toolkit, toolkit.toLayer({ work: ({ n }) => handler(n, ++calls) }))
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    tools: [work],
    middleware,
    approvals: options.approvals,
    retry: RetryPolicy.none
    // The lists differ from run to run: their types say nothing here.
  } as never) as Layer.Layer<Agent.Agent, never, R>
  const program = Agent.run({ prompt: "go" }).pipe(Effect.provide(layer), Effect.provide(services), Effect.exit)
  return Effect.map(program, (exit) => ({
    exit,
    calls,
    asked: fake.asked.length,
    results: (fake.asked.at(-1)?.messages ?? []).flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [JSON.stringify(part.result)] : []))
        : []
    ),
    text: Exit.isSuccess(exit) ? exit.value.text : String(exit.cause)
  }))
}

const hanging: Fake.Turn = () => Effect.never

describe("Retry", () => {
  it.effect("repeats a model call that failed in a way worth it, with waits between", () =>
    Effect.gen(function* () {
      let failures = 0
      const busy: Fake.Turn = () =>
        Effect.suspend(() =>
          Effect.fail((failures++, Fake.failure(new AiError.InternalProviderError({ description: "down" }))))
        )
      const started = yield* Clock.currentTimeMillis
      const { text } = yield* running(
        play([Retry.modelCalls({ times: 3 })], { turns: [busy, busy, Fake.text("done")] })
      )
      assert.deepStrictEqual([text, failures], ["done", 2])
      assert.isAtLeast((yield* Clock.currentTimeMillis) - started, 1_000)
    })
  )

  it.effect("gives up after its repetitions, and repeats nothing that another call cannot help", () =>
    Effect.gen(function* () {
      const refused: Fake.Turn = () => Effect.fail(S.http(400, "refused"))
      const once = yield* running(play([Retry.modelCalls()], { turns: [refused] }))
      assert.strictEqual(once.asked, 1)
      assert.isTrue(Exit.isFailure(once.exit))
      const always = yield* running(play([Retry.modelCalls({ times: 4, while: () => true })], { turns: [refused] }))
      assert.strictEqual(always.asked, 5)
    })
  )

  it.effect("repeats calls of the named tools only, and no veto", () =>
    Effect.gen(function* () {
      const flaky: Handler = (n, call) => (call < 3 ? Effect.die("busy") : Effect.succeed(`did ${n} at call ${call}`))
      const named = yield* running(play([Retry.toolCalls({ tools: ["work"] })], { handler: flaky }))
      assert.deepStrictEqual([named.calls, named.results], [3, ['"did 1 at call 3"']])
      const other = yield* running(play([Retry.toolCalls({ tools: ["other"] })], { handler: flaky }))
      assert.strictEqual(other.calls, 1)
      let vetoes = 0
      const approve = Approve.toolCalls({ when: () => (vetoes++, "always") })
      const vetoed = yield* running(play([Retry.toolCalls({ tools: ["work"] }), approve]))
      assert.deepStrictEqual([vetoed.calls, vetoes], [0, 1])
    })
  )
})

describe("Timeout", () => {
  it.effect("ends an attempt and a model call with a failure that retries understand", () =>
    Effect.gen(function* () {
      for (const timeout of [
        Timeout.attempts({ duration: "5 seconds" }),
        Timeout.modelCalls({ duration: "5 seconds" })
      ]) {
        const { exit, text } = yield* running(play([timeout], { turns: [hanging] }))
        assert.isTrue(Exit.isFailure(exit))
        assert.include(text, "had no answer after 5s")
      }
      const repeated = yield* running(
        play([Retry.modelCalls(), Timeout.modelCalls({ duration: "5 seconds" })], {
          turns: [hanging, Fake.text("at last")]
        })
      )
      assert.strictEqual(repeated.text, "at last")
    })
  )

  it.effect("makes an error result of a tool that takes too long, and leaves the others alone", () =>
    Effect.gen(function* () {
      const slow: Handler = (n) => Effect.as(Effect.sleep("1 minute"), `did ${n}`)
      const bounded = yield* running(play([Timeout.toolCalls({ duration: "10 seconds" })], { handler: slow }))
      assert.include(bounded.results.join(), "timed out after 10s")
      assert.strictEqual(bounded.text, "done")
      const other = yield* running(
        play([Timeout.toolCalls({ duration: "10 seconds", tools: ["other"] })], { handler: slow })
      )
      assert.deepStrictEqual(other.results, ['"did 1"'])
    })
  )
})

describe("RateLimit", () => {
  const limiter = RateLimiter.layer.pipe(Layer.provide(RateLimiter.layerStoreMemory))

  it.effect("delays what is too much until the next window", () =>
    Effect.gen(function* () {
      const started = yield* Clock.currentTimeMillis
      const { results } = yield* running(
        play([RateLimit.toolCalls({ limit: 2, window: "1 minute" })], { numbers: [1, 2, 3] }, limiter)
      )
      assert.deepStrictEqual(results, ['"did 1"', '"did 2"', '"did 3"'])
      assert.isAtLeast((yield* Clock.currentTimeMillis) - started, 59_000)
    })
  )

  it.effect("refuses where it shall, counts by key, and leaves out tools that are not named", () =>
    Effect.gen(function* () {
      const refused = yield* running(
        play(
          [RateLimit.toolCalls({ limit: 2, window: "1 minute", exceeded: "refuse" })],
          { numbers: [1, 2, 3] },
          limiter
        )
      )
      assert.deepStrictEqual(refused.results.filter((text) => text.includes("more than 2 tool calls in 1m")).length, 1)
      const apart = RateLimit.toolCalls({
        limit: 1,
        window: "1 minute",
        exceeded: "refuse",
        key: ({ toolCallId }) => toolCallId
      })
      assert.strictEqual((yield* running(play([apart], { numbers: [1, 2, 3] }, limiter))).calls, 3)
      const other = RateLimit.toolCalls({ limit: 1, window: "1 minute", exceeded: "refuse", tools: ["other"] })
      assert.strictEqual((yield* running(play([other], { numbers: [1, 2, 3] }, limiter))).calls, 3)
      const model = yield* running(
        play([RateLimit.modelCalls({ limit: 1, window: "1 hour", exceeded: "refuse" })], {}, limiter)
      )
      assert.include(model.text, "more than 1 model calls in 1h")
    })
  )

  it.effect("a store that cannot count is a warning, and a failure where it is closed", () =>
    Effect.gen(function* () {
      const failing = Effect.fail(
        new RateLimiter.RateLimiterError({ reason: new RateLimiter.RateLimitStoreError({ message: "gone" }) })
      )
      const broken = Layer.succeed(RateLimiter.RateLimiter, {
        [RateLimiter.TypeId]: RateLimiter.TypeId,
        consume: () => failing,
        adaptiveConsume: () => failing,
        adaptiveFeedback: () => failing
      })
      const limit = (onFailure: "open" | "closed") => RateLimit.modelCalls({ limit: 1, window: "1 hour", onFailure })
      const open = yield* withWarnings(running(play([limit("open")], { turns: [Fake.text("done")] }, broken)))
      assert.strictEqual(open.value.text, "done")
      assert.match(open.warnings.join(), /RateLimit.*gone/)
      assert.match(
        (yield* running(play([limit("closed")], { turns: [Fake.text("done")] }, broken))).text,
        /RateLimit.*gone/
      )
    })
  )
})

describe("Audit", () => {
  const record = () => {
    const entries: Array<Audit.Entry> = []
    return { entries, audit: Audit.make({ write: (entry) => Effect.sync(() => void entries.push(entry)) }) }
  }

  it.effect("has two entries of each call, without secrets", () =>
    Effect.gen(function* () {
      const { audit, entries } = record()
      yield* running(
        play([audit], {
          numbers: [1, 2],
          handler: (n) =>
            n === 1 ? Effect.succeed("ok") : Effect.die(new Error("key sk-proj-abcdefghijklmnopqrstuvwxyz012345"))
        })
      )
      // Calls of one answer run side by side: the entries of each are in order.
      const calls = Object.values(Object.groupBy(entries, ({ id }) => id)).map((pair) =>
        pair?.map(({ kind, name, phase, status }) => [kind, phase, name, status])
      )
      const model = [
        ["model_call", "begin", "model", undefined],
        ["model_call", "end", "fake-1", "ok"]
      ]
      const tool = (status: string) => [
        ["tool_call", "begin", "work", undefined],
        ["tool_call", "end", "work", status]
      ]
      assert.deepStrictEqual(calls, [model, tool("ok"), tool("failed"), model])
      assert.deepStrictEqual(
        entries.filter(({ id }) => id === "c1").map(({ input }) => input),
        ['{"n":1}', '{"n":1}']
      )
      assert.notInclude(JSON.stringify(entries), "abcdefghijklmnopqrstuvwxyz")
      assert.strictEqual(new Set(entries.map(({ id }) => id)).size, 4)
    })
  )

  it.effect("has the end of a call that was interrupted", () =>
    Effect.gen(function* () {
      const { audit, entries } = record()
      const fiber = yield* Effect.forkChild(play([audit], { turns: [hanging] }), { startImmediately: true })
      while (entries.length === 0) yield* Effect.promise(() => new Promise<void>((resolve) => setImmediate(resolve)))
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(
        entries.map(({ phase, status }) => [phase, status]),
        [
          ["begin", undefined],
          ["end", "interrupted"]
        ]
      )
    })
  )

  it.effect("a call whose entry cannot be written does not run", () =>
    Effect.gen(function* () {
      const audit = Audit.make({
        write: ({ kind }) => (kind === "tool_call" ? Effect.fail(new Error("disk full")) : Effect.void)
      })
      const { calls, results } = yield* running(play([audit]))
      assert.strictEqual(calls, 0)
      assert.match(results.join(), /Audit.*disk full/)
    })
  )
})

describe("Approve", () => {
  const when: Approve.Options["when"] = ({ args, tool }) =>
    tool === "work" && Number(args["n"]) > 1 ? "works a lot" : undefined

  it.effect("asks the approvals of the runtime about the calls that have a reason", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const approvals = (answer: string) =>
        Approvals.layerCallback(({ choices, command, description }) =>
          Effect.sync(() => (asked.push(`${description}: ${command} [${choices.join()}]`), answer))
        )
      const denied = yield* running(
        play([Approve.toolCalls({ when })], { numbers: [1, 2], approvals: approvals("deny") })
      )
      assert.deepStrictEqual([denied.calls, denied.results[0]], [1, '"did 1"'])
      assert.include(denied.results[1] ?? "", "works a lot: ")
      assert.deepStrictEqual(asked, ['works a lot: work {"n":2} [once,session,deny]'])
      const allowed = yield* running(
        play([Approve.toolCalls({ when })], { numbers: [1, 2], approvals: approvals("once") })
      )
      assert.deepStrictEqual(allowed.calls, 2)
    })
  )

  it.effect("nobody to ask is a denial, and what cannot be judged does not run", () =>
    Effect.gen(function* () {
      assert.strictEqual((yield* running(play([Approve.toolCalls({ when })], { numbers: [2] }))).calls, 0)
      const broken = Approve.toolCalls({
        when: () => {
          throw new Error("no rule")
        }
      })
      const { calls, results } = yield* running(play([broken]))
      assert.strictEqual(calls, 0)
      assert.match(results.join(), /Approve.*no rule/)
    })
  )
})

describe("the kit in files", () => {
  const fileOf = (name: string, params: Readonly<Record<string, unknown>>) =>
    Result.map(BuiltinMiddleware.read([{ import: name, params }]), (made) => made.map(({ middleware }) => middleware))
  const given = (name: string, params: Readonly<Record<string, unknown>>): ReadonlyArray<Middleware.Any> =>
    Result.getOrThrow(fileOf(name, params))

  it.effect("retry repeats model calls, and calls of the named tools", () =>
    Effect.gen(function* () {
      let failures = 0
      const busy: Fake.Turn = () =>
        Effect.suspend(() =>
          Effect.fail((failures++, Fake.failure(new AiError.InternalProviderError({ description: "down" }))))
        )
      const model = yield* running(play(given("retry", { times: 1 }), { turns: [busy, Fake.text("done")] }))
      assert.deepStrictEqual([model.text, failures], ["done", 1])
      const flaky: Handler = (n, call) => (call < 2 ? Effect.die("busy") : Effect.succeed(`did ${n}`))
      const tool = yield* running(play(given("retry", { calls: "tool", tools: ["work"] }), { handler: flaky }))
      assert.deepStrictEqual([tool.calls, tool.results], [2, ['"did 1"']])
    })
  )

  it.effect("timeout bounds attempts, model calls and calls of tools", () =>
    Effect.gen(function* () {
      for (const calls of ["attempt", "model"]) {
        assert.match(
          (yield* running(play(given("timeout", { calls, seconds: 5 }), { turns: [hanging] }))).text,
          /no answer after 5s/
        )
      }
      const slow: Handler = () => Effect.never
      const tool = yield* running(
        play(given("timeout", { calls: "tool", seconds: 5, tools: ["work"] }), { handler: slow })
      )
      assert.match(tool.results.join(), /timed out after 5s/)
    })
  )

  it.effect("rate-limit counts in memory, each entry apart", () =>
    Effect.gen(function* () {
      const tools = given("rate-limit", { calls: "tool", limit: 2, window_seconds: 60, exceeded: "refuse" })
      const refused = yield* running(play(tools, { numbers: [1, 2, 3] }))
      assert.deepStrictEqual(refused.results.filter((text) => text.includes("more than 2 tool calls in 1m")).length, 1)
      assert.include(
        (yield* running(play(given("rate-limit", { limit: 1, window_seconds: 60, exceeded: "refuse" })))).text,
        "more than 1 model calls in 1m"
      )
    })
  )

  it.effect("audit appends lines of JSON to a file of its owner", () =>
    Effect.scoped(
      Effect.gen(function* () {
        const path = join(yield* temporaryDirectory, "logs", "audit.jsonl")
        // Nothing waits: a clock that moves on would end calls while their lines are written.
        yield* play(given("audit", { file_path: path }))
        const lines = readFileSync(path, "utf8")
          .trimEnd()
          .split("\n")
          .map((line): Record<string, unknown> => JSON.parse(line))
        assert.deepStrictEqual(
          lines.map(({ kind, name, phase, status }) => [kind, phase, name, status]),
          [
            ["model_call", "begin", "model", undefined],
            ["model_call", "end", "fake-1", "ok"],
            ["tool_call", "begin", "work", undefined],
            ["tool_call", "end", "work", "ok"],
            ["model_call", "begin", "model", undefined],
            ["model_call", "end", "fake-1", "ok"]
          ]
        )
        assert.deepStrictEqual(Object.keys(lines[2] ?? {}).sort(), [
          "at",
          "id",
          "input",
          "kind",
          "name",
          "phase",
          "session_id",
          "turn_id"
        ])
        assert.strictEqual(statSync(path).mode & 0o777, 0o600)
        const nowhere = yield* running(play(given("audit", { file_path: join(path, "below.jsonl") })))
        assert.match(nowhere.text, /Audit/)
      })
    )
  )

  it.effect("approve asks about tools by name and glob, and denies where nobody answers", () =>
    Effect.gen(function* () {
      const asked: Array<string> = []
      const approvals = (answer: string) =>
        Approvals.layerCallback(({ command, description }) =>
          Effect.sync(() => (asked.push(`${description}: ${command}`), answer))
        )
      const allowed = yield* running(play(given("approve", { tools: ["wo*"] }), { approvals: approvals("once") }))
      assert.deepStrictEqual([allowed.calls, asked], [1, ['work needs an approval: work {"n":1}']])
      const denied = yield* running(
        play(given("approve", { tools: ["work"], reason: "costs money" }), { approvals: approvals("deny") })
      )
      assert.strictEqual(denied.calls, 0)
      assert.match(denied.results.join(), /costs money: /)
      assert.strictEqual((yield* running(play(given("approve", { tools: ["work"] })))).calls, 0)
      assert.strictEqual((yield* running(play(given("approve", { tools: ["other_*"] })))).calls, 1)
    })
  )

  it("names what is wrong with a parameter", () => {
    const wrong = (name: string, params: Readonly<Record<string, unknown>>): string => {
      const result = fileOf(name, params)
      return Result.isFailure(result) ? result.failure.message : "it was taken"
    }
    assert.match(wrong("retry", { calls: "tool" }), /retry\.tools: missing: name the tools/)
    assert.match(
      wrong("retry", { tools: ["work"] }),
      /retry\.tools: only for calls of tools: add calls: tool, or remove it/
    )
    assert.match(wrong("retry", { times: -1 }), /retry\.times: /)
    assert.match(wrong("timeout", {}), /timeout\.seconds: /)
    assert.match(wrong("timeout", { seconds: 0 }), /timeout\.seconds: /)
    assert.match(wrong("rate-limit", { limit: 0, window_seconds: 1 }), /rate-limit\.limit: /)
    assert.match(wrong("rate-limit", { limit: 1, window_seconds: 1, on_failure: "maybe" }), /rate-limit\.onFailure: /)
    assert.match(wrong("audit", {}), /audit\.filePath: /)
    assert.match(wrong("approve", { tools: [] }), /approve\.tools/)
  })
})

describe("built-ins of the kit", () => {
  it("are the same under the kit's names", () => {
    assert.strictEqual(PiiRedaction.make, PiiRedaction.make)
    assert.strictEqual(ResponseCache.make, ResponseCache.make)
  })
})
