// Cases of the product document about how the tools of a run are offered and scheduled, in whole runs.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { isCompleted } from "../../src/base/domain/RunEvent.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Annotations from "../../src/tools/Annotations.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const agentOf = (fake: Fake.Fake, toolset: Toolset.Toolset) =>
  Agent.layer({ cwd: "/tmp" }).pipe(
    Layer.provideMerge(Layer.mergeAll(fake.router, SessionStore.layerMemory, ToolRegistry.layer([toolset])))
  )

const PathParameter = Schema.Struct({ path: Schema.String })

describe("hermes-product.md, tools of a run", () => {
  it.effect("38 A check function that raises: the tool is not in the list, and the run continues", () =>
    Effect.gen(function* () {
      const fake = Fake.make(Fake.calls(Fake.call("c1", "fine", {})), Fake.text("done"))
      const raising = Effect.sync((): boolean => JSON.parse("{"))
      const toolkit = Toolkit.make(
        Tool.make("fine", { success: Schema.String }),
        Tool.make("gone", { success: Schema.String }).annotate(Annotations.Available, raising)
      )
      const handlers = toolkit.toLayer({ fine: () => Effect.succeed("ok"), gone: () => Effect.succeed("never") })
      const result = yield* Agent.run({ prompt: "go" }).pipe(
        Effect.provide(agentOf(fake, Toolset.make("set", toolkit, handlers)))
      )
      assert.isTrue(isCompleted(result))
      assert.deepStrictEqual(
        fake.asked.map(({ tools }) => tools.map(({ name }) => name)),
        [["fine"], ["fine"]]
      )
    })
  )

  it.effect(
    "47 Two read-only calls run at the same time and history keeps their order; writes to one path run one after the other",
    () =>
      Effect.gen(function* () {
        const [first, second] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
        const log: Array<string> = []
        const toolkit = Toolkit.make(
          Tool.make("look", { parameters: PathParameter, success: Schema.String }).annotate(Tool.Readonly, true),
          Tool.make("put", { parameters: PathParameter, success: Schema.String })
            .annotate(Tool.Destructive, false)
            .annotate(Annotations.PathArguments, ["path"])
        )
        const handlers = toolkit.toLayer({
          // Each waits for the other: one after the other they would never end.
          look: ({ path }) =>
            path === "a"
              ? Effect.as(Effect.andThen(Deferred.succeed(first, undefined), Deferred.await(second)), "a")
              : Effect.as(Effect.andThen(Deferred.await(first), Deferred.succeed(second, undefined)), "b"),
          put: ({ path }) =>
            Effect.gen(function* () {
              log.push(`begin ${path}`)
              yield* Effect.yieldNow
              yield* Effect.yieldNow
              log.push(`end ${path}`)
              return path
            })
        })
        const fake = Fake.make(
          Fake.calls(Fake.call("c1", "look", { path: "a" }), Fake.call("c2", "look", { path: "b" })),
          Fake.calls(Fake.call("c3", "put", { path: "x" }), Fake.call("c4", "put", { path: "./x" })),
          Fake.text("done")
        )
        const messages = yield* Effect.gen(function* () {
          const { sessionId } = yield* Agent.run({ prompt: "go" })
          return yield* SessionStore.SessionStore.use((store) => store.messages(sessionId))
        }).pipe(Effect.provide(agentOf(fake, Toolset.make("set", toolkit, handlers))))
        const results = messages.flatMap((message) =>
          message.role === "tool"
            ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result]] : []))
            : []
        )
        assert.deepStrictEqual(results, [
          ["c1", "a"],
          ["c2", "b"],
          ["c3", "x"],
          ["c4", "./x"]
        ])
        assert.deepStrictEqual(log, ["begin x", "end x", "begin ./x", "end ./x"])
      })
  )
})
