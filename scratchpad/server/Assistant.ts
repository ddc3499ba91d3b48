// The agent of the application: its tenants, its tools over a service of its own, and a policy that fails typed.
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { type Agent, Middleware, RunContext, Toolset } from "../../src/index.ts"

/** The tenant that a run is for. A run without one does not compile. */
export class Tenant extends RunContext.Key<Tenant, { readonly name: string; readonly modelCalls: number }>()(
  "server/Tenant"
) {}

/** Tenants by the keys of their clients. */
export class Tenants extends Context.Service<Tenants, ReadonlyMap<string, Tenant["Service"]>>()("server/Tenants") {}

/** Open invoices of a tenant, wherever they are kept. */
export class Invoices extends Context.Service<
  Invoices,
  { readonly open: (tenant: string) => Effect.Effect<ReadonlyArray<string>> }
>()("server/Invoices") {
  static readonly layerMemory = (kept: Readonly<Record<string, ReadonlyArray<string>>>) =>
    Layer.succeed(
      Invoices,
      Invoices.of({ open: (tenant) => Effect.succeed(Object.hasOwn(kept, tenant) ? (kept[tenant] ?? []) : []) })
    )
}

/** The failure of the policy: the tenant has used up the model calls of a run. */
export class OverQuota extends Schema.TaggedError<OverQuota>()("OverQuota", { tenant: Schema.String }) {}

/** The application's agent: its type says how it fails besides `AgentError`, and what each run brings. */
export class Assistant extends Context.Service<Assistant, Agent.Service<OverQuota, Tenant>>()("server/Assistant") {}

const OpenInvoices = Tool.make("open_invoices", {
  description: "Lists the open invoices of the tenant",
  success: Schema.Array(Schema.String),
  dependencies: [Tenant]
}).annotate(Tool.Readonly, true)
const toolkit = Toolkit.make(OpenInvoices)

/** Tools of the application. A tool reads the tenant of its run, never a name that the model gives. */
export const invoices = Toolset.make(
  "invoices",
  toolkit,
  toolkit.toLayer(
    Effect.map(Invoices, (kept) => ({ open_invoices: () => Effect.flatMap(Tenant, ({ name }) => kept.open(name)) }))
  )
)

/** A policy: it refuses a model call that the tenant has not paid for, and cannot be skipped by failing. */
export const quota = Middleware.wrapModelCall<never, OverQuota, Tenant>({
  name: "quota",
  onFailure: "closed",
  wrap:
    (next, { apiCallCount }) =>
    (params) =>
      Effect.flatMap(Tenant, ({ modelCalls, name }) =>
        Effect.andThen(apiCallCount > modelCalls ? new OverQuota({ tenant: name }) : Effect.void, next(params))
      )
})
