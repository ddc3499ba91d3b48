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
import type * as AiError from "effect/ai/AiError"
import type { AgentError, ExecutionBlocked, MiddlewareFailure, TranslatedFailure } from "../base/domain/AgentError.ts"
import type { Cost } from "../base/domain/Cost.ts"
import type { SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse, TypedRequest } from "../base/domain/ModelCall.ts"
import type { Route, RouteInfo } from "../base/domain/Route.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { ToolFailed, ToolOutput } from "../base/domain/ToolOutput.ts"
import * as Frozen from "./Frozen.ts"
import type { Next, Services, Wrapper } from "./MiddlewareBoundary.ts"
import * as Lifecycle from "./Lifecycle.ts"
import type * as StateKey from "./StateKey.ts"
import type { CallPurpose, Kind, LlmContext, OnFailure, ToolArguments, ToolCallContext } from "./Kind.ts"
import type { Answer, Rewriter } from "./Pipeline.ts"

const TypeId = "~hermes-effect/middleware/Middleware"

/** Parameters of a model call, which `wrapModelCall` may change. */
export interface ModelCallParams {
  readonly call: ModelCall
  /** Route that is used instead of the router's own choice, if set. */
  readonly route: Route | undefined
}

/** A complete answer and the route that returned it. */
export interface ModelAnswer {
  readonly response: ModelResponse
  readonly route: RouteInfo
  /** Index of the attempt, from 0. */
  readonly attempt: number
  /** Cost, absent if the source of the answer has no prices. */
  readonly cost?: Cost | undefined
}

declare const opaque: unique symbol

/**
 * A failure of the inner call that a wrapper does not know. It has no tag and cannot be constructed, only passed on.
 */
export interface OpaqueFailure {
  readonly [opaque]: never
}

/** Failures with which a model call can end in every runtime. All are part of `AgentError`. */
export type ModelCallError = AiError.AiError | ExecutionBlocked | MiddlewareFailure | TranslatedFailure

/** Failures with which a tool call can end in every runtime. */
export type ToolCallError = ToolFailed | ExecutionBlocked | MiddlewareFailure | TranslatedFailure

/** `Caught` is invariant: a wrapper that catches no failures is not assignable to a wrapper that catches some. */
interface MiddlewareBrand<in out Caught, out Fails, out Needs> {
  readonly [TypeId]: {
    readonly _Caught: (_: Caught) => Caught
    readonly _Fails: () => Fails
    readonly _Needs: () => Needs
  }
}

/** Brand of an entry with any type parameters. */
interface AnyBrand<out Fails = unknown, out Needs = unknown> {
  readonly [TypeId]: {
    readonly _Caught: (_: never) => unknown
    readonly _Fails: () => Fails
    readonly _Needs: () => Needs
  }
}

interface KindEntry<K extends Kind, Run> {
  readonly kind: K
  readonly name: string
  readonly run: Run
}

/** Context of `wrapModelCall`. */
export interface CallContext extends CallPurpose {
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly platform: string
  readonly apiCallCount: number
  /**
   * Route that the router would take, if it reports the route: a router with a single provider does not reveal its key.
   */
  readonly primary?: Effect.Effect<Route> | undefined
  /** Reports events to the observers of the run. Absent if there are no observers. */
  readonly notify?: ((events: ReadonlyArray<RunEvent>) => Effect.Effect<void>) | undefined
}

type LlmWrapper = Wrapper<ModelRequest, ExecuteOptions, ModelResponse, LlmContext>
type ToolWrapper = Wrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>
type ModelCallWrapper = Wrapper<ModelCallParams, ExecuteOptions, ModelAnswer, CallContext>

type OfLlmRequest = KindEntry<"llm_request", Rewriter<ModelRequest, LlmContext>>
type OfToolRequest = KindEntry<"tool_request", Rewriter<ToolArguments, ToolCallContext>>
type OfLlmExecution = KindEntry<"llm_execution", LlmWrapper>
type OfToolExecution = KindEntry<"tool_execution", ToolWrapper>
type OfWrapModelCall = KindEntry<"wrap_model_call", ModelCallWrapper>
type OfWrapToolCall = KindEntry<"wrap_tool_call", ToolWrapper>
type OfLifecycle = KindEntry<"lifecycle", Lifecycle.Entry>

/** Rewrites the provider's request before each attempt. */
export type LlmRequest<Needs = never> = OfLlmRequest & MiddlewareBrand<never, never, Needs>
/** Rewrites the arguments of each tool call, before guardrails and approvals see them. */
export type ToolRequest<Needs = never> = OfToolRequest & MiddlewareBrand<never, never, Needs>
/** Wraps each attempt to call a provider. */
export type LlmExecution<Caught = never, Fails = never, Needs = never> = OfLlmExecution &
  MiddlewareBrand<Caught, Fails, Needs>
/** Wraps each execution of a tool. */
export type ToolExecution<Caught = never, Fails = never, Needs = never> = OfToolExecution &
  MiddlewareBrand<Caught, Fails, Needs>
/** Wraps the whole model call, including retries and fallbacks. */
export type WrapModelCall<Caught = never, Fails = never, Needs = never> = OfWrapModelCall &
  MiddlewareBrand<Caught, Fails, Needs>
/** Wraps the whole tool call, including {@link ToolExecution}. */
export type WrapToolCall<Caught = never, Fails = never, Needs = never> = OfWrapToolCall &
  MiddlewareBrand<Caught, Fails, Needs>

/** Runs methods at the phases of a run; see {@link Lifecycle}. */
export type LifecycleMiddleware<Caught = never, Fails = never, Needs = never> = OfLifecycle &
  MiddlewareBrand<Caught, Fails, Needs>

type OfAny =
  | OfLlmRequest
  | OfToolRequest
  | OfLlmExecution
  | OfToolExecution
  | OfWrapModelCall
  | OfWrapToolCall
  | OfLifecycle

/** Any entry of a stack. */
export type Any = OfAny & AnyBrand

/** An entry that adds no failures and requires no services, as provided by a loaded plugin. */
export type Contained = OfAny & AnyBrand<never, never>

/** Tests whether a value is an entry of a stack. */
export const isMiddleware = (value: unknown): value is Any =>
  Predicate.hasProperty(value, TypeId) && Predicate.hasProperty(value, "kind") && Predicate.hasProperty(value, "run")

/** Services that an entry requires. */
export type NeedsOf<M> = M extends AnyBrand<unknown, infer Needs> ? Needs : never

/** Services that a list of entries requires. */
export type Needs<List extends ReadonlyArray<Any>> = NeedsOf<List[number]>

type FailsOf<M> = M extends AnyBrand<infer Fails, unknown> ? Fails : never
type CaughtOf<M> = M extends { readonly [TypeId]: { readonly _Caught: (_: never) => infer Caught } } ? Caught : never

/**
 * Failures outside one entry. Distributes over a union, so that a failure which any member lets through is included.
 */
type FailuresAbove<M, K extends Kind, E> = M extends { readonly kind: K } ? Exclude<E, CaughtOf<M>> | FailsOf<M> : E

/**
 * Failures after folding the entries of a kind from the innermost (last) to the outermost. Each entry removes the
 * failures that it catches and adds its own.
 */
type FoldedFailures<List extends ReadonlyArray<Any>, K extends Kind, E> = List extends readonly []
  ? E
  : List extends readonly [...infer Rest extends ReadonlyArray<Any>, infer Last]
    ? number extends List["length"]
      ? E | FailsOf<Extract<List[number], { readonly kind: K }>>
      : FoldedFailures<Rest, K, FailuresAbove<Last, K, E>>
    : // A list of unknown length, or one with optional members: nothing of it is known to catch.
      E | FailsOf<Extract<List[number], { readonly kind: K }>>

/**
 * Errors that an agent with these entries can fail with in addition to `AgentError`. Tool wrappers add nothing: a
 * failed tool call is an error result for the model.
 */
export type Errors<List extends ReadonlyArray<Any>> = FoldedFailures<
  List,
  "wrap_model_call" | "lifecycle",
  FoldedFailures<List, "llm_execution", never>
>

/** The compile error of a list that adds other failures than an agent states. No list has this property. */
export interface UnstatedFailures<E> {
  readonly "This middleware adds failures: use Runtime.make with the key of an agent whose type names them": E
}

/** `unknown` if the list adds at most the failures `E`; otherwise {@link UnstatedFailures}, which no list satisfies. */
export type AtMost<E, List extends ReadonlyArray<Any>> = [Errors<List>] extends [E]
  ? unknown
  : UnstatedFailures<Exclude<Errors<List>, E>>

/** Options of an entry. */
export interface Registration {
  /** Name in warnings, errors and traces. */
  readonly name: string
  /** Policy for failures of the entry itself. Defaults to `"open"`. */
  readonly onFailure?: OnFailure | undefined
  /** Only lifecycle middleware has state of a run. A wrapper has no access to it, so that stating keys is an error. */
  readonly state?: undefined
}

/** Options of lifecycle middleware. */
interface LifecycleRegistration extends Omit<Registration, "state"> {
  /** Keys of the run state that the middleware stores; see {@link stateKey}. */
  readonly state?: ReadonlyArray<StateKey.StateKey<unknown>> | undefined
}

/** Class of an error that a wrapper may catch. */
type ErrorClass = abstract new (...args: never) => unknown

/**
 * Names the failures of the inner call that a wrapper catches in addition to {@link ModelCallError} or
 * {@link ToolCallError}.
 */
interface CatchOptions<Classes extends ReadonlyArray<ErrorClass>> {
  /** Classes of errors that inner entries add. If absent, no such errors are caught. Only used for types. */
  readonly catches?: Classes | undefined
}

type CaughtBy<Classes extends ReadonlyArray<ErrorClass>> = InstanceType<Classes[number]>

/**
 * Failures that a wrapper adds. Failures of every run are excluded, and so are opaque failures, which belong to other
 * wrappers.
 */
type AddedFailures<Fails, Free = never> = Exclude<Fails, AgentError | OpaqueFailure | Free>

/**
 * A wrapper of provider calls. The type parameters are the failures that it catches, the failures that it adds, and its
 * required services.
 */
export interface LlmWrap<Caught, Fails, Needs> {
  (
    next: Next<ModelRequest, ExecuteOptions, ModelResponse, ModelCallError | OpaqueFailure | Caught, never>,
    context: LlmContext
  ): (request: TypedRequest) => Effect.Effect<ModelResponse, ModelCallError | OpaqueFailure | Fails, Needs>
}

/**
 * A wrapper of tool calls. The type parameters are the failures that it catches, the failures that it adds, and its
 * required services.
 */
export interface ToolWrap<Caught, Fails, Needs> {
  (
    next: Next<ToolArguments, undefined, ToolOutput, ToolCallError | OpaqueFailure | Caught, never>,
    context: ToolCallContext
  ): (args: ToolArguments) => Effect.Effect<ToolOutput, ToolCallError | OpaqueFailure | Fails, Needs>
}

/**
 * A wrapper of whole model calls. The type parameters are the failures that it catches, the failures that it adds, and
 * its required services.
 */
export interface ModelCallWrap<Caught, Fails, Needs> {
  (
    next: Next<ModelCallParams, ExecuteOptions, ModelAnswer, ModelCallError | OpaqueFailure | Caught, never>,
    context: CallContext
  ): (params: ModelCallParams) => Effect.Effect<ModelAnswer, ModelCallError | OpaqueFailure | Fails, Needs>
}

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
