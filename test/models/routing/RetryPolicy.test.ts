// Policies as Schedules: the waits of every reason and attempt, and policies that an application writes.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Random from "effect/Random"
import * as Schedule from "effect/Schedule"
import * as TestClock from "effect/testing/TestClock"
import * as Response from "effect/ai/Response"
import * as FallbackPolicy from "../../../src/models/routing/FallbackPolicy.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"
import { Reason } from "../../../src/models/routing/Recovery.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"

const ok = Fake.text("hello")
const down = S.fails(S.http(503, "down"))
const refused = S.fails(S.http(401, "no"))
const ab = [{ route: S.route("a") }, { route: S.route("b") }] as const

/** Lets a call finish while the test's clock advances. */
const inTime = <A, E, R>(effect: Effect.Effect<A, E, R>, duration: Duration.Input = "1 hour") =>
  Effect.gen(function* () {
    const fiber = yield* Effect.forkChild(effect, { startImmediately: true })
    yield* TestClock.adjust(duration)
    return yield* Fiber.join(fiber)
  })

describe("the default policy", () => {
  /** Wait of an attempt in milliseconds, from and to; without a wait the policy is done. */
  const waits: ReadonlyArray<readonly [retryAfter: number | undefined, attempt: number, from: number, to: number]> = [
    [undefined, 1, 5_000, 7_500],
    [undefined, 2, 10_000, 15_000],
    [0, 1, 0, 0],
    [1_000, 1, 1_000, 1_250],
    [1_000, 2, 1_000, 1_250],
    [30_000, 1, 30_000, 35_000],
    [3_600_000, 2, 120_000, 125_000]
  ]
  for (const reason of Reason.literals) {
    it.effect(`waits after ${reason} as the table says, and no third time`, () =>
      Effect.gen(function* () {
        for (const [retryAfter, attempt, from, to] of waits) {
          const asked = { reason, retryAfter: retryAfter === undefined ? undefined : Duration.millis(retryAfter) }
          const steps = Array.from({ length: attempt }, () => asked)
          const wait = (yield* S.stepPolicy(RetryPolicy.default, steps)).at(-1) ?? -1
          assert.isTrue(wait >= from && wait <= to, `${retryAfter} ${attempt}: ${wait}`)
          const permanent = steps.map((step) => ({ ...step, isRetryable: false }))
          assert.deepStrictEqual(yield* S.stepPolicy(RetryPolicy.default, permanent), [])
        }
        const four = Array.from({ length: 4 }, () => ({ reason }))
        assert.lengthOf(yield* S.stepPolicy(RetryPolicy.default, four), 2)
      }).pipe(Random.withSeed(reason))
    )
  }

  it.effect("waits two seconds, exactly, for an address that refuses connections", () =>
    Effect.gen(function* () {
      const unreachable = { isUnreachable: true }
      assert.deepStrictEqual(yield* S.stepPolicy(RetryPolicy.default, [unreachable, unreachable]), [2_000, 2_000])
    })
  )

  it.effect("is described in a line, and planned without waiting", () =>
    Effect.gen(function* () {
      assert.strictEqual(yield* RetryPolicy.describePolicy(RetryPolicy.default), "3 attempts, waits of 5-7.5, 10-15 s")
      assert.strictEqual(yield* RetryPolicy.describePolicy(RetryPolicy.none), "no retries")
      assert.strictEqual(
        yield* RetryPolicy.describePolicy(Schedule.spaced("1 second").pipe(Schedule.upTo({ duration: "3 seconds" }))),
        "waits of 1, 1, 1, 1 s"
      )
      const planned = yield* RetryPolicy.planWaits(RetryPolicy.default, {
        failure: { retryAfter: Duration.seconds(20) },
        most: 1
      })
      assert.deepStrictEqual(
        planned.map(({ least, most }) => [Duration.toSeconds(least), Duration.toSeconds(most)]),
        [[20, 25]]
      )
    })
  )
})

describe("a policy of the application", () => {
  it.effect("decides on the waits of a call and on their end", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [down] })
      const retry = Schedule.spaced("1 second").pipe(Schedule.upTo({ times: 4 }))
      const router = yield* S.router({ chain: [ab[0]], open, retry })
      const { answer, events } = S.asking(router)
      yield* Effect.flip(inTime(answer))
      assert.lengthOf(asked, 5)
      assert.deepStrictEqual(S.waits(events), [1_000, 1_000, 1_000, 1_000])
      assert.notProperty(
        events.find(({ _tag }) => _tag === "Waiting"),
        "maxAttempts",
        "a schedule names no number of attempts"
      )
    })
  )

  it.effect("composes the default with a limit of time", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [down] })
      const retry = RetryPolicy.make({ attempts: 100, cap: "10 seconds" }).pipe(Schedule.upTo({ duration: "1 minute" }))
      const router = yield* S.router({ chain: [ab[0]], open, retry })
      const { answer, events } = S.asking(router)
      yield* Effect.flip(inTime(answer))
      const waited = S.waits(events).reduce((sum, millis) => sum + millis, 0)
      assert.isTrue(waited >= 60_000 && waited <= 75_000, String(waited))
      assert.isAtLeast(asked.length, 5)
    })
  )

  it.effect("sees each failure: its reason, attempt, time, route, and whether the answer had begun", () =>
    Effect.gen(function* () {
      const delta = Response.makePart("text-delta", { id: "1", delta: "Hel" })
      const { open } = S.world({
        a: [down, S.breaks(S.http(503, "down", { retryAfterMillis: 3_000 }), delta), refused]
      })
      const seen: Array<RetryPolicy.RouteFailure> = []
      const retry: RetryPolicy.RetryPolicy = Schedule.spaced("2 seconds").pipe(
        Schedule.setInputType<RetryPolicy.RouteFailure>(),
        Schedule.tap(({ input }) => Effect.sync(() => void seen.push(input))),
        RetryPolicy.onlyRetryable
      )
      const router = yield* S.router({ chain: [ab[0]], open, retry })
      yield* Effect.flip(inTime(S.asking(router).answer))
      assert.deepStrictEqual(
        seen.map(({ attempt, elapsed, hasStreamed, isRetryable, reason, retryAfter, route }) => ({
          attempt,
          elapsed: Duration.toMillis(elapsed),
          hasStreamed,
          isRetryable,
          reason,
          retryAfter: retryAfter === undefined ? undefined : Duration.toMillis(retryAfter),
          provider: route.provider
        })),
        [
          {
            attempt: 1,
            elapsed: 0,
            hasStreamed: false,
            isRetryable: true,
            reason: "overloaded",
            retryAfter: undefined,
            provider: "a"
          },
          {
            attempt: 2,
            elapsed: 2_000,
            hasStreamed: true,
            isRetryable: true,
            reason: "overloaded",
            retryAfter: 3_000,
            provider: "a"
          },
          {
            attempt: 3,
            elapsed: 4_000,
            hasStreamed: false,
            isRetryable: false,
            reason: "auth",
            retryAfter: undefined,
            provider: "a"
          }
        ]
      )
    })
  )

  it.effect("repeats a permanent failure only if it leaves out onlyRetryable", () =>
    Effect.gen(function* () {
      const twice = Schedule.recurs(2)
      for (const [retry, calls] of [
        [twice, 3],
        [RetryPolicy.onlyRetryable(twice), 1]
      ] as const) {
        const { asked, open } = S.world({ a: [refused] })
        const router = yield* S.router({ chain: [ab[0]], open, retry })
        yield* Effect.flip(inTime(S.asking(router).answer))
        assert.lengthOf(asked, calls)
      }
    })
  )

  it.effect("never repeats a conversation that is too large as it is", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [S.fails(S.http(413, "too large"))] })
      const router = yield* S.router({ chain: [ab[0]], open, retry: Schedule.recurs(5) })
      yield* Effect.flip(inTime(S.asking(router).answer))
      assert.lengthOf(asked, 1)
    })
  )

  it.effect("belongs to a route, and a call overrides it", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [down], b: [down] })
      const router = yield* S.router({
        chain: [{ ...ab[0], retry: RetryPolicy.none }, ab[1]],
        open,
        retry: RetryPolicy.make({ attempts: 2 })
      })
      yield* Effect.flip(inTime(S.asking(router, { turn: S.turn("one") }).answer))
      assert.deepStrictEqual(asked, ["a", "b", "b"])
      asked.length = 0
      const once = Effect.provideService(
        S.asking(router, { turn: S.turn("two") }).answer,
        RetryPolicy.CallPolicy,
        RetryPolicy.make({ attempts: 3 })
      )
      yield* Effect.flip(inTime(once))
      assert.deepStrictEqual(asked, ["a", "a", "a", "b", "b", "b"])
    })
  )

  it.effect("that is no Schedule is refused when the router is made", () =>
    Effect.gen(function* () {
      const { open } = S.world({})
      // Numbers, as an untyped caller may pass them.
      const retry = { maxAttempts: 1 } as never
      const exit = yield* Effect.exit(RoutedModelRouter.makeRouter({ chain: [ab[0]], open, retry }))
      assert.isTrue(Exit.isFailure(exit))
      assert.include(String(exit), "Use RetryPolicy.make({ attempts: 3 })")
    })
  )
})

describe("a fallback policy", () => {
  const limited = S.fails(S.http(429, "slow", { retryAfterMillis: 1_000 }))

  it.effect("leaves a route at once, after the retries, or never", () =>
    Effect.gen(function* () {
      for (const [leave, expected] of [
        ["at once", ["a", "b"]],
        ["after retries", ["a", "a", "b"]],
        ["never", ["a", "a"]]
      ] as const) {
        const { asked, open } = S.world({ a: [down], b: [ok] })
        const router = yield* S.router({
          chain: ab,
          open,
          retry: RetryPolicy.make({ attempts: 2 }),
          fallback: FallbackPolicy.make({ leave: () => leave })
        })
        yield* Effect.exit(inTime(S.asking(router).answer))
        assert.deepStrictEqual(asked, [...expected], leave)
      }
    })
  )

  it.effect("waits for the primary at a rate limit, if it does not leave at once", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [limited, ok], b: [ok] })
      const fallback = FallbackPolicy.make({ leave: () => "after retries" })
      const router = yield* S.router({ chain: ab, open, fallback })
      assert.strictEqual((yield* inTime(S.asking(router).answer, "2 seconds")).route.provider, "a")
      assert.deepStrictEqual(asked, ["a", "a"])
    })
  )

  it.effect("leaves the primary alone for longer each time, until the primary answers", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [limited, limited, ok, limited], b: [ok] })
      const cooldown = Schedule.exponential("100 seconds")
      const router = yield* S.router({ chain: ab, open, fallback: FallbackPolicy.make({ cooldown }) })
      let turns = 0
      const answer = Effect.suspend(() => {
        turns++
        return Effect.map(S.asking(router, { turn: S.turn("s", `t${turns}`) }).answer, ({ route }) => route.provider)
      })
      /** Asks in a new turn so many seconds later; the call has five seconds for the queue of its key. */
      const askAfter = (seconds: number) =>
        Effect.andThen(TestClock.adjust(Duration.seconds(seconds)), inTime(answer, "5 seconds"))
      assert.strictEqual(yield* askAfter(0), "b")
      assert.strictEqual(yield* askAfter(80), "b", "100 seconds after the first failure")
      assert.deepStrictEqual(asked, ["a", "b", "b"])
      assert.strictEqual(yield* askAfter(20), "b", "the primary was asked, and refused again")
      assert.deepStrictEqual(asked.slice(3), ["a", "b"])
      assert.strictEqual(yield* askAfter(120), "b", "now it is 200 seconds")
      assert.strictEqual(yield* askAfter(80), "a")
      assert.strictEqual(yield* askAfter(0), "b", "refused")
      assert.strictEqual(yield* askAfter(110), "b", "100 seconds again, and refused")
      assert.strictEqual(asked.filter((name) => name === "a").length, 5)
    })
  )

  it.effect("may keep a session on a route with empty answers", () =>
    Effect.gen(function* () {
      const { open } = S.world({ a: [ok], b: [ok] })
      const fallback = FallbackPolicy.make({ emptyAnswers: "stay" })
      const router = yield* S.router({ chain: ab, open, fallback })
      assert.isUndefined(yield* router.advance(S.turn(), "empty_answers"))
      assert.strictEqual((yield* router.advance(S.turn(), "context_overflow"))?.provider, "b")
    })
  )
})
