// A run with an output schema over the wire, in each of the four protocols, streamed and not: the schema in the field
// that the protocol has for it, with tools, a correction, and an answer that the output limit cuts.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols, type WireTurn } from "../support/wireModel.ts"

const Weather = Schema.Struct({ city: Schema.String, celsius: Schema.Int })

const look = Tool.make("look", { parameters: Schema.Struct({ at: Schema.String }), success: Schema.String })
const kit = Toolkit.make(look)
const tools = [Toolset.make("weather", kit, kit.toLayer({ look: () => Effect.succeed("4 degrees") }))]

const plays: Readonly<Record<string, ReadonlyArray<WireTurn>>> = {
  "after a call of a tool": [
    { calls: [{ id: "c1", name: "look", args: '{"at":"Oslo"}' }] },
    { text: '{ "city": "Oslo", "celsius": 4 }' }
  ],
  "after a correction": [{ text: '{ "city": "Oslo" }' }, { text: '{ "city": "Oslo", "celsius": 4 }' }],
  "in two halves, where the output limit cuts the first": [
    { text: '{ "city": "Oslo", ', cut: true },
    { text: '"celsius": 4 }' }
  ]
}

/** The text of the fields in which a protocol tells the model about the form of its answer. */
const readForm: { readonly [Mode in keyof typeof protocols]: (body: Readonly<Record<string, unknown>>) => unknown } = {
  chat_completions: (body) => body["response_format"],
  codex_responses: (body) => body["text"],
  // An address that is not Anthropic's, and a model that Bedrock does not bind, are told in words.
  anthropic_messages: (body) => body["system"],
  bedrock_converse: (body) => body["system"]
}

const serve = (mode: keyof typeof protocols, turns: ReadonlyArray<WireTurn>, isStreaming: boolean) =>
  Effect.gen(function* () {
    const bodies: Array<Record<string, unknown>> = []
    const server = yield* HttpServer.make(({ body }, response) => {
      bodies.push(JSON.parse(body))
      const turn = turns[bodies.length - 1] ?? { text: "out of turns" }
      if (isStreaming) protocols[mode].stream(turn, response)
      else HttpServer.json(response, 200, protocols[mode].whole(turn))
    })
    return { bodies, url: server.url }
  })

describe("a value over the wire", () => {
  for (const mode of ["chat_completions", "codex_responses", "anthropic_messages", "bedrock_converse"] as const) {
    for (const isStreaming of [true, false]) {
      for (const [name, turns] of Object.entries(plays)) {
        it.live(`${mode}, ${isStreaming ? "streamed" : "whole"}: ${name}`, () =>
          Effect.gen(function* () {
            const { bodies, url } = yield* serve(mode, turns, isStreaming)
            const { value } = yield* Effect.provide(
              Agent.run({ prompt: "weather?", output: Weather, streaming: isStreaming }),
              Runtime.layer({ provider: protocols[mode].layer(url), tools })
            )
            assert.deepStrictEqual(value, { city: "Oslo", celsius: 4 })
            assert.lengthOf(bodies, turns.length)
            for (const body of bodies) assert.include(JSON.stringify(readForm[mode](body)), "celsius")
          }).pipe(Effect.scoped)
        )
      }
    }
  }

  it.live("may speak of looking at files, as no answer in JSON announces work", () =>
    Effect.gen(function* () {
      const text = '{ "city": "I will look at the files of the project", "celsius": 4 }'
      const { bodies, url } = yield* serve("codex_responses", [{ text }], true)
      const { value } = yield* Effect.provide(
        Agent.run({ prompt: "weather?", output: Weather, streaming: true }),
        Runtime.layer({ provider: protocols.codex_responses.layer(url) })
      )
      assert.include(value.city, "look at the files")
      assert.lengthOf(bodies, 1)
    }).pipe(Effect.scoped)
  )
})
