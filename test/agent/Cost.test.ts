// What a run costs, as its result, its events, its session and the listeners to its calls have it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Agent from "../../src/agent/Agent.ts"
import type { Spent } from "../../src/base/domain/Cost.ts"
import type { RouteInfo } from "../../src/base/domain/Route.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Fake from "../support/fakeModel.ts"

const opus: RouteInfo = {
  provider: "anthropic",
  model: "claude-opus-4.6",
  apiMode: "anthropic_messages",
  baseUrl: undefined
}
const nobody: RouteInfo = {
  provider: "custom",
  model: "nobody-1",
  apiMode: "chat_completions",
  baseUrl: "http://127.0.0.1:9/v1"
}

const setup = (info: RouteInfo, ...turns: ReadonlyArray<Fake.Turn>) => {
  const fake = Fake.make(...turns)
  const posts: Array<unknown> = []
  return {
    posts,
    layer: Agent.layer({ cwd: "/tmp" }).pipe(
      Layer.provideMerge(
        Layer.mergeAll(
          ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, { ...fake.provider, info }))),
          Hooks.layer([
            Hooks.on("post_api_request", ({ cost_source, cost_status, estimated_cost_usd }) =>
              Effect.sync(() => void posts.push([estimated_cost_usd, cost_status, cost_source]))
            )
          ]),
          SessionStore.layerMemory,
          ToolRegistry.layer([Delegate.toolset])
        )
      )
    )
  }
}

/** Ten tokens in at 5 dollars and five out at 25 dollars a million. */
const once = 0.000175

const estimated = (usd: number): Spent => ({ usd, status: "estimated", source: "official_docs_snapshot" })

const run = Effect.fnUntraced(function* (prompt: string) {
  const events: Array<RunEvent> = []
  const result = yield* Agent.run({ prompt, onEvent: (some) => Effect.sync(() => void events.push(...some)) })
  return { result, reported: events.flatMap((event) => (event._tag === "UsageReported" ? [event.cost] : [])) }
})

describe("the cost of a run", () => {
  it.effect("is that of its calls, exactly, in every place that tells it", () => {
    const { layer, posts } = setup(opus, Fake.calls(Fake.call("c1", "nothing", {})), Fake.text("done"))
    return Effect.gen(function* () {
      const { reported, result } = yield* run("hi")
      assert.deepStrictEqual(reported, [estimated(once), estimated(once)])
      assert.deepStrictEqual(result.cost, estimated(0.00035))
      assert.deepStrictEqual(posts, [
        [once, "estimated", "official_docs_snapshot"],
        [once, "estimated", "official_docs_snapshot"]
      ])
      const store = yield* SessionStore.SessionStore
      assert.deepStrictEqual(Option.getOrThrow(yield* store.get(result.sessionId)).cost, estimated(0.00035))
      const [model] = yield* store.usageByModel(result.sessionId)
      assert.deepStrictEqual(model?.cost, estimated(0.00035))
    }).pipe(Effect.provide(layer))
  })

  it.effect("is unknown, and never guessed, where nobody names a price", () => {
    const { layer, posts } = setup(nobody, Fake.text("done"))
    return Effect.gen(function* () {
      const { reported, result } = yield* run("hi")
      assert.deepStrictEqual(reported, [{ usd: null, status: "unknown", source: "none" }])
      assert.deepStrictEqual(result.cost, { usd: null, status: "unknown", source: "none" })
      assert.deepStrictEqual(posts, [[null, "unknown", "none"]])
    }).pipe(Effect.provide(layer))
  })

  it.effect("has in it what children cost", () => {
    const { layer } = setup(
      opus,
      Fake.calls(Fake.call("d1", "delegate_task", { goal: "look" })),
      Fake.text("the child's answer"),
      Fake.text("done")
    )
    return Effect.gen(function* () {
      const { reported, result } = yield* run("delegate")
      assert.strictEqual(reported.length, 3, "the child's call is told when it is made")
      assert.deepStrictEqual(result.cost, estimated(0.000525))
      assert.strictEqual(result.usage.requestCount, 3)
    }).pipe(Effect.provide(layer))
  })
})
