import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as BigDecimal from "effect/BigDecimal"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as FileSystem from "effect/FileSystem"
import * as Redacted from "effect/Redacted"
import * as FetchHttpClient from "effect/http/FetchHttpClient"
import * as HttpClient from "effect/http/HttpClient"
import * as TestClock from "effect/testing/TestClock"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Usage from "../../../src/base/domain/Usage.ts"
import * as Catalogue from "../../../src/models/routing/Catalogue.ts"
import * as ContextWindow from "../../../src/models/routing/ContextWindow.ts"
import * as ModelTables from "../../../src/models/routing/catalogue/ModelTables.ts"
import * as ModelLists from "../../../src/models/routing/catalogue/ModelLists.ts"
import * as HttpServer from "../provider/HttpServer.ts"

const route = (provider: string, model: string, baseUrl?: string): Route => ({
  provider,
  model,
  apiMode: "chat_completions",
  ...(baseUrl === undefined ? {} : { baseUrl })
})

const openRouterBody = {
  data: [
    {
      id: "anthropic/claude-opus-4.6",
      context_length: 1_000_000,
      top_provider: { context_length: 1_000_000, max_completion_tokens: 128_000 },
      architecture: { input_modalities: ["text", "image"] },
      supported_parameters: ["tools", "reasoning", "temperature"],
      pricing: { prompt: "0.000005", completion: "0.000025", input_cache_read: "0.0000005", request: "0" }
    },
    { id: "openrouter/auto", context_length: 2_000_000, pricing: { prompt: "-1", completion: "-1" } }
  ]
}

type Settings = Catalogue.Options["settings"]

const settings = (
  model: Partial<Settings["model"]> = {},
  customProviders: Settings["customProviders"] = []
): Settings => ({ model: { provider: "auto", streaming: true, ...model }, customProviders })

const make = (options: Partial<Catalogue.Options> = {}) =>
  Catalogue.make({
    settings: settings(),
    windows: ContextWindow.makeInMemory(),
    lists: ModelLists.none,
    get: () => Effect.succeed(undefined),
    post: () => Effect.succeed(undefined),
    ...options
  })

const scratch = Effect.flatMap(FileSystem.FileSystem, (fs) => fs.makeTempDirectoryScoped())

describe("Catalogue", () => {
  it.live("a server that answers with another's address takes no key there", () =>
    Effect.gen(function* () {
      const other = yield* HttpServer.make((_, response) => HttpServer.json(response, 200, { data: [] }))
      const server = yield* HttpServer.make(({ url }, response) =>
        response.writeHead(307, { location: `${other.url}${url}` }).end()
      )
      const { get, post } = yield* ModelLists.lazy
      const window = make({ get, post }).window({
        ...route("custom", "m", `${server.url}/v1`),
        apiKey: Redacted.make("planted-key")
      })
      assert.strictEqual((yield* window).source, "default")
      assert.isTrue(server.requests.some(({ headers }) => headers.authorization === "Bearer planted-key"))
      assert.notInclude(JSON.stringify(other.requests.map(({ body, headers, url }) => [body, headers, url])), "planted")
    })
  )

  it.effect("options of the main model are for its route, not for a model of the same name elsewhere", () =>
    Effect.gen(function* () {
      const local = {
        provider: "custom",
        default: "a/b",
        baseUrl: "https://mine.example/v1/?tenant=a",
        contextLength: 9_000,
        ollamaNumCtx: 9_000
      }
      const { extraBody, window } = make({ settings: settings(local) })
      const main = route("custom", "a/b", "https://mine.example/v1")
      assert.deepStrictEqual(yield* window(main), { tokens: 9_000, source: "config" })
      assert.deepStrictEqual(yield* extraBody(main), { options: { num_ctx: 9_000 } })
      for (const other of [
        route("openrouter", "a/b", "https://openrouter.ai/api/v1"),
        route("custom", "a/b", "https://other.example/v1")
      ]) {
        assert.strictEqual((yield* window(other)).source, "default")
        assert.isUndefined(yield* extraBody(other))
      }
      const named = make({ settings: settings({ provider: "lab", default: "m", contextLength: 9_000 }) })
      assert.deepStrictEqual(yield* named.window(route("custom:lab", "m", "https://lab.example/v1")), {
        tokens: 9_000,
        source: "config"
      })
    })
  )

  it.effect("the window comes from the user, then refusals, then who serves it, then the table, then the default", () =>
    Effect.gen(function* () {
      const own = make({ settings: settings({ default: "claude-opus-4.6", contextLength: 90_000 }) })
      assert.deepStrictEqual(yield* own.window(route("anthropic", "claude-opus-4.6")), {
        tokens: 90_000,
        source: "config"
      })
      assert.deepStrictEqual(yield* own.window(route("anthropic", "claude-haiku-4-5")), {
        tokens: 200_000,
        source: "table"
      })

      const windows = ContextWindow.makeInMemory()
      const learnt = make({ windows, lists: { at: () => Effect.succeed(ModelLists.readList(openRouterBody)) } })
      const opus = route("openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1")
      assert.deepStrictEqual(yield* learnt.window(opus), { tokens: 1_000_000, source: "openrouter" })
      yield* windows.confirm(opus, 123_456)
      assert.deepStrictEqual(yield* learnt.window(opus), { tokens: 123_456, source: "learnt" })
      assert.deepStrictEqual(yield* make().window(route("custom", "nobody-1", "https://x.example/v1")), {
        tokens: 128_000,
        source: "default"
      })
    })
  )

  it.effect("a named endpoint says what its models hold", () =>
    Effect.gen(function* () {
      const catalogue = make({
        settings: settings({}, [
          { name: "Mine", baseUrl: "https://mine.example/v1", models: { "m-1": { contextLength: 77_777 } } }
        ])
      })
      const window = yield* catalogue.window(route("custom:mine", "m-1", "https://mine.example/v1"))
      assert.strictEqual(window.tokens, 77_777)
    })
  )

  it.effect("the user's price is the main model's, also where another source has one or the use is included", () =>
    Effect.gen(function* () {
      const price = { input: 1.5, output: 2, request: 0.01 }
      const used = { ...Usage.zero, inputTokens: 1_000_000, outputTokens: 500_000, requestCount: 1 }
      const own = make({ settings: settings({ provider: "anthropic", default: "claude-opus-4.6", price }) })
      const cost = yield* own.cost(route("anthropic", "claude-opus-4.6"), used)
      assert.deepInclude(cost, { label: "~$2.51", source: "user_override", status: "estimated" })
      assert.strictEqual((yield* own.known(route("anthropic", "claude-opus-4.6"))).cost(used).label, "~$2.51")
      assert.strictEqual(
        (yield* own.cost(route("anthropic", "claude-haiku-4.5"), used)).source,
        "official_docs_snapshot"
      )
      const cached = yield* own.cost(route("anthropic", "claude-opus-4.6"), { ...used, cacheReadTokens: 5 })
      assert.strictEqual(cached.status, "unknown")
      const codex = make({ settings: settings({ provider: "openai-codex", default: "gpt-5", price }) })
      assert.strictEqual((yield* codex.cost(route("openai-codex", "gpt-5"), used)).label, "~$2.51")
    })
  )

  it.effect("facts and price of a listed model are the list's, exactly", () =>
    Effect.gen(function* () {
      const catalogue = make({ lists: { at: () => Effect.succeed(ModelLists.readList(openRouterBody)) } })
      const opus = route("openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1")
      const facts = yield* catalogue.facts(opus)
      assert.deepInclude(facts, { output: 128_000, vision: true, reasoning: true, tools: true, known: true })
      const cost = yield* catalogue.cost(opus, { ...Usage.zero, inputTokens: 1_000_000, requestCount: 1 })
      assert.strictEqual(BigDecimal.format(cost.amount ?? BigDecimal.fromBigInt(0n)), "5")
      assert.include(cost.notes[0], "estimate")
      const auto = yield* catalogue.cost(route("openrouter", "openrouter/auto"), { ...Usage.zero, inputTokens: 5 })
      assert.strictEqual(auto.status, "unknown")
    })
  )

  it.effect("o3 costs what it has cost since June 2025, without a list", () =>
    Effect.gen(function* () {
      const o3 = route("openai", "o3", "https://api.openai.com/v1")
      const million = (what: "inputTokens" | "outputTokens" | "cacheReadTokens") =>
        Effect.map(make().cost(o3, { ...Usage.zero, [what]: 1_000_000, requestCount: 1 }), ({ amount }) =>
          amount === undefined ? "unknown" : BigDecimal.format(amount)
        )
      assert.deepStrictEqual(
        [yield* million("inputTokens"), yield* million("outputTokens"), yield* million("cacheReadTokens")],
        ["2", "8", "0.5"]
      )
    })
  )

  it.effect("a model that nobody describes is noticed once", () =>
    Effect.gen(function* () {
      const catalogue = make()
      const unknown = route("custom", "nobody-1", "https://x.example/v1")
      assert.include(
        yield* catalogue.notice(unknown),
        'Context size of "nobody-1" is unknown; assuming 128,000 tokens. Set model.context_length'
      )
      assert.isUndefined(yield* catalogue.notice(unknown))
      assert.isUndefined(yield* catalogue.notice(route("anthropic", "claude-opus-4.6")))
    })
  )

  it.effect(
    "a call waits a second at most for a silent endpoint, the next ones not at all, and the tables stand in",
    () =>
      Effect.gen(function* () {
        let asked = 0
        const never = () => Effect.suspend(() => (asked++, Effect.never))
        for (const baseUrl of ["http://127.0.0.1:9/v1", "https://models.example/v1"]) {
          asked = 0
          const silent = make({ get: never, post: never, lists: { at: never } })
          const at = route("custom", "gpt-4o", baseUrl)
          const first = yield* Effect.forkChild(
            Effect.all([silent.known(at), silent.extraBody(at)], { concurrency: 2 }),
            { startImmediately: true }
          )
          yield* TestClock.adjust("1 second")
          const [known, body] = yield* Fiber.join(first)
          assert.deepStrictEqual(known.window, { tokens: 128_000, source: "table" })
          assert.isUndefined(body)
          // Nothing moves the clock: whoever waits now waits for ever.
          assert.deepStrictEqual((yield* silent.known(route("custom", "gpt-4o", baseUrl))).window, known.window)
          assert.isUndefined(yield* silent.extraBody(at))
          assert.strictEqual(asked, 1)
        }
      })
  )

  it.effect("an endpoint that answers late is heeded from then on", () =>
    Effect.gen(function* () {
      let asked = 0
      const listed = Effect.succeed(ModelLists.readList({ data: [{ id: "m", context_length: 50_000 }] }))
      const catalogue = make({
        lists: { at: () => Effect.suspend(() => (asked++ === 0 ? Effect.delay(listed, "3 seconds") : listed)) }
      })
      const at = route("custom", "m", "https://models.example/v1")
      const first = yield* Effect.forkChild(catalogue.known(at), { startImmediately: true })
      yield* TestClock.adjust("1 second")
      assert.strictEqual((yield* Fiber.join(first)).window.tokens, Catalogue.defaultWindow)
      yield* TestClock.adjust("2 seconds")
      assert.deepStrictEqual((yield* catalogue.known(at)).window, { tokens: 50_000, source: "endpoint" })
    })
  )

  it.effect("what is known of a route is looked up again after five minutes, and a refusal counts at once", () =>
    Effect.gen(function* () {
      let asked = 0
      const lists = { at: () => Effect.sync(() => (asked++, ModelLists.readList(openRouterBody))) }
      const catalogue = make({ lists })
      const opus = route("openrouter", "anthropic/claude-opus-4.6", "https://openrouter.ai/api/v1")
      yield* catalogue.known(opus)
      const once = asked
      yield* catalogue.known(opus)
      assert.strictEqual(asked, once)
      catalogue.probing.learnt(opus, { window: 90_000, stated: true })
      assert.deepStrictEqual((yield* catalogue.known(opus)).window, { tokens: 90_000, source: "learnt" })
      yield* TestClock.adjust("5 minutes")
      yield* catalogue.known(opus)
      assert.isAbove(asked, once)
    })
  )

  it("the longest part of the id counts, and never the reverse", () => {
    assert.strictEqual(ModelTables.findFamily("gpt-4o-2024-11-20")?.window, 128_000)
    assert.strictEqual(ModelTables.findFamily("gpt-4-0613")?.window, 8_192)
    assert.strictEqual(ModelTables.findFamily("openai/gpt-4.1-mini")?.window, 1_047_576)
    assert.strictEqual(ModelTables.findFamily("us.anthropic.claude-sonnet-4-5-20250929-v1:0")?.window, 200_000)
    assert.isUndefined(ModelTables.findFamily("gpt"))
  })

  it("the name of a provider before the id is taken off, the tag of a local model is not", () => {
    assert.strictEqual(ModelTables.stripProvider("anthropic:claude-opus-4.6"), "claude-opus-4.6")
    assert.strictEqual(ModelTables.stripProvider("qwen:7b"), "qwen:7b")
    assert.strictEqual(ModelTables.stripProvider("deepseek:latest"), "deepseek:latest")
    assert.strictEqual(ModelTables.stripProvider("qwen:q4_K_M"), "qwen:q4_K_M")
    assert.strictEqual(ModelTables.stripProvider("llama3:custom"), "llama3:custom")
  })

  it("a window is found under every name that servers have for it, when it is plausible", () => {
    const window = (entry: object) => ModelLists.readList({ data: [{ id: "m", ...entry }] })[0]?.window
    assert.strictEqual(window({ max_model_len: 32_768 }), 32_768)
    assert.strictEqual(window({ meta: { n_ctx_train: 131_072 } }), 131_072)
    assert.strictEqual(window({ context_window: "65536" }), 65_536)
    assert.isUndefined(window({ context_length: 12 }))
    assert.isUndefined(window({ context_length: 99_000_000 }))
  })

  it("local servers say what they were started with before what the model could hold", () => {
    assert.strictEqual(ModelLists.readLlamaCppWindow({ default_generation_settings: { n_ctx: 16_384 } }), 16_384)
    assert.strictEqual(
      ModelLists.readOllamaWindow({
        parameters: "stop x\nnum_ctx 8192",
        model_info: { "llama.context_length": 131_072 }
      }),
      8_192
    )
    assert.strictEqual(ModelLists.readOllamaWindow({ model_info: { "llama.context_length": 131_072 } }), 131_072)
    const data = [{ id: "m", loaded_context_length: 4_096, max_context_length: 32_768 }]
    assert.strictEqual(ModelLists.readLmStudioWindow({ data }, "m"), 4_096)
  })

  it.live("a local server is asked in its own ways, once", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make(({ url }, response) =>
        url === "/api/show"
          ? HttpServer.json(response, 200, { model_info: { "qwen2.context_length": 40_960 } })
          : HttpServer.json(response, 404, {})
      )
      const client = yield* HttpClient.HttpClient
      const catalogue = make({ get: ModelLists.makeGetJson(client), post: ModelLists.makePostJson(client) })
      const local = route("ollama", "qwen2.5:7b", `${server.url}/v1`)
      assert.deepStrictEqual(yield* catalogue.window(local), { tokens: 40_960, source: "local" })
      yield* catalogue.window(local)
      assert.deepStrictEqual(
        server.requests.map(({ url }) => url),
        ["/v1/props", "/api/show"]
      )
    }).pipe(Effect.provide(FetchHttpClient.layer))
  )

  it("a window below the least is refused, unless the user named it", () => {
    const small = Catalogue.requireWindow(route("custom", "tiny", "http://x"), { tokens: 32_000, source: "endpoint" })
    assert.include(Effect.runSync(Effect.flip(small)).message, "tiny holds 32000 tokens, and an agent needs 64000")
    Effect.runSync(Catalogue.requireWindow(route("custom", "tiny"), { tokens: 32_000, source: "config" }))
  })

  it("Ollama is told to hold what was found, and never more than the user allows", () => {
    assert.deepStrictEqual(ContextWindow.makeOllamaBody({}, 40_960), { options: { num_ctx: 40_960 } })
    assert.deepStrictEqual(ContextWindow.makeOllamaBody({ contextLength: 16_000 }, 40_960), {
      options: { num_ctx: 16_000 }
    })
    assert.deepStrictEqual(ContextWindow.makeOllamaBody({ ollamaNumCtx: 8_000 }, 40_960), {
      options: { num_ctx: 8_000 }
    })
    assert.isUndefined(ContextWindow.makeOllamaBody({}, undefined))
  })
})

describe("ModelLists", () => {
  const counting = (answers: { body: unknown }) => {
    const asked: Array<string> = []
    const get: ModelLists.GetJson = (url, key) =>
      Effect.sync(() => {
        asked.push(key === undefined ? url : `${url} ${Redacted.value(key)}`)
        return answers.body
      })
    return { asked, get }
  }
  const url = "https://openrouter.ai/api/v1"

  it.effect("a list is asked for once an hour, by all who want it", () =>
    Effect.gen(function* () {
      const { asked, get } = counting({ body: openRouterBody })
      const home = yield* scratch
      const lists = yield* ModelLists.make(home, get)
      yield* Effect.all([lists.at(url), lists.at(url), lists.at(url)], { concurrency: "unbounded" })
      assert.deepStrictEqual(asked, [`${url}/models`])
      const other = yield* ModelLists.make(home, get)
      assert.strictEqual((yield* other.at(url)).length, 2)
      assert.strictEqual(asked.length, 1)
      yield* TestClock.adjust("61 minutes")
      yield* lists.at(url)
      assert.strictEqual(asked.length, 2)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("when nobody answers the last list counts, and the next try waits", () =>
    Effect.gen(function* () {
      const answers: { body: unknown } = { body: openRouterBody }
      const { asked, get } = counting(answers)
      const lists = yield* ModelLists.make(yield* scratch, get)
      yield* lists.at(url)
      answers.body = undefined
      yield* TestClock.adjust("61 minutes")
      assert.strictEqual((yield* lists.at(url)).length, 2)
      assert.strictEqual((yield* lists.at(url)).length, 2)
      assert.strictEqual(asked.length, 2)
      yield* TestClock.adjust("5 minutes")
      yield* lists.at(url)
      assert.strictEqual(asked.length, 3)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a list of this machine, and an answer that is no list, count for five minutes in other programs too", () =>
    Effect.gen(function* () {
      for (const body of [openRouterBody, null]) {
        const { asked, get } = counting({ body })
        const home = yield* scratch
        const at = "http://127.0.0.1:9/v1"
        const ask = Effect.flatMap(ModelLists.make(home, get), (lists) => lists.at(at))
        const first = yield* ask
        assert.deepStrictEqual(yield* ask, first)
        assert.lengthOf(asked, 1)
        yield* TestClock.adjust("6 minutes")
        yield* ask
        assert.lengthOf(asked, 2)
      }
      // Nobody answered: the server may be starting.
      const { asked, get } = counting({ body: undefined })
      const home = yield* scratch
      yield* Effect.flatMap(ModelLists.make(home, get), (lists) => lists.at(url))
      yield* Effect.flatMap(ModelLists.make(home, get), (lists) => lists.at(url))
      assert.lengthOf(asked, 2)
    }).pipe(Effect.provide(NodeServices.layer))
  )

  it.effect("a list has no key in its file, and a broken file is no obstacle", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* scratch
      const { get } = counting({ body: openRouterBody })
      const lists = yield* ModelLists.make(home, get)
      yield* lists.at("http://127.0.0.1:9/v1", Redacted.make("secret"))
      assert.notInclude(yield* fs.readFileString(`${home}/cache/models.json`), "secret")
      yield* fs.writeFileString(`${home}/cache/models.json`, "{ broken")
      assert.strictEqual((yield* lists.at(url)).length, 2)
      assert.notInclude(yield* fs.readFileString(`${home}/cache/models.json`), "secret")
    }).pipe(Effect.provide(NodeServices.layer))
  )
})

describe("ContextWindow", () => {
  it.effect("what was confirmed is read again, beside what others wrote and people corrected", () =>
    Effect.gen(function* () {
      const fs = yield* FileSystem.FileSystem
      const home = yield* scratch
      const path = `${home}/${ContextWindow.fileName}`
      yield* fs.writeFileString(path, '"a@https://x/v1": 40000\n"b@https://x/v1": many\n')
      const windows = yield* ContextWindow.openFile(home)
      const a = route("custom", "a", "https://x/v1")
      const c = route("custom", "vendor/c:7b", "https://x/v1")
      assert.strictEqual(yield* windows.get(a), 40_000)
      assert.isUndefined(yield* windows.get(route("custom", "b", "https://x/v1")))
      yield* windows.confirm(c, 32_768)
      const again = yield* ContextWindow.openFile(home)
      assert.strictEqual(yield* again.get(c), 32_768)
      assert.strictEqual(yield* again.get(a), 40_000)
      assert.include(yield* fs.readFileString(path), "vendor/c:7b@https://x/v1: 32768")
    }).pipe(Effect.provide(NodeServices.layer))
  )
})
