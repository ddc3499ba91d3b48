import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import * as SettingSources from "../../../src/base/config/SettingSources.ts"
import * as RouteStatement from "../../../src/base/config/RouteStatement.ts"

const keys = ["apiKey", "keyEnv", "apiKeyEnv"] as const
const ofAddress = [...keys, "apiMode", "maxTokens", "contextLength", "ollamaNumCtx", "price"] as const
const ofProvider = ["baseUrl", ...ofAddress] as const

const a = "http://127.0.0.1:1/v1"
const b = "http://127.0.0.1:2/v1"

type Case = readonly [
  rule: string,
  weaker: RouteStatement.Statement,
  stronger: RouteStatement.Statement,
  gone: ReadonlyArray<RouteStatement.BoundMember>
]

const cases: ReadonlyArray<Case> = [
  ["neither named leaves all", { provider: "custom", baseUrl: a }, {}, []],
  ["the same provider leaves all", { provider: "custom", baseUrl: a }, { provider: "custom" }, []],
  ["an alias is the same provider", { provider: "claude" }, { provider: "Anthropic" }, []],
  [
    "another provider takes the address along",
    { provider: "custom", baseUrl: a },
    { provider: "anthropic" },
    ofProvider
  ],
  ["another address leaves the provider", { provider: "anthropic", baseUrl: a }, { baseUrl: b }, ofAddress],
  ["a port is another address", { baseUrl: "http://localhost:1" }, { baseUrl: "http://localhost:2" }, ofAddress],
  [
    "a path is another address",
    { baseUrl: "https://gateway.example/one" },
    { baseUrl: "https://gateway.example/two" },
    ofAddress
  ],
  [
    "a query is another address",
    { baseUrl: "https://gateway.example/v1?tenant=a" },
    { baseUrl: "https://gateway.example/v1?tenant=b" },
    ofAddress
  ],
  [
    "a trailing slash and the case of a host are none",
    { baseUrl: "https://Gateway.example/v1/" },
    { baseUrl: "https://gateway.example/v1" },
    []
  ],
  [
    "a provider stands for its own address",
    { provider: "openrouter" },
    { baseUrl: "https://openrouter.ai/api/v1/" },
    []
  ],
  ["its own address is not another one", { provider: "openrouter" }, { baseUrl: a }, ofAddress],
  [
    "an address belongs to the provider of its host",
    { baseUrl: "https://openrouter.ai/api/v1" },
    { provider: "openrouter" },
    []
  ],
  ["an address of nobody's is custom", { baseUrl: a }, { provider: "custom" }, []],
  ["an address of nobody's is no vendor's", { baseUrl: a }, { provider: "openai" }, ofProvider],
  [
    "an address completes custom, but a key without one was given for none",
    { provider: "custom" },
    { baseUrl: a },
    keys
  ],
  ["an address does not complete a named endpoint, which has one", { provider: "lab" }, { baseUrl: a }, ofAddress],
  ["a named endpoint is one by both of its names", { provider: "custom:Lab" }, { provider: "lab" }, []],
  ["a key that nobody said for whom goes", {}, { provider: "openai" }, keys],
  ["a key that nobody said where goes", { provider: "auto" }, { baseUrl: a }, keys],
  [
    "the search for a provider begins without another one's key",
    { provider: "anthropic" },
    { provider: "auto" },
    ofProvider
  ],
  ["the search that is on already goes on", { provider: "auto", baseUrl: a }, { provider: "auto" }, []],
  ["an empty text names nothing", { provider: "custom", baseUrl: a }, { provider: " ", baseUrl: "" }, []]
]

const settingsOf = (
  file: unknown,
  process: Record<string, string>,
  dotEnv: Record<string, string>,
  ...flags: ReadonlyArray<Config.Flag>
) =>
  Effect.map(
    Config.resolve({ file, environment: Environment.make(process, dotEnv), flags }),
    ({ settings }) => settings
  )

describe("RouteStatement", () => {
  for (const [rule, weaker, stronger, gone] of cases) {
    it(`${rule}`, () => assert.deepStrictEqual(RouteStatement.listSuperseded(weaker, stronger), gone))
  }

  it("what the stronger source says itself stays", () => {
    const made = RouteStatement.merge<
      RouteStatement.Statement & { readonly apiMode?: string; readonly model?: string }
    >(
      { provider: "custom", baseUrl: a, apiMode: "anthropic_messages", model: "m" },
      { baseUrl: b, apiMode: "codex_responses", model: undefined }
    )
    assert.deepStrictEqual(made, { provider: "custom", model: "m", baseUrl: b, apiMode: "codex_responses" })
  })
})

describe("the sources of a route", () => {
  const file = {
    model: {
      provider: "custom",
      default: "m",
      base_url: a,
      api_key: "planted",
      api_mode: "anthropic_messages",
      max_tokens: 9,
      context_length: 8192,
      streaming: false
    }
  }

  it.effect("each of them is laid over all below it, in the section of every kind of route", () =>
    Effect.gen(function* () {
      const {
        apiKey,
        apiMode,
        baseUrl,
        contextLength,
        default: model,
        maxTokens,
        provider,
        streaming
      } = (yield* settingsOf(file, { HERMES_MODEL__BASE_URL: b }, {})).model
      assert.deepStrictEqual([provider, model, baseUrl, streaming], ["custom", "m", b, false])
      assert.deepStrictEqual([apiKey, apiMode, contextLength, maxTokens], [undefined, undefined, undefined, undefined])
      for (const section of ["delegation", "fallback_model"] as const) {
        const said = { [section]: { provider: "custom", model: "m", base_url: a, api_key: "planted" } }
        const moved = yield* settingsOf(said, {}, { [`HERMES_${section.toUpperCase()}__PROVIDER`]: "openrouter" })
        const { apiKey, baseUrl, provider } = section === "delegation" ? moved.delegation : (moved.fallbackModel ?? {})
        assert.deepStrictEqual([provider, baseUrl, apiKey], ["openrouter", undefined, undefined], section)
      }
      const side = yield* settingsOf(
        { auxiliary: { title: { base_url: a, api_key: "planted" } } },
        { HERMES_AUXILIARY__TITLE__BASE_URL: b },
        {}
      )
      assert.deepStrictEqual([side.auxiliary["title"]?.baseUrl, side.auxiliary["title"]?.apiKey], [b, undefined])
    })
  )

  it.effect("the address of the environment is for the provider that counts in the end", () =>
    Effect.gen(function* () {
      const provider = (value: string): Config.Flag => ({ name: "--provider", key: "model.provider", value })
      const env = { OPENAI_BASE_URL: b }
      const openrouter = { model: { provider: "openrouter", api_key: "planted" } }
      const custom = (yield* settingsOf(openrouter, env, {}, provider("custom"))).model
      assert.deepStrictEqual([custom.provider, custom.baseUrl, custom.apiKey], ["custom", b, undefined])
      const kept = (yield* settingsOf(openrouter, env, {})).model
      assert.deepStrictEqual([kept.provider, kept.baseUrl, kept.apiKey === undefined], ["openrouter", undefined, false])
      const away = (yield* settingsOf(file, env, {}, provider("anthropic"))).model
      assert.deepStrictEqual([away.provider, away.baseUrl, away.apiKey], ["anthropic", undefined, undefined])
    })
  )

  it.effect("a stronger source that moves a named endpoint takes no key there", () =>
    Effect.gen(function* () {
      const lab = {
        model: { provider: "lab", default: "m", api_key: "planted" },
        custom_providers: [{ name: "lab", base_url: a }]
      }
      const moved = yield* settingsOf(
        lab,
        { HERMES_CUSTOM_PROVIDERS: JSON.stringify([{ name: "lab", base_url: b }]) },
        {}
      )
      assert.strictEqual(moved.customProviders[0]?.baseUrl, b)
      assert.isUndefined(moved.model.apiKey)
      const spare = { provider: "lab", model: "m", api_key: "planted" }
      const behind = yield* settingsOf(
        { custom_providers: lab.custom_providers, fallback_providers: [spare, { ...spare, base_url: a }] },
        {},
        { HERMES_CUSTOM_PROVIDERS: JSON.stringify([{ name: "lab", base_url: b }]) }
      )
      assert.deepStrictEqual(
        behind.fallbackProviders.map(({ apiKey, baseUrl }) => [baseUrl, apiKey === undefined]),
        [
          [undefined, true],
          [a, false]
        ]
      )
    })
  )

  it.effect("are told by name, with what is not used", () =>
    Effect.gen(function* () {
      const { sources } = yield* settingsOf(file, {}, { OPENAI_BASE_URL: b })
      assert.strictEqual(SettingSources.describeSource(sources, ["model", "base_url"]), ".env: OPENAI_BASE_URL")
      assert.strictEqual(SettingSources.findLevel(sources, ["model", "base_url"]), "env-file")
      assert.strictEqual(SettingSources.findLevel(sources, ["model", "provider"]), "file")
      assert.deepStrictEqual(
        sources?.unused,
        ["api_key", "api_mode", "max_tokens", "context_length"].map(
          (key) => `config.yaml: model.${key} is not used: it is for another route than .env: OPENAI_BASE_URL names`
        )
      )
    })
  )

  it("a key of a service beside its address comes from the source that names the address", () => {
    const beside = (process: Record<string, string>, file: Record<string, string>) =>
      Environment.makeAddressGetter(Environment.make(process, file), ["TAVILY_BASE_URL"])("TAVILY_API_KEY")
    assert.strictEqual(beside({ TAVILY_API_KEY: "shell" }, { TAVILY_API_KEY: "dotenv" }), "shell")
    assert.strictEqual(beside({}, { TAVILY_API_KEY: "dotenv" }), "dotenv")
    assert.isUndefined(beside({ TAVILY_BASE_URL: b }, { TAVILY_API_KEY: "dotenv" }))
    assert.isUndefined(beside({ TAVILY_API_KEY: "shell" }, { TAVILY_BASE_URL: b }))
    assert.strictEqual(beside({ TAVILY_API_KEY: "shell" }, { TAVILY_BASE_URL: b, TAVILY_API_KEY: "dotenv" }), "dotenv")
  })
})
