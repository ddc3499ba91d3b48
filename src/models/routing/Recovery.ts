/**
 * Recoveries from a failure. A decision lists recoveries in the order in which they are to be tried: the first one
 * that is possible is taken, and when none is left the call fails.
 *
 * **Details**
 *
 * Order says everything: a rate limit puts the next key before the next route and the next route before waiting; a
 * server error waits first. `RetryAfter` is possible as long as attempts are left, `NextKey` while the pool has another
 * key, each `Adapt` once per route, `Rebuild` once per call on the primary route, `NextRoute` while the chain has
 * another entry. `Compact` is not the router's to do: the call fails, and who owns the conversation finds it in the
 * decision.
 *
 * A refused connection is retried without the new client that the specification has for every connection error: a new
 * client would be refused, too. An address that will never serve a model (`classification/Evidence`) is not asked again.
 *
 * Source: `hermes-llm.md` §16.2, §16.5 and §17, `ARCHITECTURE.md` §7 (D3, D4).
 */
import type * as Duration from "effect/Duration"
import type { Change } from "./Adaptation.ts"
import * as Schema from "effect/Schema"

/**
 * Reasons of a provider's failure. They appear in `api_request_error.reason`, so they never change (`hermes-llm.md`
 * §22). `image_unsupported`, `stream_unsupported`, `output_cap`, `invalid_response` and `unsupported_parameter` are
 * ours: their recoveries differ from all others. `auth_permanent` is omitted: it cannot be distinguished from `auth`.
 */
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
/** One of {@link Reason}. */
export type Reason = typeof Reason.Type

/** One way to continue after a failure. */
export type Recovery =
  /** Renew the key in use, if it is renewable. */
  | { readonly _tag: "RenewKey" }
  /** Go on with the next key of the pool, at once. */
  | { readonly _tag: "NextKey" }
  /** Send the call in another form, at once. */
  | { readonly _tag: "Adapt"; readonly change: Change }
  /** Send the call without the first of these parameters that it has, or with the parameter's other name, at once. */
  | { readonly _tag: "AdaptParameters"; readonly names: ReadonlyArray<string> }
  /** Ask for a shorter answer. */
  | { readonly _tag: "LowerOutputCap"; readonly to: number }
  /** Make the conversation smaller, then ask again. */
  | { readonly _tag: "Compact" }
  /**
   * Repeat the call as the retry policy decides. `after` is the wait that the provider asked for. `unreachable` is true
   * if no server could be reached.
   */
  | { readonly _tag: "RetryAfter"; readonly after: Duration.Duration | undefined; readonly unreachable?: true }
  /** Open a new connection and start over. */
  | { readonly _tag: "Rebuild" }
  /** Go on with the next route of the chain, at once. */
  | { readonly _tag: "NextRoute" }

const renewKey: Recovery = { _tag: "RenewKey" }
const nextKey: Recovery = { _tag: "NextKey" }
const compact: Recovery = { _tag: "Compact" }
const rebuild: Recovery = { _tag: "Rebuild" }
const nextRoute: Recovery = { _tag: "NextRoute" }
const makeAdaptation = (change: Change): Recovery => ({ _tag: "Adapt", change })

/** Facts that a recovery may depend on besides the reason. */
interface Details {
  readonly retryAfter: Duration.Duration | undefined
  /** Output limit to ask for instead. */
  readonly outputCap: number | undefined
  /** No server could be reached. */
  readonly unreachable: boolean
  /** The address will never serve a model. */
  readonly wrongAddress: boolean
  /** Parameters of the request that the refusal names. */
  readonly parameters: ReadonlyArray<string>
}

const reconnect: Recovery = { _tag: "RetryAfter", after: undefined, unreachable: true }

/** Reasons that say nothing better of a failure than that its address may be wrong. */
export const mayBeAddress: ReadonlySet<Reason> = new Set<Reason>([
  "unknown",
  "timeout",
  "invalid_response",
  "format_error"
])

/** The recoveries of a reason; the switch is exhaustive, so that a new reason must say what it means. */
export const listRecoveries = (
  reason: Reason,
  { outputCap, parameters, retryAfter, unreachable, wrongAddress }: Details
): ReadonlyArray<Recovery> => {
  if (wrongAddress) return [nextRoute]
  const retry: Recovery = { _tag: "RetryAfter", after: retryAfter }
  switch (reason) {
    case "auth":
      return [renewKey, nextKey, nextRoute]
    case "billing":
      return [nextKey, nextRoute]
    case "rate_limit":
      return [nextKey, nextRoute, retry]
    case "invalid_response":
      return [nextRoute, retry]
    case "overloaded":
    case "server_error":
    case "unknown":
      return [retry, nextRoute]
    case "timeout":
      return unreachable ? [reconnect, nextRoute] : [retry, rebuild, nextRoute]
    case "context_overflow":
    case "payload_too_large":
    case "long_context_tier":
      return [compact]
    case "output_cap":
      return outputCap === undefined ? [compact] : [{ _tag: "LowerOutputCap", to: outputCap }, compact]
    case "image_too_large":
      return [makeAdaptation("with_smaller_images"), makeAdaptation("without_images"), nextRoute]
    case "image_unsupported":
      return [makeAdaptation("without_images"), nextRoute]
    case "stream_unsupported":
      return [makeAdaptation("without_stream"), nextRoute]
    case "thinking_signature":
    case "invalid_encrypted_content":
      return [makeAdaptation("without_reasoning"), nextRoute]
    case "llama_cpp_grammar_pattern":
      return [makeAdaptation("without_patterns"), nextRoute]
    case "unsupported_parameter":
      return [{ _tag: "AdaptParameters", names: parameters }, nextRoute]
    case "oauth_long_context_beta_forbidden":
    case "model_not_found":
    case "content_policy_blocked":
    case "format_error":
      return [nextRoute]
    case "provider_policy_blocked":
      return []
  }
}

/** Returns whether the same route may still answer, waited for or not. */
export const isRetryable = (recoveries: ReadonlyArray<Recovery>): boolean =>
  recoveries.some(
    ({ _tag }) =>
      _tag === "RetryAfter" ||
      _tag === "Compact" ||
      _tag === "LowerOutputCap" ||
      _tag === "Adapt" ||
      _tag === "AdaptParameters"
  )

/** Describes a recovery in words. */
export const describeRecovery = (recovery: Recovery): string => {
  switch (recovery._tag) {
    case "RenewKey":
      return "renew the key"
    case "NextKey":
      return "take the next key"
    case "Adapt":
      return `send it ${recovery.change.replaceAll("_", " ")}`
    case "AdaptParameters":
      return `send it without ${recovery.names.join(" or ")}`
    case "LowerOutputCap":
      return `ask for at most ${recovery.to} tokens`
    case "Compact":
      return "compact the conversation"
    case "RetryAfter":
      return "try again after a while"
    case "Rebuild":
      return "open a new connection"
    case "NextRoute":
      return "go to the next route"
  }
}
