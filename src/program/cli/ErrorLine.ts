/**
 * Converts errors to one line that states the problem and the remedy, without secrets, and to an exit code.
 *
 * Source: `hermes-product.md` §1.3, `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Duration from "effect/Duration"
import * as AiError from "effect/ai/AiError"
import { ConfigError, InvalidInput, SessionNotFound } from "../../base/domain/AgentError.ts"
import * as Redaction from "../../base/domain/Redaction.ts"
import { getCurrentRegistry, type Registry } from "../../base/domain/Secrets.ts"
import { PluginError } from "../../agent/plugin/PluginError.ts"
import * as SafeText from "./render/SafeText.ts"
import { failed, Failure, unusable } from "./Failure.ts"

interface ExitLine {
  readonly code: number
  /** Empty if the error was already reported. */
  readonly line: string
}

/**
 * Formats text as one line without secrets and control sequences. Outside of a fiber, the caller must pass the secrets
 * of the runtime.
 */
export const toSafeLine = (text: string, secrets = getCurrentRegistry()): string =>
  Redaction.redactText(SafeText.toLine(SafeText.toPlainText(text)), secrets)

const chooseSentence = (description: string | undefined, otherwise: string): string => description?.trim() || otherwise

const describeAuthentication = ({ description, kind }: AiError.AuthenticationError): string => {
  const said = description === undefined || description === "" ? "" : ` (${description})`
  switch (kind) {
    case "MissingKey":
      return (
        `the provider requires an API key${said}: set model.api_key or the provider's variable, see \`hermes ` +
        "doctor`"
      )
    case "ExpiredKey":
      return `the API key has expired${said}: set a new one`
    case "InsufficientPermissions":
      return `the API key lacks permission${said}: use another key or model`
    default:
      return `the provider does not accept the API key${said}: correct it, see \`hermes doctor\``
  }
}

const describeReason = (reason: AiError.AiErrorReason): string => {
  switch (reason._tag) {
    case "AuthenticationError":
      return describeAuthentication(reason)
    case "RateLimitError":
      return `the provider's rate limit is reached: try again ${
        reason.retryAfter === undefined ? "later" : `in ${Duration.format(reason.retryAfter)}`
      }`
    case "QuotaExhaustedError":
      return "the account's quota is used up: add credit, or configure another provider"
    case "NetworkError":
      return chooseSentence(reason.description, "cannot reach the provider: check model.base_url and the network")
    case "ContentPolicyError":
      return `the provider refused the content: ${reason.description}`
    case "InternalProviderError":
      return `the provider failed: ${reason.description}: try again, or configure another one`
    case "InvalidRequestError":
      return `${chooseSentence(reason.description, "the provider refused the request")}${
        reason.parameter === "model" ? ": choose another with --model" : ""
      }`
    case "InvalidResponseError":
      return `cannot read the provider's answer: ${reason.description}`
    default:
      return reason.message
  }
}

/**
 * Returns true if an error is about a missing key. It is not a configuration error: the request was valid, but the work
 * cannot be done.
 */
const isAboutKey = (path: string): boolean => path === "model.api_key" || /^[A-Z0-9_]*(?:KEY|TOKEN)$/.test(path)

const toConfigLine = ({ message, path }: ConfigError, secrets: Registry): ExitLine => {
  const [first = "", ...more] = message.split("\n")
  const rest = more.length === 0 ? "" : ` (and ${more.length} more: run \`hermes config check\`)`
  return { code: isAboutKey(path) ? failed : unusable, line: toSafeLine(first, secrets) + rest }
}

const isInput = (error: unknown): boolean =>
  error instanceof InvalidInput ||
  error instanceof SessionNotFound ||
  (error instanceof PluginError && error.input === true)

/**
 * Converts an error to a line and an exit code. An unexpected error is reported by its message, as a failure of the
 * program.
 */
export const fromError = (error: unknown, secrets = getCurrentRegistry()): ExitLine => {
  if (error instanceof Failure) return { code: error.code, line: toSafeLine(error.message, secrets) }
  if (error instanceof ConfigError) return toConfigLine(error, secrets)
  if (AiError.isAiError(error)) return { code: failed, line: toSafeLine(describeReason(error.reason), secrets) }
  const code = isInput(error) ? unusable : failed
  return { code, line: toSafeLine(error instanceof Error ? error.message || error.name : String(error), secrets) }
}

/** Converts a cause like {@link fromError}. The cause must not be an interruption. */
export const fromCause = (cause: Cause.Cause<unknown>, secrets = getCurrentRegistry()): ExitLine =>
  fromError(Cause.squash(cause), secrets)

/** Renders the line as it is written to stderr. */
export const render = (line: string): string => `Error: ${line}\n`
