// Texts that are no answers though the model ended them, and what a run makes of them.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Prompt from "effect/ai/Prompt"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as Agent from "../../src/agent/Agent.ts"
import * as AnswerRetryPolicy from "../../src/agent/AnswerRetryPolicy.ts"
import * as Conversation from "../../src/base/domain/Conversation.ts"
import { SessionId } from "../../src/base/domain/Ids.ts"
import type { RouteInfo } from "../../src/base/domain/Route.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as ModelRouter from "../../src/models/routing/ModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"
import * as Toolset from "../../src/tools/Toolset.ts"
import * as Fake from "../support/fakeModel.ts"

const codex: RouteInfo = { provider: "openai", model: "gpt-5.1-codex", apiMode: "codex_responses", baseUrl: undefined }
const glm: RouteInfo = {
  provider: "custom",
  model: "glm-4.7",
  apiMode: "chat_completions",
  baseUrl: "http://localhost:11434/v1"
}

const given: AnswerRetryPolicy.AnswerInput = { text: "", route: codex, asked: "", afterTools: false, anyResults: false }

describe("the kind of an answer", () => {
  it("announcements of a Responses model: intent, action and a place, before any tool ran", () => {
    const of = (text: string, more: Partial<AnswerRetryPolicy.AnswerInput> = {}) =>
      AnswerRetryPolicy.classifyAnswer({ ...given, text, ...more })
    assert.strictEqual(of("I'll look into the repository and report back."), "announcement")
    assert.strictEqual(of("I’m going to check that now.", { asked: "Why do the tests fail?" }), "announcement")
    assert.strictEqual(of("Let me search the files."), "announcement")
    assert.strictEqual(of("I'll look into it."), "answer", "nothing of a workspace")
    assert.strictEqual(of("The repository has two modules to read."), "answer", "no intent")
    assert.strictEqual(of("I'll be in the project."), "answer", "no action")
    assert.strictEqual(of("I'll look into the repository.", { anyResults: true }), "answer", "tools ran already")
    assert.strictEqual(of("I'll look into the repository.", { route: glm }), "answer", "another protocol")
    assert.strictEqual(of(`I'll look into the repository. ${"x".repeat(1_200)}`), "answer", "too long")
  })

  it("sentences that a GLM model behind Ollama left open after tool results", () => {
    const of = (text: string, more: Partial<AnswerRetryPolicy.AnswerInput> = {}) =>
      AnswerRetryPolicy.classifyAnswer({ ...given, route: glm, afterTools: true, text, ...more })
    assert.strictEqual(of("The file says that the function is"), "cut off")
    for (const end of [".", "!", "?", ":", ")", '"', "'", "]", "}", "```", "。", "」"]) {
      assert.strictEqual(of(`The file says that the function is${end}`), "answer", end)
    }
    assert.strictEqual(of("too short a text"), "answer")
    assert.strictEqual(of("word".repeat(10)), "answer", "no blank")
    assert.strictEqual(of("The file says that the function is", { afterTools: false }), "answer")
    assert.strictEqual(of("The file says that the function is", { route: { ...glm, model: "llama4" } }), "answer")
    assert.strictEqual(
      of("The file says that the function is", { route: { ...glm, baseUrl: "https://api.z.ai/v1" } }),
      "answer"
    )
  })
})

const Echo = Tool.make("echo", { parameters: Schema.Struct({ text: Schema.String }), success: Schema.String }).annotate(
  Tool.Readonly,
  true
)
const toolkit = Toolkit.make(Echo)

const setup = (
  fake: Fake.Fake,
  info: RouteInfo,
  change: (router: ModelRouter.ModelRouter["Service"]) => ModelRouter.ModelRouter["Service"] = (router) => router
) => {
  const router = ModelRouter.layer.pipe(Layer.provide(Layer.succeed(Provider, { ...fake.provider, info })))
  return Agent.layer({ cwd: "/tmp" }).pipe(
    Layer.provideMerge(
      Layer.mergeAll(
        Layer.effect(ModelRouter.ModelRouter, Effect.map(ModelRouter.ModelRouter, change)).pipe(Layer.provide(router)),
        SessionStore.layerMemory,
        ToolRegistry.layer([
          Toolset.make("test", toolkit, toolkit.toLayer({ echo: ({ text }) => Effect.succeed(text) }))
        ])
      )
    )
  )
}

const texts = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<string> =>
  messages.flatMap((message) =>
    message.role === "user" || message.role === "assistant"
      ? message.content.flatMap((part) => (part.type === "text" ? [`${message.role}: ${part.text}`] : []))
      : []
  )

const stored = Effect.fnUntraced(function* ({ sessionId }: { readonly sessionId: string }) {
  return yield* (yield* SessionStore.SessionStore).messages(SessionId.make(sessionId))
})

describe("a run", () => {
  it.effect("tells a model that announces its work to do it, twice at most, and stores no word of that", () => {
    const announces = Fake.text("I'll look into the repository.")
    const does = Fake.make(announces, Fake.calls(Fake.call("c1", "echo", { text: "x" })), Fake.text("Two modules."))
    const never = Fake.make(announces)
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "What is in here?" }).pipe(
        Effect.tap((result) =>
          Effect.map(stored(result), (messages) =>
            assert.deepStrictEqual(texts(messages), [
              "user: What is in here?",
              "assistant: I'll look into the repository.",
              "assistant: Two modules."
            ])
          )
        ),
        Effect.provide(setup(does, codex))
      )
      assert.deepInclude(result, { text: "Two modules.", exit: "text_response" })
      assert.match(texts(does.asked[1]?.messages ?? []).at(-1) ?? "", /^user: Do it now/)
      const idle = yield* Effect.provide(Agent.run({ prompt: "What is in here?" }), setup(never, codex))
      assert.deepInclude(idle, { text: "I'll look into the repository.", exit: "text_response", steps: 3 })
    })
  })

  it.effect("goes on with an answer that a server called complete in the middle of a sentence", () => {
    const fake = Fake.make(
      Fake.calls(Fake.call("c1", "echo", { text: "x" })),
      Fake.text("The file says that the "),
      Fake.text("answer is 42.")
    )
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "The file says that the answer is 42.", exit: "text_response" })
    }).pipe(Effect.provide(setup(fake, glm)))
  })

  it.effect(
    "T124 leaves a route whose answers stay empty, counts anew on the next, and says so when there is none left",
    () => {
      const fake = Fake.make(Fake.text(""))
      let left = 1
      const layer = setup(fake, glm, (router) => ({
        ...router,
        advance: () => Effect.sync(() => (left-- > 0 ? codex : undefined))
      }))
      return Effect.gen(function* () {
        const result = yield* Agent.run({ prompt: "go" })
        assert.deepInclude(result, { text: "(empty)", exit: "empty_response_exhausted", steps: 8 })
        assert.deepStrictEqual(texts(yield* stored(result)), ["user: go"])
      }).pipe(Effect.provide(layer))
    }
  )

  it.effect("takes blanks for no answer, and keeps nothing of them", () => {
    const fake = Fake.make(Fake.text(" \n"), Fake.text("hello"))
    return Effect.gen(function* () {
      const result = yield* Agent.run({ prompt: "go" })
      assert.deepInclude(result, { text: "hello", steps: 2 })
      assert.deepStrictEqual(texts(yield* stored(result)), ["user: go", "assistant: hello"])
    }).pipe(Effect.provide(setup(fake, glm)))
  })

  it.effect(
    "T109 results without a call are left out, open calls are closed right after them, and the history stays as it is",
    () => {
      const fake = Fake.make(Fake.text("ok"))
      return Effect.gen(function* () {
        const store = yield* SessionStore.SessionStore
        const first = yield* Agent.run({ prompt: "one" })
        const result = (id: string): Prompt.Message =>
          Conversation.makeToolResult({ id, name: "echo" }, { output: "late", isFailure: false })
        const open = Prompt.assistantMessage({
          content: [Prompt.toolCallPart({ id: "c1", name: "echo", params: {}, providerExecuted: false })]
        })
        yield* store.append(first.sessionId, [result("nobody"), open])
        const before = yield* store.messages(first.sessionId)
        yield* Agent.run({ prompt: "two", sessionId: first.sessionId })
        const asked = fake.asked[1]?.messages ?? []
        assert.deepStrictEqual(
          asked.map(({ role }) => role),
          ["system", "user", "assistant", "tool", "assistant", "user"]
        )
        assert.deepStrictEqual((yield* store.messages(first.sessionId)).slice(0, before.length), before)
      }).pipe(Effect.provide(setup(fake, glm)))
    }
  )
})
