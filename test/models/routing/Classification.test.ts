// What real error bodies are taken for. Each row is written after the error reference of its provider, in the shape in
// which the API sends it; it goes through the official SDK's own error type, as it does in a provider.
import * as Anthropic from "@anthropic-ai/sdk"
import { assert, describe, it } from "@effect/vitest"
import * as Clock from "effect/Clock"
import * as Duration from "effect/Duration"
import * as Effect from "effect/Effect"
import * as AiError from "effect/ai/AiError"
import * as OpenAi from "openai"
import * as Failure from "../../../src/models/provider/AwsError.ts"
import * as SdkError from "../../../src/models/provider/SdkError.ts"
import * as Classification from "../../../src/models/routing/Classification.ts"
import { rules } from "../../../src/models/routing/Classification.ts"
import * as Recovery from "../../../src/models/routing/Recovery.ts"
import * as Routing from "../../../src/models/routing/RoutedModelRouter.ts"
import * as S from "./support.ts"

const context = {
  module: "Test",
  method: "execute",
  url: "https://api.example.com/v1",
  model: "some/model",
  clock: Effect.runSync(Clock.clockWith(Effect.succeed))
}

/** As the client of the SDK makes them: it puts a body without `error` under one. */
const client = new (class extends OpenAi.OpenAI {
  failure(status: number, body: unknown, headers: Record<string, string>) {
    return typeof body === "string"
      ? OpenAi.APIError.generate(status, undefined, body, new Headers(headers))
      : this.makeStatusError(status, Object(body), undefined, new Headers(headers))
  }
})({ apiKey: "none" })

const openAi = (status: number, body: unknown, headers: Record<string, string> = {}): AiError.AiError =>
  SdkError.fromSdk({ ...context, error: client.failure(status, body, headers) })

const anthropic = (
  status: number,
  type: string,
  message: string,
  headers: Record<string, string> = {}
): AiError.AiError =>
  SdkError.fromSdk({
    ...context,
    error: Anthropic.APIError.generate(
      status,
      { type: "error", error: { type, message }, request_id: "req_1" },
      undefined,
      new Headers(headers)
    )
  })

const bedrock = (name: string, status: number, message: string): AiError.AiError =>
  Failure.fromSdk(
    Object.assign(new Error(message), {
      name,
      $metadata: { httpStatusCode: status, requestId: "r" },
      $fault: "client"
    }),
    { ...context, region: "us-east-1" }
  )

/** `{ error: { message, type, param, code } }`. */
const oai = (message: string, type: string, code: string | null, param: string | null = null) => ({
  error: { message, type, param, code }
})

/** Google's, as its OpenAI-compatible endpoint sends it. */
const google = (code: number, message: string, status: string, details: ReadonlyArray<unknown> = []) => [
  { error: { code, message, status, details } }
]

/** OpenRouter's. */
const router = (code: number, message: string, metadata?: unknown) => ({
  error: { code, message, ...(metadata === undefined ? {} : { metadata }) },
  user_id: "user_1"
})

type Row = readonly [what: string, error: AiError.AiError, expected: Classification.Reason]

const rows: ReadonlyArray<Row> = [
  // OpenAI
  [
    "OpenAI: wrong key",
    openAi(
      401,
      oai(
        "Incorrect API key provided: sk-abc. You can find your API key at https://platform.openai.com/account/api-keys.",
        "invalid_request_error",
        "invalid_api_key"
      )
    ),
    "auth"
  ],
  [
    "OpenAI: not a member of the organisation",
    openAi(401, oai("You must be a member of an organization to use the API.", "invalid_request_error", null)),
    "auth"
  ],
  [
    "OpenAI: country",
    openAi(
      403,
      oai("Country, region, or territory not supported", "request_forbidden", "unsupported_country_region_territory")
    ),
    "auth"
  ],
  [
    "OpenAI: requests per minute",
    openAi(
      429,
      oai(
        "Rate limit reached for gpt-5 in organization org-1 on requests per min (RPM): Limit 3, Used 3, Requested 1. Please try again in 20s.",
        "requests",
        "rate_limit_exceeded"
      )
    ),
    "rate_limit"
  ],
  [
    "OpenAI: tokens per minute",
    openAi(
      429,
      oai(
        "Rate limit reached for gpt-5 in organization org-1 on tokens per min (TPM): Limit 30000, Used 24000, Requested 9000. Please try again in 6s.",
        "tokens",
        "rate_limit_exceeded"
      )
    ),
    "rate_limit"
  ],
  [
    "OpenAI: quota",
    openAi(
      429,
      oai(
        "You exceeded your current quota, please check your plan and billing details.",
        "insufficient_quota",
        "insufficient_quota"
      )
    ),
    "billing"
  ],
  [
    "OpenAI: inactive billing",
    openAi(
      429,
      oai(
        "Your account is not active, please check your billing details on our website.",
        "billing_not_active",
        "billing_not_active"
      )
    ),
    "billing"
  ],
  [
    "OpenAI: server",
    openAi(500, oai("The server had an error while processing your request. Sorry about that!", "server_error", null)),
    "server_error"
  ],
  [
    "OpenAI: overloaded",
    openAi(503, oai("The engine is currently overloaded, please try again later", "server_error", null)),
    "overloaded"
  ],
  [
    "OpenAI: window",
    openAi(
      400,
      oai(
        "This model's maximum context length is 128000 tokens. However, your messages resulted in 140000 tokens. Please reduce the length of the messages.",
        "invalid_request_error",
        "context_length_exceeded",
        "messages"
      )
    ),
    "context_overflow"
  ],
  [
    "OpenAI Responses: window",
    openAi(
      400,
      oai(
        "Your input exceeds the context window of this model. Please adjust your input and try again.",
        "invalid_request_error",
        "context_length_exceeded",
        "input"
      )
    ),
    "context_overflow"
  ],
  [
    "OpenAI: answer too long",
    openAi(
      400,
      oai(
        "max_tokens is too large: 100000. This model supports at most 16384 completion tokens, whereas you provided 100000.",
        "invalid_request_error",
        "invalid_value",
        "max_tokens"
      )
    ),
    "output_cap"
  ],
  [
    "OpenAI: parameter",
    openAi(
      400,
      oai(
        "Unsupported parameter: 'max_tokens' is not supported with this model. Use 'max_completion_tokens' instead.",
        "invalid_request_error",
        "unsupported_parameter",
        "max_tokens"
      )
    ),
    "unsupported_parameter"
  ],
  [
    "OpenAI: model",
    openAi(
      404,
      oai(
        "The model `gpt-9` does not exist or you do not have access to it.",
        "invalid_request_error",
        "model_not_found"
      )
    ),
    "model_not_found"
  ],
  [
    "OpenAI: schema",
    openAi(
      400,
      oai(
        "Invalid schema for function 'x': In context=(), 'additionalProperties' is required to be supplied and to be false.",
        "invalid_request_error",
        "invalid_function_parameters",
        "tools[0].function.parameters"
      )
    ),
    "format_error"
  ],
  [
    "OpenAI: content",
    openAi(
      400,
      oai(
        "Your request was rejected as a result of our safety system.",
        "invalid_request_error",
        "content_policy_violation"
      )
    ),
    "content_policy_blocked"
  ],
  [
    "OpenAI: encrypted reasoning",
    openAi(
      400,
      oai(
        "The encrypted content gAAA could not be verified. Reason: Encrypted content could not be decrypted or parsed.",
        "invalid_request_error",
        "invalid_encrypted_content"
      )
    ),
    "invalid_encrypted_content"
  ],
  [
    "OpenAI: unverified organisation",
    openAi(
      400,
      oai(
        "Your organization must be verified to stream this model. Please go to: https://platform.openai.com/settings",
        "invalid_request_error",
        "unsupported_value",
        "stream"
      )
    ),
    "stream_unsupported"
  ],
  [
    "OpenAI: image",
    openAi(
      400,
      oai("Invalid image: image exceeds the maximum size of 20 MB.", "invalid_request_error", "image_too_large")
    ),
    "image_too_large"
  ],
  // Azure OpenAI
  [
    "Azure: content filter",
    openAi(400, {
      error: {
        message: "The response was filtered due to the prompt triggering Azure OpenAI's content management policy.",
        type: null,
        param: "prompt",
        code: "content_filter",
        status: 400
      }
    }),
    "content_policy_blocked"
  ],
  [
    "Azure: deployment",
    openAi(404, {
      error: { code: "DeploymentNotFound", message: "The API deployment for this resource does not exist." }
    }),
    "model_not_found"
  ],
  [
    "Azure: calls per minute",
    openAi(
      429,
      {
        error: {
          code: "429",
          message:
            "Requests to the ChatCompletions_Create Operation have exceeded call rate limit of your current OpenAI S0 pricing tier. Please retry after 7 seconds."
        }
      },
      { "retry-after": "7" }
    ),
    "rate_limit"
  ],
  // Anthropic
  ["Anthropic: key", anthropic(401, "authentication_error", "invalid x-api-key"), "auth"],
  [
    "Anthropic: permission",
    anthropic(403, "permission_error", "Your API key does not have permission to use the specified resource."),
    "auth"
  ],
  [
    "Anthropic: rate",
    anthropic(
      429,
      "rate_limit_error",
      "This request would exceed your organization's rate limit of 40,000 input tokens per minute.",
      { "retry-after": "21" }
    ),
    "rate_limit"
  ],
  [
    "Anthropic: tier of long context",
    anthropic(429, "rate_limit_error", "Extra usage is required for long context requests."),
    "long_context_tier"
  ],
  ["Anthropic: server", anthropic(500, "api_error", "Internal server error"), "server_error"],
  ["Anthropic: overloaded", anthropic(529, "overloaded_error", "Overloaded"), "overloaded"],
  [
    "Anthropic: credit",
    anthropic(
      400,
      "invalid_request_error",
      "Your credit balance is too low to access the Anthropic API. Please go to Plans & Billing to upgrade or purchase credits."
    ),
    "billing"
  ],
  ["Anthropic: billing", anthropic(402, "billing_error", "There's an issue with your billing."), "billing"],
  [
    "Anthropic: prompt",
    anthropic(400, "invalid_request_error", "prompt is too long: 211000 tokens > 200000 maximum"),
    "context_overflow"
  ],
  [
    "Anthropic: input and answer",
    anthropic(
      400,
      "invalid_request_error",
      "input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000, decrease input length or `max_tokens` and try again"
    ),
    "output_cap"
  ],
  [
    "Anthropic: answer",
    anthropic(
      400,
      "invalid_request_error",
      "max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens for claude-haiku-4-5"
    ),
    "output_cap"
  ],
  ["Anthropic: body", anthropic(413, "request_too_large", "Request exceeds the maximum size"), "payload_too_large"],
  ["Anthropic: model", anthropic(404, "not_found_error", "model: claude-9"), "model_not_found"],
  [
    "Anthropic: signature",
    anthropic(400, "invalid_request_error", "messages.1.content.0: Invalid `signature` in `thinking` block"),
    "thinking_signature"
  ],
  [
    "Anthropic: changed thinking",
    anthropic(
      400,
      "invalid_request_error",
      "`thinking` or `redacted_thinking` blocks in the latest assistant message cannot be modified."
    ),
    "thinking_signature"
  ],
  [
    "Anthropic: long-context beta",
    anthropic(400, "invalid_request_error", "The long context beta is not yet available for this subscription."),
    "oauth_long_context_beta_forbidden"
  ],
  [
    "Anthropic: image",
    anthropic(
      400,
      "invalid_request_error",
      "messages.0.content.1.image.source.base64.data: image exceeds 5 MB maximum: 6000000 bytes > 5242880 bytes"
    ),
    "image_too_large"
  ],
  [
    "Anthropic: pixels",
    anthropic(
      400,
      "invalid_request_error",
      "messages.0.content.0.image: image dimensions exceed max allowed size: 8000 pixels"
    ),
    "image_too_large"
  ],
  [
    "Anthropic: unpaired result",
    anthropic(
      400,
      "invalid_request_error",
      "messages.2: `tool_use` ids were found without `tool_result` blocks immediately after: toolu_1."
    ),
    "format_error"
  ],
  [
    "Anthropic: overloaded inside a stream",
    SdkError.fromBody({
      ...context,
      body: { type: "error", error: { type: "overloaded_error", message: "Overloaded" } }
    }),
    "overloaded"
  ],
  [
    "Anthropic: error inside a stream",
    SdkError.fromBody({
      ...context,
      body: { type: "error", error: { type: "api_error", message: "Internal server error" } }
    }),
    "server_error"
  ],
  // Bedrock
  [
    "Bedrock: throttling",
    bedrock("ThrottlingException", 429, "Too many requests, please wait before trying again."),
    "rate_limit"
  ],
  [
    "Bedrock: tokens",
    bedrock("ThrottlingException", 429, "Too many tokens, please wait before trying again."),
    "rate_limit"
  ],
  [
    "Bedrock: too long",
    bedrock("ValidationException", 400, "Input is too long for requested model."),
    "context_overflow"
  ],
  [
    "Bedrock: too many input tokens",
    bedrock(
      "ValidationException",
      400,
      "The model returned the following errors: Too many input tokens. Max input tokens: 128000, request input token count: 140000"
    ),
    "context_overflow"
  ],
  [
    "Bedrock: access",
    bedrock("AccessDeniedException", 403, "You don't have access to the model with the specified model ID."),
    "auth"
  ],
  [
    "Bedrock: token",
    bedrock("ExpiredTokenException", 403, "The security token included in the request is expired"),
    "auth"
  ],
  [
    "Bedrock: model id",
    bedrock("ValidationException", 400, "The provided model identifier is invalid."),
    "model_not_found"
  ],
  [
    "Bedrock: no such resource",
    bedrock(
      "ResourceNotFoundException",
      404,
      "Could not resolve the foundation model from the provided model identifier."
    ),
    "model_not_found"
  ],
  [
    "Bedrock: unavailable",
    bedrock("ServiceUnavailableException", 503, "The service is currently unavailable"),
    "overloaded"
  ],
  [
    "Bedrock: internal",
    bedrock(
      "InternalServerException",
      500,
      "The system encountered an unexpected error during processing. Try your request again."
    ),
    "server_error"
  ],
  [
    "Bedrock: model timeout",
    bedrock("ModelTimeoutException", 408, "The model took too long to process the request."),
    "timeout"
  ],
  [
    "Bedrock: model error",
    bedrock("ModelErrorException", 424, "The model encountered an unexpected error during processing."),
    "server_error"
  ],
  // OpenRouter
  [
    "OpenRouter: credits",
    openAi(402, router(402, "Insufficient credits. Add more using https://openrouter.ai/settings/credits")),
    "billing"
  ],
  [
    "OpenRouter: can only afford",
    openAi(
      402,
      router(
        402,
        "This request requires more credits, or fewer max_tokens. You requested up to 65536 tokens, but can only afford 4096."
      )
    ),
    "billing"
  ],
  [
    "OpenRouter: key limit",
    openAi(403, router(403, "Key limit exceeded (total limit). Manage it using https://openrouter.ai/settings/keys")),
    "billing"
  ],
  ["OpenRouter: no key", openAi(401, router(401, "No auth credentials found")), "auth"],
  ["OpenRouter: model", openAi(400, router(400, "foo/bar is not a valid model ID")), "model_not_found"],
  [
    "OpenRouter: data policy",
    openAi(404, router(404, "No endpoints found matching your data policy (Free model publication).")),
    "provider_policy_blocked"
  ],
  ["OpenRouter: images", openAi(404, router(404, "No endpoints found that support image input")), "image_unsupported"],
  [
    "OpenRouter: upstream rate",
    openAi(
      429,
      router(429, "Provider returned error", {
        raw: "foo/bar:free is temporarily rate-limited upstream. Please retry shortly.",
        provider_name: "Chutes"
      })
    ),
    "rate_limit"
  ],
  [
    "OpenRouter: upstream window",
    openAi(
      400,
      router(400, "Provider returned error", {
        raw: '{"error":{"message":"context length exceeded"}}',
        provider_name: "X"
      })
    ),
    "context_overflow"
  ],
  [
    "OpenRouter: endpoint's window",
    openAi(
      400,
      router(
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (138000 of text input, 2000 in the output). Please reduce the length of either one."
      )
    ),
    "context_overflow"
  ],
  [
    "OpenRouter: endpoint's window, a long answer",
    openAi(
      400,
      router(
        400,
        "This endpoint's maximum context length is 131072 tokens. However, you requested about 140000 tokens (12000 of text input, 128000 in the output). Please reduce the length of either one."
      )
    ),
    "output_cap"
  ],
  [
    "OpenRouter: moderation",
    openAi(403, router(403, "Input was flagged for moderation", { reasons: ["violence"], flagged_input: "…" })),
    "content_policy_blocked"
  ],
  [
    "OpenRouter: upstream down",
    openAi(502, router(502, "Provider returned error", { raw: "Internal Server Error", provider_name: "X" })),
    "server_error"
  ],
  [
    "OpenRouter: error inside a stream",
    SdkError.fromBody({ ...context, body: router(502, "Upstream error") }),
    "server_error"
  ],
  // Groq
  [
    "Groq: rate",
    openAi(
      429,
      oai(
        "Rate limit reached for model `llama-3.3-70b-versatile` in organization `org_1` on tokens per minute (TPM): Limit 12000, Used 11000, Requested 2000. Please try again in 5.2s.",
        "tokens",
        "rate_limit_exceeded"
      )
    ),
    "rate_limit"
  ],
  [
    "Groq: request above the minute's tokens",
    openAi(
      413,
      oai(
        "Request too large for model `llama` in organization `org_1` on tokens per minute (TPM): Limit 6000, Requested 9000, please reduce your message size and try again.",
        "tokens",
        "rate_limit_exceeded"
      )
    ),
    "payload_too_large"
  ],
  [
    "Groq: answer",
    openAi(
      400,
      oai(
        "`max_tokens` must be less than or equal to `8192`, the maximum value for `max_tokens` is less than the `context_window` for this model",
        "invalid_request_error",
        null
      )
    ),
    "output_cap"
  ],
  [
    "Groq: retired",
    openAi(
      400,
      oai(
        "The model `mixtral` has been decommissioned and is no longer supported.",
        "invalid_request_error",
        "model_decommissioned"
      )
    ),
    "model_not_found"
  ],
  [
    "Groq: capacity",
    openAi(
      498,
      oai("Flex tier capacity exceeded, please try again later", "invalid_request_error", "capacity_exceeded")
    ),
    "overloaded"
  ],
  [
    "Groq: over capacity",
    openAi(
      503,
      oai(
        "llama is currently over capacity. Please try again and back off exponentially.",
        "internal_server_error",
        null
      )
    ),
    "overloaded"
  ],
  // Gemini
  [
    "Gemini: key",
    openAi(400, google(400, "API key not valid. Please pass a valid API key.", "INVALID_ARGUMENT")),
    "auth"
  ],
  [
    "Gemini: per minute",
    openAi(
      429,
      google(
        429,
        "You exceeded your current quota, please check your plan and billing details. Please retry in 34.5s.",
        "RESOURCE_EXHAUSTED",
        [{ "@type": "type.googleapis.com/google.rpc.RetryInfo", retryDelay: "34s" }]
      )
    ),
    "rate_limit"
  ],
  [
    "Gemini: exhausted",
    openAi(429, google(429, "Resource has been exhausted (e.g. check quota).", "RESOURCE_EXHAUSTED")),
    "rate_limit"
  ],
  [
    "Gemini: overloaded",
    openAi(503, google(503, "The model is overloaded. Please try again later.", "UNAVAILABLE")),
    "overloaded"
  ],
  [
    "Gemini: internal",
    openAi(500, google(500, "An internal error has occurred. Please retry.", "INTERNAL")),
    "server_error"
  ],
  [
    "Gemini: deadline",
    openAi(504, google(504, "The request timed out. Please try again.", "DEADLINE_EXCEEDED")),
    "server_error"
  ],
  [
    "Gemini: window",
    openAi(
      400,
      google(
        400,
        "The input token count (1200000) exceeds the maximum number of tokens allowed (1048576).",
        "INVALID_ARGUMENT"
      )
    ),
    "context_overflow"
  ],
  [
    "Gemini: model",
    openAi(
      404,
      google(
        404,
        "models/gemini-9 is not found for API version v1beta, or is not supported for generateContent.",
        "NOT_FOUND"
      )
    ),
    "model_not_found"
  ],
  // DeepSeek, xAI, Mistral, Moonshot, Z.AI, MiniMax, DashScope, Together, Fireworks, Copilot
  ["DeepSeek: balance", openAi(402, oai("Insufficient Balance", "unknown_error", "invalid_request_error")), "billing"],
  [
    "DeepSeek: answer",
    openAi(
      400,
      oai(
        "Invalid max_tokens value, the valid range of max_tokens is [1, 8192]",
        "invalid_request_error",
        "invalid_request_error"
      )
    ),
    "output_cap"
  ],
  [
    "DeepSeek: format",
    openAi(
      422,
      oai(
        "Failed to deserialize the JSON body into the target type: messages[0]: missing field `role`",
        "invalid_request_error",
        "invalid_request_error"
      )
    ),
    "format_error"
  ],
  [
    "DeepSeek: images",
    openAi(
      400,
      oai(
        "Failed to deserialize the JSON body into the target type: messages[0]: unknown variant `image_url`, expected `text`",
        "invalid_request_error",
        "invalid_request_error"
      )
    ),
    "image_unsupported"
  ],
  [
    "xAI: key",
    openAi(400, {
      code: "Client specified an invalid argument",
      error: "Incorrect API key provided: xa***1. You can obtain an API key from https://console.x.ai."
    }),
    "auth"
  ],
  [
    "xAI: window",
    openAi(400, {
      code: "Client specified an invalid argument",
      error: "This model's maximum prompt length is 131072 but the request contains 140000 tokens."
    }),
    "context_overflow"
  ],
  [
    "xAI: model",
    openAi(404, {
      code: "Some requested entity was not found",
      error: "The model grok-9 does not exist or your team does not have access to it."
    }),
    "model_not_found"
  ],
  [
    "Mistral: rate",
    openAi(429, {
      object: "error",
      message: "Requests rate limit exceeded",
      type: "rate_limited",
      param: null,
      code: "1300"
    }),
    "rate_limit"
  ],
  [
    "Mistral: capacity",
    openAi(429, {
      object: "error",
      message: "Service tier capacity exceeded for this model.",
      type: "service_tier_capacity_exceeded",
      param: null,
      code: "3505"
    }),
    "overloaded"
  ],
  [
    "Mistral: window",
    openAi(400, {
      object: "error",
      message: "Prompt contains 40000 tokens and 0 draft tokens, too large for model with 32768 maximum context length",
      type: "invalid_request_prompt",
      param: null,
      code: "3051"
    }),
    "context_overflow"
  ],
  [
    "Mistral: model",
    openAi(400, {
      object: "error",
      message: "Invalid model: mistral-9",
      type: "invalid_model",
      param: null,
      code: "1500"
    }),
    "model_not_found"
  ],
  ["Mistral: key", openAi(401, { detail: "Unauthorized" }), "auth"],
  [
    "Moonshot: concurrency",
    openAi(
      429,
      oai(
        "Your account org-1 request reached max organization concurrency: 1, please try again after 1 seconds",
        "rate_limit_reached_error",
        null
      )
    ),
    "rate_limit"
  ],
  [
    "Moonshot: overloaded",
    openAi(429, oai("The engine is currently overloaded, please try again later", "engine_overloaded_error", null)),
    "overloaded"
  ],
  [
    "Moonshot: balance",
    openAi(
      429,
      oai(
        "Your account org-1 is suspended, please check your plan and billing details: insufficient balance",
        "exceeded_current_quota_error",
        null
      )
    ),
    "billing"
  ],
  [
    "Moonshot: window",
    openAi(400, oai("Invalid request: Your request exceeded model token limit: 131072", "invalid_request_error", null)),
    "context_overflow"
  ],
  [
    "Z.AI: concurrency",
    openAi(429, {
      error: {
        code: "1302",
        message:
          "High concurrency usage of this API, please reduce concurrency or contact customer service to increase limits"
      }
    }),
    "rate_limit"
  ],
  ["Z.AI: length", openAi(400, { error: { code: "1261", message: "Prompt exceeds max length" } }), "context_overflow"],
  [
    "MiniMax: window",
    anthropic(400, "invalid_request_error", "invalid params, context window exceeds limit (2013)"),
    "context_overflow"
  ],
  [
    "DashScope: content",
    openAi(
      400,
      oai("Input data may contain inappropriate content.", "data_inspection_failed", "data_inspection_failed")
    ),
    "content_policy_blocked"
  ],
  [
    "DashScope: throttled",
    openAi(429, oai("Requests rate limit exceeded, please try again later.", "limit_requests", "limit_requests")),
    "rate_limit"
  ],
  [
    "DashScope: length",
    openAi(
      400,
      oai(
        "<400> InternalError.Algo.InvalidParameter: Range of input length should be [1, 129024]: input token",
        "invalid_request_error",
        "invalid_parameter_error"
      )
    ),
    "context_overflow"
  ],
  [
    "Together: window",
    openAi(422, {
      error: {
        message:
          "Input validation error: `inputs` tokens + `max_new_tokens` must be <= 8193. Given: 9000 `inputs` tokens and 512 `max_new_tokens`: too many tokens",
        type: "invalid_request_error",
        param: null,
        code: null
      }
    }),
    "context_overflow"
  ],
  [
    "Fireworks: window",
    openAi(
      400,
      oai("The prompt is too long: 140000, model maximum context length: 131071", "invalid_request_error", null)
    ),
    "context_overflow"
  ],
  [
    "Copilot: premium requests",
    openAi(402, "You have exceeded your premium request allowance. payment required"),
    "billing"
  ],
  // Servers of one's own
  [
    "vLLM: window",
    openAi(400, {
      object: "error",
      message:
        "This model's maximum context length is 4096 tokens. However, you requested 5000 tokens (4900 in the messages, 100 in the completion). Please reduce the length of the messages or completion.",
      type: "BadRequestError",
      param: null,
      code: 400
    }),
    "context_overflow"
  ],
  [
    "vLLM: answer",
    openAi(400, {
      object: "error",
      message:
        "'max_tokens' or 'max_completion_tokens' is too large: 4000. This model's maximum context length is 4096 tokens and your request has 1000 input tokens (4000 > 4096 - 1000).",
      type: "BadRequestError",
      param: null,
      code: 400
    }),
    "output_cap"
  ],
  [
    "vLLM: model",
    openAi(404, {
      object: "error",
      message: "The model `x` does not exist.",
      type: "NotFoundError",
      param: null,
      code: 404
    }),
    "model_not_found"
  ],
  [
    "vLLM: no images",
    openAi(400, {
      object: "error",
      message: "x is not a multimodal model",
      type: "BadRequestError",
      param: null,
      code: 400
    }),
    "image_unsupported"
  ],
  [
    "llama.cpp: window",
    openAi(400, {
      error: {
        code: 400,
        message: "the request exceeds the available context size, try increasing it",
        type: "exceed_context_size_error",
        n_prompt_tokens: 9000,
        n_ctx: 8192
      }
    }),
    "context_overflow"
  ],
  [
    "llama.cpp: an older one",
    openAi(500, {
      error: { code: 500, message: "the request exceeds the available context size", type: "exceed_context_size_error" }
    }),
    "context_overflow"
  ],
  [
    "llama.cpp: grammar",
    openAi(400, { error: { code: 400, message: "Failed to parse grammar", type: "invalid_request_error" } }),
    "llama_cpp_grammar_pattern"
  ],
  [
    "llama.cpp: starting",
    openAi(503, { error: { code: 503, message: "Loading model", type: "unavailable_error" } }),
    "overloaded"
  ],
  [
    "Ollama: model",
    openAi(404, oai('model "x" not found, try pulling it first', "api_error", null)),
    "model_not_found"
  ],
  [
    "Ollama: busy",
    openAi(503, { error: "server busy, please try again.  maximum pending requests exceeded" }),
    "overloaded"
  ],
  ["Ollama: crash", openAi(500, { error: "llama runner process has terminated: exit status 2" }), "server_error"],
  [
    "LM Studio: window",
    openAi(400, {
      error:
        "Trying to keep the first 9000 tokens when context the overflows. However, the model is loaded with context length of only 4096 tokens"
    }),
    "context_overflow"
  ],
  ["a proxy: HTML", openAi(502, "<html><head><title>502 Bad Gateway</title></head></html>"), "server_error"],
  [
    "a proxy: body",
    openAi(413, "<html><head><title>413 Request Entity Too Large</title></head></html>"),
    "payload_too_large"
  ],
  ["a proxy: no such address", openAi(404, "<html><title>Not Found</title></html>"), "unknown"],
  ["Cloudflare: 524", openAi(524, "<html><head><title>524: A timeout occurred</title></head></html>"), "server_error"]
]

describe("real error bodies", () => {
  for (const [what, error, expected] of rows) {
    it(`${what}`, () => {
      const decision = Classification.classify(error)
      assert.strictEqual(decision.reason, expected, Classification.explainDecision(error))
    })
  }
})

describe("without a status", () => {
  const connection = (message: string, code?: string) =>
    SdkError.fromSdk({ ...context, error: Object.assign(new Error(message), code === undefined ? {} : { code }) })
  const cases: ReadonlyArray<readonly [string, AiError.AiError, Classification.CallSituation, Classification.Reason]> =
    [
      ["nothing listens", connection("connect ECONNREFUSED", "ECONNREFUSED"), {}, "timeout"],
      ["a name that is unknown", connection("getaddrinfo ENOTFOUND", "ENOTFOUND"), {}, "timeout"],
      ["a cut stream", SdkError.makeCutStreamError(context), {}, "timeout"],
      [
        "a cut stream, and a nearly full window",
        SdkError.makeCutStreamError(context),
        { tokens: 130_000, window: 200_000 },
        "context_overflow"
      ],
      [
        "a cut stream of a very long conversation",
        SdkError.makeCutStreamError(context),
        { messages: 201 },
        "context_overflow"
      ],
      [
        "a cut stream of a long conversation in a larger window",
        SdkError.makeCutStreamError(context),
        { tokens: 110_000, window: 1_000_000 },
        "timeout"
      ],
      [
        "TLS, however long the conversation",
        connection("ssl alert number 80: connection reset"),
        { tokens: 190_000, window: 200_000 },
        "timeout"
      ],
      [
        "no JSON",
        SdkError.fromSdk({ ...context, error: new SyntaxError("Unexpected token <") }),
        {},
        "invalid_response"
      ],
      ["no answer", SdkError.makeInvalidResponse({ ...context, description: "no choices" }), {}, "invalid_response"]
    ]
  for (const [what, error, facts, expected] of cases) {
    it(`${what}`, () =>
      assert.strictEqual(
        Classification.classify(error, facts).reason,
        expected,
        Classification.explainDecision(error, facts)
      ))
  }

  it("what nobody knows is tried again, then left to the next route", () => {
    const error = AiError.make({
      module: "Test",
      method: "execute",
      reason: new AiError.UnknownError({ description: "hm" })
    })
    const decision = Classification.classify(error)
    assert.strictEqual(decision.reason, "unknown")
    assert.deepStrictEqual(
      decision.recoveries.map(({ _tag }) => _tag),
      ["RetryAfter", "NextRoute"]
    )
    assert.isTrue(decision.retryable)
  })
})

describe("decisions", () => {
  const tags = (error: AiError.AiError) => Classification.classify(error).recoveries.map(({ _tag }) => _tag)

  it("the next key comes before the next route, and that before waiting", () => {
    assert.deepStrictEqual(tags(S.http(429, "slow down")), ["NextKey", "NextRoute", "RetryAfter"])
    assert.deepStrictEqual(tags(S.http(402, "no money")), ["NextKey", "NextRoute"])
    assert.deepStrictEqual(tags(S.http(401, "no")), ["RenewKey", "NextKey", "NextRoute"])
    assert.deepStrictEqual(tags(S.http(500, "boom")), ["RetryAfter", "NextRoute"])
    assert.deepStrictEqual(tags(S.network("reset")), ["RetryAfter", "Rebuild", "NextRoute"])
    assert.deepStrictEqual(tags(S.malformed), ["NextRoute", "RetryAfter"])
    assert.deepStrictEqual(tags(S.http(413, "large")), ["Compact"])
  })

  it("a smaller answer is asked for by numbers", () => {
    const to = (message: string) =>
      Classification.classify(S.http(400, message)).recoveries.find(({ _tag }) => _tag === "LowerOutputCap")
    const lower = (to: number): Recovery.Recovery => ({ _tag: "LowerOutputCap", to })
    const most = (to: number): Recovery.Recovery => ({ _tag: "LowerOutputCap", to, lasting: true })
    assert.deepStrictEqual(
      to("max_tokens: 128000 > 64000, which is the maximum allowed number of output tokens"),
      most(64_000)
    )
    assert.deepStrictEqual(
      to("input length and `max_tokens` exceed context limit: 188240 + 21333 > 200000"),
      lower(11_696)
    )
    assert.deepStrictEqual(to("max_tokens is too large. available_tokens: 1000"), lower(936))
    assert.deepStrictEqual(to("supports at most 16,384 completion tokens"), most(16_384))
    assert.isUndefined(
      to("exceed context limit: 199990 + 21333 > 200000, decrease `max_tokens`"),
      "no room for an answer"
    )
  })

  it("the time that a provider asks for is part of the decision", () => {
    const decision = Classification.classify(anthropic(429, "rate_limit_error", "slow", { "retry-after": "21" }))
    const retry = decision.recoveries.find(({ _tag }) => _tag === "RetryAfter")
    assert(retry?._tag === "RetryAfter" && retry.after !== undefined)
    assert.strictEqual(Duration.toSeconds(retry.after), 21)
  })

  it("a message is short, and an explanation is one line that says why and what then", () => {
    assert.strictEqual(Classification.classify(S.http(500, "x".repeat(2_000))).message.length, 500)
    assert.strictEqual(
      Routing.explainDecision(S.http(429, "slow down")),
      'rate_limit: HTTP 429, "slow down". Rule: 429. Then: take the next key, else go to the next route, ' +
        "else try again after a while, else give up."
    )
    assert.match(Routing.explainDecision(S.http(413, "too large")), /compact the conversation, else give up\.$/)
  })

  it("rules have names of their own", () => {
    const names = rules.map(({ name }) => name)
    assert.deepStrictEqual(
      names.filter((name, index) => names.indexOf(name) !== index),
      []
    )
  })
})
