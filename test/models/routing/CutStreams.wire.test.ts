// Streams that break off in the text, over HTTP in each protocol: lost, or ended without their last event; read, or
// not.
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Agent from "../../../src/agent/Agent.ts"
import { Configurable } from "../../../src/base/domain/ApiMode.ts"
import type { RunEvent, RunResult } from "../../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../../src/hooks/Hooks.ts"
import * as OpenRoute from "../../../src/models/routing/OpenRoute.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import * as HttpServer from "../provider/HttpServer.ts"
import * as FastClock from "../../support/fastClock.ts"
import { cutStream, protocols, restOf, routeTo } from "../../support/wireModel.ts"

const sentence =
  "the harbour was quiet that morning and none of the boats had left it before the fog was gone, so the men sat down and mended their nets until noon"

/**
 * Cuts its first `cuts` answers, and tells the rest where it is asked for; `told` is the text of each answer that it
 * cut.
 */
const server = (mode: Configurable, cuts: number, how: "ended" | "lost") => {
  let served = 0
  const told: Array<string> = []
  const server = HttpServer.make(({ body }, response) => {
    const text = restOf(sentence, body)
    const turn = text === "" ? {} : { text }
    if (served++ < cuts) told.push(cutStream(protocols[mode], turn, response, 0.2, how))
    else protocols[mode].stream(turn, response)
  })
  return Effect.map(server, (server) => ({ ...server, told }))
}

const others: Readonly<Record<Configurable, Configurable>> = {
  chat_completions: "anthropic_messages",
  anthropic_messages: "bedrock_converse",
  codex_responses: "chat_completions",
  bedrock_converse: "codex_responses"
}

/** One streamed run over the servers in order, and what was shown of it. */
const play = Effect.fnUntraced(function* (
  chain: ReadonlyArray<{ readonly mode: Configurable; readonly url: string }>,
  readsText: boolean
) {
  const [first, ...rest] = chain.map(({ mode, url }) => ({ route: routeTo(mode, url) }))
  assert(first !== undefined)
  const shown: Array<string> = []
  const notices: Array<string> = []
  const onEvent = (events: ReadonlyArray<RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) {
        if (event._tag === "TextDelta") shown.push(event.text)
        if (event._tag === "Notice") notices.push(event.message)
      }
    })
  const layer = Agent.layer({ cwd: "/tmp", identity: "You are a test." }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        RoutedModelRouter.layer({ chain: [first, ...rest], open: OpenRoute.open }),
        SessionStore.layerMemory,
        ToolRegistry.layer([])
      )
    )
  )
  const clock = yield* FastClock.make(500)
  return yield* Effect.gen(function* () {
    const result = yield* Agent.run({ prompt: "go", streaming: true, readsText, onEvent })
    const messages = yield* Effect.flatMap(SessionStore.SessionStore, (store) => store.messages(result.sessionId))
    return { result, shown, notices, messages }
  }).pipe(Effect.provide(layer), Effect.provideService(Clock.Clock, clock))
})

const textsOf = (message: { readonly content: unknown } | undefined): unknown =>
  Array.isArray(message?.content) ? message.content.map((part: { readonly text?: string }) => part.text) : undefined

for (const mode of Configurable.literals) {
  for (const how of ["lost", "ended"] as const) {
    const what = how === "lost" ? "whose connection is lost" : "that ends without its last event"
    describe(`an answer ${what}: ${mode}`, () => {
      it.live("is finished where it was read: the rest is asked for and joined, shown and stored once", () =>
        Effect.gen(function* () {
          const { requests, url } = yield* server(mode, 1, how)
          const { messages, result, shown } = yield* play([{ mode, url }], true)
          assert.deepInclude(result, { exit: "text_response", text: sentence })
          assert.strictEqual(shown.join(""), sentence)
          assert.strictEqual(requests.length, 2)
          assert.notStrictEqual(restOf(sentence, requests[1]?.body ?? ""), sentence)
          assert.deepStrictEqual(
            messages.map(({ role }) => role),
            ["user", "assistant"]
          )
          assert.deepStrictEqual(textsOf(messages[1]), [sentence])
        })
      )

      it.live("is made again from its beginning where nobody read it", () =>
        Effect.gen(function* () {
          const { requests, url } = yield* server(mode, 2, how)
          const { messages, result, shown } = yield* play([{ mode, url }], false)
          assert.deepInclude(result, { exit: "text_response", text: sentence })
          assert.deepStrictEqual(shown, [sentence])
          assert.strictEqual(requests.length, 3)
          assert.deepStrictEqual(new Set(requests.map(({ body }) => body)).size, 1)
          assert.deepStrictEqual(textsOf(messages[1]), [sentence])
        })
      )

      it.live("is finished by the next route where this one cuts every answer", () =>
        Effect.gen(function* () {
          const broken = yield* server(mode, Infinity, how)
          const other = others[mode]
          const healthy = yield* server(other, 0, how)
          for (const read of [true, false]) {
            const { result, shown } = yield* play(
              [
                { mode, url: broken.url },
                { mode: other, url: healthy.url }
              ],
              read
            )
            assert.deepInclude(result, { exit: "text_response", text: sentence })
            assert.strictEqual(shown.join(""), sentence)
          }
        })
      )

      it.live("ends the run as partial_stream_recovery where no route finishes it, with what was read", () =>
        Effect.gen(function* () {
          const { told, url } = yield* server(mode, Infinity, how)
          const { messages, notices, result, shown } = yield* play([{ mode, url }], true)
          assert.strictEqual(result.exit, "partial_stream_recovery")
          // The answer, and its rest twice: each went on where the one before stopped.
          assert.deepStrictEqual(
            told.map((text) => text !== ""),
            [true, true, true]
          )
          assert.isTrue(sentence.startsWith(told.join("")) && told.join("") !== sentence, told.join("|"))
          assert.strictEqual(result.text, told.join(""))
          assert.strictEqual(shown.join(""), result.text)
          assert.deepStrictEqual(textsOf(messages[1]), [result.text])
          assert.deepStrictEqual(messages[1]?.options, { "hermes-effect": { broken_off: true } })
          assert.match(notices.at(-1) ?? "", /the rest could not be had/)
        })
      )

      it.live("fails the run where no route finishes it and nobody read it", () =>
        Effect.gen(function* () {
          const { url } = yield* server(mode, Infinity, how)
          assert.strictEqual((yield* Effect.exit(play([{ mode, url }], false)))._tag, "Failure")
        })
      )
    })
  }
}

for (const mode of Configurable.literals) {
  describe(`an embedded provider whose connection is lost: ${mode}`, () => {
    const embedded = Effect.fnUntraced(function* (cuts: number) {
      const { requests, told, url } = yield* server(mode, cuts, "lost")
      const ended: Array<unknown> = []
      const shown: Array<string> = []
      const clock = yield* FastClock.make(500)
      const outcome = yield* Effect.gen(function* () {
        const result = yield* Agent.stream({ prompt: "go" }).pipe(
          Stream.runFold(
            () => undefined as RunResult | undefined,
            (last, event) => {
              if (event._tag === "TextDelta") shown.push(event.text)
              return event._tag === "RunFinished" ? event : last
            }
          )
        )
        assert(result !== undefined)
        const session = yield* Effect.flatMap(SessionStore.SessionStore, (store) => store.get(result.sessionId))
        return { result, reason: Option.getOrThrow(session).endReason }
      }).pipe(
        Effect.provide(
          Runtime.layer({
            provider: protocols[mode].layer(url),
            hooks: [
              Hooks.on("on_session_end", ({ completed, reason }) =>
                Effect.sync(() => void ended.push({ completed, reason }))
              )
            ]
          })
        ),
        Effect.provideService(Clock.Clock, clock)
      )
      return { ...outcome, ended, shown: shown.join(""), told: told.join(""), requests }
    })

    it.live("is asked for the rest of what a reader of the stream has", () =>
      Effect.gen(function* () {
        const { reason, requests, result, shown } = yield* embedded(1)
        assert.deepInclude(result, { exit: "text_response", text: sentence })
        assert.deepStrictEqual([shown, requests.length, reason], [sentence, 2, "text_response"])
      })
    )

    it.live("in the summary of a run at its limit is marked in the store", () =>
      Effect.gen(function* () {
        const { url } = yield* server(mode, Infinity, "lost")
        const clock = yield* FastClock.make(500)
        const messages = yield* Effect.gen(function* () {
          const { exit, sessionId } = yield* Agent.run({
            prompt: "go",
            streaming: true,
            maxIterations: 0,
            onEvent: () => Effect.void
          })
          assert.strictEqual(exit, "max_iterations_reached")
          return yield* Effect.flatMap(SessionStore.SessionStore, (store) => store.messages(sessionId))
        }).pipe(
          Effect.provide(Runtime.layer({ provider: protocols[mode].layer(url) })),
          Effect.provideService(Clock.Clock, clock)
        )
        assert.deepStrictEqual(messages.at(-1)?.options, { "hermes-effect": { broken_off: true } })
      })
    )

    it.live("and never has it: store and hooks say that the answer is not whole", () =>
      Effect.gen(function* () {
        const { ended, reason, requests, result, shown, told } = yield* embedded(Infinity)
        assert.deepStrictEqual([result.exit, reason], ["partial_stream_recovery", "partial_stream_recovery"])
        assert.deepStrictEqual(ended, [{ completed: false, reason: "partial_stream_recovery" }])
        assert.deepStrictEqual([result.text, shown, requests.length], [told, told, 3])
      })
    )
  })
}
