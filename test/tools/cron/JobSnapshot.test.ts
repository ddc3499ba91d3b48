import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Redacted from "effect/Redacted"
import * as Config from "../../../src/base/config/Config.ts"
import { make as makeEnvironment } from "../../../src/base/config/Environment.ts"
import { Settings } from "../../../src/base/config/Settings.ts"
import * as JobDraft from "../../../src/tools/cron/JobDraft.ts"

const none = makeEnvironment({})
const settingsOf = (model: Record<string, unknown>) => Effect.provide(Settings, Config.layerFromFile({ model }))

describe("JobSnapshot", () => {
  it.effect("takes what the settings mean, and nothing where nobody configured a model", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(JobDraft.readCurrentModel(yield* settingsOf({}), none), {})
      assert.deepStrictEqual(
        JobDraft.readCurrentModel(yield* settingsOf({ provider: "openrouter", default: "a/b" }), none),
        { provider: "openrouter", model: "a/b" }
      )
      const auto = JobDraft.readCurrentModel(
        yield* settingsOf({ default: "claude-sonnet-4-5" }),
        makeEnvironment({ ANTHROPIC_API_KEY: "k" })
      )
      assert.deepStrictEqual(auto, { provider: "anthropic", model: "claude-sonnet-4-5" })
    })
  )

  it.effect("keeps the key of the settings with the provider that it was given for", () =>
    Effect.gen(function* () {
      const settings = yield* settingsOf({
        provider: "custom",
        base_url: "http://127.0.0.1:1",
        default: "local",
        api_key: "secret"
      })
      const same = JobDraft.applyModel(settings, none, {
        provider: "custom",
        base_url: "http://127.0.0.1:1",
        model: "older"
      }).model
      assert.deepStrictEqual([same.default, Redacted.value(same.apiKey ?? Redacted.make(""))], ["older", "secret"])
      for (const other of [
        { provider: "anthropic", model: "x" },
        { provider: "custom", base_url: "http://127.0.0.1:2", model: "x" }
      ]) {
        const { model } = JobDraft.applyModel(settings, none, other)
        assert.isFalse(Object.hasOwn(model, "apiKey"))
        assert.deepStrictEqual([model.provider, model.default, model.baseUrl], [other.provider, "x", other.base_url])
      }
      assert.strictEqual(JobDraft.applyModel(settings, none, {}).model.default, "local")
    })
  )
})
