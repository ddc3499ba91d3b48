/**
 * Wordings that providers use in error messages, grouped by meaning. Each entry is a part of a message in lower case,
 * or a regular expression if several words or their order matter.
 *
 * **Details**
 *
 * The families are data. A new wording requires one more line here, and one more row in the table of actual errors that
 * the tests use.
 *
 * Source: `hermes-llm.md` §16.2 to §16.4; additional wordings come from the providers' error references.
 */

/** Wordings with the same meaning. */
export type Family = ReadonlyArray<string | RegExp>

/** Tests whether lower-case text contains one of the wordings. */
export const hasWording = (family: Family, text: string): boolean =>
  family.some((wording) => (typeof wording === "string" ? text.includes(wording) : wording.test(text)))

/** Missing credit, or an exhausted quota that does not reset by itself. */
export const billing: Family = [
  "insufficient credits",
  "insufficient balance",
  "insufficient_balance",
  "insufficient_quota",
  "insufficient funds",
  "credit balance",
  "credits have been exhausted",
  "top up your credits",
  "payment required",
  "billing hard limit",
  "can only afford",
  "exceeded your current quota",
  "account is deactivated",
  "plan does not include"
]

/** Too many requests or tokens in a short time. */
export const rateLimit: Family = [
  "rate limit",
  "rate_limit",
  "rate-limit",
  "too many requests",
  "throttled",
  "requests per minute",
  "requests per day",
  "tokens per minute",
  "tokens per day",
  "try again in",
  "please retry after",
  "please retry in",
  "resource_exhausted",
  "resource exhausted",
  "resource has been exhausted",
  "rate increased too quickly",
  "throttlingexception",
  "too many concurrent requests",
  "too many tokens, please wait",
  "servicequotaexceededexception"
]

/** A usage limit, which may be either a temporary rate limit or a matter of billing. */
export const usageLimit: Family = ["usage limit", "quota", "limit exceeded", "key limit exceeded"]

/** Wordings which indicate that a usage limit is temporary. */
export const passing: Family = [
  "try again",
  "retry",
  "resets at",
  "reset in",
  "wait",
  "requests remaining",
  "periodic",
  "window"
]

/** The spending limit of a key or account. A 403 with such a wording is a billing failure. */
export const spendingLimit: Family = ["key limit exceeded", "spending limit"]

/** The provider is overloaded. */
export const overload: Family = [
  "overloaded",
  "at capacity",
  "over capacity",
  "capacity exceeded",
  "exceeded capacity",
  "no capacity",
  "currently experiencing high demand",
  "temporarily unavailable",
  "server busy",
  "server is busy",
  "loading model"
]

/** The conversation does not fit into the model's window. */
export const contextOverflow: Family = [
  "context length",
  "context size",
  "context window",
  "context_length_exceeded",
  "maximum context",
  "token limit",
  "too many tokens",
  "too many input tokens",
  "reduce the length",
  "exceeds the limit",
  "exceeds the available context",
  "prompt is too long",
  "prompt too long",
  "prompt exceeds max length",
  "max_tokens",
  "maximum number of tokens",
  "max_model_len",
  "maximum model length",
  "prompt length",
  "input is too long",
  "context length exceeded",
  "truncating input",
  "slot context",
  "n_ctx_slot",
  "max input token",
  "input token",
  "input length should be",
  "max_new_tokens",
  /inputs['"`]? must have less than/,
  "exceeds the model's maximum",
  "超过最大长度",
  "上下文长度"
]

/** The server or a proxy rejected the body because of its size, without reading it. */
export const tooLargeBody: Family = [
  "payload too large",
  "request entity too large",
  "request_too_large",
  "request too large",
  "content too large",
  "request exceeds the maximum size",
  "request body too large"
]

/** An image has too many bytes or pixels. */
export const imageTooLarge: Family = [
  "image exceeds",
  "image too large",
  "image_too_large",
  "image size exceeds",
  "image dimensions exceed",
  /image.*(dimensions|pixels).*(exceed|larger)/,
  /image.*exceeds? .*(mb|maximum)/
]

/** The model or endpoint accepts only text. */
export const imageUnsupported: Family = [
  "does not support image",
  "doesn't support image",
  "do not support image",
  "not support image input",
  "no endpoints found that support image",
  "image input is not supported",
  "image_url is only supported",
  "unknown variant `image_url`",
  "multimodal is not supported",
  "is not a multimodal model",
  "does not support multimodal",
  /image(s| input)? (is|are) not supported/
]

/** The endpoint does not support streaming. */
export const streamUnsupported: Family = [
  "stream not supported",
  "streaming is not supported",
  "streaming not supported",
  "does not support stream",
  "streaming is not allowed",
  "must be verified to stream"
]

/** The model does not exist or is not available. */
export const noModel: Family = [
  "is not a valid model",
  "invalid model",
  "invalid_model",
  "model not found",
  "model_not_found",
  "model_not_available",
  "model_not_active",
  "model_decommissioned",
  "does not exist",
  "no such model",
  "unknown model",
  "unsupported model",
  "not found for api version",
  "model identifier is invalid",
  /has no model "/,
  /serves no model "/,
  /model ['"`]?[\w./:-]+['"`]? not found/
]

/** The key or token is not accepted. */
export const authentication: Family = [
  "invalid api key",
  "invalid_api_key",
  "incorrect api key",
  "api key not valid",
  "authentication",
  "unauthorized",
  "forbidden",
  "invalid token",
  "token expired",
  "token revoked",
  "access denied",
  "accessdenied"
]

/** The user's rules at an aggregator exclude all providers. */
export const routingPolicy: Family = [/no endpoints (available|found) matching your (guardrail|data policy)/]

/** The provider refuses the content. */
export const contentPolicy: Family = [
  "content management policy",
  "content_policy",
  "content policy",
  "content_filter",
  "usage policies",
  "safety system",
  "data_inspection_failed",
  "inappropriate content",
  "moderation_blocked",
  /flagged (as|for|by)/
]

/** The connection was lost, as reported by this process, a proxy or the provider. */
export const disconnect: Family = [
  "server disconnected",
  "peer closed connection",
  "connection reset",
  "connection was closed",
  "closed the connection",
  "network connection lost",
  "unexpected eof",
  "incomplete chunked read",
  "socket hang up",
  "stream ended before"
]

/** No answer arrived in time. */
export const timeout: Family = [
  "timed out",
  "timeout",
  "deadline exceeded",
  "deadline expired",
  "did not answer within",
  "cannot be reached in time"
]

/** TLS failures. A retry may succeed; a smaller request does not help. */
export const tls: Family = [
  "ssl alert",
  "tls alert",
  "bad record mac",
  "ssl routines",
  "tlsv1 alert",
  "ssl3_read_bytes"
]

/** The endpoint's grammar parser does not support regular expressions in a JSON Schema. */
export const grammar: Family = [
  "failed to parse grammar",
  "error parsing grammar",
  "unable to generate parser",
  "json_schema_to_grammar",
  "json schema conversion failed",
  "failed to initialize samplers",
  /(unsupported|invalid) (pattern|format).*(grammar|schema)/
]

/**
 * A parameter is unknown. Such a failure is never caused by the conversation's size, regardless of the rest of the
 * message.
 */
export const unknownParameter: Family = [
  "unknown parameter",
  "unsupported parameter",
  "unsupported_parameter",
  "unknown_parameter",
  "unsupported value",
  "unsupported_value",
  "unrecognized request argument",
  "unrecognized parameter",
  "unexpected keyword argument",
  "extra inputs are not permitted",
  "extra_forbidden",
  "additional properties are not allowed",
  "argument not supported",
  "cannot find field",
  /unknown (field|name|argument|key) ['"`]/,
  /is not supported (with|by|on|for|in) (this|the) (model|endpoint|provider|server)/,
  /(does not|doesn't|do not) support (the )?(parameter|param|setting|argument)/,
  /(parameter|param|property|field|argument|option) ['"`][\w.]+['"`] is (unsupported|not supported|not allowed|unknown|unrecognized|invalid)/,
  /['"`]?(temperature|top_p|top_k|tool_choice|reasoning_effort|parallel_tool_calls|stream_options)['"`]? (is|are) (not supported|unsupported|deprecated|not allowed)/,
  "cannot both be specified",
  /only the default \(?\d/
]

/** The endpoint could not read the model's tool call, and returns an error instead of an answer. */
export const failedToolUse: Family = ["tool_use_failed", "failed to call a function", "tool call validation failed"]

/** The endpoint accepts only ids of calls that consist of nine letters and digits. */
export const callIdForm: Family = [/tool[_ ]call[_ ]id.{0,200}length of 9/, /tool[_ ]call[_ ]id.{0,80}must be a-z/]

/** The endpoint requires the thought signature of a call that another model made. */
export const missingSignature: Family = [
  /missing an? [`'"]?thought_signature/,
  /thought_signature.{0,60}(missing|required)/
]
