// Cases of the LLM document about errors, retries, keys and fallbacks, and the events that they make.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as Response from "effect/ai/Response"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import * as Config from "../../src/base/config/Config.ts"
import * as Environment from "../../src/base/config/Environment.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import type { ModelCall } from "../../src/base/domain/ModelCall.ts"
import * as Classification from "../../src/models/routing/Classification.ts"
import * as ConfiguredRoutes from "../../src/models/routing/ConfiguredRoutes.ts"
import * as CredentialPool from "../../src/models/routing/CredentialPool.ts"
import * as Fake from "../support/fakeModel.ts"
import * as S from "../models/routing/support.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const ok = Fake.text("hello")

const delta = (text: string) => Response.makePart("text-delta", { id: "1", delta: text })
const toolStart = Response.makePart("tool-params-start", { id: "c1", name: "terminal", providerExecuted: false })

/** Runs an effect while the test's clock moves on. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>, duration: Duration.Input = "1 hour") =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    yield* TestClock.adjust(duration)
    return yield* Fiber.join(fiber)
  })

const delays = (limits: RetryPolicy.Limits, count: number) =>
  Effect.map(
    S.stepPolicy(
      RetryPolicy.make({ ...limits, attempts: count + 1 }),
      Array.from({ length: count }, () => ({}))
    ),
    (waits) => waits.map((millis) => millis / 1_000)
  )

describe("errors, retries, pool, fallback", () => {
  it.effect("T128 backoff stays within its bounds", () =>
    Effect.gen(function* () {
      const five = yield* delays({ base: "5 seconds", cap: "120 seconds" }, 6)
      assert.isTrue((five[0] ?? 0) >= 5 && (five[0] ?? 0) <= 7.5, String(five[0]))
      assert.isTrue((five[5] ?? 0) >= 120 && (five[5] ?? 0) <= 180, String(five[5]))
      const two = yield* delays({ base: "2 seconds", cap: "60 seconds" }, 10)
      assert.isTrue((two[0] ?? 0) >= 2 && (two[0] ?? 0) <= 3, String(two[0]))
      assert.isTrue((two[9] ?? 0) >= 60 && (two[9] ?? 0) <= 90, String(two[9]))
    }).pipe(Random.withSeed("bounds"))
  )

  it.effect("T130 an interrupt ends a wait at once", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(500, "boom"))] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const { answer, events } = S.asking(router)
      const fiber = yield* Effect.forkChild(answer, { startImmediately: true })
      yield* TestClock.adjust("1 second")
      assert.strictEqual(S.waits(events).length, 1)
      yield* Fiber.interrupt(fiber)
      const exit = yield* Fiber.await(fiber)
      assert.isTrue(Exit.isFailure(exit) && Exit.hasInterrupts(exit))
      yield* TestClock.adjust("1 hour")
      assert.deepStrictEqual(asked, ["a"])
    })
  )

  it.effect("T131 the first 429 goes to the next key without a wait (ARCHITECTURE §7, D3 instead of one retry)", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(429, "slow down")), ok] })
      const router = yield* S.router({
        chain: [{ route: S.route("a"), credentials: ["k1", "k2", "k3"].map(S.key) }],
        open
      })
      const { answer, events } = S.asking(router)
      const { attempt } = yield* answer
      assert.deepStrictEqual(asked, ["a:k1", "a:k2"])
      assert.deepStrictEqual(S.waits(events), [])
      assert.strictEqual(attempt, 1)
      yield* TestClock.adjust("61 seconds")
      yield* S.asking(router).answer
      assert.deepStrictEqual(asked, ["a:k1", "a:k2", "a:k1"])
    })
  )

  it("T133 a 402 that time will mend is a rate limit", () => {
    const decision = Classification.classify(S.http(402, "usage limit reached, try again in 5 minutes"))
    assert.deepInclude(decision, { reason: "rate_limit", retryable: true })
    assert.deepInclude(Classification.classify(S.http(402, "Payment required")), {
      reason: "billing",
      retryable: false
    })
  })

  describe("T134 401 of a key", () => {
    const scenario = (refresh: Effect.Effect<Redacted.Redacted<string>, never> | undefined, fallback: boolean) =>
      Effect.gen(function* () {
        const { asked, open } = S.world({
          a:
            refresh === undefined || fallback
              ? [S.fails(S.http(401, "token expired"))]
              : [S.fails(S.http(401, "token expired")), ok],
          b: [ok]
        })
        const router = yield* S.router({
          chain: [
            { route: S.route("a"), credentials: [{ ...S.key("k1"), refresh }] },
            ...(fallback ? [{ route: S.route("b") }] : [])
          ],
          open
        })
        const exit = yield* Effect.exit(S.asking(router).answer)
        return { asked, exit }
      })

    it.effect("is renewed where it can be", () =>
      Effect.gen(function* () {
        const { asked, exit } = yield* scenario(Effect.succeed(Redacted.make("k1b")), false)
        assert.deepStrictEqual(asked, ["a:k1", "a:k1b"])
        assert.isTrue(Exit.isSuccess(exit))
      })
    )
    it.effect("else the next key, else the fallback, else the call fails", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual((yield* scenario(undefined, true)).asked, ["a:k1", "b"])
        const { asked, exit } = yield* scenario(undefined, false)
        assert.deepStrictEqual(asked, ["a:k1"])
        assert.isTrue(Exit.isFailure(exit))
      })
    )
  })

  it("T136 strategies", () => {
    const entries = [
      { place: 0, leases: 0, used: 5 },
      { place: 1, leases: 0, used: 2 },
      { place: 2, leases: 0, used: 3 }
    ]
    const chosen = (strategy: CredentialPool.Strategy, last: number) =>
      CredentialPool.chooseKey(strategy, entries, last, 0.5)?.place
    assert.deepStrictEqual(
      [-1, 0, 1].map((last) => chosen("fill_first", last)),
      [0, 0, 0]
    )
    assert.deepStrictEqual(
      [-1, 0, 1, 2].map((last) => chosen("round_robin", last)),
      [0, 1, 2, 0]
    )
    assert.strictEqual(chosen("least_used", 0), 1)
    assert.strictEqual(chosen("random", 0), 1)
  })

  describe("T137 eager fallback", () => {
    const ask = (...keys: ReadonlyArray<string>) =>
      Effect.gen(function* () {
        const { asked, open } = S.world({ a: [S.fails(S.http(429, "slow down")), ok], b: [ok] })
        const router = yield* S.router({
          chain: [{ route: S.route("a"), credentials: keys.map(S.key) }, { route: S.route("b") }],
          open
        })
        const { answer, events } = S.asking(router)
        const { route } = yield* answer
        return { asked, route: route.provider, waits: S.waits(events) }
      })
    it.effect("429 with one key goes to the fallback without waiting", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* ask("k1"), { asked: ["a:k1", "b"], route: "b", waits: [] })
      })
    )
    it.effect("429 with another key does not", () =>
      Effect.gen(function* () {
        assert.deepStrictEqual(yield* ask("k1", "k2"), { asked: ["a:k1", "a:k2"], route: "a", waits: [] })
      })
    )
  })

  it.effect("T139 500 three times: three attempts on the primary, then the fallback with counters of its own", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({
        a: [S.fails(S.http(500, "boom"))],
        b: [S.fails(S.http(500, "boom")), S.fails(S.http(500, "boom")), ok]
      })
      const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
      const { answer, events } = S.asking(router)
      const { attempt, route } = yield* inTime(answer)
      assert.deepStrictEqual(asked, ["a", "a", "a", "b", "b", "b"])
      assert.deepStrictEqual([route.provider, attempt], ["b", 5])
      const [first, second, third, fourth] = S.waits(events)
      assert.isTrue((first ?? 0) >= 5_000 && (first ?? 0) <= 7_500)
      assert.isTrue((second ?? 0) >= 10_000 && (second ?? 0) <= 15_000)
      assert.isTrue((third ?? 0) >= 5_000 && (third ?? 0) <= 7_500)
      assert.isTrue((fourth ?? 0) >= 10_000 && (fourth ?? 0) <= 15_000)
      const said = events.find(({ _tag }) => _tag === "Waiting")
      assert.deepInclude(said, { attempt: 2, maxAttempts: 3, reason: "a: server_error" })
    })
  )

  describe("T140 transport recovery", () => {
    const broken = [S.fails(S.network("api cannot be reached in time"))]
    it.effect("a direct provider gets a new client once, six seconds later, and three more attempts", () =>
      Effect.gen(function* () {
        const { asked, closed, open, opened } = S.world({ a: broken, b: [ok] })
        const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
        const { answer, events } = S.asking(router)
        yield* inTime(answer)
        assert.deepStrictEqual(asked, ["a", "a", "a", "a", "a", "a", "b"])
        assert.deepStrictEqual(opened, ["a", "a", "b"])
        assert.deepStrictEqual(closed, ["a"])
        assert.strictEqual(S.waits(events)[2], 6_000)
      })
    )
    it.effect("where nobody listens, a new client is not made, and two short waits say so", () =>
      Effect.gen(function* () {
        const { asked, open, opened } = S.world({ a: [S.fails(S.refused)], b: [ok] })
        const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
        const { answer, events } = S.asking(router)
        yield* inTime(answer)
        assert.deepStrictEqual(asked, ["a", "a", "a", "b"])
        assert.deepStrictEqual(opened, ["a", "b"])
        assert.deepStrictEqual(S.waits(events), [2_000, 2_000])
        const said = events.find(({ _tag }) => _tag === "Waiting")
        assert.deepInclude(said, {
          reason: "a: nothing listens at a.example: start the server or correct the base URL"
        })
      })
    )
    it.effect("an aggregator and a fallback do not", () =>
      Effect.gen(function* () {
        const { asked, open } = S.world({ openrouter: broken, b: broken })
        const router = yield* S.router({ chain: [{ route: S.route("openrouter") }, { route: S.route("b") }], open })
        yield* Effect.flip(inTime(S.asking(router).answer))
        assert.deepStrictEqual(asked, ["openrouter", "openrouter", "openrouter", "b", "b", "b"])
      })
    )
  })

  describe("T142 restoration of the primary", () => {
    const after = (error: Parameters<typeof S.fails>[0]) =>
      Effect.gen(function* () {
        const { asked, open } = S.world({ a: [S.fails(error), S.fails(error), S.fails(error), ok], b: [ok] })
        const router = yield* S.router({
          chain: [{ route: S.route("a") }, { route: S.route("b") }],
          open,
          retry: RetryPolicy.none
        })
        const next = (id: string) =>
          Effect.map(S.asking(router, { turn: S.turn("s1", id) }).answer, ({ route }) => route.provider)
        return { asked, next }
      })
    it.effect("after a 500 with the next turn", () =>
      Effect.gen(function* () {
        const { asked, next } = yield* after(S.http(500, "boom"))
        assert.deepStrictEqual([yield* next("t1"), yield* next("t1")], ["b", "b"])
        assert.deepStrictEqual(asked, ["a", "b", "b"], "a turn stays where it is")
        yield* next("t2")
        assert.deepStrictEqual(asked, ["a", "b", "b", "a", "b"])
      })
    )
    it.effect("after a 429 not before a minute is over", () =>
      Effect.gen(function* () {
        const { asked, next } = yield* after(S.http(429, "slow down"))
        yield* next("t1")
        yield* TestClock.adjust("59 seconds")
        assert.strictEqual(yield* next("t2"), "b")
        assert.deepStrictEqual(asked, ["a", "b", "b"])
        yield* TestClock.adjust("1 second")
        yield* next("t3")
        assert.strictEqual(asked[3], "a")
      })
    )
  })

  describe("T145 a 400 that says nothing", () => {
    const generic = S.http(400, "Error")
    it("is a full window in a large conversation", () => {
      assert.deepInclude(Classification.classify(generic, { messages: 90 }), { reason: "context_overflow" })
    })
    it.effect("else wrong: fallback, then the call fails", () =>
      Effect.gen(function* () {
        assert.deepInclude(Classification.classify(generic, { messages: 5 }), {
          reason: "format_error",
          retryable: false
        })
        const { asked, open } = S.world({ a: [S.fails(generic)], b: [S.fails(generic)] })
        const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
        yield* Effect.flip(S.asking(router).answer)
        assert.deepStrictEqual(asked, ["a", "b"])
      })
    )
  })

  it("T148 the error of a provider behind an aggregator counts", () => {
    const body = JSON.stringify({
      error: { message: "Provider returned error", metadata: { raw: "context length exceeded" } }
    })
    assert.strictEqual(
      Classification.classify(S.http(400, "Provider returned error: context length exceeded")).reason,
      "context_overflow"
    )
    assert.strictEqual(
      Classification.classify(S.http(429, body)).message,
      "Provider returned error context length exceeded"
    )
  })

  describe("T149 images that are not supported", () => {
    it.effect("are left out, at once and from then on", () =>
      Effect.gen(function* () {
        const { asked, open } = S.world({ a: [S.fails(S.http(400, "this model does not support images")), ok] })
        const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
        const { answer, events } = S.asking(router)
        yield* answer
        yield* S.asking(router).answer
        assert.deepStrictEqual(asked, ["a", "a", "a"])
        assert.deepStrictEqual(S.waits(events), [])
      })
    )
    it("a 500 with these words is a 500", () => {
      assert.strictEqual(Classification.classify(S.http(500, "does not support images")).reason, "server_error")
    })
  })
})

describe("streams", () => {
  /** Texts of the last two messages that a route was asked with. */
  const asked2 = (call: ModelCall | undefined) =>
    call?.messages.slice(-2).map((message) => [message.role, Conversation.readText(message)]) ?? []

  it.effect(
    "T125 (ARCHITECTURE.md §7 decides: the rest is asked for) text that was read is finished by the next attempt",
    () =>
      Effect.gen(function* () {
        const { asked, open, prepared } = S.world({
          a: [
            S.breaks(S.network("a closed the connection"), delta("half of "), delta("it")),
            Fake.text(" and the rest")
          ]
        })
        const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
        const { answer, discarded, events, kept } = S.asking(router)
        const { response, route } = yield* inTime(answer)
        assert.deepStrictEqual([asked, route.provider, discarded(), kept()], [["a", "a"], "a", 0, "half of it"])
        assert.deepStrictEqual(
          response.parts.map((part) => part.type === "text" && part.text),
          ["half of it and the rest"]
        )
        const [[role, text] = [], last] = asked2(prepared[1])
        assert.deepStrictEqual([role, text, last?.[0]], ["assistant", "half of it", "user"])
        assert.match(String(last?.[1]), /Go on exactly where it stops/)
        assert.match(S.notices(events)[0] ?? "", /broke off \(timeout\): asking for the rest/)
      })
  )

  it.effect("T125 (the same) what three attempts on a route could not finish, the next route does", () =>
    Effect.gen(function* () {
      const piece = (text: string) => S.breaks(S.network("connection reset"), delta(text))
      const { asked, open } = S.world({ a: [piece("1 "), piece("2 "), piece("3 ")], b: [Fake.text("4")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
      const { response, route } = yield* inTime(S.asking(router).answer)
      assert.deepStrictEqual([asked, route.provider], [["a", "a", "a", "b"], "b"])
      assert.deepStrictEqual(
        response.parts.map((part) => part.type === "text" && part.text),
        ["1 2 3 4"]
      )
    })
  )

  it.effect("T125 (the same) where no route finishes it, the call fails, and what was read is kept", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.breaks(S.network("connection reset"), delta("x"), toolStart)] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open, streamRetries: 1 })
      const { answer, kept } = S.asking(router)
      const exit = yield* Effect.exit(inTime(answer))
      assert.deepStrictEqual([exit._tag, asked, kept()], ["Failure", ["a", "a"], "xx"])
    })
  )

  it.effect("T125 text that nobody read is made again from its beginning, with its call", () =>
    Effect.gen(function* () {
      const lost = S.breaks(S.network("connection reset"), delta("I will run it. "), toolStart)
      const { asked, open, prepared } = S.world({ a: [lost, ok] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const { answer, discarded, events } = S.asking(router, { progress: undefined })
      const { response } = yield* inTime(answer)
      assert.deepStrictEqual([asked, discarded()], [["a", "a"], 1])
      assert.deepStrictEqual(
        response.parts.map((part) => part.type === "text" && part.text),
        ["hello"]
      )
      assert.strictEqual(prepared[1]?.messages.length, 0)
      assert.match(S.notices(events)[0] ?? "", /: asking again/)
    })
  )

  it.effect("T127 an endpoint that can not stream is asked without, and remembered", () =>
    Effect.gen(function* () {
      const { asked, open, prepared } = S.world({ a: [S.fails(S.http(400, "stream not supported")), ok] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      yield* S.asking(router).answer
      yield* S.asking(router).answer
      assert.deepStrictEqual(asked, ["a", "a", "a"])
      assert.deepStrictEqual(
        prepared.map(({ stream }) => stream),
        [true, false, false]
      )
    })
  )
})

describe("the chain", () => {
  const chainOf = Effect.fnUntraced(function* (file: unknown, variables: Readonly<Record<string, string>> = {}) {
    const environment = Environment.make(variables)
    const { settings } = yield* Config.resolve({ file, environment, flags: [] })
    return ConfiguredRoutes.resolveChain({ settings, environment })
  })
  const providers = ({ entries }: ConfiguredRoutes.Chain) => entries.map(({ route }) => route.provider)

  describe("T8 an explicit provider without a key", () => {
    const model = { provider: "zai", default: "glm-5" }
    it.effect("fails, naming its variable, and nothing else is asked", () =>
      Effect.gen(function* () {
        const chain = yield* chainOf({ model }, { OPENROUTER_API_KEY: "sk-or" })
        assert(Result.isFailure(chain))
        assert.match(chain.failure.message, /ZAI_API_KEY/)
      })
    )
    it.effect("starts on a fallback that can answer, and says so", () =>
      Effect.gen(function* () {
        const fallback_providers = [{ provider: "openrouter", model: "a/b" }]
        const chain = Result.getOrThrow(yield* chainOf({ model, fallback_providers }, { OPENROUTER_API_KEY: "sk-or" }))
        assert.deepStrictEqual(providers(chain), ["openrouter"])
        assert.match(chain.problems.join(), /ZAI_API_KEY.*until then openrouter \(a\/b\) answers/)
      })
    )
  })
})
