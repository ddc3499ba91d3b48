// What the Layers of middleware, hooks and tools require, and what does not compile. This file is compiled, never run.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { ConfigError } from "../../src/base/domain/AgentError.ts"
import {
  Agent,
  Hooks,
  Middleware,
  type ModelRouter,
  Offline,
  Provider,
  RunContext,
  Runtime,
  SessionStore,
  ToolRegistry,
  Toolset
} from "../../src/index.ts"
import { TestParts } from "../../src/kit/entry/testing.ts"

class Unit extends Context.Service<Unit, string>()("test/Unit") {}
class Tenant extends RunContext.Key<Tenant, string>()("test/Tenant") {}
class Broken extends Schema.TaggedError<Broken>()("Broken", {}) {}

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Same<A, B>): void => undefined
type ErrorOf<L> = L extends Layer.Layer<infer _A, infer E, infer _R> ? E : never
type NeedsOf<L> = L extends Layer.Layer<infer _A, infer _E, infer R> ? R : never

const passing = Middleware.wrapModelCall({ name: "passing", wrap: (next) => (params) => next(params) })
const failing = Middleware.wrapModelCall({ name: "failing", wrap: () => () => Effect.fail(new Broken()) })
const catching = Middleware.wrapModelCall({
  name: "catching",
  catches: [Broken],
  wrap: (next) => (params) => Effect.catchTag(next(params), "Broken", () => Effect.die("broken"))
})
const measuring = Middleware.wrapModelCall({
  name: "measuring",
  wrap: (next) => (params) => Effect.andThen(Unit, next(params))
})
const ofTenant = Middleware.llmRequest({ name: "tenant", rewrite: () => Effect.as(Tenant, Middleware.unchanged) })

// A list requires the services of its entries.
const plain = Middleware.layer([passing])
same<typeof plain, Layer.Layer<Middleware.Middlewares>>(true)
const measured = Middleware.layer([passing, measuring])
same<typeof measured, Layer.Layer<Middleware.Middlewares, never, Unit>>(true)
const added = Middleware.layerAdd([measuring], { before: "passing" })
same<typeof added, Layer.Layer<never, ConfigError, Middleware.Middlewares | Unit>>(true)
same<typeof Middleware.layerNone, Layer.Layer<Middleware.Middlewares>>(true)

// A list may begin with a spread.
const more: ReadonlyArray<typeof measuring> = [measuring]
const spread = Middleware.layer([...more, passing])
same<NeedsOf<typeof spread>, Unit>(true)

// A value of a run is a service like others: the layer has a default, and runs have their own.
same<NeedsOf<ReturnType<typeof tenants>>, Tenant>(true)
const tenants = () => Middleware.layer([ofTenant])

// Its entries add no failure; one that an entry further out catches is none.
// @ts-expect-error: a failure that no type names
Middleware.layer([failing])
// @ts-expect-error: the same
Middleware.layerAdd([passing, failing], "outermost")
same<NeedsOf<ReturnType<typeof caught>>, never>(true)
const caught = () => Middleware.layer([catching, failing])

// @ts-expect-error: there is no such position
Middleware.layerAdd([passing], "first")
// @ts-expect-error: a position names its entry
Middleware.layerAdd([passing], { before: passing })

// A missing service is a requirement of the whole, and so is a missing list.
const services = Layer.mergeAll(SessionStore.layerMemory, ToolRegistry.layerNone)
const open = Agent.layer().pipe(Layer.provide(added), Layer.provide(plain), Layer.provide(services))
same<NeedsOf<typeof open>, ModelRouter.ModelRouter | Unit>(true)
const without = Agent.layer().pipe(Layer.provide(added), Layer.provide(services))
same<NeedsOf<typeof without>, ModelRouter.ModelRouter | Middleware.Middlewares | Unit>(true)
// An agent that fails, or reads a value of each run, has a key whose type says so.
class Clerk extends Context.Service<Clerk, Agent.Service<Broken>>()("test/Clerk") {}
class Desk extends Context.Service<Desk, Agent.Service<never, Tenant>>()("test/Desk") {}
class Plain extends Context.Service<Plain, Agent.Service>()("test/Plain") {}
const clerk = Agent.layerFor(Clerk, { middleware: [measuring, failing] })
same<Layer.Success<typeof clerk>, Clerk>(true)
same<ErrorOf<typeof clerk>, ConfigError>(true)
same<NeedsOf<typeof clerk>, ModelRouter.ModelRouter | ToolRegistry.ToolRegistry | SessionStore.SessionStore | Unit>(
  true
)
const desk = Agent.layerFor(Desk, { middleware: [ofTenant] })
same<NeedsOf<typeof desk>, ModelRouter.ModelRouter | ToolRegistry.ToolRegistry | SessionStore.SessionStore>(true)
Agent.layerFor(Plain)
// @ts-expect-error: the key promises that nothing is added
Agent.layerFor(Plain, { middleware: [failing] })
// @ts-expect-error: the key does not say that a run has a tenant
Agent.layerFor(Plain, { middleware: [ofTenant] })
// @ts-expect-error: the agent of a runtime adds no failure
Agent.layer({ middleware: [failing] })

// Hooks and toolsets that are added require their services, and fail with their errors.
const hook = Hooks.on("post_tool_call", () => Effect.asVoid(Unit))
const addedHooks = Hooks.layerAdd([hook], "innermost")
same<typeof addedHooks, Layer.Layer<never, ConfigError, Hooks.Hooks | Unit>>(true)
same<typeof Hooks.layerNone, Layer.Layer<Hooks.Hooks>>(true)
same<typeof Hooks.layerTest, Layer.Layer<Hooks.Hooks | Hooks.Recorded>>(true)
const toolkit = Toolkit.make(Tool.make("weather", { description: "How warm it is", success: Schema.String }))
const toolset = Toolset.make(
  "weather",
  toolkit,
  toolkit.toLayer(
    Effect.gen(function* () {
      const unit = yield* Unit
      if (unit === "") return yield* new Broken()
      return { weather: () => Effect.succeed(unit) }
    })
  )
)
const addedTools = ToolRegistry.layerAdd([toolset], { after: "files" })
same<typeof addedTools, Layer.Layer<never, Broken | ConfigError, ToolRegistry.ToolRegistry | Unit>>(true)
const scripted = TestParts.layerTools({ weather: "4 degrees" })
same<typeof scripted, Layer.Layer<ToolRegistry.ToolRegistry | TestParts.ToolCalls>>(true)

// Below a runtime, a list and its additions are part of its middleware.
const runtime = Runtime.layer({ provider: Offline.layer() }).pipe(Layer.provide(added), Layer.provide(plain))
same<NeedsOf<typeof runtime>, Unit>(true)
same<Extract<Layer.Success<typeof runtime>, Agent.Agent | Provider.Provider>, Agent.Agent>(true)
