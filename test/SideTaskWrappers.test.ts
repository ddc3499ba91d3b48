// Middleware around side tasks: wrappers of model calls see them, and can tell them from the calls of the run.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Stream from "effect/Stream"
import { readFileSync } from "node:fs"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as AiError from "effect/ai/AiError"
import * as Persistence from "effect/persistence/Persistence"
import * as Agent from "../src/agent/Agent.ts"
import * as Audit from "../src/agent/builtin/Audit.ts"
import * as LlmFailover from "../src/agent/builtin/LlmFailover.ts"
import * as ResponseCache from "../src/agent/builtin/ResponseCache.ts"
import { SessionId, TaskId, TurnId } from "../src/base/domain/Ids.ts"
import * as Conversation from "../src/base/domain/Conversation.ts"
import type { Route, RouteInfo } from "../src/base/domain/Route.ts"
import * as Middleware from "../src/middleware/Middleware.ts"
import * as Plain from "../src/middleware/Plain.ts"
import { Provider } from "../src/models/provider/Provider.ts"
import { ModelRouter } from "../src/models/routing/ModelRouter.ts"
import { Auxiliary } from "../src/models/routing/Auxiliary.ts"
import * as Runtime from "../src/program/Runtime.ts"
import * as Vision from "../src/tools/builtin/Vision.ts"
import * as HttpServer from "./models/provider/HttpServer.ts"
import * as Fake from "./support/fakeModel.ts"
import { machine } from "./support/hermesInProcess.ts"

const pixel = "data:image/gif;base64,R0lGODlhAQABAIAAAAAAAP///yH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
const look = Fake.calls(Fake.call("v1", "vision_analyze", { image_url: pixel, question: "What is it?" }))

const runtimeOf = (fake: Fake.Fake, middleware: ReadonlyArray<Middleware.Contained>) =>
  Runtime.layer({ provider: Layer.succeed(Provider, fake.provider), tools: [Vision.toolset], middleware })

const context = { sessionId: SessionId.make("s"), taskId: TaskId.make("t"), turnId: TurnId.make("u") }

const ask = (task: string, text = "Give it a title") =>
  Auxiliary.use(({ call }) =>
    call(task, { messages: [Prompt.userMessage({ content: [Prompt.textPart({ text })] })], context })
  )

/** An entry whose services are those of the runtime. */
const contained = (entry: Middleware.Any) => entry as Middleware.Contained

describe("wrappers around side tasks", () => {
  it.effect("wrap_model_call sees them with their task, typed, plain and of lifecycle middleware", () => {
    const seen: Array<string> = []
    const note = (who: string, task: unknown) =>
      void seen.push(`${who}:${task === undefined || task === "" ? "main" : String(task)}`)
    const fake = Fake.make(look, Fake.text("a black pixel"), Fake.text("It is a pixel."))
    const runtime = runtimeOf(fake, [
      contained(
        Plain.wrapModelCall({ name: "plain" }, (call) => {
          note("plain", call["task"])
          return (call["next_call"] as () => unknown)()
        })
      ),
      Middleware.wrapModelCall({
        name: "typed",
        wrap:
          (next, { task }) =>
          (params) => {
            note("typed", task)
            return next(params)
          }
      }),
      Middleware.lifecyclePerRun({
        name: "per run",
        make: ({ turnId }) => ({
          wrapModelCall:
            (next, { runTurnId, task }) =>
            (params) => {
              note(runTurnId === undefined || runTurnId === turnId ? "own" : "other", task)
              return next(params)
            }
        })
      }),
      Middleware.llmExecution({
        name: "attempt",
        wrap:
          (next, { task }) =>
          (request) => {
            note("attempt", task)
            return next(request)
          }
      })
    ])
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Look" })
      const call = (task: string) => [`plain:${task}`, `typed:${task}`, `own:${task}`, `attempt:${task}`]
      assert.deepStrictEqual(seen, [...call("main"), ...call("vision"), ...call("main")])
    }).pipe(Effect.provide(runtime))
  })

  it.effect(
    "wrap_model_call sees each call of a task that continues a conversation, and no call in its answer runs",
    () => {
      const seen: Array<string> = []
      const fake = Fake.make(look, Fake.text("the note"))
      const runtime = runtimeOf(fake, [
        Middleware.wrapModelCall({
          name: "note",
          wrap:
            (next, { task = "main" }) =>
            (params) => {
              const last = params.call.messages.at(-1)
              seen.push(`${task}:${last === undefined ? "" : Conversation.readText(last)}`)
              return next(params)
            }
        })
      ])
      const say = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
      return Effect.gen(function* () {
        const primary = yield* Effect.flatMap(ModelRouter, (router) => router.primary)
        const route: RouteInfo = { ...primary, abilities: { cacheMarks: "envelope" } }
        const prefix = { route, named: undefined, messages: [say("hello")], tools: [], cache: { ttl: "5m" } } as const
        const { call, used } = yield* Auxiliary
        const { text } = yield* call("compression", {
          messages: [say("a copy ".repeat(10_000))],
          continuation: { prefix, question: say("Write a note."), outputTokens: 100 },
          context
        })
        assert.strictEqual(text, "the note")
        assert.deepStrictEqual(seen, [
          "compression:Write a note.",
          "compression:Write a note.Answer with text alone. Your answer before called a tool, and the call was not run."
        ])
        assert.strictEqual((yield* used).get("compression")?.usage.requestCount, 2)
      }).pipe(Effect.provide(runtime))
    }
  )

  it.effect("a continued task whose answer is cut by the output limit is asked with its material in full", () => {
    const cut: Fake.Turn = () => Effect.succeed({ ...Fake.textAnswer("the beginning of"), finishReason: "length" })
    const say = (text: string) => Prompt.userMessage({ content: [Prompt.textPart({ text })] })
    return Effect.gen(function* () {
      const primary = yield* Effect.flatMap(ModelRouter, (router) => router.primary)
      const route: RouteInfo = { ...primary, abilities: { cacheMarks: "envelope" } }
      const prefix = { route, named: undefined, messages: [say("hello")], tools: [], cache: { ttl: "5m" } } as const
      const { call } = yield* Auxiliary
      const { text } = yield* call("compression", {
        messages: [say("a copy ".repeat(10_000))],
        continuation: { prefix, question: say("Write a note."), outputTokens: 100 },
        context
      })
      assert.strictEqual(text, "the note")
    }).pipe(Effect.provide(runtimeOf(Fake.make(cut, Fake.text("the note")), [])))
  })

  it.effect("the calls of the runtime's LanguageModel are side tasks, whole and streamed", () => {
    const seen: Array<string | undefined> = []
    const runtime = runtimeOf(Fake.make(Fake.pieces("the ", "SECRET")), [
      Middleware.wrapModelCall({
        name: "mask",
        wrap:
          (next, { task }) =>
          (params) => {
            seen.push(task)
            return next(params, {
              onPart: (parts) =>
                Effect.succeed(
                  parts.map((part) =>
                    part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part
                  )
                )
            })
          }
      })
    ])
    return Effect.gen(function* () {
      const { text } = yield* LanguageModel.generateText({ prompt: "Say it" })
      assert.strictEqual(text, "the [x]")
      const parts: Array<string> = []
      yield* LanguageModel.streamText({ prompt: "Say it" }).pipe((stream) =>
        Stream.runForEach(stream, (part) =>
          Effect.sync(() => void (part.type === "text-delta" && parts.push(part.delta)))
        )
      )
      assert.strictEqual(parts.join(""), "the [x]")
      assert.deepStrictEqual(seen, ["language_model", "language_model"])
    }).pipe(Effect.provide(runtime))
  })

  it.effect("onPart and stream_part guard the whole answers of side tasks", () => {
    const mask = Middleware.wrapModelCall({
      name: "mask",
      onFailure: "closed",
      wrap: (next) => (params) =>
        next(params, {
          onPart: (parts) =>
            Effect.succeed(
              parts.map((part) =>
                part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("SECRET", "[x]") } : part
              )
            )
        })
    })
    const streamed = Middleware.lifecycle({
      name: "stream",
      streamPart: ({ parts }) =>
        Middleware.withModifications({
          parts: parts.map((part) =>
            part.type === "text-delta" ? { ...part, delta: part.delta.replaceAll("TOKEN", "[y]") } : part
          )
        })
    })
    return Effect.gen(function* () {
      assert.strictEqual((yield* ask("title")).text, "the [x] and [y]")
    }).pipe(Effect.provide(runtimeOf(Fake.make(Fake.text("the SECRET and TOKEN")), [mask, streamed])))
  })

  it.effect("a side task that a wrapper requests passes all other wrappers, and not that one again", () => {
    const seen: Array<string> = []
    const judge = Middleware.wrapModelCall<never, never, Auxiliary>({
      name: "judge",
      wrap:
        (next, { task }) =>
        (params) =>
          Effect.gen(function* () {
            seen.push(`judge:${task ?? "main"}`)
            yield* Effect.orDie(ask("verdict", "Is it fine?"))
            return yield* next(params)
          })
    })
    const attempts = Middleware.llmExecution<never, never, Auxiliary>({
      name: "attempts",
      wrap:
        (next, { task }) =>
        (request) =>
          Effect.gen(function* () {
            seen.push(`attempts:${task ?? "main"}`)
            yield* Effect.orDie(ask("check", "Is it fine?"))
            return yield* next(request)
          })
    })
    const other = Middleware.wrapModelCall({
      name: "other",
      wrap:
        (next, { task }) =>
        (params) => {
          seen.push(`other:${task ?? "main"}`)
          return Effect.map(next(params), (answer) => answer)
        }
    })
    const fake = Fake.make(Fake.text("fine"))
    return Effect.gen(function* () {
      yield* Agent.run({ prompt: "Hello" })
      assert.deepStrictEqual(seen, [
        "other:main",
        "judge:main",
        // What the judge asks: its attempt asks too, which passes neither of the two.
        "other:verdict",
        "attempts:verdict",
        "other:check",
        // The call itself, whose attempt asks a question that passes the judge.
        "attempts:main",
        "other:check",
        "judge:check",
        "other:verdict"
      ])
    }).pipe(Effect.provide(runtimeOf(fake, [other, contained(judge), contained(attempts)])))
  })
})

describe("the middleware of the library around side tasks", () => {
  const overloaded = new AiError.InternalProviderError({ description: "overloaded" })
  const failing = Fake.make(() => Effect.fail(Fake.failure(overloaded)))

  it.effect(
    "a failover does not replace the route that was chosen for a side task, and counts no failure of it",
    () => {
      const failover = LlmFailover.make({
        trigger: { statusCodes: [500], exceptionTypes: ["InternalProviderError"] },
        fallbackProviders: [{ name: "backup", llmConfig: { provider: "custom", base_url: "http://127.0.0.1:9/v1" } }],
        circuitBreaker: { failureThreshold: 1, recoveryTimeoutSeconds: 60 }
      })
      const asked: Array<string> = []
      const call = (task: string | undefined, route: Route | undefined) =>
        Effect.exit(
          failover.run.wrap(
            (params) =>
              Effect.suspend(() => {
                asked.push(params?.route?.model ?? "main")
                return Effect.fail(Fake.failure(overloaded))
              }),
            { ...context, platform: "p", apiCallCount: 1, task }
            // The parameters of a call are those of the failover.
          )({ call: { messages: [] } as never, route }) as Effect.Effect<unknown, unknown>
        )
      const own = { ...failing.provider.info, provider: "custom", model: "eyes" } as Route
      return Effect.gen(function* () {
        yield* call("vision", own)
        yield* call("vision", own)
        assert.deepStrictEqual(asked, ["eyes", "eyes"])
      })
    }
  )

  it.effect("an audit names the task, and a cache does not answer it", () => {
    const entries: Array<string> = []
    const fake = Fake.make(Fake.text("a title"))
    return Effect.gen(function* () {
      yield* ask("title")
      yield* ask("title")
      assert.deepStrictEqual(entries, ["begin title", "end title", "begin title", "end title"])
      assert.strictEqual(fake.executed.length, 2)
    }).pipe(
      Effect.provide(
        runtimeOf(fake, [
          Audit.make({ write: ({ phase, task }) => Effect.sync(() => entries.push(`${phase} ${task ?? "main"}`)) }),
          contained(ResponseCache.make({}))
        ]).pipe(Layer.provide(Persistence.layerMemory))
      )
    )
  })
})

describe("a plugin that asks a model in its own wrapper", () => {
  it.live("is not asked about its own question, also after it awaited something", () =>
    Effect.gen(function* () {
      const { at, hermes, keep } = yield* machine
      const { url } = yield* HttpServer.make((_, response) =>
        HttpServer.json(response, 200, {
          id: "c",
          object: "chat.completion",
          model: "m",
          choices: [{ index: 0, message: { role: "assistant", content: "fine" }, finish_reason: "stop" }],
          usage: { prompt_tokens: 1, completion_tokens: 1, total_tokens: 2 }
        })
      )
      keep(
        "config.yaml",
        `model: { provider: custom, default: m, base_url: ${url}/v1, api_key: k, streaming: false }\n` +
          "plugins: { enabled: [judge] }\n"
      )
      keep("plugins/judge/plugin.yaml", "name: judge\n")
      keep(
        "plugins/judge/index.js",
        `import { appendFileSync } from "node:fs"
        const say = (line) => appendFileSync("judge.log", line + "\\n")
        export const register = (ctx) => {
          ctx.registerMiddleware("wrap_model_call", async ({ next_call, task }) => {
            say("call:" + (task ?? ""))
            await new Promise((resolve) => setTimeout(resolve))
            say("told " + await ctx.llm.complete("Is it fine?").catch((error) => error.message))
            return next_call()
          })
          ctx.registerMiddleware("llm_execution", async ({ next_call, task }) => {
            say("attempt:" + (task ?? ""))
            await new Promise((resolve) => setTimeout(resolve))
            await ctx.llm.complete("Is it good?").catch(() => say("failed"))
            return next_call()
          })
        }`
      )
      const { code, stderr, stdout } = yield* hermes(["chat", "-Q", "-q", "Go"])
      assert.deepStrictEqual([code, stdout.trim()], [0, "fine"], stderr)
      assert.deepStrictEqual(readFileSync(at("judge.log"), "utf8").trim().split("\n"), [
        "call:",
        "attempt:plugin",
        "told fine",
        "attempt:",
        "call:plugin",
        "told fine"
      ])
    })
  )
})
