// What a plugin needs is exactly what its parts need, and its middleware adds no failure.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Redacted from "effect/Redacted"
import * as Schema from "effect/Schema"
import type * as Scope from "effect/Scope"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Hooks, Middleware, Plugin, Runtime, Toolset } from "../../../src/index.ts"

class Clockwork extends Context.Service<Clockwork, { readonly tick: Effect.Effect<void> }>()("test/Clockwork") {}
class Ledger extends Context.Service<Ledger, { readonly note: (line: string) => Effect.Effect<void> }>()(
  "test/Ledger"
) {}
class OverBudget extends Schema.TaggedError<OverBudget>()("OverBudget", {}) {}

type NeedsOf<P> = P extends Plugin.Plugin<infer R> ? R : "no plugin"
type Same<A, B> = (<T>() => T extends A ? 1 : 2) extends <T>() => T extends B ? 1 : 2 ? true : false
const same = <A, B>(_: Same<A, B>): void => undefined

const nothing = Plugin.fromValue({ name: "nothing" })
same<NeedsOf<typeof nothing>, never>(true)

const hooking = Plugin.fromValue({
  name: "hooking",
  hooks: [Hooks.on("post_tool_call", (event) => Ledger.use(({ note }) => note(event.tool_name)))]
})
same<NeedsOf<typeof hooking>, Ledger>(true)

const building = Plugin.make({
  name: "building",
  build: Effect.gen(function* () {
    yield* Effect.acquireRelease(Clockwork, () => Effect.void)
    return {
      hooks: [Hooks.on("post_tool_call", () => Ledger.use(({ note }) => note("called")))],
      middleware: [Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })],
      commands: [{ name: "tick", run: () => Clockwork.use(({ tick }) => tick) }]
    }
  })
})
same<NeedsOf<typeof building>, Clockwork | Ledger>(true)

const failing = Middleware.llmExecution<never, OverBudget>({
  name: "budget",
  wrap: () => () => Effect.fail(new OverBudget())
})

Plugin.fromValue({
  // @ts-expect-error: whoever runs the agent could not see OverBudget
  name: "failing",
  middleware: [failing]
})

// @ts-expect-error: the same of one that is built
Plugin.make({ name: "failing", build: Effect.succeed({ middleware: [failing] }) })

// A runtime with plugins needs what they need, and nothing that it has itself.
const needy = Runtime.layer({ plugins: [hooking, building] })
same<typeof needy extends Layer.Layer<infer _A, infer _E, infer R> ? R : never, Clockwork | Ledger>(true)

const scoped = Plugin.make({
  name: "scoped",
  build: Effect.gen(function* () {
    yield* Hooks.Hooks
    yield* Effect.scope
    return {}
  })
})
same<NeedsOf<typeof scoped>, Hooks.Hooks>(true)
same<Scope.Scope extends NeedsOf<typeof scoped> ? true : false, false>(true)
const complete = Runtime.layer({ plugins: [scoped] })
same<typeof complete extends Layer.Layer<infer _A, infer _E, infer R> ? R : never, never>(true)

// So do hooks and toolsets that are written where they are listed.
const Count = Tool.make("count", { description: "Counts", success: Schema.Finite })
const counting = Toolkit.make(Count)
const listed = Plugin.make({
  name: "listed",
  build: Effect.sync(() => ({
    tools: [Toolset.make("counting", counting, counting.toLayer({ count: () => Effect.succeed(1) }))],
    hooks: [Hooks.on("post_tool_call", ({ tool_name }) => Ledger.use(({ note }) => note(tool_name)))]
  }))
})
same<NeedsOf<typeof listed>, Ledger>(true)
const valued = Plugin.fromValue({
  name: "valued",
  tools: [Toolset.make("counting", counting, counting.toLayer({ count: () => Effect.succeed(1) }))],
  hooks: [Hooks.on("post_tool_call", ({ tool_name }) => Effect.asVoid(Effect.succeed(tool_name)))]
})
same<NeedsOf<typeof valued>, never>(true)

// Middleware that is written where it is listed says what it fails with as exactly as anywhere else.
const inline = Runtime.layer({
  middleware: [Middleware.llmExecution({ name: "pass", wrap: (next) => (request) => next(request) })]
})
same<typeof inline extends Layer.Layer<infer _A, infer _E, infer R> ? R : never, never>(true)

Runtime.layer({
  // @ts-expect-error: this one adds a failure
  middleware: [
    Middleware.llmExecution<never, OverBudget>({ name: "budget", wrap: () => () => Effect.fail(new OverBudget()) })
  ]
})

// Plain callbacks know what they get.
export const register = (ctx: Plugin.RegisterContext): void => {
  ctx.registerMiddleware("tool_request", ({ args, tool_name }) => ({ args: { ...args, tool: tool_name.trim() } }))
  ctx.register_middleware("llm_execution", ({ next_call, request }) => next_call({ ...request }))
  ctx.registerMiddleware("llm_request", (call) => {
    if (call.api_mode === "anthropic_messages") same<typeof call.request.max_tokens, number>(true)
    if (call.api_mode === "bedrock_converse") same<typeof call.original_request.modelId, string | undefined>(true)
  })
  // @ts-expect-error: a request has no next_call
  ctx.registerMiddleware("llm_request", ({ next_call }) => next_call)
  ctx.registerHook("post_tool_call", ({ duration_ms }) => duration_ms.toFixed(1))
  ctx.register_hook("on_some_day", ({ anything }) => anything)
}

// The settings of a plugin have the type of its Schema, and the application passes the encoded form.
const configured = Plugin.make({
  name: "configured",
  config: Schema.Struct({
    limit: Schema.Finite.pipe(Schema.withDecodingDefaultKey(Effect.succeed(1))),
    apiKey: Schema.RedactedFromValue(Schema.String)
  }),
  build: ({ config, key }) => {
    same<typeof config.limit, number>(true)
    same<typeof config.apiKey, Redacted.Redacted<string>>(true)
    same<typeof key, string>(true)
    // @ts-expect-error: no setting has this name
    void config.limt
    return Effect.succeed({
      hooks: [Hooks.on("post_tool_call", (event) => Ledger.use(({ note }) => note(event.tool_name)))]
    })
  }
})
same<NeedsOf<typeof configured>, Ledger>(true)
const withKey = configured.withConfig({ apiKey: "k" })
same<NeedsOf<typeof withKey>, Ledger>(true)
// @ts-expect-error: the key is required
configured.withConfig({ limit: 3 })

// @ts-expect-error: middleware of a plugin with settings adds no failure either
Plugin.make({ name: "failing", config: Schema.Struct({}), build: () => Effect.succeed({ middleware: [failing] }) })

// A plain plugin may state the type of its settings.
export const registerWithSettings = (ctx: Plugin.RegisterContext<{ readonly limit: number }>): void => {
  same<typeof ctx.config.limit, number>(true)
}
