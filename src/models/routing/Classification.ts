/**
 * Classifies a provider's failure: an ordered list of rules determines its reason and the possible recoveries.
 * Classification is pure: the same failure with the same facts always leads to the same decision.
 *
 * **Details**
 *
 * The first rule that returns a reason is used; a failure that no rule matches is `unknown`: it is retried, and then
 * the next route is tried. The order follows the specification: provider-specific messages, then the HTTP status, error
 * codes, the wording, and the way in which the connection ended. If the specification has several versions of a rule,
 * the later one applies if it is safer: an overload reported as 429 does not disable a key, and an exhausted quota
 * reported as 429 is not retried after a wait.
 *
 * Providers report a requested output limit that is too large in three ways: by the number of available tokens, by the
 * model's maximum output, or by the division of the window into input and output. In the last case the output limit is
 * the cause as long as the input leaves room for an answer.
 *
 * Source: `hermes-llm.md` §11.2, §16.
 */
import type * as AiError from "effect/ai/AiError"
import * as Adaptation from "./Adaptation.ts"
import * as Evidence from "./classification/Evidence.ts"
import type { CallSituation, WrongAddress } from "./classification/Evidence.ts"
import { hasWording } from "./classification/Patterns.ts"
import * as Patterns from "./classification/Patterns.ts"
import type { Reason } from "./Recovery.ts"
import * as StatedLimits from "./classification/StatedLimits.ts"
import * as Recovery from "./Recovery.ts"

/**
 * Finds the output limit that should be requested instead, in an error message in lower case. Returns `undefined` if
 * the message is not about the output limit.
 */
export const parseOutputCap = (text: string): number | undefined => StatedLimits.findOutputCap(text)?.tokens

/** One rule; `name` is the name shown in explanations. */
interface Rule {
  readonly name: string
  readonly judge: (evidence: Evidence.Evidence, facts: CallSituation) => Reason | undefined
}

const matchWording = (name: string, family: Patterns.Family, reason: Reason): Rule => ({
  name,
  judge: ({ text }) => (hasWording(family, text) ? reason : undefined)
})

const guardRules = (
  condition: (evidence: Evidence.Evidence) => boolean,
  rules: ReadonlyArray<Rule>
): ReadonlyArray<Rule> =>
  rules.map(({ judge, name }) => ({
    name,
    judge: (evidence, facts) => (condition(evidence) ? judge(evidence, facts) : undefined)
  }))

const hasStatus =
  (...statuses: ReadonlyArray<number>) =>
  ({ status }: Evidence.Evidence): boolean =>
    status !== undefined && statuses.includes(status)

/** Tests for a refusal. Status 5xx is excluded, because the message of a failing server is unreliable. */
const isRefusal = ({ status }: Evidence.Evidence): boolean => status === undefined || status < 500

const matchOutputCap = (name: string): Rule => ({
  name,
  judge: ({ text }, facts) => (StatedLimits.findOutputCap(text, facts) === undefined ? undefined : "output_cap")
})

/**
 * Matches a conversation that does not fit. If the conversation is short and no limit is stated, the length of the
 * answer is the cause.
 */
const matchOverflow = (name: string): Rule => ({
  name,
  judge: ({ text }, facts) => {
    if (!hasWording(Patterns.contextOverflow, text)) return undefined
    return StatedLimits.isNotAboutInput(text, facts) ? "output_cap" : "context_overflow"
  }
})

const computeWindowShare = ({ tokens, window }: CallSituation): number =>
  tokens === undefined || window === undefined || window <= 0 ? 0 : tokens / window

const isBeyond = (
  facts: CallSituation,
  limits: { readonly share: number; readonly tokens: number; readonly messages: number }
) =>
  computeWindowShare(facts) > limits.share ||
  (facts.tokens ?? 0) > limits.tokens ||
  (facts.messages ?? 0) > limits.messages

/** Tests for a message that is too short to be specific. */
const isGeneric = ({ message }: Evidence.Evidence): boolean => message.trim().length < 30

const own: ReadonlyArray<Rule> = [
  {
    name: "the answer is none",
    judge: ({ tag }) =>
      tag === "InvalidResponseError" || tag === "InvalidOutputError" || tag === "StructuredOutputError"
        ? "invalid_response"
        : undefined
  },
  {
    name: "the provider refuses the content",
    judge: (evidence) =>
      evidence.tag === "ContentPolicyError" ||
      (isRefusal(evidence) && hasWording(Patterns.contentPolicy, evidence.text))
        ? "content_policy_blocked"
        : undefined
  },
  ...guardRules(hasStatus(400), [
    {
      name: "400, thinking blocks and their signatures",
      judge: ({ text }) =>
        text.includes("thinking") && (text.includes("signature") || text.includes("cannot be modified"))
          ? "thinking_signature"
          : undefined
    },
    {
      name: "400, encrypted reasoning that cannot be read",
      judge: ({ text }) =>
        text.includes("invalid_encrypted_content") || /encrypted content.*could not be (verified|decrypted)/.test(text)
          ? "invalid_encrypted_content"
          : undefined
    },
    {
      name: "400, the long-context beta is not for this account",
      judge: ({ text }) =>
        text.includes("long context beta") && text.includes("not yet available")
          ? "oauth_long_context_beta_forbidden"
          : undefined
    },
    matchWording("400, the grammar parser of the server", Patterns.grammar, "llama_cpp_grammar_pattern")
  ]),
  ...guardRules(hasStatus(400, 422), [
    matchWording("400, a tool call of the model", Patterns.failedToolUse, "tool_use_failed"),
    matchWording("400, ids of calls", Patterns.callIdForm, "call_id_form"),
    matchWording("400, thought signatures", Patterns.missingSignature, "missing_signature")
  ]),
  {
    name: "429, long context needs extra usage",
    judge: ({ status, text }) =>
      status === 429 && text.includes("extra usage") && text.includes("long context") ? "long_context_tier" : undefined
  }
]

const quotaCodes = /insufficient_quota|billing_not_active|payment_required|insufficient_balance|credits?_exhausted/
const ambiguousAt429 = "exceeded your current quota"

const byStatus: ReadonlyArray<Rule> = [
  { name: "401", judge: ({ status }) => (status === 401 ? "auth" : undefined) },
  ...guardRules(hasStatus(402), [
    {
      name: "402, and whether time will mend it",
      judge: ({ text }) =>
        hasWording(Patterns.usageLimit, text) && hasWording(Patterns.passing, text) ? "rate_limit" : "billing"
    }
  ]),
  ...guardRules(hasStatus(403), [
    matchWording("403, a key that has spent its limit", Patterns.spendingLimit, "billing"),
    matchWording("403, money", Patterns.billing, "billing"),
    { name: "403", judge: () => "auth" }
  ]),
  ...guardRules(hasStatus(404), [
    matchWording("404, the account's routing policy", Patterns.routingPolicy, "provider_policy_blocked"),
    matchWording("404, no route of the aggregator reads images", Patterns.imageUnsupported, "image_unsupported"),
    matchWording("404, the model", Patterns.noModel, "model_not_found"),
    matchWording("404, money", Patterns.billing, "billing"),
    { name: "404", judge: () => "unknown" }
  ]),
  ...guardRules(hasStatus(413), [
    matchWording("413, an image", Patterns.imageTooLarge, "image_too_large"),
    { name: "413", judge: () => "payload_too_large" }
  ]),
  ...guardRules(hasStatus(429), [
    { name: "429, a code for a spent quota", judge: ({ code }) => (quotaCodes.test(code) ? "billing" : undefined) },
    {
      name: "429, money",
      judge: ({ text }) =>
        hasWording(
          Patterns.billing.filter((wording) => wording !== ambiguousAt429),
          text
        )
          ? "billing"
          : undefined
    },
    matchWording("429, a general overload", Patterns.overload, "overloaded"),
    { name: "429", judge: () => "rate_limit" }
  ]),
  ...guardRules(hasStatus(400, 422), [
    matchWording("400, an image that is too large", Patterns.imageTooLarge, "image_too_large"),
    matchWording("400, images at all", Patterns.imageUnsupported, "image_unsupported"),
    matchWording("400, streaming", Patterns.streamUnsupported, "stream_unsupported"),
    {
      name: "400, marks of the prompt cache",
      judge: ({ parameters }) => (parameters.includes(Adaptation.cacheMarks) ? "unsupported_parameter" : undefined)
    },
    {
      name: "400, a parameter that the call can do without",
      judge: ({ parameters, text }) =>
        parameters.length > 0 && hasWording(Patterns.unknownParameter, text) ? "unsupported_parameter" : undefined
    },
    matchWording("400, a parameter that is not known", Patterns.unknownParameter, "format_error"),
    matchOutputCap("400, the length of the answer"),
    matchOverflow("400, the window"),
    matchWording("400, the account's routing policy", Patterns.routingPolicy, "provider_policy_blocked"),
    matchWording("400, the model", Patterns.noModel, "model_not_found"),
    matchWording("400, too many requests", Patterns.rateLimit, "rate_limit"),
    matchWording("400, money", Patterns.billing, "billing"),
    matchWording(
      "400, a key",
      ["api key not valid", "invalid api key", "incorrect api key", "api_key_invalid"],
      "auth"
    ),
    {
      name: "400 that says nothing, in a large conversation",
      judge: (evidence, facts) =>
        isGeneric(evidence) && isBeyond(facts, { share: 0.4, tokens: 80_000, messages: 80 })
          ? "context_overflow"
          : undefined
    },
    { name: "400", judge: () => "format_error" }
  ]),
  {
    name: "5xx with the code for a full window",
    judge: ({ code, status }) =>
      status !== undefined && status >= 500 && /exceed_context_size|context_length_exceeded/.test(code)
        ? "context_overflow"
        : undefined
  },
  { name: "503 or 529", judge: ({ status }) => (status === 503 || status === 529 ? "overloaded" : undefined) },
  { name: "5xx", judge: ({ status }) => (status !== undefined && status >= 500 ? "server_error" : undefined) },
  { name: "408", judge: ({ status }) => (status === 408 ? "timeout" : undefined) },
  ...guardRules(
    ({ status }) => status !== undefined && status >= 300 && status < 500,
    [
      matchWording("4xx, an overload", Patterns.overload, "overloaded"),
      {
        name: "4xx that is the server's fault",
        judge: ({ status, tag }) =>
          status === 409 || status === 425 || tag === "InternalProviderError" ? "server_error" : undefined
      },
      { name: "4xx", judge: () => "format_error" }
    ]
  )
]

const matchCode = (name: string, pattern: RegExp, reason: Reason): Rule => ({
  name: `code: ${name}`,
  judge: ({ code }) => (pattern.test(code) ? reason : undefined)
})

const byCode: ReadonlyArray<Rule> = [
  matchCode(
    "too many requests",
    /resource_exhausted|throttl|rate_limit|too_many_requests|servicequotaexceeded/,
    "rate_limit"
  ),
  matchCode("a spent quota", quotaCodes, "billing"),
  matchCode("the model", /model_not_found|model_not_available|invalid_model/, "model_not_found"),
  matchCode("the window", /context_length_exceeded|max_tokens_exceeded|exceed_context_size/, "context_overflow"),
  matchCode("an overload", /overloaded|serviceunavailable|service_unavailable/, "overloaded"),
  matchCode("the key", /authentication_error|permission_error|invalid_api_key/, "auth")
]

const transport: ReadonlyArray<Rule> = guardRules(
  (evidence) => evidence.transport,
  [
    matchWording("connection: TLS", Patterns.tls, "timeout"),
    {
      name: "connection: lost under a conversation that nearly fills the window",
      judge: ({ text }, facts) =>
        hasWording(Patterns.disconnect, text) && isBeyond(facts, { share: 0.6, tokens: 120_000, messages: 200 })
          ? "context_overflow"
          : undefined
    },
    { name: "connection: unreachable", judge: ({ unreachable }) => (unreachable ? "timeout" : undefined) },
    { name: "connection", judge: () => "timeout" }
  ]
)

const byWording: ReadonlyArray<Rule> = [
  matchWording("wording: a body that is too large", Patterns.tooLargeBody, "payload_too_large"),
  matchWording("wording: an image that is too large", Patterns.imageTooLarge, "image_too_large"),
  matchWording("wording: images at all", Patterns.imageUnsupported, "image_unsupported"),
  matchWording("wording: streaming", Patterns.streamUnsupported, "stream_unsupported"),
  {
    name: "wording: a limit of usage, and whether time will mend it",
    judge: ({ text }) =>
      hasWording(Patterns.usageLimit, text)
        ? hasWording(Patterns.passing, text)
          ? "rate_limit"
          : "billing"
        : undefined
  },
  matchWording("wording: an overload", Patterns.overload, "overloaded"),
  matchWording("wording: money", Patterns.billing, "billing"),
  matchWording("wording: too many requests", Patterns.rateLimit, "rate_limit"),
  matchOutputCap("wording: the length of the answer"),
  matchOverflow("wording: the window"),
  matchWording("wording: a key", Patterns.authentication, "auth"),
  matchWording("wording: the account's routing policy", Patterns.routingPolicy, "provider_policy_blocked"),
  matchWording("wording: the model", Patterns.noModel, "model_not_found"),
  matchWording("wording: TLS", Patterns.tls, "timeout"),
  matchWording("wording: a lost connection", Patterns.disconnect, "timeout"),
  matchWording("wording: time ran out", Patterns.timeout, "timeout")
]

const byTag: ReadonlyArray<Rule> = [
  { name: "kind: the server", judge: ({ tag }) => (tag === "InternalProviderError" ? "server_error" : undefined) },
  { name: "kind: the request", judge: ({ tag }) => (tag === "UnknownError" ? undefined : "format_error") }
]

/** All rules in the order in which they are tried. */
export const rules: ReadonlyArray<Rule> = [...own, ...byStatus, ...byCode, ...transport, ...byWording, ...byTag]

/** Fallback rule: the failure may be temporary, and the next route may succeed. */
const otherwise: Rule & { readonly reason: Reason } = {
  name: "nothing that is known",
  judge: () => "unknown",
  reason: "unknown"
}

export type { CallSituation } from "./classification/Evidence.ts"
export { Reason } from "./Recovery.ts"

/** Reason of a failure and the recoveries from it. */
export interface Decision {
  readonly reason: Reason
  /** Recoveries in the order in which they are tried. If the array is empty, the call fails. */
  readonly recoveries: ReadonlyArray<Recovery.Recovery>
  /** True if a retry on the same route may succeed. */
  readonly retryable: boolean
  /** Name of the rule that matched. */
  readonly rule: string
  readonly status: number | undefined
  /** Set if the address does not serve models at all, otherwise `undefined`. */
  readonly wrongAddress: WrongAddress | undefined
  /** Message of the provider, at most 500 characters. */
  readonly message: string
}

/** A failure and the decision about it. */
export interface Failure {
  readonly error: AiError.AiError
  readonly decision: Decision
}

const maxMessage = 500

/** Classifies a failure. `facts` describes the size of the call; a missing fact means that the call was small. */
export const classify = (error: AiError.AiError, facts: CallSituation = {}): Decision => {
  const evidence = Evidence.collectEvidence(error)
  let reason: Reason = otherwise.reason
  let rule = otherwise.name
  for (const { judge, name } of rules) {
    const found = judge(evidence, facts)
    if (found === undefined) continue
    reason = found
    rule = name
    break
  }
  const outputCap = reason === "output_cap" ? StatedLimits.findOutputCap(evidence.text, facts) : undefined
  const { parameters, retryAfter, unreachable } = evidence
  const wrongAddress = Recovery.mayBeAddress.has(reason) ? evidence.wrongAddress : undefined
  const recoveries = Recovery.listRecoveries(reason, {
    retryAfter,
    outputCap,
    unreachable,
    parameters,
    wrongAddress: wrongAddress !== undefined
  })
  return {
    reason,
    recoveries,
    retryable: Recovery.isRetryable(recoveries),
    rule,
    status: evidence.status,
    wrongAddress,
    message: evidence.message.slice(0, maxMessage)
  }
}

/** Describes a decision in one line for users: its reason, the rule and the recoveries. */
export const explainDecision = (error: AiError.AiError, facts: CallSituation = {}): string => {
  const { message, reason, recoveries, rule, status } = classify(error, facts)
  const said = message === "" ? error.reason._tag : `"${message}"`
  const from = status === undefined ? said : `HTTP ${status}, ${said}`
  const plan =
    recoveries.length === 0 ? "give up" : `${recoveries.map(Recovery.describeRecovery).join(", else ")}, else give up`
  return `${reason}: ${from}. Rule: ${rule}. Then: ${plan}.`
}
