// Routers of tenants with their own keys beside the router of the runtime: queues, learnt windows, caches, and the
// routers of idle tenants.
import { assert, describe, it } from "@effect/vitest"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as TestClock from "effect/testing/TestClock"
import * as AiError from "effect/ai/AiError"
import type { ModelCall } from "../../../src/base/domain/ModelCall.ts"
import * as Route from "../../../src/base/domain/Route.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as Stack from "../../../src/middleware/Stack.ts"
import * as CacheMarks from "../../../src/models/provider/CacheMarks.ts"
import { callModel, type Service } from "../../../src/models/routing/ModelRouter.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as RetryPolicy from "../../../src/models/routing/RetryPolicy.ts"
import type { Spending } from "../../../src/models/routing/SpendingPort.ts"
import * as TenantRoutes from "../../../src/models/routing/TenantRoutes.ts"
import * as Failover from "../../support/failover.ts"
import * as Fake from "../../support/fakeModel.ts"
import { ids } from "../../support/middlewareContexts.ts"

const shared: Route.Route = {
  provider: "custom",
  model: "large",
  baseUrl: "http://127.0.0.1:9/v1",
  apiMode: "chat_completions",
  apiKey: Redacted.make("shared-key")
}

/** The resolved routes of a tenant with its own key, or with none. */
const routesOf = (tenant: string, key: string | undefined, model = "small") => {
  const { baseUrl, provider } = shared
  const own = key === undefined ? {} : { apiKey: Redacted.make(key) }
  const routes = [{ provider, model, baseUrl, ...own }]
  return Result.getOrThrow(TenantRoutes.resolveModels(tenant, { routes }))
}

/** A ledger that permits everything. */
const spendingOf = (tenant: string, routes?: TenantRoutes.TenantRoutes): Spending => ({
  tenant,
  routes,
  reserve: ({ wantedOutput }) => Effect.succeed({ output: wantedOutput, settle: () => Effect.void })
})

/** A router whose providers record the key of each call, and the calls in the order of their answers. */
const makeWorld = (answer: (key: string, count: number) => ReturnType<Fake.Turn>, retry = RetryPolicy.none) =>
  Effect.gen(function* () {
    const calls: Array<string> = []
    const sent: Array<ModelCall> = []
    const closed: Array<string> = []
    const { router } = yield* RoutedModelRouter.makeRouter({
      chain: [{ route: shared }],
      retry,
      open: (route) => {
        const key = route.apiKey === undefined ? "" : Redacted.value(route.apiKey)
        const { provider } = Fake.make()
        return Effect.acquireRelease(
          Effect.succeed({
            ...provider,
            info: Route.toInfo(route),
            prepare: (call: ModelCall) => {
              sent.push(call)
              return Effect.succeed({ model: route.model })
            },
            execute: () =>
              Effect.suspend(() => {
                calls.push(key)
                return answer(key, calls.length)
              })
          }),
          () => Effect.sync(() => closed.push(key))
        )
      }
    })
    const interceptors = { stack: Stack.make([]), hooks: yield* Hooks.make() }
    const ask = (spending: Spending, more: Partial<ModelCall> = {}) =>
      callModel<never>(router, interceptors, {
        call: { ...Failover.modelCall, ...more },
        context: { ...ids, platform: "cli", apiCallCount: 1 },
        userMessage: "hello",
        options: undefined,
        spending
      })
    return { router, ask, calls, sent, closed }
  })

const said = (text: string) => Effect.succeed(Fake.textAnswer(text))

describe("routers of tenants", () => {
  it.effect("leave the turns at the shared key as they are, and do not wait for it", () =>
    Effect.gen(function* () {
      const refusal = new AiError.RateLimitError({ retryAfter: Duration.seconds(10), metadata: { status: 429 } })
      const { ask, calls } = yield* makeWorld(
        (key, count) => (count === 1 ? Effect.fail(Fake.failure(refusal)) : said(key)),
        RetryPolicy.make({ attempts: 5 })
      )
      const done: Array<string> = []
      const start = (name: string, spending: Spending) =>
        Effect.forkChild(
          Effect.tap(ask(spending), () => Effect.sync(() => done.push(name))),
          { startImmediately: true }
        )
      const first = yield* start("first", spendingOf("noisy"))
      yield* TestClock.adjust("1 second")
      const storm = yield* Effect.forEach(
        Array.from({ length: 30 }, (_, index) => `storm ${index}`),
        (name) => start(name, spendingOf("noisy"))
      )
      const quiet = yield* start("quiet", spendingOf("quiet"))
      // The tenant's route has the shared key: it takes its turn like the others.
      const keyless = yield* start("keyless", spendingOf("keyless", routesOf("keyless", undefined, "large")))
      const own = yield* start("own", spendingOf("own", routesOf("own", "own-key")))
      yield* Fiber.join(own)
      assert.deepStrictEqual(done, ["own"])
      assert.deepStrictEqual(calls, ["shared-key", "own-key"])
      yield* TestClock.adjust("30 minutes")
      yield* Effect.forEach([first, quiet, keyless, ...storm], Fiber.join, { discard: true })
      assert.isAtMost(done.indexOf("quiet"), 4)
      assert.strictEqual(done.length, 34)
    })
  )

  it.effect("learn the limits of their key alone", () =>
    Effect.gen(function* () {
      const { ask, router } = yield* makeWorld((key) => said(key))
      const acme = routesOf("acme", "acme-key")
      yield* ask(spendingOf("acme", acme))
      const readWindow = (one: Service) =>
        Effect.map(
          one.catalogue?.window(one === router ? shared : { ...shared, model: "small" }) ?? Effect.die("none"),
          ({ tokens }) => tokens
        )
      const learn = (one: Service) =>
        Effect.sync(() => one.catalogue?.probing.learnt({ ...shared, model: "small" }, { window: 9_000, stated: true }))
      const learnt = yield* (
        router.forTenant?.(acme, (own) => Effect.andThen(learn(own), readWindow(own))) ?? Effect.die("none")
      )
      assert.strictEqual(learnt, 9_000)
      const globex = routesOf("globex", "globex-key")
      assert.notStrictEqual(yield* router.forTenant?.(globex, readWindow) ?? Effect.die("none"), 9_000)
      const found = yield* router.catalogue?.window({ ...shared, model: "small" }) ?? Effect.die("none")
      assert.notStrictEqual(found.tokens, 9_000)
    })
  )

  it.effect("are closed when their tenants are idle, and never during a call", () =>
    Effect.gen(function* () {
      const { ask, calls, closed } = yield* makeWorld((key) => (key === "slow" ? Effect.never : said(key)))
      const slow = yield* Effect.forkChild(ask(spendingOf("slow", routesOf("slow", "slow"))), {
        startImmediately: true
      })
      for (let index = 0; index < 300; index++)
        yield* ask(spendingOf(`t${index}`, routesOf(`t${index}`, `key-${index}`)))
      assert.strictEqual(calls.length, 301)
      // 256 stay open, and the one in use.
      assert.strictEqual(closed.length, 300 + 1 - 256)
      assert.deepStrictEqual(closed.slice(0, 2), ["key-0", "key-1"])
      yield* TestClock.adjust("2 hours")
      yield* ask(spendingOf("t0", routesOf("t0", "key-0")))
      assert.strictEqual(closed.length, 300)
      assert.notInclude(closed, "slow")
      yield* Fiber.interrupt(slow)
    })
  )

  it.effect("are refused by a router that does not separate tenants", () =>
    Effect.gen(function* () {
      const { router } = Failover.make(shared, () => Fake.text("no"))
      const interceptors = { stack: Stack.make([]), hooks: yield* Hooks.make() }
      const refused = yield* Effect.flip(
        callModel<{ readonly _tag: string }>(router, interceptors, {
          call: Failover.modelCall,
          context: { ...ids, platform: "cli", apiCallCount: 1 },
          userMessage: "hello",
          options: undefined,
          spending: spendingOf("acme", routesOf("acme", "acme-key"))
        })
      )
      assert.strictEqual(refused._tag, "TenantRefused")
    })
  )

  it.effect("send other keys of the prompt cache for each tenant, which do not show its name", () =>
    Effect.gen(function* () {
      const { ask, sent } = yield* makeWorld((key) => said(key))
      const parts = { conversationId: "c1", sharedCacheId: "kind" }
      for (const tenant of ["acme", "globex"]) yield* ask(spendingOf(tenant), parts)
      const keys = sent.map(CacheMarks.makeCacheKey)
      assert.strictEqual(new Set([...keys, CacheMarks.makeCacheKey(parts)]).size, 3)
      for (const key of keys) assert.match(key ?? "", /^[0-9a-f]{64}$/u)
    })
  )
})
