/**
 * Refusals of the file tools and `todo`: one typed error for the code, and one JSON form for the model.
 *
 * **Details**
 *
 * A handler fails with {@link Problem} or a `PlatformError`; {@link mapToFailure} turns both into {@link Failure},
 * which the tool returns as its result with `isFailure: true`. Every tool uses the same form: `success: false`,
 * `error`, and details that help the model to recover (`hint`, `similar_files`, …).
 *
 * Source: `hermes-product.md` §2.1 (failures are JSON with `error`, bounded), §2.3.
 */
import * as Effect from "effect/Effect"
import type { PlatformError } from "effect/PlatformError"
import * as Schema from "effect/Schema"
import * as TextCut from "../../../base/domain/TextCut.ts"

/** Optional details of an error. */
const details = {
  hint: Schema.optionalKey(Schema.String),
  similar_files: Schema.optionalKey(Schema.Array(Schema.String)),
  no_change: Schema.optionalKey(Schema.Literal(true)),
  total_lines: Schema.optionalKey(Schema.Natural),
  file_size: Schema.optionalKey(Schema.Natural)
}

/** Result for the model if a tool could not do the requested work. */
export const Failure = Schema.Struct({ success: Schema.Literal(false), error: Schema.String, ...details })
/** See {@link Failure}. */
export type Failure = typeof Failure.Type

/** Additional facts about an error. */
type Details = Omit<Failure, "success" | "error">

/** Failure of a file tool. `message` describes the error, and `details.hint` the next step. */
export class Problem extends Schema.TaggedError<Problem>("hermes-effect/tool/Problem")("Problem", {
  message: Schema.String,
  details: Schema.Struct(details)
}) {}

/** Creates an Effect that fails with a {@link Problem}. */
export const fail = (message: string, details: Details = {}): Effect.Effect<never, Problem> =>
  Effect.fail(new Problem({ message, details }))

/** Maximum total number of characters of an error and its hint (`hermes-product.md` §2.1). */
const maxBodyChars = 2_048
const maxErrorChars = 1_500
const marker = "… [cut]"

/** Cuts a text to at most `max` characters and marks the cut. */
export const clip = (text: string, max: number): string =>
  text.length <= max ? text : TextCut.takeHead(text, Math.max(0, max - marker.length)) + marker

const describePlatformError = ({ reason }: PlatformError): string => {
  const where =
    "pathOrDescriptor" in reason && reason.pathOrDescriptor !== undefined ? `: ${reason.pathOrDescriptor}` : ""
  switch (reason._tag) {
    case "NotFound":
      return `no such file or directory${where}`
    case "PermissionDenied":
      return `permission denied${where}`
    case "AlreadyExists":
      return `already exists${where}`
    case "Busy":
      return `the file is in use${where}`
    default:
      return reason.cause instanceof Error ? reason.cause.message : reason.message
  }
}

const makeFailure = (message: string, { hint, ...details }: Details): Failure => {
  const error = clip(message, maxErrorChars)
  return {
    success: false,
    error,
    ...(hint === undefined ? {} : { hint: clip(hint, maxBodyChars - error.length) }),
    ...details
  }
}

/** Returns the form of an error for the model. */
export const toFailure = (error: Problem | PlatformError): Failure =>
  error._tag === "Problem" ? makeFailure(error.message, error.details) : makeFailure(describePlatformError(error), {})

/** Adds a hint to an error. */
export const addHint = (error: Problem | PlatformError, hint: string): Problem => {
  const [message, details] =
    error._tag === "Problem" ? [error.message, error.details] : [describePlatformError(error), {}]
  return new Problem({
    message,
    details: { ...details, hint: details.hint === undefined ? hint : `${details.hint} ${hint}` }
  })
}

/** Maps the failure of a handler to a result for the model. */
export const mapToFailure = <A, R>(
  effect: Effect.Effect<A, Problem | PlatformError, R>
): Effect.Effect<A, Failure, R> => Effect.mapError(effect, toFailure)
