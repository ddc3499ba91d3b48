import { assert, describe, it } from "@effect/vitest"
import type { ApiMode } from "../../../src/base/domain/ApiMode.ts"
import * as RouteDetection from "../../../src/models/routing/RouteDetection.ts"

const mode = (input: Partial<RouteDetection.Input>): ApiMode =>
  RouteDetection.detectRoute({ model: "some-model", ...input }).apiMode

describe("Detection", () => {
  it("follows the order of the rules", () => {
    assert.strictEqual(mode({ provider: "openai-codex" }), "codex_responses")
    assert.strictEqual(mode({ provider: "xai" }), "codex_responses")
    assert.strictEqual(mode({ provider: "anthropic", baseUrl: "https://proxy.example/v1" }), "anthropic_messages")
    assert.strictEqual(mode({ provider: "minimax", baseUrl: "https://api.minimax.io/anthropic" }), "anthropic_messages")
    assert.strictEqual(mode({ provider: "bedrock" }), "bedrock_converse")
    assert.strictEqual(mode({ provider: "custom", baseUrl: "http://127.0.0.1:8000/v1" }), "chat_completions")
    assert.strictEqual(mode({}), "chat_completions")
  })

  it("names the provider that an address implies, when none is named", () => {
    const at = (baseUrl: string) => {
      const { apiMode, provider } = RouteDetection.detectRoute({ model: "m", baseUrl })
      return [provider, apiMode]
    }
    assert.deepStrictEqual(at("https://chatgpt.com/backend-api/codex"), ["openai-codex", "codex_responses"])
    assert.deepStrictEqual(at("https://chatgpt.com/other"), [undefined, "chat_completions"])
    assert.deepStrictEqual(at("https://api.x.ai/v1"), ["xai", "codex_responses"])
    assert.deepStrictEqual(at("https://api.anthropic.com"), ["anthropic", "anthropic_messages"])
    assert.deepStrictEqual(at("https://gateway.example/ANTHROPIC/"), [undefined, "anthropic_messages"])
  })

  it("leaves a named provider alone at a foreign address", () => {
    assert.deepInclude(
      RouteDetection.detectRoute({ provider: " Custom ", model: "m", baseUrl: "https://api.anthropic.com/v1" }),
      { provider: "custom", apiMode: "chat_completions" }
    )
    assert.strictEqual(mode({ provider: "custom", baseUrl: "https://api.x.ai/v1" }), "chat_completions")
  })

  it("compares hosts, never substrings", () => {
    for (const baseUrl of [
      "https://api.anthropic.com.evil.example/v1",
      "https://evilapi.anthropic.com.example",
      "https://proxy.example/api.anthropic.com",
      "https://proxy.example/v1?u=api.anthropic.com/anthropic",
      "https://notapi.x.ai.example/v1",
      "https://bedrock-runtime.us-east-1.amazonaws.com.evil.example",
      "https://x.bedrock-runtime.us-east-1.amazonaws.com",
      "https://anthropic",
      "not a url/api.openai.com"
    ]) {
      assert.strictEqual(mode({ baseUrl }), "chat_completions", baseUrl)
    }
  })

  it("upgrades direct OpenAI and models that need the Responses API", () => {
    assert.strictEqual(mode({ provider: "openai", baseUrl: "https://api.openai.com/v1" }), "codex_responses")
    assert.strictEqual(mode({ provider: "openai", baseUrl: "https://eu.api.openai.com/v1" }), "chat_completions")
    assert.strictEqual(mode({ provider: "custom", model: "GPT-5.1-codex" }), "codex_responses")
    assert.strictEqual(mode({ provider: "custom", model: "gpt-5/llama" }), "chat_completions")
    assert.strictEqual(mode({ provider: "copilot", model: "gpt-5.2" }), "codex_responses")
    assert.strictEqual(mode({ provider: "copilot", model: "gpt-5-mini" }), "chat_completions")
    assert.strictEqual(mode({ provider: "copilot", model: "gpt-4.1" }), "chat_completions")
    assert.strictEqual(mode({ provider: "copilot-acp", model: "gpt-5.2" }), "chat_completions")
    assert.strictEqual(mode({ apiMode: "chat_completions", baseUrl: "https://api.openai.com/v1" }), "chat_completions")
  })

  it("takes the query off the address and keeps it as parameters", () => {
    const found = RouteDetection.detectRoute({
      model: "gpt-5",
      baseUrl: "https://me.openai.azure.com/openai/deployments/x/?api-version=2025-01-01&a=b#top"
    })
    assert.strictEqual(found.baseUrl, "https://me.openai.azure.com/openai/deployments/x")
    assert.deepStrictEqual(found.query, { "api-version": "2025-01-01", a: "b" })
    assert.strictEqual(found.apiMode, "chat_completions")
    assert.strictEqual(RouteDetection.detectRoute({ model: "m", baseUrl: "https://h.example/v1/" }).query, undefined)
  })

  it("reads the region of a Bedrock host and of nothing else", () => {
    const region = (input: Partial<RouteDetection.Input>) => RouteDetection.detectRoute({ model: "m", ...input }).region
    assert.strictEqual(region({ provider: "bedrock" }), "us-east-1")
    assert.strictEqual(region({ baseUrl: "https://bedrock-runtime.ap-south-1.amazonaws.com" }), "ap-south-1")
    assert.strictEqual(
      region({
        provider: "bedrock",
        apiMode: "anthropic_messages",
        baseUrl: "https://bedrock-runtime.eu-west-1.amazonaws.com"
      }),
      "eu-west-1"
    )
    assert.strictEqual(region({ baseUrl: "https://h.example" }), undefined)
  })

  it("knows local hosts", () => {
    const local = (baseUrl: string) => RouteDetection.isLocal(RouteDetection.parseAddress(baseUrl).host)
    for (const baseUrl of [
      "http://localhost:1/v1",
      "http://127.0.0.1:1",
      "http://[::1]:8080/v1",
      "http://0.0.0.0:1",
      "http://host.docker.internal:11434",
      "http://192.168.1.4:1",
      "http://172.20.0.2",
      "http://10.1.2.3"
    ])
      assert.isTrue(local(baseUrl), baseUrl)
    for (const baseUrl of ["https://127.0.0.1.example", "https://172.32.0.1", "https://api.openai.com", "nonsense"]) {
      assert.isFalse(local(baseUrl), baseUrl)
    }
  })
})
