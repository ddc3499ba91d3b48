/**
 * Services that belong to one run. Such a service is a value of the application (tenant, user, limits) that is passed
 * to `Agent.run` as `context`. The tools, middleware and hooks of the run and of its children read the value by its
 * key.
 *
 * **Details**
 *
 * A tool names the key among its `dependencies`. `Runtime.make` creates a runtime with such a tool. The application
 * passes it a service key whose `Agent.Service` type names the key of the value, so that a run without the value does
 * not compile. Providing the value when the Layer is built is not sufficient. Code for which the value is optional uses
 * {@link getOption}.
 *
 * **Gotchas**
 *
 * A call outside a run (`callTool` without `context`) has no such value, so a tool that requires the value fails.
 *
 * **Example** (A tool that reads its tenant)
 *
 * ```ts
 * import * as Context from "effect/Context"
 * import * as Effect from "effect/Effect"
 * import * as Schema from "effect/Schema"
 * import * as Tool from "effect/ai/Tool"
 * import * as Toolkit from "effect/ai/Toolkit"
 * import { Agent, RunContext, Runtime, Scripted, Toolset } from "hermes-effect"
 *
 * class Tenant extends RunContext.Key<Tenant, { readonly name: string }>()("app/Tenant") {}
 * class Clerk extends Context.Service<Clerk, Agent.Service<never, Tenant>>()("app/Clerk") {}
 *
 * const WhoAmI = Tool.make("who_am_i", { description: "The tenant", success: Schema.String, dependencies: [Tenant] })
 *   .annotate(Tool.Readonly, true)
 * const toolkit = Toolkit.make(WhoAmI)
 * const tools = Toolset.make("tenant", toolkit, toolkit.toLayer({ who_am_i: () => Tenant.useSync(({ name }) => name) }))
 *
 * const provider = Scripted.layer([Scripted.complete({ toolCalls: [{ name: "who_am_i", params: {} }] }), Scripted.complete("done")])
 * const runtime = Runtime.make(Clerk, { provider, tools: [tools], middleware: [] })
 *
 * const program = Clerk.use((clerk) => clerk.run({ prompt: "Who am I?", context: Tenant.context({ name: "acme" }) }))
 *
 * console.log((await Effect.runPromise(Effect.provide(program, runtime))).text)
 * // => done
 * ```
 *
 * Source: `ARCHITECTURE.md` §5.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type * as Option from "effect/Option"
import type * as Scope from "effect/Scope"

const TypeId = "~hermes-effect/domain/RunContext"

/** Marks the identifier of a key whose service belongs to a run. */
export interface PerRun {
  readonly [TypeId]: typeof TypeId
}

/** A class-style service key whose service belongs to a run. */
export interface KeyClass<in out Self, in out Identifier extends string, in out Shape> extends Context.Service<
  Self,
  Shape
> {
  new (_: never): Context.ServiceClass.Shape<Identifier, Shape> & PerRun
  readonly key: Identifier
}

/** Creates a key class: `class Tenant extends RunContext.Key<Tenant, Shape>()("app/Tenant") {}`. */
export const Key =
  <Self, Shape>() =>
  <const Identifier extends string>(key: Identifier): KeyClass<Self, Identifier, Shape> =>
    // The mark exists only in the type, like the members of every class-style key.
    Context.Service<Self, Shape>()(key) as KeyClass<Self, Identifier, Shape>

/** The keys in `R` that belong to a run. */
export type Of<R> = Extract<R, PerRun>

/** The requirements in `R` that must be provided when a Layer is built. */
export type AtBuild<R> = Exclude<Exclude<R, PerRun>, Scope.Scope>

/** `unknown` if all keys of a run in `Needs` are in `R`; otherwise `never`, which no value satisfies. */
export type AtMost<R, Needs> = [Of<Needs>] extends [R] ? unknown : never

/** The option `context` of a run; required if the runtime reads a service that belongs to a run. */
export type ContextInput<R> = [R] extends [never]
  ? { readonly context?: Context.Context<never> | undefined }
  : { readonly context: Context.Context<R> }

/**
 * Removes the services of a run from the requirements of an Effect that builds a Layer. The Effect only stores code
 * that reads these services later, when a run provides them.
 */
export const deferKeys = <A, E, R>(effect: Effect.Effect<A, E, R>): Effect.Effect<A, E, Exclude<R, PerRun>> =>
  // The build does not look up these keys. When the code runs later, the services of the run override the services of
  // the build.
  effect as Effect.Effect<A, E, Exclude<R, PerRun>>

/** Returns the service of the current run for a key; `None` outside a run. For code that can do without the service. */
export const getOption = <Self extends PerRun, Shape>(
  key: Context.Key<Self, Shape>
): Effect.Effect<Option.Option<Shape>> => Effect.serviceOption(key)
