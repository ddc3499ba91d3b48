/**
 * Failures at the boundary between wrappers and the calls that they wrap: misuse of `next`, vetoes out of a stream, and
 * the annotations that preserve an original failure.
 *
 * Source: `ARCHITECTURE.md` §6.
 */
import * as Cause from "effect/Cause"
import * as Context from "effect/Context"
import * as Exit from "effect/Exit"
import * as Option from "effect/Option"
import { ExecutionBlocked } from "../base/domain/AgentError.ts"
import type { Kind } from "./Kind.ts"

/** Reports that `next` was called a second time, or after its wrapper had returned. */
export class NextMisused extends Error {
  override readonly name = "NextMisused"
}

/**
 * Creates the error for a refused call of `next`: a second call of a single-use `next`, or a call while another one is
 * running.
 */
export const makeRefusal = (kind: Kind, name: string): Error =>
  new NextMisused(
    kind === "llm_execution" || kind === "tool_execution"
      ? `${kind} middleware "${name}" called next() more than once: downstream execution is single-use. ` +
          `To repeat a call, use ${kind === "tool_execution" ? "wrapToolCall" : "wrapModelCall"}`
      : `${kind} middleware "${name}" called next() while its last call of it was still running: wait for that ` +
          "one before you repeat it"
  )

/**
 * Annotates the failure of the inner call with the defect of a wrapper that died after it. Combined into the cause, the
 * defect would hide the failure from wrappers that catch it.
 */
export class AttachedDefect extends Context.Service<AttachedDefect, unknown>()(
  "hermes-effect/middleware/AttachedDefect"
) {}

/**
 * Annotates the failure of a wrapper with the failure of the inner call, because retries and fallbacks depend on the
 * original failure.
 */
export class Downstream extends Context.Service<Downstream, Cause.Cause<unknown>>()(
  "hermes-effect/middleware/Downstream"
) {}

/** Returns the innermost cause of a translated failure, or `undefined` if the cause is not a translation. */
export const findDownstreamFailure = (cause: Cause.Cause<unknown>): Cause.Cause<unknown> | undefined => {
  for (const reason of cause.reasons) {
    const below = Option.getOrUndefined(Context.getOption(Cause.reasonAnnotations(reason), Downstream))
    if (below !== undefined) return findDownstreamFailure(below) ?? below
  }
  return undefined
}

/** Carries the failure of a closed wrapper's `onPart` out of the failed stream. */
export class StreamVeto extends Error {
  override readonly name = "StreamVeto"
  /** The wrapper that failed. Another wrapper with the same name passes the failure on. */
  readonly wrapper: object

  constructor(wrapper: { readonly name: string }, cause: unknown) {
    super(wrapper.name, { cause })
    this.wrapper = wrapper
  }
}

/** Tests whether a cause contains a veto, which ends the call regardless of other failures. */
export const isVeto = (cause: Cause.Cause<unknown>): boolean =>
  cause.reasons.some((reason) => Cause.isFailReason(reason) && reason.error instanceof ExecutionBlocked)

/** Returns true if a cause only repeats the failure of the inner call, which the wrapper passed through. */
export const isPassedThrough = <A>(cause: Cause.Cause<unknown>, below: Exit.Exit<A, unknown> | undefined): boolean => {
  if (below === undefined || Exit.isSuccess(below)) return false
  return cause.reasons.every((reason) =>
    below.cause.reasons.some(
      (other) =>
        reason === other || (Cause.isDieReason(reason) && Cause.isDieReason(other) && reason.defect === other.defect)
    )
  )
}
