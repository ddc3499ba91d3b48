import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Directory from "../../../src/models/routing/ProviderDirectory.ts"
import type * as RouteKeys from "../../../src/models/routing/RouteKeys.ts"
import * as Routes from "../../../src/models/routing/Routes.ts"

const lookup =
  (variables: Readonly<Record<string, string>>): RouteKeys.Lookup =>
  (name) => {
    const value = variables[name]
    return value === undefined ? undefined : Redacted.make(value)
  }

const resolve = (settings: Routes.ModelSettings, variables: Readonly<Record<string, string>> = {}) =>
  Routes.resolveRoute(settings, lookup(variables))

const route = (settings: Routes.ModelSettings, variables: Readonly<Record<string, string>> = {}): Route =>
  Result.getOrThrow(resolve(settings, variables))

const key = (route: Route): string | undefined =>
  route.apiKey === undefined ? undefined : Redacted.value(route.apiKey)

const error = (settings: Routes.ModelSettings, variables: Readonly<Record<string, string>> = {}) => {
  const { message, path } = Result.getOrThrow(Result.flip(resolve(settings, variables)))
  assert.notInclude(message, "\n")
  return { message, path }
}

/** A key under every variable that any provider reads. */
const allKeys = Object.fromEntries(
  Directory.entries.flatMap((entry) => entry.keyVariables).map((name) => [name, `secret-of-${name}`])
)

describe("Routes", () => {
  it("is the offline stand-in when nothing is configured, even with a key about", () => {
    assert.deepStrictEqual(route({}), Routes.offline)
    assert.deepStrictEqual(route({ provider: "auto", model: " " }, allKeys), Routes.offline)
    assert.deepStrictEqual(route({ provider: "offline", model: "whatever" }), Routes.offline)
    assert.deepStrictEqual(route({ model: "offline" }), Routes.offline)
  })

  it("knows each provider by name and alias, at its own address, with its own key", () => {
    for (const entry of Directory.entries) {
      const [variable] = entry.keyVariables
      if (entry.authentication !== "key" || variable === undefined || entry.baseUrl === undefined) continue
      for (const name of [entry.name, ...entry.aliases]) {
        const found = route({ provider: name.toUpperCase(), model: "m" }, { [variable]: "k" })
        assert.deepInclude(found, { provider: entry.name, model: "m", baseUrl: entry.baseUrl })
        assert.strictEqual(key(found), "k")
      }
    }
  })

  it("has no name or alias twice", () => {
    const names = Directory.entries.flatMap((entry) => [entry.name, ...entry.aliases])
    assert.strictEqual(new Set(names).size, names.length)
  })

  it("names the nearest provider for an unknown one", () => {
    assert.deepStrictEqual(error({ provider: "antropic", model: "m" }), {
      path: "model.provider",
      message:
        'model.provider: unknown provider "antropic": did you mean "anthropic"? For an endpoint of your own use the provider custom with model.base_url'
    })
    assert.notInclude(error({ provider: "zzzzzzzzzz", model: "m" }).message, "did you mean")
    assert.include(
      error({
        provider: "my-lap",
        model: "m",
        customProviders: [{ name: "My-Lab", baseUrl: "https://lab.example/v1" }]
      }).message,
      'did you mean "my-lab"'
    )
  })

  it("asks for what custom needs", () => {
    assert.deepStrictEqual(error({ provider: "custom", model: "m" }), {
      path: "model.base_url",
      message: 'the provider "custom" needs an address: set model.base_url (or OPENAI_BASE_URL)'
    })
    assert.strictEqual(error({ provider: "azure", model: "m" }).path, "model.base_url")
    assert.strictEqual(
      error({ provider: "custom", baseUrl: "http://127.0.0.1:1" }).message,
      'no model is named for the provider "custom": set model.default (or pass --model)'
    )
  })

  it("refuses addresses that are none", () => {
    for (const baseUrl of ["localhost:11434/v1", "ftp://h.example", "127.0.0.1", "http://"]) {
      assert.include(error({ provider: "custom", model: "m", baseUrl }).message, "is not an address", baseUrl)
    }
    const withUser = error({ provider: "custom", model: "m", baseUrl: "https://me:hunter2@h.example" })
    assert.notInclude(withUser.message, "hunter2")
  })

  it("takes the address of the environment for custom, with the key that stands beside it", () => {
    const variables = { OPENAI_BASE_URL: "https://lab.example/v1/", OPENAI_API_KEY: "lab" }
    const found = route({ provider: "custom", model: "qwen3.6:35b" }, variables)
    assert.deepInclude(found, { provider: "custom", baseUrl: "https://lab.example/v1", apiMode: "chat_completions" })
    assert.strictEqual(key(found), "lab")
    assert.strictEqual(key(route({ model: "m" }, variables)), "lab")
    assert.strictEqual(key(route({ provider: "openai", model: "m" }, variables)), "lab")
  })

  it("sends a placeholder where no key is needed", () => {
    assert.strictEqual(
      key(route({ provider: "custom", model: "m", baseUrl: "http://127.0.0.1:1/v1" })),
      "no-key-required"
    )
    assert.deepInclude(route({ provider: "ollama", model: "qwen3:4b" }), { baseUrl: "http://127.0.0.1:11434/v1" })
  })

  it("never sends a key of the environment to a third party", () => {
    for (const entry of Directory.entries) {
      if (entry.name === "custom" || entry.authentication === "none") continue
      const settings = { provider: entry.name, model: "m", baseUrl: "https://third.example/anthropic" }
      const found = resolve(settings, allKeys)
      const sent = Result.isSuccess(found) ? key(found.success) : undefined
      assert.notInclude(sent ?? "", "secret-of", entry.name)
    }
    assert.strictEqual(key(route({ model: "m", baseUrl: "https://third.example/v1" }, allKeys)), "no-key-required")
    assert.strictEqual(key(route({ provider: "minimax", model: "m" }, allKeys)), "secret-of-MINIMAX_API_KEY")
    assert.strictEqual(
      key(route({ provider: "custom", model: "m", baseUrl: "https://third.example/anthropic" }, allKeys)),
      "no-key-required"
    )
  })

  it("says where a withheld key would go", () => {
    assert.strictEqual(
      error({ provider: "openai", model: "m", baseUrl: "https://proxy.example/v1" }, { OPENAI_API_KEY: "k" }).message,
      "no API key for proxy.example: set model.api_key (OPENAI_API_KEY goes to api.openai.com only)"
    )
  })

  it("sends model.api_key wherever the user points", () => {
    const apiKey = Redacted.make("mine")
    assert.strictEqual(
      key(route({ provider: "anthropic", model: "m", baseUrl: "https://proxy.example", apiKey }, allKeys)),
      "mine"
    )
  })

  it("takes the key from the variable that the user names, wherever the route goes", () => {
    const found = route(
      { provider: "openai", model: "m", baseUrl: "https://proxy.example/v1", keyEnv: "MY_KEY" },
      { MY_KEY: "mine", OPENAI_API_KEY: "other" }
    )
    assert.strictEqual(key(found), "mine")
    assert.strictEqual(error({ provider: "zai", model: "m", keyEnv: "MY_KEY" }).path, "MY_KEY")
  })

  it("local addresses are third parties too, unless the environment names the address as well", () => {
    for (const baseUrl of [
      "http://127.0.0.1:4010",
      "http://localhost:4010",
      "http://10.0.0.7:4010",
      "http://host.docker.internal"
    ]) {
      assert.strictEqual(error({ provider: "anthropic", model: "m", baseUrl }, allKeys).path, "model.api_key", baseUrl)
    }
    const addressFrom = { level: "environment", label: "HERMES_MODEL__BASE_URL", namesProvider: true } as const
    const paired = route({ provider: "anthropic", model: "m", baseUrl: "http://127.0.0.1:4010", addressFrom }, allKeys)
    assert.strictEqual(key(paired), "secret-of-ANTHROPIC_API_KEY")
    const settings = {
      provider: "anthropic",
      model: "m",
      baseUrl: "http://127.0.0.1:4010",
      addressFrom: { ...addressFrom, namesProvider: false }
    }
    assert.strictEqual(error(settings, allKeys).path, "model.api_key")
    // The provider's own server on this machine, and another one beside it.
    assert.strictEqual(key(route({ provider: "ollama", model: "m" }, allKeys)), "secret-of-OLLAMA_API_KEY")
    assert.strictEqual(
      key(route({ provider: "ollama", model: "m", baseUrl: "http://127.0.0.1:9/v1" }, allKeys)),
      "no-key-required"
    )
  })

  it("a key of the route's own, and that of a named endpoint, stay with their address", () => {
    const variables = { OPENAI_BASE_URL: "http://127.0.0.1:9/v1", OPENAI_API_KEY: "lab" }
    const own = route({ provider: "openai", model: "m", apiKey: Redacted.make("mine") }, variables)
    assert.deepStrictEqual([own.baseUrl, key(own)], ["https://api.openai.com/v1", "mine"])
    const customProviders = [
      {
        name: "lab",
        baseUrl: "https://lab.example/v1",
        apiKey: Redacted.make("lab-key"),
        apiMode: "anthropic_messages" as const
      }
    ]
    assert.strictEqual(key(route({ provider: "lab", model: "m", customProviders })), "lab-key")
    const moved = route({ provider: "lab", model: "m", baseUrl: "http://127.0.0.1:9/v1", customProviders })
    assert.deepStrictEqual([key(moved), moved.apiMode], ["no-key-required", "chat_completions"])
  })

  it("a provider that was inferred from a key of the environment gets that key and no other", () => {
    const found = route({ model: "gpt-4.1", apiKey: Redacted.make("nobody-said-for-whom") }, { OPENAI_API_KEY: "k" })
    assert.deepStrictEqual([found.provider, key(found)], ["openai", "k"])
  })

  it("infers the provider from the address", () => {
    assert.deepInclude(route({ model: "m", baseUrl: "https://openrouter.ai/api/v1" }, allKeys), {
      provider: "openrouter"
    })
    assert.deepInclude(route({ model: "m", baseUrl: "https://api.anthropic.com" }, allKeys), {
      provider: "anthropic",
      apiMode: "anthropic_messages"
    })
    const bedrock = route({ model: "m", baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" })
    assert.deepInclude(bedrock, { provider: "bedrock", apiMode: "bedrock_converse", region: "eu-west-1" })
    assert.strictEqual(bedrock.apiKey, undefined)
  })

  it("takes the region of Bedrock from the address, then from the environment", () => {
    const variables = { AWS_REGION: "ap-south-1" }
    assert.strictEqual(route({ provider: "bedrock", model: "m" }, variables).region, "ap-south-1")
    assert.strictEqual(
      route({ provider: "bedrock", model: "m", baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" }, variables)
        .region,
      "eu-west-1"
    )
  })

  it("sends a model without a provider where a key for it is", () => {
    assert.deepInclude(route({ model: "claude-opus-4.6" }, { ANTHROPIC_API_KEY: "k" }), { provider: "anthropic" })
    assert.deepInclude(route({ model: "anthropic/claude-opus-4.6" }, { ANTHROPIC_API_KEY: "k" }), {
      provider: "anthropic",
      model: "claude-opus-4.6"
    })
    assert.deepInclude(
      route({ model: "anthropic/claude-opus-4.6" }, { ANTHROPIC_API_KEY: "k", OPENROUTER_API_KEY: "k" }),
      { provider: "openrouter", model: "anthropic/claude-opus-4.6" }
    )
    assert.strictEqual(
      error({ model: "claude-opus-4.6" }).message,
      'no provider is configured for the model "claude-opus-4.6": set model.provider, or ANTHROPIC_API_KEY or OPENROUTER_API_KEY, or model.base_url'
    )
    assert.strictEqual(error({ model: "mystery" }, { GITHUB_TOKEN: "k" }).path, "model.provider")
  })

  it("gives direct providers the bare model id and aggregators the whole", () => {
    assert.strictEqual(route({ provider: "openai", model: "openai/gpt-4.1" }, allKeys).model, "gpt-4.1")
    assert.strictEqual(route({ provider: "openrouter", model: "openai/gpt-4.1" }, allKeys).model, "openai/gpt-4.1")
    assert.strictEqual(
      route({ provider: "custom", model: "openai/gpt-oss", baseUrl: "http://127.0.0.1:1" }).model,
      "openai/gpt-oss"
    )
  })

  it("resolves endpoints that the user gave a name", () => {
    const customProviders = [
      {
        name: "Lab",
        baseUrl: "https://lab.example/v1?tenant=a",
        keyEnv: "LAB_KEY",
        apiMode: "anthropic_messages" as const
      }
    ]
    for (const provider of ["lab", "custom:Lab"]) {
      const found = route({ provider, model: "m", customProviders }, { LAB_KEY: "k", OPENAI_API_KEY: "other" })
      assert.deepInclude(found, {
        provider: "custom:lab",
        apiMode: "anthropic_messages",
        baseUrl: "https://lab.example/v1"
      })
      assert.deepStrictEqual(found.query, { tenant: "a" })
      assert.strictEqual(key(found), "k")
    }
    const moved = route(
      { provider: "lab", model: "m", baseUrl: "https://third.example", customProviders },
      { LAB_KEY: "k", OPENAI_API_KEY: "other" }
    )
    assert.strictEqual(key(moved), "no-key-required")
  })
})
