// Engines of plugins that make conversations smaller: what they get, and which of their answers are used.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Prompt from "effect/ai/Prompt"
import { SessionId, TaskId, TurnId } from "../../../src/base/domain/Ids.ts"
import * as ContextEngines from "../../../src/agent/plugin/ContextEngines.ts"
import * as HttpServer from "../../models/provider/HttpServer.ts"
import { machine } from "../../support/hermesInProcess.ts"
import { protocols } from "../../support/wireModel.ts"

const system = Prompt.systemMessage({ content: "system" })
const user = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
const call = Prompt.assistantMessage({
  content: [Prompt.toolCallPart({ id: "c", name: "look", params: {}, providerExecuted: false })]
})
const result = Prompt.toolMessage({
  content: [Prompt.toolResultPart({ id: "c", name: "look", isFailure: false, result: "seen", providerExecuted: false })]
})
const messages: ReadonlyArray<Prompt.Message> = [system, user("first ".repeat(100)), call, result, user("newest")]

const engine = (compress: ContextEngines.PlainContextEngine["compress"]) => {
  const read = ContextEngines.readEngine({ name: "mine", compress, threshold: 0.25 }, (run) => Effect.sync(run))
  if (read === undefined) throw new Error("it is an engine")
  const told: Array<string> = []
  const port = ContextEngines.makePort(read)
  const ids = { sessionId: SessionId.make("s"), taskId: TaskId.make("s"), turnId: TurnId.make("t") }
  const compact = port.compact({
    ...ids,
    messages,
    window: 1_000,
    reason: "manual",
    focus: "tea",
    notify: (text) => Effect.sync(() => void told.push(text))
  })
  return { port, told, compact }
}

type Given = ReadonlyArray<Prompt.Message>

describe("a context engine of a plugin", () => {
  it.effect("gets copies and says what stays; texts of its own become messages", () =>
    Effect.gen(function* () {
      const { compact, port, told } = engine((given, info) => {
        assert.deepStrictEqual(
          { ...info },
          { session_id: "s", reason: "manual", window: 1_000, tokens: undefined, focus_topic: "tea" }
        )
        assert.throws(() => (given as Array<Prompt.Message>).pop())
        return [given[0], { role: "user", content: "a note" }, given[4]]
      })
      assert.strictEqual(port.trigger?.(1_000), 250)
      assert.deepStrictEqual(yield* compact, [system, user("a note"), messages[4] as Prompt.Message])
      assert.deepStrictEqual(told, [])
    })
  )

  it.effect("cannot break a conversation: it stays as it is, and the user is told", () =>
    Effect.gen(function* () {
      for (const [compress, why] of [
        [(given: Given) => given.slice(1), "it does not begin with the system prompt"],
        [(given: Given) => given.slice(0, 2), "the newest message of the user is not in it"],
        [(given: Given) => [given[0], given[3], given[4]], "a result of a tool is without its call"],
        [(given: Given) => [given[0], given[2], given[4]], "a call of a tool is without its result"],
        [(given: Given) => [given[0], { role: "user", content: "x".repeat(2_000) }, given[4]], "it is not smaller"],
        [() => "nothing", "messages is not a list"],
        [
          () => {
            throw new Error("no luck")
          },
          "no luck"
        ]
      ] as const) {
        const { compact, told } = engine(compress)
        assert.strictEqual(yield* compact, messages, why)
        assert.deepStrictEqual(
          told.map((text) => text.includes(why)),
          [true],
          `${why}: ${told.join()}`
        )
      }
      const { compact, told } = engine(() => undefined)
      assert.deepStrictEqual([yield* compact, told], [messages, []])
    })
  )

  it("is one with a name, a function and a share", () => {
    for (const given of [
      {},
      { name: "m" },
      { compress: () => [] },
      { name: " ", compress: () => [] },
      { name: "m", compress: () => [], threshold: 2 },
      1
    ]) {
      assert.isUndefined(ContextEngines.readEngine(given, (run) => Effect.sync(run)))
    }
  })

  it.live("is used by the program where the settings name it; an unknown one is a warning with the nearest name", () =>
    Effect.gen(function* () {
      const { hermes, keep } = yield* machine
      const bodies: Array<string> = []
      const server = yield* HttpServer.make(({ body, url }, response) => {
        if (!url.endsWith("/chat/completions")) return HttpServer.json(response, 404, {})
        bodies.push(body)
        // The protocol's whole answer is an object.
        HttpServer.json(response, 200, protocols.chat_completions.whole({ text: `answer ${bodies.length}` }) as object)
      })
      keep("plugins/small/plugin.yaml", "name: small\n")
      keep(
        "plugins/small/index.js",
        `export const register = (ctx) => ctx.register_context_engine({
        name: "small", threshold: 0.001,
        compress: (messages) => messages.length < 3 ? undefined : [messages[0], { role: "user", content: "a note of the plugin" }, messages.at(-1)]
      })`
      )
      const config = (engine: string) =>
        keep(
          "config.yaml",
          JSON.stringify({
            model: {
              provider: "custom",
              default: "m",
              base_url: `${server.url}/v1`,
              api_key: "k",
              context_length: 64_000
            },
            plugins: { enabled: ["small"] },
            context: { engine },
            display: { streaming: false }
          })
        )
      config("small")
      const first = yield* hermes(["-Q", "-q", "a question ".repeat(30)])
      assert.deepInclude(first, { code: 0, stdout: "answer 1\n" }, first.stderr)
      const second = yield* hermes(["-Q", "-c", "-q", "and now?"])
      assert.deepInclude(second, { code: 0, stdout: "answer 2\n" }, second.stderr)
      assert.notInclude(second.stderr, "context.engine")
      assert.include(bodies[1], "a note of the plugin")
      assert.notInclude(bodies[1], "a question a question")
      config("smal")
      const third = yield* hermes(["-Q", "-q", "hi"])
      assert.include(
        third.stderr,
        'Warning: context.engine: unknown engine "smal", compressor is used; did you mean small?'
      )
    })
  )
})
