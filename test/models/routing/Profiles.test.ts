import { assert, describe, it } from "@effect/vitest"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as OpenRoute from "../../../src/models/routing/OpenRoute.ts"

const route = (provider: string, baseUrl: string, rest: Partial<Route> = {}): Route => ({
  provider,
  model: "some/model",
  apiMode: "chat_completions",
  baseUrl,
  ...rest
})

const openRouter = "https://openrouter.ai/api/v1"

describe("Profiles", () => {
  it("OpenRouter gets attribution and what the user says of the providers behind it, nothing empty", () => {
    const applied = OpenRoute.applyProfile(route("openrouter", openRouter), {
      only: ["anthropic"],
      ignore: [],
      order: ["b", "a"],
      sort: "price",
      requireParameters: false,
      dataCollection: "deny"
    })
    assert.strictEqual(applied.headers?.["x-title"], "Hermes Agent")
    assert.isDefined(applied.headers?.["http-referer"])
    assert.deepStrictEqual(applied.extraBody, {
      provider: {
        only: ["anthropic"],
        order: ["b", "a"],
        sort: "price",
        require_parameters: false,
        data_collection: "deny"
      }
    })
    assert.isUndefined(OpenRoute.applyProfile(route("openrouter", openRouter), { only: [] }).extraBody)
  })

  it("what the user set wins, whatever the case of a header", () => {
    const applied = OpenRoute.applyProfile(
      route("openrouter", openRouter, { headers: { "X-Title": "Mine" }, extraBody: { provider: { only: ["mine"] } } }),
      { only: ["theirs"] }
    )
    assert.strictEqual(applied.headers?.["X-Title"], "Mine")
    assert.isUndefined(applied.headers?.["x-title"])
    assert.deepStrictEqual(applied.extraBody, { provider: { only: ["mine"] } })
  })

  it("T10 Claude on OpenRouter asks for tool streaming once, after what is asked for already", () => {
    const claude = { model: "anthropic/claude-opus-4.6" }
    const beta = (headers?: Record<string, string>) =>
      OpenRoute.applyProfile(
        route("openrouter", openRouter, { ...claude, ...(headers === undefined ? {} : { headers }) })
      ).headers?.["x-anthropic-beta"]
    const streaming = "fine-grained-tool-streaming-2025-05-14"
    assert.strictEqual(beta(), streaming)
    assert.strictEqual(beta({ "X-Anthropic-Beta": "one" }), `one,${streaming}`)
    assert.strictEqual(beta({ "x-anthropic-beta": `one, ${streaming}` }), `one,${streaming}`)
    assert.isUndefined(OpenRoute.applyProfile(route("openrouter", openRouter)).headers?.["x-anthropic-beta"])
  })

  it("T11 headers of one route do not reach the next, and a route at a plain endpoint stays itself", () => {
    const first = route("openrouter", openRouter, { model: "anthropic/claude-opus-4.6" })
    OpenRoute.applyProfile(first, { only: ["x"] })
    assert.deepStrictEqual(first, route("openrouter", openRouter, { model: "anthropic/claude-opus-4.6" }))
    const plain = route("custom", "https://own.example/v1")
    assert.strictEqual(OpenRoute.applyProfile(plain, { only: ["x"] }), plain)
  })

  it("a profile belongs to a host: a look-alike gets none, a name at somebody else's host neither", () => {
    for (const url of ["https://openrouter.ai.evil.example/v1", "https://proxy.example/openrouter.ai/v1"]) {
      assert.isUndefined(OpenRoute.applyProfile(route("custom", url)).headers)
    }
    assert.isUndefined(OpenRoute.applyProfile(route("openrouter", "https://api.deepseek.com/v1")).headers)
    assert.isDefined(OpenRoute.applyProfile(route("openrouter", "http://127.0.0.1:9/v1")).headers)
  })

  it("Copilot, Kimi, Qwen portal and Nous get what they want", () => {
    assert.strictEqual(
      OpenRoute.applyProfile(route("copilot", "https://api.githubcopilot.com")).headers?.["x-initiator"],
      "agent"
    )
    assert.isDefined(
      OpenRoute.applyProfile(route("kimi-coding", "https://api.kimi.com/coding/v1")).headers?.["user-agent"]
    )
    assert.isUndefined(OpenRoute.applyProfile(route("kimi-coding", "https://api.moonshot.ai/v1")).headers)
    const qwen = OpenRoute.applyProfile(route("custom", "https://portal.qwen.ai/v1")).headers ?? {}
    assert.deepStrictEqual(Object.keys(qwen), [
      "user-agent",
      "x-dashscope-cachecontrol",
      "x-dashscope-useragent",
      "x-dashscope-authtype"
    ])
    const nous = OpenRoute.applyProfile(route("nous", "https://inference-api.nousresearch.com/v1"))
    assert.deepStrictEqual(nous.extraBody, { tags: ["product=hermes-agent"] })
    assert.isUndefined(nous.headers)
  })
})
