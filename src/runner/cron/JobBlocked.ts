/**
 * Why a job can not be begun: something that it needs is not there. No model was asked.
 */
import * as Schema from "effect/Schema"

/** Reports why a job cannot run; the line says what to correct. */
export class JobBlocked extends Schema.TaggedError<JobBlocked>("hermes-effect/runner/JobBlocked")("JobBlocked", {
  message: Schema.String
}) {}
