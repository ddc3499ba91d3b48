/**
 * Types of the argument of plain middleware callbacks: one frozen object with the contract's fields.
 *
 * Source: `hermes-contract.md` §1.2 and §1.3.
 */
import type { ApiMode } from "../base/domain/ApiMode.ts"
import type { Spent } from "../base/domain/Cost.ts"
import type { RequestBody } from "../base/domain/ModelCall.ts"
import type { Registrable, ToolArguments, TraceEntry } from "./Kind.ts"
import type { ModelAnswer, ModelCallParams } from "./Middleware.ts"
import type { NextCall } from "./PlainExecution.ts"

interface RunIds {
  readonly telemetry_schema_version: string
  readonly middleware_schema_version: string
  readonly session_id: string
  readonly task_id: string
  readonly turn_id: string
}

/** Purpose of a model call. */
interface Purpose {
  /** Name of the side task. Absent for a call of a run itself. */
  readonly task?: string
  /** Turn of the run that requested the side task, empty outside of a run. Absent for a call of a run itself. */
  readonly run_turn_id?: string
  /** Usage of the run so far, under the names of `post_api_request`. Absent outside of a run. */
  readonly usage?: Readonly<Record<string, number>>
  /** Cost of the run so far. Absent outside of a run. */
  readonly cost?: Spent
}

/** Properties that a tool states. */
interface StatedAnnotations {
  readonly readonly?: boolean
  readonly destructive?: boolean
  readonly idempotent?: boolean
  readonly open_world?: boolean
}

interface Ids extends RunIds {
  readonly api_request_id: string
  /** Rewrites accepted so far. */
  readonly middleware_trace: ReadonlyArray<TraceEntry>
}

interface LlmCall<Mode extends ApiMode> extends Ids, Purpose {
  readonly platform: string
  readonly model: string
  readonly provider: string
  readonly base_url: string
  readonly api_mode: Mode
  readonly api_call_count: number
  readonly retry_count: number
  readonly request: RequestBody<Mode>
  readonly original_request: RequestBody<Mode>
}

/**
 * Argument of `llm_request`. Return `{ request, source?, reason? }` to replace the request, or nothing. `api_mode`
 * determines the type of `request`.
 */
type LlmRequestCall = { readonly [Mode in ApiMode]: LlmCall<Mode> }[ApiMode]

/** Argument of `llm_execution`. Return the result of `next_call`, or a body of the same API. */
type LlmExecutionCall = LlmRequestCall & { readonly next_call: NextCall }

/** Argument of `tool_request`. Return `{ args, source?, reason? }` to replace the arguments, or nothing. */
interface ToolRequestCall extends Ids {
  readonly tool_name: string
  readonly tool_call_id: string
  /** Annotations of the tool. */
  readonly annotations: StatedAnnotations
  readonly args: ToolArguments
  readonly original_args: ToolArguments
}

/** Argument of `tool_execution`. Return the result of `next_call`, or another result. */
interface ToolExecutionCall extends ToolRequestCall {
  readonly next_call: NextCall
}

/**
 * Argument of `wrap_model_call`. Return the result of `next_call`, a changed copy of it, or a string. `next_call` may
 * be called again.
 */
interface WrapModelCallCall extends RunIds, Purpose {
  readonly platform: string
  readonly api_call_count: number
  readonly params: ModelCallParams
  /** Calls the model, with the changed parameters, if any. */
  readonly next_call: (params?: Partial<ModelCallParams>) => Promise<ModelAnswer>
}

/** By kind. */
interface Calls {
  readonly llm_request: LlmRequestCall
  readonly llm_execution: LlmExecutionCall
  readonly tool_request: ToolRequestCall
  readonly tool_execution: ToolExecutionCall
  readonly wrap_model_call: WrapModelCallCall
  /** Same argument as for `tool_execution`, but `next_call` may be called again. */
  readonly wrap_tool_call: ToolExecutionCall
}

/** Argument of a callback of a kind, or a record of unknown values for an unknown kind. */
export type CallOf<Kind extends string> = Kind extends Registrable ? Calls[Kind] : Readonly<Record<string, unknown>>
