// Whom a route of the Messages protocol asks, with which headers and for how much at most.
import { assert, describe, it } from "@effect/vitest"
import * as Redacted from "effect/Redacted"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Endpoint from "../../../src/models/provider/anthropic/Endpoint.ts"
import * as ModelAbilities from "../../../src/models/provider/ModelAbilities.ts"

const native: Route = { provider: "anthropic", model: "claude-opus-4-6", apiMode: "anthropic_messages" }

describe("endpoints", () => {
  const key = (apiKey: string, more: Partial<Route> = {}): Route => ({
    ...native,
    apiKey: Redacted.make(apiKey),
    ...more
  })
  const headers = (route: Route) => {
    const all = Endpoint.makeHeaders(route, Endpoint.fromRoute(route))
    return {
      key: all["x-api-key"],
      authorization: all["authorization"],
      betas: all["anthropic-beta"],
      app: all["x-app"]
    }
  }
  const both = "interleaved-thinking-2025-05-14,fine-grained-tool-streaming-2025-05-14"

  it("gives a key as x-api-key, at Anthropic and at gateways", () => {
    const expected = { key: "sk-ant-api03-x", authorization: null, betas: both, app: undefined }
    assert.deepStrictEqual(headers(key("sk-ant-api03-x")), expected)
    assert.deepStrictEqual(headers(key("sk-ant-api03-x", { baseUrl: "https://proxy.example/anthropic" })), expected)
  })

  it("shows a subscription's identity to Anthropic alone", () => {
    const expected = {
      key: null,
      authorization: "Bearer sk-ant-oat01-x",
      betas: `${both},claude-code-20250219,oauth-2025-04-20`,
      app: "cli"
    }
    assert.deepStrictEqual(headers(key("sk-ant-oat01-x")), expected)
    assert.strictEqual(headers(key("eyJhbGciOi")).authorization, "Bearer eyJhbGciOi")
    for (const more of [
      { baseUrl: "https://proxy.example/anthropic" },
      { baseUrl: "https://proxy.example/api.anthropic.com" },
      { baseUrl: "https://api.anthropic.com.evil.example" },
      { provider: "custom" }
    ]) {
      assert.deepStrictEqual(headers(key("sk-ant-oat01-x", more)), {
        key: "sk-ant-oat01-x",
        authorization: null,
        betas: both,
        app: undefined
      })
    }
  })

  it("gives MiniMax a bearer token, without the beta that breaks its tools", () => {
    assert.deepStrictEqual(headers(key("mm", { provider: "custom", baseUrl: "https://api.minimax.io/anthropic" })), {
      key: null,
      authorization: "Bearer mm",
      betas: "interleaved-thinking-2025-05-14",
      app: undefined
    })
  })

  it("lets a route's headers win and adds its betas", () => {
    const all = (route: Route) => Endpoint.makeHeaders(route, Endpoint.fromRoute(route))
    const own = all(key("k", { headers: { "X-Api-Key": "other", "Anthropic-Beta": "context-1m-2025-08-07" } }))
    assert.strictEqual(own["x-api-key"], "other")
    assert.strictEqual(own["anthropic-beta"], `${both},context-1m-2025-08-07`)
    assert.deepInclude(all(native), { "x-api-key": null, authorization: null, "anthropic-version": "2023-06-01" })
  })

  it("writes model ids as the endpoint does", () => {
    const id = (model: string, more: Partial<Route> = {}) => Endpoint.fromRoute({ ...native, model, ...more }).model
    assert.strictEqual(id("anthropic/claude-opus-4.6"), "claude-opus-4-6")
    assert.strictEqual(
      id("MiniMax-M2.1", { provider: "minimax", baseUrl: "https://api.minimax.io/anthropic" }),
      "MiniMax-M2.1"
    )
    assert.strictEqual(id("glm-4.7", { provider: "custom", baseUrl: "https://api.z.ai/api/anthropic" }), "glm-4.7")
    const opencode = { provider: "opencode-zen", baseUrl: "https://opencode.ai/zen" }
    assert.strictEqual(id("claude-sonnet-4.6", opencode), "claude-sonnet-4-6")
    assert.strictEqual(id("minimax-m2.1", opencode), "minimax-m2.1")
  })

  it("takes a base URL with or without /v1", () => {
    const url = (baseUrl: string) => Endpoint.fromRoute({ ...native, baseUrl }).baseUrl
    assert.strictEqual(url("https://api.anthropic.com/v1/"), "https://api.anthropic.com")
    assert.strictEqual(url("https://proxy.example/anthropic/"), "https://proxy.example/anthropic")
  })
})

it("output limits take the longest name that fits (Sonnet 4.6 by ARCHITECTURE §7, D11)", () => {
  for (const [model, limit] of [
    ["claude-opus-4-1-20250805", 32_000],
    ["claude-opus-4.5", 64_000],
    ["claude-sonnet-4-6", 128_000],
    ["claude-sonnet-4-20250514", 64_000],
    ["claude-3-haiku-20240307", 4_096],
    ["MiniMax-M2", 131_072],
    ["nobody-knows", 128_000]
  ] as const)
    assert.strictEqual(ModelAbilities.findOutputLimit(model), limit, model)
})
