/**
 * The errors with which a run can fail. A failed tool call is never here: it is an error result for the model. A run
 * that ends with anything to show is a `RunResult`, not an error (`ARCHITECTURE.md` §4).
 *
 * **Example** (One line for each way a run can fail)
 *
 * ```ts
 * import * as Effect from "effect/Effect"
 * import { Agent, AgentError, Runtime } from "hermes-effect"
 *
 * const told = (error: AgentError.AgentError): string =>
 *   error._tag === "InvalidInput" ? `nothing was asked: ${error.message}` : error.message
 *
 * const program = Agent.run({ prompt: "" }).pipe(
 *   Effect.map(({ text }) => text),
 *   Effect.catch((error) => Effect.succeed(told(error)))
 * )
 *
 * console.log((await Effect.runPromise(Effect.provide(program, Runtime.layer()))).split(":")[0])
 * // => nothing was asked
 * ```
 */
import * as Schema from "effect/Schema"
import * as AiError from "effect/ai/AiError"
import * as Json from "./Json.ts"

/**
 * A setting, flag, file or combination of them that cannot work. `message` is one line that names it and the remedy.
 */
export class ConfigError extends Schema.TaggedError<ConfigError>("hermes-effect/ConfigError")("ConfigError", {
  /** Place of the value: a dotted path of `config.yaml`, an environment variable or a flag. */
  path: Schema.String,
  message: Schema.String
}) {}

/** The session store could not read or write. `message` describes the failure and its remedy. */
export class SessionStoreError extends Schema.TaggedError<SessionStoreError>("hermes-effect/SessionStoreError")(
  "SessionStoreError",
  { operation: Schema.String, message: Schema.String, cause: Schema.optional(Schema.Defect()) }
) {}

/** No session of that id, or more than one that it could mean (`candidates`). */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>("hermes-effect/SessionNotFound")(
  "SessionNotFound",
  {
    sessionId: Schema.String,
    candidates: Schema.Array(Schema.String),
    /** The most likely intended id or title. */
    meant: Schema.optional(Schema.String),
    /** The folder of which the latest session was wanted. */
    folder: Schema.optional(Schema.String)
  }
) {
  override get message(): string {
    if (this.folder !== undefined) {
      return (
        `there is no session of this folder (${this.folder}): \`hermes sessions list\` lists those of ` +
        `others, \`--resume ID\` goes on with one`
      )
    }
    if (this.meant !== undefined) return `no session "${this.sessionId}": did you mean "${this.meant}"?`
    return this.candidates.length === 0
      ? `no session "${this.sessionId}": list them with \`hermes sessions list\``
      : `"${this.sessionId}" is not unique: ${this.candidates.join(", ")}`
  }
}

/** A second run was asked for on a session that has one under way, or that another process took over from this one. */
export class SessionBusy extends Schema.TaggedError<SessionBusy>("hermes-effect/SessionBusy")("SessionBusy", {
  sessionId: Schema.String,
  /** The process of the other run, where that is not this one. */
  pid: Schema.optional(Schema.Int)
}) {
  override get message(): string {
    const where = this.pid === undefined ? "" : ` in process ${this.pid}`
    return `session ${this.sessionId} is busy${where}: wait for its run to end, or stop it`
  }
}

/** An input of the user that cannot be sent: an empty prompt, an unreadable attachment. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>("hermes-effect/InvalidInput")("InvalidInput", {
  message: Schema.String
}) {}

/** The conversation exceeds the model's window, and every way to compact it was tried. */
export class CompressionExhausted extends Schema.TaggedError<CompressionExhausted>(
  "hermes-effect/CompressionExhausted"
)("CompressionExhausted", {
  message: Schema.String,
  /** The last refusal. */
  cause: AiError.AiError
}) {}

/** Middleware vetoed a call on purpose. The call fails with this error, regardless of the rest of the chain. */
export class ExecutionBlocked extends Schema.TaggedError<ExecutionBlocked>("hermes-effect/ExecutionBlocked")(
  "ExecutionBlocked",
  {
    reason: Schema.String,
    /** Facts for who looks into it; `checked_by` names the middleware that vetoed. */
    metadata: Schema.Record(Schema.String, Schema.Unknown)
  }
) {
  override get message(): string {
    return `blocked by middleware: ${this.reason}`
  }
}

/** Middleware registered with `onFailure: "closed"` failed by itself, so the call that it guards fails too. */
export class MiddlewareFailure extends Schema.TaggedError<MiddlewareFailure>("hermes-effect/MiddlewareFailure")(
  "MiddlewareFailure",
  { kind: Schema.String, middleware: Schema.String, cause: Schema.Defect() }
) {
  override get message(): string {
    const { cause }: { readonly cause: unknown } = this
    const why = cause instanceof Error ? `${cause.name}: ${cause.message}` : Json.toText(cause)
    return `${this.kind} middleware "${this.middleware}" failed and is registered to fail closed: ${why}`
  }
}

/** A plain function caught a failure from below and threw something else instead: a translation. */
export class TranslatedFailure extends Schema.TaggedError<TranslatedFailure>("hermes-effect/TranslatedFailure")(
  "TranslatedFailure",
  {
    kind: Schema.String,
    middleware: Schema.String,
    /** The thrown value. */
    thrown: Schema.Defect(),
    /** The error of the call below. */
    downstream: Schema.Defect()
  }
) {
  override get message(): string {
    const thrown: unknown = this.thrown
    return thrown instanceof Error ? thrown.message : String(thrown)
  }
}

/** Schema of every error of a run. */
export const AgentError = Schema.Union([
  AiError.AiError,
  ConfigError,
  SessionStoreError,
  SessionNotFound,
  SessionBusy,
  InvalidInput,
  CompressionExhausted,
  ExecutionBlocked,
  MiddlewareFailure,
  TranslatedFailure
])
/** Any error of a run. */
export type AgentError = typeof AgentError.Type
