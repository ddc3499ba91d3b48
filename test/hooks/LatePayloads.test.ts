// Most of an event is made when a listener reads them: what they say is what was so at the event, however late.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Hooks, Middleware, Runtime, Toolset } from "../../src/index.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols } from "../support/wireModel.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Echo)
const tools = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text.repeat(3)) }))

/** Rewrites each request, so that the one of an event is not the provider's own. */
const tagged = Middleware.llmRequest({
  name: "tagged",
  rewrite: (request) => Effect.succeed(Middleware.replacePayload({ ...request, metadata: { tag: "t" } }))
})

const turns = [
  {
    text: "first",
    calls: [
      { id: "c0", name: "echo", args: '{"text":"a"}' },
      { id: "c1", name: "echo", args: '{"text":"b"}' }
    ]
  },
  { calls: [{ id: "c2", name: "echo", args: '{"text":"c"}' }] },
  { text: "done" },
  { text: "and done again" }
]

describe("payloads that are read late", () => {
  for (const [name, protocol] of Object.entries(protocols)) {
    for (const middleware of [[], [tagged]]) {
      it.live(`${name}, ${middleware.length} rewrites: say what those say that are read at their event`, () =>
        Effect.gen(function* () {
          let at = 0
          const { url } = yield* HttpServer.make((_, response) => {
            HttpServer.json(response, 200, protocol.whole(turns[at++ % turns.length] ?? {}))
          })
          const read = Effect.fnUntraced(function* (when: "at once" | "at the end") {
            const seen: Array<() => string> = []
            const see = (event: object) => {
              // Ids and times are those of the run.
              const text = () =>
                JSON.stringify(event, (name, value) =>
                  /_id$|_at$|duration|first_token/.test(name) ? undefined : value
                )
              const now = when === "at once" ? text() : undefined
              seen.push(() => now ?? text())
              return Effect.void
            }
            const runtime = Runtime.layer({
              provider: protocol.layer(url),
              tools: [tools],
              middleware,
              hooks: [
                Hooks.observer(
                  { label: "reader" },
                  { pre_api_request: see, post_api_request: see, post_tool_call: see }
                )
              ]
            })
            const run = (prompt: string) => Agent.run({ prompt, sessionId: "s", systemPrompt: "You are a test." })
            yield* Effect.provide(Effect.andThen(run("go"), run("go on")), runtime)
            return seen.map((text) => text())
          })
          const expected = yield* read("at once")
          assert.strictEqual(new Set(expected).size, expected.length)
          assert.deepStrictEqual(yield* read("at the end"), expected)
          assert.strictEqual(expected.length, 11)
        }).pipe(Effect.scoped)
      )
    }
  }
})
