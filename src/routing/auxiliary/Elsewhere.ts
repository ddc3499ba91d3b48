/**
 * Whether a side task that one provider could not do may be done by the next: its account is empty, or it can not be reached.
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

/** See the module. */
export const isPossible = (error: AiError.AiError): boolean => isPayment(error) || isConnection(error)
