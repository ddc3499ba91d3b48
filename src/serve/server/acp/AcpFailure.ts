/**
 * Errors for requests of an ACP client that cannot be answered.
 *
 * Source: Agent Client Protocol, errors.
 */
import * as Schema from "effect/Schema"
import * as Redaction from "../../../base/domain/Redaction.ts"

/** Error for a request that cannot be answered. `message` states the cause and the remedy. */
export class AcpFailure extends Schema.TaggedError<AcpFailure>("hermes-effect/server/AcpFailure")("AcpFailure", {
  reason: Schema.Literals(["invalid_params", "invalid_request", "session_not_found", "auth_required", "internal"]),
  message: Schema.String
}) {}

/** Makes an {@link AcpFailure}. */
export const makeFailure = (reason: AcpFailure["reason"], message: string): AcpFailure =>
  new AcpFailure({ reason, message: Redaction.redactText(message) })

/** Error codes of the protocol. */
export const codes: Readonly<Record<AcpFailure["reason"], number>> = {
  invalid_params: -32_602,
  invalid_request: -32_600,
  session_not_found: -32_002,
  auth_required: -32_000,
  internal: -32_603
}
