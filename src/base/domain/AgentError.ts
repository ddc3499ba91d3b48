/**
 * The errors with which a run can fail. A failed tool call does not fail the run: the model receives an error result. A
 * run that ends with at least a partial answer returns a `RunResult`, not an error (`ARCHITECTURE.md` §4).
 *
 * **Example** (Describing each error of a run)
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
import { Exit } from "./RunEvent.ts"
import { Period } from "./Tenant.ts"

/**
 * A setting, flag, file or combination of them is invalid. `message` is one line that states the mistake and the
 * remedy.
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

/** No session has the id, or the id is ambiguous (`candidates`). */
export class SessionNotFound extends Schema.TaggedError<SessionNotFound>("hermes-effect/SessionNotFound")(
  "SessionNotFound",
  {
    sessionId: Schema.String,
    candidates: Schema.Array(Schema.String),
    /** The id or title that the user most likely meant. */
    meant: Schema.optional(Schema.String),
    /** The folder whose latest session was requested. */
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

/**
 * A run cannot start or continue, because its session already has another run, or because another process took over the
 * session.
 */
export class SessionBusy extends Schema.TaggedError<SessionBusy>("hermes-effect/SessionBusy")("SessionBusy", {
  sessionId: Schema.String,
  /** Id of the process of the other run; absent if it is this process. */
  pid: Schema.optional(Schema.Int)
}) {
  override get message(): string {
    const where = this.pid === undefined ? "" : ` in process ${this.pid}`
    return `session ${this.sessionId} is busy${where}: wait for its run to end, or stop it`
  }
}

/** User input cannot be sent, such as an empty prompt or an unreadable attachment. */
export class InvalidInput extends Schema.TaggedError<InvalidInput>("hermes-effect/InvalidInput")("InvalidInput", {
  message: Schema.String
}) {}

/** The conversation exceeds the context window of the model, and every way to compact it has failed. */
export class CompressionExhausted extends Schema.TaggedError<CompressionExhausted>(
  "hermes-effect/CompressionExhausted"
)("CompressionExhausted", {
  message: Schema.String,
  /** The last error of the provider. */
  cause: AiError.AiError
}) {}

/**
 * A run with an output schema ended without a value that fits it: the model was corrected as often as it may be, or the
 * run ended early (`exit`). The conversation is stored, and another run can continue it.
 */
export class InvalidOutput extends Schema.TaggedError<InvalidOutput>("hermes-effect/InvalidOutput")("InvalidOutput", {
  sessionId: Schema.String,
  /** The exit that the run would have had. */
  exit: Exit,
  /** The final text. */
  text: Schema.String,
  /** The mistakes of the last answer, by their places. */
  problem: Schema.String,
  /** Number of answers that were corrected before. */
  corrections: Schema.Int
}) {
  override get message(): string {
    if (this.exit === "suspended") {
      return (
        `session ${this.sessionId} waits for answers, so there is no value of the output schema yet: list its ` +
        "questions with Agent.questions, and resume it with their answers and the same schema"
      )
    }
    return this.exit === "text_response"
      ? `the answer does not fit the output schema${this.describeCorrections()}: ${this.problem}. ` +
          "Simplify the schema, or use another model"
      : `the run ended early (${this.exit}) without a value of the output schema: ${this.problem}`
  }

  private describeCorrections(): string {
    if (this.corrections === 0) return ""
    return this.corrections === 1 ? " after a correction" : ` after ${this.corrections} corrections`
  }
}

/** Middleware deliberately vetoed a call. The call fails with this error, regardless of the rest of the chain. */
export class ExecutionBlocked extends Schema.TaggedError<ExecutionBlocked>("hermes-effect/ExecutionBlocked")(
  "ExecutionBlocked",
  {
    reason: Schema.String,
    /** Details for diagnosis; `checked_by` names the middleware that vetoed the call. */
    metadata: Schema.Record(Schema.String, Schema.Unknown)
  }
) {
  override get message(): string {
    return `blocked by middleware: ${this.reason}`
  }
}

/**
 * Middleware failed, and the call that it wraps fails too: the middleware is registered with `onFailure: "closed"`, or
 * it interrupted the call itself, so that its result is unknown.
 */
export class MiddlewareFailure extends Schema.TaggedError<MiddlewareFailure>("hermes-effect/MiddlewareFailure")(
  "MiddlewareFailure",
  {
    kind: Schema.String,
    middleware: Schema.String,
    cause: Schema.Defect(),
    /** True if the middleware is registered as open, but interrupted the call itself. */
    isResultUnknown: Schema.optionalKey(Schema.Boolean)
  }
) {
  override get message(): string {
    const { cause }: { readonly cause: unknown } = this
    const why = cause instanceof Error ? `${cause.name}: ${cause.message}` : Json.toText(cause)
    const consequence =
      this.isResultUnknown === true
        ? "after it had interrupted its own call of next, so the result of the call is unknown"
        : "and is registered to fail closed"
    return `${this.kind} middleware "${this.middleware}" failed ${consequence}: ${why}`
  }
}

/** A plain JavaScript function caught the failure of the call that it wraps and threw another value instead. */
export class TranslatedFailure extends Schema.TaggedError<TranslatedFailure>("hermes-effect/TranslatedFailure")(
  "TranslatedFailure",
  {
    kind: Schema.String,
    middleware: Schema.String,
    /** The value that the function threw. */
    thrown: Schema.Defect(),
    /** The failure of the wrapped call. */
    downstream: Schema.Defect()
  }
) {
  override get message(): string {
    const thrown: unknown = this.thrown
    return thrown instanceof Error ? thrown.message : String(thrown)
  }
}

/**
 * A run or a model call was refused for its tenant: no such tenant is known, all its places for runs are taken, a price
 * is unknown, an allowance leaves no room, or its routes have no permitted key. A run that used up its allowance later
 * ends with a result instead (exit `budget_exhausted`).
 */
export class TenantRefused extends Schema.TaggedError<TenantRefused>("hermes-effect/TenantRefused")("TenantRefused", {
  tenant: Schema.String,
  reason: Schema.Literals(["unknown", "busy", "price", "allowance", "limits", "model", "route", "workspace"]),
  /** One line that names the limit and the remedy. */
  message: Schema.String,
  /** Period and kind of the allowance. */
  period: Schema.optionalKey(Period),
  kind: Schema.optionalKey(Schema.Literals(["tokens", "cost"])),
  /** Time at which the allowance is free again, in milliseconds since 1970. Absent for the allowance of a run. */
  freeAt: Schema.optionalKey(Schema.Finite)
}) {}

/** Schema of every error of a run. */
export const AgentError = Schema.Union([
  AiError.AiError,
  ConfigError,
  SessionStoreError,
  SessionNotFound,
  SessionBusy,
  InvalidInput,
  CompressionExhausted,
  InvalidOutput,
  ExecutionBlocked,
  MiddlewareFailure,
  TranslatedFailure,
  TenantRefused
])
/** Any error of a run. */
export type AgentError = typeof AgentError.Type
