/**
 * The words for what can go wrong between a provider and us. They stand in `api_request_error.reason`, so they never
 * change.
 *
 * Source: `hermes-llm.md` §22. `image_unsupported`, `stream_unsupported`,
 * `output_cap`, `invalid_response` and `unsupported_parameter` are ours:
 * their recoveries differ from all others (§11, §15.1, §15.5, §16.5). `auth_permanent` is left out: nothing tells it
 * from `auth`.
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"

/** See the module. */
export const Reason = Schema.Literals([
  "auth",
  "billing",
  "rate_limit",
  "overloaded",
  "server_error",
  "timeout",
  "invalid_response",
  "context_overflow",
  "output_cap",
  "payload_too_large",
  "long_context_tier",
  "image_too_large",
  "image_unsupported",
  "stream_unsupported",
  "model_not_found",
  "provider_policy_blocked",
  "content_policy_blocked",
  "thinking_signature",
  "invalid_encrypted_content",
  "oauth_long_context_beta_forbidden",
  "llama_cpp_grammar_pattern",
  "unsupported_parameter",
  "format_error",
  "unknown"
])
/** See the module. */
export type Reason = typeof Reason.Type
