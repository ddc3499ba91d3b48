/**
 * Why a run that ended is not a completed one, in a line that says how to go on.
 *
 * Source: `hermes-product.md` §1.3.
 *
 * @since 0.1.0
 */
import * as Budget from "../agent/Budget.ts"
import { isCompleted, type RunResult } from "../domain/RunEvent.ts"

const resume = ({ sessionId }: { readonly sessionId: string }): string => `hermes chat --resume ${sessionId}`

const calls = (count: number): string => count === 1 ? "1 model call" : `${count} model calls`

/** Undefined for a completed run. */
export const reason = (result: RunResult): string | undefined => {
  if (isCompleted(result)) return undefined
  switch (result.exit) {
    case "interrupted_by_user":
      return interrupted(result.sessionId)
    case "max_iterations_reached":
      return `stopped after ${calls(result.steps)} without a final answer: raise --max-turns, or go on with \`${resume(result)}\``
    case "budget_exhausted": {
      const { remedy, what } = Budget.wording(result.limit ?? "time")
      return `stopped, because ${what} for the run is used up: ${remedy}, or go on with \`${resume(result)}\``
    }
    case "empty_response_exhausted":
      return "the model answered with nothing: ask again, or another model by --model"
    case "output_truncated":
      return `the answer was cut by the output limit: raise model.max_tokens, or go on with \`${resume(result)}\``
    case "partial_stream_recovery":
      return `the connection was lost in the middle of the answer: have it finished with \`${resume(result)} -q continue\``
    case "invalid_tool_calls":
      return "the model kept calling tools in a way that can not be read: ask another model by --model"
    case "content_filtered":
      return "the provider's content filter ended the answer: ask differently, or another model by --model"
    default:
      return `stopped by a guardrail: go on with \`${resume(result)}\``
  }
}

/** A run that a signal ended. */
export const interrupted = (sessionId: string): string => `interrupted: go on with \`${resume({ sessionId })}\``

/** A run that was under way when the process was ended by something else than a signal. */
export const cutOff = (sessionId: string): string =>
  `the process was ended in the middle of the run, by a plugin or a library: go on with \`${resume({ sessionId })}\``
