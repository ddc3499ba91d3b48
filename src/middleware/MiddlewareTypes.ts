/** Types of middleware entries: their kinds, failures and requirements, and the options of their constructors. */
import type * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { AgentError, ExecutionBlocked, MiddlewareFailure, TranslatedFailure } from "../base/domain/AgentError.ts"
import type { Cost } from "../base/domain/Cost.ts"
import type { SessionId, TaskId, TurnId } from "../base/domain/Ids.ts"
import type { ExecuteOptions, ModelCall, ModelRequest, ModelResponse, TypedRequest } from "../base/domain/ModelCall.ts"
import type { Route, RouteInfo } from "../base/domain/Route.ts"
import type { RunEvent } from "../base/domain/RunEvent.ts"
import type { ToolFailed, ToolOutput } from "../base/domain/ToolOutput.ts"
import type { CallPurpose, Kind, LlmContext, OnFailure, ToolArguments, ToolCallContext } from "./Kind.ts"
import type * as Lifecycle from "./Lifecycle.ts"
import type { Next, Wrapper } from "./MiddlewareBoundary.ts"
import type { Rewriter } from "./Pipeline.ts"
import type * as StateKey from "./StateKey.ts"

/** Identifies an entry of a stack. */
export const TypeId = "~hermes-effect/middleware/Middleware"

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

/** Wrapper of an attempt, without its declared types. */
export type LlmWrapper = Wrapper<ModelRequest, ExecuteOptions, ModelResponse, LlmContext>
/** Wrapper of a tool call, without its declared types. */
export type ToolWrapper = Wrapper<ToolArguments, undefined, ToolOutput, ToolCallContext>
/** Wrapper of a whole model call, without its declared types. */
export type ModelCallWrapper = Wrapper<ModelCallParams, ExecuteOptions, ModelAnswer, CallContext>

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
export interface LifecycleRegistration extends Omit<Registration, "state"> {
  /** Keys of the run state that the middleware stores; see {@link stateKey}. */
  readonly state?: ReadonlyArray<StateKey.StateKey<unknown>> | undefined
}

/** Class of an error that a wrapper may catch. */
export type ErrorClass = abstract new (...args: never) => unknown

/**
 * Names the failures of the inner call that a wrapper catches in addition to {@link ModelCallError} or
 * {@link ToolCallError}.
 */
export interface CatchOptions<Classes extends ReadonlyArray<ErrorClass>> {
  /** Classes of errors that inner entries add. If absent, no such errors are caught. Only used for types. */
  readonly catches?: Classes | undefined
}

/** Failures of the named classes. */
export type CaughtBy<Classes extends ReadonlyArray<ErrorClass>> = InstanceType<Classes[number]>

/**
 * Failures that a wrapper adds. Failures of every run are excluded, and so are opaque failures, which belong to other
 * wrappers.
 */
export type AddedFailures<Fails, Free = never> = Exclude<Fails, AgentError | OpaqueFailure | Free>

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
