/**
 * Whether a side task that one provider could not do may be done by the next: its account is empty, it can not be reached,
 * or it is left alone for now.
 * Everything else would fail there too, or is the caller's to know.
 *
 * Source: `hermes-llm.md` §5.4.
 *
 * @since 0.1.0
 */
import type * as AiError from "effect/ai/AiError"
import * as Evidence from "../classification/Evidence.ts"

const money = /credits|insufficient funds|can only afford|billing|payment required/

/** Whether an account has no money left. */
export const isPayment = (error: AiError.AiError): boolean => {
  if (error.reason._tag === "QuotaExhaustedError") return true
  const { status, text } = Evidence.of(error)
  return status === 402 || ((status === 429 || status === undefined) && money.test(text))
}

/** Whether a provider can not be reached, or does not answer in time. */
export const isConnection = (error: AiError.AiError): boolean =>
  error.reason._tag === "NetworkError" && error.reason.reason !== "InvalidUrlError"

/** Whether nobody was asked, because the provider is left alone for a while (`RateGuard`, the pace of a key). */
export const isResting = (error: AiError.AiError): boolean =>
  error.module === "ModelRouter" && error.reason._tag === "RateLimitError"

/** See the module. */
export const isPossible = (error: AiError.AiError): boolean => isPayment(error) || isConnection(error) || isResting(error)
