// Models to choose from, and which of them may be made the default.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { readFileSync, writeFileSync } from "node:fs"
import { join } from "node:path"
import * as ModelChoices from "../../../src/program/cli/ModelChoices.ts"
import * as Config from "../../../src/base/config/Config.ts"
import { ProcessVariables } from "../../../src/base/config/Environment.ts"
import type { Route } from "../../../src/base/domain/Route.ts"
import * as Catalogue from "../../../src/models/routing/Catalogue.ts"
import { ModelRouter } from "../../../src/models/routing/ModelRouter.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const first: Route = {
  provider: "custom",
  model: "local-one",
  apiMode: "chat_completions",
  baseUrl: "http://127.0.0.1:9/v1",
  apiKey: Redacted.make("first-key")
}

const config = `model:
  provider: custom
  base_url: http://127.0.0.1:9/v1
  default: local-one
  api_key: first-key
fallback_providers:
  - provider: custom
    base_url: http://127.0.0.1:10/v1
    model: second-one
    api_key: second-key
`

describe("ModelChoices", () => {
  it.effect(
    "each model is asked at its own address with its own key, and only one of the settings' address is saved",
    () =>
      Effect.scoped(
        Effect.gen(function* () {
          const home = yield* temporaryDirectory
          const file = join(home, "config.yaml")
          writeFileSync(file, config)
          const keys: Array<string> = []
          const router = ModelRouter.of({
            primary: Effect.succeed({
              provider: "custom",
              model: "local-one",
              apiMode: "chat_completions",
              baseUrl: first.baseUrl
            }),
            primaryRoute: Effect.succeed(first),
            catalogue: {
              ...Catalogue.makeBundled(),
              window: () => Effect.succeed({ tokens: 32_000, source: "config" }),
              listed: ({ apiKey, baseUrl }) =>
                Effect.sync(() => {
                  keys.push(`${baseUrl} ${apiKey === undefined ? "" : Redacted.value(apiKey)}`)
                  return [{ id: "local-one" }, { id: baseUrl === first.baseUrl ? "listed-a" : "listed-b" }]
                })
            },
            call: () => Effect.never,
            advance: () => Effect.undefined,
            current: () => Effect.succeed(first)
          })
          yield* Effect.gen(function* () {
            const { list, save } = yield* ModelChoices.make
            const choices = yield* list
            assert.deepStrictEqual(
              choices.map(({ model, origin, route }) => [model, origin, route?.baseUrl]),
              [
                ["local-one", "configured", undefined],
                ["second-one", "fallback", "http://127.0.0.1:10/v1"],
                ["listed-a", "listed", first.baseUrl],
                ["listed-b", "listed", "http://127.0.0.1:10/v1"]
              ]
            )
            assert.deepStrictEqual(keys.toSorted(), [
              "http://127.0.0.1:10/v1 second-key",
              "http://127.0.0.1:9/v1 first-key"
            ])
            for (const model of ["second-one", "listed-b"]) {
              const choice = choices.find((one) => one.model === model)
              assert.isDefined(choice)
              if (choice !== undefined)
                assert.include((yield* Effect.flip(save(choice))).message, "make it the default with `hermes model`")
            }
            assert.strictEqual(readFileSync(file, "utf8"), config)
            const listed = choices.find((one) => one.model === "listed-a")
            if (listed !== undefined) assert.strictEqual(yield* save(listed), "model.default in config.yaml")
            assert.strictEqual(readFileSync(file, "utf8"), config.replace("default: local-one", "default: listed-a"))
          }).pipe(
            Effect.provide(
              Layer.mergeAll(Config.layerAll(), Layer.succeed(ModelRouter, router)).pipe(
                Layer.provide(Layer.succeed(ProcessVariables, { HERMES_HOME: home, HOME: home }))
              )
            )
          )
        })
      ).pipe(Effect.provide(NodeServices.layer))
  )
})
