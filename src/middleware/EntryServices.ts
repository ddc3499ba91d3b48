/**
 * Provides entries of a stack with services, so that they need none of a run. Used by `MiddlewareList` and for the
 * middleware of plugins.
 */
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import type { BoundMethods, Entry } from "./Lifecycle.ts"
import type { Any, Contained } from "./Middleware.ts"
import type { Next, Wrapper } from "./MiddlewareBoundary.ts"
import type { Rewriter } from "./Pipeline.ts"

/**
 * Services with which the agent of a run was built. They are part of the context of every call, without being a choice
 * of the call.
 */
export const AgentContext = Context.Reference<Context.Context<never>>("hermes-effect/middleware/AgentContext", {
  defaultValue: () => Context.empty()
})

/** Provides an effect with the services of a context. Services of the call take precedence. */
export const provideContext =
  (context: Context.Context<never>) =>
  <A, E>(effect: Effect.Effect<A, E, unknown>): Effect.Effect<A, E> =>
    // The types of a list require its services where the list is made. Code from disk has no such types.
    Effect.updateContext(effect as Effect.Effect<A, E>, (input: Context.Context<never>) =>
      Context.merge(context, input)
    )

/**
 * Combines the services of a layer with the services of a call, which take precedence unless the call only has them
 * from its agent.
 */
const mergeWithCall = (context: Context.Context<never>, call: Context.Context<never>): Context.Context<never> => {
  const agent = Context.get(call, AgentContext).mapUnsafe
  const services = new Map(call.mapUnsafe)
  for (const [key, service] of context.mapUnsafe) {
    if (!services.has(key) || services.get(key) === agent.get(key)) services.set(key, service)
  }
  return Context.makeUnsafe(services)
}

/** Takes the services of a layer out of the context in which a wrapper calls what is below it. */
const restoreCall = (
  context: Context.Context<never>,
  call: Context.Context<never>,
  inner: Context.Context<never>
): Context.Context<never> => {
  const services = new Map(inner.mapUnsafe)
  for (const [key, service] of context.mapUnsafe) {
    if (services.get(key) !== service) continue
    if (call.mapUnsafe.has(key)) services.set(key, call.mapUnsafe.get(key))
    else services.delete(key)
  }
  return Context.makeUnsafe(services)
}

/** {@link provideContext} for a layer: its services take precedence over services of the agent. */
const provideLayerContext =
  (context: Context.Context<never>) =>
  <A, E>(effect: Effect.Effect<A, E, unknown>): Effect.Effect<A, E> =>
    // The types of a list require its services where the list is made.
    Effect.updateContext(effect as Effect.Effect<A, E>, (call: Context.Context<never>) => mergeWithCall(context, call))

/**
 * Provides a wrapper with services, which the call below it does not get. A wrapper that only passes a call on still
 * does only that.
 */
const provideWrapper = <Req, Options, A, Info>(
  given: Wrapper<Req, Options, A, Info>,
  context: Context.Context<never>
): Wrapper<Req, Options, A, Info> => ({
  ...given,
  wrap: (next, info) => {
    let call: Context.Context<never> = Context.empty()
    let passed: Effect.Effect<A, unknown, unknown> | undefined
    let restored: Effect.Effect<A, unknown, unknown> | undefined
    const callBelow: Next<Req, Options, A, unknown, unknown> = (request, options) => {
      // The call below has its services from the run.
      const below = next(request, options) as Effect.Effect<A, unknown>
      passed = below
      restored = Effect.updateContext(below, (inner: Context.Context<never>) => restoreCall(context, call, inner))
      return restored
    }
    const wrapped = given.wrap(callBelow, info)
    return (request) => {
      const effect = wrapped(request)
      if (passed !== undefined && effect === restored) return passed
      // The types of a list require its services where the list is made.
      return Effect.updateContext(
        effect as Effect.Effect<A | undefined | null, unknown>,
        (given: Context.Context<never>) => {
          call = given
          return mergeWithCall(context, given)
        }
      )
    }
  }
})

const provideRewriter = <Payload, Info>(
  given: Rewriter<Payload, Info>,
  context: Context.Context<never>
): Rewriter<Payload, Info> => ({
  ...given,
  rewrite: (payload, info) => provideLayerContext(context)(given.rewrite(payload, info))
})

/** Lifecycle middleware: each method with the services, and those that it makes for a run. */
const provideLifecycle = (given: Entry, context: Context.Context<never>): Entry => {
  const provideMethod =
    (method: NonNullable<BoundMethods[keyof BoundMethods]>) =>
    (...args: ReadonlyArray<unknown>): unknown => {
      const result = method(...args)
      return Effect.isEffect(result) ? provideUnknown(result) : result
    }
  // The effects of a method are checked where the middleware is made.
  const provideUnknown = (effect: Effect.Effect<unknown, unknown, unknown>) => provideLayerContext(context)(effect)
  const provideMethods = (methods: BoundMethods): BoundMethods =>
    Object.fromEntries(
      Object.entries(methods).map(([key, method]) => [
        key,
        key === "wrapModelCall" || key === "wrapToolCall" ? provideWrapMethod(method, context) : provideMethod(method)
      ])
    )
  return {
    ...given,
    shared: given.shared === undefined ? undefined : provideMethods(given.shared),
    make: (run) => Effect.map(provideLayerContext(context)(given.make(run)), provideMethods)
  }
}

/** A method that is a wrapper. */
const provideWrapMethod = (
  method: NonNullable<BoundMethods[keyof BoundMethods]>,
  context: Context.Context<never>
): NonNullable<BoundMethods[keyof BoundMethods]> => {
  // The method is a wrapper: its types were checked where the middleware was made.
  const wrap = method as Wrapper<unknown, unknown, unknown, unknown>["wrap"]
  const provided = provideWrapper(
    { kind: "wrap_model_call", name: "", onFailure: "open", singleUse: false, wrap },
    context
  ).wrap
  // As above.
  return provided as NonNullable<BoundMethods[keyof BoundMethods]>
}

/** Returns an entry that has the services of a context. Its failures are those that its type names. */
const provideRun = (entry: Any, context: Context.Context<never>): object => {
  switch (entry.kind) {
    case "llm_request":
      return provideRewriter(entry.run, context)
    case "tool_request":
      return provideRewriter(entry.run, context)
    case "llm_execution":
      return entry.run.services === undefined ? provideWrapper(entry.run, context) : entry.run
    case "tool_execution":
      return entry.run.services === undefined ? provideWrapper(entry.run, context) : entry.run
    case "wrap_model_call":
      return provideWrapper(entry.run, context)
    case "wrap_tool_call":
      return provideWrapper(entry.run, context)
    case "lifecycle":
      return provideLifecycle(entry.run, context)
  }
}

/** Provides an entry that adds no failure with the services of a context. */
export const provideEntry = (entry: Any, context: Context.Context<never>): Contained =>
  // The run is of the same kind, and the list that the entry belongs to adds no failure.
  ({ ...entry, run: provideRun(entry, context) }) as Contained
