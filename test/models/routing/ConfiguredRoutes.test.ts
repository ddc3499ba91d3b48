import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as Config from "../../../src/base/config/Config.ts"
import * as Environment from "../../../src/base/config/Environment.ts"
import * as ConfiguredRoutes from "../../../src/models/routing/ConfiguredRoutes.ts"

type More = Omit<ConfiguredRoutes.RouteSources, "settings" | "environment">

const chainOf = Effect.fnUntraced(function* (
  file: unknown,
  variables: Readonly<Record<string, string>> = {},
  more: More = {}
) {
  const environment = Environment.make(variables)
  const { settings } = yield* Config.resolve({ file, environment, flags: [] })
  return ConfiguredRoutes.resolveChain({ settings, environment, ...more })
})

const found = (file: unknown, variables?: Readonly<Record<string, string>>, more?: More) =>
  Effect.map(chainOf(file, variables, more), (chain) => Result.getOrThrow(chain))

describe("ConfiguredRoutes", () => {
  it.effect("nothing configured is the stand-in", () =>
    Effect.gen(function* () {
      const { entries, problems } = yield* found({}, {})
      assert.deepStrictEqual(
        entries.map(({ route }) => route.provider),
        ["offline"]
      )
      assert.deepStrictEqual(problems, [])
      // The key of a provider with a default model configures it.
      const keyed = yield* found({}, { OPENROUTER_API_KEY: "sk-or" })
      assert.deepStrictEqual(
        keyed.entries.map(({ route }) => route.provider),
        ["openrouter"]
      )
    })
  )

  it.effect("the key of the environment follows an address that the environment names", () =>
    Effect.gen(function* () {
      const variables = { OPENAI_BASE_URL: "https://proxy.example/v1", OPENAI_API_KEY: "sk-env" }
      const {
        entries: [{ route }]
      } = yield* found({ model: { default: "m" } }, variables)
      assert.deepInclude(route, { baseUrl: "https://proxy.example/v1", model: "m" })
      assert.strictEqual(route.apiKey === undefined ? undefined : Redacted.value(route.apiKey), "sk-env")
      // The same address in the file is the user's own: the key is not sent there.
      const own = yield* chainOf(
        { model: { default: "m", provider: "openai", base_url: "https://proxy.example/v1" } },
        { OPENAI_API_KEY: "sk-env" }
      )
      assert.isTrue(Result.isFailure(own))
    })
  )

  it.effect("the fallbacks follow in order; one that can not be used is left out and said", () =>
    Effect.gen(function* () {
      const { entries, problems } = yield* found(
        {
          model: { provider: "custom", default: "qwen3.6:35b", base_url: "http://127.0.0.1:11434/v1" },
          fallback_providers: [
            { provider: "openrouter", model: "a/b" },
            { provider: "anthropic", model: "claude-opus-4-6", key_env: "MY_KEY" }
          ]
        },
        { MY_KEY: "sk-ant-mine" }
      )
      assert.deepStrictEqual(
        entries.map(({ route }) => route.provider),
        ["custom", "anthropic"]
      )
      assert.deepStrictEqual(problems, [
        "the fallback openrouter (a/b) is left out: no API key for OpenRouter: set OPENROUTER_API_KEY (or fallback_providers[0].api_key)"
      ])
    })
  )

  it.effect("a pool's keys are for the provider's own address", () =>
    Effect.gen(function* () {
      const pool = {
        openrouter: { api_keys: ["sk-or-1", "sk-or-2"] },
        credential_pool_strategies: { openrouter: "round_robin" }
      }
      const {
        entries: [entry]
      } = yield* found({ ...pool, model: { provider: "openrouter", default: "a/b" } })
      assert.deepStrictEqual(
        entry.credentials?.map(({ key }) => Redacted.value(key)),
        ["sk-or-1", "sk-or-2"]
      )
      assert.strictEqual(entry.strategy, "round_robin")
      const elsewhere = {
        provider: "openrouter",
        default: "a/b",
        base_url: "https://else.example/v1",
        api_key: "sk-own"
      }
      const {
        entries: [other]
      } = yield* found({ ...pool, model: elsewhere })
      assert.deepStrictEqual(other.credentials, [])
      assert.strictEqual(other.route.apiKey === undefined ? undefined : Redacted.value(other.route.apiKey), "sk-own")
    })
  )

  describe("a login", () => {
    const login = { key: Redacted.make("token"), refresh: Effect.succeed(Redacted.make("newer")) }
    const logins = new Map([["openai-codex", login]])
    const keys = (entry: ConfiguredRoutes.Chain["entries"][0]) =>
      entry.credentials?.map(({ key }) => Redacted.value(key))
    const model = { provider: "codex", default: "gpt-5-codex" }

    it.effect("stands in for a key that nobody gave, and can be renewed", () =>
      Effect.gen(function* () {
        const {
          entries: [entry]
        } = yield* found({ model }, {}, { logins })
        assert.deepStrictEqual(entry.credentials, [login])
        assert.strictEqual(entry.route.apiKey === undefined ? undefined : Redacted.value(entry.route.apiKey), "token")
      })
    )

    it.effect("comes after the keys that the user gave", () =>
      Effect.gen(function* () {
        const {
          entries: [entry]
        } = yield* found({ model }, { CODEX_ACCESS_TOKEN: "given" }, { logins })
        assert.deepStrictEqual(keys(entry), ["given", "token"])
        const {
          entries: [pooled]
        } = yield* found({ model, "openai-codex": { api_keys: ["one", "two"] } }, {}, { logins })
        assert.deepStrictEqual(keys(pooled), ["one", "two", "token"])
      })
    )

    it.effect("goes to its provider's own hosts, or to the server that issued it", () =>
      Effect.gen(function* () {
        const at = (base_url: string) => chainOf({ model: { ...model, base_url } }, {}, { logins })
        assert.isTrue(Result.isFailure(yield* at("http://127.0.0.1:9/v1")))
        const issued = new Map([["openai-codex", { ...login, issuer: "http://127.0.0.1:9/" }]])
        const there = yield* chainOf({ model: { ...model, base_url: "http://127.0.0.1:9/v1" } }, {}, { logins: issued })
        assert.deepStrictEqual(keys(Result.getOrThrow(there).entries[0]), ["token"])
        assert.isTrue(
          Result.isFailure(
            yield* chainOf({ model: { ...model, base_url: "http://127.0.0.1:10/v1" } }, {}, { logins: issued })
          )
        )
        assert.isTrue(Result.isFailure(yield* chainOf({ model }, {}, { logins: issued })))
        assert.isTrue(Result.isFailure(yield* at("https://else.example/v1")))
        const {
          entries: [entry]
        } = yield* found({ model: { ...model, base_url: "https://else.example/v1", api_key: "own" } }, {}, { logins })
        assert.deepStrictEqual(keys(entry), [])
      })
    )

    it.effect("is looked for only where a route may want it", () =>
      Effect.gen(function* () {
        const may = (file: unknown) =>
          Effect.map(Config.resolve({ file, environment: Environment.make({}), flags: [] }), ({ settings }) =>
            ConfiguredRoutes.mayLogIn(settings)
          )
        assert.isTrue(yield* may({ model }))
        assert.isTrue(yield* may({ fallback_providers: [{ provider: "openai-codex", model: "m" }] }))
        assert.isTrue(yield* may({ model: { base_url: "https://chatgpt.com/backend-api/codex" } }))
        assert.isFalse(yield* may({ model: { provider: "openrouter", default: "a/b" } }))
      })
    )
  })

  it.effect("delegated work has the keys of its provider, and may have a provider of a plugin", () =>
    Effect.gen(function* () {
      const model = { provider: "custom", default: "m", base_url: "http://127.0.0.1:1/v1" }
      const of = Effect.fnUntraced(function* (delegation: unknown, more: More = {}) {
        const file = { model, delegation, openrouter: { api_keys: ["one", "two"] } }
        const environment = Environment.make({})
        const { settings } = yield* Config.resolve({ file, environment, flags: [] })
        return ConfiguredRoutes.resolveDelegated({ settings, environment, ...more })
      })
      const pooled = Result.getOrThrow(yield* of({ provider: "openrouter", model: "a/b" }))
      assert.deepStrictEqual(
        pooled?.credentials?.map(({ key }) => Redacted.value(key)),
        ["one", "two"]
      )
      const brought = Result.getOrThrow(
        yield* of({ provider: "mc", model: "big" }, { brought: [{ name: "my-cloud", aliases: ["mc"] }] })
      )
      assert.deepInclude(brought?.route, { provider: "my-cloud", model: "big" })
      const unknown = yield* of({ provider: "mc", model: "big" })
      assert(Result.isFailure(unknown))
      assert.match(unknown.failure.message, /^delegation\.provider: unknown provider "mc"/)
    })
  )

  it.effect("a provider of a plugin answers first, and behind another one", () =>
    Effect.gen(function* () {
      const brought = [{ name: "my-cloud", aliases: ["mc"] }]
      const {
        entries: [first]
      } = yield* found({ model: { provider: "mc", default: "big" } }, {}, { brought })
      assert.deepInclude(first.route, { provider: "my-cloud", model: "big", apiMode: "chat_completions" })
      const { entries } = yield* found(
        {
          model: { provider: "custom", default: "m", base_url: "http://127.0.0.1:1/v1" },
          fallback_providers: [{ provider: "MC", model: "big", base_url: "https://cloud.example" }]
        },
        {},
        { brought }
      )
      assert.deepInclude(entries[1]?.route, { provider: "my-cloud", model: "big", baseUrl: "https://cloud.example" })
    })
  )

  it.effect("deadlines: of the model, of its provider, of all", () =>
    Effect.gen(function* () {
      const file = {
        model: { provider: "custom", default: "slow", base_url: "http://127.0.0.1:1/v1" },
        providers: {
          custom: { request_timeout_seconds: 20, stale_timeout_seconds: 7, models: { slow: { timeout_seconds: 30 } } }
        },
        network: { request_timeout_seconds: 10, call_stale_timeout_seconds: 9, stream_read_timeout_seconds: 8 }
      }
      const {
        entries: [entry]
      } = yield* found(file)
      assert.deepInclude(entry.route, { requestTimeoutMillis: 30_000, readTimeoutMillis: 30_000 })
      assert.deepStrictEqual(entry.limits, { stream: 7000, call: 7000 })
      const {
        entries: [other]
      } = yield* found({ ...file, providers: {} })
      assert.deepInclude(other.route, { requestTimeoutMillis: 10_000, readTimeoutMillis: 8_000 })
      assert.deepStrictEqual(other.limits, { stream: undefined, call: 9000 })
    })
  )

  describe("what is wrong is found at the start, with its place", () => {
    const primary = { provider: "custom", default: "m", base_url: "http://127.0.0.1:1/v1" }
    const cases: ReadonlyArray<readonly [string, unknown, path: string, message: RegExp]> = [
      [
        "an unknown provider",
        { model: primary, fallback_providers: [{ provider: "antropic", model: "x" }] },
        "fallback_providers[0].provider",
        /^fallback_providers\[0\]\.provider: unknown provider "antropic": did you mean "anthropic"\?/
      ],
      [
        "an address that is none",
        { model: primary, fallback_providers: [{ provider: "custom", model: "x", base_url: "nowhere" }] },
        "fallback_providers[0].base_url",
        /^fallback_providers\[0\]\.base_url: "nowhere" is not an address/
      ],
      [
        "an address without a host",
        { model: { ...primary, base_url: "http:///v1" } },
        "model.base_url",
        /^model\.base_url: "http:\/\/\/v1" is not an address/
      ],
      [
        "an address of an endpoint with a name",
        {
          model: primary,
          custom_providers: [{ name: "mine", base_url: "htp//x" }],
          fallback_providers: [{ provider: "mine", model: "x" }]
        },
        "custom_providers (mine).base_url",
        /^custom_providers \(mine\)\.base_url: "htp\/\/x" is not an address/
      ],
      [
        "a chain that comes back",
        {
          model: primary,
          fallback_providers: [
            { provider: "ollama", model: "a" },
            { provider: "lmstudio", model: "b" },
            { provider: "ollama", model: "a" }
          ]
        },
        "fallback_providers[2]",
        /comes back to ollama \(a\), which fallback_providers\[0\] tries before: remove it/
      ],
      [
        "an empty pool",
        { model: primary, groq: { api_keys: ["", " "] }, fallback_model: { provider: "groq", model: "x" } },
        "groq.api_keys",
        /groq\.api_keys has no key in it: add one \(without the list: no API key for Groq: set GROQ_API_KEY/
      ]
    ]
    it.effect("an address of the environment, whatever comes behind it", () =>
      Effect.gen(function* () {
        const file = { model: { default: "m" }, fallback_providers: [{ provider: "ollama", model: "a" }] }
        const chain = yield* chainOf(file, { OPENAI_BASE_URL: "nowhere", OPENAI_API_KEY: "k" })
        assert(Result.isFailure(chain))
        assert.match(chain.failure.message, /^OPENAI_BASE_URL: "nowhere" is not an address/)
      })
    )
    for (const [what, file, path, message] of cases) {
      it.effect(what, () =>
        Effect.gen(function* () {
          const chain = yield* chainOf(file)
          assert(Result.isFailure(chain))
          assert.strictEqual(chain.failure.path, path)
          assert.match(chain.failure.message, message)
        })
      )
    }
  })

  it.effect("a fallback that is the primary is left out; another key makes another route", () =>
    Effect.gen(function* () {
      const primary = { provider: "openrouter", model: "a/b", api_key: "k1" }
      const { entries } = yield* found({
        model: { provider: "openrouter", default: "a/b", api_key: "k1" },
        fallback_providers: [primary, { ...primary, api_key: "k2" }]
      })
      assert.deepStrictEqual(
        entries.map(({ route: { apiKey } }) => apiKey && Redacted.value(apiKey)),
        ["k1", "k2"]
      )
    })
  )
})
