// A side task goes on from a cached conversation only if that costs less than another way, at the published prices.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import type { RouteInfo } from "../../../src/base/domain/Route.ts"
import * as Catalogue from "../../../src/models/routing/Catalogue.ts"
import * as WarmPrefix from "../../../src/models/routing/WarmPrefix.ts"

const anthropic = (model: string): RouteInfo => ({
  provider: "anthropic",
  model,
  apiMode: "anthropic_messages",
  baseUrl: undefined
})

const custom = (model: string): RouteInfo => ({
  provider: "custom",
  model,
  apiMode: "anthropic_messages",
  baseUrl: "https://models.example/v1"
})

const say = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })

const answer = Prompt.assistantMessage({ content: [Prompt.textPart({ text: "done" })] })

const opus = anthropic("claude-opus-4-6")

const isCheaper = (
  given: Partial<WarmPrefix.WarmPrefix>,
  alternative: WarmPrefix.Alternative,
  outputTokens = 2_000
): Effect.Effect<boolean> => {
  const prefix: WarmPrefix.WarmPrefix = {
    route: opus,
    named: undefined,
    messages: [say("do it"), answer],
    tools: [],
    cache: { ttl: "5m" },
    cachedTokens: 80_000,
    ...given
  }
  const continuation = { prefix, question: say("write a note"), outputTokens }
  return WarmPrefix.isCheaper(Catalogue.makeBundled(), continuation, alternative, prefix.route)
}

describe("a side task of a cached conversation", () => {
  it.effect("of 80,000 tokens goes on from it if the same model reads a copy of 40,000, and not one of 4,000", () =>
    Effect.gen(function* () {
      assert.isTrue(yield* isCheaper({}, { route: opus, inputTokens: 40_000 }))
      assert.isFalse(yield* isCheaper({}, { route: opus, inputTokens: 4_000 }))
    })
  )

  it.effect("goes to a model whose price for the copy is lower", () =>
    Effect.gen(function* () {
      const haiku = anthropic("claude-haiku-4-5")
      assert.isFalse(yield* isCheaper({}, { route: haiku, inputTokens: 40_000 }))
      assert.isTrue(yield* isCheaper({}, { route: haiku, inputTokens: 100_000 }))
      assert.isFalse(yield* isCheaper({}, { route: haiku, inputTokens: 100_000 }, 12_000))
    })
  )

  it.effect("of a model without a price goes on from it only instead of the same model", () =>
    Effect.gen(function* () {
      const route = custom("claude-opus-4-6")
      assert.isTrue(yield* isCheaper({ route }, { route, inputTokens: 40_000 }))
      assert.isFalse(yield* isCheaper({ route }, { route: custom("small"), inputTokens: 40_000 }))
      assert.isFalse(yield* isCheaper({}, { route: custom("small"), inputTokens: 40_000 }))
    })
  )

  it.effect("counts the thinking that the effort of the run adds to its answer", () =>
    Effect.gen(function* () {
      const alternative = { route: opus, inputTokens: 10_000 }
      assert.isTrue(yield* isCheaper({}, alternative))
      assert.isFalse(yield* isCheaper({ reasoningEffort: "medium" }, alternative))
    })
  )

  it.effect("reads the last turn again if the model removes its thinking", () =>
    Effect.gen(function* () {
      const route = anthropic("claude-sonnet-4-5")
      const messages = [say("do it"), answer, say("and this ".repeat(20_000)), answer]
      const alternative = { route, inputTokens: 50_000 }
      assert.isTrue(yield* isCheaper({ route, messages }, alternative))
      assert.isFalse(yield* isCheaper({ route, messages, reasoningEffort: "medium" }, alternative))
    })
  )

  it.effect("does not go on from it if the answers of the conversation are shorter", () =>
    Effect.gen(function* () {
      const alternative = { route: opus, inputTokens: 900_000 }
      assert.isFalse(yield* isCheaper({ maxOutputTokens: 1_000 }, alternative))
      assert.isTrue(yield* isCheaper({ maxOutputTokens: 2_000 }, alternative))
    })
  )

  it.effect("does not go on from it if it fills the window, or if nothing is cached", () =>
    Effect.gen(function* () {
      const alternative = { route: opus, inputTokens: 900_000 }
      const { tokens } = yield* Catalogue.makeBundled().window(opus)
      assert.isFalse(yield* isCheaper({ cachedTokens: tokens }, alternative))
      assert.isFalse(yield* isCheaper({ cache: undefined }, alternative))
      assert.isTrue(yield* isCheaper({}, alternative))
    })
  )
})
