// Turns with tools over real HTTP, through the real providers, against a primary that fails in every way and a fallback that
// answers. Waits are those of the product, on a clock that runs faster. HERMES_TEST_CHAOS_TURNS raises the number of turns.
import { LLMock } from "@copilotkit/aimock"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { ApiMode } from "../../src/domain/ApiMode.ts"
import type { Route } from "../../src/domain/Route.ts"
import * as OpenRoute from "../../src/routing/OpenRoute.ts"
import * as RoutedModelRouter from "../../src/routing/RoutedModelRouter.ts"
import * as MemorySessionStore from "../../src/session/MemorySessionStore.ts"
import { ToolRegistry } from "../../src/tool/ToolRegistry.ts"
import * as Toolset from "../../src/tool/Toolset.ts"

const turns = Number(process.env["HERMES_TEST_CHAOS_TURNS"] ?? 240)
const side = 6
const speed = 200

/** A clock that runs `speed` times faster than the one of the machine. */
const fast = Effect.clockWith((clock) => {
  const started = clock.currentTimeMillisUnsafe()
  const millis = () => Math.round(started + (clock.currentTimeMillisUnsafe() - started) * speed)
  const nanos = () => BigInt(millis()) * 1_000_000n
  return Effect.succeed<Clock.Clock>({
    currentTimeMillisUnsafe: millis,
    currentTimeMillis: Effect.sync(millis),
    currentTimeNanosUnsafe: nanos,
    currentTimeNanos: Effect.sync(nanos),
    monotonicTimeNanosUnsafe: nanos,
    monotonicTimeNanos: Effect.sync(nanos),
    sleep: (duration) => clock.sleep(Duration.millis(Duration.toMillis(duration) / speed))
  })
})

const sentence = "the note of this turn was taken and nothing else had to be done about it"

/** Calls the tool once, then says the sentence. A part of its answers is cut after the second piece. */
const model = (cuts: number) =>
  Effect.acquireRelease(
    Effect.promise(() => LLMock.create({ port: 0, host: "127.0.0.1", chunkSize: 12 })),
    (mock) => Effect.promise(() => mock.stop())
  ).pipe(Effect.tap((mock) => {
    const cut = () => Math.random() < cuts
    const first = (messages: ReadonlyArray<{ readonly role: string; readonly content: unknown }>) => {
      const text = messages.find(({ role }) => role === "user")?.content
      return { name: "note", arguments: JSON.stringify({ turn: Number(/turn (\d+)/.exec(JSON.stringify(text))?.[1]) }) }
    }
    for (const isCut of [true, false]) {
      const options = isCut ? { truncateAfterChunks: 2 } : {}
      const chosen = () => !isCut || cut()
      mock.on({ hasToolResult: true, predicate: chosen }, { content: sentence }, options)
      mock.on(
        { hasToolResult: false, predicate: chosen },
        (request) => ({ toolCalls: [first(request.messages)] }),
        options
      )
    }
    return Effect.void
  }))

const route = (apiMode: ApiMode, url: string): Route => ({
  provider: apiMode === "bedrock_converse" ? "bedrock" : apiMode,
  model: "test-model",
  apiMode,
  baseUrl: apiMode === "chat_completions" || apiMode === "codex_responses" ? `${url}/v1` : url,
  apiKey: Redacted.make("sk-test"),
  ...(apiMode === "bedrock_converse" ? { region: "us-east-1" } : {})
})

const Note = Tool.make("note", {
  description: "Takes a note",
  parameters: Schema.Struct({ turn: Schema.Finite }),
  success: Schema.String
})

const pairs: ReadonlyArray<readonly [ApiMode, ApiMode]> = [
  ["chat_completions", "anthropic_messages"],
  ["anthropic_messages", "bedrock_converse"],
  ["codex_responses", "chat_completions"],
  ["bedrock_converse", "codex_responses"]
]

describe("chaos", () => {
  for (const [primary, fallback] of pairs) {
    it.live(`${primary} in trouble, ${fallback} behind it: no turn is lost, no tool runs twice`, () =>
      Effect.gen(function*() {
        const broken = yield* model(0.2)
        broken.setChaos({ dropRate: 0.2, malformedRate: 0.2, rateLimitRate: 0.2, disconnectRate: 0.05 })
        const healthy = yield* model(0)
        const runs = new Map<number, number>()
        const toolkit = Toolkit.make(Note)
        const handlers = toolkit.toLayer({
          note: ({ turn }) => Effect.sync(() => {
            runs.set(turn, (runs.get(turn) ?? 0) + 1)
            return "taken"
          })
        })
        const router = RoutedModelRouter.layer({
          chain: [{ route: route(primary, broken.url) }, { route: route(fallback, healthy.url) }],
          open: OpenRoute.open,
          // So that the primary stays in the way of the turns.
          breaker: { failures: 10, openFor: "1 second" }
        })
        const layer = Agent.layer({ cwd: "/tmp", identity: "You are a test." }).pipe(
          Layer.provideMerge(Layer.mergeAll(router, MemorySessionStore.layer, ToolRegistry.layer([Toolset.make("t", toolkit, handlers)])))
        )
        const count = Math.ceil(turns / pairs.length)
        const results = yield* Effect.forEach(
          Array.from({ length: count }, (_, index) => index),
          (turn) => Agent.run({ prompt: `turn ${turn}`, streaming: turn % 4 !== 0 }),
          { concurrency: side }
        ).pipe(Effect.provide(layer), Effect.provideService(Clock.Clock, yield* fast))
        assert.strictEqual(results.length, count)
        for (const { exit, text } of results) {
          assert.strictEqual(exit, "text_response")
          assert.isTrue(text !== "" && sentence.startsWith(text), text)
        }
        assert.deepStrictEqual([...runs.values()].filter((times) => times !== 1), [])
        assert.strictEqual(runs.size, count)
        const faults = broken.getRequests().filter(({ response }) => response.chaosAction !== undefined).length
        assert.isAbove(faults, count / 10, "there was trouble")
        const cut = results.filter(({ text }) => text !== sentence).length
        assert.isBelow(cut, count / 3)
      }))
  }
})
