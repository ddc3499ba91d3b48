/**
 * Constructors with which applications and plugins create typed middleware, one for each kind.
 *
 * **Details**
 *
 * A wrapper receives `next` and the call's context, and returns a function of the request. `next` fails with
 * {@link ModelCallError} or {@link ToolCallError}, with the error classes that the wrapper names in `catches`, and with
 * {@link OpaqueFailure} for all other failures, which a wrapper can only pass on. The failures and requirements of a
 * wrapper are inferred. A list of wrappers folds to the exact error and requirements of an agent, see {@link Errors}
 * and {@link Needs}. The first wrapper of a list is outermost.
 *
 * **Gotchas**
 *
 * `next` of `llmExecution` and `toolExecution` is single use; `next` of `wrapModelCall` and `wrapToolCall` may be
 * called again. Every `next` is revoked when its wrapper returns. A typed failure is intended and always propagates; a
 * defect is a fault of the wrapper and never breaks the call, unless the wrapper is registered with
 * `onFailure: "closed"`.
 *
 * **Example** (Timing every call to a provider)
 *
 * ```ts
 * import * as Clock from "effect/Clock"
 * import * as Effect from "effect/Effect"
 * import { Middleware } from "hermes-effect"
 *
 * export const timing = Middleware.llmExecution({
 *   name: "timing",
 *   wrap: (next) => (request) =>
 *     Effect.gen(function*() {
 *       const started = yield* Clock.currentTimeMillis
 *       const response = yield* next(request)
 *       yield* Effect.logInfo(`took ${(yield* Clock.currentTimeMillis) - started} ms`)
 *       return response
 *     })
 * })
 * ```
 *
 * Source: `ARCHITECTURE.md` §5 and §6, `hermes-contract.md` §1.
 */
import type * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import type { ModelRequest, TypedRequest } from "../base/domain/ModelCall.ts"
import * as Frozen from "./Frozen.ts"
import type { Kind, LlmContext, ToolArguments, ToolCallContext } from "./Kind.ts"
import * as Lifecycle from "./Lifecycle.ts"
import type { Next, Services, Wrapper } from "./MiddlewareBoundary.ts"
import {
  type AddedFailures,
  type Any,
  type CatchOptions,
  type CaughtBy,
  type ErrorClass,
  type LifecycleMiddleware,
  type LifecycleRegistration,
  type LlmExecution,
  type LlmRequest,
  type LlmWrap,
  type LlmWrapper,
  type ModelCallWrap,
  type ModelCallWrapper,
  type Registration,
  type ToolCallError,
  type ToolExecution,
  type ToolRequest,
  type ToolWrap,
  type ToolWrapper,
  TypeId,
  type WrapModelCall,
  type WrapToolCall
} from "./MiddlewareTypes.ts"
import type { Answer } from "./Pipeline.ts"

/** Tests whether a value is an entry of a stack. */
export const isMiddleware = (value: unknown): value is Any =>
  Predicate.hasProperty(value, TypeId) && Predicate.hasProperty(value, "kind") && Predicate.hasProperty(value, "run")

/** Creates an entry of a kind. The brand exists only in types and has no value at run time. */
const make = <M extends Any>(kind: M["kind"], name: string, run: M["run"]): M =>
  // The phantom functions of the brand are never called.
  ({ [TypeId]: undefined, kind, name, run }) as unknown as M

/**
 * Erases the types of a wrapper: the failures of the inner chain are unknown, and its required services are provided.
 */
const eraseTypes = <Req, Shown extends Req, Options, A, Info, E, Fails, Needs>(
  wrap: (next: Next<Req, Options, A, E, never>, context: Info) => (request: Shown) => Effect.Effect<A, Fails, Needs>
): Wrapper<Req, Options, A, Info>["wrap"] => wrap as Wrapper<Req, Options, A, Info>["wrap"]

/** Returns a view of a request that includes its protocol. */
const labelProtocol = (request: ModelRequest, { apiMode }: LlmContext): TypedRequest =>
  // The provider prepared the request for this protocol, and rewriting middleware preserves the protocol.
  Frozen.makeLabelledView(request, "apiMode", apiMode) as TypedRequest

const toBaseFields = <K extends Kind>(kind: K, { name, onFailure }: Omit<Registration, "state">) =>
  ({ kind, name, onFailure: onFailure ?? "open" }) as const

/** Creates a wrapper that only provides services to the inner call. */
const wrapWithServices =
  <Req, Options, A, Info>(services: Services<Info>): Wrapper<Req, Options, A, Info>["wrap"] =>
  (next, info) =>
  (request) =>
    // Services that the call requires are preserved.
    Effect.updateContext(next(request) as Effect.Effect<A, unknown>, (given: Context.Context<never>) =>
      services(given, info)
    )

/** Creates a {@link LlmRequest}. It answers `Middleware.unchanged` or `Middleware.replacePayload(request, trace)`. */
export const llmRequest = <Needs = never>(
  options: Registration & {
    readonly rewrite: (
      request: TypedRequest,
      context: LlmContext
    ) => Effect.Effect<Answer<ModelRequest>, unknown, Needs>
  }
): LlmRequest<NoInfer<Needs>> =>
  make("llm_request", options.name, {
    ...toBaseFields("llm_request", options),
    rewrite: (request, context) => options.rewrite(labelProtocol(request, context), context)
  })

/** Creates a {@link ToolRequest}. It answers `Middleware.unchanged` or `Middleware.replacePayload(args, trace)`. */
export const toolRequest = <Needs = never>(
  options: Registration & {
    readonly rewrite: (
      args: ToolArguments,
      context: ToolCallContext
    ) => Effect.Effect<Answer<ToolArguments>, unknown, Needs>
  }
): ToolRequest<NoInfer<Needs>> =>
  make("tool_request", options.name, { ...toBaseFields("tool_request", options), rewrite: options.rewrite })

/** Creates a {@link LlmExecution}. */
export const llmExecution = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>(
  options: Registration & CatchOptions<Classes> & { readonly wrap: LlmWrap<Caught | CaughtBy<Classes>, Fails, Needs> }
): LlmExecution<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails>>, NoInfer<Needs>> =>
  make("llm_execution", options.name, {
    ...toBaseFields("llm_execution", options),
    singleUse: true,
    wrap: (next, context) => {
      const wrapped = eraseTypes(options.wrap)(next, context)
      return (request) => wrapped(labelProtocol(request, context))
    }
  })

/** Creates a {@link ToolExecution}. */
export const toolExecution = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>(
  options: Registration & CatchOptions<Classes> & { readonly wrap: ToolWrap<Caught | CaughtBy<Classes>, Fails, Needs> }
): ToolExecution<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails, ToolCallError>>, NoInfer<Needs>> =>
  make("tool_execution", options.name, {
    ...toBaseFields("tool_execution", options),
    singleUse: true,
    wrap: eraseTypes(options.wrap)
  })

/**
 * Creates a {@link LlmExecution} from a function without declared types. It fails with errors that are always part of
 * `AgentError`, and may return no value.
 */
export const llmExecutionUndeclared = (options: Registration & Pick<LlmWrapper, "wrap">): LlmExecution =>
  make("llm_execution", options.name, {
    ...toBaseFields("llm_execution", options),
    singleUse: true,
    wrap: options.wrap
  })

/** Creates a {@link ToolExecution} from a function without declared types; see {@link llmExecutionUndeclared}. */
export const toolExecutionUndeclared = (options: Registration & Pick<ToolWrapper, "wrap">): ToolExecution =>
  make("tool_execution", options.name, {
    ...toBaseFields("tool_execution", options),
    singleUse: true,
    wrap: options.wrap
  })

/**
 * Creates a {@link LlmExecution} that provides services to provider calls, such as a span. It runs outside all wrappers
 * and cannot change the outcome of a call. If it dies, the call continues without it.
 */
export const llmServices = ({
  name,
  services,
  traces
}: {
  readonly name: string
  readonly services: Services<LlmContext>
  /** True if the services put each call into a span. The runtime then creates no further spans (`OperationSpans`). */
  readonly traces?: boolean | undefined
}): LlmExecution =>
  make("llm_execution", name, {
    ...toBaseFields("llm_execution", { name }),
    singleUse: true,
    wrap: wrapWithServices(services),
    services,
    traces
  })

/** Creates a {@link ToolExecution} that provides services to tool calls; see {@link llmServices}. */
export const toolServices = ({
  name,
  services
}: {
  readonly name: string
  readonly services: Services<ToolCallContext>
}): ToolExecution =>
  make("tool_execution", name, {
    ...toBaseFields("tool_execution", { name }),
    singleUse: true,
    wrap: wrapWithServices(services),
    services
  })

/** Creates a {@link WrapModelCall}. */
export const wrapModelCall = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>(
  options: Registration &
    CatchOptions<Classes> & { readonly wrap: ModelCallWrap<Caught | CaughtBy<Classes>, Fails, Needs> }
): WrapModelCall<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails>>, NoInfer<Needs>> =>
  make("wrap_model_call", options.name, {
    ...toBaseFields("wrap_model_call", options),
    singleUse: false,
    wrap: eraseTypes(options.wrap)
  })

/** Creates a {@link WrapToolCall}. */
export const wrapToolCall = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>(
  options: Registration & CatchOptions<Classes> & { readonly wrap: ToolWrap<Caught | CaughtBy<Classes>, Fails, Needs> }
): WrapToolCall<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails, ToolCallError>>, NoInfer<Needs>> =>
  make("wrap_tool_call", options.name, {
    ...toBaseFields("wrap_tool_call", options),
    singleUse: false,
    wrap: eraseTypes(options.wrap)
  })

/** Creates a {@link WrapModelCall} from a function without declared types; see {@link llmExecutionUndeclared}. */
export const wrapModelCallUndeclared = (options: Registration & Pick<ModelCallWrapper, "wrap">): WrapModelCall =>
  make("wrap_model_call", options.name, {
    ...toBaseFields("wrap_model_call", options),
    singleUse: false,
    wrap: options.wrap
  })

/** Creates a {@link WrapToolCall} from a function without declared types; see {@link llmExecutionUndeclared}. */
export const wrapToolCallUndeclared = (options: Registration & Pick<ToolWrapper, "wrap">): WrapToolCall =>
  make("wrap_tool_call", options.name, {
    ...toBaseFields("wrap_tool_call", options),
    singleUse: false,
    wrap: options.wrap
  })

/** Returns the name of an entry, or the name of its class if the entry is unnamed. */
const getEntryName = (given: object, name: string | undefined): string => name ?? given.constructor.name

/**
 * Creates lifecycle middleware from a record or a class instance whose methods are shared by all runs. Throws a
 * `ConfigError` if a method has both spellings.
 */
export const lifecycle = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>(
  methods: Partial<LifecycleRegistration> &
    CatchOptions<Classes> &
    Lifecycle.Methods<Caught | CaughtBy<Classes>, Fails, Needs>
): LifecycleMiddleware<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails>>, NoInfer<Needs>> => {
  const name = getEntryName(methods, methods.name)
  const shared = Lifecycle.bind(name, methods)
  return make("lifecycle", name, {
    ...toBaseFields("lifecycle", { name, onFailure: methods.onFailure }),
    state: methods.state,
    shared,
    make: () => Effect.succeed(shared)
  })
}

/**
 * Creates lifecycle middleware whose methods are created by `make` for each run, so that their state belongs to that
 * run.
 */
export const lifecyclePerRun = <
  Caught = never,
  Fails = never,
  Needs = never,
  const Classes extends ReadonlyArray<ErrorClass> = []
>({
  make: factory,
  ...options
}: LifecycleRegistration &
  CatchOptions<Classes> & {
    readonly make: (
      run: Lifecycle.RunFacts
    ) =>
      | Lifecycle.Methods<Caught | CaughtBy<Classes>, Fails, Needs>
      | Effect.Effect<Lifecycle.Methods<Caught | CaughtBy<Classes>, Fails, Needs>, unknown, Needs>
  }): LifecycleMiddleware<NoInfer<Caught | CaughtBy<Classes>>, NoInfer<AddedFailures<Fails>>, NoInfer<Needs>> =>
  make("lifecycle", options.name, {
    ...toBaseFields("lifecycle", options),
    state: options.state,
    shared: undefined,
    make: (run) => {
      const made = factory(run)
      return Effect.map(Effect.isEffect(made) ? made : Effect.succeed(made), (methods) =>
        Lifecycle.bind(options.name, methods)
      )
    }
  })

/** Creates a {@link LifecycleMiddleware} from an entry whose types were checked at construction. */
export const lifecycleUndeclared = (entry: Lifecycle.Entry): LifecycleMiddleware => make("lifecycle", entry.name, entry)

export type {
  Any,
  AtMost,
  CallContext,
  Contained,
  Errors,
  LifecycleMiddleware,
  LlmExecution,
  LlmRequest,
  LlmWrap,
  ModelAnswer,
  ModelCallError,
  ModelCallParams,
  ModelCallWrap,
  Needs,
  NeedsOf,
  OpaqueFailure,
  Registration,
  ToolCallError,
  ToolExecution,
  ToolRequest,
  ToolWrap,
  UnstatedFailures,
  WrapModelCall,
  WrapToolCall
} from "./MiddlewareTypes.ts"
export type { CallPurpose, LlmContext, RunSpending, ToolAnnotations, ToolArguments, ToolCallContext } from "./Kind.ts"
export type {
  AfterAgentInput,
  AfterModelInput,
  AfterToolInput,
  BeforeAgentInput,
  BeforeModelInput,
  BeforeToolInput,
  Methods,
  RunFacts,
  StreamPartInput
} from "./Lifecycle.ts"
export { make as stateKey, type StateKey } from "./StateKey.ts"
export { deny, noChanges, skip, withModifications } from "./Lifecycle.ts"
export type { EndNow, EndWith, GoToModel, GoToTools, RequestedCall } from "./LoopControl.ts"
export { end, endWith, goToModel, goToModelWith, goToTools } from "./LoopControl.ts"
export { hold } from "../base/domain/ModelCall.ts"
export { replacePayload, unchanged } from "./Pipeline.ts"
export { arrangeEntries, layer, layerAdd, layerNone, type MiddlewareList, Middlewares } from "./MiddlewareList.ts"
export type { Position } from "../base/domain/OrderedList.ts"
