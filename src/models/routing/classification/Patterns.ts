/**
 * The wordings by which providers say what went wrong, in families. Each entry is a part of a lower-cased message;
 * where order or several words matter, an expression.
 *
 * **Details**
 *
 * The families are data: a provider with a new wording is one more line here and one more row in the table of real
 * errors that the tests replay.
 *
 * Source: `hermes-llm.md` §16.2 to §16.4; what is beyond it comes from the error references of the providers.
 */

/** Wordings that mean one thing. */
export type Family = ReadonlyArray<string | RegExp>

/** Returns whether one of the wordings is in a lower-cased text. */
export const hasWording = (family: Family, text: string): boolean =>
  family.some((wording) => (typeof wording === "string" ? text.includes(wording) : wording.test(text)))

/** Money or a quota that time does not bring back. */
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

/** Too much in too little time. */
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

/** A limit of usage, which may be of either kind. */
export const usageLimit: Family = ["usage limit", "quota", "limit exceeded", "key limit exceeded"]

/** Signs that a limit of usage passes by itself. */
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

/** The limit of one key or of an account's spending; a 403 with this is about money. */
export const spendingLimit: Family = ["key limit exceeded", "spending limit"]

/** The provider has too much to do for everybody. */
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

/** A picture that is too heavy or too wide. */
export const imageTooLarge: Family = [
  "image exceeds",
  "image too large",
  "image_too_large",
  "image size exceeds",
  "image dimensions exceed",
  /image.*(dimensions|pixels).*(exceed|larger)/,
  /image.*exceeds? .*(mb|maximum)/
]

/** A model or endpoint that takes text only. */
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

/** The endpoint cannot stream. */
export const streamUnsupported: Family = [
  "stream not supported",
  "streaming is not supported",
  "streaming not supported",
  "does not support stream",
  "streaming is not allowed",
  "must be verified to stream"
]

/** The model is not there. */
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

/** A key or token that is not accepted. */
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

/** The connection was lost on the way, wherever that was noticed. */
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

/** TLS failures: a retry may succeed, compression never helps. */
export const tls: Family = [
  "ssl alert",
  "tls alert",
  "bad record mac",
  "ssl routines",
  "tlsv1 alert",
  "ssl3_read_bytes"
]

/** A parser of grammars that does not know regular expressions of JSON Schema. */
export const grammar: Family = [
  "failed to parse grammar",
  "error parsing grammar",
  "unable to generate parser",
  "json_schema_to_grammar",
  "json schema conversion failed",
  "failed to initialize samplers",
  /(unsupported|invalid) (pattern|format).*(grammar|schema)/
]

/** An unknown parameter is never a problem of the conversation's size, regardless of the rest of the message. */
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
