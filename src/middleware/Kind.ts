/**
 * The kinds of middleware and the context that each receives about a call.
 *
 * Source: `hermes-contract.md` §1.1–1.3, `ARCHITECTURE.md` §5.
 */
import type * as Effect from "effect/Effect"
import type * as AiError from "effect/ai/AiError"
import type { ApiMode } from "../base/domain/ApiMode.ts"
import type { ApiRequestId, SessionId, TaskId, ToolCallId, TurnId } from "../base/domain/Ids.ts"
import type { ModelRequest, ModelResponse } from "../base/domain/ModelCall.ts"

/** Version of the middleware contract, in every plain callback's envelope. */
export const middlewareSchemaVersion = "hermes.middleware.v1"

/** The kinds that a plugin registers by name. */
export const registrable = [
  "llm_request",
  "llm_execution",
  "tool_request",
  "tool_execution",
  "wrap_model_call",
  "wrap_tool_call"
] as const

/** One of {@link registrable}. */
export type Registrable = (typeof registrable)[number]

/** Every place in the stack. */
export type Kind = Registrable | "lifecycle"

/** Methods of lifecycle middleware before and after something, as warnings and errors name them. */
export type PhaseKind =
  | "before_agent"
  | "after_agent"
  | "before_model"
  | "after_model"
  | "before_tool"
  | "after_tool"
  | "stream_part"

/** Policy for middleware that fails by itself: the run continues without it, or the call fails. */
export type OnFailure = "open" | "closed"

/** One accepted rewrite of a request; `{ source: "plugin" }` when its author gave nothing. */
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

/** Context of `llm_request` and `llm_execution` besides the request. */
export interface LlmContext extends CallIds {
  readonly platform: string
  readonly provider: string
  readonly model: string
  readonly baseUrl: string | undefined
  readonly apiMode: ApiMode
  /** The step of the run, from 1. */
  readonly apiCallCount: number
  /** 0 for the first attempt of a step. */
  readonly retryCount: number
  /** As prepared for the route, before any rewrite. */
  readonly originalRequest: ModelRequest
  /** The rewrites accepted so far. */
  readonly trace: ReadonlyArray<TraceEntry>
  /** Reads a raw body of this `apiMode`, for a wrapper that answers in the provider's stead. */
  readonly decode: (raw: unknown) => Effect.Effect<ModelResponse, AiError.AiError>
}

/** Arguments of a tool call: a JSON object. */
export type ToolArguments = Readonly<Record<string, unknown>>

/** Context of `tool_request` and `tool_execution` besides the arguments. */
export interface ToolCallContext extends CallIds {
  readonly toolName: string
  readonly toolCallId: ToolCallId
  /** Arguments of the model, parsed and coerced. */
  readonly originalArgs: ToolArguments
  readonly trace: ReadonlyArray<TraceEntry>
}
