/**
 * Descriptions of why a run ended early, shared by the command line and the conversation. Each client adds how to
 * continue.
 *
 * Source: `hermes-product.md` §1.3.
 */
import * as Budget from "../../../agent/Budget.ts"
import type { RunResult } from "../../../base/domain/RunEvent.ts"

/** The part of a result that describes how the run ended. */
export type EndedRun = Pick<RunResult, "exit" | "limit" | "steps">

/** Describes why a run has no complete answer, without a full stop; returns `undefined` for a completed run. */
export const describeCause = ({ exit, limit, steps }: EndedRun): string | undefined => {
  switch (exit) {
    case "text_response":
    case "stop_tool_triggered":
    case "ended_by_middleware":
      return undefined
    case "interrupted_by_user":
      return "interrupted"
    case "max_iterations_reached":
      return `stopped after ${steps === 1 ? "1 model call" : `${steps} model calls`} without a final answer`
    case "budget_exhausted":
      return `stopped, because ${Budget.getWording(limit ?? "time").what} for the run is used up`
    case "empty_response_exhausted":
      return "the model returned an empty answer"
    case "output_truncated":
      return "the answer was cut off at the output limit"
    case "partial_stream_recovery":
      return "the connection was lost during the answer"
    case "invalid_tool_calls":
      return "the model kept sending invalid tool calls"
    case "content_filtered":
      return "the provider's content filter ended the answer"
    case "guardrail_halt":
      return "stopped by a guardrail"
    case "suspended":
      return "waiting for an answer"
  }
}
