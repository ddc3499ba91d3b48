/**
 * Adapts plugins to the runtime: their middleware and tools get the services that were present at load time, and fail
 * only with errors that are part of every run.
 *
 * **Details**
 *
 * Code on disk can fail with errors outside the types of a run. Such an error becomes `TranslatedFailure` if an inner
 * layer had failed, and `ExecutionBlocked` otherwise. A tool that is not marked harmless counts as destructive.
 *
 * Source: `ARCHITECTURE.md` §5 and §6.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import * as Schema from "effect/Schema"
import { AgentError, ExecutionBlocked, TranslatedFailure } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"
import { provideContext } from "../../middleware/EntryServices.ts"
import type { Next, Wrapper } from "../../middleware/MiddlewareBoundary.ts"
import type { Kind } from "../../middleware/Kind.ts"
import type { BoundMethods, Entry } from "../../middleware/Lifecycle.ts"
import * as Middleware from "../../middleware/Middleware.ts"
import type { Answer, Rewriter } from "../../middleware/Pipeline.ts"
import type { BoundTool, Toolset } from "../../tools/Toolset.ts"

const isAgentError = Schema.is(AgentError)

/** Returns the message of a failure, or the failure as JSON if it has no message. */
const describeReason = (thrown: unknown): string =>
  Predicate.isObject(thrown) && typeof thrown["message"] === "string" && thrown["message"] !== ""
    ? thrown["message"]
    : Json.toText(thrown)

/** Converts an unknown failure to an error that is part of every run. */
const toKnownError = (kind: Kind, name: string, thrown: unknown, below: ReadonlyArray<unknown>): AgentError =>
  below.length === 0
    ? new ExecutionBlocked({ reason: describeReason(thrown), metadata: { checked_by: name } })
    : new TranslatedFailure({ kind, middleware: name, thrown, downstream: below.at(-1) })

const adaptWrapper = <Req, Options, A, Info>(
  given: Wrapper<Req, Options, A, Info>,
  context: Context.Context<never>,
  name: string
): Wrapper<Req, Options, A, Info> => ({
  ...given,
  name,
  wrap: (next, info) => (request) => provideContext(context)(Effect.suspend(() => given.wrap(next, info)(request)))
})

/**
 * Adapts a wrapper whose failures reach the caller of the agent. Failures of a tool's wrapper are results for the
 * model.
 */
const adaptModelWrapper = <Req, Options, A, Info>(
  given: Wrapper<Req, Options, A, Info>,
  context: Context.Context<never>,
  name: string
): Wrapper<Req, Options, A, Info> => {
  const inner = adaptWrapper(given, context, name)
  return {
    ...inner,
    wrap: (next, info) => (request) => {
      const below: Array<unknown> = []
      const recordFailuresBelow: Next<Req, Options, A, unknown, unknown> = (request, options) =>
        Effect.tapError(next(request, options), (error) => Effect.sync(() => below.push(error)))
      return Effect.catchIf(
        inner.wrap(recordFailuresBelow, info)(request),
        (error) => !below.includes(error) && !isAgentError(error),
        (error) => Effect.fail(toKnownError(given.kind, name, error, below))
      )
    }
  }
}

interface ContainedRewriter<Payload, Info> extends Middleware.Registration {
  readonly rewrite: (payload: Payload, info: Info) => Effect.Effect<Answer<Payload>, unknown>
}

const adaptRewriter = <Payload, Info>(
  given: Rewriter<Payload, Info>,
  context: Context.Context<never>,
  name: string
): ContainedRewriter<Payload, Info> => ({
  name,
  onFailure: given.onFailure,
  rewrite: (payload, info) => provideContext(context)(Effect.suspend(() => given.rewrite(payload, info)))
})

/** Adapts lifecycle middleware: each method like the wrapper or rewriter at the same place. */
const adaptLifecycle = (given: Entry, context: Context.Context<never>, name: string): Entry => {
  const makeMethodWrapper = (
    kind: "wrap_model_call" | "wrap_tool_call",
    method: BoundMethods[keyof BoundMethods]
  ): Wrapper<unknown, unknown, unknown, unknown> => ({
    kind,
    name,
    onFailure: given.onFailure,
    singleUse: false,
    // The method is a wrapper, whose types were checked when the plugin was created.
    wrap: method as Wrapper<unknown, unknown, unknown, unknown>["wrap"]
  })
  const provideIfEffect = (result: unknown): unknown =>
    Effect.isEffect(result) ? provideContext(context)(result) : result
  const adaptMethods = (methods: BoundMethods): BoundMethods =>
    Object.fromEntries(
      Object.entries(methods).map(([key, method]) => [
        key,
        key === "wrapModelCall"
          ? adaptModelWrapper(makeMethodWrapper("wrap_model_call", method), context, name).wrap
          : key === "wrapToolCall"
            ? adaptWrapper(makeMethodWrapper("wrap_tool_call", method), context, name).wrap
            : (...args: ReadonlyArray<unknown>) => provideIfEffect(method(...args))
      ])
    )
  return {
    ...given,
    name,
    shared: given.shared === undefined ? undefined : adaptMethods(given.shared),
    make: (run) => Effect.map(provideContext(context)(given.make(run)), adaptMethods)
  }
}

/** Adapts a middleware entry of a plugin to the stack. `name` identifies the plugin in warnings, errors and traces. */
export const adaptMiddleware = (
  entry: Middleware.Any,
  context: Context.Context<never>,
  name: string
): Middleware.Contained => {
  switch (entry.kind) {
    case "llm_request":
      return Middleware.llmRequest(adaptRewriter(entry.run, context, name))
    case "tool_request":
      return Middleware.toolRequest(adaptRewriter(entry.run, context, name))
    case "llm_execution":
      if (entry.run.services !== undefined)
        return Middleware.llmServices({ name, services: entry.run.services, traces: entry.run.traces })
      return Middleware.llmExecutionUndeclared(adaptModelWrapper(entry.run, context, name))
    case "tool_execution":
      if (entry.run.services !== undefined) return Middleware.toolServices({ name, services: entry.run.services })
      return Middleware.toolExecutionUndeclared(adaptWrapper(entry.run, context, name))
    case "wrap_model_call":
      return Middleware.wrapModelCallUndeclared(adaptModelWrapper(entry.run, context, name))
    case "wrap_tool_call":
      return Middleware.wrapToolCallUndeclared(adaptWrapper(entry.run, context, name))
    case "lifecycle":
      return Middleware.lifecycleUndeclared(adaptLifecycle(entry.run, context, name))
  }
}

const requireApproval = (tool: BoundTool): BoundTool => ({
  ...tool,
  facts: { ...tool.facts, ownApproval: false, destructive: tool.facts.destructive ?? tool.facts.readonly !== true }
})

/** Adapts a toolset of a plugin to the registry. */
export const adaptToolset = <E, R>(given: Toolset<E, R>): Toolset<E, R> => ({
  ...given,
  bind: Effect.map(given.bind, (tools) => tools.map(requireApproval))
})
