// The parts of an agent as Layers: each is swapped in an otherwise unchanged application, and additions from several
// places have one order.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import {
  Agent,
  Approvals,
  CommandEnvironment,
  Hooks,
  Middleware,
  ModelRouter,
  Offline,
  Plugin,
  RunContext,
  Runtime,
  Scripted,
  SessionStore,
  ToolRegistry,
  Toolset
} from "../../src/index.ts"
import * as NodeServices from "@effect/platform-node/NodeServices"
import { TestParts } from "../../src/kit/entry/testing.ts"
import { FileState } from "../../src/kit/entry/tools/files.ts"
import { ProcessEvents, ProcessRegistry } from "../../src/kit/entry/tools/terminal.ts"

/** A toolset of one tool, which answers with a text. */
const makeTools = (toolset: string, name: string, text: string) => {
  const toolkit = Toolkit.make(
    Tool.make(name, { description: name, success: Schema.String }).annotate(Tool.Readonly, true)
  )
  return Toolset.make(toolset, toolkit, toolkit.toLayer({ [name]: () => Effect.succeed(text) }))
}

const askWeather = [
  Scripted.complete({ toolCalls: [{ name: "weather", params: {} }] }),
  Scripted.complete("It is four degrees.")
]

/** Middleware that writes its name into a list for each model call. */
const note = (seen: Array<string>, name: string) =>
  Middleware.wrapModelCall({
    name,
    wrap: (next) => (params) =>
      Effect.andThen(
        Effect.sync(() => seen.push(name)),
        Effect.suspend(() => next(params))
      )
  })

/** A hook that writes its label into a list. */
const listen = (seen: Array<string>, label: string) =>
  Hooks.on("on_session_start", () => Effect.sync(() => void seen.push(label)), { label })

/** An application of all parts; a layer that is provided to its agent replaces the part. */
const makeApplication = () => {
  const wrapped: Array<string> = []
  const heard: Array<string> = []
  const agent = Runtime.layerNoDeps({ instructions: "Answer briefly." })
  const router = ModelRouter.layer
  const parts = Layer.mergeAll(
    ToolRegistry.layer([makeTools("weather", "weather", "4")]),
    Hooks.layer([listen(heard, "application")]),
    Middleware.layer([note(wrapped, "application")])
  )
  const provider = Scripted.layer(askWeather)
  const services = Layer.mergeAll(
    SessionStore.layerMemory,
    Approvals.layerDeny().pipe(Layer.provide(Hooks.layerNone)),
    FileState.layer,
    ProcessRegistry.layer.pipe(
      Layer.provideMerge(ProcessEvents.layer),
      Layer.provide(CommandEnvironment.layerLocal),
      Layer.provide(NodeServices.layer)
    )
  )
  return { agent, router, parts, provider, services, wrapped, heard }
}

const run = Effect.map(Agent.run({ prompt: "How warm is it?" }), ({ text }) => text)

describe("parts of an application", () => {
  it.effect("without a replacement, all are its own", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, provider, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provide(router),
        Layer.provide(parts),
        Layer.provide(provider),
        Layer.provide(services)
      )
      assert.strictEqual(yield* Effect.provide(run, application), "It is four degrees.")
      assert.deepStrictEqual([wrapped, heard], [["application", "application"], ["application"]])
    })
  )

  it.effect("the provider is swapped by a Layer", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, provider, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provide(router),
        Layer.provide(Scripted.layer([Scripted.complete("from another model")])),
        Layer.provide(parts),
        Layer.provide(provider),
        Layer.provide(services)
      )
      assert.strictEqual(yield* Effect.provide(run, application), "from another model")
      assert.deepStrictEqual([wrapped, heard], [["application"], ["application"]])
    })
  )

  it.effect("the tools are swapped by a Layer", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, provider, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provideMerge(TestParts.layerTools({ weather: () => ({ celsius: 20 }), time: "noon" })),
        Layer.provide(router),
        Layer.provide(parts),
        Layer.provide(provider),
        Layer.provide(services)
      )
      const program = Effect.gen(function* () {
        assert.strictEqual(yield* run, "It is four degrees.")
        return (yield* TestParts.ToolCalls).all()
      })
      assert.deepStrictEqual(yield* Effect.provide(program, application), [{ name: "weather", params: {} }])
      assert.deepStrictEqual([wrapped, heard], [["application", "application"], ["application"]])
    })
  )

  it.effect("the hooks are swapped by a Layer", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, provider, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provideMerge(Hooks.layerTest),
        Layer.provide(router),
        Layer.provide(parts),
        Layer.provide(provider),
        Layer.provide(services)
      )
      const program = Effect.gen(function* () {
        assert.strictEqual(yield* run, "It is four degrees.")
        const { payloads, told } = yield* Hooks.Recorded
        return [told()[0]?.name, payloads("post_tool_call").map((payload) => payload["tool_name"])]
      })
      assert.deepStrictEqual(yield* Effect.provide(program, application), ["on_session_start", ["weather"]])
      assert.deepStrictEqual([wrapped, heard], [["application", "application"], []])
    })
  )

  it.effect("the middleware is swapped by a Layer", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, provider, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provideMerge(TestParts.layerMiddleware),
        Layer.provide(router),
        Layer.provide(parts),
        Layer.provide(provider),
        Layer.provide(services)
      )
      const program = Effect.gen(function* () {
        assert.strictEqual(yield* run, "It is four degrees.")
        const { models, tools } = yield* TestParts.MiddlewareCalls
        return [models().length, tools().map(({ name, output }) => [name, output?.output])]
      })
      assert.deepStrictEqual(yield* Effect.provide(program, application), [2, [["weather", "4"]]])
      assert.deepStrictEqual([wrapped, heard], [[], ["application"]])
    })
  )

  it.effect("each is left out by layerNone", () =>
    Effect.gen(function* () {
      const { agent, heard, parts, router, services, wrapped } = makeApplication()
      const application = agent.pipe(
        Layer.provideMerge(Layer.mergeAll(Hooks.layerNone, Middleware.layerNone, ToolRegistry.layerNone)),
        Layer.provide(router),
        Layer.provide(parts),
        Layer.provide(Offline.layer()),
        Layer.provide(services)
      )
      const program = Effect.gen(function* () {
        yield* run
        return yield* (yield* ToolRegistry.ToolRegistry).list
      })
      assert.deepStrictEqual(yield* Effect.provide(program, application), [])
      assert.deepStrictEqual([wrapped, heard], [[], []])
    })
  )
})

/** Both orders of two layers. */
const bothOrders = <E, R, E2, R2>(a: Layer.Layer<never, E, R>, b: Layer.Layer<never, E2, R2>) =>
  [Layer.mergeAll(a, b), Layer.mergeAll(b, a)] as const

describe("additions", () => {
  const answer = Scripted.layer([Scripted.complete("hello")])

  it.effect("to the middleware are in the order of their positions, whichever is built first", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const slow = Middleware.layerAdd([note(seen, "slow")], "outermost").pipe(
        Layer.provide(Layer.effectDiscard(Effect.yieldNow))
      )
      for (const additions of bothOrders(
        Layer.mergeAll(slow, Middleware.layerAdd([note(seen, "last")], "innermost")),
        Layer.mergeAll(
          Middleware.layerAdd([note(seen, "fast"), note(seen, "fast too")], "outermost"),
          Middleware.layerAdd([note(seen, "before own")], { before: "own" }),
          Middleware.layerAdd([note(seen, "after slow")], { after: "slow" })
        )
      )) {
        const plugin = Plugin.fromValue({ name: "plugin", middleware: [note(seen, "plugin")] })
        const runtime = Runtime.layer({ provider: answer, middleware: [note(seen, "own")], plugins: [plugin] }).pipe(
          Layer.provide(additions),
          Layer.provide(Middleware.layer([note(seen, "listed")]))
        )
        yield* Effect.provide(run, runtime)
        assert.deepStrictEqual(
          seen.splice(0).map((name) => name.replace("plugin:", "")),
          ["plugin", "fast", "fast too", "slow", "after slow", "listed", "before own", "own", "last"]
        )
      }
    })
  )

  it.effect("to the hooks are in the order of their positions, whichever is built first", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      for (const additions of bothOrders(
        Layer.mergeAll(
          Hooks.layerAdd([listen(seen, "z")], "outermost"),
          Hooks.layerAdd([listen(seen, "last")], "innermost")
        ),
        Layer.mergeAll(
          Hooks.layerAdd([listen(seen, "a")], "outermost"),
          Hooks.layerAdd([listen(seen, "after")], { after: "second" })
        )
      )) {
        const agent = Agent.layer().pipe(
          Layer.provide(additions),
          Layer.provide(Hooks.layer([listen(seen, "first"), listen(seen, "second")])),
          Layer.provide([SessionStore.layerMemory, ToolRegistry.layerNone]),
          Layer.provide(ModelRouter.layer.pipe(Layer.provide(answer)))
        )
        yield* Effect.provide(run, agent)
        assert.deepStrictEqual(seen.splice(0), ["a", "z", "first", "second", "after", "last"])
      }
    })
  )

  it.effect("to a runtime's hooks are between the ones of plugins and the ones registered later", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const plugin = Plugin.fromValue({ name: "plugin", hooks: [listen(seen, "plugin")] })
      const runtime = Runtime.layer({ provider: answer, hooks: [listen(seen, "own")], plugins: [plugin] })
      const additions = Layer.mergeAll(
        Hooks.layerAdd([listen(seen, "inner")], "innermost"),
        Hooks.layerAdd([listen(seen, "outer")], { before: "own" })
      )
      const program = Effect.gen(function* () {
        yield* (yield* Hooks.Hooks).register(listen(seen, "later"))
        yield* run
      })
      yield* Effect.provide(Effect.scoped(program), Layer.provideMerge(additions, runtime))
      assert.deepStrictEqual(seen, ["plugin", "outer", "own", "inner", "later"])
    })
  )

  it.effect("to the tools decide which tool of a name is used, whichever is built first", () =>
    Effect.gen(function* () {
      for (const additions of bothOrders(
        ToolRegistry.layerAdd([makeTools("outer", "weather", "outer")], "outermost"),
        ToolRegistry.layerAdd([makeTools("inner", "weather", "inner"), makeTools("clock", "time", "noon")], {
          after: "weather"
        })
      )) {
        const registry = additions.pipe(
          Layer.provideMerge(ToolRegistry.layer([makeTools("weather", "weather", "listed"), makeTools("x", "x", "x")]))
        )
        const program = Effect.gen(function* () {
          const { list, settle, snapshot } = yield* ToolRegistry.ToolRegistry
          yield* settle
          const { get, names } = yield* snapshot({})
          return [get("weather")?.toolset, names, (yield* list).map(({ toolset }) => toolset)]
        })
        assert.deepStrictEqual(yield* Effect.provide(program, registry), [
          "outer",
          ["weather", "time", "x"],
          ["outer", "clock", "x"]
        ])
      }
    })
  )

  it.effect("that name an unknown entry are an error when the agent is built, with the nearest name", () =>
    Effect.gen(function* () {
      const services = Layer.mergeAll(SessionStore.layerMemory, ModelRouter.layer.pipe(Layer.provide(answer)))
      const middleware = Agent.layer().pipe(
        Layer.provide(Middleware.layerAdd([note([], "x")], { before: "loging" })),
        Layer.provide(Middleware.layer([note([], "logging")])),
        Layer.provide([services, ToolRegistry.layerNone])
      )
      const hooks = Agent.layer().pipe(
        Layer.provide(Hooks.layerAdd([listen([], "x")], { after: "audot" })),
        Layer.provide(Hooks.layer([listen([], "audit")])),
        Layer.provide([services, ToolRegistry.layerNone])
      )
      const tools = Agent.layer().pipe(
        Layer.provide(ToolRegistry.layerAdd([makeTools("x", "x", "x")], { before: "wether" })),
        Layer.provide(ToolRegistry.layer([makeTools("weather", "weather", "4")])),
        Layer.provide(services)
      )
      const errors = yield* Effect.forEach([middleware, hooks, tools], (layer) =>
        Effect.flip(Effect.provide(Effect.asVoid(Agent.Agent), layer))
      )
      assert.deepStrictEqual(
        errors.map(({ _tag, message, path }) => [_tag, path, message]),
        [
          [
            "ConfigError",
            "Middleware.layerAdd",
            'middleware "x" is placed before "loging": there is no middleware with this name, did you mean "logging"?'
          ],
          [
            "ConfigError",
            "Hooks.layerAdd",
            'hook "x" is placed after "audot": there is no hook with this name, did you mean "audit"?'
          ],
          [
            "ConfigError",
            "ToolRegistry.layerAdd",
            'toolset "x" is placed before "wether": there is no toolset with this name, did you mean "weather"?'
          ]
        ]
      )
    })
  )

  it.effect("of middleware to an agent that exists are an error", () =>
    Effect.gen(function* () {
      const late = Middleware.layerAdd([note([], "late")], "outermost").pipe(
        Layer.provide(Runtime.layer()),
        Layer.provide(Middleware.layer([]))
      )
      const error = yield* Effect.flip(Effect.provide(Effect.void, late))
      assert.include(error.message, 'an agent was built before "late" was added')
    })
  )
})

class Unit extends Context.Service<Unit, string>()("test/Unit") {}
class Tenant extends RunContext.Key<Tenant, string>()("test/Tenant") {}
class Overspent extends Schema.TaggedError<Overspent>()("Overspent", {}) {}
class Clerk extends Context.Service<Clerk, Agent.Service<Overspent>>()("test/Clerk") {}

describe("middleware of a layer", () => {
  const services = Layer.mergeAll(
    SessionStore.layerMemory,
    ToolRegistry.layerNone,
    ModelRouter.layer.pipe(Layer.provide(Scripted.layer([Scripted.complete("hello"), Scripted.complete("again")])))
  )

  it.effect("has the services of its own layer, of each kind of entry", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const say = (kind: string) => Unit.useSync((unit) => void seen.push(`${kind}: ${unit}`))
      const entries = [
        Middleware.wrapModelCall({ name: "w", wrap: (next) => (params) => Effect.andThen(say("wrap"), next(params)) }),
        Middleware.llmExecution({ name: "e", wrap: (next) => (body) => Effect.andThen(say("attempt"), next(body)) }),
        Middleware.llmRequest({ name: "r", rewrite: () => Effect.as(say("request"), Middleware.unchanged) }),
        Middleware.lifecycle({
          name: "l",
          beforeModel: () => say("before"),
          wrapModelCall: (next) => (params) => Effect.andThen(say("method"), next(params))
        }),
        Middleware.lifecyclePerRun({
          name: "p",
          make: () => Effect.map(Unit, (unit) => ({ afterAgent: () => void seen.push(`after: ${unit}`) }))
        })
      ] as const
      const agent = Agent.layer().pipe(
        Layer.provide(Middleware.layerAdd(entries, "outermost").pipe(Layer.provide(Layer.succeed(Unit, "kelvin")))),
        Layer.provide(
          Middleware.layer([
            Middleware.wrapModelCall({
              name: "o",
              wrap: (next) => (params) => Effect.andThen(say("own"), next(params))
            })
          ])
        ),
        Layer.provide(Layer.succeed(Unit, "celsius")),
        Layer.provide(services)
      )
      assert.strictEqual(yield* Effect.provide(run, agent), "hello")
      assert.deepStrictEqual(seen, [
        "before: kelvin",
        "wrap: kelvin",
        "method: kelvin",
        "own: celsius",
        "request: kelvin",
        "attempt: kelvin",
        "after: kelvin"
      ])
    })
  )

  it.effect("sees the value of a run before the one of its layer", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const entry = Middleware.llmRequest({
        name: "tenant",
        rewrite: () => Tenant.useSync((tenant) => (seen.push(tenant), Middleware.unchanged))
      })
      const agent = Agent.layer().pipe(
        Layer.provide(Middleware.layer([entry]).pipe(Layer.provide(Layer.succeed(Tenant, "nobody")))),
        Layer.provide(services)
      )
      yield* Effect.provide(
        Effect.andThen(Agent.run({ prompt: "a" }), Agent.run({ prompt: "b", context: Tenant.context("acme") })),
        agent
      )
      assert.deepStrictEqual(seen, ["nobody", "acme"])
    })
  )

  it.effect("of an agent under a key of the application is around its failing middleware", () =>
    Effect.gen(function* () {
      const seen: Array<string> = []
      const limit = Middleware.wrapModelCall({ name: "limit", wrap: () => () => Effect.fail(new Overspent()) })
      const clerk = Agent.layerFor(Clerk, { middleware: [limit] }).pipe(
        Layer.provide(Middleware.layerAdd([note(seen, "added")], { before: "limit" })),
        Layer.provide(Middleware.layer([note(seen, "listed")])),
        Layer.provide(services)
      )
      const error = yield* Effect.flip(
        Effect.provide(
          Clerk.use((agent) => agent.run({ prompt: "a" })),
          clerk
        )
      )
      assert.deepStrictEqual([error._tag, seen], ["Overspent", ["listed", "added"]])
    })
  )
})
