/**
 * Decodes the parameters of bundled middleware as users write them, in code (camelCase) or in a file (snake_case), with
 * the Schema of the middleware. The error for an invalid parameter names the field and its expected type in one line.
 */
import * as Result from "effect/Result"
import * as Schema from "effect/Schema"
import { ConfigError } from "../../base/domain/AgentError.ts"
import type * as Middleware from "../../middleware/Middleware.ts"
import * as MiddlewareDefinition from "../../middleware/MiddlewareDefinition.ts"

/** Middleware that a settings file can name. `fromUnknown` decodes its parameters. */
export interface Definition {
  /** Name in settings files, such as `long-tool-output`. */
  readonly id: string
  /** Creates the middleware from unvalidated parameters. */
  readonly fromUnknown: (parameters: unknown) => Result.Result<Middleware.Contained, ConfigError>
}

/** Decodes the parameters of the middleware `id`; `undefined` means no parameters. */
export const read = <A>(id: string, schema: Schema.Decoder<A>, given: unknown): Result.Result<A, ConfigError> =>
  Result.mapError(MiddlewareDefinition.decode(schema, given), (problem) => {
    const path = [id, ...problem.path].join(".")
    return new ConfigError({ path, message: `${path}: ${problem.message}` })
  })

/** Parameters of middleware that applies to model calls or to tool calls. */
export const calls = {
  calls: Schema.optional(Schema.Literals(["model", "tool"])),
  tools: Schema.optional(Schema.Array(Schema.String))
}

/** {@link read} for parameters that include {@link calls}. Rejects `tools` unless `calls` is `tool`. */
export const readCalls = <
  A extends { readonly calls?: string | undefined; readonly tools?: ReadonlyArray<string> | undefined }
>(
  id: string,
  schema: Schema.Decoder<A>,
  given: unknown
): Result.Result<A, ConfigError> =>
  Result.flatMap(read(id, schema, given), (read) =>
    read.tools === undefined || read.calls === "tool"
      ? Result.succeed(read)
      : Result.fail(makeParameterError(id, "tools", "only for calls of tools: add calls: tool, or remove it"))
  )

/** Creates the error for a parameter that conflicts with the others. */
export const makeParameterError = (id: string, name: string, message: string): ConfigError =>
  new ConfigError({ path: `${id}.${name}`, message: `${id}.${name}: ${message}` })

/** Schema of a positive number of seconds. */
export const Seconds = Schema.Finite.check(Schema.isGreaterThan(0))

/** Schema of a positive integer. */
export const Positive = Schema.Int.check(Schema.isGreaterThanOrEqualTo(1))

/** Schema of a non-negative integer. */
export const NotNegative = Schema.Int.check(Schema.isGreaterThanOrEqualTo(0))
