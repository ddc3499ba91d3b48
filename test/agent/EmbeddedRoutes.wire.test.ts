// A runtime over routes of the application has what the program has: retries, key pools, fallback. Every route is a
// real server of this machine.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import type { ServerResponse } from "node:http"
import * as Agent from "../../src/agent/Agent.ts"
import { ConfigError } from "../../src/base/domain/AgentError.ts"
import type { RunEvent } from "../../src/base/domain/RunEvent.ts"
import { Secrets } from "../../src/base/domain/Secrets.ts"
import { ModelRouter } from "../../src/models/routing/ModelRouter.ts"
import { RouterStatus } from "../../src/models/routing/ModelRouter.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as HttpServer from "../models/provider/HttpServer.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"

const retry = RetryPolicy.make({ base: "5 millis", cap: "10 millis" })

const says = (response: ServerResponse, text: string) =>
  HttpServer.json(response, 200, {
    choices: [{ index: 0, message: { role: "assistant", content: text }, finish_reason: "stop" }]
  })

const fails = (response: ServerResponse, status: number) =>
  HttpServer.json(response, status, { error: { message: `HTTP ${status}` } }, { "retry-after-ms": "5" })

/**
 * A server whose model answers the `n`-th question (from 1) as it is told to; `keys` are those that it was asked with.
 */
const serving = (answer: (response: ServerResponse, n: number) => unknown) => {
  const keys: Array<string> = []
  return Effect.map(
    HttpServer.make((request, response) => {
      if (!request.url.endsWith("/chat/completions")) return fails(response, 404)
      answer(response, keys.push(String(request.headers.authorization).slice("Bearer ".length)))
    }),
    ({ url }) => ({ baseUrl: `${url}/v1`, keys })
  )
}

const key = (text: string) => Redacted.make(text)

const run = (layer: Layer.Layer<Agent.Agent, ConfigError>) => {
  const events: Array<RunEvent> = []
  return Agent.run({
    prompt: "go",
    streaming: false,
    onEvent: (told) => Effect.sync(() => void events.push(...told))
  }).pipe(
    Effect.provide(layer),
    Effect.map(({ exit, text }) => ({ exit, text, events }))
  )
}

const tags = (events: ReadonlyArray<RunEvent>, tag: RunEvent["_tag"]) => events.filter(({ _tag }) => _tag === tag)

describe("a runtime over routes", () => {
  it.live("asks the second one when the first does not answer, and says so", () =>
    Effect.gen(function* () {
      const first = yield* serving((response) => fails(response, 503))
      const second = yield* serving((response) => says(response, "from the second"))
      const routes = [
        { provider: "custom", model: "a", baseUrl: first.baseUrl, apiKey: key("key-a") },
        { provider: "custom", model: "b", baseUrl: second.baseUrl, apiKey: key("key-b") }
      ]
      const { events, exit, text } = yield* run(Runtime.layer({ routes, retry }))
      assert.deepStrictEqual([exit, text], ["text_response", "from the second"])
      assert.deepStrictEqual([first.keys, second.keys], [["key-a", "key-a", "key-a"], ["key-b"]])
      assert.deepStrictEqual(tags(events, "RouteChanged"), [
        {
          _tag: "RouteChanged",
          from: { provider: "custom", model: "a" },
          to: { provider: "custom", model: "b" },
          reason: "overloaded"
        }
      ])
    })
  )

  it.live("goes on with the next key of a route after a 429", () =>
    Effect.gen(function* () {
      const server = yield* serving((response, n) =>
        n === 1 ? fails(response, 429) : says(response, "by the other key")
      )
      const routes = [{ model: "a", baseUrl: server.baseUrl, apiKey: [key("key-1"), key("key-2")] }]
      const { events, text } = yield* run(Runtime.layer({ routes, retry }))
      assert.strictEqual(text, "by the other key")
      assert.deepStrictEqual(server.keys, ["key-1", "key-2"])
      assert.deepStrictEqual(tags(events, "Waiting"), [])
    })
  )

  it.live("asks a single one again after a 503", () =>
    Effect.gen(function* () {
      const server = yield* serving((response, n) => (n === 1 ? fails(response, 503) : says(response, "done")))
      const { events, text } = yield* run(Runtime.layer({ routes: [{ model: "a", baseUrl: server.baseUrl }], retry }))
      assert.strictEqual(text, "done")
      assert.strictEqual(server.keys.length, 2)
      assert.strictEqual(tags(events, "Waiting").length, 1)
    })
  )

  it.live("leaves a route alone whose calls fail one after the other", () =>
    Effect.gen(function* () {
      const first = yield* serving((response) => fails(response, 500))
      const second = yield* serving((response) => says(response, "ok"))
      const routes = [
        { model: "a", baseUrl: first.baseUrl },
        { model: "b", baseUrl: second.baseUrl }
      ]
      const runs = Agent.run({ prompt: "go", streaming: false })
      const breaker = yield* Effect.forEach([1, 2, 3, 4], () => runs).pipe(
        Effect.andThen(Effect.flatMap(Effect.serviceOption(RouterStatus), Effect.fromOption)),
        Effect.flatMap(({ routes }) => routes),
        Effect.provide(Runtime.layer({ routes, retry: RetryPolicy.none })),
        Effect.map(([status]) => status?.breaker)
      )
      assert.strictEqual(breaker, "Open")
      assert.deepStrictEqual([first.keys.length, second.keys.length], [3, 4])
    })
  )

  it.live("learns from an endpoint how much its model holds", () =>
    Effect.gen(function* () {
      const server = yield* HttpServer.make((request, response) =>
        request.url === "/v1/models"
          ? HttpServer.json(response, 200, { object: "list", data: [{ id: "a", context_length: 77_000 }] })
          : says(response, "hello")
      )
      const program = Effect.gen(function* () {
        const { catalogue, primaryRoute } = yield* ModelRouter
        assert(catalogue !== undefined && primaryRoute !== undefined)
        return yield* catalogue.window(yield* primaryRoute)
      })
      const window = yield* Effect.provide(
        program,
        Runtime.layer({ routes: [{ model: "a", baseUrl: `${server.url}/v1` }] })
      )
      assert.deepStrictEqual(window, { tokens: 77_000, source: "local" })
    })
  )

  it.live("holds every key as a secret, also those that were not used", () =>
    Effect.gen(function* () {
      const keys = ["sk-one-4fQ8zL2mXw9T", "sk-two-7hB3nR5vKc1Y", "sk-three-9dG6pJ8sMe2U"] as const
      const [one, two, three] = keys
      const routes = [
        { provider: "anthropic", model: "claude-sonnet-4-6", apiKey: [key(one), key(two)] },
        { provider: "openrouter", model: "x/y", apiKey: key(three) }
      ] as const
      const masked = yield* Effect.map(Secrets, ({ mask }) => mask(keys.join(" "))).pipe(
        Effect.provide(Runtime.layer({ routes }))
      )
      for (const key of keys) assert.notInclude(masked, key)
    })
  )

  class Clerk extends Context.Service<Clerk, Agent.Service>()("test/Clerk") {}

  it.live("is the same under a key of the application", () =>
    Effect.gen(function* () {
      const first = yield* serving((response) => fails(response, 404))
      const second = yield* serving((response) => says(response, "hello"))
      const routes = [
        { model: "a", baseUrl: first.baseUrl },
        { model: "b", baseUrl: second.baseUrl }
      ]
      const { text } = yield* Clerk.use((clerk) => clerk.run({ prompt: "go", streaming: false })).pipe(
        Effect.provide(Runtime.make(Clerk, { routes }))
      )
      assert.strictEqual(text, "hello")
    })
  )
})

describe("a mistake in the routes", () => {
  const secret = "sk-secret-4fQ8zL2mXw9T"
  const good = { provider: "anthropic", model: "claude-sonnet-4-6", apiKey: key(secret) }

  const mistakes: ReadonlyArray<
    readonly [name: string, routes: ReadonlyArray<Runtime.ModelRoute>, path: string, message: string]
  > = [
    ["no route", [], "routes", "routes is empty: name at least one, such as { provider, model, apiKey }"],
    [
      "a provider that does not exist",
      [{ ...good, provider: "antropic" }],
      "routes[0].provider",
      'routes[0].provider: unknown provider "antropic": did you mean "anthropic"? For an endpoint of your own use the provider custom with routes[0].baseUrl'
    ],
    [
      "a missing key",
      [good, { provider: "openrouter", model: "x/y" }],
      "routes[1].apiKey",
      "routes[1]: no API key for openrouter. Set routes[1].apiKey"
    ],
    [
      "an empty pool",
      [{ ...good, apiKey: [] }],
      "routes[0].apiKey",
      "routes[0]: no API key for anthropic. Set routes[0].apiKey"
    ],
    ["an empty model", [{ ...good, model: " " }], "routes[0].model", "routes[0].model is empty: name a model"],
    [
      "an endpoint without an address",
      [{ provider: "custom", model: "m" }],
      "routes[0].baseUrl",
      'the provider "custom" needs an address: set routes[0].baseUrl'
    ],
    [
      "an address that is none",
      [good, { provider: "custom", model: "m", baseUrl: "localhost:1" }],
      "routes[1].baseUrl",
      'routes[1].baseUrl: "localhost:1" is not an address: write it like https://host/v1'
    ],
    [
      "a route that is there already",
      [good, { provider: "openrouter", model: "x/y", apiKey: key(secret) }, good],
      "routes[2]",
      "routes[2] repeats routes[0], anthropic (claude-sonnet-4-6), with the same key. Remove it"
    ]
  ]

  for (const [name, routes, path, message] of mistakes) {
    it.effect(`${name} is one line that names it`, () =>
      Effect.gen(function* () {
        const error = yield* Effect.flip(run(Runtime.layer({ routes })))
        assert.instanceOf(error, ConfigError)
        assert.deepStrictEqual([error.path, error.message], [path, message])
        assert.notInclude(JSON.stringify(error), secret)
      })
    )
  }
})
