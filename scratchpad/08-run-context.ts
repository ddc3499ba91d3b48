import * as Console from "effect/Console"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Middleware, RunContext, Runtime, Scripted, Toolset } from "../src/index.ts"

// Belongs to each run: a run without it does not compile, and nothing given to the layer stands in for it.
class Tenant extends RunContext.Key<Tenant, { readonly name: string; readonly calls: number }>()("app/Tenant") {}

class OverLimit extends Schema.TaggedError<OverLimit>()("OverLimit", { tenant: Schema.String }) {}

// The application's own agent: its type names how it fails besides `AgentError`, and what each run has to bring.
class Clerk extends Context.Service<Clerk, Agent.Service<OverLimit, Tenant>>()("app/Clerk") {}

const limit = Middleware.wrapModelCall<never, OverLimit, Tenant>({
  name: "limit",
  wrap:
    (next, { apiCallCount }) =>
    (params) =>
      Effect.flatMap(Tenant, ({ calls, name }) =>
        Effect.andThen(apiCallCount > calls ? new OverLimit({ tenant: name }) : Effect.void, next(params))
      )
})

const Invoices = Tool.make("invoices", {
  description: "Open invoices",
  success: Schema.String,
  dependencies: [Tenant]
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(Invoices)
const invoices = Toolset.make(
  "invoices",
  toolkit,
  toolkit.toLayer({ invoices: () => Tenant.useSync(({ name }) => `3 open invoices of ${name}`) })
)

const provider = Scripted.layer([
  Scripted.complete({ toolCalls: [{ name: "invoices", params: {} }] }),
  Scripted.complete("Three are open."),
  Scripted.complete({ toolCalls: [{ name: "invoices", params: {} }] })
])

const ask = (tenant: Tenant["Service"]) =>
  Clerk.use((clerk) => clerk.run({ prompt: "What is open?", context: Tenant.context(tenant) })).pipe(
    Effect.flatMap(({ text }) => Console.log(`${tenant.name}: ${text}`)),
    Effect.catchTag("OverLimit", (error) => Console.log(`${error.tenant} has used up its model calls`))
  )

await Effect.andThen(ask({ name: "acme", calls: 2 }), ask({ name: "globex", calls: 1 })).pipe(
  Effect.provide(Runtime.make(Clerk, { provider, tools: [invoices], middleware: [limit] })),
  Effect.runPromise
)
