/**
 * The events of one tool call: `pre_tool_call`, whose listeners may block it, `post_tool_call` to close it, and
 * `transform_tool_result` before the result goes to the model.
 *
 * Source: `hermes-contract.md` §2.3 and §2.9, `ARCHITECTURE.md` §7.
 */
import * as Effect from "effect/Effect"
import type * as Scope from "effect/Scope"
import type { ToolStatus } from "../base/domain/RunEvent.ts"
import type { Ids } from "../hooks/Correlation.ts"
import type { Fields } from "../hooks/Payloads.ts"
import type { Service as Hooks } from "../hooks/Hooks.ts"
import * as PairedEvents from "../hooks/PairedEvents.ts"
import * as ToolOutcome from "../hooks/ToolOutcome.ts"
import type { ToolArguments, ToolCallContext } from "../middleware/Kind.ts"

/** An announced call that is not yet closed. */
export type AnnouncedCall = PairedEvents.Span<"pre_tool_call">

/** End of a call, for its closing event. */
export interface CallEnd {
  /** Arguments that reached the tool, or would have reached it if the call had run. */
  readonly args: ToolArguments
  readonly result: string
  readonly durationMillis: number
  readonly outcome: ToolOutcome.ToolOutcome
}

const toEventIds = (context: ToolCallContext) => ({
  tool_name: context.toolName,
  task_id: context.taskId,
  session_id: context.sessionId,
  tool_call_id: context.toolCallId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId
})

/** Returns the ids of a call, for events inside it. */
export const toCorrelation = (context: ToolCallContext): Ids => ({
  session_id: context.sessionId,
  task_id: context.taskId,
  turn_id: context.turnId,
  api_request_id: context.apiRequestId,
  tool_call_id: context.toolCallId
})

const toEndFields = (context: ToolCallContext, { args, durationMillis, outcome, result }: CallEnd) => ({
  ...toEventIds(context),
  args,
  result,
  duration_ms: Math.max(0, Math.round(durationMillis)),
  ...outcome
})

const toPostFields = (context: ToolCallContext, end: CallEnd): Fields<"post_tool_call"> => ({
  ...toEndFields(context, end),
  middleware_trace: context.trace
})

/** Returns true if tool calls have listeners. */
export const hasListeners = (hooks: Hooks): boolean => PairedEvents.isHeard(hooks, "pre_tool_call")

/** A call that has no listeners. */
export const unannounced: AnnouncedCall = PairedEvents.unheard

const { result: cancelledResult, ...interrupted } = ToolOutcome.cancelled

/** Outcome that observers receive for an interrupted call. */
export const cancelled: ToolOutcome.ToolOutcome = interrupted

/** Announces a call. If it is not closed, the scope closes it as cancelled. */
export const announce = (
  hooks: Hooks,
  context: ToolCallContext,
  args: ToolArguments
): Effect.Effect<AnnouncedCall, never, Scope.Scope> =>
  PairedEvents.open<"pre_tool_call">(hooks, {
    open: ["pre_tool_call", () => ({ ...toEventIds(context), args, middleware_trace: context.trace })],
    otherwise: () => [
      "post_tool_call",
      () => toPostFields(context, { args, result: cancelledResult, durationMillis: 0, outcome: cancelled })
    ]
  })

/** Reports a call that was never announced. */
export const reportUnannounced = (hooks: Hooks, context: ToolCallContext, end: CallEnd): Effect.Effect<void> =>
  hooks.emit("post_tool_call", () => toPostFields(context, end))

/** Closes a call. */
export const close = (announced: AnnouncedCall, context: ToolCallContext, end: CallEnd): Effect.Effect<void> =>
  announced.close(["post_tool_call", () => toPostFields(context, end)])

/** Returns the outcome of a call for observers. */
export const toOutcome = (
  status: ToolStatus,
  result: string,
  blockedBy: ToolOutcome.BlockReason | undefined
): ToolOutcome.ToolOutcome => {
  if (status === "blocked") {
    const { result: _, ...blocked } = ToolOutcome.toBlockedOutcome(
      blockedBy ?? "plugin_block",
      readErrorMessage(result)
    )
    return blocked
  }
  const read = ToolOutcome.fromResult(result)
  if (status === "cancelled") return { status, error_type: "cancelled", error_message: readErrorMessage(result) }
  return status === "error" && read.status === "ok" ? { status, error_type: "tool_error", error_message: result } : read
}

const readErrorMessage = (result: string): string => ToolOutcome.fromResult(result).error_message ?? result

/** Returns the result of a completed call for the model: the listeners' replacement, or the tool's own result. */
export const transformResult = (hooks: Hooks, context: ToolCallContext, end: CallEnd): Effect.Effect<string> =>
  hooks.has("transform_tool_result")
    ? Effect.map(
        hooks.ask("transform_tool_result", () => toEndFields(context, end)),
        (replacement) => replacement ?? end.result
      )
    : Effect.succeed(end.result)
