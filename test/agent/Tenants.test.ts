// Tenants: limits that no call of a run overruns, whether it is a step, a child, a side task, a retry or one that broke.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Response from "effect/ai/Response"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import { toResponse } from "../../src/base/domain/Usage.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Memory from "../../src/store/tenants/MemoryTenantLedger.ts"
import * as TenantLedger from "../../src/store/tenants/TenantLedger.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { delegate, isChild, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
const echo = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))

const acme = (more: Partial<Tenant> = {}): Tenant => ({ id: "acme", ...more })

/** A model that uses so many tokens for each answer. */
const answering =
  (input: number, output: number, text = "Done"): Fake.Turn =>
  () =>
    Effect.succeed({ ...Fake.textAnswer(text), usage: toResponse({ input, output }) })

const runtimeWith = (fake: Fake.Fake, tenants: ReadonlyArray<Tenant>) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry: RetryPolicy.none,
    tenants: Tenants.layerFrom(tenants),
    tools: [echo],
    maxOutputTokens: 1000
  }).pipe(Layer.provide(NodeServices.layer))

const spentToday = Effect.map(
  Tenants.Tenants.use((tenants) => tenants.balance("acme")),
  ({ reserved, spentToday }) => ({ ...spentToday, reserved: reserved.tokens })
)

/** The runtime's tenants, which its type does not name. */
const withTenants = <A, E, R>(effect: Effect.Effect<A, E, R | Tenants.Tenants>) =>
  // `Runtime.layer` passes on the layer of its option.
  effect as Effect.Effect<A, E, R>

const run = (input: Partial<Agent.RunInput> = {}) => Agent.run({ prompt: "go", tenant: "acme", ...input })

describe("a run of a tenant", () => {
  it.effect("fails if the tenant is unknown, or if the runtime has no tenants", () =>
    Effect.gen(function* () {
      const fake = Fake.make(answering(10, 5))
      const unknown = yield* Effect.flip(Effect.provide(run({ tenant: "nobody" }), runtimeWith(fake, [acme()])))
      assert.deepInclude(unknown, { _tag: "TenantRefused", reason: "unknown", message: "there is no tenant nobody" })
      const without = Runtime.layer({ provider: Layer.succeed(Provider, fake.provider) })
      const missing = yield* Effect.flip(Effect.provide(run(), Layer.provide(without, NodeServices.layer)))
      assert.deepInclude(missing, { _tag: "ConfigError", path: "tenant" })
      assert.strictEqual(fake.executed.length, 0)
    })
  )

  it.effect("settles what the provider counted", () => {
    const fake = Fake.make(answering(100, 20))
    return Effect.gen(function* () {
      yield* run()
      yield* run()
      assert.deepStrictEqual(yield* spentToday, { tokens: 240, nanos: 0, reserved: 0 })
      const usage = yield* Tenants.Tenants.use((tenants) => tenants.usage({ tenant: "acme" }))
      assert.deepStrictEqual(
        usage.map(({ calls, inputTokens, model, outputTokens }) => ({ calls, inputTokens, model, outputTokens })),
        [{ calls: 2, inputTokens: 200, model: "fake-1", outputTokens: 40 }]
      )
    }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perDay: { tokens: 100_000 } })])))
  })

  it.effect("ends with its exact exit, and says when the allowance is free again", () => {
    const fake = Fake.make(answering(100, 20))
    return Effect.gen(function* () {
      yield* TestClock.setTime(Date.UTC(2026, 10, 29, 18))
      const { exit, freeAt, limit, text } = yield* run()
      assert.deepStrictEqual(
        { exit, freeAt, limit },
        { exit: "budget_exhausted", freeAt: Date.UTC(2026, 10, 30), limit: "allowance" }
      )
      assert.include(text, "allowance of tenant acme for the day")
      assert.include(text, "2026-11-30T00:00:00.000Z")
      assert.strictEqual(fake.executed.length, 0)
    }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perDay: { tokens: 50 } })])))
  })

  it.effect("asks for no longer answer than the allowance pays", () => {
    const fake = Fake.make(answering(100, 20))
    return Effect.gen(function* () {
      yield* run()
      const [limit = 0] = fake.asked.map(({ maxOutputTokens }) => maxOutputTokens)
      assert.isBelow(limit, 1000)
      assert.isAbove(limit, 63)
    }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perDay: { tokens: 2400 } })])))
  })

  it.effect("counts a refused request as nothing, and an answer that broke off by what arrived", () => {
    const refused: Fake.Turn = () => Effect.fail(Fake.failure(new AiError.InvalidRequestError({ description: "no" })))
    const broken: Fake.Turn = (_, options) =>
      Effect.andThen(
        options?.onPart?.([
          Response.makePart("text-start", { id: "1" }),
          Response.makePart("text-delta", { id: "1", delta: "x".repeat(300) })
        ]) ?? Effect.void,
        Effect.fail(Fake.failure(new AiError.InternalProviderError({ description: "broken" })))
      )
    return Effect.gen(function* () {
      const tenants = [acme({ perDay: { tokens: 1_000_000 } })]
      const spentOf = (turn: Fake.Turn) =>
        Effect.andThen(Effect.exit(run({ streaming: true })), spentToday).pipe(
          withTenants,
          Effect.provide(runtimeWith(Fake.make(turn), tenants))
        )
      assert.deepStrictEqual(yield* spentOf(refused), { tokens: 0, nanos: 0, reserved: 0 })
      const { reserved, tokens } = yield* spentOf(broken)
      assert.isAbove(tokens, 100)
      assert.strictEqual(reserved, 0)
    })
  })

  it.effect("settles a call that is interrupted", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const fake = Fake.make(() => Effect.andThen(Deferred.succeed(begun, undefined), Effect.never))
      yield* Effect.gen(function* () {
        const fiber = yield* Effect.forkChild(run())
        yield* Deferred.await(begun)
        assert.isAbove((yield* spentToday).reserved, 1000)
        yield* Fiber.interrupt(fiber)
        const { reserved, tokens } = yield* spentToday
        assert.strictEqual(reserved, 0)
        assert.isAbove(tokens, 0)
      }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perDay: { tokens: 1_000_000 } })])))
    })
  )

  it.effect("counts its children and the model calls of its tools", () => {
    const { layer } = setup(({ prompt, results }) => {
      if (results > 0) return say("done")
      return isChild(prompt) ? say("inner") : delegate({ goal: "outer" })
    })
    return Effect.gen(function* () {
      const { usage } = yield* run()
      assert.strictEqual(usage.requestCount, 3)
      assert.deepStrictEqual((yield* spentToday).tokens, 45)
    }).pipe(
      Effect.provide(
        Layer.provideMerge(
          Layer.provide(layer, NodeServices.layer),
          Tenants.layerFrom([acme({ perDay: { tokens: 90_000 } })])
        )
      )
    )
  })

  it.effect("refuses models without a price where money is limited, or assumes prices", () =>
    Effect.gen(function* () {
      const fake = Fake.make(answering(1000, 100))
      const limited = acme({ perMonth: { dollars: 1 } })
      const error = yield* Effect.flip(Effect.provide(run(), runtimeWith(fake, [limited])))
      assert.deepInclude(error, { _tag: "TenantRefused", reason: "price" })
      assert.strictEqual(fake.executed.length, 0)
      const assumed = { ...limited, unknownPrices: { input: 2, output: 10 } }
      const spent = yield* Effect.andThen(run(), spentToday).pipe(
        withTenants,
        Effect.provide(runtimeWith(fake, [assumed]))
      )
      assert.strictEqual(spent.nanos, 1000 * 2000 + 100 * 10_000)
    })
  )

  it.effect("bounds one run with its steps", () => {
    let calls = 0
    const fake = Fake.make(() =>
      Effect.succeed({
        ...Fake.callsAnswer(Fake.call(`c${++calls}`, "echo", { text: `${calls}` })),
        usage: toResponse({ input: 500, output: 100 })
      })
    )
    return Effect.gen(function* () {
      const { exit, freeAt, limit, usage } = yield* run()
      assert.deepStrictEqual(
        { exit, freeAt, limit },
        { exit: "budget_exhausted", freeAt: undefined, limit: "allowance" }
      )
      assert.isAtMost(usage.inputTokens + usage.outputTokens, 4000)
      assert.isAbove(calls, 2)
    }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perRun: { tokens: 4000 } })])))
  })

  it.effect("takes a place among the tenant's runs, and returns it", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const free = yield* Deferred.make<void>()
      const fake = Fake.make(() =>
        Effect.as(Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(free)), Fake.textAnswer("done"))
      )
      yield* Effect.gen(function* () {
        const first = yield* Effect.forkChild(run())
        yield* Deferred.await(begun)
        assert.deepInclude(yield* Effect.flip(run()), { _tag: "TenantRefused", reason: "busy" })
        yield* Deferred.succeed(free, undefined)
        assert.isTrue(Exit.isSuccess(yield* Fiber.await(first)))
        assert.strictEqual((yield* run()).exit, "text_response")
      }).pipe(Effect.provide(runtimeWith(fake, [acme({ concurrentRuns: 1 })])))
    })
  )

  it.effect("never overruns its allowance with two hundred runs in flight, and uses it", () => {
    let spent = 0
    const fake = Fake.make(() =>
      Effect.gen(function* () {
        const asked = fake.asked.at(-1)?.maxOutputTokens ?? 0
        yield* Effect.yieldNow
        const output = Math.ceil(Math.min(asked, 400) * 0.9)
        spent += 1000 + output
        return yield* answering(1000, output)({}, undefined)
      })
    )
    const allowance = 120_000
    return Effect.gen(function* () {
      const results = yield* Effect.forEach(Array.from({ length: 200 }), () => run(), { concurrency: "unbounded" })
      const ended = results.filter(({ limit }) => limit === "allowance")
      assert.isNotEmpty(ended)
      // What calls in flight held was too much for some runs, and is free now.
      while ((yield* run()).exit === "text_response");
      assert.isAtMost(spent, allowance)
      assert.isAtLeast(spent, allowance * 0.9)
      assert.deepStrictEqual(yield* spentToday, { tokens: spent, nanos: 0, reserved: 0 })
    }).pipe(withTenants, Effect.provide(runtimeWith(fake, [acme({ perDay: { tokens: allowance } })])))
  })
})

describe("a ledger that is asked", () => {
  /** Counts the statements of a ledger in memory. */
  const makeCounted = () => {
    const statements: Array<string> = []
    const ledger = Memory.make()
    const count =
      <Args extends ReadonlyArray<unknown>, A>(name: string, body: (...args: Args) => Effect.Effect<A>) =>
      (...args: Args): Effect.Effect<A> => {
        statements.push(name)
        return body(...args)
      }
    const counted: TenantLedger.Service = {
      ...ledger,
      reserve: count("reserve", (request: TenantLedger.ReserveRequest) => Effect.orDie(ledger.reserve(request))),
      settle: count("settle", (tenant: string, settled: ReadonlyArray<TenantLedger.Settlement>) =>
        Effect.orDie(ledger.settle(tenant, settled))
      ),
      renew: count("renew", (ids: ReadonlyArray<string>, expiresIn: number) =>
        Effect.orDie(ledger.renew(ids, expiresIn))
      )
    }
    return { statements, layer: Layer.succeed(TenantLedger.TenantLedger, counted) }
  }

  /** Makes two runs of five calls each, and returns the statements of the ledger before and after some seconds. */
  const runTwice = (tenant: Tenant, pause: Duration.Input = 0) => {
    const steps = 5
    let calls = 0
    const fake = Fake.make(() =>
      Effect.as(
        Effect.sleep(pause),
        ++calls % steps === 0
          ? Fake.textAnswer("done")
          : Fake.callsAnswer(Fake.call(`c${calls}`, "echo", { text: "x" }))
      )
    )
    const { layer, statements } = makeCounted()
    const runtime = Runtime.layer({
      provider: Layer.succeed(Provider, fake.provider),
      retry: RetryPolicy.none,
      tools: [echo],
      tenants: Tenants.layerFrom([tenant], layer)
    }).pipe(Layer.provide(NodeServices.layer))
    return Effect.gen(function* () {
      const twice = yield* Effect.forkChild(Effect.andThen(run(), run()))
      yield* TestClock.adjust(Duration.times(Duration.fromInputUnsafe(pause), 2 * steps))
      yield* Fiber.join(twice)
      assert.strictEqual(calls, 2 * steps)
      const { length } = statements
      yield* TestClock.adjust("1 second")
      const last = statements.slice(length)
      yield* TestClock.adjust("10 seconds")
      assert.strictEqual(statements.length, length + last.length)
      return [statements.slice(0, length), last]
    }).pipe(Effect.provide(runtime))
  }
  const tenReservations = Array.from({ length: 10 }, () => "reserve")

  it.effect("takes two statements for calls that follow one another fast, and writes their ends after a second", () =>
    Effect.gen(function* () {
      const statements = yield* runTwice(acme({ perDay: { tokens: 10_000_000 } }))
      assert.deepStrictEqual(statements, [["reserve", "reserve"], ["settle"]])
    })
  )

  it.effect("takes one statement for each call whose minute is counted", () =>
    Effect.gen(function* () {
      const statements = yield* runTwice(acme({ perDay: { tokens: 10_000_000 }, callsPerMinute: 1_000 }))
      assert.deepStrictEqual(statements, [tenReservations, ["settle"]])
    })
  )

  it.effect("takes one statement for each slow call", () =>
    Effect.gen(function* () {
      const statements = yield* runTwice(acme({ perDay: { tokens: 10_000_000 } }), "5 seconds")
      assert.deepStrictEqual(statements, [tenReservations, ["settle"]])
    })
  )

  it.effect("lets a call wait while calls in flight hold a limit that was lowered below what is reserved", () =>
    Effect.gen(function* () {
      const begun = yield* Deferred.make<void>()
      const free = yield* Deferred.make<void>()
      const fake = Fake.make((request, options) =>
        Effect.andThen(
          Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(free)),
          answering(100, 20)(request, options)
        )
      )
      let tokens = 1_000_000
      const lookup = (id: string) => Effect.sync(() => ({ id, perDay: { tokens } }))
      const runtime = Runtime.layer({
        provider: Layer.succeed(Provider, fake.provider),
        retry: RetryPolicy.none,
        tenants: Tenants.layer({ lookup }),
        maxOutputTokens: 1000
      }).pipe(Layer.provide(NodeServices.layer))
      yield* Effect.gen(function* () {
        const first = yield* Effect.forkChild(run())
        yield* Deferred.await(begun)
        tokens = 1200
        const second = yield* Effect.forkChild(run())
        const interrupted = yield* Effect.forkChild(run())
        yield* TestClock.adjust("1 minute")
        assert.strictEqual(fake.executed.length, 1)
        yield* Fiber.interrupt(interrupted)
        yield* Deferred.succeed(free, undefined)
        assert.strictEqual((yield* Fiber.join(first)).exit, "text_response")
        // The call in flight used less than it held, so that there is room again.
        assert.strictEqual((yield* Fiber.join(second)).exit, "text_response")
        assert.strictEqual(fake.executed.length, 2)
        tokens = 10
        assert.deepInclude(yield* run(), { exit: "budget_exhausted", limit: "allowance" })
      }).pipe(Effect.provide(runtime))
    })
  )
})
