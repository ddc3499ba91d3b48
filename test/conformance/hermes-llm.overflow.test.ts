// Conversations that do not fit, in whole runs.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as FileSystem from "effect/FileSystem"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import type * as AiError from "effect/ai/AiError"
import type * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import type { AgentSettings } from "../../src/agent/RunInput.ts"
import { CompressionExhausted } from "../../src/base/domain/AgentError.ts"
import type { ModelCall } from "../../src/base/domain/ModelCall.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Middleware from "../../src/middleware/Middleware.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as Catalogue from "../../src/models/routing/Catalogue.ts"
import * as ModelLists from "../../src/models/routing/catalogue/ModelLists.ts"
import { CompactionPort, none, type Request, type Service } from "../../src/models/routing/CompactionPort.ts"
import * as ContextWindow from "../../src/models/routing/ContextWindow.ts"
import * as RoutedModelRouter from "../../src/models/routing/RoutedModelRouter.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import { fails, http, route } from "../models/routing/support.ts"
import * as Fake from "../support/fakeModel.ts"
import { running } from "../support/movingClock.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const Echo = Tool.make("echo", {
  description: "Says it again",
  parameters: Schema.Struct({ text: Schema.String }),
  success: Schema.String
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo)

const stated = http(
  400,
  "This model's maximum context length is 32768 tokens. However, your messages resulted in 40000 tokens."
)
const tooLarge = http(413, "Request Entity Too Large")

/** Keeps the system message and the newest ones, one fewer whenever it is asked. */
const dropping = () => {
  const asked: Array<Request> = []
  const compaction: Service = {
    compact: (request) =>
      Effect.sync(() => {
        asked.push(request)
        const [system, ...rest] = request.messages
        return system === undefined ? [] : [system, ...rest.slice(1)]
      })
  }
  return { asked, compaction }
}

interface Options {
  readonly compaction?: Service
  readonly windows?: ContextWindow.ContextWindows
  readonly settings?: AgentSettings
  readonly second?: ReadonlyArray<Fake.Turn>
  readonly middleware?: readonly [Middleware.WrapModelCall]
}

const setup = (turns: ReadonlyArray<Fake.Turn>, options: Options = {}) => {
  const fakes = { first: Fake.make(...turns), second: Fake.make(...(options.second ?? [])) }
  const requests: Array<string> = []
  const ends: Array<string> = []
  const catalogue = Catalogue.make({
    settings: { model: { provider: "auto", streaming: true }, customProviders: [] },
    windows: options.windows ?? ContextWindow.makeInMemory(),
    lists: ModelLists.none,
    get: () => Effect.succeed(undefined),
    post: () => Effect.succeed(undefined)
  })
  const layer = Agent.layer({ cwd: "/tmp", ...options.settings, middleware: options.middleware }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        RoutedModelRouter.layer({
          chain: [{ route: route("first") }, ...(options.second === undefined ? [] : [{ route: route("second") }])],
          open: ({ model, provider, ...rest }) => {
            const fake = provider === "first" ? fakes.first : fakes.second
            return Effect.succeed({
              ...fake.provider,
              info: { provider, model, apiMode: rest.apiMode, baseUrl: rest.baseUrl }
            })
          },
          catalogue
        }),
        Hooks.layer([
          Hooks.on("pre_api_request", ({ api_request_id }) => Effect.sync(() => void requests.push(api_request_id))),
          Hooks.on("on_session_end", ({ reason }) => Effect.sync(() => void ends.push(reason ?? "")))
        ]),
        SessionStore.layerMemory,
        ToolRegistry.layer([
          Toolset.make("test", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))
        ]),
        Layer.succeed(CompactionPort, options.compaction ?? none)
      )
    )
  )
  return { layer, catalogue, requests, ends, fakes, asked: fakes.first.asked }
}

const roles = ({ messages }: ModelCall): ReadonlyArray<Prompt.Message["role"]> => messages.map(({ role }) => role)

/** Runs to the end, over as many pauses as there are, also between files. */
const run = Effect.fnUntraced(function* (prompt: string) {
  const events: Array<RunEvent> = []
  const exit = yield* running(
    Effect.exit(Agent.run({ prompt, onEvent: (some) => Effect.sync(() => void events.push(...some)) }))
  )
  return { exit, events }
})

const succeeds = Effect.fnUntraced(function* (prompt: string) {
  const { events, exit } = yield* run(prompt)
  return { result: yield* exit, events }
})

const failsWith = Effect.fnUntraced(function* (prompt: string) {
  return yield* Effect.flip(Effect.flatten(Effect.map(run(prompt), ({ exit }) => exit)))
})

const echo = Fake.calls(Fake.call("c1", "echo", { text: "x" }))

describe("hermes-llm overflow in a run", () => {
  it.effect(
    "T71 the limit that is stated is used, the conversation compacted and asked again; the next success writes it",
    () =>
      Effect.gen(function* () {
        const fs = yield* FileSystem.FileSystem
        const home = yield* temporaryDirectory
        const { asked, compaction } = dropping()
        const told = setup([echo, fails(stated), Fake.text("done")], {
          compaction,
          windows: yield* ContextWindow.openFile(home)
        })
        const { events, result } = yield* Effect.provide(succeeds("hi"), told.layer)
        assert.strictEqual(result.text, "done")
        assert.deepStrictEqual(told.asked.map(roles), [
          ["system", "user"],
          ["system", "user", "assistant", "tool"],
          // A conversation begins with the user.
          ["system", "user", "assistant", "tool"]
        ])
        assert.deepInclude(asked[0], { window: 32_768, reason: "context_overflow" })
        assert.strictEqual(asked[0]?.sessionId, events.find((event) => event._tag === "RunStarted")?.sessionId)
        // The session that was compacted goes on in another one.
        assert.notStrictEqual(asked[0]?.sessionId, result.sessionId)
        assert.deepStrictEqual(
          told.asked.map(({ contextWindow }) => contextWindow),
          [128_000, 128_000, 32_768]
        )
        assert.include(
          yield* fs.readFileString(`${home}/${ContextWindow.fileName}`),
          "m@https://first.example/v1: 32768"
        )
        assert.deepInclude(
          events.find(({ _tag }) => _tag === "Waiting"),
          {
            millis: 2_000,
            attempt: 1,
            maxAttempts: 3,
            reason: "m holds 32768 tokens: the conversation was compacted from 4 messages to 3"
          }
        )
        assert.strictEqual(new Set(told.requests).size, 3, "each attempt has an id of its own")
      }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("T72 a limit that was guessed is used and never written", () => {
    const windows = ContextWindow.makeInMemory()
    const vague = http(400, "Your input exceeds the context window of this model.")
    const told = setup([fails(vague), Fake.text("done")], { compaction: dropping().compaction, windows })
    return Effect.gen(function* () {
      yield* succeeds("hi ".repeat(50_000))
      assert.deepStrictEqual(
        told.asked.map(({ contextWindow }) => contextWindow),
        [128_000, 64_000]
      )
      assert.isUndefined(yield* windows.get(route("first")))
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("T73 an output limit that is too large is lowered for one call: no compaction, the same window", () => {
    const { asked, compaction } = dropping()
    const cap = http(400, "max_tokens: 32768 > context_window: 200000 - input_tokens: 190000 = available_tokens: 10000")
    const told = setup([fails(cap), echo, Fake.text("done")], { compaction, settings: { maxOutputTokens: 32_768 } })
    return Effect.gen(function* () {
      yield* succeeds("hi")
      assert.deepStrictEqual(
        told.asked.map(({ maxOutputTokens }) => maxOutputTokens),
        [32_768, 9_936, 32_768]
      )
      assert.deepStrictEqual(
        told.asked.map(({ contextWindow }) => contextWindow),
        [128_000, 128_000, 128_000]
      )
      assert.deepStrictEqual(asked, [])
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("T74 the fourth overflow of a turn ends it, with the exact error and reason", () => {
    const told = setup([echo, echo, fails(stated)], { compaction: dropping().compaction })
    return Effect.gen(function* () {
      const error = yield* failsWith("hi")
      assert.instanceOf(error, CompressionExhausted)
      assert.match(
        error.message,
        /does not fit into m after 3 attempts to compact it: start a new session, or choose a model/
      )
      assert.strictEqual(told.asked.length, 2 + 4)
      assert.deepStrictEqual(told.ends, ["compression_exhausted"])
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("T76 the gate of long contexts is 200 000 tokens in memory, whatever succeeds afterwards", () => {
    const windows = ContextWindow.makeInMemory()
    const gate = http(429, "Extra usage is required for long context requests.")
    const told = setup([fails(gate), Fake.text("done")], { compaction: dropping().compaction, windows })
    return Effect.gen(function* () {
      yield* windows.confirm(route("first"), 1_000_000)
      yield* succeeds("hi")
      assert.deepStrictEqual(
        told.asked.map(({ contextWindow }) => contextWindow),
        [1_000_000, 200_000]
      )
      assert.strictEqual(yield* windows.get(route("first")), 1_000_000)
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("T77 a restart after compaction uses up no iteration", () => {
    const told = setup([echo, fails(stated), Fake.text("done")], {
      compaction: dropping().compaction,
      settings: { maxIterations: 2 }
    })
    return Effect.gen(function* () {
      const { events, result } = yield* succeeds("hi")
      assert.deepInclude(result, { exit: "text_response", text: "done", steps: 2 })
      assert.deepStrictEqual(
        events.flatMap((event) => (event._tag === "StepStarted" ? [event.step] : [])),
        [1, 2]
      )
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("a body that is too large is compacted, and is over at once when that makes nothing smaller", () => {
    const smaller = setup([echo, fails(tooLarge), Fake.text("done")], { compaction: dropping().compaction })
    const same = setup([fails(tooLarge)], { compaction: { compact: ({ messages }) => Effect.succeed(messages) } })
    return Effect.gen(function* () {
      assert.strictEqual((yield* Effect.provide(succeeds("hi"), smaller.layer)).result.text, "done")
      const error = yield* Effect.provide(failsWith("hi"), same.layer)
      assert.include(String(error), "cannot be made smaller")
      assert.strictEqual(same.asked.length, 1)
    })
  })

  it.effect("where nobody compacts it says so after one refusal, and remembers what was learnt", () => {
    const told = setup([fails(stated)])
    return Effect.gen(function* () {
      const error = yield* failsWith("hi")
      assert.instanceOf(error, CompressionExhausted)
      assert.include(error.message, "does not fit into m, and no compaction is configured")
      assert.strictEqual(told.asked.length, 1)
      assert.deepStrictEqual(yield* told.catalogue.window(route("first")), { tokens: 32_768, source: "learnt" })
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("a fallback is asked before the turn is lost, and has compactions of its own", () => {
    const { asked, compaction } = dropping()
    const told = setup([echo, echo, fails(stated)], {
      compaction,
      second: [fails(stated), Fake.text("from the second")]
    })
    return Effect.gen(function* () {
      const { events, result } = yield* succeeds("hi")
      assert.deepInclude(result, { text: "from the second", provider: "second" })
      assert.strictEqual(asked.length, 4)
      assert.include(JSON.stringify(events), "does not fit into m; continuing with second (m)")
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("what is no matter of size goes up as it is", () => {
    const told = setup([fails(http(400, "Invalid value for temperature"))], { compaction: dropping().compaction })
    return Effect.gen(function* () {
      const error = yield* failsWith("hi")
      assert.strictEqual((error as AiError.AiError).reason._tag, "InvalidRequestError")
      assert.deepStrictEqual(told.ends, ["failed"])
    }).pipe(Effect.provide(told.layer))
  })

  const bad = fails(http(400, "Invalid value for messages[3]"))
  const told = (message: Prompt.Message | undefined): string => JSON.stringify(message?.content)

  it.effect(
    "T146 (nothing that was written is lost) a message that a large conversation was refused for is not sent again",
    () => {
      const { asked, layer } = setup([Fake.text("yes"), bad, Fake.text("fine")])
      return Effect.gen(function* () {
        const sessionId = (yield* Agent.run({ prompt: "first" })).sessionId
        const long = "x".repeat(4 * 50_001)
        yield* Effect.flip(Agent.run({ prompt: long, sessionId }))
        assert.strictEqual((yield* Agent.run({ prompt: "go on", sessionId })).text, "fine")
        assert.deepStrictEqual(asked.map(roles), [
          ["system", "user"],
          ["system", "user", "assistant", "user"],
          ["system", "user", "assistant", "user"]
        ])
        assert.include(told(asked[2]?.messages[3]), "go on")
        const stored = yield* (yield* SessionStore.SessionStore).messages(sessionId)
        assert.deepStrictEqual(
          stored.map(({ role }) => role),
          ["user", "assistant", "user", "assistant", "user", "assistant"]
        )
        assert.include(told(stored[2]), long)
        assert.include(told(stored[3]), "The provider refused this message, and it is not sent again")
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect(
    "T146 a small conversation keeps what was refused, and so does one that was refused for another reason",
    () => {
      const small = setup([bad, Fake.text("fine")])
      const denied = setup([fails(http(401, "Invalid API key")), Fake.text("fine")])
      const again = Effect.fnUntraced(function* (prompt: string) {
        const sessionId = "20260101_000000_aaaaaa"
        yield* Effect.flip(Agent.run({ prompt, sessionId }))
        yield* Agent.run({ prompt: "go on", sessionId })
      })
      return Effect.gen(function* () {
        yield* Effect.provide(again("hi"), small.layer)
        yield* Effect.provide(again("x".repeat(4 * 50_001)), denied.layer)
        for (const { asked } of [small, denied]) {
          assert.deepStrictEqual(asked.map(roles).at(-1), ["system", "user"])
          assert.lengthOf(asked.at(-1)?.messages[1]?.content ?? [], 2)
        }
      })
    }
  )

  it.effect("T146 what did not fit is taken back too, unless the run had done something before", () => {
    const first = setup([fails(stated), Fake.text("fine")])
    const later = setup([echo, fails(stated), Fake.text("fine")])
    const again = Effect.fnUntraced(function* () {
      const sessionId = "20260101_000000_aaaaaa"
      yield* Effect.flip(Agent.run({ prompt: "hi", sessionId }))
      yield* Agent.run({ prompt: "go on", sessionId })
    })
    return Effect.gen(function* () {
      yield* Effect.provide(again(), first.layer)
      yield* Effect.provide(again(), later.layer)
      assert.deepStrictEqual(first.asked.map(roles).at(-1), ["system", "user"])
      assert.deepStrictEqual(later.asked.map(roles).at(-1), [
        "system",
        "user",
        "assistant",
        "tool",
        "assistant",
        "user"
      ])
    })
  })

  it.effect("what a route that a wrapper asks refuses is learnt of that route alone", () => {
    const elsewhere = route("second", "small")
    const told = setup([Fake.text("fine")], {
      second: [fails(stated)],
      middleware: [
        Middleware.wrapModelCall({
          name: "elsewhere",
          wrap:
            (next) =>
            ({ call }) =>
              next({ call, route: elsewhere })
        })
      ]
    })
    return Effect.gen(function* () {
      assert.instanceOf(yield* failsWith("hi"), CompressionExhausted)
      assert.deepStrictEqual(yield* told.catalogue.window(elsewhere), { tokens: 32_768, source: "learnt" })
      assert.deepStrictEqual(yield* told.catalogue.window(route("first")), { tokens: 128_000, source: "default" })
      assert.deepStrictEqual(told.asked, [])
    }).pipe(Effect.provide(told.layer))
  })

  it.effect("an application brings its own compaction, and says what its model holds", () => {
    const fake = Fake.make(fails(tooLarge), Fake.text("done"))
    const named = { ...fake.provider, info: { ...fake.provider.info, model: "gpt-4-0613" } }
    const runtime = Runtime.layer({ provider: Layer.succeed(Provider, named) }).pipe(
      Layer.provide([
        Layer.succeed(CompactionPort, { compact: ({ messages }) => Effect.succeed(messages.slice(1)) }),
        Layer.succeed(Catalogue.Catalogue, Catalogue.makeBundled({ default: "gpt-4-0613", contextLength: 8_192 }))
      ])
    )
    return Effect.gen(function* () {
      assert.strictEqual((yield* succeeds("hi")).result.text, "done")
      assert.deepStrictEqual(fake.asked.map(roles), [["system", "user"], ["user"]])
      assert.deepStrictEqual(
        fake.asked.map(({ contextWindow }) => contextWindow),
        [8_192, 8_192]
      )
    }).pipe(Effect.provide(runtime))
  })
})
