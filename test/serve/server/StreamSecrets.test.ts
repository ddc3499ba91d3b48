// Secrets that are split over pieces of a stream, at each place, on each protocol; also where redaction of answers is
// turned off.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { RedactSecrets } from "../../../src/base/domain/Redaction.ts"
import type { RunEvent } from "../../../src/base/domain/RunEvent.ts"
import * as Secrets from "../../../src/base/domain/Secrets.ts"
import * as EventFeed from "../../../src/serve/server/agent/EventFeed.ts"
import * as StreamSecrets from "../../../src/serve/server/StreamSecrets.ts"
import { user, world } from "../../support/servedAgent.ts"

/** Held by the runtime; of no known shape. */
const held = "correct-Horse7-battery-staple"
const masked = "corr…le"

const registry = (): Secrets.Registry => {
  const secrets = Secrets.make()
  secrets.add(held)
  return secrets
}

const pieces: ReadonlyArray<(text: string) => RunEvent> = [
  (text) => ({ _tag: "TextDelta", text }),
  (text) => ({ _tag: "ReasoningDelta", text }),
  (text) => ({ _tag: "ToolInputDelta", callId: "c", text })
]

const textOf = (events: ReadonlyArray<RunEvent>): string =>
  events.map((event) => ("text" in event ? event.text : "")).join("")

const heartbeat: RunEvent = { _tag: "Heartbeat", waitedMillis: 1 }

describe("pieces of a stream", () => {
  it("hide a secret that is split at any place, and lose nothing else", () => {
    for (const piece of pieces) {
      for (let at = 0; at <= held.length; at++) {
        const { end, of } = StreamSecrets.make(registry())
        const given = [piece(`It is ${held.slice(0, at)}`), heartbeat, piece(`${held.slice(at)}, or not.`)]
        assert.strictEqual(
          textOf([...given.flatMap((event) => of([event])), ...end()]),
          `It is ${masked}, or not.`,
          `${at}`
        )
      }
      const { end, of } = StreamSecrets.make(registry())
      const each = Array.from(`Say ${held} twice: ${held}`, (letter) => of([piece(letter)])).flat()
      assert.strictEqual(textOf([...each, ...end()]), `Say ${masked} twice: ${masked}`)
    }
  })

  it("let go of what is held when their text ends, and drop it where the text is taken back", () => {
    const hidden = StreamSecrets.make(registry())
    const half = held.slice(0, 10)
    assert.deepStrictEqual(hidden.of([{ _tag: "TextDelta", text: `a ${half}` }]), [{ _tag: "TextDelta", text: "a " }])
    assert.deepStrictEqual(hidden.of([{ _tag: "ToolInputStarted", callId: "c", name: "t" }]), [
      { _tag: "TextDelta", text: half },
      { _tag: "ToolInputStarted", callId: "c", name: "t" }
    ])
    hidden.of([{ _tag: "TextDelta", text: half }])
    assert.deepStrictEqual(hidden.of([{ _tag: "TextReplaced", stepId: 1, text: `no ${held}` }]), [
      { _tag: "TextReplaced", stepId: 1, text: `no ${masked}` }
    ])
    assert.deepStrictEqual(hidden.end(), [])
  })

  it.effect("hide it in the events of a session", () =>
    Effect.gen(function* () {
      for (const piece of pieces) {
        for (let at = 1; at < held.length; at++) {
          const feed = EventFeed.make(0, registry())
          feed.publish({ _tag: "RunEvents", turn: 1, events: [piece(`It is ${held.slice(0, at)}`)] })
          feed.publish({
            _tag: "RunEvents",
            turn: 1,
            events: [piece(held.slice(at)), { _tag: "StepFinished", step: 1, finishReason: "stop" }]
          })
          yield* feed.end
          const sent = (yield* Stream.runCollect(feed.after(0))).map(({ data }): RunEvent => JSON.parse(data))
          assert.strictEqual(textOf(sent), `It is ${masked}`)
        }
      }
    })
  )

  it.live("hide it over HTTP, whatever the settings say about answers", () =>
    Effect.gen(function* () {
      const places = [1, 9, held.length - 1]
      const plays = Object.fromEntries(
        places.map((at) => [
          `at ${at}.`,
          [{ thought: `Hm ${held.slice(0, at)}`, text: [`It is ${held.slice(0, at)}`, held.slice(at), ", or not."] }]
        ])
      )
      const { client } = yield* world(plays, {}, (runtime) =>
        runtime.pipe(
          Layer.provideMerge(
            Layer.mergeAll(Layer.succeed(RedactSecrets, false), Layer.succeed(Secrets.Secrets, registry()))
          )
        )
      )
      yield* Effect.promise(async () => {
        for (const at of places) {
          const stream = await client.chat.completions.create({
            model: "hermes",
            stream: true,
            messages: [user(`at ${at}.`)]
          })
          let text = ""
          for await (const { choices } of stream) text += choices[0]?.delta.content ?? ""
          assert.strictEqual(text, `It is ${masked}, or not.`)
        }
        const whole = await client.responses.create({ model: "hermes", input: "at 9." })
        assert.strictEqual(whole.output_text, `It is ${masked}, or not.`)
        assert.notInclude(JSON.stringify(whole), held)
      })
    })
  )
})
