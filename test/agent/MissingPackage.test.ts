// A model whose package is not installed: the run fails with a ConfigError that names the package and the command.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Agent from "../../src/agent/Agent.ts"
import { ConfigError } from "../../src/base/domain/AgentError.ts"
import type { Route } from "../../src/base/domain/Route.ts"
import * as OptionalPackage from "../../src/base/platform/OptionalPackage.ts"
import { fromLayer } from "../../src/kit/promise/CreateHermes.ts"
import { HermesError } from "../../src/kit/promise/HermesError.ts"
import * as RoutedModelRouter from "../../src/models/routing/RoutedModelRouter.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import * as ToolRegistry from "../../src/tools/ToolRegistry.ts"

const route: Route = {
  provider: "anthropic",
  model: "claude-sonnet-4-6",
  apiMode: "anthropic_messages",
  baseUrl: undefined,
  apiKey: Redacted.make("k")
}

// A name that nothing resolves, in a variable that a checker of imports does not follow.
const name: string = "an-sdk-that-nobody-installed"

const agent = Agent.layer({ cwd: "/tmp" }).pipe(
  Layer.provide([
    RoutedModelRouter.layer({
      chain: [{ route }],
      open: ({ model }) => OptionalPackage.load(`model ${model} needs the package`, [name], () => import(name))
    }),
    SessionStore.layerMemory,
    ToolRegistry.layer([])
  ])
)

const message = `model claude-sonnet-4-6 needs the package ${name}, which is not installed: npm install ${name}`

describe("a run whose model needs a package that is not installed", () => {
  it.effect("fails with a ConfigError, not with an invalid request", () =>
    Effect.gen(function* () {
      const error = yield* Effect.flip(Effect.provide(Agent.run({ prompt: "go" }), agent))
      assert.deepStrictEqual(error, new ConfigError({ path: name, message }))
    })
  )

  it("is the same without Effect", async () => {
    await using hermes = fromLayer(agent)
    const error: unknown = await hermes.run("go").catch((given: unknown) => given)
    assert.isTrue(error instanceof HermesError && error.tag === "ConfigError" && error.message === message)
  })
})
