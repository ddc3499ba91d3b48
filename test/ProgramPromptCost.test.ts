// Sessions over several programs cost what they must: each request begins with the bytes of the request before, and the
// caches of the providers find them. Through the settings of the program, over the wire, at published prices.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Option from "effect/Option"
import * as Stream from "effect/Stream"
import * as Agent from "../src/agent/Agent.ts"
import * as Conversation from "../src/base/domain/Conversation.ts"
import { SessionId } from "../src/base/domain/Ids.ts"
import * as RunRecord from "../src/store/RunRecord.ts"
import * as SessionExport from "../src/store/SessionExport.ts"
import * as SessionSearch from "../src/store/SessionSearch.ts"
import * as SessionStore from "../src/store/SessionStore.ts"
import * as PromptCache from "./support/promptCache.ts"
import { endpoints, judge, type Plan, record, weighSideWork } from "./support/promptSessions.ts"

const tenTurns: Plan = { turns: [1, 0, 2, 1, 1, 14, 1, 0, 2, 1], programs: 3 }

const longSession = SessionId.make("long")

const { "anthropic, thinking of one turn": older, ...others } = endpoints

describe("a session of ten turns over three programs", () => {
  for (const [name, endpoint] of Object.entries(others)) {
    it.effect(`${name}: no request breaks the prefix, and the session costs at most 1.03 of the least`, () =>
      Effect.gen(function* () {
        for (const plan of [tenTurns, { ...tenTurns, talks: true }]) {
          const { breaks, ratio, requests } = judge(endpoint, (yield* record(endpoint, plan)).requests)
          assert.strictEqual(requests, 33)
          assert.deepStrictEqual(breaks, [])
          assert.isAtMost(ratio, 1.03)
        }
      })
    )
  }

  it.effect(
    "a model that removes the thinking of earlier turns: the prefix breaks where a turn begins, there alone",
    () =>
      Effect.gen(function* () {
        const { breaks, ratio } = judge(older, (yield* record(older, tenTurns)).requests)
        const starts = tenTurns.turns.map((_, at) =>
          tenTurns.turns.slice(0, at).reduce((sum, steps) => sum + steps + 1, 0)
        )
        assert.isNotEmpty(breaks)
        assert.deepStrictEqual(
          breaks.map(({ request }) => request).filter((request) => !starts.includes(request)),
          []
        )
        assert.isAtMost(ratio, 1.25)
      })
  )

  it.effect("with pauses of twenty minutes: from the second pause on, the prefix is kept for an hour", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 10 }, () => 2), programs: 3, pause: "20 minutes" }
      for (const name of ["anthropic", "bedrock", "Claude behind a gateway"] as const) {
        const endpoint = endpoints[name]
        const { requests } = yield* record(endpoint, plan)
        const isLong = requests.map(({ body }) => endpoint.blocks(body).some(({ isLong }) => isLong === true))
        assert.deepStrictEqual(isLong, [
          ...Array.from({ length: 3 }, () => false),
          ...Array.from({ length: 27 }, () => true)
        ])
        // In five minutes each turn would pay for all of it again, which is 2.9 of the least.
        assert.isAtMost(judge(endpoint, requests).ratio, 1.4)
      }
    })
  )

  it.effect("with pauses, OpenAI's models behind another address are kept for a day if the settings ask for it", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 10 }, () => 2), programs: 3, pause: "20 minutes" }
      const settings = () => ["prompt_caching: { mode: on }"]
      const { requests } = yield* record(endpoints.responses, { ...plan, settings })
      assert.isAtMost(judge(endpoints.responses, requests).ratio, 1.2)
      // An endpoint that refuses the field is asked once, and other programs know it.
      const refuses = (body: string) => body.includes("prompt_cache_retention")
      const refusal = "prompt_cache_retention is not supported on this model"
      const refusing = yield* record(endpoints.responses, { ...plan, settings, refuses, refusal })
      assert.strictEqual(refusing.refused, 1)
      assert.lengthOf(refusing.requests, 30)
      assert.deepStrictEqual(judge(endpoints.responses, refusing.requests).breaks, [])
    })
  )

  it.effect("context of a plugin stands before the question of its turn alone, and breaks the prefix there", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 6 }, () => 1), programs: 3, hasContext: true }
      const { breaks } = judge(endpoints.anthropic, (yield* record(endpoints.anthropic, plan)).requests)
      assert.deepStrictEqual(
        breaks.map(({ request }) => request),
        [2, 4, 6, 8, 10]
      )
    })
  )

  it.effect("context that is kept stands beside its message, and is sent again in every program", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 6 }, () => 1), programs: 3, hasContext: true }
      const settings = () => ["prompt_caching: { keep_turn_context: true }"]
      for (const [name, endpoint] of Object.entries(others)) {
        const { again, requests } = yield* record(endpoint, { ...plan, settings })
        const { breaks, ratio } = judge(endpoint, requests)
        assert.deepStrictEqual(breaks, [], name)
        assert.isAtMost(ratio, 1.03, name)
        assert.strictEqual(requests.at(-1)?.body.split("it rains at question").length, 7, name)
        yield* Effect.gen(function* () {
          const session = Option.getOrThrow(yield* SessionStore.SessionStore.use(({ get }) => get(longSession)))
          const messages = yield* SessionStore.SessionStore.use((store) => store.messages(session.id))
          assert.notInclude(messages.map(Conversation.readText).join(), "it rains")
          assert.notInclude(JSON.stringify(yield* SessionExport.readSession(session)), "it rains")
          const { search } = yield* SessionSearch.SessionSearch
          assert.isNotEmpty(yield* search("question"))
          assert.deepStrictEqual(yield* search("rains"), [])
          // The record of the session has each message with its context once, and later requests refer to it.
          const { read } = yield* RunRecord.RunRecord
          const entries = yield* Stream.runCollect(read({ sessionId: session.id, kinds: ["MessageAppended"] }))
          const sent = entries.filter(({ event }) => "id" in event && JSON.stringify(event).includes("it rains"))
          assert.lengthOf(sent, 6, name)
        }).pipe(Effect.provide(again((config) => config)))
        const withoutSetting = again((config) => config.replace("context: true", "context: false"))
        yield* Effect.provide(Agent.run({ prompt: "more", sessionId: longSession, streaming: true }), withoutSetting)
        assert.strictEqual(requests.at(-1)?.body.split("it rains at").length, 2, name)
      }
    })
  )

  it.effect("context that is kept is dropped with its message by a compaction", () =>
    Effect.gen(function* () {
      const { requests, side } = yield* record(endpoints.anthropic, {
        turns: Array.from({ length: 20 }, () => 0),
        programs: 2,
        window: 64_000,
        answer: 1_500,
        hasContext: true,
        settings: () => ["prompt_caching: { keep_turn_context: true }"]
      })
      assert.isNotEmpty(side)
      const { body = "" } = requests.at(-1) ?? {}
      const found = body.match(/it rains at question \d+/gu) ?? []
      assert.isAbove(found.length, 2)
      assert.isBelow(found.length, 20)
      for (const context of found)
        assert.match(
          body,
          new RegExp(`${context} [^<]*</plugin-context>\\\\n${context.slice("it rains at ".length)} `, "u")
        )
    })
  )

  it.effect("in a window of 64,000 tokens, results are shortened where that frees enough; else a note is written", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 12 }, () => 4), programs: 2, window: 64_000, words: 1_200 }
      const { requests, side } = yield* record(endpoints.anthropic, plan)
      const { breaks, ratio } = judge(endpoints.anthropic, requests)
      assert.strictEqual(breaks.length, side.length)
      assert.isAtMost(breaks.length, 4)
      assert.isAtMost(ratio, 1.17)
    })
  )

  it.effect("a background review goes on from the cached prefix, and costs at most three percent of the session", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 20 }, () => 4), programs: 1, reviewTurns: 10 }
      for (const name of ["anthropic", "bedrock", "responses", "Claude behind a gateway"] as const) {
        const endpoint = endpoints[name]
        const { requests, reviews } = yield* record(endpoint, plan)
        assert.lengthOf(reviews, 2)
        assert.deepStrictEqual(judge(endpoint, requests).breaks, [])
        assert.isAtMost(weighSideWork(endpoint, requests, reviews), 1.03)
      }
    })
  )

  describe("the note of a compaction", () => {
    const talk: Plan = { turns: Array.from({ length: 20 }, () => 0), programs: 2, window: 64_000, answer: 1_500 }
    const { anthropic } = endpoints
    const isContinued = (body: string) => body.includes("write its handoff note")
    const hasTools = (body: string) => JSON.parse(body).tools !== undefined

    it.effect("goes on from the cached prefix", () =>
      Effect.gen(function* () {
        for (const name of ["anthropic", "bedrock", "responses", "Claude behind a gateway"] as const) {
          const endpoint = endpoints[name]
          const { requests, side } = yield* record(endpoint, talk)
          assert.isNotEmpty(side)
          for (const request of side) {
            const before = requests[Math.floor(request.after)]
            const both = [before, request].flatMap((one) => (one === undefined ? [] : [one.body]))
            assert.lengthOf(both, 2)
            assert.deepStrictEqual(PromptCache.findBreaks(both.map(endpoint.blocks)), [])
            assert.strictEqual(new Set(both.map((body) => endpoint.key?.(body))).size, 1)
            assert.strictEqual(
              endpoint.blocks(request.body).some(({ isMarked }) => isMarked),
              name !== "responses"
            )
          }
          assert.isAtMost(weighSideWork(endpoint, requests, side), 1.1)
        }
      })
    )

    it.effect("runs no call: it is asked again, and then written from a copy", () =>
      Effect.gen(function* () {
        const once = yield* record(anthropic, { ...talk, callsInNotes: 1 })
        assert.isTrue(once.side.every(({ body }) => isContinued(body)))
        assert.include(once.side[1]?.body, "Answer with text alone")
        const twice = yield* record(anthropic, { ...talk, callsInNotes: 2 })
        assert.deepStrictEqual(
          twice.side.slice(0, 3).map(({ body }) => isContinued(body)),
          [true, true, false]
        )
        for (const { requests } of [once, twice])
          assert.isFalse(requests.some(({ body }) => body.includes(`"tool_result"`)))
      })
    )

    it.effect("is written from a copy if the conversation has a secret, which is masked", () =>
      Effect.gen(function* () {
        const key = ["sk-ant-api03", "a1B2c3D4e5".repeat(8)].join("-")
        const { side } = yield* record(anthropic, { ...talk, question: `use ${key}` })
        assert.isNotEmpty(side)
        assert.isFalse(side.some(({ body }) => isContinued(body) || body.includes(key)))
      })
    )

    it.effect("goes on from the cached prefix at the user's request too, in another program", () =>
      Effect.gen(function* () {
        const { again, requests, side } = yield* record(anthropic, { ...talk, window: 400_000 })
        assert.deepStrictEqual(side, [])
        const compacted = Agent.Agent.use(({ compact }) => compact({ sessionId: "long", keepExchanges: 1 }))
        const { sessionId } = yield* Effect.provide(
          compacted,
          again((config) => config)
        )
        assert.notStrictEqual(sessionId, longSession)
        assert.isTrue(side.every(({ body }) => isContinued(body)))
        const both = [...requests.slice(-1), ...side].map(({ body }) => anthropic.blocks(body))
        assert.lengthOf(both, 2)
        assert.deepStrictEqual(PromptCache.findBreaks(both), [])
      })
    )

    it.effect("is written by the model that the settings name for it", () =>
      Effect.gen(function* () {
        const settings = (url: string) => [
          `auxiliary: { compression: { provider: custom, base_url: "${url}", api_mode: anthropic_messages, api_key: k, model: other } }`
        ]
        const { side } = yield* record(anthropic, { ...talk, settings })
        assert.isNotEmpty(side)
        assert.isFalse(side.some(({ body }) => isContinued(body) || hasTools(body)))
        assert.isTrue(side.every(({ body }) => body.includes('"model":"other"')))
      })
    )

    it.effect("is written from a copy if the user paused for too long", () =>
      Effect.gen(function* () {
        const { side } = yield* record(anthropic, { ...talk, pause: "20 minutes" })
        assert.isNotEmpty(side)
        assert.isFalse(side.some(({ body }) => isContinued(body)))
      })
    )

    it.effect("is written from a copy if the continued conversation is refused", () =>
      Effect.gen(function* () {
        const { refused, side } = yield* record(anthropic, { ...talk, refuses: isContinued })
        assert.isAbove(refused, 0)
        assert.isNotEmpty(side)
        assert.isFalse(side.some(({ body }) => isContinued(body)))
      })
    )
  })

  it.effect("a custom address is asked about its model once, whichever program asks", () =>
    Effect.gen(function* () {
      const plan: Plan = { turns: Array.from({ length: 8 }, () => 0), programs: 8, asksWindow: true }
      const { others } = yield* record(endpoints.chat, plan)
      assert.deepStrictEqual(others.toSorted(), [
        "/api/show",
        "/api/v0/models",
        "/v1/models",
        "/v1/models",
        "/v1/props"
      ])
    })
  )

  it.effect("a gateway that refuses text in parts is asked once, and other programs know it", () =>
    Effect.gen(function* () {
      const endpoint = endpoints["Claude behind a gateway"]
      const plan: Plan = { ...tenTurns, refuses: (body) => body.includes("cache_control") }
      const { refused, requests } = yield* record(endpoint, plan)
      assert.strictEqual(refused, 1)
      assert.deepStrictEqual(judge(endpoint, requests).breaks, [])
      assert.lengthOf(requests, 33)
    })
  )
})
