// Sessions of 200 messages with failures, interruptions and answers of reasoning alone, over HTTP in each protocol,
// against servers that refuse what the strictest vendors and templates refuse. What happens in a turn follows from
// fixed seeds.
import { assert, describe, it } from "@effect/vitest"
import * as Deferred from "effect/Deferred"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import { Configurable } from "../../src/base/domain/ApiMode.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as AnthropicMessages from "../../src/models/provider/AnthropicMessages.ts"
import * as BedrockConverse from "../../src/models/provider/BedrockConverse.ts"
import * as ChatCompletions from "../../src/models/provider/ChatCompletions.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import { SessionStore } from "../../src/store/SessionStore.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as StrictHistory from "../support/strictHistory.ts"
import { protocols, wireEvents, type WireTurn } from "../support/wireModel.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const plans = ["say", "think", "tool", "tools", "fail", "muse", "cut", "hang"] as const
type Plan = (typeof plans)[number]

const apiKey = Redacted.make("k")

/** Says what is wrong: a bare refusal of a long conversation would count as one of its length. */
const denied = "This project may not use this feature: ask its owner for access"

/**
 * Models for which the strict rules hold: a template that alternates, and Claude that thinks by a budget, behind
 * gateways.
 */
const layers = {
  chat_completions: (url: string) => ChatCompletions.layer({ baseUrl: `${url}/v1`, model: "m", apiKey }),
  anthropic_messages: (url: string) => AnthropicMessages.layer({ baseUrl: url, model: "claude-sonnet-4-5", apiKey }),
  codex_responses: protocols.codex_responses.layer,
  bedrock_converse: (url: string) =>
    BedrockConverse.layer({ baseUrl: url, model: "us.anthropic.claude-sonnet-4-5-v1:0", apiKey, region: "us-east-1" })
}

const call = (turn: number, step: number, name: string) => ({ id: `call_${turn}_${step}`, name, args: "{}" })

/** What the model says at a step of a turn; undefined where it fails. */
const answerOf = (plan: Plan, turn: number, step: number): WireTurn | undefined => {
  const thought = `thought ${turn}.${step}`
  switch (plan) {
    case "say":
    case "cut":
      return { text: `this is the answer of turn ${turn}` }
    case "think":
      return { thought, text: `answer ${turn}` }
    case "tool":
      return step === 0 ? { thought, calls: [call(turn, 0, "look")] } : { thought, text: `answer ${turn}` }
    case "tools":
      return step === 2
        ? { text: `answer ${turn}` }
        : {
            thought,
            text: `step ${step}`,
            calls: [call(turn, step * 2, "look"), { ...call(turn, step * 2 + 1, "look"), args: '{"at":1}' }]
          }
    case "hang":
      return { thought, calls: [call(turn, 0, "look"), call(turn, 1, "wait")] }
    case "muse":
      return { thought }
    case "fail":
      return undefined
  }
}

const Look = Tool.make("look", {
  description: "Looks",
  parameters: Schema.Struct({ at: Schema.optionalKey(Schema.Finite) }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const Wait = Tool.make("wait", { description: "Waits for ever", success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Look, Wait)

/** Numbers from 0 to 1 that follow from a seed (mulberry32). */
const random = (seed: number) => () => {
  seed = (seed + 0x6d2b79f5) | 0
  let t = Math.imul(seed ^ (seed >>> 15), 1 | seed)
  t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t
  return ((t ^ (t >>> 14)) >>> 0) / 0x1_0000_0000
}

const strict = (mode: Configurable) => {
  const refused: Array<string> = []
  const bodies: Array<string> = []
  const served = HttpServer.make(({ body }, response) => {
    bodies.push(body)
    const [, number, plan] = [...body.matchAll(/turn (\d+) plan (\w+)/g)].at(-1) ?? []
    const turn = Number(number)
    for (const reason of StrictHistory.refusals[mode](JSON.parse(body)))
      refused.push(`turn ${turn} (${String(plan)}): ${reason}`)
    const step = new Set(body.match(new RegExp(`seen in turn ${turn} \\d+`, "g"))).size
    const answer = answerOf(plan as Plan, turn, step)
    if (answer === undefined)
      return HttpServer.json(response, 400, {
        message: denied,
        error: { message: denied, type: "invalid_request_error" }
      })
    if (plan !== "cut") return protocols[mode].stream(answer, response)
    // A part of the text, and then nothing.
    const { events, type } = wireEvents(protocols[mode], answer)
    response.writeHead(200, { "content-type": type }).write(Buffer.concat(events.slice(0, 4)))
  })
  return { refused, bodies, served }
}

const play = Effect.fnUntraced(function* (mode: Configurable, plansOf: ReadonlyArray<Plan>) {
  const { bodies, refused, served } = strict(mode)
  const { url } = yield* served
  let turn = 0
  let looks = 0
  const handlers = toolkit.toLayer({
    // Both calls of a message are one step.
    look: ({ at }) => Effect.sync(() => `seen in turn ${turn} ${at === undefined ? ++looks : looks}`),
    wait: () => Effect.never
  })
  const sessionId = "20260101_000000_aaaaaa"
  const stored = yield* Effect.gen(function* () {
    for (const plan of plansOf) {
      turn++
      const seen = Deferred.makeUnsafe<void>()
      const onEvent = (events: ReadonlyArray<RunEvent>) =>
        events.some((event) => event._tag === "TextDelta" || (event._tag === "ToolStarted" && event.name === "wait"))
          ? Deferred.succeed(seen, undefined)
          : Effect.void
      const run = Effect.exit(
        Agent.run({
          prompt: `turn ${turn} plan ${plan}`,
          sessionId,
          streaming: true,
          reasoningEffort: "medium",
          onEvent
        })
      )
      if (plan !== "cut" && plan !== "hang") {
        const exit = yield* run
        assert.strictEqual(
          exit._tag,
          plan === "fail" ? "Failure" : "Success",
          `turn ${turn} (${plan})\n${refused.join("\n")}`
        )
        continue
      }
      const fiber = yield* Effect.forkChild(run)
      yield* Deferred.await(seen)
      yield* Fiber.interrupt(fiber)
    }
    return yield* Effect.flatMap(SessionStore, (store) => store.messages(sessionId as never))
  }).pipe(
    Effect.provide(
      Runtime.layer({
        provider: layers[mode](url),
        retry: RetryPolicy.make({ base: 1, cap: 1 }),
        tools: [Toolset.make("test", toolkit, handlers)]
      })
    )
  )
  return { bodies, refused, stored }
})

/** How many seeds are played in each protocol. */
const count = Number(process.env["HERMES_TEST_HISTORIES"] ?? 1)

for (const [place, mode] of Configurable.literals.entries()) {
  describe(`strict endpoints: ${mode}`, () => {
    for (const seed of Array.from({ length: count }, (_, index) => 1 + place + index)) {
      it.live(`200 messages with failures and interruptions are never refused (seed ${seed})`, () =>
        Effect.gen(function* () {
          const next = random(seed)
          const drawn = Array.from({ length: 90 }, () => plans[Math.floor(next() * plans.length)] ?? "say")
          const { refused, stored } = yield* play(mode, [...drawn, "say"])
          assert.deepStrictEqual(refused, [])
          assert.isAtLeast(stored.length, 200)
        })
      )
    }

    it.live("the thinking before calls goes back through the tool loop, as it was signed", () =>
      Effect.gen(function* () {
        const { bodies, refused } = yield* play(mode, ["tools"])
        assert.deepStrictEqual(refused, [])
        assert.lengthOf(bodies, 3)
        if (mode === "chat_completions") return
        assert.include(bodies[1], "signed thought 1.0")
        assert.include(bodies[2], "signed thought 1.0")
        assert.include(bodies[2], "signed thought 1.1")
      })
    )
  })
}
