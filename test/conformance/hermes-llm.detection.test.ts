import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import * as Result from "effect/Result"
import * as RouteDetection from "../../src/models/routing/RouteDetection.ts"
import type * as RouteKeys from "../../src/models/routing/RouteKeys.ts"
import * as OpenRoute from "../../src/models/routing/OpenRoute.ts"
import * as Routes from "../../src/models/routing/Routes.ts"

const lookup =
  (variables: Readonly<Record<string, string>>): RouteKeys.Lookup =>
  (name) => {
    const value = variables[name]
    return value === undefined ? undefined : Redacted.make(value)
  }

describe("hermes-llm detection", () => {
  it("T1 explicit mode wins over every rule and every upgrade", () => {
    for (const model of ["gpt-5.4", "openai/gpt-5", "claude-opus-4.6"]) {
      const found = RouteDetection.detectRoute({ provider: "openai-codex", model, apiMode: "chat_completions" })
      assert.strictEqual(found.apiMode, "chat_completions")
    }
  })

  it("T2 Anthropic by host", () => {
    assert.deepInclude(RouteDetection.detectRoute({ model: "claude-opus-4.6", baseUrl: "https://api.anthropic.com" }), {
      provider: "anthropic",
      apiMode: "anthropic_messages"
    })
  })

  it("T4 Bedrock host with its region, and not a look-alike", () => {
    assert.deepInclude(
      RouteDetection.detectRoute({ model: "m", baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com" }),
      { apiMode: "bedrock_converse", region: "eu-west-1" }
    )
    assert.deepInclude(RouteDetection.detectRoute({ model: "m", baseUrl: "https://bedrock-runtime.evil.example" }), {
      apiMode: "chat_completions",
      region: undefined
    })
  })

  it("T5 a look-alike host gets none of the rules of direct OpenAI", () => {
    assert.deepInclude(
      RouteDetection.detectRoute({ model: "gpt-4.1", baseUrl: "https://proxy.example/api.openai.com/v1" }),
      { apiMode: "chat_completions", provider: undefined }
    )
  })

  it("T7 gpt-5 via an aggregator, via Nous, via Azure", () => {
    const mode = (provider: string | undefined, baseUrl: string) =>
      RouteDetection.detectRoute({ provider, model: "openai/gpt-5.4", baseUrl }).apiMode
    assert.strictEqual(mode("openrouter", "https://openrouter.ai/api/v1"), "codex_responses")
    assert.strictEqual(mode("nous", "https://inference-api.nousresearch.com/v1"), "chat_completions")
    assert.strictEqual(mode(undefined, "https://me.openai.azure.com/openai/v1"), "chat_completions")
  })

  it("T8 an explicit provider without key fails naming its variable, and goes nowhere else", () => {
    const found = Routes.resolveRoute({ provider: "zai", model: "glm-5" }, lookup({ OPENROUTER_API_KEY: "or" }))
    assert.isTrue(Result.isFailure(found))
    const error = Result.getOrThrow(Result.flip(found))
    assert.strictEqual(error.path, "ZAI_API_KEY")
    assert.strictEqual(
      error.message,
      "no API key for Z.AI / GLM: set ZAI_API_KEY, GLM_API_KEY or Z_AI_API_KEY (or model.api_key)"
    )
  })

  it("T10 Claude on OpenRouter carries the tool streaming beta once, appended to what is there", () => {
    const betas = (model: string, own?: Readonly<Record<string, string>>) => {
      const route = Routes.resolveRoute(
        { provider: "openrouter", model, headers: own },
        lookup({ OPENROUTER_API_KEY: "or" })
      )
      const { headers = {} } = OpenRoute.applyProfile(Result.getOrThrow(route))
      return Object.entries(headers).flatMap(([name, value]) =>
        name.toLowerCase() === "x-anthropic-beta" ? [value] : []
      )
    }
    const beta = "fine-grained-tool-streaming-2025-05-14"
    assert.deepStrictEqual(betas("anthropic/claude-opus-4.6"), [beta])
    assert.deepStrictEqual(betas("anthropic/claude-opus-4.6", { "X-Anthropic-Beta": "a" }), [`a,${beta}`])
    assert.deepStrictEqual(betas("anthropic/claude-opus-4.6", { "x-anthropic-beta": beta }), [beta])
    assert.deepStrictEqual(betas("openai/gpt-4.1"), [])
  })

  it("T11 headers of OpenRouter are absent from the route of a plain custom endpoint", () => {
    const custom = Result.getOrThrow(
      Routes.resolveRoute(
        { provider: "custom", model: "claude-opus-4.6", baseUrl: "https://plain.example/v1" },
        lookup({ OPENROUTER_API_KEY: "or" })
      )
    )
    assert.strictEqual(custom.headers, undefined)
  })
})
