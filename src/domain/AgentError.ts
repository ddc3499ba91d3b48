/**
 * Everything a run can fail with. A failed tool call is never here: it is an error result for the model. A run that ends
 * with anything to show is a `RunResult`, not an error (`ARCHITECTURE.md` §4).
 *
 * @since 0.1.0
 */
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"

/** A setting, flag, file or combination of them that can not work. `message` is one line that names it and the remedy. */
export class ConfigError extends Schema.TaggedError<ConfigError>("hermes-effect/ConfigError")("ConfigError", {
  /** Where the value stands: a dotted path of `config.yaml`, an environment variable or a flag. */
  path: Schema.String,
  message: Schema.String
}) {}

/** The session store could not read or write. `message` says what and what to do. */
export class SessionStoreError extends Schema.TaggedError<SessionStoreError>("hermes-effect/SessionStoreError")(
  "SessionStoreError",
  {
    operation: Schema.String,
    message: Schema.String,
    cause: Schema.optional(Schema.Defect())
  }
) {}

/** No session of that id, or more than one that it could mean (`candidates`). */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>("hermes-effect/SessionNotFound")(
  "SessionNotFound",
  {
    sessionId: Schema.String,
    candidates: Schema.Array(Schema.String)
  }
) {
  override get message(): string {
    return this.candidates.length === 0
      ? `no session "${this.sessionId}": list them with \`hermes sessions list\``
      : `"${this.sessionId}" is not unique: ${this.candidates.join(", ")}`
  }
}

/** A second run was asked for on a session that has one under way. */
export class SessionBusy extends Schema.TaggedError<SessionBusy>("hermes-effect/SessionBusy")("SessionBusy", {
  sessionId: Schema.String
}) {
  override get message(): string {
    return `session ${this.sessionId} is busy: wait for its run to end, or stop it`
  }
}

/** What the user asked can not be asked: an empty prompt, an unreadable attachment. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>("hermes-effect/InvalidInput")("InvalidInput", {
  message: Schema.String
}) {}

/** See the module. */
export const AgentError = Schema.Union([
  AiError.AiError,
  ConfigError,
  SessionStoreError,
  SessionNotFound,
  SessionBusy,
  InvalidInput
])
/** See the module. */
export type AgentError = typeof AgentError.Type
