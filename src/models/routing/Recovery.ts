/**
 * Recoveries from a failure. A decision lists recoveries in the order in which they are tried. The first possible one
 * is used; if none is possible, the call fails.
 *
 * **Details**
 *
 * The order expresses the strategy: after a rate limit, the next key is tried before the next route, and the next route
 * before a wait; after a server error, a wait is tried first. `RetryAfter` is possible as long as attempts are left,
 * `NextKey` while the pool has another key, each `Adapt` once per route, `Rebuild` once per call on the primary route,
 * `NextRoute` while the chain has another entry. `Compact` is not executed by the router: the call fails, and the owner
 * of the conversation finds `Compact` in the decision.
 *
 * A refused connection is retried without the new client that the specification has for every connection error: a new
 * client would be refused, too. An address that will never serve a model (`classification/Evidence`) is not asked
 * again.
 *
 * Source: `hermes-llm.md` §16.2, §16.5 and §17, `ARCHITECTURE.md` §7 (D3, D4).
 */
import type * as Duration from "effect/Duration"
import { type Change, outputLimits } from "./Adaptation.ts"
import type { OutputCap } from "./classification/StatedLimits.ts"
import * as Schema from "effect/Schema"

/**
 * Reasons of a provider's failure. They appear in `api_request_error.reason`, so they never change (`hermes-llm.md`
 * §22). `image_unsupported`, `stream_unsupported`, `output_cap`, `invalid_response`, `unsupported_parameter`,
 * `tool_use_failed`, `call_id_form` and `missing_signature` were added by this runtime, because their recoveries differ
 * from all others. `auth_permanent` is omitted: it cannot be distinguished from `auth`.
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
  "tool_use_failed",
  "call_id_form",
  "missing_signature",
  "format_error",
  "unknown"
])
/** Reason of a provider's failure. */
export type Reason = typeof Reason.Type

/** One way to continue after a failure. */
export type Recovery =
  /** Renews the current key, if it is renewable. */
  | { readonly _tag: "RenewKey" }
  /** Continues with the next key of the pool, without a wait. */
  | { readonly _tag: "NextKey" }
  /** Sends the call in another form, without a wait. */
  | { readonly _tag: "Adapt"; readonly change: Change }
  /** Removes or renames the first of these parameters that the call contains, and sends it without a wait. */
  | { readonly _tag: "AdaptParameters"; readonly names: ReadonlyArray<string> }
  /** Sends the same call again without a wait, because the model made a mistake. */
  | { readonly _tag: "AskAgain" }
  /** Lowers the output limit. `lasting` is true for the longest answer of the model, which applies to every call. */
  | { readonly _tag: "LowerOutputCap"; readonly to: number; readonly lasting?: true }
  /** Compacts the conversation, then sends the call again. */
  | { readonly _tag: "Compact" }
  /**
   * Repeats the call as the retry policy decides. `after` is the wait that the provider requested. `unreachable` is
   * true if no server could be reached.
   */
  | { readonly _tag: "RetryAfter"; readonly after: Duration.Duration | undefined; readonly unreachable?: true }
  /** Opens a new connection and starts over. */
  | { readonly _tag: "Rebuild" }
  /** Continues with the next route of the chain, without a wait. */
  | { readonly _tag: "NextRoute" }

const renewKey: Recovery = { _tag: "RenewKey" }
const nextKey: Recovery = { _tag: "NextKey" }
const compact: Recovery = { _tag: "Compact" }
const askAgain: Recovery = { _tag: "AskAgain" }
const rebuild: Recovery = { _tag: "Rebuild" }
const nextRoute: Recovery = { _tag: "NextRoute" }
const omitOutputLimit: Recovery = { _tag: "AdaptParameters", names: outputLimits }
const toLowerCap = ({ isMaximum, tokens }: OutputCap): Recovery => ({
  _tag: "LowerOutputCap",
  to: tokens,
  ...(isMaximum ? { lasting: true } : {})
})
const makeAdaptation = (change: Change): Recovery => ({ _tag: "Adapt", change })

/** Facts other than the reason on which recoveries may depend. */
interface Details {
  readonly retryAfter: Duration.Duration | undefined
  /** Output limit to request instead, if known. */
  readonly outputCap: OutputCap | undefined
  /** True if no server could be reached. */
  readonly unreachable: boolean
  /** True if the address does not serve models at all. */
  readonly wrongAddress: boolean
  /** Parameters of the request that the refusal names. */
  readonly parameters: ReadonlyArray<string>
}

const reconnect: Recovery = { _tag: "RetryAfter", after: undefined, unreachable: true }

/** Reasons that are so unspecific that a wrong address may be the cause. */
export const mayBeAddress: ReadonlySet<Reason> = new Set<Reason>([
  "unknown",
  "timeout",
  "invalid_response",
  "format_error"
])

type RecoveryList = (details: Details) => ReadonlyArray<Recovery>

const makeRetry = ({ retryAfter }: Details): Recovery => ({ _tag: "RetryAfter", after: retryAfter })
const retryOrNextRoute: RecoveryList = (details) => [makeRetry(details), nextRoute]
const compactOnly: RecoveryList = () => [compact]
const nextRouteOnly: RecoveryList = () => [nextRoute]

/** Sends the call in other forms, one after another. */
const adaptOrNextRoute =
  (...changes: ReadonlyArray<Change>): RecoveryList =>
  () => [...changes.map(makeAdaptation), nextRoute]

/** Recoveries by reason. Every new reason must define its recoveries. */
const recoveries: Readonly<Record<Reason, RecoveryList>> = {
  auth: () => [renewKey, nextKey, nextRoute],
  billing: () => [nextKey, nextRoute],
  rate_limit: (details) => [nextKey, nextRoute, makeRetry(details)],
  invalid_response: (details) => [nextRoute, makeRetry(details)],
  overloaded: retryOrNextRoute,
  server_error: retryOrNextRoute,
  unknown: retryOrNextRoute,
  timeout: (details) => (details.unreachable ? [reconnect, nextRoute] : [makeRetry(details), rebuild, nextRoute]),
  context_overflow: compactOnly,
  payload_too_large: compactOnly,
  long_context_tier: compactOnly,
  output_cap: ({ outputCap }) =>
    outputCap === undefined ? [omitOutputLimit, nextRoute] : [toLowerCap(outputCap), compact],
  image_too_large: adaptOrNextRoute("with_smaller_images", "without_images"),
  image_unsupported: adaptOrNextRoute("without_images"),
  stream_unsupported: adaptOrNextRoute("without_stream"),
  thinking_signature: adaptOrNextRoute("without_reasoning"),
  invalid_encrypted_content: adaptOrNextRoute("without_reasoning"),
  llama_cpp_grammar_pattern: adaptOrNextRoute("without_patterns"),
  unsupported_parameter: ({ parameters }) => [{ _tag: "AdaptParameters", names: parameters }, nextRoute],
  tool_use_failed: () => [askAgain, nextRoute],
  call_id_form: adaptOrNextRoute("with_short_call_ids"),
  missing_signature: adaptOrNextRoute("with_signatures"),
  oauth_long_context_beta_forbidden: nextRouteOnly,
  model_not_found: nextRouteOnly,
  content_policy_blocked: nextRouteOnly,
  provider_policy_blocked: nextRouteOnly,
  format_error: nextRouteOnly
}

/** Returns the recoveries for a reason. */
export const listRecoveries = (reason: Reason, details: Details): ReadonlyArray<Recovery> =>
  details.wrongAddress ? [nextRoute] : recoveries[reason](details)

/** Tests whether the recoveries include a retry on the same route, with or without a wait. */
export const isRetryable = (recoveries: ReadonlyArray<Recovery>): boolean =>
  recoveries.some(
    ({ _tag }) =>
      _tag === "RetryAfter" ||
      _tag === "Compact" ||
      _tag === "LowerOutputCap" ||
      _tag === "AskAgain" ||
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
    case "AskAgain":
      return "ask the model again"
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
