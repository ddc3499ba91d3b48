import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as CallTokens from "../../../src/models/routing/CallTokens.ts"
import * as Classification from "../../../src/models/routing/Classification.ts"
import * as StreamTimeout from "../../../src/models/routing/StreamTimeout.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const sized = (tokens: number): ModelCall => ({
  ...S.question,
  messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "x".repeat(tokens * 4) })] })]
})

const remote = { baseUrl: "https://api.example.com/v1" }

describe("patience", () => {
  const of = (patience: StreamTimeout.Patience, tokens: number) => patience(() => tokens)
  it("grows with the request", () => {
    const { call, least, stream } = StreamTimeout.findPatiences(remote)
    assert.deepStrictEqual(
      [50_000, 50_001, 100_001].map((tokens) => of(stream, tokens)),
      [180_000, 240_000, 300_000]
    )
    assert.deepStrictEqual(
      [50_000, 50_001, 100_001].map((tokens) => of(call, tokens)),
      [300_000, 450_000, 600_000]
    )
    assert.strictEqual(least, 180_000)
  })
  it("has no end with an endpoint of one's own, unless the user says so", () => {
    for (const host of ["localhost:11434", "127.0.0.1", "192.168.1.5", "box.docker.internal", "[::1]:8080"]) {
      assert.strictEqual(StreamTimeout.findPatiences({ baseUrl: `http://${host}/v1` }).least, Infinity, host)
    }
    const { call, stream } = StreamTimeout.findPatiences({ baseUrl: "http://localhost/v1" }, { stream: 5_000 })
    assert.deepStrictEqual([of(stream, 0), of(call, 0)], [5_000, Infinity])
  })
  it("with the bytes of a stream is two minutes, with an endpoint of one's own that of the request, unless the user says so", () => {
    const read = (more: Partial<Route>) =>
      StreamTimeout.addReadTimeout({ provider: "p", model: "m", apiMode: "chat_completions", ...more })
        .readTimeoutMillis
    assert.strictEqual(read(remote), 120_000)
    assert.strictEqual(read({}), 120_000)
    assert.strictEqual(read({ baseUrl: "http://localhost:1/v1" }), 1_800_000)
    assert.strictEqual(read({ baseUrl: "http://localhost:1/v1", requestTimeoutMillis: 7_000 }), 7_000)
    assert.strictEqual(read({ ...remote, readTimeoutMillis: 5_000 }), 5_000)
  })
  it("counts a message once", () => {
    assert.strictEqual(CallTokens.estimateTokens(sized(1_000)), 1_000)
    assert.deepInclude(CallTokens.describeSituation(sized(8), 100), { tokens: 8, window: 100, messages: 1 })
    assert.deepStrictEqual(CallTokens.describeSituation(undefined, 100), { window: 100 })
  })
})

const hang: Fake.Turn = () => Effect.never
const delta = Response.makePart("text-delta", { id: "1", delta: "x" })
const reasoning = Response.makePart("reasoning-delta", { id: "1", delta: "hm" })

/** Says something every so often, `count` times, then goes silent. */
const every =
  (seconds: number, count: number): Fake.Turn =>
  (_, options) =>
    Effect.gen(function* () {
      for (let n = 0; n < count; n++) {
        yield* Effect.sleep(seconds * 1_000)
        yield* options?.onPart?.([reasoning]) ?? Effect.void
      }
      return yield* Effect.never
    })

const start = (turn: Fake.Turn, more: Parameters<typeof S.asking>[1] = {}, limits?: StreamTimeout.Limits) =>
  Effect.gen(function* () {
    const { asked, open } = S.world({ a: [turn] })
    const router = yield* S.router({ chain: [{ route: S.route("a"), limits }], open, retry: RetryPolicy.none })
    const asking = S.asking(router, more)
    const fiber = yield* Effect.forkChild(Effect.exit(asking.answer), { startImmediately: true })
    return { ...asking, asked, fiber, isOver: () => fiber.pollUnsafe() !== undefined }
  })

const beats = (events: ReadonlyArray<{ readonly _tag: string; readonly waitedMillis?: number }>) =>
  events.flatMap((event) => (event._tag === "Heartbeat" ? [event.waitedMillis] : []))

describe("a silent model", () => {
  it.effect("is waited for three minutes in a stream, told of every half minute", () =>
    Effect.gen(function* () {
      const { events, isOver } = yield* start(hang)
      yield* TestClock.adjust("179 seconds")
      assert.deepStrictEqual(beats(events), [30_000, 60_000, 90_000, 120_000, 150_000])
      assert.isFalse(isOver())
      yield* TestClock.adjust("1 second")
      assert.deepInclude(events.at(-1), { _tag: "Waiting", reason: "a: a new connection" })
    })
  )

  it.effect("is given five minutes in a large request", () =>
    Effect.gen(function* () {
      const { asked, events, isOver } = yield* start(hang, { call: sized(120_000) }, undefined)
      yield* TestClock.adjust("299 seconds")
      assert.isFalse(isOver())
      assert.notInclude(
        events.map(({ _tag }) => _tag),
        "Waiting"
      )
      assert.deepStrictEqual(asked, ["a"])
      yield* TestClock.adjust("1 second")
      assert.strictEqual(events.at(-1)?._tag, "Waiting")
    })
  )

  it.effect("every piece starts the wait anew", () =>
    Effect.gen(function* () {
      const { events } = yield* start(every(170, 3))
      yield* TestClock.adjust("680 seconds")
      assert.notInclude(
        events.map(({ _tag }) => _tag),
        "Waiting"
      )
      yield* TestClock.adjust("10 seconds")
      assert.include(
        events.map(({ _tag }) => _tag),
        "Waiting"
      )
    })
  )

  it.effect("a reader that takes its time is no silence of the model", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({
        a: [(_, options) => Effect.as(options?.onPart?.([delta]) ?? Effect.void, Fake.textAnswer("late"))]
      })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const fiber = yield* Effect.forkChild(
        router.call(S.bare, {
          call: S.question,
          context: S.context,
          userMessage: "hi",
          options: { onPart: (parts) => Effect.delay(Effect.succeed(parts), "10 minutes") }
        }),
        { startImmediately: true }
      )
      yield* TestClock.adjust("10 minutes")
      assert.strictEqual((yield* Fiber.join(fiber)).attempt, 0)
      assert.deepStrictEqual(asked, ["a"])
    })
  )

  it.effect("the user's limit holds, and the failure says what to raise", () =>
    Effect.gen(function* () {
      const { open } = S.world({ openrouter: [hang] })
      const router = yield* S.router({
        chain: [{ route: S.route("openrouter"), limits: { stream: 2_000 } }],
        open,
        retry: RetryPolicy.none
      })
      const fiber = yield* Effect.forkChild(Effect.flip(S.asking(router).answer), { startImmediately: true })
      yield* TestClock.adjust("2 seconds")
      const error = yield* Fiber.join(fiber)
      assert.match(error.message, /openrouter sent nothing for 2 s: the stream is stale; raise stale_timeout_seconds/)
      assert.strictEqual(Classification.classify(error).reason, "timeout")
    })
  )

  it.effect("an interruption ends the call and its connection", () =>
    Effect.gen(function* () {
      let closed = 0
      const { fiber } = yield* start(() => Effect.onInterrupt(Effect.never, () => Effect.sync(() => void closed++)))
      yield* Fiber.interrupt(fiber)
      assert.strictEqual(closed, 1)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit))
    })
  )

  it.effect("an endpoint of one's own is waited for, and nobody is woken for it unless somebody listens", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [hang] })
      const router = yield* S.router({ chain: [{ route: S.route("a", "m", "http://localhost:1/v1") }], open })
      yield* Effect.forkChild(
        router.call(S.bare, { call: S.question, context: S.context, userMessage: "hi", options: undefined }),
        { startImmediately: true }
      )
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(asked, ["a"])
    })
  )

  it.effect("a call to one's own endpoint whose silence nobody is told of runs in the fiber of its caller", () =>
    Effect.gen(function* () {
      const fibers: Array<number | undefined> = []
      const { open } = S.world({
        a: [() => Effect.sync(() => (fibers.push(Fiber.getCurrent()?.id), Fake.textAnswer("here")))]
      })
      const router = yield* S.router({ chain: [{ route: S.route("a", "m", "http://localhost:1/v1") }], open })
      yield* S.asking(router, { heartbeat: undefined }).answer
      assert.deepStrictEqual(fibers, [Fiber.getCurrent()?.id])
    })
  )
})
