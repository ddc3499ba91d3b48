/**
 * Checks a request before it is sent: a field that the Responses API does not have is refused here, by name, instead of by
 * each server in its own words.
 *
 * Source: `hermes-llm.md` §4.3.
 *
 * @since 0.1.0
 */
import * as AiError from "effect/ai/AiError"
import type { ModelRequest } from "../../domain/Model.ts"
import type * as SdkError from "../SdkError.ts"

const known = new Set([
  "background",
  "context_management",
  "conversation",
  "include",
  "input",
  "instructions",
  "max_output_tokens",
  "max_tool_calls",
  "metadata",
  "model",
  "parallel_tool_calls",
  "previous_response_id",
  "prompt",
  "prompt_cache_key",
  "prompt_cache_options",
  "prompt_cache_retention",
  "reasoning",
  "safety_identifier",
  "service_tier",
  "store",
  "stream",
  "stream_options",
  "temperature",
  "text",
  "tool_choice",
  "tools",
  "top_logprobs",
  "top_p",
  "truncation",
  "user",
  "extra_body",
  "extra_headers",
  "extra_query"
])

/** What is wrong with a request; undefined when it may be sent. */
export const check = (request: ModelRequest, context: SdkError.Context): AiError.AiError | undefined => {
  const parameter = Object.keys(request).find((name) => !known.has(name))
  return parameter === undefined ? undefined : AiError.make({
    module: context.module,
    method: context.method,
    reason: new AiError.InvalidRequestError({
      parameter,
      description: "the Responses API has no such field: put what one endpoint knows into extra_body"
    })
  })
}
