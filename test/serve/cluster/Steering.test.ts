// Messages to a running turn: the model has each once, also if the runner dies before or after the delivery.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Conversation from "../../../src/base/domain/Conversation.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Runtime, SessionStore, Toolset } from "../../../src/index.ts"
import { Cluster } from "../../../src/kit/entry/cluster.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import { SessionInbox } from "../../../src/store/SessionInbox.ts"
import * as Fake from "../../support/fakeModel.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const toolkit = Toolkit.make(
  Tool.make("slow", { parameters: Schema.Struct({}), success: Schema.String }).annotate(Tool.Idempotent, true)
)

/** A process with an agent whose tool and whose last answer wait. */
const makeProcess = (directory: string, fake: ReturnType<typeof Fake.make>, slow: Effect.Effect<unknown>) => {
  const store = SessionStore.layerSqlite({ path: `${directory}/state.db` })
  const agent = Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    store,
    tools: [Toolset.make("slow", toolkit, toolkit.toLayer({ slow: () => Effect.as(slow, "slow result") }))]
  }).pipe(Layer.provideMerge(store))
  return Layer.merge(
    Cluster.layerSqlite({ path: `${directory}/cluster.db`, concurrency: 2 }).pipe(Layer.provide(agent)),
    store
  )
}

const readTexts = Effect.gen(function* () {
  const messages = yield* (yield* SessionStore.SessionStore).messages(SessionId.make("s"))
  return {
    results: messages.flatMap((message) => (message.role === "tool" ? [JSON.stringify(message.content)] : [])),
    prompts: messages.flatMap((message) => (message.role === "user" ? [Conversation.readText(message)] : []))
  }
})

const count = (texts: ReadonlyArray<string>, part: string): number => texts.join("\n").split(part).length - 1

describe("a message to a running turn", () => {
  it.live("comes with the next result of a tool, once; a later one is the turn after it", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [begun, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const fake = Fake.make(Fake.calls(Fake.call("a", "slow", {})), Fake.text("done"))
      const slow = Effect.andThen(Deferred.succeed(begun, undefined), Deferred.await(release))
      yield* Effect.gen(function* () {
        assert.strictEqual(
          (yield* Effect.flip(Cluster.steer("s", "early"))).message,
          "session s has no running turn: submit the text as a turn of it"
        )
        yield* Cluster.submit(Cluster.makeTurnRequest({ id: "turn", sessionId: "s", prompt: "go" }))
        yield* Deferred.await(begun)
        assert.strictEqual(yield* Cluster.steer("s", "Use Postgres"), "turn")
        yield* Cluster.steer("s", "and be brief")
        yield* Deferred.succeed(release, undefined)
        yield* Cluster.waitForOutcomes(["turn"])
        const { prompts, results } = yield* readTexts
        assert.deepStrictEqual([count(results, "Use Postgres"), count(results, "and be brief")], [1, 1])
        assert.deepStrictEqual(prompts, ["go"])
      }).pipe(Effect.provide(makeProcess(directory, fake, slow), { local: true }))
    })
  )

  it.live("is the turn after a turn without further tool results", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const [asked, release] = [yield* Deferred.make<void>(), yield* Deferred.make<void>()]
      const fake = Fake.make(Fake.text("first"), Fake.text("second"))
      const { execute } = fake.provider
      const provider = {
        ...fake.provider,
        execute: (...args: Parameters<typeof execute>) =>
          Deferred.succeed(asked, undefined).pipe(
            Effect.andThen(Deferred.await(release)),
            Effect.andThen(execute(...args))
          )
      }
      yield* Effect.gen(function* () {
        yield* Cluster.submit(Cluster.makeTurnRequest({ id: "turn", sessionId: "s", prompt: "go" }))
        yield* Deferred.await(asked)
        yield* Cluster.steer("s", "One more thing")
        yield* Deferred.succeed(release, undefined)
        yield* Cluster.waitForOutcomes(["turn", "turn+1"])
        assert.deepStrictEqual((yield* readTexts).prompts, ["go", "One more thing"])
      }).pipe(Effect.provide(makeProcess(directory, { ...fake, provider }, Effect.void), { local: true }))
    })
  )

  it.live("is delivered by the next process if the first one died before", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const begun = yield* Deferred.make<void>()
      const fake = Fake.make(Fake.calls(Fake.call("a", "slow", {})), Fake.text("done"))
      yield* Effect.gen(function* () {
        yield* Cluster.submit(Cluster.makeTurnRequest({ id: "turn", sessionId: "s", prompt: "go" }))
        yield* Deferred.await(begun)
        yield* Cluster.steer("s", "Use Postgres")
      }).pipe(
        Effect.provide(makeProcess(directory, fake, Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)), {
          local: true
        })
      )
      yield* Effect.gen(function* () {
        yield* Cluster.waitForOutcomes(["turn"])
        const { results } = yield* readTexts
        assert.strictEqual(count(results, "Use Postgres"), 1)
      }).pipe(Effect.provide(makeProcess(directory, fake, Effect.void), { local: true }))
    })
  )

  it.live("of another process, which the first runner took, is delivered by the next one before the run ends", () =>
    Effect.gen(function* () {
      const directory = yield* temporaryDirectory
      const begun = yield* Deferred.make<void>()
      const fake = Fake.make(Fake.calls(Fake.call("a", "slow", {})), Fake.text("done"))
      yield* Effect.andThen(
        Cluster.submit(Cluster.makeTurnRequest({ id: "turn", sessionId: "s", prompt: "go" })),
        Deferred.await(begun)
      ).pipe(
        Effect.provide(makeProcess(directory, fake, Effect.andThen(Deferred.succeed(begun, undefined), Effect.never)), {
          local: true
        })
      )
      // Taken by a process that ended before it handed the text over.
      yield* SessionInbox.use(({ send, take }) =>
        Effect.andThen(
          send({ sessionId: "s", kind: "steer", body: JSON.stringify({ prompt: "Use Postgres", busy: "steer" }) }),
          take("s")
        )
      ).pipe(Effect.provide(SessionStore.layerSqlite({ path: `${directory}/state.db` }), { local: true }))
      yield* Effect.gen(function* () {
        yield* Cluster.waitForOutcomes(["turn"])
        assert.strictEqual(count((yield* readTexts).results, "Use Postgres"), 1)
        assert.deepStrictEqual(yield* SessionInbox.use(({ waiting }) => waiting), [])
      }).pipe(Effect.provide(makeProcess(directory, fake, Effect.void), { local: true }))
    })
  )
})
