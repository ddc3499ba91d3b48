/**
 * What can be done about a failure. A decision lists recoveries in the order in which they are to be tried: the first one
 * that is possible is taken, and when none is left the call fails.
 *
 * **Details**
 *
 * Order says everything: a rate limit puts the next key before the next route and the next route before waiting; a server
 * error waits first. `Retry` is possible as long as attempts are left, `Rotate` while the pool has another key, each
 * `Adapt` once per route, `Rebuild` once per call on the primary route, `Fallback` while the chain has another entry.
 * `Compress` is not the router's to do: the call fails, and who owns the conversation finds it in the decision.
 *
 * Where a connection is refused there is nobody to spare: it is asked again after two seconds, and a new client, which the
 * specification has for every fault of a connection, would find nobody either. An address that will never serve a model
 * (`classification/WrongAddress`) is not asked again.
 *
 * Source: `hermes-llm.md` §16.2, §16.5 and §17, `ARCHITECTURE.md` §7 (D3, D4).
 *
 * @since 0.1.0
 */
import * as Duration from "effect/Duration"
import type { Change } from "./Adaptation.ts"
import type { Reason } from "./classification/Reason.ts"

/** See the module. */
export type Recovery =
  /** Renew the key in use, where it can be renewed. */
  | { readonly _tag: "Refresh" }
  /** Go on with the next key of the pool, at once. */
  | { readonly _tag: "Rotate" }
  /** Send the call in another form, at once. */
  | { readonly _tag: "Adapt"; readonly change: Change }
  /** Send the call without the first of these parameters that it has, or with the parameter's other name, at once. */
  | { readonly _tag: "AdaptParameters"; readonly names: ReadonlyArray<string> }
  /** Ask for a shorter answer. */
  | { readonly _tag: "LowerOutputCap"; readonly to: number }
  /** Make the conversation smaller, then ask again. */
  | { readonly _tag: "Compress" }
  /** Ask again after a while; after `after`, if the provider said so, and exactly then where nobody was there to say it. */
  | { readonly _tag: "Retry"; readonly after: Duration.Duration | undefined; readonly exact?: true }
  /** Open a new connection and start over. */
  | { readonly _tag: "Rebuild" }
  /** Go on with the next route of the chain, at once. */
  | { readonly _tag: "Fallback" }

const refresh: Recovery = { _tag: "Refresh" }
const rotate: Recovery = { _tag: "Rotate" }
const compress: Recovery = { _tag: "Compress" }
const rebuild: Recovery = { _tag: "Rebuild" }
const fallback: Recovery = { _tag: "Fallback" }
const adapt = (change: Change): Recovery => ({ _tag: "Adapt", change })

/** What a recovery may depend on besides the reason. */
export interface Details {
  readonly retryAfter: Duration.Duration | undefined
  /** See `OutputCap`. */
  readonly outputCap: number | undefined
  /** There was nobody to talk to. */
  readonly unreachable: boolean
  /** The address will never serve a model. */
  readonly wrongAddress: boolean
  /** Parameters of the request that the refusal names. */
  readonly parameters: ReadonlyArray<string>
}

const shortly: Recovery = { _tag: "Retry", after: Duration.seconds(2), exact: true }

/** Reasons that say nothing better of a failure than that its address may be wrong. */
export const mayBeAddress: ReadonlySet<Reason> = new Set<Reason>(["unknown", "timeout", "invalid_response", "format_error"])

/** The recoveries of a reason; the switch is exhaustive, so that a new reason must say what it means. */
export const of = (reason: Reason, { outputCap, parameters, retryAfter, unreachable, wrongAddress }: Details): ReadonlyArray<Recovery> => {
  if (wrongAddress) return [fallback]
  const retry: Recovery = { _tag: "Retry", after: retryAfter }
  switch (reason) {
    case "auth":
      return [refresh, rotate, fallback]
    case "billing":
      return [rotate, fallback]
    case "rate_limit":
      return [rotate, fallback, retry]
    case "invalid_response":
      return [fallback, retry]
    case "overloaded":
    case "server_error":
    case "unknown":
      return [retry, fallback]
    case "timeout":
      return unreachable ? [shortly, fallback] : [retry, rebuild, fallback]
    case "context_overflow":
    case "payload_too_large":
    case "long_context_tier":
      return [compress]
    case "output_cap":
      return outputCap === undefined ? [compress] : [{ _tag: "LowerOutputCap", to: outputCap }, compress]
    case "image_too_large":
      return [adapt("with_smaller_images"), adapt("without_images"), fallback]
    case "image_unsupported":
      return [adapt("without_images"), fallback]
    case "stream_unsupported":
      return [adapt("without_stream"), fallback]
    case "thinking_signature":
    case "invalid_encrypted_content":
      return [adapt("without_reasoning"), fallback]
    case "llama_cpp_grammar_pattern":
      return [adapt("without_patterns"), fallback]
    case "unsupported_parameter":
      return [{ _tag: "AdaptParameters", names: parameters }, fallback]
    case "oauth_long_context_beta_forbidden":
    case "model_not_found":
    case "content_policy_blocked":
    case "format_error":
      return [fallback]
    case "provider_policy_blocked":
      return []
  }
}

/** Whether the same route may still answer, waited for or not. */
export const isRetryable = (recoveries: ReadonlyArray<Recovery>): boolean =>
  recoveries.some(({ _tag }) => _tag === "Retry" || _tag === "Compress" || _tag === "LowerOutputCap" || _tag === "Adapt"
    || _tag === "AdaptParameters")

/** A recovery in words. */
export const describe = (recovery: Recovery): string => {
  switch (recovery._tag) {
    case "Refresh":
      return "renew the key"
    case "Rotate":
      return "take the next key"
    case "Adapt":
      return `send it ${recovery.change.replaceAll("_", " ")}`
    case "AdaptParameters":
      return `send it without ${recovery.names.join(" or ")}`
    case "LowerOutputCap":
      return `ask for at most ${recovery.to} tokens`
    case "Compress":
      return "compact the conversation"
    case "Retry":
      return "try again after a while"
    case "Rebuild":
      return "open a new connection"
    case "Fallback":
      return "go to the next route"
  }
}
