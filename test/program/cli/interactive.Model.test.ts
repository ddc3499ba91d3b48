// /model and /effort: what is listed, what holds for the session, and what is kept.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import { makeWorkFailure } from "../../../src/program/cli/Failure.ts"
import type { ModelChoice, ModelChoices } from "../../../src/program/cli/ModelChoices.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import { session } from "../../support/interactiveSession.ts"

const route = (model: string, provider = "fake"): Route => ({ provider, model, apiMode: "chat_completions" })
const choice = (model: string, changes: Partial<ModelChoice> = {}): ModelChoice => ({
  route: route(model),
  model,
  provider: "fake",
  origin: "listed",
  window: undefined,
  ...changes
})

const models = (saved: Array<string> = []): ModelChoices => ({
  list: Effect.succeed([
    choice("fake-1", { route: undefined, origin: "configured", window: 200_000 }),
    choice("fake-2"),
    choice("other-1", { route: route("other-1", "elsewhere"), provider: "elsewhere", origin: "fallback" })
  ]),
  save: ({ model, provider }) =>
    provider === "fake"
      ? Effect.sync(() => {
          saved.push(model)
          return "model.default in config.yaml"
        })
      : Effect.fail(makeWorkFailure(`${model} is served by ${provider}: make it the default with \`hermes model\``))
})

describe("/model", () => {
  it.effect("lists the models, and the one that is taken holds for the session or for good", () => {
    const saved: Array<string> = []
    return session(
      { models: models(saved), status: { compactAt: undefined, home: undefined } },
      ({ model, type, until }) =>
        Effect.gen(function* () {
          yield* type("/model\r")
          const shown = yield* until("Models · type to search")
          assert.match(
            shown,
            /❯ fake-1 +fake, 200k tokens, configured\n {2}fake-2 +fake\n {2}other-1 +elsewhere, fallback/
          )
          yield* type("fake2\r")
          yield* until("❯ For this session")
          yield* type("\r")
          yield* until("Model: fake-2 of fake, for this session.")
          yield* until("fake-2 · ask")
          assert.deepStrictEqual(saved, [])
          yield* type("/model fake-1 always\r")
          yield* until("Model: fake-1 of fake, saved as model.default in config.yaml.")
          assert.deepStrictEqual(saved, ["fake-1"])
          yield* until("  fake-1 · ask")
          yield* type("again\r")
          yield* until("You said: again")
          assert.strictEqual(model.asked.length, 1)
        })
    )
  })

  it.effect("says which model was meant, and what cannot be kept", () =>
    session({ models: models() }, ({ screen, type, until }) =>
      Effect.gen(function* () {
        yield* type("/model fake-3\r")
        yield* until('No model "fake-3". Did you mean')
        yield* type("/model other-1 always\r")
        yield* until("other-1 is served by elsewhere: make it the default with `hermes model`")
        assert.notInclude(screen(), "Model: other-1")
      })
    )
  )

  it.effect("without models says how to set one up", () =>
    session({}, ({ type, until }) =>
      Effect.gen(function* () {
        yield* type("/model\r")
        yield* until("No models to choose from. Run `hermes model` to set one up.")
      })
    )
  )
})

describe("/effort", () => {
  it.effect("sets the reasoning effort of the next turns", () =>
    session({}, ({ model, type, until }) =>
      Effect.gen(function* () {
        yield* type("/effort loud\r")
        yield* until("/effort takes one of none, minimal")
        yield* type("/effort high\r")
        yield* until("Reasoning effort: high, from the next turn on.")
        yield* type("hello\r")
        yield* until("You said: hello")
        assert.strictEqual(model.asked.at(-1)?.reasoningEffort, "high")
        yield* type("/effort default\r")
        yield* type("/effort\r")
        yield* until("Reasoning effort: from the settings. Set it")
      })
    )
  )
})
