/**
 * The one error of the runtime for code without Effect: each failure of a run with its tag, its message and its cause.
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
 * Kinds of failures: a failure of a run, `Aborted` by a signal or `dispose`, `Disposed` after that, and `Unexpected`
 * for a fault of the program.
 */
export type Tag = AgentError["_tag"] | "Aborted" | "Disposed" | "Unexpected"

/** Tags that a run fails with. A failure of another tag, of middleware for example, is named by its own. */
const readTag = (error: unknown): string =>
  typeof error === "object" && error !== null && "_tag" in error && typeof error._tag === "string"
    ? error._tag
    : "Unexpected"

/** A failure of a run. */
export class HermesError extends Error {
  override readonly name = "HermesError"
  /** Names the kind of failure; any text, so that middleware can have its own kinds. */
  readonly tag: Tag | (string & {})
  /** The exact reason of a failure of a provider (`tag` is `AiError`): `RateLimitError`, `AuthenticationError`, … */
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

  /**
   * The tag under the name that it has in Effect, for `Effect.catchTag` and for a `switch` over events and failures
   * alike.
   */
  get _tag(): Tag | (string & {}) {
    return this.tag
  }

  /** The form that JSON and most loggers record. It omits the cause, which may contain whole requests. */
  toJSON(): {
    readonly name: string
    readonly tag: string
    readonly reason: string | undefined
    readonly message: string
  } {
    return { name: this.name, tag: this.tag, reason: this.reason, message: this.message }
  }
}

/** A failure as the error that it is outside. */
const fromError = (error: unknown): HermesError => {
  if (error instanceof HermesError) return error
  const message = error instanceof Error ? error.message : Json.toText(error)
  return new HermesError(readTag(error), message, {
    cause: error,
    reason: AiError.isAiError(error) ? error.reason._tag : undefined
  })
}

/** The error of a run that was ended from outside, by a signal with this reason or by the end of the runtime. */
export const makeAbortedError = (reason?: unknown): HermesError =>
  new HermesError("Aborted", "the run was aborted", { cause: reason })

/** Converts the end of a run to the public error. `reason` is the reason of the signal that ended it. */
export const fromCause = (cause: Cause.Cause<unknown>, reason?: unknown): HermesError =>
  Cause.hasInterruptsOnly(cause) ? makeAbortedError(reason) : fromError(Cause.squash(cause))
