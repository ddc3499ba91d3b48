import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Classification from "../../src/models/routing/Classification.ts"
import type * as CompactionPort from "../../src/models/routing/CompactionPort.ts"
import * as ContextWindow from "../../src/models/routing/ContextWindow.ts"
import * as WindowProbing from "../../src/models/routing/WindowProbing.ts"
import { ids } from "../support/middlewareContexts.ts"

const route = { model: "m", baseUrl: "https://x.example/v1" }

const refusal = (description: string, status = 400): AiError.AiError =>
  AiError.make({
    module: "Fake",
    method: "execute",
    reason:
      status === 429
        ? new AiError.RateLimitError({
            metadata: { status },
            http: { response: { status, headers: {} }, body: JSON.stringify({ error: { message: description } }) }
          })
        : new AiError.InvalidRequestError({
            description,
            metadata: { status },
            http: { response: { status, headers: {} } }
          })
  })

const messages = (count: number): ReadonlyArray<Prompt.Message> =>
  Array.from({ length: count }, () => Prompt.userMessage({ content: [Prompt.textPart({ text: "x".repeat(16_000) })] }))

/** A conversation of these many messages, which loses some whenever it is asked to. */
const conversation = (first: number, ...sizes: ReadonlyArray<number>) => {
  const asked: Array<number> = []
  return {
    first,
    asked,
    compact: (request: CompactionPort.Request) =>
      Effect.sync(() => {
        asked.push(request.window)
        return messages(sizes[asked.length - 1] ?? request.messages.length)
      })
  }
}

const scene = (window: number, talk: ReturnType<typeof conversation>) => {
  const windows = ContextWindow.makeInMemory()
  const probing = ContextWindow.makeLearntWindows(windows)
  const turn = WindowProbing.makeTurn()
  let current = window
  let sent = messages(talk.first)
  const fail = (error: AiError.AiError, at = route) =>
    Effect.map(
      WindowProbing.recoverConversation(probing, talk, turn, {
        error,
        route: at,
        window: current,
        messages: sent,
        ...ids
      }),
      (outcome) => {
        if (outcome._tag !== "Restart") return outcome
        current = outcome.window
        sent = outcome.messages
        return { ...outcome, messages: outcome.messages.length }
      }
    )
  return { fail, probing, turn, windows }
}

const overflow = refusal(
  "This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens."
)

describe("hermes-llm probing", () => {
  it.effect("T71 a limit that the provider states is used, and written once a call has succeeded with it", () =>
    Effect.gen(function* () {
      const talk = conversation(40, 12)
      const { fail, probing, windows } = scene(128_000, talk)
      assert.deepStrictEqual(yield* fail(overflow), { _tag: "Restart", window: 32_768, attempt: 1, messages: 12 })
      assert.deepStrictEqual(talk.asked, [32_768])
      assert.isUndefined(yield* windows.get(route))
      assert.strictEqual(probing.window(route, 128_000), 32_768)
      yield* probing.succeeded(route)
      assert.strictEqual(yield* windows.get(route), 32_768)
    })
  )

  it.effect("T72 without a limit the window goes down one tier, in memory only", () =>
    Effect.gen(function* () {
      const { fail, probing, windows } = scene(200_000, conversation(40, 30, 20, 10))
      const vague = refusal(
        "Your input exceeds the context window of this model. Please adjust your input and try again."
      )
      assert.deepInclude(yield* fail(vague), { window: 128_000 })
      assert.deepInclude(yield* fail(vague), { window: 64_000 })
      assert.deepInclude(yield* fail(vague), { window: 32_000 })
      yield* probing.succeeded(route)
      assert.isUndefined(yield* windows.get(route))
    })
  )

  it.effect("T73 an answer that was asked to be too long changes neither window nor conversation", () =>
    Effect.gen(function* () {
      const message = "max_tokens: 32768 > context_window: 200000 - input_tokens: 190000 = available_tokens: 10000"
      const talk = conversation(40, 12)
      const { fail } = scene(200_000, talk)
      assert.deepStrictEqual(yield* fail(refusal(message)), { _tag: "NotAboutSize" })
      assert.deepStrictEqual(talk.asked, [])
      assert.strictEqual(Classification.parseOutputCap(message), 9_936)
    })
  )

  it.effect("T74 the fourth overflow of a turn ends it, and another provider begins anew", () =>
    Effect.gen(function* () {
      const { fail } = scene(128_000, conversation(40, 30, 20, 10, 5, 4))
      for (const attempt of [1, 2, 3]) assert.deepInclude(yield* fail(overflow), { _tag: "Restart", attempt })
      const last = yield* fail(overflow)
      assert.isTrue(last._tag === "Exhausted" && last.message.includes("after 3 attempts"))
      const other = { model: "n", baseUrl: "https://y.example/v1" }
      assert.deepInclude(yield* fail(overflow, other), { _tag: "Restart", attempt: 1 })
    })
  )

  it.effect("T76 a gate of long contexts is 200 000 in memory, never written", () =>
    Effect.gen(function* () {
      const { fail, probing, windows } = scene(1_000_000, conversation(40, 30))
      const gate = refusal("Extra usage is required for long context requests.", 429)
      assert.deepInclude(yield* fail(gate), { _tag: "Restart", window: 200_000 })
      yield* probing.succeeded(route)
      assert.isUndefined(yield* windows.get(route))
    })
  )

  it.effect("when nothing got smaller it is over at once", () =>
    Effect.gen(function* () {
      const { fail } = scene(8_000, conversation(3, 3))
      const outcome = yield* fail(refusal("context length exceeded"))
      assert.isTrue(outcome._tag === "Exhausted" && outcome.message.includes("cannot be made smaller"))
      const tooLarge = scene(128_000, conversation(3, 3))
      assert.strictEqual((yield* tooLarge.fail(refusal("payload too large", 413)))._tag, "Exhausted")
    })
  )

  it.effect("other failures are somebody else's", () =>
    Effect.gen(function* () {
      const { fail } = scene(128_000, conversation(3, 3))
      assert.deepStrictEqual(yield* fail(refusal("rate limit", 429)), { _tag: "NotAboutSize" })
    })
  )
})
