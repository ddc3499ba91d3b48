import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import { ConfigError } from "../../../src/base/domain/AgentError.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import type { Open } from "../../../src/models/routing/OpenRoute.ts"
import * as Fake from "../../support/fakeModel.ts"

const route = (model: string, key = "k"): Route => ({
  provider: "custom",
  model,
  apiMode: "chat_completions",
  baseUrl: "http://localhost:1/v1",
  apiKey: Redacted.make(key)
})

const counting = () => {
  const opened: Array<string> = []
  const closed: Array<string> = []
  const open: Open = (route) =>
    Effect.acquireRelease(
      Effect.sync(() => {
        opened.push(route.model)
        return Fake.make(Fake.text("ok")).provider
      }),
      () => Effect.sync(() => closed.push(route.model))
    )
  return { opened, closed, open }
}

describe("OpenProviders", () => {
  it.effect("a route is opened once, also by callers side by side, and another key is another route", () =>
    Effect.gen(function* () {
      const { open, opened } = counting()
      const providers = yield* RoutedModelRouter.makeOpenProviders(open)
      yield* Effect.all(
        [1, 2, 3].map(() => providers.use(route("a"), () => Effect.yieldNow)),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(opened, ["a"])
      yield* providers.use(route("a", "other"), () => Effect.void)
      assert.deepStrictEqual(opened, ["a", "a"])
    })
  )

  it.effect("beyond the capacity the one that was not used for longest is closed, in use only afterwards", () =>
    Effect.gen(function* () {
      const { closed, open } = counting()
      const providers = yield* RoutedModelRouter.makeOpenProviders(open, 2)
      const done = yield* Deferred.make<void>()
      const held = yield* Effect.forkChild(
        providers.use(route("a"), () => Deferred.await(done)),
        { startImmediately: true }
      )
      yield* providers.use(route("b"), () => Effect.void)
      yield* providers.use(route("c"), () => Effect.void)
      assert.deepStrictEqual(closed, [])
      yield* providers.use(route("d"), () => Effect.void)
      assert.deepStrictEqual(closed, ["b"])
      assert.strictEqual(providers.size(), 2)
      yield* Deferred.succeed(done, undefined)
      yield* Fiber.join(held)
      assert.deepStrictEqual(closed, ["b", "a"])
    })
  )

  it.effect("what can not be opened is told by provider and model, and tried again next time", () =>
    Effect.gen(function* () {
      let tries = 0
      const providers = yield* RoutedModelRouter.makeOpenProviders(() => {
        tries++
        return Effect.fail(new ConfigError({ path: "model.base_url", message: "no address" }))
      })
      const error = yield* Effect.flip(providers.use(route("a"), () => Effect.void))
      assert.include(error.message, "custom (a): no address")
      yield* Effect.flip(providers.use(route("a"), () => Effect.void))
      assert.strictEqual(tries, 2)
    })
  )
})
