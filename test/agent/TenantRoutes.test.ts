// Routes and keys of tenants: which key makes which call is counted by the server. A refusal of one key changes nothing
// for the calls with another key.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as LanguageModel from "effect/ai/LanguageModel"
import * as Prompt from "effect/ai/Prompt"
import * as Agent from "../../src/agent/Agent.ts"
import * as Tenants from "../../src/agent/Tenants.ts"
import type { Route } from "../../src/base/domain/Route.ts"
import { Auxiliary } from "../../src/models/routing/Auxiliary.ts"
import * as RetryPolicy from "../../src/models/routing/RetryPolicy.ts"
import type * as RunEvent from "../../src/base/domain/RunEvent.ts"
import * as Runtime from "../../src/program/Runtime.ts"
import * as Delegate from "../../src/tools/builtin/Delegate.ts"
import { answerCall, answerText, keyedServer, type KeyedAnswer } from "../support/keyedServer.ts"

const shared = "shared-key-0123456789"
const acmeKey = "acme-key-9876543210"
const otherKey = "globex-key-5678901234"

const route = (url: string, model: string, key?: string) => ({
  provider: "custom",
  baseUrl: url,
  model,
  ...(key === undefined ? {} : { apiKey: Redacted.make(key) })
})

const toRoute = (url: string, model: string, key: string): Route => ({
  provider: "custom",
  model,
  baseUrl: url,
  apiMode: "chat_completions",
  apiKey: Redacted.make(key)
})

const question = Prompt.userMessage({ content: [Prompt.textPart({ text: "look" })] })
/** The ids of a call matter to its record only. */
const context = { sessionId: "s", taskId: undefined, turnId: undefined }
/** A runtime has all these services, which its type does not say. */
const ofRuntime = <A, E, R>(effect: Effect.Effect<A, E, R>) => effect as Effect.Effect<A, E>

/** A runtime whose shared route has the shared key, and its tenants. */
const runtimeWith = (url: string, lookup: Tenants.Lookup, retry = RetryPolicy.none) =>
  Runtime.layer({ routes: [route(url, "large", shared)], retry, tenants: Tenants.layer({ lookup }) }).pipe(
    Layer.provide(NodeServices.layer)
  )

const fromList =
  (...tenants: ReadonlyArray<Tenants.Tenant>): Tenants.Lookup =>
  (id) =>
    Effect.succeed(tenants.find((one) => one.id === id))

const run = (tenant: string | undefined, more: Partial<Agent.RunInput> = {}) =>
  Agent.run({ prompt: "go", tenant, ...more })

/** Runs a test with a server for both kinds of answers. */
const forBoth = (
  name: string,
  answers: Record<string, KeyedAnswer>,
  body: (
    server: Effect.Success<ReturnType<typeof keyedServer>>,
    answers: Record<string, KeyedAnswer>,
    streaming: boolean
  ) => Effect.Effect<void, unknown>
) => {
  for (const streaming of [true, false])
    it.live(`${name} (${streaming ? "streamed" : "in one piece"})`, () =>
      Effect.scoped(
        Effect.gen(function* () {
          const own = { ...answers }
          yield* body(yield* keyedServer(own), own, streaming)
        })
      )
    )
}

describe("a tenant's own routes and keys", () => {
  forBoth(
    "are used for its runs, and the shared key for others",
    { [shared]: "s", [acmeKey]: "a" },
    (server, _, streaming) =>
      Effect.gen(function* () {
        const acme = { id: "acme", routes: [route(server.url, "small", acmeKey)] }
        yield* Effect.gen(function* () {
          const results = [
            yield* run("acme", { streaming }),
            yield* run("globex", { streaming }),
            yield* run(undefined, { streaming })
          ]
          assert.deepStrictEqual(
            results.map(({ text }) => text),
            ["a", "s", "s"]
          )
        }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme, { id: "globex" }))))
        assert.deepStrictEqual(server.count(), { [`${acmeKey} small`]: 1, [`${shared} large`]: 2 })
      })
  )
  for (const status of [401, 402, 403, 500])
    forBoth(
      `never fall back to the shared key after ${status}`,
      { [shared]: "s", [acmeKey]: status },
      (server, _, streaming) =>
        Effect.gen(function* () {
          const acme = { id: "acme", routes: [route(server.url, "small", acmeKey)] }
          yield* Effect.gen(function* () {
            const exit = yield* Effect.exit(run("acme", { streaming }))
            assert.strictEqual(exit._tag, "Failure")
            assert.notInclude(JSON.stringify(exit), acmeKey)
            // The refusals of the tenant's key close nothing for others.
            assert.strictEqual((yield* run("globex", { streaming })).text, "s")
          }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme, { id: "globex" }))))
          assert.deepStrictEqual(Object.keys(server.count()), [`${acmeKey} small`, `${shared} large`])
        })
    )
  forBoth(
    "fall back to the shared routes if the tenant permits it",
    { [shared]: "s", [acmeKey]: 401 },
    (server, _, streaming) =>
      Effect.gen(function* () {
        const acme = { id: "acme", routes: [route(server.url, "small", acmeKey)], sharedKeys: "fallback" as const }
        yield* Effect.gen(function* () {
          assert.strictEqual((yield* run("acme", { streaming })).text, "s")
        }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme))))
        assert.deepStrictEqual(server.count(), { [`${acmeKey} small`]: 1, [`${shared} large`]: 1 })
      })
  )

  forBoth(
    "are separate for two tenants at the same address and model",
    { [acmeKey]: 500, [otherKey]: "g" },
    (server, _, streaming) =>
      Effect.gen(function* () {
        const lookup = fromList(
          { id: "acme", routes: [route(server.url, "small", acmeKey)] },
          { id: "globex", routes: [route(server.url, "small", otherKey)] }
        )
        yield* Effect.gen(function* () {
          for (let turn = 0; turn < 8; turn++)
            assert.isTrue(Exit.isFailure(yield* Effect.exit(run("acme", { streaming }))))
          assert.strictEqual((yield* run("globex", { streaming })).text, "g")
        }).pipe(Effect.provide(runtimeWith(server.url, lookup)))
        assert.deepStrictEqual(server.count(), { [`${acmeKey} small`]: 8, [`${otherKey} small`]: 1 })
      })
  )

  forBoth(
    "use the next key of a pool and the next route of the tenant",
    { b: "unused" },
    (server, answers, streaming) =>
      Effect.gen(function* () {
        const [first, second, third] = ["acme-pool-1-345678901", "acme-pool-2-345678901", "acme-next-345678901"]
        Object.assign(answers, { [first]: 401, [second]: "second", [third]: "third" })
        const keys = [Redacted.make(first), Redacted.make(second)]
        const acme = {
          id: "acme",
          routes: [{ ...route(server.url, "small"), apiKey: keys }, route(server.url, "spare", third)]
        }
        yield* Effect.gen(function* () {
          assert.strictEqual((yield* run("acme", { streaming })).text, "second")
          Object.assign(answers, { [second]: 401 })
          assert.strictEqual((yield* run("acme", { streaming })).text, "third")
        }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme))))
        assert.notInclude(Object.keys(server.count()).join(), shared)
      })
  )

  forBoth(
    "change with the next run after the lookup returns another key",
    { [acmeKey]: "old", [otherKey]: "new" },
    (server, answers, streaming) =>
      Effect.gen(function* () {
        let key = acmeKey
        const lookup: Tenants.Lookup = (id) => Effect.sync(() => ({ id, routes: [route(server.url, "small", key)] }))
        yield* Effect.gen(function* () {
          assert.strictEqual((yield* run("acme", { streaming })).text, "old")
          key = otherKey
          // The provider has revoked the old key.
          answers[acmeKey] = 401
          assert.strictEqual((yield* run("acme", { streaming })).text, "new")
        }).pipe(Effect.provide(runtimeWith(server.url, lookup)))
        assert.deepStrictEqual(server.count(), { [`${acmeKey} small`]: 1, [`${otherKey} small`]: 1 })
      })
  )

  forBoth("are the route of a tenant without a key, with the shared key", { [shared]: "s" }, (server, _, streaming) =>
    Effect.gen(function* () {
      const acme = { id: "acme", routes: [route(server.url, "small")] }
      yield* Effect.gen(function* () {
        assert.strictEqual((yield* run("acme", { streaming })).text, "s")
      }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme))))
      assert.deepStrictEqual(server.count(), { [`${shared} small`]: 1 })
    })
  )

  forBoth(
    "apply to side tasks, models of tools and named routes",
    { [shared]: "s", [acmeKey]: "a", [otherKey]: "o" },
    (server, _, streaming) =>
      Effect.gen(function* () {
        const acme = {
          id: "acme",
          routes: [route(server.url, "small", acmeKey)],
          auxiliary: { title: route(server.url, "tiny", otherKey) }
        }
        const ask = (task: string) =>
          Auxiliary.use((auxiliary) => auxiliary.call(task, { messages: [question], context: context as never }))
        yield* Effect.gen(function* () {
          const { bound } = yield* Tenants.Tenants
          assert.strictEqual((yield* bound("acme", ask("title"))).text, "o")
          assert.strictEqual((yield* bound("acme", ask("approval"))).text, "a")
          assert.strictEqual((yield* bound("acme", LanguageModel.generateText({ prompt: "think" }))).text, "a")
          // A route that the application names has another key.
          const named = toRoute(server.url, "large", shared)
          const refused = yield* Effect.flip(run("acme", { streaming, route: named }))
          assert.strictEqual(refused._tag, "TenantRefused")
          assert.include(refused.message, "tenant acme: its calls may not use the key of custom (large)")
          const own = yield* run("acme", { streaming, route: toRoute(server.url, "other", acmeKey) })
          assert.strictEqual(own.text, "a")
        }).pipe(Effect.provide(runtimeWith(server.url, fromList(acme))), ofRuntime)
        assert.deepStrictEqual(server.count(), {
          [`${otherKey} tiny`]: 1,
          [`${acmeKey} small`]: 2,
          [`${acmeKey} other`]: 1
        })
      })
  )

  forBoth(
    "apply to sub-agents, whose configured route has the shared key",
    { [shared]: "s" },
    (server, answers, streaming) =>
      Effect.gen(function* () {
        let calls = 0
        answers[acmeKey] = (call, response) => {
          if (++calls === 1) answerCall(call, response, "delegate_task", { goal: "look" })
          else answerText(call, response, "done")
        }
        const acme = { id: "acme", routes: [route(server.url, "small", acmeKey)] }
        const layer = Runtime.layer({
          routes: [route(server.url, "large", shared)],
          retry: RetryPolicy.none,
          delegation: { route: toRoute(server.url, "child", shared) },
          tenants: Tenants.layer({ lookup: fromList(acme) }),
          tools: [Delegate.toolset]
        }).pipe(Layer.provide(NodeServices.layer))
        const notices: Array<string> = []
        const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
          Effect.sync(() => {
            for (const event of events) if (event._tag === "Notice") notices.push(event.message)
          })
        yield* Effect.provide(run("acme", { streaming, onEvent }), layer)
        assert.deepStrictEqual(server.count(), { [`${acmeKey} small`]: 3 })
        assert.lengthOf(
          notices.filter((notice) => notice.includes("the tenant has no key for the configured route custom (child)")),
          1
        )
      })
  )

  it.effect("are refused if a key is empty or not Redacted, or a route of a tenant with keys has none", () =>
    Effect.gen(function* () {
      const url = "http://127.0.0.1:9/v1"
      const cases: ReadonlyArray<readonly [Partial<Tenants.Tenant>, string]> = [
        [{ routes: [route(url, "small", "")] }, "routes[0].apiKey is empty"],
        [{ routes: [{ ...route(url, "small"), apiKey: undefined }] }, "routes[0].apiKey is empty"],
        [{ routes: [{ ...route(url, "small"), apiKey: [] }] }, "routes[0].apiKey is empty"],
        [
          { routes: [{ ...route(url, "small"), apiKey: acmeKey as never }] },
          "routes[0].apiKey must be a Redacted text"
        ],
        [{ routes: "none" as never }, "routes must be a list"],
        [{ sharedKeys: "always" as never }, "sharedKeys must be"],
        [{ routes: [{ provider: "nowhere", model: "m", apiKey: Redacted.make(acmeKey) }] }, "nowhere"],
        [{ auxiliary: { title: route(url, "tiny", acmeKey) } }, "it has no routes for its runs"],
        [
          { routes: [route(url, "small", acmeKey), { provider: "anthropic", model: "claude-haiku-4-5" }] },
          "its route to anthropic (claude-haiku-4-5) has no key"
        ],
        [
          { routes: [{ provider: "anthropic", model: "claude-haiku-4-5" }] },
          "the runtime has no key for its route to anthropic"
        ]
      ]
      for (const [more, message] of cases) {
        const refused = yield* Effect.flip(
          Effect.provide(run("acme"), runtimeWith(url, fromList({ id: "acme", ...more })))
        )
        assert.strictEqual(refused._tag, "TenantRefused", message)
        assert.include(refused.message, message)
        assert.notInclude(JSON.stringify(refused), acmeKey)
      }
    })
  )
})
