import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import type { OnHeaders } from "../../../src/base/domain/ModelCall.ts"
import * as ChatCompletions from "../../../src/models/provider/ChatCompletions.ts"
import * as RequestPacing from "../../../src/models/routing/RequestPacing.ts"
import * as RateGuard from "../../../src/models/routing/RateGuard.ts"
import type { Spending } from "../../../src/models/routing/SpendingPort.ts"
import * as TenantRoutes from "../../../src/models/routing/TenantRoutes.ts"
import * as Ask from "../provider/Ask.ts"
import * as HttpServer from "../provider/HttpServer.ts"
import * as Fake from "../../support/fakeModel.ts"
import * as S from "./support.ts"

type Headers = Readonly<Record<string, string>>

const getter =
  (headers: Headers): RequestPacing.GetHeader =>
  (name) =>
    headers[name]
const now = Date.UTC(2026, 0, 1)

describe("what providers say of their limits", () => {
  const cases: ReadonlyArray<readonly [who: string, Headers, ReadonlyArray<RequestPacing.Bucket>]> = [
    [
      "OpenAI",
      {
        "x-ratelimit-limit-requests": "500",
        "x-ratelimit-remaining-requests": "499",
        "x-ratelimit-reset-requests": "120ms",
        "x-ratelimit-limit-tokens": "30000",
        "x-ratelimit-remaining-tokens": "0",
        "x-ratelimit-reset-tokens": "6m0s"
      },
      [
        { kind: "requests", limit: 500, remaining: 499, resetMillis: 120, refills: true },
        { kind: "tokens", limit: 30_000, remaining: 0, resetMillis: 360_000, refills: true }
      ]
    ],
    [
      "Groq",
      { "x-ratelimit-remaining-requests": "0", "x-ratelimit-reset-requests": "2m59.56s" },
      [{ kind: "requests", limit: undefined, remaining: 0, resetMillis: 179_560, refills: false }]
    ],
    [
      "Nous",
      {
        "x-ratelimit-limit-requests-1h": "800",
        "x-ratelimit-remaining-requests-1h": "0",
        "x-ratelimit-reset-requests-1h": "1800"
      },
      [{ kind: "requests", limit: 800, remaining: 0, resetMillis: 1_800_000, refills: false }]
    ],
    [
      "Anthropic",
      {
        "anthropic-ratelimit-requests-limit": "50",
        "anthropic-ratelimit-requests-remaining": "10",
        "anthropic-ratelimit-requests-reset": "2026-01-01T00:00:30Z"
      },
      [{ kind: "requests", limit: 50, remaining: 10, resetMillis: 30_000, refills: true }]
    ],
    [
      "OpenRouter",
      { "x-ratelimit-limit": "20", "x-ratelimit-remaining": "0", "x-ratelimit-reset": String(now + 5_000) },
      [{ kind: "requests", limit: 20, remaining: 0, resetMillis: 5_000, refills: false }]
    ],
    ["nobody", { "content-type": "text/event-stream" }, []],
    [
      "somebody who says nonsense",
      {
        "x-ratelimit-remaining-requests": "many",
        "x-ratelimit-remaining-tokens": "-3",
        "x-ratelimit-remaining": "0",
        "x-ratelimit-reset": "soon"
      },
      []
    ]
  ]
  for (const [who, headers, expected] of cases) {
    it(`${who} says it so`, () => assert.deepStrictEqual(RequestPacing.readBuckets(getter(headers), now), expected))
  }

  it("an account is at its limit when one is used up for a minute or more", () => {
    const bucket = (remaining: number, resetMillis: number): RequestPacing.Bucket => ({
      kind: "requests",
      limit: 10,
      remaining,
      resetMillis,
      refills: false
    })
    assert.isUndefined(RequestPacing.findExhaustion([]))
    assert.isUndefined(RequestPacing.findExhaustion([bucket(1, 3_600_000), bucket(0, 59_999)]))
    assert.strictEqual(
      RequestPacing.findExhaustion([bucket(0, 60_000), bucket(0, 3_000_000), bucket(5, 4_000_000)]),
      3_000_000
    )
  })
})

describe("pace", () => {
  const none = () => 0
  it("takes calls out of what is left, then one after the other as it fills up", () => {
    const pace = RequestPacing.makePace()
    assert.strictEqual(pace.expected(0, none, 0), 0)
    // One request in a second.
    pace.told([{ kind: "requests", limit: 60, remaining: 2, resetMillis: 58_000, refills: true }], 0)
    const expected = [0, 0, 1_000, 2_000]
    assert.deepStrictEqual(
      expected.map((_, ahead) => pace.expected(ahead, none, 0)),
      expected
    )
    pace.take(none, 0)
    pace.take(none, 0)
    assert.strictEqual(pace.expected(0, none, 0), 1_000)
    assert.strictEqual(pace.expected(0, none, 400), 600)
    assert.strictEqual(pace.expected(0, none, 1_000), 0)
    pace.take(none, 1_000)
    assert.strictEqual(pace.expected(0, none, 1_000), 1_000)
  })
  it("waits for tokens by the size of the call, and never for more than there can be", () => {
    const tokens = (): RequestPacing.Pace => {
      const pace = RequestPacing.makePace()
      pace.told([{ kind: "tokens", limit: 1_000, remaining: 500, resetMillis: 50_000, refills: true }], 0)
      return pace
    }
    assert.strictEqual(
      tokens().expected(0, () => 500, 0),
      0
    )
    assert.strictEqual(
      tokens().expected(0, () => 600, 0),
      10_000
    )
    assert.strictEqual(
      tokens().expected(0, () => 1_000_000, 0),
      50_000
    )
  })
  it("what fills up at once is waited for whole, and forgotten then", () => {
    const pace = RequestPacing.makePace()
    pace.told([{ kind: "requests", limit: undefined, remaining: 0, resetMillis: 9_000, refills: false }], 0)
    assert.deepStrictEqual(
      [0, 4_000, 9_000].map((now) => pace.expected(0, none, now)),
      [9_000, 5_000, 0]
    )
    assert.deepStrictEqual(pace.left(9_000), [])
  })
})

const spent = (reset: string): Headers => ({
  "x-ratelimit-limit-requests-1h": "9",
  "x-ratelimit-remaining-requests-1h": "0",
  "x-ratelimit-reset-requests-1h": reset
})

/** Answers, and says what is left. */
const answering =
  (headers: Headers): Fake.Turn =>
  (_, options) =>
    Effect.andThen(options?.onHeaders?.(getter(headers)) ?? Effect.void, Fake.text("hello")(_, options))

const refusing = (headers: Headers): Fake.Turn =>
  S.fails(
    AiError.make({
      module: "Test",
      method: "execute",
      reason: new AiError.RateLimitError({ http: { response: { status: 429, headers }, body: "slow down" } })
    })
  )

describe("calls", () => {
  it.live("providers tell the headers of their answers, streamed or whole", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(({ body }, response) =>
        JSON.parse(body).stream === true
          ? response
              .writeHead(200, { "content-type": "text/event-stream", ...spent("7") })
              .end(
                HttpServer.sse({ choices: [{ index: 0, delta: { content: "Hi" }, finish_reason: "stop" }] }, "[DONE]")
              )
          : HttpServer.json(
              response,
              200,
              { choices: [{ index: 0, message: { role: "assistant", content: "Hi" }, finish_reason: "stop" }] },
              spent("7")
            )
      )
      const provider = yield* ChatCompletions.make({
        provider: "custom",
        model: "m",
        apiMode: "chat_completions",
        baseUrl: server.url
      })
      const told: Array<unknown> = []
      const onHeaders: OnHeaders = (get) =>
        Effect.sync(
          () =>
            void told.push(
              RequestPacing.readBuckets(get, 0).map(({ remaining, resetMillis }) => [remaining, resetMillis])
            )
        )
      for (const stream of [true, false])
        yield* provider.execute(yield* provider.prepare(Ask.call("Hi", { stream })), { onHeaders })
      assert.deepStrictEqual(told, [[[0, 7_000]], [[0, 7_000]]])
    })
  )

  it.effect("wait for what the provider said is left, say so, and can be interrupted at once", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [answering(spent("30"))] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open })
      yield* S.asking(router).answer
      const { answer, events } = S.asking(router)
      const fiber = yield* Effect.forkChild(answer, { startImmediately: true })
      yield* TestClock.adjust("29 seconds")
      assert.deepStrictEqual(asked, ["a"])
      const said = events.find(({ _tag }) => _tag === "Waiting")
      assert.deepInclude(said, { reason: "the rate limit of a", millis: 30_000 })
      const late = S.asking(router)
      const interrupted = yield* Effect.forkChild(late.answer, { startImmediately: true })
      yield* Fiber.interrupt(interrupted)
      assert.isTrue(Exit.hasInterrupts(yield* Fiber.await(interrupted)))
      yield* TestClock.adjust("1 second")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(asked, ["a", "a"])
    })
  )

  it.effect("go to the next route where the wait is longer than a moment", () =>
    Effect.gen(function* () {
      const { asked, open } = S.world({ a: [answering(spent("30"))], b: [Fake.text("hello")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }, { route: S.route("b") }], open })
      yield* S.asking(router).answer
      yield* S.asking(router, { turn: S.turn("s2") }).answer
      assert.deepStrictEqual(asked, ["a", "b"])
    })
  )
})

describe("the guard of Nous Portal", () => {
  const guardOf = (home: string) => RateGuard.openFile(home)
  const scratch = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())
  const live = Effect.provide(NodeServices.layer)
  const nous = S.route("nous")

  /** No file, so that the test's clock alone decides when what happens. */
  const inMemory = () => {
    const closed = new Map<string, number>()
    const guard: RateGuard.RateGuard = {
      closedFor: (key) => Effect.sync(() => closed.get(key)),
      close: (key, millis) => Effect.sync(() => void closed.set(key, millis)),
      open: (key) => Effect.sync(() => void closed.delete(key))
    }
    return { closed, guard }
  }

  it.effect("an account at its limit is not asked again by anybody, without a wait, until it is whole", () =>
    Effect.gen(function* () {
      const home = yield* scratch
      const first = S.world({ nous: [refusing(spent("1800"))] })
      const one = yield* S.router({ chain: [{ route: nous }], open: first.open, guard: yield* guardOf(home) })
      const refused = S.asking(one)
      yield* Effect.flip(refused.answer)
      assert.deepStrictEqual(S.waits(refused.events), [], "no attempt is waited for")

      // Another process.
      const second = S.world({ nous: [Fake.text("hello")], b: [Fake.text("hello")] })
      const alone = yield* S.router({ chain: [{ route: nous }], open: second.open, guard: yield* guardOf(home) })
      const { reason } = yield* Effect.flip(S.asking(alone).answer)
      assert(reason._tag === "RateLimitError" && reason.retryAfter !== undefined)
      assert.strictEqual(Duration.toSeconds(reason.retryAfter), 1_800)
      const chained = yield* S.router({
        chain: [{ route: nous }, { route: S.route("b") }],
        open: second.open,
        guard: yield* guardOf(home)
      })
      yield* S.asking(chained).answer
      assert.deepStrictEqual([...first.asked, ...second.asked], ["nous", "b"])

      yield* TestClock.adjust("30 minutes")
      yield* S.asking(alone).answer
      assert.deepStrictEqual(second.asked, ["b", "nous"])
    }).pipe(live)
  )

  it.effect("an account of a tenant at its limit is not asked again, and the account of the runtime is", () =>
    Effect.gen(function* () {
      const { closed, guard } = inMemory()
      const { asked, open } = S.world({ nous: [refusing(spent("1800")), Fake.text("hello"), Fake.text("again")] })
      const router = yield* S.router({ chain: [{ route: nous }], open, guard })
      const routes = Result.getOrThrow(
        TenantRoutes.resolveModels("acme", {
          routes: [{ provider: "nous", model: "m", baseUrl: nous.baseUrl, apiKey: Redacted.make("key-of-acme") }]
        })
      )
      const spending: Spending = {
        tenant: "acme",
        routes,
        reserve: ({ wantedOutput }) => Effect.succeed({ output: wantedOutput, settle: () => Effect.void })
      }
      const askForTenant = Effect.suspend(
        () => router.forTenant?.(routes, (own) => S.asking(own, { spending }).answer) ?? Effect.die("no tenants")
      )
      yield* Effect.flip(askForTenant)
      const again = yield* Effect.flip(askForTenant)
      assert(AiError.isAiError(again) && again.reason._tag === "RateLimitError")
      assert.isDefined(again.reason.retryAfter)
      assert.deepStrictEqual(asked, ["nous:key-of-acme"])
      // The file of the runtime says nothing about the keys of tenants.
      assert.strictEqual(closed.size, 0)
      yield* S.asking(router).answer
      yield* TestClock.adjust("30 minutes")
      yield* askForTenant
      assert.deepStrictEqual(asked, ["nous:key-of-acme", "nous", "nous:key-of-acme"])
    })
  )

  it.effect("the last answer tells of a limit that the refusal does not", () =>
    Effect.gen(function* () {
      const { closed, guard } = inMemory()
      const { asked, open } = S.world({ nous: [answering(spent("1800")), refusing({})] })
      const router = yield* S.router({ chain: [{ route: nous }], open, guard })
      yield* S.asking(router).answer
      const fiber = yield* Effect.forkChild(Effect.flip(S.asking(router).answer), { startImmediately: true })
      yield* TestClock.adjust("2 minutes")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual(asked, ["nous", "nous"])
      assert.deepStrictEqual([...closed], [["nous|", 1_680_000]])
    })
  )

  it.effect("a refusal because somebody behind it is busy is waited for as everywhere", () =>
    Effect.gen(function* () {
      const { closed, guard } = inMemory()
      const { asked, open } = S.world({ nous: [refusing({}), Fake.text("hello")] })
      const router = yield* S.router({ chain: [{ route: nous }], open, guard })
      const fiber = yield* Effect.forkChild(S.asking(router).answer, { startImmediately: true })
      yield* TestClock.adjust("1 minute")
      yield* Fiber.join(fiber)
      assert.deepStrictEqual([asked, [...closed]], [["nous", "nous"], []])
    })
  )

  it.effect("of several keys the next one is taken; an answer opens the account again", () =>
    Effect.gen(function* () {
      const guard = yield* guardOf(yield* scratch)
      const { asked, open } = S.world({ nous: [refusing(spent("1800")), Fake.text("hello")] })
      const keys = { route: nous, credentials: [S.key("one"), S.key("two")] }
      yield* S.asking(yield* S.router({ chain: [keys], open, guard })).answer
      // A router that knows nothing of the refusal but by the guard.
      yield* S.asking(yield* S.router({ chain: [keys], open, guard })).answer
      assert.deepStrictEqual(asked, ["nous:one", "nous:two", "nous:two"])
      yield* guard.close("nous|x", 60_000)
      yield* guard.open("nous|x")
      assert.isUndefined(yield* guard.closedFor("nous|x"))
    }).pipe(live)
  )

  it.effect("other providers are not guarded", () =>
    Effect.gen(function* () {
      const home = yield* scratch
      const { open } = S.world({ a: [refusing(spent("1800")), Fake.text("hello")] })
      const router = yield* S.router({ chain: [{ route: S.route("a") }], open, guard: yield* guardOf(home) })
      const fiber = yield* Effect.forkChild(S.asking(router).answer, { startImmediately: true })
      yield* TestClock.adjust("1 hour")
      yield* Fiber.join(fiber)
      const fs = yield* FileSystem.FileSystem
      assert.isFalse(yield* fs.exists(`${home}/${RateGuard.fileName}`))
    }).pipe(live)
  )

  it.effect("a file that can not be understood closes nothing", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* scratch
      yield* fs.writeFileString(`${home}/${RateGuard.fileName}`, "{")
      assert.isUndefined(yield* (yield* guardOf(home)).closedFor("nous|"))
    }).pipe(live)
  )
})
