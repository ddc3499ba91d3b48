/**
 * Why a run that ended is not a completed one, in a line that says how to go on.
 *
 * Source: `hermes-product.md` §1.3.
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
      return `stopped after ${calls(result.steps)} without a final answer: raise --max-turns, or continue with \`${resume(result)}\``
    case "budget_exhausted": {
      const { remedy, what } = Budget.wording(result.limit ?? "time")
      return `stopped, because ${what} for the run is used up: ${remedy}, or continue with \`${resume(result)}\``
    }
    case "empty_response_exhausted":
      return "the model returned an empty answer: try again, or use another model with --model"
    case "output_truncated":
      return `the answer was cut off at the output limit: raise model.max_tokens, or continue with \`${resume(result)}\``
    case "partial_stream_recovery":
      return `the connection was lost during the answer: continue with \`${resume(result)} -q continue\``
    case "invalid_tool_calls":
      return "the model kept sending invalid tool calls: use another model with --model"
    case "content_filtered":
      return "the provider's content filter ended the answer: rephrase the prompt, or use another model with --model"
    default:
      return `stopped by a guardrail: continue with \`${resume(result)}\``
  }
}

/** A run that a signal ended. */
export const interrupted = (sessionId: string): string => `interrupted: continue with \`${resume({ sessionId })}\``

/** A run that was under way when the process was ended by something else than a signal. */
export const cutOff = (sessionId: string): string =>
  `the process was ended during the run by a plugin or a library: continue with \`${resume({ sessionId })}\``
