// A key in the environment selects a model where the settings select none, and the user is told so.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Config from "../../../src/base/config/Config.ts"
import * as DefaultModel from "../../../src/base/config/DefaultModel.ts"
import { make } from "../../../src/base/config/Environment.ts"

const choose = (
  variables: Readonly<Record<string, string>>,
  file: unknown = {},
  flags: ReadonlyArray<Config.Flag> = []
) =>
  Effect.map(Config.resolve({ file, environment: make(variables), flags }), ({ settings }) => ({
    model: `${settings.model.provider}/${settings.model.default}`,
    note: DefaultModel.describeChoice(settings)
  }))

describe("the model of a key in the environment", () => {
  it.effect("is the provider's default model, and a note names the variable", () =>
    Effect.gen(function* () {
      assert.deepStrictEqual(yield* choose({ ANTHROPIC_API_KEY: "k", OPENAI_API_KEY: "k" }), {
        model: "anthropic/claude-sonnet-4-6",
        note: "using claude-sonnet-4-6 of Anthropic, because ANTHROPIC_API_KEY is set; `hermes model` or --model chooses another"
      })
    })
  )

  it.effect("is not chosen if the settings name a model, a provider or an address", () =>
    Effect.gen(function* () {
      const key = { ANTHROPIC_API_KEY: "k" }
      const given: ReadonlyArray<readonly [unknown, ReadonlyArray<Config.Flag>, string]> = [
        [{ model: { default: "m" } }, [], "auto/m"],
        [{ model: { provider: "offline" } }, [], "offline/undefined"],
        [{ model: { base_url: "http://127.0.0.1:9/v1" } }, [], "auto/undefined"],
        [{}, [{ name: "--provider", key: "model.provider", value: "openai" }], "openai/undefined"]
      ]
      for (const [file, flags, model] of given)
        assert.deepStrictEqual(yield* choose(key, file, flags), { model, note: undefined })
      assert.strictEqual((yield* choose({ ...key, OPENAI_BASE_URL: "http://127.0.0.1:9/v1" })).note, undefined)
      assert.strictEqual((yield* choose({ GITHUB_TOKEN: "k", AWS_ACCESS_KEY_ID: "k" })).model, "auto/undefined")
    })
  )
})
