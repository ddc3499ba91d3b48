// State that belongs to one run: two sessions at once never see each other's, whichever way middleware keeps it.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import { protocols } from "../support/wireModel.ts"
import * as Redacted from "effect/Redacted"

const Echo = Tool.make("echo", {
  description: "Echoes",
  parameters: Schema.Struct({ n: Schema.Number }),
  success: Schema.Number
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)
/** Takes its time, so that runs overlap. */
const tools = Toolset.make("echo", toolkit, toolkit.toLayer({ echo: ({ n }) => Effect.as(Effect.yieldNow, n) }))

/** A model that calls the tool as often as the newest question says. */
const model = Effect.map(
  HttpServer.make(({ body, url }, response) => {
    if (!url.includes("chat/completions"))
      return void HttpServer.json(response, 404, { error: { message: "not here" } })
    const { messages } = JSON.parse(body)
    const at = messages.findLastIndex(({ role }: { readonly role: string }) => role === "user")
    const wanted = Number(/(\d+) calls/.exec(JSON.stringify(messages[at]))?.[1] ?? 0)
    const made = messages.slice(at).filter(({ role }: { readonly role: string }) => role === "tool").length
    const turn =
      made < wanted
        ? { calls: [{ id: `c${at}-${made}`, name: "echo", args: JSON.stringify({ n: made }) }] }
        : { text: "done" }
    HttpServer.json(response, 200, protocols.chat_completions.whole(turn))
  }),
  ({ url }) => ({
    routes: [
      {
        provider: "custom",
        model: "m",
        baseUrl: `${url}/v1`,
        apiKey: Redacted.make("k"),
        apiMode: "chat_completions" as const
      }
    ]
  })
)

const Seen = Middleware.stateKey("test/seen", () => ({ tools: 0, sessions: new Set<string>() }))

/** Counts its calls under a key, and says the count at the end of the answer. */
const keyed = Middleware.lifecycle({
  name: "keyed",
  state: [Seen],
  beforeTool: ({ run }) => {
    const seen = Seen.of(run)
    seen.tools++
    seen.sessions.add(run.sessionId)
  },
  afterAgent: ({ agentResponse, run }) =>
    Middleware.withModifications({
      agentResponse: `${agentResponse} key:${Seen.of(run).tools}/${Seen.of(run).sessions.size}`
    })
})

/** The same in methods that are made for each run. */
const made = Middleware.lifecyclePerRun({
  name: "made",
  make: () => {
    let calls = 0
    let models = 0
    return {
      afterTool: () => void calls++,
      wrapModelCall: (next) => (params) =>
        Effect.suspend(() => {
          models++
          return next(params)
        }),
      afterAgent: ({ agentResponse }) =>
        Middleware.withModifications({ agentResponse: `${agentResponse} run:${calls}/${models}` })
    }
  }
})

describe("run-scoped state", () => {
  it.live("T31 two sessions at once, twenty runs: every run counts its own calls alone", () =>
    Effect.gen(function* () {
      const { routes } = yield* model
      const counts = [1, 3, 0, 2, 4, 1, 2, 0, 3, 2]
      const session = (sessionId: string, shift: number) =>
        Effect.forEach(counts, (_, index) => {
          const wanted = counts[(index + shift) % counts.length] ?? 0
          return Effect.map(Agent.run({ prompt: `make ${wanted} calls`, sessionId }), ({ text }) => ({ text, wanted }))
        })
      const both = yield* Effect.all([session("a", 0), session("b", 4)], { concurrency: "unbounded" }).pipe(
        Effect.provide(Runtime.layer({ routes, tools: [tools], middleware: [keyed, made] }))
      )
      const runs = both.flat()
      assert.strictEqual(runs.length, 20)
      for (const { text, wanted } of runs) {
        assert.strictEqual(text, `done run:${wanted}/${wanted + 1} key:${wanted}/${wanted === 0 ? 0 : 1}`)
      }
    })
  )

  it("two entries that declare one key with different states are refused when the stack is made; one state may be shared", () => {
    const entry = (name: string, state: Middleware.StateKey<unknown>) =>
      Middleware.lifecycle({ name, state: [state], beforeModel: () => Middleware.noChanges })
    const run = (middleware: ReadonlyArray<Middleware.Contained>) =>
      Effect.runPromise(
        Effect.provide(Agent.run({ prompt: "Reply exactly hello" }), Runtime.layer({ middleware })).pipe(
          Effect.as("ran"),
          Effect.catchTag("ConfigError", ({ message }) => Effect.succeed(message))
        )
      )
    return Effect.runPromise(
      Effect.gen(function* () {
        assert.strictEqual(yield* Effect.promise(() => run([entry("one", Seen), entry("two", Seen)])), "ran")
        assert.strictEqual(
          yield* Effect.promise(() =>
            run([
              entry("one", Seen),
              entry(
                "two",
                Middleware.stateKey("test/seen", () => 0)
              )
            ])
          ),
          'the middleware "one" and "two" both keep state of a run under "test/seen": rename one key, or let both use one stateKey'
        )
      })
    )
  })
})
