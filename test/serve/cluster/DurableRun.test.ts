// A durable run that is interrupted in its process, as when its shard moves, and gone on with.
import { assert, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as DurableRun from "../../../src/serve/cluster/DurableRun.ts"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Runtime, SessionStore, Toolset } from "../../../src/index.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Fake from "../../support/fakeModel.ts"

const tool = (name: string) => Tool.make(name, { parameters: Schema.Struct({}), success: Schema.String })
const toolkit = Toolkit.make(tool("slow"), tool("next"))

/** Runs until `begun`, is interrupted, and goes on; returns the session between, and after. */
const interrupted = Effect.fnUntraced(function* (turns: (begun: Deferred.Deferred<void>) => ReadonlyArray<Fake.Turn>) {
  const begun = yield* Deferred.make<void>()
  const ran: Array<string> = []
  const fake = Fake.make(...turns(begun))
  const store = SessionStore.layerMemory
  const layer = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    store,
    tools: [
      Toolset.make(
        "test",
        toolkit,
        toolkit.toLayer({
          slow: () =>
            Effect.sync(() => void ran.push("slow")).pipe(
              Effect.andThen(Deferred.succeed(begun, undefined)),
              Effect.andThen(Effect.never)
            ),
          next: () => Effect.sync(() => (ran.push("next"), "did it"))
        })
      )
    ]
  }).pipe(Layer.provideMerge(store))
  return yield* Effect.provide(
    Effect.gen(function* () {
      const { messages } = yield* SessionStore.SessionStore
      const id = SessionId.make("s")
      const fiber = yield* Effect.forkChild(
        DurableRun.run({ sessionId: "s", firstPosition: 0, prompt: "Go", isFirst: true })
      )
      yield* Deferred.await(begun)
      yield* Fiber.interrupt(fiber)
      const between = yield* messages(id)
      const { text } = yield* DurableRun.run({ sessionId: "s", firstPosition: 0, prompt: "Go" })
      return { between, after: yield* messages(id), text, ran }
    }),
    layer
  )
})

it.live("calls stay open: one that had begun may have happened, one that had not is run", () =>
  Effect.gen(function* () {
    const { after, between, ran, text } = yield* interrupted(() => [
      Fake.calls(Fake.call("a", "slow", {}), Fake.call("b", "next", {})),
      Fake.text("Done.")
    ])
    assert.deepStrictEqual(
      Conversation.listOpenCalls(between).map(({ id }) => id),
      ["a", "b"]
    )
    assert.deepStrictEqual([ran, text], [["slow", "next"], "Done."])
    const results = after.flatMap((message) =>
      message.role === "tool"
        ? message.content.flatMap((part) => (part.type === "tool-result" ? [[part.id, part.result]] : []))
        : []
    )
    assert.deepStrictEqual(results, [
      ["a", Conversation.mayHaveHappenedResult],
      ["b", "did it"]
    ])
  })
)
