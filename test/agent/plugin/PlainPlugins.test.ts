// Plain plugins reach everything: each kind of middleware, lifecycle methods, hooks, tools, commands, providers; ESM
// and CommonJS.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { readFileSync } from "node:fs"
import { join } from "node:path"
import * as Agent from "../../../src/agent/Agent.ts"
import * as Ids from "../../../src/base/domain/Ids.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import type * as Middleware from "../../../src/middleware/Middleware.ts"
import * as Offline from "../../../src/models/provider/Offline.ts"
import { Provider } from "../../../src/models/provider/Provider.ts"
import * as Runtime from "../../../src/program/Runtime.ts"
import { ToolContext } from "../../../src/tools/ToolContext.ts"
import { everything } from "../../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../../src/tools/Toolset.ts"
import * as S from "../../models/routing/support.ts"
import * as Fake from "../../support/fakeModel.ts"
import { withWarnings } from "../../support/middlewareContexts.ts"
import { root } from "../../support/sources.ts"
import { loaded, place } from "./support/plugins.ts"

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const Terminal = Tool.make("terminal", { success: Schema.String }).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Echo, Terminal)
const tools = Toolset.make(
  "test",
  toolkit,
  toolkit.toLayer({ terminal: () => Effect.succeed("ran"), echo: ({ text }) => Effect.succeed(`echo ${text}`) })
)

/** A run that calls `echo` once, with the middleware of plugins. */
const run = (middleware: ReadonlyArray<Middleware.Contained>, ...turns: ReadonlyArray<Fake.Turn>) => {
  const fake = Fake.make(...turns)
  const layer = Runtime.layer({ provider: Layer.succeed(Provider, fake.provider), tools: [tools], middleware })
  return Effect.map(Effect.provide(Agent.run({ prompt: "go" }), layer), (result) => ({ result, fake }))
}

const calling = Fake.calls(Fake.call("c1", "echo", { text: "hi" }))

const log: Array<string> = []
Reflect.set(globalThis, "plainPluginLog", log)

const forms: ReadonlyArray<readonly [name: string, file: string, module: (body: string) => string]> = [
  ["ESM", "index.mjs", (body) => `export const register = (ctx) => {${body}}`],
  ["CommonJS", "index.cjs", (body) => `exports.register = (ctx) => {${body}}`]
]

const opened = (body: string, [, file, module]: (typeof forms)[number]) =>
  Effect.gen(function* () {
    log.length = 0
    const { places, write } = yield* place
    write({
      "home/plugins/p/plugin.yaml": "name: p\n",
      [`home/plugins/p/${file}`]: module(`const log = globalThis.plainPluginLog; ${body}`)
    })
    return yield* loaded({ places: places(), enabled: ["p"] })
  })

for (const form of forms) {
  describe(`a plain plugin, ${form[0]}`, () => {
    it.live("wraps requests, calls and whole calls, and may repeat a whole call", () =>
      Effect.gen(function* () {
        const { middleware } = yield* opened(
          `
          ctx.registerMiddleware("llm_request", ({ request }) => { log.push("llm_request"); return { request: { ...request, tag: 1 } } })
          ctx.registerMiddleware("llm_execution", async ({ next_call }) => { log.push("llm_execution"); return await next_call() })
          ctx.register_middleware("tool_request", ({ args }) => { log.push("tool_request"); return { args: { text: args.text + "!" } } })
          ctx.registerMiddleware("tool_execution", async ({ next_call }) => { log.push("tool_execution"); return await next_call() })
          ctx.registerMiddleware("wrap_model_call", async ({ api_call_count, next_call, params }) => {
            log.push("wrap_model_call " + api_call_count + " " + params.call.messages.length)
            try { return await next_call() } catch (error) {
              log.push("again")
              return await next_call({ call: { ...params.call, temperature: 0 } })
            }
          })
          ctx.registerMiddleware("wrap_tool_call", async ({ args, next_call, tool_name }) => {
            log.push("wrap_tool_call " + tool_name)
            await next_call()
            return (await next_call({ text: args.text + "?" })) + " twice"
          })`,
          form
        )
        const { fake, result } = yield* run(
          middleware,
          () => Effect.fail(S.http(400, "refused")),
          calling,
          Fake.text("done")
        )
        assert.strictEqual(result.text, "done")
        assert.deepStrictEqual(log, [
          "wrap_model_call 1 2",
          "llm_request",
          "llm_execution",
          "again",
          "llm_request",
          "llm_execution",
          "tool_request",
          "wrap_tool_call echo",
          "tool_execution",
          "tool_execution",
          "wrap_model_call 2 4",
          "llm_request",
          "llm_execution"
        ])
        assert.deepStrictEqual(
          fake.executed.map((request) => request["tag"]),
          [1, 1, 1]
        )
        assert.deepStrictEqual(
          fake.asked.map(({ temperature }) => temperature),
          [undefined, 0, undefined]
        )
        assert.include(JSON.stringify(fake.asked.at(-1)?.messages), "echo hi!? twice")
      })
    )

    it.live("answers in the model's stead, and changes an answer", () =>
      Effect.gen(function* () {
        const { middleware } = yield* opened(
          `
          ctx.registerMiddleware("wrap_model_call", async ({ api_call_count, next_call }) => {
            if (api_call_count === 2) return "from the plugin"
            const answer = await next_call()
            return { ...answer, response: { ...answer.response, parts: answer.response.parts } }
          })`,
          form
        )
        const { fake, result } = yield* run(middleware, calling, Fake.text("never"))
        assert.deepStrictEqual([result.text, fake.asked.length], ["from the plugin", 1])
      })
    )

    it.live("has methods for the phases of a run: objects, classes and functions, in both spellings", () =>
      Effect.gen(function* () {
        const { middleware } = yield* opened(
          `
          ctx.registerLifecycle({
            name: "object",
            before_agent: ({ messages, session_id }) => { log.push("before_agent " + messages.length + " " + typeof session_id) },
            beforeTool: async ({ tool_input, tool_name }) => { log.push("before_tool " + tool_name); return { tool_input: { text: tool_input.text + " there" } } },
            wrap_tool_call: async ({ args, next_call }) => { log.push("wrap_tool_call " + args.text); return await next_call() },
            wrapModelCall: async ({ next_call }) => { log.push("wrap_model_call"); return await next_call() },
            after_agent: ({ agent_response, stop_reason }) => { log.push("after_agent " + stop_reason); return { agent_response: agent_response + "." } }
          })
          class Counted {
            calls = 0
            constructor(run) { log.push("new " + run.is_child) }
            before_model({ current_iteration }) { this.calls++; log.push("before_model " + current_iteration) }
            afterModel({ parsed_response }) { log.push("after_model " + this.calls + " " + parsed_response.toolCalls.length); return {} }
          }
          ctx.register_lifecycle(Counted)
          ctx.registerLifecycle(() => ({ after_tool: ({ tool_output }) => ({ llmToolOutput: tool_output + " (checked)" }) }), { name: "made" })`,
          form
        )
        assert.deepStrictEqual(
          middleware.map(({ name }) => name),
          ["p:object", "p:Counted", "p:made"]
        )
        const first = yield* run(middleware, calling, Fake.text("done"))
        assert.strictEqual(first.result.text, "done.")
        const expected = [
          "new false",
          "before_agent 2 string",
          "before_model 0",
          "wrap_model_call",
          "after_model 1 1",
          "before_tool echo",
          "wrap_tool_call hi there",
          "before_model 1",
          "wrap_model_call",
          "after_model 2 0",
          "after_agent SUCCESS"
        ]
        assert.deepStrictEqual(log, expected)
        assert.include(JSON.stringify(first.fake.asked.at(-1)?.messages), "echo hi there (checked)")
        // A class is made anew for each run.
        log.length = 0
        yield* run(middleware, calling, Fake.text("done"))
        assert.deepStrictEqual(log, expected)
      })
    )

    it.live("sees and changes the parts of a streamed answer", () =>
      Effect.gen(function* () {
        const { middleware } = yield* opened(
          `
          ctx.registerLifecycle({ name: "loud", stream_part: ({ parts, session_id }) => {
            log.push(typeof session_id + " " + parts.map((part) => part.type).join())
            return { parts: parts.map((part) => part.type === "text_delta" ? { ...part, delta: part.delta.toUpperCase() } : part) }
          } })
          ctx.registerLifecycle({ name: "watch", streamPart: ({ parts }) => { log.push(parts.map((part) => part.delta ?? "").join("")) } })`,
          form
        )
        const { result } = yield* run(middleware, Fake.pieces("well ", "done"))
        assert.strictEqual(result.text, "WELL DONE")
        assert.deepStrictEqual(log, [
          "string text_start",
          "",
          "string text_delta",
          "WELL ",
          "string text_delta",
          "DONE"
        ])
      })
    )

    it.live(
      "denies and skips tool calls; a field that there is none of is its fault, and a closed one fails the run",
      () =>
        Effect.gen(function* () {
          const { middleware } = yield* opened(
            `
          ctx.registerLifecycle({ name: "gate", before_tool: ({ tool_input }) =>
            tool_input.text === "deny" ? { deny: "not today" } : tool_input.text === "skip" ? { skip: "known" } : { tool_inputs: {} } })`,
            form
          )
          const asked = Fake.calls(
            Fake.call("a", "echo", { text: "deny" }),
            Fake.call("b", "echo", { text: "skip" }),
            Fake.call("c", "echo", { text: "wrong" })
          )
          const { value, warnings } = yield* withWarnings(run(middleware, asked, Fake.text("done")))
          const sent = JSON.stringify(value.fake.asked.at(-1)?.messages)
          for (const text of ["not today", "known", "echo wrong"]) assert.include(sent, text)
          assert.match(warnings.join("\n"), /before_tool.*gate.*unknown field "tool_inputs", did you mean tool_input/)

          const closed = yield* opened(
            "ctx.registerLifecycle({ before_model: () => { throw new Error('no') } }, { onFailure: 'closed', name: 'policy' })",
            form
          )
          const exit = yield* Effect.exit(run(closed.middleware, Fake.text("done")))
          assert.isTrue(Exit.isFailure(exit) && /policy.*no/.test(String(exit.cause)))
        })
    )

    it.live("brings hooks with delivery, tools, commands and providers", () =>
      Effect.gen(function* () {
        const { cliCommands, commands, hooks, providers, registry } = yield* opened(
          `
          ctx.registerHook("post_tool_call", ({ tool_name }) => { log.push(tool_name) }, { delivery: "queued", capacity: 8 })
          ctx.register_hook("pre_tool_call", () => undefined, { onFailure: "closed" })
          ctx.registerTool({ name: "double", parameters: { type: "object", properties: { n: { type: "number" } } }, readonly: true, handler: ({ n }) => n * 2 })
          ctx.registerCommand("greet", (args) => "hello " + args)
          ctx.registerCliCommand("count", async (args) => args.length)
          ctx.registerProvider({ name: "mine", aliases: ["my"], open: async (route) => ({
            execute: async (request, { signal }) => {
              if (route.model === "broken") throw new Error("no line")
              const text = [route.model, request.model, signal.aborted, Object.isFrozen(request)].join(" ")
              return { id: "x", object: "chat.completion", created: 0, model: "m", choices: [{ index: 0, finish_reason: "stop", logprobs: null, message: { role: "assistant", content: text, refusal: null } }] }
            }
          }) })
          ctx.registerProvider({ name: "empty", open: () => ({}) })`,
          form
        )
        assert.deepStrictEqual(
          hooks.list().map(({ events: [event], mode }) => [event, mode]),
          [
            ["post_tool_call", "queued"],
            ["pre_tool_call", "inline"]
          ]
        )
        const bound = (yield* registry.snapshot(everything)).get("double")
        assert.isDefined(bound)
        const context = ToolContext.of({
          sessionId: Ids.SessionId.make("s"),
          taskId: Ids.TaskId.make("t"),
          turnId: Ids.TurnId.make("u"),
          cwd: "/"
        })
        assert.strictEqual((yield* Effect.provideService(bound.run({ n: 4 }, "c"), ToolContext, context)).output, 8)
        assert.strictEqual(yield* commands[0]?.run("Ada") ?? Effect.void, "hello Ada")
        assert.strictEqual(yield* cliCommands[0]?.run(["a", "b"]) ?? Effect.void, 2)

        const open = (name: string, model: string) => {
          const source = providers.find((one) => one.name === name)
          assert.isDefined(source)
          const route: Route = { ...Offline.route, provider: name, model }
          return source.open(route)
        }
        const call = {
          messages: [],
          tools: [],
          toolChoice: "auto",
          responseFormat: { type: "text" },
          stream: false
        } as const
        const provider = yield* open("mine", "small")
        assert.deepStrictEqual([provider.info.provider, provider.apiMode], ["mine", "chat_completions"])
        const response = yield* Effect.flatMap(provider.prepare(call), (request) => provider.execute(request))
        assert.deepStrictEqual(
          response.parts.map((part) => (part.type === "text" ? part.text : part.type)),
          ["small small false true"]
        )
        const broken = yield* Effect.flatMap(open("mine", "broken"), ({ execute }) => Effect.flip(execute({})))
        assert.isTrue(AiError.isAiError(broken) && broken.message.includes("no line"))
        assert.match((yield* Effect.flip(open("empty", "x"))).message, /The provider "empty" has no execute method/)
      })
    )
  })
}

describe("the plugin of the author's guide", () => {
  it.live("does what it says", () =>
    Effect.gen(function* () {
      const page = readFileSync(join(root, "scratchpad/guides/authors.md"), "utf8")
      const { places, plugin } = yield* place
      plugin("gate", /^```js\n([\s\S]*?)```$/m.exec(page)?.[1])
      const { middleware } = yield* loaded({ places: places(), enabled: ["gate"] })
      const { fake } = yield* run(
        middleware,
        Fake.calls(Fake.call("a", "terminal", {}), Fake.call("b", "echo", { text: "hi" })),
        Fake.text("done")
      )
      const sent = JSON.stringify(fake.asked.at(-1)?.messages)
      assert.include(sent, "no terminal here")
      assert.include(sent, "echo hi")
    })
  )
})

describe("registerLifecycle", () => {
  for (const [given, expected] of [
    ["{ name: 'none', other: 1 }", /"p:none" has none of the methods before_agent, after_agent/],
    ["7", /registerLifecycle takes an object with methods/],
    ["{ beforeTool: () => {}, before_tool: () => {} }", /has both beforeTool and before_tool/],
    ["{ before_tool: 1 }", /before_tool of lifecycle middleware "p" is not a function/]
  ] as const) {
    it.live(`refuses ${given}`, () =>
      Effect.gen(function* () {
        const { plugins } = yield* opened(`ctx.registerLifecycle(${given})`, forms[0] ?? assert.fail())
        assert.match(plugins[0]?.error ?? "", expected)
      })
    )
  }
})
