import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Data from "effect/Data"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Redacted from "effect/Redacted"
import * as TestClock from "effect/testing/TestClock"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import { ConfigError } from "../../../src/base/domain/AgentError.ts"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import * as Adaptation from "../../../src/models/routing/Adaptation.ts"
import * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Stack from "../../../src/middleware/Stack.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"

const ok = Fake.text("hello")
const down = S.fails(S.http(503, "down"))
const ab = [{ route: S.route("a") }, { route: S.route("b") }] as const

const at = <A, E, R>(effect: Effect.Effect<A, E, R>, seconds: number) =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    yield* TestClock.adjust(seconds * 1_000)
    return yield* Fiber.join(fiber)
  })

describe("a route that answers", () => {
  it.effect("is asked once, opened once, and nothing is told", () =>
    Effect.gen(function* () {
      const { asked, open, opened } = S.world({ a: [ok] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      const { answer, events } = S.asking(router)
      assert.deepInclude(yield* answer, {
        attempt: 0,
        route: { provider: "a", model: "m", apiMode: "chat_completions", baseUrl: "https://a.example/v1" }
      })
      yield* S.asking(router).answer
      assert.deepStrictEqual([asked, opened, events], [["a", "a"], ["a"], []])
      assert.strictEqual((yield* router.primary).provider, "a")
    })
  )

  it.effect("of several is the only one that is opened", () =>
    Effect.gen(function* () {
      const { open, opened } = S.world({ a: [ok], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      yield* S.asking(router).answer
      assert.deepStrictEqual(opened, ["a"])
    })
  )
})

describe("sessions", () => {
  it.effect("each has a place of its own in the chain", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [down, ok], b: [ok] })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.none })
      yield* S.asking(router, { turn: S.turn("one") }).answer
      yield* S.asking(router, { turn: S.turn("two") }).answer
      yield* S.asking(router, { turn: S.turn("one") }).answer
      assert.deepStrictEqual(asked, ["a", "b", "a", "b"])
    })
  )

  it.effect("empty answers advance a turn, until there is no other route", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [ok], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      yield* S.asking(router).answer
      assert.strictEqual((yield* router.advance(S.turn(), "empty_answers"))?.provider, "b")
      yield* S.asking(router).answer
      assert.isUndefined(yield* router.advance(S.turn(), "empty_answers"))
      yield* S.asking(router, { turn: S.turn("s1", "t2") }).answer
      assert.deepStrictEqual(asked, ["a", "b", "a"])
    })
  )
})

describe("what is left to others", () => {
  class Veto extends Data.TaggedError("Veto")<{}> {}

  it.effect("an attempt's own failure ends the call", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [ok], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      let attempts = 0
      const veto = Middleware.llmExecution<never, Veto>({
        name: "veto",
        wrap: () => () => {
          attempts++
          return Effect.fail(new Veto())
        }
      })
      const { context, question } = S
      const call = router.call<Veto>(
        { ...S.bare, stack: Stack.make([veto]) },
        { call: question, context, userMessage: "hi", options: undefined }
      )
      const error = yield* Effect.flip(call)
      assert.instanceOf(error, Veto)
      assert.strictEqual(attempts, 1)
    })
  )

  it.effect("a conversation that is too long goes up at once: no other route, no wait", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(413, "too large"))], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      yield* Effect.flip(S.asking(router).answer)
      assert.deepStrictEqual(asked, ["a"])
    })
  )

  it.effect("a route outside of the chain that a call names has its keys too, whichever object names it", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [ok], c: [S.fails(S.http(401, "no")), ok] })
      const apart = {
        route: { ...S.route("c"), apiKey: Redacted.make("one") },
        credentials: [S.key("one"), S.key("two")]
      }
      const router = yield* S.router({ chain: [{ route: S.route("a") }], apart: [apart], open })
      yield* S.asking(router, { route: { ...S.route("c"), apiKey: Redacted.make("one") } }).answer
      yield* S.asking(router, { route: { ...S.route("c"), apiKey: Redacted.make("three") } }).answer
      yield* S.asking(router).answer
      assert.deepStrictEqual(asked, ["c:one", "c:two", "c:three", "a"])
    })
  )

  it.effect("a route that a call names is the only one that is asked", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [ok], b: [ok], c: [down] })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.make({ attempts: 2 }) })
      const error = yield* Effect.flip(at(S.asking(router, { route: S.route("c") }).answer, 60))
      assert.include(error.message, "down")
      assert.deepStrictEqual(asked, ["c", "c"])
    })
  )
})

describe("other routes", () => {
  it.effect("one that can not be opened is passed over", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ b: [ok] })
      const router = yield* S.router({
        chain: ab,
        open: (route) =>
          route.provider === "a"
            ? Effect.fail(new ConfigError({ path: "model.base_url", message: "no such place" }))
            : open(route)
      })
      const { answer, events } = S.asking(router)
      assert.strictEqual((yield* answer).route.provider, "b")
      assert.deepStrictEqual(asked, ["b"])
      assert.match(S.notices(events).join(), /a \(m\) cannot answer \(format_error\): continuing with b \(m\)/)
    })
  )

  it.effect("an answer that is none goes there at once, and is waited out where there is none", () =>
    Effect.gen(function* () {
      const first = S.world({ a: [S.fails(S.malformed)], b: [ok] })
      const both = yield* S.router({ chain: ab, open: first.open })
      yield* S.asking(both).answer
      assert.deepStrictEqual(first.asked, ["a", "b"])
      const second = S.world({ a: [S.fails(S.malformed), ok] })
      const one = yield* S.router({ chain: [ab[0]], open: second.open })
      const { answer, events } = S.asking(one)
      yield* at(answer, 10)
      const [wait = 0] = S.waits(events)
      assert.isTrue(wait >= 5_000 && wait <= 7_500)
    })
  )

  it.effect("when none answers, the last failure is the call's", () =>
    Effect.gen(function* () {
      const { open } = S.world({
        a: [S.fails(S.http(400, "a is wrong about this request"))],
        b: [S.fails(S.http(400, "b is wrong about this request"))]
      })
      const router = yield* S.router({ chain: ab, open })
      const error = yield* Effect.flip(S.asking(router).answer)
      assert.include(error.message, "b is wrong")
    })
  )

  it.effect("a wait that the provider asks for is kept, two minutes and some by chance at most", () =>
    Effect.gen(function* () {
      const limited = (seconds: number) => S.fails(S.http(429, "slow", { retryAfterMillis: seconds * 1_000 }))
      const { open } = S.world({ a: [limited(21), limited(3_600), ok] })
      const router = yield* S.router({ chain: [ab[0]], open })
      const { answer, events } = S.asking(router)
      yield* at(answer, 200)
      const [first = 0, second = 0, ...more] = S.waits(events)
      assert.isTrue(first >= 21_000 && first <= 26_000, String(first))
      assert.isTrue(second >= 120_000 && second <= 125_000, String(second))
      assert.deepStrictEqual(more, [])
    })
  )
})

describe("a time that a provider asks for", () => {
  it.effect("is never cut, and another one for each of those who are refused together", () =>
    Effect.gen(function* () {
      const waits = yield* Effect.replicateEffect(
        Effect.map(S.stepPolicy(RetryPolicy.default, [{ retryAfter: Duration.seconds(10) }]), ([wait]) => wait ?? 0),
        50
      )
      assert.deepStrictEqual(
        waits.filter((millis) => millis < 10_000 || millis > 12_500),
        []
      )
      assert.isAbove(new Set(waits).size, 40)
      // Over the whole quarter.
      for (const from of [10_000, 11_250])
        assert.isAbove(waits.filter((millis) => millis >= from && millis < from + 1_250).length, 10)
    }).pipe(Random.withSeed("jitter"))
  )
})

describe("breakers", () => {
  const failing = (count: number) => Array.from({ length: count }, () => down)

  it.effect("three failed calls open the circuit; a minute later one call tries again", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({
        a: [...failing(3), (_, __) => Effect.delay(Effect.succeed(Fake.textAnswer("back")), "5 seconds"), ok],
        b: [ok]
      })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.none })
      const next = (session: string) =>
        Effect.map(S.asking(router, { turn: S.turn(session) }).answer, ({ route }) => route.provider)
      for (const session of ["1", "2", "3", "4", "5"]) assert.strictEqual(yield* next(session), "b")
      assert.deepStrictEqual(asked, ["a", "b", "a", "b", "a", "b", "b", "b"], "open after three")
      yield* TestClock.adjust("1 minute")
      const probe = yield* Effect.forkChild(next("6"), { startImmediately: true })
      assert.strictEqual(yield* next("7"), "b", "while the probe is under way")
      yield* TestClock.adjust("5 seconds")
      assert.strictEqual(yield* Fiber.join(probe), "a")
      assert.strictEqual(yield* next("8"), "a", "closed again")
    })
  )

  it.effect("what is no matter of health does not count", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(401, "no"))], b: [ok] })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.none })
      for (const session of ["1", "2", "3", "4"]) yield* S.asking(router, { turn: S.turn(session) }).answer
      assert.strictEqual(asked.filter((name) => name === "a").length, 4)
    })
  )

  it.effect("a route that was passed over is asked after all when no other can answer", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [...failing(3), ok], b: [ok, ok, ok, down] })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.none })
      for (const session of ["1", "2", "3"]) yield* S.asking(router, { turn: S.turn(session) }).answer
      const { answer, events } = S.asking(router, { turn: S.turn("4") })
      assert.strictEqual((yield* answer).route.provider, "a")
      assert.deepStrictEqual(asked.slice(6), ["b", "a"])
      assert.match(S.notices(events).join(), /a \(m\) is skipped after repeated failures: continuing with b \(m\)/)
    })
  )

  it.effect("a single route is always asked", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [...failing(5), ok] })
      const router = yield* S.router({ chain: [ab[0]], open, retry: RetryPolicy.none })
      for (let n = 0; n < 5; n++) yield* Effect.flip(S.asking(router).answer)
      yield* S.asking(router).answer
      assert.strictEqual(asked.length, 6)
    })
  )
})

describe("keys and rates", () => {
  it.effect("a route whose keys are all set aside is not asked while there is another", () =>
    Effect.gen(function* () {
      const spent = S.fails(S.http(402, "no credits"))
      const { asked, open } = S.world({ a: [spent, spent, ok], b: [ok] })
      const router = yield* S.router({ chain: [{ ...ab[0], credentials: [S.key("k1"), S.key("k2")] }, ab[1]], open })
      yield* S.asking(router, { turn: S.turn("1") }).answer
      yield* S.asking(router, { turn: S.turn("2") }).answer
      assert.deepStrictEqual(asked, ["a:k1", "a:k2", "b", "b"])
      yield* TestClock.adjust("1 hour")
      yield* S.asking(router, { turn: S.turn("3") }).answer
      assert.strictEqual(asked[4], "a:k1")
    })
  )

  it.effect("others wait with the one that was refused for its rate, and say so; it goes first", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(429, "slow", { retryAfterMillis: 20_000 })), ok] })
      const router = yield* S.router({ chain: [ab[0]], open })
      const order: Array<string> = []
      const ask = (session: string) => {
        const { answer, events } = S.asking(router, { turn: S.turn(session) })
        return { answer: Effect.tap(answer, () => Effect.sync(() => order.push(session))), events }
      }
      const first = ask("1")
      const fibers = [yield* Effect.forkChild(first.answer, { startImmediately: true })]
      yield* TestClock.adjust("1 second")
      const others = ["2", "3", "4"].map(ask)
      for (const { answer } of others) fibers.push(yield* Effect.forkChild(answer, { startImmediately: true }))
      assert.deepStrictEqual(asked, ["a"])
      const [closed = 0] = S.waits(first.events)
      assert.isTrue(closed >= 20_000 && closed <= 25_000, String(closed))
      const said = others.flatMap(({ events }) => events)
      assert.deepStrictEqual(
        said.map((event) => event._tag === "Waiting" && event.reason),
        Array.from({ length: 3 }, () => "the rate limit of a")
      )
      const waits = others.flatMap(({ events }) => S.waits(events))
      assert.isTrue(
        waits.every((millis, index) => millis >= closed - 1_000 && (index === 0 || millis > (waits[index - 1] ?? 0))),
        String(waits)
      )
      yield* TestClock.adjust(closed - 1_001)
      assert.strictEqual(asked.length, 1)
      yield* TestClock.adjust("2 minutes")
      for (const fiber of fibers) yield* Fiber.join(fiber)
      assert.deepStrictEqual(order, ["1", "2", "3", "4"])
      assert.strictEqual(asked.length, 5)
    })
  )

  it.effect("refusals for the rate cost no attempt, whether or not the provider says for how long", () =>
    Effect.gen(function* () {
      const named = Array.from({ length: 10 }, () => S.fails(S.http(429, "slow", { retryAfterMillis: 1_000 })))
      const unnamed = Array.from({ length: 4 }, () => S.fails(S.http(429, "slow")))
      const { asked, open } = S.world({
        a: [...named, ...unnamed, S.fails(S.http(503, "down")), S.fails(S.http(503, "down")), ok]
      })
      const router = yield* S.router({ chain: [ab[0]], open })
      yield* at(S.asking(router).answer, 600)
      assert.strictEqual(asked.length, 17)
    })
  )

  it.effect("a key that answers nobody for five minutes is given up", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [S.fails(S.http(429, "slow", { retryAfterMillis: 30_000 }))] })
      const router = yield* S.router({ chain: [ab[0]], open })
      const { answer, events } = S.asking(router)
      const error = yield* Effect.flip(at(answer, 900))
      assert.strictEqual(error.reason._tag, "RateLimitError")
      const waited = S.waits(events).reduce((sum, millis) => sum + millis, 0)
      assert.isTrue(waited >= 300_000 && waited <= 420_000, String(waited))
    })
  )

  it.effect("a run with a limit of time waits until it is up, and no longer", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(429, "slow", { retryAfterMillis: 60_000 }))] })
      const router = yield* S.router({ chain: [ab[0]], open })
      yield* Effect.flip(at(S.asking(router, { deadline: 1_200_000 }).answer, 3_600))
      assert.isAtLeast(asked.length, 18)
      const late = S.world({ a: [S.fails(S.http(429, "slow", { retryAfterMillis: 60_000 }))] })
      const other = yield* S.router({ chain: [ab[0]], open: late.open })
      yield* Effect.flip(at(S.asking(other, { deadline: 0 }).answer, 3_600))
      assert.strictEqual(late.asked.length, 3)
    })
  )

  it.effect(
    "fifty calls at once are all answered at five a second, with few refusals, whatever the limiter of the server",
    () =>
      Effect.gen(function* () {
        const limiters: Readonly<Record<string, () => (now: number) => boolean>> = {
          "a sliding window": () => {
            const taken: Array<number> = []
            return (now) => taken.filter((at) => at > now - 1_000).length < 5 && taken.push(now) > 0
          },
          "a fixed window": () => {
            let window = -1
            let count = 0
            return (now) => {
              if (Math.floor(now / 1_000) !== window) [window, count] = [Math.floor(now / 1_000), 0]
              return ++count <= 5
            }
          },
          "a bucket of tokens": () => {
            let [tokens, at] = [5, 0]
            return (now) => {
              tokens = Math.min(5, tokens + (now - at) / 200)
              at = now
              return tokens >= 1 && tokens-- > 0
            }
          }
        }
        for (const [name, make] of Object.entries(limiters)) {
          for (const latency of [0, 30, 700]) {
            const admits = make()
            let refused = 0
            const turn: Fake.Turn = (request, options) =>
              Effect.gen(function* () {
                yield* Effect.sleep(latency / 2)
                const admitted = admits(yield* Clock.currentTimeMillis)
                yield* Effect.sleep(latency / 2)
                if (admitted) return yield* ok(request, options)
                refused++
                return yield* Effect.fail(S.http(429, "slow", { retryAfterMillis: 1_000 }))
              })
            const router = yield* S.router({ chain: [ab[0]], open: S.world({ a: [turn] }).open })
            const calls = Array.from({ length: 50 }, (_, n) => S.asking(router, { turn: S.turn(`${n}`) }).answer)
            const fibers = yield* Effect.forEach(calls, (answer) =>
              Effect.forkChild(answer, { startImmediately: true })
            )
            for (let n = 0; n < 60; n++) yield* TestClock.adjust("1 second")
            const exits = yield* Effect.forEach(fibers, Fiber.await)
            assert.strictEqual(exits.filter(Exit.isSuccess).length, 50, `${name}, ${latency} ms`)
            assert.isAtMost(refused, 20, `${name}, ${latency} ms`)
          }
        }
      })
  )

  it.effect("one key's rate is not another's", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(429, "slow", { retryAfterMillis: 60_000 })), ok] })
      const router = yield* S.router({ chain: [ab[0]], open })
      const keyed = (key: string, model = "m") => ({ ...S.route("a", model), apiKey: Redacted.make(key) })
      const blocked = yield* Effect.forkChild(S.asking(router, { route: keyed("one") }).answer, {
        startImmediately: true
      })
      yield* S.asking(router, { route: keyed("two") }).answer
      yield* S.asking(router, { route: keyed("one", "n") }).answer
      assert.deepStrictEqual(asked, ["a:one", "a:two", "a:one"])
      yield* Fiber.interrupt(blocked)
    })
  )

  it.effect("a key comes back from a call that is interrupted", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [() => Effect.never] })
      const { router, status } = yield* RoutedModelRouter.makeRouter({
        chain: [{ ...ab[0], credentials: [S.key("k1"), S.key("k2")] }],
        open
      })
      const fiber = yield* Effect.forkChild(S.asking(router).answer, { startImmediately: true })
      const leases = Effect.map(status.routes, ([route]) => route?.keys.map(({ leases }) => leases))
      assert.deepStrictEqual(yield* leases, [1, 0])
      yield* Fiber.interrupt(fiber)
      assert.deepStrictEqual(yield* leases, [0, 0])
    })
  )

  it.effect("the state of a chain can be looked at, without its keys", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [down], b: [ok] })
      const { router, status } = yield* RoutedModelRouter.makeRouter({
        chain: [{ ...ab[0], credentials: [S.key("sk-hidden")] }, ab[1]],
        open,
        retry: RetryPolicy.none,
        breaker: { failures: 1, openFor: "1 minute" }
      })
      yield* S.asking(router).answer
      const routes = yield* status.routes
      assert.deepStrictEqual(
        routes.map(({ breaker, keys, route }) => [route.provider, breaker, keys.length]),
        [
          ["a", "Open", 1],
          ["b", "Closed", 0]
        ]
      )
      assert.notInclude(JSON.stringify(routes), "sk-hidden")
    })
  )
})

describe("answers that break off", () => {
  it.effect("before anything was seen they are asked for again, silently", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [S.breaks(S.network("connection reset")), ok] })
      const router = yield* S.router({ chain: [ab[0]], open })
      const { answer, discarded, events } = S.asking(router)
      yield* at(answer, 10)
      assert.strictEqual(discarded(), 0)
      assert.deepStrictEqual(
        events.map(({ _tag }) => _tag),
        ["Waiting"]
      )
    })
  )

  it.effect("reasoning that was seen is no answer: it is said that the answer starts anew", () =>
    Effect.gen(function* () {
      const thought = Response.makePart("reasoning-delta", { id: "1", delta: "Let me see" })
      const { open } = S.world({ a: [S.breaks(S.http(503, "down"), thought)], b: [ok] })
      const router = yield* S.router({ chain: ab, open, retry: RetryPolicy.none })
      const { answer, discarded, events } = S.asking(router)
      assert.strictEqual((yield* answer).route.provider, "b")
      assert.strictEqual(discarded(), 1)
      assert.match(S.notices(events)[0] ?? "", /broke off \(overloaded\): asking again/)
    })
  )

  it.effect("text that was read is finished by the next route where this one can not, whatever the failure", () =>
    Effect.gen(function* () {
      const said = Response.makePart("text-delta", { id: "1", delta: "so far" })
      const { asked, open } = S.world({ a: [S.breaks(S.http(429, "slow"), said)], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      const { response } = yield* S.asking(router).answer
      assert.deepStrictEqual(
        response.parts.map((part) => part.type === "text" && part.text),
        ["so farhello"]
      )
      assert.deepStrictEqual(asked, ["a", "b"])
    })
  )
})

describe("calls in another form", () => {
  const lengths: ReadonlyArray<readonly [what: string, refusal: string, limits: ReadonlyArray<number>]> = [
    [
      "in all calls, if the model's longest answer is stated",
      "supports at most 16384 completion tokens",
      [16_384, 16_384]
    ],
    [
      "in this call alone, if the room beside its input is stated",
      "max_tokens: 100000 > context_window: 128000 - input_tokens: 111552 = available_tokens: 16448",
      [16_384, 100_000]
    ]
  ]
  for (const [what, refusal, limits] of lengths) {
    it.effect(`an answer that was asked to be too long is asked for shorter, ${what}`, () =>
      Effect.gen(function* () {
        const { asked, open, prepared } = S.world({ a: [S.fails(S.http(400, refusal)), ok] })
        const router = yield* S.router({ chain: [ab[0]], open })
        const call: ModelCall = { ...S.question, maxOutputTokens: 100_000 }
        yield* S.asking(router, { call }).answer
        yield* S.asking(router, { call }).answer
        assert.deepStrictEqual(asked.length, 3)
        assert.deepStrictEqual(
          prepared.map(({ maxOutputTokens }) => maxOutputTokens),
          [100_000, ...limits]
        )
      })
    )
  }

  it.effect("a model that the account's data policy excludes is left to the next route", () =>
    Effect.gen(function* () {
      const refused = S.fails(S.http(404, "No endpoints found matching your data policy (Free model training)."))
      const { asked, open } = S.world({ a: [refused], b: [ok] })
      const router = yield* S.router({ chain: ab, open })
      assert.strictEqual((yield* S.asking(router).answer).route.provider, "b")
      assert.deepStrictEqual(asked, ["a", "b"])
    })
  )

  it.effect("T116 thinking whose signature is refused is left out once; a second refusal ends the call", () =>
    Effect.gen(function* () {
      const refused = S.fails(S.http(400, "Invalid signature in thinking block"))
      const { asked, open } = S.world({ a: [refused] })
      const router = yield* S.router({ chain: [ab[0]], open })
      yield* Effect.flip(S.asking(router).answer)
      assert.deepStrictEqual(asked, ["a", "a"])
    })
  )

  const image = (bytes: number) =>
    Prompt.filePart({ mediaType: "image/png", data: new Uint8Array(bytes), fileName: "a.png" })
  const call: ModelCall = {
    ...S.question,
    messages: [
      Prompt.userMessage({ content: [Prompt.textPart({ text: "look" }), image(10), image(5_000_000)] }),
      Prompt.assistantMessage({ content: [Prompt.reasoningPart({ text: "hm" }), Prompt.textPart({ text: "seen" })] })
    ],
    tools: [
      {
        name: "t",
        description: "",
        parameters: {
          type: "object",
          properties: { pattern: { type: "string", pattern: "^a", format: "uri" }, format: { type: "string" } },
          required: ["pattern"]
        }
      }
    ]
  }
  const types = ({ messages }: ModelCall) =>
    messages.map(({ content }) => (typeof content === "string" ? content : content.map(({ type }) => type)))
  const changed = (...changes: ReadonlyArray<Adaptation.Change>) => Adaptation.applyChanges(call, new Set(changes))

  it("images become notes, reasoning goes, and what is left stays the same", () => {
    assert.deepStrictEqual(types(changed("without_images")), [
      ["text", "text", "text"],
      ["reasoning", "text"]
    ])
    const [, assistant] = changed("without_images").messages
    assert.strictEqual(assistant, call.messages[1])
    assert.deepStrictEqual(types(changed("without_reasoning")), [["text", "file", "file"], ["text"]])
    assert.strictEqual(changed(), call)
    assert.isFalse(changed("without_stream").stream)
  })

  it("patterns and formats go out of schemas, not out of property names, and once for the same tools", () => {
    const { tools } = changed("without_patterns")
    assert.deepStrictEqual(tools[0]?.parameters, {
      type: "object",
      properties: { pattern: { type: "string" }, format: { type: "string" } },
      required: ["pattern"]
    })
    assert.strictEqual(changed("without_patterns").tools, tools)
  })
})
