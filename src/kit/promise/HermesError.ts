/**
 * The only error of the runtime for code without Effect. It represents each failure of a run by its tag, its message
 * and its cause.
 *
 * **Example** (A failure by its tag)
 *
 * ```ts
 * import { createHermes, HermesError } from "hermes-effect/promise"
 *
 * const hermes = createHermes({ model: { provider: "anthropic", model: "claude-sonnet-4-6" } })
 * const readTag = (error: unknown) => error instanceof HermesError ? error.tag : "other"
 * const tag = await hermes.run("Hello?").then(() => "none", readTag)
 * await hermes.dispose()
 *
 * console.log(tag)
 * // => ConfigError
 * ```
 */
import * as Cause from "effect/Cause"
import * as AiError from "effect/ai/AiError"
import type { AgentError } from "../../base/domain/AgentError.ts"
import * as Json from "../../base/domain/Json.ts"

/**
 * Kinds of failures: the failures of a run, `Aborted` for a run ended by a signal or `dispose`, `Disposed` for a run
 * after `dispose`, and `Unexpected` for a defect in the program.
 */
export type Tag = AgentError["_tag"] | "Aborted" | "Disposed" | "Unexpected"

/** Returns the tag of a failure, or `Unexpected` if it has no tag. */
const readTag = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : "Unexpected"

/** A failure of a run. */
export class HermesError extends Error {
  override readonly name = "HermesError"
  /** Kind of the failure. It may be any string, so that middleware can define additional kinds. */
  readonly tag: Tag | (string & {})
  /** Exact reason of a provider failure (`tag` is `AiError`): `RateLimitError`, `AuthenticationError`, … */
  readonly reason: string | undefined

  constructor(
    tag: Tag | (string & {}),
    message: string,
    options: { readonly cause?: unknown; readonly reason?: string | undefined } = {}
  ) {
    super(message, { cause: options.cause })
    this.tag = tag
    this.reason = options.reason
  }

  /** The tag under its Effect name, for `Effect.catchTag` and for a `switch` over events and failures. */
  get _tag(): Tag | (string & {}) {
    return this.tag
  }

  /** Returns the form recorded by JSON and most loggers. It omits the cause, which may contain whole requests. */
  toJSON(): {
    readonly name: string
    readonly tag: string
    readonly reason: string | undefined
    readonly message: string
  } {
    return { name: this.name, tag: this.tag, reason: this.reason, message: this.message }
  }
}

/** Converts a failure to the public error. */
const fromError = (error: unknown): HermesError => {
  if (error instanceof HermesError) return error
  const message = error instanceof Error ? error.message : Json.toText(error)
  return new HermesError(readTag(error), message, {
    cause: error,
    reason: AiError.isAiError(error) ? error.reason._tag : undefined
  })
}

/** Creates the error for a run that was ended externally, by a signal with this reason or by the end of the runtime. */
export const makeAbortedError = (reason?: unknown): HermesError =>
  new HermesError("Aborted", "the run was aborted", { cause: reason })

/** Converts the cause of a failed or aborted run to the public error. `reason` is the abort reason of the signal. */
export const fromCause = (cause: Cause.Cause<unknown>, reason?: unknown): HermesError =>
  Cause.hasInterruptsOnly(cause) ? makeAbortedError(reason) : fromError(Cause.squash(cause))
