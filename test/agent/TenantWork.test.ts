// Work of a tenant besides the steps of its runs: side tasks, background children, reviews, titles, compactions and
// tools outside of runs. All of it passes through the ledger: its sum is the usage that the provider counted.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as TestClock from "effect/testing/TestClock"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { BackgroundReviews } from "../../src/agent/BackgroundReview.ts"
import { Children } from "../../src/agent/Children.ts"
import * as TenantScope from "../../src/store/TenantScope.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { ReviewSettings } from "../../src/agent/RunInput.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { Tenant } from "../../src/base/domain/Tenant.ts"
import { Auxiliary } from "../../src/models/routing/Auxiliary.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as LiveSession from "../../src/serve/host/LiveSession.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as MemoryTool from "../../src/tools/builtin/MemoryTool.ts"
import * as MemoryStore from "../../src/tools/prompt/MemoryStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { delegate, isChild, say, setup } from "../support/delegation.ts"
import * as Fake from "../support/fakeModel.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

/** Tokens of one answer of the model. */
const perCall = 15

const s1 = SessionId.make("s1")

const acme: Tenant = { id: "acme", perDay: { tokens: 1_000_000 } }

const Think = Tool.make("think", {
  description: "Asks a model",
  parameters: Schema.Struct({ by: Schema.Literals(["auxiliary", "model"]) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const thinking = Toolkit.make(Think)
const context = { sessionId: s1, taskId: undefined, turnId: undefined }
const askModel = Effect.map(LanguageModel.generateText({ prompt: "think" }), ({ text }) => text)
const askSideModel = Auxiliary.use((auxiliary) =>
  Effect.map(
    auxiliary.call("vision", {
      messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "look" })] })],
      // The ids of a call matter to its record only.
      context: context as never
    }),
    ({ text }) => text
  )
)
/** A runtime has both services for its tools, which its type does not say. */
const ofRuntime = (effect: Effect.Effect<string, unknown, unknown>) => Effect.orDie(effect) as Effect.Effect<string>
const think = Toolset.make(
  "thinking",
  thinking,
  thinking.toLayer({ think: ({ by }) => (by === "model" ? ofRuntime(askModel) : ofRuntime(askSideModel)) })
)

const readSpent = Tenants.Tenants.use((tenants) =>
  Effect.map(tenants.balance("acme"), ({ reserved, spentToday }) => {
    assert.strictEqual(reserved.tokens, 0)
    return spentToday.tokens
  })
)

const runtimeWith = (fake: Fake.Fake, tenant = acme, reviews?: ReviewSettings) =>
  Runtime.layer({
    provider: Layer.succeed(Provider, fake.provider),
    retry: RetryPolicy.none,
    tools: [think, MemoryTool.toolset],
    ...(reviews === undefined ? {} : { reviews })
  }).pipe(
    Layer.provideMerge(Tenants.layerFrom([tenant])),
    Layer.provide(
      Layer.unwrap(
        Effect.map(temporaryDirectory, (directory) =>
          MemoryStore.layer({ directory, database: `${directory}/state.db`, limits: { memory: 2_200, user: 1_375 } })
        )
      )
    ),
    Layer.provideMerge(NodeServices.layer)
  )

describe("the ledger of a tenant counts", () => {
  for (const by of ["auxiliary", "model"] as const) {
    it.effect(`the calls of a tool through the ${by}`, () => {
      const fake = Fake.make(Fake.calls(Fake.call("c1", "think", { by })), Fake.text("thought"), Fake.text("done"))
      return Effect.gen(function* () {
        assert.strictEqual((yield* Agent.run({ prompt: "go", tenant: "acme" })).text, "done")
        assert.strictEqual(fake.executed.length, 3)
        assert.strictEqual(yield* readSpent, 3 * perCall)
      }).pipe(Effect.provide(runtimeWith(fake)), Effect.scoped)
    })
  }

  it.effect("a tool that is called outside of a run", () => {
    const fake = Fake.make(Fake.text("thought"))
    return Effect.gen(function* () {
      const call = { name: "think", args: { by: "auxiliary" } }
      yield* (yield* Agent.Agent).callTool({ ...call, tenant: "acme" })
      assert.strictEqual(yield* readSpent, perCall)
      const unknown = yield* (yield* Agent.Agent).callTool({ ...call, tenant: "nobody" })
      assert.deepStrictEqual(unknown, {
        isFailure: true,
        output: JSON.stringify({ error: "there is no tenant nobody" })
      })
    }).pipe(Effect.provide(runtimeWith(fake)), Effect.scoped)
  })

  it.effect("a child that works in the background after its parent, against the allowance of the run", () => {
    const go = Deferred.makeUnsafe<void>()
    const { layer, prompts } = setup(({ prompt, results }) => {
      if (isChild(prompt)) return Effect.andThen(Deferred.await(go), say("seven sheep"))
      return results === 0 ? delegate({ goal: "count", background: true }) : say("sent")
    })
    return Effect.gen(function* () {
      const children = yield* Children
      yield* Agent.run({ prompt: "go", sessionId: "s1", tenant: "acme" })
      yield* Deferred.succeed(go, undefined)
      yield* children.arrived(s1)
      assert.strictEqual(prompts.filter(isChild).length, 1)
      assert.strictEqual(yield* readSpent, 3 * perCall)
    }).pipe(
      Effect.provide(Layer.provideMerge(Layer.provide(layer, NodeServices.layer), Tenants.layerFrom([acme]))),
      Effect.scoped
    )
  })

  it.effect("a review after a run", () => {
    const fake = Fake.make(Fake.text("Hello."), Fake.text("Nothing to save."))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "go", sessionId: "s1", tenant: "acme" })
      yield* BackgroundReviews.use((reviews) => reviews.settled(s1))
      assert.strictEqual(fake.executed.length, 2)
      assert.strictEqual(yield* readSpent, 2 * perCall)
    }).pipe(Effect.provide(runtimeWith(fake, acme, { memoryTurns: 1 })), Effect.scoped)
  })

  it.effect("a compaction between runs", () => {
    const fake = Fake.make(Fake.text("Hello. ".repeat(2_000)))
    return Effect.gen(function* () {
      for (let turn = 0; turn < 8; turn++) yield* Agent.run({ prompt: "go", sessionId: "s1", tenant: "acme" })
      const before = fake.executed.length
      yield* (yield* Agent.Agent).compact({ sessionId: "s1", tenant: "acme", keepExchanges: 1 })
      assert.isAbove(fake.executed.length, before)
      assert.strictEqual(yield* readSpent, fake.executed.length * perCall)
    }).pipe(Effect.provide(runtimeWith(fake)), Effect.scoped)
  })

  it.effect("the title of a live session, and turns of the fiber's tenant", () => {
    const fake = Fake.make(Fake.text("Hello"))
    return Effect.gen(function* () {
      const live = yield* LiveSession.make({ session: { id: s1 } })
      const reader = yield* live.subscribe()
      yield* live.send({ prompt: "go" })
      for (let isTitled = false; !isTitled;) {
        const event = yield* reader.take
        isTitled = event._tag === "SessionChanged" && event.change === "titled"
      }
      assert.strictEqual(fake.executed.length, 2)
      // A title is bounded apart from its run, and written when it ends.
      while ((yield* readSpent) < 2 * perCall);
      assert.strictEqual(yield* readSpent, 2 * perCall)
    }).pipe(Effect.provideService(TenantScope.CurrentTenant, "acme"), Effect.scoped, Effect.provide(runtimeWith(fake)))
  })
})

describe("a session of a tenant", () => {
  it.effect("charges its title to the tenant if the owner of the application continues it", () => {
    const fake = Fake.make(Fake.text("Hello"))
    return Effect.gen(function* () {
      const store = yield* SessionStore
      yield* store.create({ id: s1, source: "cli", provider: "p", model: "m", systemPrompt: "", tenant: "acme" })
      const live = yield* LiveSession.make({ session: { id: s1 } })
      const reader = yield* live.subscribe()
      yield* live.send({ prompt: "go" })
      for (let isTitled = false; !isTitled;) {
        const event = yield* reader.take
        isTitled = event._tag === "SessionChanged" && event.change === "titled"
      }
      assert.strictEqual(fake.executed.length, 2)
      yield* TestClock.adjust("2 seconds")
      assert.strictEqual(yield* readSpent, 2 * perCall)
    }).pipe(Effect.scoped, Effect.provide(runtimeWith(fake)))
  })
})

describe("a tenant with a list of tools", () => {
  it.effect("is offered these only, by name or by toolset", () => {
    const offered = (tools: ReadonlyArray<string> | undefined) => {
      const fake = Fake.make(Fake.text("done"))
      return Effect.andThen(
        Agent.run({ prompt: "go", tenant: "acme" }),
        Effect.sync(() => fake.asked.flatMap((call) => call.tools.map(({ name }) => name)))
      ).pipe(Effect.provide(runtimeWith(fake, { ...acme, tools })), Effect.scoped)
    }
    return Effect.gen(function* () {
      assert.deepStrictEqual(yield* offered(undefined), ["think", "memory"])
      assert.deepStrictEqual(yield* offered(["memory"]), ["memory"])
      assert.deepStrictEqual(yield* offered(["thinking"]), ["think"])
      assert.deepStrictEqual(yield* offered([]), [])
    })
  })
})
