/**
 * Kinds of middleware, and the context of a call that each kind receives.
 *
 * Source: `hermes-contract.md` §1.1–1.3, `ARCHITECTURE.md` §5.
 */
import type * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ApiMode } from "../base/domain/ApiMode.ts"
import type { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../base/domain/Ids.ts"
import type { ModelRequest, ModelResponse } from "../base/domain/ModelCall.ts"
import type { Spent } from "../base/domain/Cost.ts"
import type { Usage } from "../base/domain/Usage.ts"

/** Version of the middleware contract, passed to every plain callback. */
export const middlewareSchemaVersion = "hermes.middleware.v1"

/** Kinds that a plugin registers by name. */
export const registrable = [
  "llm_request",
  "llm_execution",
  "tool_request",
  "tool_execution",
  "wrap_model_call",
  "wrap_tool_call"
] as const

/** A kind in {@link registrable}. */
export type Registrable = (typeof registrable)[number]

/** All kinds of entries in the stack. */
export type Kind = Registrable | "lifecycle"

/** Phase methods of lifecycle middleware, as named in warnings and errors. */
export type PhaseKind =
  | "before_agent"
  | "after_agent"
  | "before_model"
  | "after_model"
  | "before_tool"
  | "after_tool"
  | "stream_part"

/** Policy for failures of middleware itself: the run continues without the middleware, or the call fails. */
export type OnFailure = "open" | "closed"

/** An accepted rewrite of a request, `{ source: "plugin" }` if its author provided no details. */
export interface TraceEntry {
  readonly source?: string
  readonly reason?: string
  readonly name?: string
}

/** Ids of the conversation and run of a call. */
export interface CallIds {
  readonly sessionId: SessionId
  readonly taskId: TaskId
  readonly turnId: TurnId
  readonly apiRequestId: ApiRequestId
}

/** Usage and cost of a run so far, including its children and side tasks. */
export interface RunSpending {
  readonly usage: Usage
  readonly cost: Spent
}

/** Purpose of a model call: a step of a run, or a side task. */
export interface CallPurpose extends Partial<RunSpending> {
  /**
   * Name of the side task, such as `title`, `vision` or `plugin`. Absent for the calls of a run itself: steps, and the
   * summary at a limit.
   */
  readonly task?: string | undefined
  /** Turn of the run that requested the side task, whose own `turnId` differs. */
  readonly runTurnId?: TurnId | undefined
}

/** Context of `llm_request` and `llm_execution`, in addition to the request. */
export interface LlmContext extends CallIds, CallPurpose {
  readonly platform: string
  readonly provider: string
  readonly model: string
  readonly baseUrl: string | undefined
  readonly apiMode: ApiMode
  /** Step of the run, from 1. */
  readonly apiCallCount: number
  /** Number of earlier attempts in the step, 0 for the first. */
  readonly retryCount: number
  /** Request as prepared for the route, before any rewrite. */
  readonly originalRequest: ModelRequest
  /** Rewrites accepted so far. */
  readonly trace: ReadonlyArray<TraceEntry>
  /** Decodes a raw body of this `apiMode`, for a wrapper that answers instead of the provider. */
  readonly decode: (raw: unknown) => Effect.Effect<ModelResponse, AiError.AiError>
}

/** Arguments of a tool call: a JSON object. */
export type ToolArguments = Readonly<Record<string, unknown>>

/** Properties that a tool or its server states. A property that is not stated is absent. */
export interface ToolAnnotations {
  /** True if the tool changes nothing. */
  readonly readonly?: boolean | undefined
  readonly destructive?: boolean | undefined
  /** True if a repeated call changes nothing more. */
  readonly idempotent?: boolean | undefined
  /** True if results come from outside, such as the web. */
  readonly openWorld?: boolean | undefined
}

/** Context of `tool_request` and `tool_execution`, in addition to the arguments. */
export interface ToolCallContext extends CallIds {
  readonly toolName: string
  readonly toolCallId: ToolCallId
  /** Arguments from the model, parsed and coerced. */
  /** Annotations of the tool. */
  readonly annotations: ToolAnnotations
  readonly originalArgs: ToolArguments
  readonly trace: ReadonlyArray<TraceEntry>
}
