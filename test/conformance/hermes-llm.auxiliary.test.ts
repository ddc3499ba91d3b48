import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as AiError from "effect/ai/AiError"
import * as Prompt from "effect/ai/Prompt"
import * as Response from "effect/ai/Response"
import * as TestClock from "effect/testing/TestClock"
import type { Route } from "../../src/base/domain/Route.ts"
import * as Hooks from "../../src/hooks/Hooks.ts"
import * as Auxiliary from "../../src/models/routing/Auxiliary.ts"
import * as TaskRoutes from "../../src/models/routing/TaskRoutes.ts"
import * as Stack from "../../src/middleware/Stack.ts"
import * as Failover from "../support/failover.ts"
import * as Fake from "../support/fakeModel.ts"
import { ids } from "../support/middlewareContexts.ts"

type Settings = Auxiliary.Options["settings"]

const settings = (
  rest: Partial<Omit<Settings, "model">> & { readonly model?: Partial<Settings["model"]> } = {}
): Settings => ({
  auxiliary: {},
  customProviders: [],
  credentials: {},
  ...rest,
  model: { provider: "auto", streaming: true, ...rest.model }
})

const lookupOf = (variables: Readonly<Record<string, string>>) => (name: string) =>
  variables[name] === undefined ? undefined : Redacted.make(variables[name])

const world = (
  variables: Readonly<Record<string, string>>,
  rest: Partial<TaskRoutes.TaskSurroundings> & { readonly main?: TaskRoutes.TaskSurroundings["main"] } = {}
): TaskRoutes.TaskSurroundings => ({
  settings: settings(),
  lookup: lookupOf(variables),
  main: { provider: "", model: "", apiMode: "chat_completions", baseUrl: undefined },
  pool: () => undefined,
  resting: new Set(),
  ...rest
})

const labels = (
  world: TaskRoutes.TaskSurroundings,
  task = "compression",
  overrides: TaskRoutes.Overrides = {}
): ReadonlyArray<string> =>
  Result.getOrThrow(TaskRoutes.chooseCandidates(world, task, overrides, task === "vision")).candidates.map(
    ({ label }) => label
  )

const first = (
  world: TaskRoutes.TaskSurroundings,
  task = "compression",
  overrides: TaskRoutes.Overrides = {}
): Route | undefined =>
  Result.getOrThrow(TaskRoutes.chooseCandidates(world, task, overrides, task === "vision")).candidates[0]?.route

const main = (provider: string, model: string) => ({
  provider,
  model,
  apiMode: "chat_completions" as const,
  baseUrl: undefined
})

describe("hermes-llm auxiliary roles", () => {
  it("T46 Codex comes before a provider with a key, which does it by its own small model", () => {
    assert.deepStrictEqual(labels(world({ CODEX_ACCESS_TOKEN: "t", GEMINI_API_KEY: "g" })), [
      "openai-codex",
      "gemini",
      "main"
    ])
    assert.deepInclude(first(world({ GEMINI_API_KEY: "g" })), { provider: "gemini", model: "gemini-3-flash-preview" })
  })

  it("T46 the seed's order, for text and for images (decision D7, D8)", () => {
    const all = world(
      {
        OPENROUTER_API_KEY: "o",
        NOUS_API_KEY: "n",
        OPENAI_BASE_URL: "http://127.0.0.1:9/v1",
        CODEX_ACCESS_TOKEN: "c",
        ANTHROPIC_API_KEY: "a",
        ZAI_API_KEY: "z"
      },
      { main: main("deepseek", "deepseek-chat") }
    )
    assert.deepStrictEqual(labels(all), ["openrouter", "nous", "custom", "openai-codex", "anthropic", "zai", "main"])
    assert.deepStrictEqual(labels({ ...all, main: main("gemini", "gemini-3-pro") }, "vision"), [
      "main",
      "openrouter",
      "nous",
      "openai-codex",
      "anthropic",
      "custom"
    ])
    assert.strictEqual(labels(all, "vision")[0], "openrouter")
  })

  it("T47 a provider whose pool is spent is not available, whatever the environment holds", () => {
    const spent = world(
      { OPENROUTER_API_KEY: "o", ANTHROPIC_API_KEY: "a" },
      { pool: (provider) => (provider === "openrouter" ? { _tag: "Spent" } : undefined) }
    )
    assert.deepStrictEqual(labels(spent), ["anthropic", "main"])
    const pooled = world(
      {},
      { pool: (name) => (name === "openrouter" ? { _tag: "Key", key: Redacted.make("p") } : undefined) }
    )
    assert.strictEqual(Redacted.value(first(pooled)?.apiKey ?? Redacted.make("")), "p")
  })

  it("T52 images go to what the main provider has for them, and an explicit provider that is not there gives way", () => {
    const keys = { XIAOMI_API_KEY: "x", NOUS_API_KEY: "n" }
    assert.deepInclude(first(world(keys, { main: main("xiaomi", "mimo-v2-pro") }), "vision"), { model: "mimo-v2-omni" })
    assert.deepInclude(first(world(keys, { main: main("nous", "hermes-4-405b") }), "vision"), {
      provider: "nous",
      model: "google/gemini-3-flash-preview"
    })
    const unavailable = settings({ auxiliary: { vision: { provider: "zai" } } })
    assert.strictEqual(first(world(keys, { settings: unavailable }), "vision")?.provider, "nous")
    const text = TaskRoutes.chooseCandidates(
      world(keys, { settings: settings({ auxiliary: { title: { provider: "zai" } } }) }),
      "title",
      {},
      false
    )
    assert.isTrue(Result.isFailure(text))
  })

  it("T53 a model in the form of aggregators is passed over at a local endpoint", () => {
    const local = settings({
      model: { baseUrl: "http://127.0.0.1:9/v1", default: "local-1" },
      auxiliary: { title: { provider: "auto", model: "google/gemini-3-flash" } }
    })
    assert.deepInclude(first(world({}, { settings: local }), "title"), { provider: "custom", model: "local-1" })
    const both = world({ OPENROUTER_API_KEY: "o" }, { settings: local })
    assert.deepInclude(first(both, "title"), { provider: "openrouter", model: "google/gemini-3-flash" })
  })

  it("explicit addresses and providers come alone: of the call, then of the configuration", () => {
    const configured = settings({
      auxiliary: {
        title: { provider: "auto", baseUrl: "http://127.0.0.1:8/v1", model: "t-1", apiKey: Redacted.make("k") }
      }
    })
    const keys = { OPENROUTER_API_KEY: "o", ZAI_API_KEY: "z" }
    const there = world(keys, { settings: configured })
    assert.deepInclude(first(there, "title"), { provider: "custom", baseUrl: "http://127.0.0.1:8/v1", model: "t-1" })
    assert.deepInclude(first(there, "title", { provider: "glm" }), { provider: "zai", model: "t-1" })
    assert.deepStrictEqual(labels(there, "title"), ["custom"])
  })

  it("while the main model is the offline stand-in no key of the environment is spent, and it does nothing itself", () => {
    assert.deepStrictEqual(labels(world({ OPENROUTER_API_KEY: "o" }, { main: main("offline", "offline") })), [])
  })
})

const primary: Route = { provider: "deepseek", model: "deepseek-chat", apiMode: "chat_completions" }

const auxiliary = (
  answers: (label: string) => Fake.Turn,
  options: Partial<Auxiliary.Options> = {},
  hooks: Hooks.Service = Effect.runSync(Hooks.make())
) => {
  const asked: Array<string> = []
  const failover = Failover.make(primary, ({ route }) => {
    const label = route?.provider ?? "main"
    asked.push(label)
    return answers(label)
  })
  const service = Auxiliary.make<never>({
    settings: settings(),
    router: failover.router,
    interceptors: { stack: Stack.make([]), hooks },
    lookup: lookupOf({ OPENROUTER_API_KEY: "o", ANTHROPIC_API_KEY: "a" }),
    ...options
  })
  return { asked, service }
}

const question: Auxiliary.TaskRequest = {
  messages: [Prompt.userMessage({ content: [Prompt.textPart({ text: "sum up" })] })],
  context: { sessionId: ids.sessionId, taskId: ids.taskId, turnId: ids.turnId }
}

const refused =
  (reason: AiError.AiErrorReason): Fake.Turn =>
  () =>
    Effect.fail(AiError.make({ module: "Fake", method: "execute", reason }))

const payment = refused(new AiError.QuotaExhaustedError({ metadata: { status: 402 } }))

describe("hermes-llm auxiliary calls", () => {
  it.effect("T48 when an account is empty the next provider does it, with its own model", () =>
    Effect.gen(function* () {
      const { asked, service } = auxiliary((label) => (label === "openrouter" ? payment : Fake.text("short")))
      const answer = yield* service.call("compression", question)
      assert.strictEqual(answer.text, "short")
      assert.deepInclude(answer.route, { provider: "anthropic", model: "claude-haiku-4-5-20251001" })
      assert.deepStrictEqual(asked, ["openrouter", "anthropic"])
    })
  )

  it.effect("T49 a 429 that speaks of credits is about payment, a plain one goes up", () =>
    Effect.gen(function* () {
      const limited = (message: string) =>
        refused(
          new AiError.RateLimitError({
            metadata: { status: 429 },
            http: { response: { status: 429, headers: {} }, body: JSON.stringify({ error: { message } }) }
          })
        )
      const poor = auxiliary((label) =>
        label === "openrouter" ? limited("you can only afford 10 tokens") : Fake.text("ok")
      )
      assert.strictEqual((yield* poor.service.call("title", question)).text, "ok")
      const busy = auxiliary((label) => (label === "openrouter" ? limited("rate limit") : Fake.text("ok")))
      const error = yield* Effect.flip(busy.service.call("title", question))
      assert.isTrue(AiError.isAiError(error) && error.reason._tag === "RateLimitError")
      assert.deepStrictEqual(busy.asked, ["openrouter"])
    })
  )

  it.effect("a provider that is left alone because its account has used up its limit is passed over (§5.2)", () =>
    Effect.gen(function* () {
      const closed: Fake.Turn = () =>
        Effect.fail(AiError.make({ module: "ModelRouter", method: "call", reason: new AiError.RateLimitError({}) }))
      const { asked, service } = auxiliary((label) => (label === "openrouter" ? closed : Fake.text("ok")))
      assert.strictEqual((yield* service.call("title", question)).text, "ok")
      assert.deepStrictEqual(asked, ["openrouter", "anthropic"])
    })
  )

  it.effect("T50 an explicit provider is a hard constraint", () =>
    Effect.gen(function* () {
      const { asked, service } = auxiliary(() => payment, {
        settings: settings({ auxiliary: { compression: { provider: "zai", apiKey: Redacted.make("z") } } })
      })
      const error = yield* Effect.flip(service.call("compression", question))
      assert.isTrue(AiError.isAiError(error) && error.reason._tag === "QuotaExhaustedError")
      assert.deepStrictEqual(asked, ["zai"])
    })
  )

  it.effect("each task has its own deadline, after which the next provider is asked", () =>
    Effect.gen(function* () {
      const { asked, service } = auxiliary((label) => (label === "openrouter" ? () => Effect.never : Fake.text("ok")), {
        settings: settings({ auxiliary: { title: { provider: "auto", timeout: 5 } } })
      })
      const fiber = yield* Effect.forkChild(service.call("title", question))
      yield* TestClock.adjust("4 seconds")
      assert.deepStrictEqual(asked, ["openrouter"])
      yield* TestClock.adjust("1 seconds")
      assert.strictEqual((yield* Fiber.join(fiber)).text, "ok")
      assert.deepStrictEqual(asked, ["openrouter", "anthropic"])
    })
  )

  it.effect("hooks see the call under its session, told by platform and turn, each with its own request id", () =>
    Effect.gen(function* () {
      const seen: Array<Record<string, unknown>> = []
      const hooks = yield* Hooks.make()
      yield* hooks.register(Hooks.on("pre_api_request", (event) => Effect.sync(() => void seen.push({ ...event }))))
      const { service } = auxiliary(() => Fake.text("ok"), {}, hooks)
      yield* service.call("compression", question)
      yield* service.call("title", question)
      assert.deepStrictEqual(
        seen.map(({ platform }) => platform),
        ["auxiliary:compression", "auxiliary:title"]
      )
      assert.deepStrictEqual(
        seen.map(({ session_id }) => session_id),
        [ids.sessionId, ids.sessionId]
      )
      assert.deepStrictEqual(
        seen.map(({ turn_id }) => turn_id),
        [`${ids.turnId}:compression:1`, `${ids.turnId}:title:2`]
      )
      assert.strictEqual(new Set(seen.map(({ api_request_id }) => api_request_id)).size, 2)
    })
  )

  it.effect("usage is counted for each task, and told to who asks for it", () =>
    Effect.gen(function* () {
      const recorded: Array<string> = []
      const { service } = auxiliary(() => Fake.text("ok"))
      const record: Auxiliary.TaskRequest["record"] = ({ route, usage }) =>
        Effect.sync(() => void recorded.push(`${route.provider} ${usage.inputTokens}`))
      yield* service.call("title", { ...question, record })
      yield* service.call("title", question)
      yield* service.call("compression", question)
      const used = yield* service.used
      assert.deepInclude(used.get("title")?.usage, { inputTokens: 20, outputTokens: 10, requestCount: 2 })
      assert.deepInclude(used.get("compression")?.usage, { requestCount: 1 })
      assert.deepStrictEqual(recorded, ["openrouter 10"])
    })
  )

  it.effect("a model that only thought is taken at its thoughts", () =>
    Effect.gen(function* () {
      const { service } = auxiliary(
        () => () => Effect.succeed(Fake.answer([Response.makePart("reasoning", { text: "hm" })], "stop"))
      )
      assert.strictEqual((yield* service.call("title", question)).text, "hm")
    })
  )

  it.effect("without any key the main provider does it; resolve says who would", () =>
    Effect.gen(function* () {
      const { asked, service } = auxiliary(() => Fake.text("ok"), { lookup: undefined })
      yield* service.call("title", question)
      assert.deepStrictEqual(asked, ["main"])
      assert.deepInclude(yield* service.resolve("title"), { provider: "deepseek" })
    })
  )
})
