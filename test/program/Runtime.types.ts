// What a runtime fails with and needs is exactly what its parts fail with and need. This file is compiled, never run.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import type { Environment, Home } from "../../src/base/config/Environment.ts"
import { Settings } from "../../src/base/config/Settings.ts"
import type { ConfigError } from "../../src/base/domain/AgentError.ts"
import {
  Agent,
  Approvals,
  CommandEnvironment,
  FileTools,
  Hooks,
  Middleware,
  ModelRouter,
  Offline,
  Provider,
  RunContext,
  Runtime,
  SessionStore,
  TerminalTools,
  ToolRegistry,
  Toolset
} from "../../src/index.ts"
import { FileState } from "../../src/kit/entry/tools/files.ts"
import { ProcessEvents, ProcessRegistry } from "../../src/kit/entry/tools/terminal.ts"
import * as Todo from "../../src/tools/builtin/Todo.ts"

class Weather extends Context.Service<Weather, { readonly celsius: number }>()("test/Weather") {}
class Diary extends Context.Service<Diary, { readonly write: (line: string) => Effect.Effect<void> }>()("test/Diary") {}
class Broken extends Schema.TaggedError<Broken>()("Broken", {}) {}

const tool = Tool.make("weather", { description: "How warm it is", success: Schema.Finite })
const toolkit = Toolkit.make(tool)
const weather = Toolset.make(
  "weather",
  toolkit,
  toolkit.toLayer(Effect.map(Weather, ({ celsius }) => ({ weather: () => Effect.succeed(celsius) })))
)
const diary = Hooks.on("post_tool_call", () => Effect.flatMap(Diary, ({ write }) => write("a tool ran")))
const provider = Layer.effect(Provider.Provider, Effect.fail(new Broken()))

type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Same<A, B>): void => undefined
type ErrorOf<L> = L extends Layer.Layer<infer _A, infer E, infer _R> ? E : never
type NeedsOf<L> = L extends Layer.Layer<infer _A, infer _E, infer R> ? R : never

// The built-in toolsets need no more than the runtime has. A stack may be wrong in itself: two states of a run under
// one key.
const whole = Runtime.layer({ tools: [FileTools.toolset, TerminalTools.toolset, Todo.toolset] })
same<ErrorOf<typeof whole>, ConfigError>(true)
same<NeedsOf<typeof whole>, never>(true)

// What a toolset and a hook need is missing until it is given.
const open = Runtime.layer({ tools: [weather, FileTools.toolset], hooks: [diary] })
same<ErrorOf<typeof open>, ConfigError>(true)
same<NeedsOf<typeof open>, Weather | Diary>(true)

// What a provider fails with, the whole fails with.
const failing = Runtime.layer({ provider })
same<ErrorOf<typeof failing>, Broken | ConfigError>(true)
same<NeedsOf<typeof failing>, never>(true)

// Routes may be wrong, which is one kind of error; they take the place of a provider.
const routes = [{ provider: "anthropic", model: "m" }]
const overRoutes = Runtime.layer({ routes })
same<ErrorOf<typeof overRoutes>, ConfigError>(true)
same<NeedsOf<typeof overRoutes>, never>(true)
// @ts-expect-error one of the two answers
Runtime.layer({ provider, routes })
// @ts-expect-error a key is Redacted
Runtime.layer({ routes: [{ provider: "anthropic", model: "m", apiKey: "sk" }] })

class Librarian extends Context.Service<Librarian, Agent.Service>()("test/Librarian") {}
const librarian = Runtime.make(Librarian, { routes, tools: [weather] })
same<ErrorOf<typeof librarian>, ConfigError>(true)
same<NeedsOf<typeof librarian>, Weather>(true)
// @ts-expect-error one of the two answers
Runtime.make(Librarian, { provider, routes })

// A program needs its surroundings, and fails with one kind of error.
const program = Effect.map(Settings, (settings) => Runtime.program(settings))
same<ErrorOf<Effect.Success<typeof program>>, ConfigError>(true)
same<NeedsOf<Effect.Success<typeof program>>, Home | Environment>(true)

// An agent over services of its surroundings needs each of them, and nothing else.
const bare = Runtime.layerNoDeps()
same<
  NeedsOf<typeof bare>,
  | Approvals.Approvals
  | FileState.FileState
  | Hooks.Hooks
  | ModelRouter.ModelRouter
  | ProcessEvents.ProcessEvents
  | ProcessRegistry.ProcessRegistry
  | SessionStore.SessionStore
  | ToolRegistry.ToolRegistry
>(true)

const services = {
  approvals: Approvals.layerDeny().pipe(Layer.provide(Hooks.layer([]))),
  files: FileState.layer,
  hooks: Hooks.layer([]),
  router: ModelRouter.layer.pipe(Layer.provide(Offline.layer())),
  events: ProcessEvents.layer,
  processes: ProcessRegistry.layer.pipe(
    Layer.provide([ProcessEvents.layer, CommandEnvironment.layerLocal]),
    Layer.provide(NodeServices.layer)
  ),
  store: SessionStore.layerMemory,
  tools: ToolRegistry.layer([])
}
const { approvals, events, files, hooks, processes, router, store, tools } = services
const given = bare.pipe(Layer.provide([approvals, events, files, hooks, processes, router, store, tools]))
same<NeedsOf<typeof given>, never>(true)
// One layer too few, and exactly that service is missing.
const withoutApprovals = bare.pipe(Layer.provide([events, files, hooks, processes, router, store, tools]))
same<NeedsOf<typeof withoutApprovals>, Approvals.Approvals>(true)
const withoutEvents = bare.pipe(Layer.provide([approvals, files, hooks, processes, router, store, tools]))
same<NeedsOf<typeof withoutEvents>, ProcessEvents.ProcessEvents>(true)
const withoutFiles = bare.pipe(Layer.provide([approvals, events, hooks, processes, router, store, tools]))
same<NeedsOf<typeof withoutFiles>, FileState.FileState>(true)
const withoutHooks = bare.pipe(Layer.provide([approvals, events, files, processes, router, store, tools]))
same<NeedsOf<typeof withoutHooks>, Hooks.Hooks>(true)
const withoutProcesses = bare.pipe(Layer.provide([approvals, events, files, hooks, router, store, tools]))
same<NeedsOf<typeof withoutProcesses>, ProcessRegistry.ProcessRegistry>(true)
const withoutRouter = bare.pipe(Layer.provide([approvals, events, files, hooks, processes, store, tools]))
same<NeedsOf<typeof withoutRouter>, ModelRouter.ModelRouter>(true)
const withoutStore = bare.pipe(Layer.provide([approvals, events, files, hooks, processes, router, tools]))
same<NeedsOf<typeof withoutStore>, SessionStore.SessionStore>(true)
const withoutTools = bare.pipe(Layer.provide([approvals, events, files, hooks, processes, router, store]))
same<NeedsOf<typeof withoutTools>, ToolRegistry.ToolRegistry>(true)

// Middleware that fails needs an agent whose type says so, and there is no other agent beside it.
const limit = Middleware.wrapModelCall<never, Broken>({ name: "limit", wrap: () => () => Effect.fail(new Broken()) })
class Clerk extends Context.Service<Clerk, Agent.Service<Broken>>()("test/Clerk") {}
class Other extends Context.Service<Other, Agent.Service<never>>()("test/Other") {}
const clerk = Runtime.make(Clerk, { middleware: [limit], tools: [weather] })
same<NeedsOf<typeof clerk>, Weather>(true)
same<Extract<Layer.Success<typeof clerk>, Clerk | Agent.Agent>, Clerk>(true)
// @ts-expect-error: the key promises that nothing is added
Runtime.make(Other, { middleware: [limit] })
// @ts-expect-error: an agent whose type says nothing of failures
Runtime.layer({ middleware: [limit] })
// @ts-expect-error: the same
Runtime.layerNoDeps({ middleware: [limit] })
// The compile error names the function to use and the failures.
type Added = Middleware.AtMost<never, [typeof limit]>
same<keyof Added extends `${string}use Runtime.make ${string}` ? true : false, true>(true)
same<Added[keyof Added], Broken>(true)

// Lists may begin with a spread.
const more: ReadonlyArray<typeof diary> = [diary]
same<NeedsOf<ReturnType<typeof spread>>, Weather | Diary>(true)
const tooled = [weather]
const spread = () => Runtime.layer({ hooks: [...more, diary], tools: [...tooled, FileTools.toolset] })

// A tool, a middleware and a hook that read what belongs to a run make `run` need it; nothing given at build stands in.
class Tenant extends RunContext.Key<Tenant, { readonly name: string }>()("test/Tenant") {}
class Desk extends Context.Service<Desk, Agent.Service<never, Tenant>>()("test/Desk") {}
class Plain extends Context.Service<Plain, Agent.Service>()("test/Plain") {}
const who = Tool.make("who", { description: "The tenant", success: Schema.String, dependencies: [Tenant] })
const whoKit = Toolkit.make(who)
const tenants = Toolset.make("tenants", whoKit, whoKit.toLayer({ who: () => Tenant.useSync(({ name }) => name) }))
const tenantHook = Hooks.on("post_tool_call", () => Effect.asVoid(Tenant))
const tenantMiddleware = Middleware.llmRequest({
  name: "tenant",
  rewrite: () => Effect.as(Tenant, Middleware.unchanged)
})
const desk = Runtime.make(Desk, { tools: [tenants, weather], hooks: [tenantHook], middleware: [tenantMiddleware] })
same<NeedsOf<typeof desk>, Weather>(true)
// @ts-expect-error: the agent's type does not say that a run gives it
Runtime.make(Plain, { tools: [tenants] })
// @ts-expect-error: the same
Runtime.make(Plain, { hooks: [tenantHook] })
// @ts-expect-error: the same
Runtime.make(Plain, { middleware: [tenantMiddleware] })
// @ts-expect-error: the same
Runtime.layer({ tools: [tenants] })
export const runs = (service: Agent.Service<never, Tenant>) => [
  service.run({ prompt: "a", context: Tenant.context({ name: "acme" }) }),
  // @ts-expect-error: a run without it
  service.run({ prompt: "a" }),
  // @ts-expect-error: a stream without it
  service.stream({ prompt: "a" })
]

// The value of a run whose schema may be absent may be absent, too.
const Answer = Schema.Struct({ city: Schema.String })
type Answer = typeof Answer.Type
declare const maybe: typeof Answer | undefined
const optional = Agent.run({ prompt: "Hello?", output: maybe })
same<Effect.Success<typeof optional>["value"], Answer | undefined>(true)
const sure = Agent.run({ prompt: "Hello?", output: Answer })
same<Effect.Success<typeof sure>["value"], Answer>(true)
class Forecaster extends Context.Service<Forecaster, Agent.Service<never, never, number, number>>()(
  "test/Forecaster"
) {}
export const own = Forecaster.use((agent) => agent.run({ prompt: "Hello?" }))
same<Effect.Success<typeof own>["value"], number>(true)
export const either = Forecaster.use((agent) => agent.run({ prompt: "Hello?", output: maybe }))
same<Effect.Success<typeof either>["value"], Answer | number>(true)
