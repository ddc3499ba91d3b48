// Whether an agent starts with the model that it was given, and what it says of it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Agent from "../../src/agent/Agent.ts"
import { ConfigError } from "../../src/base/domain/AgentError.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Catalogue from "../../src/models/routing/Catalogue.ts"
import * as ModelLists from "../../src/models/routing/catalogue/ModelLists.ts"
import * as ContextWindow from "../../src/models/routing/ContextWindow.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Fake from "../support/fakeModel.ts"

const catalogueOf = (contextLength?: number): Catalogue.Service =>
  Catalogue.make({
    settings: {
      model: {
        provider: "auto",
        streaming: true,
        ...(contextLength === undefined ? {} : { default: "gpt-4-0613", contextLength })
      },
      customProviders: []
    },
    windows: ContextWindow.makeInMemory(),
    lists: ModelLists.none,
    get: () => Effect.succeed(undefined),
    post: () => Effect.succeed(undefined)
  })

const setup = (model: string, catalogue = catalogueOf(), ...turns: ReadonlyArray<Fake.Turn>) => {
  const fake = Fake.make(...turns, Fake.text("done"))
  const info = { ...fake.provider.info, provider: "openai", model }
  return {
    fake,
    layer: Agent.layer({ cwd: "/tmp" }).pipe(
      Layer.provideMerge(
        Layer.mergeAll(
          ModelRouter.layer.pipe(
            Layer.provide([
              Layer.succeed(Provider, { ...fake.provider, info }),
              Layer.succeed(Catalogue.Catalogue, catalogue)
            ])
          ),
          SessionStore.layerMemory,
          ToolRegistry.layer([Delegate.toolset])
        )
      )
    )
  }
}

const notices = Effect.fnUntraced(function* (prompt: string) {
  const told: Array<string> = []
  const onEvent = (events: ReadonlyArray<RunEvent>) =>
    Effect.sync(() => void told.push(...events.flatMap((event) => (event._tag === "Notice" ? [event.message] : []))))
  yield* Agent.run({ prompt, onEvent })
  return told
})

describe("the main model", () => {
  it.effect("that holds too little is refused before anything is stored", () => {
    const { fake, layer } = setup("gpt-4-0613")
    return Effect.gen(function* () {
      const error = yield* Effect.flip(Agent.run({ prompt: "hi" }))
      assert.instanceOf(error, ConfigError)
      assert.strictEqual(error.path, "model.context_length")
      assert.include(error.message, "gpt-4-0613 holds 8192 tokens, and an agent needs 64000")
      assert.deepStrictEqual(fake.asked, [])
      assert.deepStrictEqual(yield* (yield* SessionStore.SessionStore).list(), [])
    }).pipe(Effect.provide(layer))
  })

  it.effect("may hold less where the user says so, or where it was learnt", () => {
    const named = setup("gpt-4-0613", catalogueOf(8_192))
    const learnt = catalogueOf()
    const working = setup("gpt-5", learnt)
    learnt.probing.learnt({ model: "gpt-5", baseUrl: undefined }, { window: 16_000, stated: false })
    return Effect.gen(function* () {
      assert.strictEqual((yield* Effect.provide(Agent.run({ prompt: "hi" }), named.layer)).text, "done")
      assert.deepStrictEqual(
        named.fake.asked.map(({ contextWindow }) => contextWindow),
        [8_192]
      )
      assert.strictEqual((yield* Effect.provide(Agent.run({ prompt: "hi" }), working.layer)).text, "done")
      assert.deepStrictEqual(
        working.fake.asked.map(({ contextWindow }) => contextWindow),
        [16_000]
      )
    })
  })

  it.effect("that nobody describes has safe defaults, of which the user is told once", () => {
    const { fake, layer } = setup("nobody-1")
    return Effect.gen(function* () {
      assert.deepStrictEqual(yield* notices("hi"), [
        'Context size of "nobody-1" is unknown; assuming 128,000 tokens. Set model.context_length to change this.'
      ])
      assert.deepStrictEqual(yield* notices("again"), [])
      assert.deepStrictEqual(
        fake.asked.map(({ contextWindow }) => contextWindow),
        [128_000, 128_000]
      )
    }).pipe(Effect.provide(layer))
  })

  it.effect("is not spoken of where it is known, nor of an application's own", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* Effect.provide(notices("hi"), setup("gpt-5").layer), [])
      assert.deepStrictEqual(yield* Effect.provide(notices("hi"), setup("mine-1", Catalogue.makeBundled()).layer), [])
    })
  )
})
