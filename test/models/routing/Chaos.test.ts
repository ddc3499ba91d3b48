// Turns with tools over real HTTP, through the real providers, against a primary that fails in every way and a fallback
// that answers. Waits are those of the product, on a clock that runs faster. Each turn has a router, and so a breaker,
// of its own: none is spared by what another one met. What a tool did is counted in files. Which faults a turn meets
// follows from its number; HERMES_TEST_SEED names other ones, HERMES_TEST_CHAOS_TURNS more turns (`npm run test:chaos`:
// 1,000 a protocol).
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, readdirSync, readFileSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { join } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import type { Configurable } from "../../../src/base/domain/ApiMode.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as OpenRoute from "../../../src/models/routing/OpenRoute.ts"
import * as RoutedModelRouter from "../../../src/models/routing/RoutedModelRouter.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as HttpServer from "../provider/HttpServer.ts"
import * as FastClock from "../../support/fastClock.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { cutStream, protocols, restOf, routeTo, type WireTurn } from "../../support/wireModel.ts"

const turns = Number(process.env["HERMES_TEST_CHAOS_TURNS"] ?? 120)
const seed = process.env["HERMES_TEST_SEED"] ?? "hermes"
const side = 6
const speed = 200

const announcement = "first the note of this turn is taken, as it was asked for, and then it is read again. "
const sentence = "the note of this turn was taken and nothing else had to be done about it, neither today nor tomorrow"

const faults = ["dropped", "malformed", "limited", "lost", "ended"] as const
type Fault = (typeof faults)[number]
/** Share of requests that each fault hits. */
const rate = 0.2

/** A number from 0 to 1 that follows from the text (FNV-1a, mixed). */
const chance = (text: string): number => {
  let hash = 0x811c9dc5
  for (let at = 0; at < text.length; at++) hash = Math.imul(hash ^ text.charCodeAt(at), 0x01000193)
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  hash = Math.imul(hash ^ (hash >>> 16), 0x45d9f3b)
  return ((hash ^ (hash >>> 16)) >>> 0) / 0x1_0000_0000
}

const fail = (
  fault: Fault,
  mode: Configurable,
  turn: WireTurn,
  streamed: boolean,
  response: ServerResponse,
  where: number
): void => {
  const body = JSON.stringify(protocols[mode].whole(turn))
  const half = body.slice(0, Math.ceil(body.length * where))
  switch (fault) {
    case "dropped":
      return void response.destroy()
    case "limited":
      return void HttpServer.json(response, 429, { error: { message: "slow down", type: "rate_limit_error" } })
    case "malformed":
      return void response.writeHead(200, { "content-type": "application/json" }).end(half)
    case "lost":
    case "ended":
      if (streamed) return void cutStream(protocols[mode], turn, response, where, fault)
      response.writeHead(200, { "content-type": "application/json", "content-length": String(body.length) })
      return void response.write(half, () => setTimeout(() => response.destroy(), 5))
  }
}

/** Announces and calls the tool once, then says the sentence; counts the faults that it played. */
const model = Effect.fnUntraced(function* (mode: Configurable, isBroken: boolean) {
  const asked = new Map<number, number>()
  const played = new Map<Fault, number>()
  const server = yield* HttpServer.make(({ body, url }, response) => {
    const turn = Number(/turn (\d+)/.exec(body)?.[1])
    const number = asked.get(turn) ?? 0
    asked.set(turn, number + 1)
    const isDone = body.includes(`taken ${turn}`)
    const text = restOf(isDone ? sentence : announcement, body)
    const answer: WireTurn = {
      ...(text === "" ? {} : { text }),
      ...(isDone ? {} : { calls: [{ id: `call_${turn}`, name: "note", args: JSON.stringify({ turn }) }] })
    }
    const streamed = /"stream":true/.test(body) || /stream/.test(url)
    const draw = (what: string): number => chance(`${seed} ${mode} ${turn} ${number} ${what}`)
    const fault = isBroken ? faults.find((fault) => draw(fault) < rate) : undefined
    if (fault !== undefined) {
      played.set(fault, (played.get(fault) ?? 0) + 1)
      return fail(fault, mode, answer, streamed, response, draw("where"))
    }
    if (streamed) protocols[mode].stream(answer, response)
    else HttpServer.json(response, 200, protocols[mode].whole(answer))
  })
  return { url: server.url, played }
})

const Note = Tool.make("note", {
  description: "Takes a note",
  parameters: Schema.Struct({ turn: Schema.Finite }),
  success: Schema.String
})

const pairs: ReadonlyArray<readonly [Configurable, Configurable]> = [
  ["chat_completions", "anthropic_messages"],
  ["anthropic_messages", "bedrock_converse"],
  ["codex_responses", "chat_completions"],
  ["bedrock_converse", "codex_responses"]
]

describe("chaos", () => {
  for (const [primary, fallback] of pairs) {
    it.live(
      `${primary} in trouble, ${fallback} behind it: every answer is whole, and every tool ran once (seed ${seed})`,
      () =>
        Effect.gen(function* () {
          const broken = yield* model(primary, true)
          const healthy = yield* model(fallback, false)
          const notes = yield* temporaryDirectory
          const toolkit = Toolkit.make(Note)
          const handlers = toolkit.toLayer({
            note: ({ turn }) =>
              Effect.sync(() => (appendFileSync(join(notes, String(turn)), "taken\n"), `taken ${turn}`))
          })

          const play = Effect.fnUntraced(function* (turn: number) {
            const layer = Agent.layer({ cwd: "/tmp", identity: "You are a test." }).pipe(
              Layer.provideMerge(
                Layer.mergeAll(
                  RoutedModelRouter.layer({
                    chain: [{ route: routeTo(primary, broken.url) }, { route: routeTo(fallback, healthy.url) }],
                    open: OpenRoute.open
                  }),
                  SessionStore.layerMemory,
                  ToolRegistry.layer([Toolset.make("t", toolkit, handlers)])
                )
              )
            )
            let shown = ""
            const onEvent = (events: ReadonlyArray<RunEvent>) =>
              Effect.sync(() => {
                for (const event of events) if (event._tag === "TextDelta") shown += event.text
              })
            // Streamed to a reader, streamed to nobody, and in one piece.
            const { messages, result } = yield* Effect.gen(function* () {
              const result = yield* Agent.run({
                prompt: `turn ${turn}`,
                streaming: turn % 3 !== 2,
                readsText: turn % 3 === 0,
                onEvent
              })
              return { result, messages: yield* (yield* SessionStore.SessionStore).messages(result.sessionId) }
            }).pipe(Effect.provide(layer))
            return {
              exit: result.exit,
              text: result.text,
              shown,
              stored: messages.map(
                ({ content, role }) =>
                  `${role}: ${typeof content === "string" ? content : content.map((part) => (part.type === "text" ? part.text : part.type)).join("|")}`
              )
            }
          })

          const count = Math.ceil(turns / pairs.length)
          const results = yield* Effect.forEach(
            Array.from({ length: count }, (_, turn) => turn),
            play,
            { concurrency: side }
          ).pipe(Effect.provideService(Clock.Clock, yield* FastClock.make(speed)))
          for (const [turn, result] of results.entries()) {
            assert.deepStrictEqual(
              result,
              {
                exit: "text_response",
                text: sentence,
                shown: announcement + sentence,
                stored: [
                  `user: turn ${turn}`,
                  `assistant: ${announcement}|tool-call`,
                  "tool: tool-result",
                  `assistant: ${sentence}`
                ]
              },
              `turn ${turn}`
            )
          }
          assert.strictEqual(results.length, count)
          assert.strictEqual(readdirSync(notes).length, count)
          for (const file of readdirSync(notes))
            assert.strictEqual(readFileSync(join(notes, file), "utf8"), "taken\n", `turn ${file}`)
          for (const fault of faults) assert.isAbove(broken.played.get(fault) ?? 0, count / 20, `${fault} was met`)
        }),
      600_000
    )
  }
})
